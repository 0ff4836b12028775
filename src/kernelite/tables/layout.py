"""The layout of delimited text: its first lines in, delimiter, header and label column out.

Blank lines and lines that start with `#` are left out; a quoted cell may not run over several
lines.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from kernelite.errors import FileFormatError, InputError
from kernelite.tables.numbers import DECIMAL, quote

__all__ = ["BROKEN_QUOTES", "LABEL_NAMES", "Layout", "data_lines", "find_layout", "split_cells"]

LABEL_NAMES = ("label", "target", "class", "y")
"""Header cells, in any case, that mark the label column unless it is named."""

BROKEN_QUOTES = "has a quoted cell that does not end on the line"
"""What is wrong with a line that `split_cells` refuses."""

# What stands for a missing or wrong number in a table is no column name.
_NO_NAME = re.compile(r"(?:[+.-]?[0-9].*|[+-]?(?:nan|inf|infinity)|n/?a|null|none|\?|-|)", re.I)
_NO_LABEL = re.compile(r"(?:[+-]?(?:nan|inf|infinity)|[+-]?[0-9]*+,[0-9]++|)", re.I)
_BLANKS = re.compile(r"[ \t]++")

Line = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Layout:
    """How the lines of a delimited file are read.

    Parameters
    ----------
    delimiter : str
        One character; a blank stands for any run of blanks and tabs.
    n_cells : int
        Cells of every line.
    label_cell : int or None
        Position of the label, if there is one.
    text_labels : bool
        Whether labels are kept as text; else they must be numbers.
    names : tuple of str or None
        Feature names, when the file has a header.
    line : int
        The line that fixed the layout.

    Examples
    --------
    >>> find_layout([(1, "x1,x2,label"), (2, "0.5,1,cat")], path="a.csv").text_labels
    True
    """

    delimiter: str
    n_cells: int
    label_cell: int | None
    text_labels: bool
    names: tuple[str, ...] | None
    line: int

    @property
    def n_features(self) -> int:
        """Cells of a line that are not labels."""
        return self.n_cells - (self.label_cell is not None)


def data_lines(lines: Iterator[Line]) -> Iterator[Line]:
    """The lines that hold cells: blank lines and lines that start with `#` are left out.

    Parameters
    ----------
    lines : iterator of (int, str)
        Numbered lines of a file.

    Yields
    ------
    (int, str)
        Those with cells.

    Examples
    --------
    >>> list(data_lines(iter([(1, "# made by hand"), (2, " "), (3, "1,2")])))
    [(3, '1,2')]
    """
    for number, text in lines:
        if text.strip(" \t") and not text.startswith("#"):
            yield number, text


def find_layout(
    lines: Sequence[Line],
    *,
    path: str,
    delimiter: str | None = None,
    header: bool | Literal["auto"] = "auto",
    label_column: int | str | None = "auto",
    text_labels: bool = False,
) -> Layout:
    """Read the layout off the first two lines of data.

    Parameters
    ----------
    lines : sequence of (int, str)
        The first one or two lines of `data_lines`.
    path : str
        The file, for messages.
    delimiter : str, optional
        One character; by default the first of tab, `;`, `,` and blank that the first line holds.
    header : bool or "auto"
        "auto": the first line is a header if a cell outside the label column is a name, that is,
        neither empty nor number-like (a typing error such as `1.2x` or a `nan` is not a name).
    label_column : int, str, None or "auto"
        Position from 0 (negative: from the end), name in the header, or None for no label.
        "auto": the one column called label, target, class or y, in any case.
    text_labels : bool
        Keep labels as text even if the first is a number.

    Returns
    -------
    Layout
        With numeric labels if the first label is a number.

    Examples
    --------
    >>> find_layout([(1, "1;2")], path="a.csv").delimiter
    ';'
    """
    number, first = lines[0]
    delimiter = _guess_delimiter(first) if delimiter is None else delimiter
    split = split_cells(first, delimiter)
    if split is None:
        raise FileFormatError(path, f"{quote(first)} {BROKEN_QUOTES}", line=number)
    cells = [cell.strip() for cell in split]
    label = _position(label_column, len(cells), path) if isinstance(label_column, int) else None
    if header == "auto":
        header = any(_NO_NAME.fullmatch(cell) is None for i, cell in enumerate(cells) if i != label)
    names = tuple(cells) if header else None
    if isinstance(label_column, str):
        label = _named(label_column, names, path)
    if label is not None:
        if len(cells) == 1:
            raise FileFormatError(path, "there is no column beside the label", line=number)
        names = None if names is None else names[:label] + names[label + 1 :]
        sample = split_cells(lines[header and len(lines) > 1][1], delimiter) or []
        text_labels = text_labels or (label < len(sample) and _is_text(sample[label].strip()))
    return Layout(delimiter, len(cells), label, text_labels, names, number)


def split_cells(text: str, delimiter: str) -> list[str] | None:
    """The cells of a line, or None if its quotes do not match.

    Parameters
    ----------
    text : str
        One line.
    delimiter : str
        One character; a blank stands for any run of blanks and tabs.

    Returns
    -------
    list of str or None
        Cells without their quotes.

    Examples
    --------
    >>> split_cells('1,"2",3', ","), split_cells('1,"2', ",")
    (['1', '2', '3'], None)
    """
    if delimiter == " ":
        return _BLANKS.split(text.strip(" \t"))
    if '"' not in text:
        return text.split(delimiter)
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True))
    except csv.Error:
        return None


def _guess_delimiter(line: str) -> str:
    return next((mark for mark in "\t;, " if mark in line.strip(" \t")), ",")


def _is_text(label: str) -> bool:
    """Whether the first label of a file is a name; what looks like a bad number is none."""
    return re.fullmatch(DECIMAL, label) is None and _NO_LABEL.fullmatch(label) is None


def _position(column: int, n_cells: int, path: str) -> int:
    if -n_cells <= column < n_cells:
        return column % n_cells
    raise InputError(f"`label_column` is {column}, but `{path}` has {n_cells} columns")


def _named(column: str, names: tuple[str, ...] | None, path: str) -> int | None:
    if column != "auto":
        if names is None:
            raise InputError(f"`label_column` is {column!r}, but `{path}` has no header")
        if names.count(column) != 1:
            known = ", ".join(map(quote, names[:10])) + (", ..." if len(names) > 10 else "")
            raise InputError(
                f"`label_column` is {column!r}, which is not one column of `{path}`: {known}"
            )
        return names.index(column)
    found = [i for i, name in enumerate(names or ()) if name.lower() in LABEL_NAMES]
    if len(found) > 1 and names is not None:
        several = " and ".join(quote(names[i]) for i in found)
        raise FileFormatError(
            path, f"columns {several} both may be labels, say which with `label_column`"
        )
    return found[0] if found else None
