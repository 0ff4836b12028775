"""An approximation's forms as stages: the first with its O(1) bound, then the second.

In: rows. Out: scores and bounds of the first form, or of the second, or of one between them in
which a product stands for the third order. Where the first leaves most rows open and values are
asked for, both run in one pass of a kernel, as some of the rows show.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.forms import FormEngine
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.one_pass import ALWAYS_PROBED, MOST_CRITERIA, FormPass, SignLabels
from kernelite.backends.cpu.rows import as_dense
from kernelite.data.rows.inputs import FloatArray, dense_block, is_sparse
from kernelite.machine.affine import AffineMap
from kernelite.program.bounded import FIRST, FULL, OPEN, THIRD, Bounded
from kernelite.program.cascade import Asked, Block, Cascade, Found, Room, holds
from kernelite.program.criteria import Criterion
from kernelite.series.approximation import Approximation, Certificate
from kernelite.series.cubic import CubicForm
from kernelite.series.directional import PairedCubic, may_pair, paired_cubic
from kernelite.series.rounding import damped, damping
from kernelite.series.series import Evaluated, QuadraticForm, SeriesForm
from kernelite.series.work import packed_size
from kernelite.support.records import dataclass

if TYPE_CHECKING:
    from kernelite.backends.cpu.kernels.judging import Link
    from kernelite.backends.cpu.kernels.third_dense import JitThird

__all__ = [
    "ApproximationEngine",
    "FirstForms",
    "FormStages",
    "PairedEngine",
    "SecondForms",
    "form_stages",
    "forms_alone",
    "runs_at_once",
]

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


# Stages of a cascade.

PROBED = 128  # rows that show whether the first form leaves nearly all rows open
SETTLED = 0.2  # the share of settled rows from which a form is run for values at all
MOSTLY = 0.6  # the share of open rows from which both forms in one pass are cheaper
FormStages: TypeAlias = "tuple[FirstForms] | tuple[FirstForms, SecondForms]"


def form_stages(approximation: Approximation, *, fused: bool = True) -> FormStages:
    """The stages of an approximation; `fused=False` keeps to the definitions."""
    engine = ApproximationEngine.prepare(approximation, fused=fused)
    first = FirstForms(engine)
    return (first, SecondForms(engine)) if approximation.has_second_form else (first,)


def forms_alone(approximation: Approximation, *, fused: bool = True) -> Cascade:
    """Forms without an exact stage: rows that they do not settle stay open."""
    return Cascade(form_stages(approximation, fused=fused), answers_all=False)


def runs_at_once(full: SeriesForm | None, share: float) -> bool:
    """Whether values get the third order in one pass with a form that leaves this share open."""
    return full is None and share > MOSTLY


@dataclass(frozen=True, eq=False)
class FirstForms:
    """The first form, with its certificate.

    Parameters
    ----------
    engine : ApproximationEngine
    shown : ndarray of shape (few, d), optional
        Rows like those to come, where the exact model could answer instead.
    """

    engine: ApproximationEngine
    shown: FloatArray | None = None
    name = FIRST
    accepts_all = False

    def run(
        self, rows: Block, criterion: Asked, previous: Found = None, into: Room = None
    ) -> Found:
        """Scores and bounds; both forms at once where that pays."""
        if is_sparse(rows) and not self.takes_sparse(rows):
            rows = as_dense(rows)
        if criterion is not None:
            if criterion.labels_and_values and not self._helps(rows, criterion):
                return None
            if (limits := criterion.sufficient_bounds) is not None:
                found = _fused_stages(self.engine, rows, limits)
                if found is not None:
                    return found
        return self.engine.first.run(rows)

    def one_pass(
        self, input_map: AffineMap | None, criterion: Criterion | None, labels: SignLabels | None
    ) -> FormPass | None:
        """What takes dense rows through this stage and the criterion at once; None: nothing."""
        values = criterion is not None and criterion.sufficient_bounds is not None
        if values and self.engine.third is not None:  # both forms at once may be better
            return None
        found = FormPass.of(self.engine.first, input_map, criterion, labels)
        if found is not None and criterion is not None and found.probed:
            found.in_vain = not self._helps_few(criterion)
        return found

    def _helps(self, rows: Block, criterion: Criterion) -> bool:
        """Whether values of a classifier, which need more digits than labels, are settled at all.

        As some of the rows show, if they are many, else as the rows do that are like them; where
        few are settled, the exact model is asked at once.
        """
        if rows.shape[0] < ALWAYS_PROBED:
            return self._helps_few(criterion)
        few = rows[np.arange(0, rows.shape[0], rows.shape[0] // PROBED)]
        if is_sparse(few) and not self.takes_sparse(few):
            few = as_dense(few)
        return self._settles(few, criterion)

    def _helps_few(self, criterion: Criterion) -> bool:
        """The same for few rows: one answer for each criterion."""
        if self.shown is None:
            return True
        found = self._helped.get(criterion)
        if found is None:
            if len(self._helped) >= MOST_CRITERIA:
                self._helped.clear()
            found = self._helped[criterion] = self._settles(self.shown, criterion)
        return found

    def _settles(self, rows: Block, criterion: Criterion) -> bool:
        return float(holds(criterion, self.engine.first.run(rows)).mean()) >= SETTLED

    @cached_property
    def _helped(self) -> dict[Criterion, bool]:
        return {}

    def valid(self, found: Bounded) -> NDArray[np.bool_] | None:
        """Rows inside the paper's validity bound, shape (m,); None where no form was run."""
        if found.valid is not None or found.sq_norms is None:
            return found.valid
        return self.engine.approximation.form.valid(found.sq_norms)

    def bound(self, rows: Block, criterion: Criterion | None) -> FloatArray | None:
        """The certificate's; nothing is known where a polynomial overflowed."""
        found = self.run(rows, None)
        bounds = None if found is None else found.bounds
        if bounds is not None:
            bounds[np.isnan(bounds)] = np.inf  # type: ignore[index]
        return bounds  # type: ignore[return-value]

    def takes_sparse(self, rows: Any) -> bool:
        """Whether these sparse rows are evaluated as they are."""
        return self.engine.first.takes_sparse(rows)


