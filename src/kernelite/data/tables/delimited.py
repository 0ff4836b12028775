"""Delimited text (CSV, TSV, blanks): its layout, then its lines as a dense block and labels.

The layout: the first lines in, delimiter, header and label column out.

Blank lines and lines that start with `#` are left out; a quoted cell may not run over several
lines.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.data.tables.parsing import (
    DECIMAL,
    BadNumber,
    Line,
    Report,
    parse_float,
    quote,
    right_lines,
    without_truth_values,
)
from kernelite.support.errors import FileFormatError, InputError

__all__ = ["LABEL_NAMES", "TextLayout", "data_lines", "find_layout", "parse_block"]

LABEL_NAMES = ("label", "target", "class", "y")
"""Header cells, in any case, that mark the label column unless it is named."""

BROKEN_QUOTES = "has a quoted cell that does not end on the line"
"""What is wrong with a line that `split_cells` refuses."""

# What stands for a missing or wrong number in a table is no column name.
_NO_NAME = re.compile(
    r"(?:[+.-]?[0-9].*|[+-]?(?:nan|inf|infinity)|true|false|n/?a|null|none|\?|-|)", re.I
)
_NO_LABEL = re.compile(r"(?:[+-]?(?:nan|inf|infinity)|[+-]?[0-9]*+,[0-9]++|)", re.I)
_BLANKS = re.compile(r"[ \t]++")
_QUOTED = re.compile(r'"(?:[^"]++|"")*+"')


@dataclass(frozen=True, slots=True)
class TextLayout:
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
) -> TextLayout:
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
    TextLayout
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
    return TextLayout(delimiter, len(cells), label, text_labels, names, number)


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
    bare = _QUOTED.sub("", line).strip(" \t")  # a name in quotes may hold any of them
    return next((mark for mark in "\t;, " if mark in bare), ",")


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


# Delimited text (CSV, TSV, blanks): numbered lines in, a dense block and labels out.
#
# `accept` decides for a whole block at once which lines are right; what it leaves out, `problems`
# takes apart cell by cell to say why.


# Cells are rejoined by line ends, the one character that no cell can hold.
_CELL = rf"[ \t]*+{DECIMAL}[ \t]*+"
_CELLS = re.compile(rf"{_CELL}(?:\n{_CELL})*+")


@dataclass(frozen=True, slots=True)
class DenseBlock:
    """Consecutive rows of a delimited file.

    Parameters
    ----------
    values : ndarray of shape (n, d)
        Finite doubles.
    labels : ndarray of shape (n,) or None
        Numbers or text; None when there is no label column.

    Examples
    --------
    >>> from kernelite.data.tables.delimited import find_layout
    >>> layout = find_layout([(1, "1,2,3")], path="a.csv", label_column=0)
    >>> parse_block([(1, "1,2,3")], layout, print)
    DenseBlock(values=array([[2., 3.]]), labels=array([1.]))
    """

    values: NDArray[np.float64]
    labels: NDArray[np.float64] | NDArray[np.object_] | None


def parse_block(lines: Sequence[Line], layout: TextLayout, report: Report) -> DenseBlock:
    """Parse rows; those with a defect are reported, in order, and left out.

    Parameters
    ----------
    lines : sequence of (int, str)
        Numbered lines of data, without the header.
    layout : TextLayout
        What every line must look like.
    report : callable
        Called with each `Defect`.

    Returns
    -------
    DenseBlock
        The rows without defects; values are correctly rounded, as by `float`.

    Examples
    --------
    >>> from kernelite.data.tables.delimited import find_layout
    >>> layout = find_layout([(1, "1,2")], path="a.csv")
    >>> block = parse_block([(1, "1,2"), (2, "3")], layout, lambda defect: print(defect.problem))
    the row `3` has 1 cell, expected 2 as on line 1
    """
    block, good = _accept(lines, layout)
    if good.all():
        return block
    kept = right_lines(lines, good.tolist(), lambda text: _problems(text, layout), report)
    return _accept(kept, layout)[0]


def _accept(lines: Sequence[Line], layout: TextLayout) -> tuple[DenseBlock, NDArray[np.bool_]]:
    """The rows that are right, and which these are; meaningful as a block when all are."""
    features: list[str] = []
    labels: list[str] = []
    good = np.zeros(len(lines), dtype=bool)
    for i, (_, text) in enumerate(lines):
        cells = split_cells(text, layout.delimiter)
        if cells is None or len(cells) != layout.n_cells:
            continue
        label = None if layout.label_cell is None else cells.pop(layout.label_cell).strip(" \t")
        joined = without_truth_values("\n".join(cells))
        if _CELLS.fullmatch(joined) and _label_problem(label, layout) is None:
            good[i] = True
            features.append(joined)
            labels.append(label or "")
    # NumPy converts each number by Python's own correctly rounded, locale-free routine.
    numbers = np.fromstring("\n".join(features), dtype=np.float64, sep=" ")
    numbers = numbers.reshape(len(features), layout.n_features)
    good[good] = np.isfinite(numbers).all(axis=1)
    return DenseBlock(numbers, _as_labels(labels, layout)), good


def _as_labels(
    labels: Sequence[str], layout: TextLayout
) -> NDArray[np.float64] | NDArray[np.object_] | None:
    if layout.label_cell is None:
        return None
    if layout.text_labels:
        return np.array(labels, dtype=object)  # of fixed width, all would be as long as the longest
    return np.array([float(label) for label in labels], dtype=np.float64)


def _problems(text: str, layout: TextLayout) -> Iterator[tuple[str, str]]:
    cells = split_cells(text, layout.delimiter)
    if cells is None:
        yield text, f"{quote(text)} {BROKEN_QUOTES}"
        return
    if len(cells) != layout.n_cells:
        count = f"{len(cells)} cell{'s' if len(cells) != 1 else ''}"
        expected = f"{layout.n_cells} as on line {layout.line}"
        yield text, f"the row {quote(text)} has {count}, expected {expected}"
        return
    for i, cell in enumerate(cells):
        try:
            if i == layout.label_cell:
                problem = _label_problem(cell.strip(" \t"), layout)
                if problem is not None:
                    yield cell, problem
            else:
                number = without_truth_values(cell.strip(" \t"))
                parse_float(number, f"{_column(i, layout)}: cell")
        except BadNumber as error:
            yield cell, f"{error}{_cure_of_text(layout)}"


def _cure_of_text(layout: TextLayout) -> str:
    """What to do about a column of text, such as an id, if what reads it is not there."""
    if layout.names is None or find_spec("pyarrow") is not None:
        return ""
    return "; beside columns of text, rows are read with pyarrow (pip install pyarrow)"


def _column(i: int, layout: TextLayout) -> str:
    """A feature's column in words, with its name if the file has names."""
    if layout.names is None:
        return f"column {i + 1}"
    before = layout.label_cell is not None and i > layout.label_cell
    return f"column {i + 1} ({quote(layout.names[i - before])})"


def _label_problem(label: str | None, layout: TextLayout) -> str | None:
    if label is None:
        return None
    if layout.text_labels:
        return None if label else "the label is missing"
    try:
        parse_float(label, "label")
    except BadNumber as error:
        return str(error)
    return None
