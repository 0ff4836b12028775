"""One cell's forms: the first with its O(1) bound, then what open rows get.

In: rows. Out: scores and bounds of the first form, or of the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kernelite.cpu.forms import FormEngine, form_bounds
from kernelite.cpu.kernels.compiling import jit_available, ready
from kernelite.cpu.paired import PairedEngine
from kernelite.program.bounded import Bounded
from kernelite.rows.inputs import FloatArray
from kernelite.series.cells import Cell
from kernelite.series.cubic import CubicForm
from kernelite.series.quadratic import QuadraticForm
from kernelite.series.series import SeriesForm

if TYPE_CHECKING:
    from kernelite.cpu.kernels.third_dense import JitThird

__all__ = ["CellEngine"]


@dataclass(frozen=True, eq=False)
class CellEngine:
    """A cell's first form, and its second: in full, or all up to the third order in one kernel."""

    cell: Cell
    first: FormEngine
    full: FormEngine | None
    third: JitThird | None
    fused: bool = True

    @classmethod
    def prepare(cls, cell: Cell, *, fused: bool) -> CellEngine:
        """Lay out the forms of one cell; `fused=False` keeps to the definitions."""
        full = third = None
        if cell.full is not None:
            full = FormEngine(cell.full, cell.certificate, fused).lay_out()
        if fused and isinstance(cell.cubic, CubicForm) and jit_available():
            third = _third_engine(cell)
        first = FormEngine(cell.form, cell.certificate, fused).lay_out()
        return cls(cell, first, full, third, fused)

    @property
    def third_now(self) -> JitThird | None:
        """The second form on its kernel, unless that has still to be compiled."""
        if self.third is None:
            return None
        from kernelite.cpu.kernels import third_dense

        return self.third if ready(third_dense.third_kernel) else None

    @cached_property
    def paired(self) -> PairedEngine | None:
        """A product that stands for the third order, where one can be had."""
        return PairedEngine.prepare(self.cell, fused=self.fused)

    def second(self, rows: FloatArray, previous: Bounded | None = None) -> Bounded:
        """Scores and bounds of the second form, as far as the cell has it.

        The untruncated form; with it the third order, evaluated or bounded along each row's
        direction. `previous` is what the first form found.
        """
        if (third_now := self.third_now) is not None:
            from kernelite.cpu.kernels import third_dense

            return third_dense.scores(third_now, rows)
        cell = self.cell
        form: SeriesForm = cell.form
        certificate, cubic = cell.certificate, cell.cubic
        assert certificate is not None
        if self.full is not None:
            previous, form = self.full.run(rows, bounded=cubic is None), self.full.form
            if cubic is None:
                return previous
        elif previous is None:
            previous = self.first.run(rows, bounded=False)
        assert cubic is not None
        assert previous.sq_norms is not None
        with np.errstate(over="ignore", under="ignore"):
            U = rows - form.point
            damping = np.exp(-form.gamma * previous.sq_norms)
        third, left_out = cubic.term(U, previous.sq_norms, damping)
        found = previous._replace(scores=previous.scores + third, bounds=None)
        return found._replace(bounds=form_bounds(form, certificate, found, degree=3) + left_out)


def _third_engine(cell: Cell) -> JitThird | None:
    form = cell.form if cell.full is None else cell.full
    if not isinstance(form, QuadraticForm) or cell.certificate is None:
        return None
    assert isinstance(cell.cubic, CubicForm)
    from kernelite.cpu.kernels import third_dense

    return third_dense.prepare(form, cell.cubic, cell.certificate)
