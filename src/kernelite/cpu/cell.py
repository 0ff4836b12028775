"""One cell's engines: its form with the O(1) bound, then what open rows get.

In: dense rows. Out: scores and bounds of the first tier, or of the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kernelite.cpu.blas import Evaluated, cubic_values
from kernelite.cpu.forms import FormEngine, form_bounds
from kernelite.cpu.kernels.compiling import jit_available, ready
from kernelite.cpu.paired import PairedEngine
from kernelite.rows.inputs import FloatArray
from kernelite.series.cells import Cell
from kernelite.series.cubic import CubicForm
from kernelite.series.quadratic import QuadraticForm

if TYPE_CHECKING:
    from kernelite.cpu.kernels.third_dense import JitThird

__all__ = ["CellEngine"]


@dataclass(frozen=True, eq=False)
class CellEngine:
    """A cell's first tier, and its second: the full form, or all up to the third order fused."""

    cell: Cell
    first: FormEngine
    full: FormEngine | None
    third: JitThird | None
    fused: bool = True

    @classmethod
    def prepare(cls, cell: Cell, *, fused: bool) -> CellEngine:
        """Lay out the forms of one cell."""
        full = third = None
        if cell.full is not None:
            full = FormEngine.prepare(Cell(cell.full, cell.certificate), fused=fused)
        if fused and isinstance(cell.cubic, CubicForm) and jit_available():
            third = _third_engine(cell)
        return cls(cell, FormEngine.prepare(cell, fused=fused), full, third, fused)

    @property
    def third_now(self) -> JitThird | None:
        """The second tier on its kernel, unless that has still to be compiled."""
        if self.third is None:
            return None
        from kernelite.cpu.kernels import third_dense

        return self.third if ready(third_dense.third_kernel) else None

    @cached_property
    def paired(self) -> PairedEngine | None:
        """A product that stands for the third order, where one can be had."""
        return PairedEngine.prepare(self.cell, fused=self.fused)

    def second(
        self, rows: FloatArray, evaluated: Evaluated | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Scores and bounds of the second tier, as far as the cell has it.

        The untruncated form; with it the third order, evaluated or bounded along each row's
        direction. `evaluated` is what the first tier found.
        """
        third_now = self.third_now
        if third_now is not None:
            from kernelite.cpu.kernels import third_dense

            return third_dense.scores(third_now, rows)
        cell, form = self.cell, self.cell.form
        certificate, cubic = cell.certificate, cell.cubic
        assert certificate is not None
        if self.full is not None:
            evaluated, bounds = self.full.run(rows, bounded=cubic is None)
            form = self.full.form
            if bounds is not None:
                return evaluated.scores, bounds
        elif evaluated is None:
            evaluated, _ = self.first.run(rows, bounded=False)
        assert cubic is not None
        with np.errstate(over="ignore", under="ignore"):
            U = rows - form.point
            damping = np.exp(-form.gamma * evaluated.sq_norms)
        if not isinstance(cubic, CubicForm):
            bounds = form_bounds(form, certificate, evaluated, degree=3)
            return evaluated.scores, bounds + cubic.bound(U, evaluated.sq_norms, damping)
        with np.errstate(over="ignore", invalid="ignore"):
            Y = U if cubic.basis is None else U @ cubic.basis
            third = cubic_values(cubic.packed, Y)
            third *= damping[:, None]
            norms, kept = np.sqrt(evaluated.sq_norms), np.sqrt(np.einsum("ij,ij->i", Y, Y))
        third[damping == 0.0] = 0.0
        evaluated = evaluated._replace(scores=evaluated.scores + third)
        bounds = form_bounds(form, certificate, evaluated, degree=3)
        return evaluated.scores, bounds + cubic.tail_bound(norms, kept, damping)


def _third_engine(cell: Cell) -> JitThird | None:
    form = cell.form if cell.full is None else cell.full
    if not isinstance(form, QuadraticForm) or cell.certificate is None:
        return None
    assert isinstance(cell.cubic, CubicForm)
    from kernelite.cpu.kernels import third_dense

    return third_dense.prepare(form, cell.cubic, cell.certificate)
