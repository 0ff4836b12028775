"""The exact engine: f on all cores, with a bound on its own rounding, as stages of a cascade.

Sparse rows meet sparse centers entry by entry where that is cheaper; all else goes by dense tiles.
Labels, and values of large models, are first summed in single precision, whose bound settles most;
values that it does not settle, in doubles with quick exponentials. So are labels where exponents by
products lose digits, before all that is left goes by differences.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from kernelite.backends.cpu.exact_dense import EXPONENTIAL, WIDEST, DenseExact, SparseExact
from kernelite.backends.cpu.exact_packed import LinearExact, PackedExact, laid_out
from kernelite.backends.cpu.exact_pointwise import PointwiseExact
from kernelite.backends.cpu.fused_pairs import FusedPairs
from kernelite.backends.cpu.fused_sums import FusedSums, FusedValues
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.mapped import MappedRows
from kernelite.backends.cpu.single_products import SinglePacked, SingleProducts
from kernelite.backends.cpu.threads import thread_count
from kernelite.data.rows.inputs import FloatArray, Rows, is_sparse
from kernelite.machine.expansion import KernelExpansion
from kernelite.program.bounded import EXACT, QUICK, SINGLE, Bounded, spelled_out
from kernelite.program.cascade import Block, holds
from kernelite.program.criteria import Criterion
from kernelite.series.cubic import WEIGHED
from kernelite.series.packed import packed_degree, packed_numbers
from kernelite.series.series import LOAD, LOOP, PRODUCT, ROW
from kernelite.support.records import dataclass

__all__ = [
    "DoublePrecision",
    "ExactEngine",
    "QuickExponentials",
    "SinglePrecision",
    "as_dense",
    "exact_cost",
    "judging_cost",
]

TRIED, APART = 32, 16  # rows that show whether a stage settles enough of them; one of so many,
FEWEST_NUMBERS = 1 << 14  # of centers, from which values are taken from single precision
ENTRY_RATIO = 16  # entries of a row in panels, in the time of one that meets another
MOST_DENSE = 1 << 26  # numbers of centers that are made dense for panels
ENOUGH = 0.9  # of a tolerance: what quick exponentials may take of it
WORTH = 0.5  # which is more than it costs of double precision's time

# Nanoseconds of one core, measured: what the planner compares the engines by.
VALUE = EXPONENTIAL * PRODUCT  # a kernel value: exponential and weighted sum
SINGLE_SUM, DOUBLE_SUM = 1 / 48, 1 / 24  # a multiply-add in panels,
SINGLE_VALUE, QUICK_VALUE, DOUBLE_VALUE = 7, 7, 11  # of which a kernel value takes so many
SCATTERED = 20  # and a row's entries, which are found one by one, as many more
WINNER = 5  # by which a one-vs-one label is found from values, per center
PAIRS = 130.0  # what that takes per class besides: a winner's pairs
VOTES, VOTE = 200.0, 15.0  # what counting votes takes on one thread, and each pair's
MEETING, LISTED = 1.7, 2.3  # an entry that meets another, and a center, by lists of features
JUDGED, JUDGE = 70.0, 5.0  # a row's bound and label on one thread, and those of more outputs
READ = 1.0  # an entry of a row, brought to single precision
POINTWISE = 30.0  # a row's bound where any kernel is served, on one thread


@dataclass(frozen=True, eq=False)
class ExactEngine:
    """An expansion made ready to run.

    Parameters
    ----------
    expansion : KernelExpansion
    mapped : bool
        Whether rows come through an affine map, whose rounding then counts.

    Examples
    --------
    >>> engine = ExactEngine.prepare(KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0))
    >>> engine.run(np.array([[0.0], [1e200]])).scores
    array([[2.5],
           [0.5]])
    """

    expansion: KernelExpansion
    mapped: bool = False

    @classmethod
    def prepare(cls, expansion: KernelExpansion, *, mapped: bool = False) -> ExactEngine:
        """Lay the centers out, as most rows will want them."""
        engine = cls(expansion, mapped)
        if engine.sparse is None:
            engine.dense  # noqa: B018  # now, not when the first row comes
        return engine

    @cached_property
    def dense(self) -> DenseExact | LinearExact | PackedExact | PointwiseExact:
        """For dense rows."""
        if not self.expansion.has_series:
            return laid_out(self.expansion, mapped=self.mapped)
        return DenseExact.prepare(self.expansion, mapped=self.mapped)

    @cached_property
    def sparse(self) -> SparseExact | None:
        """For sparse rows, where they should stay so."""
        return SparseExact.prepare(self.expansion, mapped=self.mapped)

    @cached_property
    def entries_pay(self) -> bool:
        """Whether labels of sparse rows are faster summed in panels, by a row's entries.

        Measured: a center costs 0.107 entries + 1.28 ns that way, 1.7 entries that meet + 2.3 ns
        by lists of features.
        """
        centers: Any = self.expansion.centers
        n, d = centers.shape
        if self.sparse is None or d > WIDEST or n * d > MOST_DENSE:
            return False
        return bool(centers.nnz <= ENTRY_RATIO * self.expansion.meeting_entries)

    @cached_property
    def single(self) -> FusedSums | SinglePacked | SingleProducts | None:
        """For dense rows and one output: single precision, with a bound."""
        if isinstance(self.dense, PackedExact):
            return SinglePacked.prepare(self.dense)
        if isinstance(self.dense, PointwiseExact):
            return SingleProducts.prepare(self.dense)
        return self._sums_in("SINGLE")

    @cached_property
    def quick(self) -> FusedSums | None:
        """For dense rows and one output: doubles with quick exponentials, with a bound."""
        return self._sums_in("QUICK")

    @cached_property
    def quickest(self) -> FusedSums | None:
        """Likewise, with the quickest ones, in the same panels."""
        if self.quick is None:
            return None
        from kernelite.backends.cpu.kernels.exp2 import QUICKEST

        return self.quick.as_in(QUICKEST)

    def _sums_in(self, precision: Literal["SINGLE", "QUICK"]) -> FusedSums | None:
        dense = self.dense
        if not isinstance(dense, DenseExact) or self.expansion.n_outputs > 1:
            return None
        if (layout := dense.for_panels) is None:
            return None
        from kernelite.backends.cpu.kernels import exp2

        chosen = getattr(exp2, precision)
        if isinstance(dense.fused, FusedSums) and chosen.size == 8:  # the panels are the same
            return dense.fused.as_in(chosen)
        return FusedSums.prepare(dense.rounding, layout, chosen)

    @cached_property
    def pairs(self) -> FusedPairs | None:
        """For dense rows of a one-vs-one classifier, of which only labels are asked for."""
        by_panels = self.sparse is None or self.entries_pay
        if not by_panels or not isinstance(self.dense, DenseExact):
            return None
        layout = self.dense.for_panels
        return None if layout is None else FusedPairs.prepare(self.dense.rounding, layout)

    @property
    def takes_sparse(self) -> bool:
        """Whether sparse rows may stay so."""
        return self.sparse is not None or isinstance(self.dense, LinearExact)

    @property
    def by_panels(self) -> bool:
        """Whether dense rows are summed in registers: fast even one at a time."""
        first: Any = self.dense.fused or self.single or self.pairs
        return self.sparse is None and first is not None and first.ready

    @property
    def ready(self) -> bool:
        """Whether all kernels that may serve can be called."""
        engines: list[Any] = []
        if self.sparse is None:
            engines = [self.dense.fused, self.single, self.quick, self.quickest, self.pairs]
        return all(one is None or one.ready for one in engines)

    def run(self, rows: Rows, out: FloatArray | None = None) -> Bounded:
        """Scores and rounding bounds in double precision.

        Parameters
        ----------
        rows : ndarray or csr_array of shape (m, d)
        out : ndarray of shape (m, k), optional
            Where the scores go.
        """
        engine, rows = self.engine_for(rows)
        scores, squares = engine.scores(rows, out)
        bounds = engine.rounding.bounded(scores, squares, engine.length(rows))
        return Bounded(scores, bounds, squares)

    def bound(self, rows: Rows) -> FloatArray:
        """The rounding bound of `run`, without running it: shape (m, k)."""
        engine, rows = self.engine_for(rows)
        return spelled_out(engine.rounding.bounds(engine.squares(rows), engine.length(rows)))

    def engine_for(self, rows: Rows) -> tuple[Any, Any]:
        """What serves these rows, and the rows as it takes them."""
        if isinstance(rows, MappedRows):
            rows = rows[:]
        sparse = self.sparse
        if sparse is None:
            return self.dense, rows if isinstance(self.dense, LinearExact) else as_dense(rows)
        if is_sparse(rows):
            return sparse, rows
        if not sparse.serves_dense_rows:
            return self.dense, rows
        from scipy.sparse import csr_array

        return sparse, csr_array(rows)


@dataclass(frozen=True, eq=False)
class SinglePrecision:
    """One output's sums in single precision: for labels, and for values where told so.

    Parameters
    ----------
    engine : ExactEngine
    values : bool
        Whether values are served too: where no form came before. The model must be large enough to
        give them fewer digits; so for the decision values of labels.
    """

    engine: ExactEngine
    values: bool = False
    name: ClassVar[str] = SINGLE
    accepts_all = False

    def sums(self, criterion: Criterion) -> Any:
        """What sums up; None where nothing does."""
        return self.engine.single

    def run(
        self,
        rows: Block,
        criterion: Criterion | None,
        previous: Bounded | None = None,
        into: FloatArray | None = None,
    ) -> Bounded | None:
        """Scores and bounds, where they are good enough for what is asked and settle enough."""
        if criterion is None or not self._serves(criterion):
            return None
        engine, taken = self.engine.engine_for(rows)
        labels = criterion.labels_alone and self.engine.entries_pay
        sums = self.sums(criterion) if labels or engine is self.engine.dense else None
        if sums is None or not sums.ready or not self._pays(sums, taken, criterion):
            return None
        scores, bounds = sums.run(taken)
        return Bounded(scores, bounds, finite_if_bounded=True)

    def bound(self, rows: Block, criterion: Criterion | None) -> FloatArray | None:
        """A value is off by the tolerance at most, a label's score by what the label allows.

        Whether it serves a value may depend on the rows around, so it counts for all.
        """
        if criterion is None or criterion.labels_alone or not self._serves(criterion):
            return None
        engine, dense = self.engine.engine_for(rows)
        if engine is not self.engine.dense:
            return None
        sums = self.sums(criterion)
        if sums is None or not sums.ready:
            return None
        if (limits := criterion.value_bounds) is not None:
            return np.broadcast_to(limits, (len(dense), len(limits))).copy()
        scores, bounds = sums.run(dense)
        return np.where(criterion(scores, bounds)[:, None], bounds, 0.0)

    def _serves(self, criterion: Criterion) -> bool:
        if criterion.labels_alone:
            return True
        large = self.engine.expansion.centers.size >= FEWEST_NUMBERS
        wanted = self.values or criterion.labels_and_values
        return wanted and large and criterion.asks_values

    def _pays(self, sums: Any, rows: Rows, criterion: Criterion) -> bool:
        """Whether it settles enough, as some of the rows show."""
        # What values ask of a bound is the same for all rows: two of them show enough.
        if rows.shape[0] < APART * (TRIED if criterion.labels_alone else 2):
            return True
        some = rows[:: max(APART, rows.shape[0] // TRIED)]
        return float(criterion(*sums.run(some)).mean()) >= WORTH


class QuickExponentials(SinglePrecision):
    """One output in doubles, with exponentials of digits enough for a tolerance or a label."""

    name: ClassVar[str] = QUICK

    def sums(self, criterion: Criterion) -> FusedSums | None:
        """What sums up, with the quickest exponentials that surely suffice; None where nothing."""
        quickest = self.engine.quickest
        enough = quickest is not None and _surely(quickest, criterion) and quickest.ready
        return quickest if enough else self.engine.quick

    def _serves(self, criterion: Criterion) -> bool:
        """Not for labels alone where double precision is as fast, and settles more of them."""
        if criterion.labels_alone and self.engine.dense.fused is not None:
            return False
        return super()._serves(criterion)

    def _pays(self, sums: Any, rows: Rows, criterion: Criterion) -> bool:
        return _surely(sums, criterion) or super()._pays(sums, rows, criterion)


def _surely(sums: FusedSums, criterion: Criterion) -> bool:
    """Whether quick exponentials are good enough for the values of all but outlying rows."""
    limits = criterion.value_bounds
    return limits is not None and sums.most_error <= ENOUGH * float(limits.min(initial=np.inf))


@dataclass(frozen=True, eq=False)
class DoublePrecision:
    """The last stage: sums in doubles, whose bound is their own rounding."""

    engine: ExactEngine
    name = EXACT
    accepts_all = True

    def run(
        self,
        rows: Block,
        criterion: Criterion | None,
        previous: Bounded | None = None,
        into: FloatArray | None = None,
    ) -> Bounded:
        """Scores and bounds.

        Rows whose label it cannot settle get the same scores alone and among others: a matrix
        product's last digits depend on its shape, and there they are the label.
        """
        found = self.engine.run(rows, into)
        if criterion is None or not criterion.labels_alone or rows.shape[0] < 2:
            return found
        undecidable = np.flatnonzero(~holds(criterion, found))
        if not len(undecidable) or self._row_by_row(rows):
            return found
        if not self.engine.expansion.kernel.proven:  # labels are as computed, all of them
            return found
        bounds = spelled_out(found.bounds)  # type: ignore[arg-type]
        for i in undecidable:
            alone = self.engine.run(rows[i : i + 1])
            found.scores[i], bounds[i] = alone.scores, spelled_out(alone.bounds)  # type: ignore[arg-type]
        return found._replace(bounds=bounds)

    def bound(self, rows: Block, criterion: Criterion | None) -> FloatArray:
        """The rounding, without running it."""
        return self.engine.bound(rows)

    def _row_by_row(self, rows: Rows) -> bool:
        """Whether the engine sums each row by itself anyway."""
        fused = self.engine.dense.fused if self.engine.sparse is None else None
        return isinstance(fused, FusedSums | FusedValues) and fused.ready


def as_dense(rows: Rows) -> FloatArray:
    """Rows as a dense array, on all threads where kernels can be had."""
    if not is_sparse(rows):
        return rows
    if not jit_available():
        return np.asarray(rows.toarray())
    from kernelite.backends.cpu.kernels.densify import dense_rows

    return dense_rows(rows)


def exact_cost(expansion: KernelExpansion, *, labels: bool = False) -> float:
    """Nanoseconds of one core per row; `labels`: where single precision mostly suffices.

    What does not run on all threads counts as often as there are threads.

    Examples
    --------
    >>> few, many = (KernelExpansion(np.ones((n, 3)), np.ones(n), 0.0, gamma=1.0) for n in (9, 99))
    >>> exact_cost(few) < exact_cost(many)
    True
    """
    n, d, k = expansion.n_centers, expansion.n_features, expansion.n_outputs
    if not expansion.has_series:
        return _pointwise_cost(expansion) + POINTWISE * thread_count()
    classes = expansion.voting_classes
    judged = ROW + (judging_cost(expansion) if labels else 0.0)
    lists = expansion.meeting_entries * MEETING + n * (LISTED + k * PRODUCT)
    if expansion.kernel.quadratic or d > WIDEST:
        return min(n * (d * PRODUCT + k * PRODUCT + VALUE), lists) + judged
    if labels and k == 1:
        entries = _entries(expansion) + SCATTERED if is_sparse(expansion.centers) else d
        return n * (min(d, entries) + SINGLE_VALUE) * SINGLE_SUM + d * READ + judged
    if labels and classes is not None:
        return n * (d + SINGLE_VALUE + WINNER) * SINGLE_SUM + PAIRS * classes + ROW
    weights = 0 if k == 1 else k if classes is None else classes - 1
    value = QUICK_VALUE if k == 1 else DOUBLE_VALUE
    dense = n * ((d + value) * DOUBLE_SUM + weights * PRODUCT)
    return min(dense, lists) + judged


def judging_cost(expansion: KernelExpansion, alone: float = JUDGED) -> float:
    """Nanoseconds per row for labels from scores and bounds: votes, or `alone` for one output."""
    k = expansion.n_outputs
    votes = VOTES + VOTE * k if expansion.voting_classes is not None else alone + JUDGE * (k - 1)
    return votes * thread_count()


def _entries(expansion: KernelExpansion) -> float:
    """Of a row like the centers, which are sparse."""
    centers: Any = expansion.centers
    return float(centers.nnz / max(centers.shape[0], 1))


def _pointwise_cost(expansion: KernelExpansion) -> float:
    """A row of the engine for any kernel: one dot product, a packed polynomial, or all centers."""
    n, d, k = expansion.n_centers, expansion.n_features, expansion.n_outputs
    degree = packed_degree(expansion)
    if degree == 1:
        return ROW + d * (LOAD + k * PRODUCT)
    if degree is not None:
        return ROW + d * LOAD + packed_numbers(d, degree) * k * WEIGHED
    return ROW + n * (d * LOOP + k * PRODUCT + 1.5 * VALUE)
