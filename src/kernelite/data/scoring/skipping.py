"""Bad rows: by default the first one stops a file; here they are skipped, and written down.

In: defects from the readers of text, and blocks of rows that a model refuses. Out: a CSV file with
a line for each row that was skipped (file, line or row, problem), and the blocks without them.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.tables.columnar.library import TablePart, arrow, first_defect, is_numeric
from kernelite.data.tables.parsing import Defect, Report, raise_first
from kernelite.support.errors import FileFormatError, InputError, KerneliteError
from kernelite.support.files import atomic_write

if TYPE_CHECKING:
    from kernelite.data.scoring.streams import Block

__all__ = ["Skipped", "good_rows", "halves", "open_skipped"]

SKIPPED_HEADER = ("file", "line", "row", "problem")


class Skipped:
    """Rows that were skipped, told as they are met; readers are threads of their own.

    Parameters
    ----------
    tell : callable
        Of file, line, row and problem; of line and row, one is None.
    """

    def __init__(self, tell: Callable[[str, int | None, int | None, str], object]) -> None:
        self.count = 0
        self._first: str | None = None
        self._tell, self._lock = tell, Lock()

    def add(
        self, path: str, problem: str, *, line: int | None = None, row: int | None = None
    ) -> None:
        """Tell one row, with its line or its number, both counted from 1."""
        with self._lock:
            self.count += 1
            place = f"row {row}: " if line is None else ""
            self._first = self._first or str(FileFormatError(path, place + problem, line=line))
            self._tell(path, line, row, problem)

    def report(self, path: str) -> Report:
        """What a reader of text tells its defects to: those of a row skip it, others stop."""
        seen: set[int | None] = {None}

        def report(defect: Defect) -> None:
            if defect.line in seen and defect.line is not None:
                return  # one line in the file for each row
            if defect.line is None or defect.token is None:
                raise_first(path)(defect)  # about the whole file
            seen.add(defect.line)
            self.add(path, defect.problem, line=defect.line)

        return report

    def refuse_if_all(self, path: str, before: int, rows: int) -> None:
        """Stop where no row was good: such a file is another file than was meant."""
        skipped = self.count - before
        if skipped and not rows:
            raise FileFormatError(
                path, f"all of its {skipped:,} rows are bad; the first one: {self._first}"
            )


@contextmanager
def open_skipped(
    path: str | os.PathLike[str], answers: str | os.PathLike[str]
) -> Iterator[Skipped]:
    """The file that skipped rows are written to, beside one of answers; whole, or not at all."""
    if os.path.realpath(path) == os.path.realpath(answers):
        raise InputError(f"`{os.fspath(path)}` gets the answers; name another for skipped rows.")
    with atomic_write(path) as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(SKIPPED_HEADER)
        yield Skipped(lambda *told: lines.writerow(told))


def good_rows(path: str, part: TablePart, columns: tuple[str, ...], skipped: Skipped) -> TablePart:
    """The rows of a part whose numbers are there and finite; the others are skipped."""
    batch, compute = part.batch, arrow("compute")
    good = np.ones(batch.num_rows, dtype=bool)
    for name in columns:
        column = batch.column(batch.schema.get_field_index(name))
        if not is_numeric(column.type):
            return part  # the whole column is wrong, which is said where rows are taken
        good &= column.is_valid().to_numpy(zero_copy_only=False)
        if arrow().types.is_floating(column.type):
            finite = compute.is_finite(column).fill_null(False)
            good &= finite.to_numpy(zero_copy_only=False)
    if good.all():
        return part
    for index in np.flatnonzero(~good):
        own = TablePart(batch.slice(index, 1), part.where, int(part.row_numbers()[index]))
        skipped.add(path, first_defect(own, columns, at=False) or "", row=own.first_row + 1)
    kept = batch.filter(arrow().array(good))
    return TablePart(kept, part.where, part.first_row, part.row_numbers()[good])


def halves(block: Block, error: KerneliteError, skipped: Skipped) -> list[Block]:
    """A block that a model refuses, in two; none for one row, which is skipped."""
    if block.part is None:
        raise error
    count = len(block.rows)
    if count == 1:
        problem = getattr(error, "problem", str(error))
        row = int(block.part.row_numbers()[0]) + 1
        skipped.add(block.path, problem.removeprefix(f"row {row}: "), row=row)
        return []
    return [_some(block, slice(0, count // 2)), _some(block, slice(count // 2, count))]


def _some(block: Block, rows: slice) -> Block:
    """Some rows of a block."""
    assert block.part is not None

    def cut(values: NDArray[Any] | None) -> Any:
        return None if values is None else values[rows]

    frame = getattr(block.rows, "iloc", block.rows)
    return replace(
        block,
        rows=frame[rows],
        beyond=cut(block.beyond),
        truth=cut(block.truth),
        known=cut(block.known),
        part=block.part.some(rows),
    )
