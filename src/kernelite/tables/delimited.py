"""Delimited text (CSV, TSV, blanks): numbered lines in, a dense block and labels out.

`accept` decides for a whole block at once which lines are right; what it leaves out, `problems`
takes apart cell by cell to say why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelite.tables.defects import Report, report_row
from kernelite.tables.layout import BROKEN_QUOTES, Layout, split_cells
from kernelite.tables.numbers import DECIMAL, BadNumber, parse_float, quote

__all__ = ["DenseBlock", "parse_block"]

# Cells are rejoined by line ends, the one character that no cell can hold.
_CELL = rf"[ \t]*+{DECIMAL}[ \t]*+"
_CELLS = re.compile(rf"{_CELL}(?:\n{_CELL})*+")

Line = tuple[int, str]


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
    >>> from kernelite.tables.layout import find_layout
    >>> layout = find_layout([(1, "1,2,3")], path="a.csv", label_column=0)
    >>> parse_block([(1, "1,2,3")], layout, print)
    DenseBlock(values=array([[2., 3.]]), labels=array([1.]))
    """

    values: NDArray[np.float64]
    labels: NDArray[np.float64] | NDArray[np.str_] | None


def parse_block(lines: Sequence[Line], layout: Layout, report: Report) -> DenseBlock:
    """Parse rows; those with a defect are reported, in order, and left out.

    Parameters
    ----------
    lines : sequence of (int, str)
        Numbered lines of data, without the header.
    layout : Layout
        What every line must look like.
    report : callable
        Called with each `Defect`.

    Returns
    -------
    DenseBlock
        The rows without defects; values are correctly rounded, as by `float`.

    Examples
    --------
    >>> from kernelite.tables.layout import find_layout
    >>> layout = find_layout([(1, "1,2")], path="a.csv")
    >>> block = parse_block([(1, "1,2"), (2, "3")], layout, lambda defect: print(defect.problem))
    the row `3` has 1 cell, expected 2 as on line 1
    """
    block, good = _accept(lines, layout)
    if good.all():
        return block
    for (number, text), fine in zip(lines, good):
        if not fine:
            report_row(number, _problems(text, layout), report)
    block, _ = _accept([line for line, fine in zip(lines, good) if fine], layout)
    return block


def _accept(lines: Sequence[Line], layout: Layout) -> tuple[DenseBlock, NDArray[np.bool_]]:
    """The rows that are right, and which these are; meaningful as a block when all are."""
    features: list[str] = []
    labels: list[str] = []
    good = np.zeros(len(lines), dtype=bool)
    for i, (_, text) in enumerate(lines):
        cells = split_cells(text, layout.delimiter)
        if cells is None or len(cells) != layout.n_cells:
            continue
        label = None if layout.label_cell is None else cells.pop(layout.label_cell).strip(" \t")
        joined = "\n".join(cells)
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
    labels: Sequence[str], layout: Layout
) -> NDArray[np.float64] | NDArray[np.str_] | None:
    if layout.label_cell is None:
        return None
    if layout.text_labels:
        return np.array(labels, dtype=np.str_)
    return np.array([float(label) for label in labels], dtype=np.float64)


def _problems(text: str, layout: Layout) -> Iterator[tuple[str, str]]:
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
                parse_float(cell.strip(" \t"), f"{_column(i, layout)}: cell")
        except BadNumber as error:
            yield cell, str(error)


def _column(i: int, layout: Layout) -> str:
    """A feature's column in words, with its name if the file has names."""
    if layout.names is None:
        return f"column {i + 1}"
    before = layout.label_cell is not None and i > layout.label_cell
    return f"column {i + 1} ({quote(layout.names[i - before])})"


def _label_problem(label: str | None, layout: Layout) -> str | None:
    if label is None:
        return None
    if layout.text_labels:
        return None if label else "the label is missing"
    try:
        parse_float(label, "label")
    except BadNumber as error:
        return str(error)
    return None
