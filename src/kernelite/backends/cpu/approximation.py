"""An approximation's forms: the first with its O(1) bound, then what open rows get.

In: rows. Out: scores and bounds of the first form, or of the second, or of one between them in
which a product stands for the third order.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kernelite.backends.cpu.forms import FormEngine
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.data.rows.inputs import FloatArray
from kernelite.program.bounded import Bounded
from kernelite.series.approximation import Approximation
from kernelite.series.certificate import Certificate
from kernelite.series.cubic import CubicForm, packed_size
from kernelite.series.directional import PairedCubic, may_pair, paired_cubic
from kernelite.series.rounding import damped, damping
from kernelite.series.series import Evaluated, QuadraticForm
from kernelite.support.records import dataclass

if TYPE_CHECKING:
    from kernelite.backends.cpu.kernels.behind import Link
    from kernelite.backends.cpu.kernels.third_dense import JitThird

__all__ = ["ApproximationEngine", "PairedEngine"]

# A form with a product for its third order: between the first tier and the second.
#
#     f = E (c + v.u + u'Mu + (a.u) (u'Bu)) + b,     |error| <= rho_4 sqrt(P) + E rest |u|^3 + ...
#
# In: an approximation with its third order in full. Out: scores and bounds of rows, hardly dearer
# than the first form's. It is made when it is first wanted, and stored nowhere.

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
    def prepare(cls, approximation: Approximation, *, fused: bool) -> PairedEngine | None:
        """Fit the product, where that can be done; `fused=False` keeps to BLAS."""
        form, cubic = approximation.form, approximation.cubic
        certificate = approximation.certificate
        if not isinstance(form, QuadraticForm) or not isinstance(cubic, CubicForm):
            return None
        if certificate is None:
            return None
        held = cubic.basis is None and bool(np.isfinite(cubic.packed).all())
        if not held or not may_pair(form.n_features, form.n_outputs):
            return None
        paired = paired_cubic(cubic)
        kernel = None
        if fused and jit_available():
            from kernelite.backends.cpu.kernels import third_dense

            kernel = third_dense.prepare_paired(form, paired, certificate)
        return cls(form, paired, paired.widened(certificate), kernel)

    def run(self, rows: FloatArray, previous: Bounded) -> Bounded:
        """Scores and bounds, given what the first form found: the fused kernel's twin."""
        assert previous.sq_norms is not None
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            factor = damping(previous.sq_norms, self.form.gamma)
            third = damped(self.paired.values(rows - self.form.point), factor)
        found = Evaluated(previous.scores + third, previous.sq_norms)
        bounds = self.form.bounds(self.certificate, found, 3)
        left_out = self.paired.bound(np.sqrt(previous.sq_norms), factor[:, 0])
        return previous._replace(scores=found.scores, bounds=bounds + left_out)


# The approximation itself: its first form, and its second.


@dataclass(frozen=True, eq=False)
class ApproximationEngine:
    """A first form, and a second: in full, or all up to the third order in one kernel."""

    approximation: Approximation
    first: FormEngine
    full: FormEngine | None
    third: JitThird | None
    fused: bool = True

    @classmethod
    def prepare(cls, approximation: Approximation, *, fused: bool) -> ApproximationEngine:
        """Lay out the forms; `fused=False` keeps to the definitions."""
        full, third, certificate = None, None, approximation.certificate
        if approximation.full is not None:
            full = FormEngine(approximation.full, certificate, fused).lay_out()
        if fused and jit_available():
            third = _third_engine(approximation)
        first = FormEngine(approximation.form, certificate, fused).lay_out()
        return cls(approximation, first, full, third, fused)

    @cached_property
    def paired(self) -> PairedEngine | None:
        """A product that stands for the third order, where one can be had."""
        return PairedEngine.prepare(self.approximation, fused=self.fused)

    def inside_second(self, numbers: int) -> Link | None:
        """The second form as the kernel of the first one calls it; None where it cannot.

        `numbers` are those of all centers, which are summed over next.
        """
        if self.third is None:
            return None
        from kernelite.backends.cpu.kernels.third_dense import open_rows_link

        return open_rows_link(self.third, numbers)

    def second(self, rows: FloatArray, previous: Bounded | None = None) -> Bounded:
        """Scores and bounds of the second form: untruncated, and with the third order or its bound.

        `previous` is what the first form found.
        """
        if self.third is not None:
            from kernelite.backends.cpu.kernels import third_dense

            return third_dense.scores(self.third, rows)
        first: Evaluated | None = None
        if self.full is not None:
            previous = self.full.run(rows, bounded=self.approximation.cubic is None)
            if self.approximation.cubic is None:
                return previous
        if previous is not None:
            assert previous.sq_norms is not None
            first = Evaluated(previous.scores, previous.sq_norms, previous.kept)
        found, bounds = self.approximation.second(rows, first)
        return Bounded(found.scores, bounds, found.sq_norms, found.kept)


def _third_engine(approximation: Approximation) -> JitThird | None:
    form = approximation.full or approximation.form
    cubic, certificate = approximation.cubic, approximation.certificate
    if not isinstance(form, QuadraticForm) or not isinstance(cubic, CubicForm):
        return None
    if certificate is None:
        return None
    from kernelite.backends.cpu.kernels import third_dense

    return third_dense.prepare(form, cubic, certificate)