@dataclass(frozen=True, eq=False)
class SecondForms:
    """The second form: in full, with the third order if that is held."""

    engine: ApproximationEngine
    accepts_all = False

    @property
    def name(self) -> str:
        """What statistics call it."""
        return FULL if self.engine.approximation.cubic is None else THIRD

    def run(
        self, rows: Block, criterion: Asked, previous: Found = None, into: Room = None
    ) -> Found:
        """Scores and bounds of rows that the first form left open; None where it was skipped."""
        if criterion is not None:
            if previous is None and not criterion.labels_alone:
                return None
            if criterion.labels_and_values and rows.shape[0] < PROBED:
                return None  # values of few rows: what it settles seldom pays for what it costs
        if is_sparse(rows):
            # The folded shift cost |u|^2 some digits; the second form's bounds want it whole.
            rows, previous = dense_block(rows, slice(None)), None
        return self.engine.second(rows, previous)

    def bound(self, rows: Block, criterion: Criterion | None) -> None:
        """It answers only where its bound is no looser than the first form's."""
        return None


def _fused_stages(engine: ApproximationEngine, rows: Block, limits: FloatArray) -> Bounded | None:
    """Both forms in one pass, if some of the rows say that it pays; else None.

    It does where the first leaves most of them open. A product stands for the third order where it
    leaves few enough; what it leaves open, the second form gets.
    """
    limits = np.broadcast_to(limits, engine.approximation.form.n_outputs)
    way = _way_to_fuse(engine, rows, limits)
    if way is None:
        return None
    from kernelite.backends.cpu.kernels.third_dense import two_tiers

    found = two_tiers(way, dense_block(rows, slice(None)), limits)
    return found._replace(tried=2 if way is engine.third else 1)


def _way_to_fuse(engine: ApproximationEngine, rows: Block, limits: FloatArray) -> JitThird | None:
    whole = engine.third is not None and engine.full is None  # it has the first form on its way
    if not whole or is_sparse(rows) or rows.shape[0] < 4 * PROBED:
        return None
    from kernelite.backends.cpu.kernels.third_dense import two_tiers

    paired = engine.paired
    if paired is None or paired.fused is None or paired.worth == 0.0:
        worth, way = 1.0, engine.third
    else:
        worth, way = paired.worth, paired.fused
    assert way is not None
    few = dense_block(rows, np.arange(0, rows.shape[0], rows.shape[0] // PROBED))
    stage = two_tiers(way, few, limits).stage
    assert stage is not None
    if np.mean(stage != 0) <= MOSTLY:
        return None
    return way if np.mean(stage == OPEN) <= worth else engine.third
