"""A form with a product for its third order: between the first tier and the second.

    f = E (c + v.u + u'Mu + (a.u) (u'Bu)) + b,     |error| <= rho_4 sqrt(P) + E rest |u|^3 + ...

In: a cell that holds its third order in full. Out: scores and bounds of rows, hardly dearer than
the first tier's. It is made of the cell's own arrays when it is first wanted, and stored nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernelite.cpu.forms import form_bounds
from kernelite.cpu.kernels.compiling import jit_available
from kernelite.program.bounded import Bounded
from kernelite.rows.inputs import FloatArray
from kernelite.series.cells import Cell
from kernelite.series.certificate import Certificate
from kernelite.series.cubic import CubicForm, packed_size
from kernelite.series.paired import PairedCubic, may_pair, paired_cubic
from kernelite.series.quadratic import QuadraticForm

if TYPE_CHECKING:
    from kernelite.cpu.kernels.third_dense import JitThird

__all__ = ["PairedEngine"]

GATHERED = 3000.0  # multiply-adds in the time that it takes to pick out a row and put it back


@dataclass(frozen=True, eq=False)
class PairedEngine:
    """A form and its product, ready to run.

    Parameters
    ----------
    form : QuadraticForm
    paired : PairedCubic
    certificate : Certificate
        The form's, with the rounding of the product.
    fused : JitThird, optional
        The same laid out for the kernel, with the certificate that the first tier has.
    """

    form: QuadraticForm
    paired: PairedCubic
    certificate: Certificate
    fused: JitThird | None

    @property
    def worth(self) -> float:
        """The share of rows it may leave to the second tier and still be worth its time."""
        d, k = self.form.n_features, self.form.n_outputs
        whole = k * packed_size(d) + d * d
        return max(0.0, (whole - d * d - 2.0 * k * (d + 20)) / (whole + GATHERED))

    @classmethod
    def prepare(cls, cell: Cell, *, fused: bool) -> PairedEngine | None:
        """Fit the product, where the cell has what it takes; `fused=False` keeps to BLAS."""
        form, cubic, certificate = cell.form, cell.cubic, cell.certificate
        whole = isinstance(form, QuadraticForm) and isinstance(cubic, CubicForm)
        if not whole or certificate is None:
            return None
        assert isinstance(form, QuadraticForm)
        assert isinstance(cubic, CubicForm)
        held = cubic.basis is None and bool(np.isfinite(cubic.packed).all())
        if not held or not may_pair(form.n_features, form.n_outputs):
            return None
        paired = paired_cubic(cubic)
        ready = None
        if fused and jit_available():
            from kernelite.cpu.kernels import third_dense

            ready = third_dense.prepare_paired(form, paired, certificate)
        return cls(form, paired, paired.widened(certificate), ready)

    def run(self, rows: FloatArray, previous: Bounded) -> Bounded:
        """Scores and bounds, given what the first form found: the fused kernel's twin."""
        assert previous.sq_norms is not None
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            damping = np.exp(-self.form.gamma * previous.sq_norms)
            third = self.paired.values(rows - self.form.point) * damping[:, None]
        third[damping == 0.0] = 0.0
        found = previous._replace(scores=previous.scores + third, bounds=None)
        bounds = form_bounds(self.form, self.certificate, found, degree=3)
        left_out = self.paired.bound(np.sqrt(previous.sq_norms), damping)
        return found._replace(bounds=bounds + left_out)
