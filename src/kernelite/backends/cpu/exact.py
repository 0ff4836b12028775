"""The exact engine: f on all cores, with a bound on its own rounding, as stages of a cascade.

Sparse rows meet sparse centers entry by entry where that is cheaper; all others are summed in dense
tiles. Labels, and values of large models, are first summed in single precision, whose bound settles
most rows. Values that it leaves open are summed in doubles with quick exponentials. So are labels
of models whose exponents lose digits as products, before the rest is summed by differences.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from kernelite.backends.cpu.exact_dense import WIDEST_PANEL_FEATURES, DenseExact, SparseExact
from kernelite.backends.cpu.exact_packed import LinearExact, PackedExact, SinglePacked
from kernelite.backends.cpu.fused_pairs import FusedPairs
from kernelite.backends.cpu.fused_sums import (
    FusedValues,
    PanelSums,
    in_precision,
    rbf_sums,
    sigmoid_sums,
)
from kernelite.backends.cpu.fused_tangents import SeveralTangents, tangent_sums
from kernelite.backends.cpu.heads import settled_by
from kernelite.backends.cpu.one_pass import MOST_CRITERIA, SignLabels, SumsPass
from kernelite.backends.cpu.panels import shown_centers
from kernelite.backends.cpu.rows import MappedRows, as_dense
from kernelite.data.rows.inputs import FloatArray, Rows, is_sparse
from kernelite.machine.affine import AffineMap
from kernelite.machine.expansion import KernelExpansion
from kernelite.program.bounded import EXACT, EXACT_QUICK, EXACT_SINGLE, Bounded, spelled_out
from kernelite.program.cascade import Asked, Block, Found, Room, holds
from kernelite.program.criteria import Criterion
from kernelite.series.packed import packed_degree
from kernelite.support.records import dataclass

__all__ = ["DoublePrecision", "ExactEngine", "FewerDigits"]

TRIED_ROWS = 32  # as many rows show whether a stage settles enough of them
ROWS_PER_TRIED = 16  # at most one row of so many is tried
TRIED_NUMBERS = 1 << 22  # of rows that meet centers: trying rows takes less than summing that up
OPEN_NUMBERS = 1 << 19  # that are summed up in the time that it takes to go on with open rows,
ASKED_NUMBERS = 1 << 21  # or to ask a criterion that numbers do not tell
SINGLE_COST, QUICK_COST = 0.6, 0.8  # times doubles' time, that sums in fewer digits may take
FEWEST_NUMBERS = 1 << 11  # of centers: smaller models give all digits of values, and are as fast
ENTRIES_PER_MEETING = 16  # entries of a row in panels, in the time of one that meets another
MOST_DENSE_NUMBERS = 1 << 26  # numbers of centers that are made dense for panels
TOLERANCE_SHARE = 0.9  # quick exponentials may take that much of a tolerance
WORTHWHILE_SHARE = 0.5  # a stage that settles fewer rows costs more than it saves


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
    steady: ClassVar[bool] = False  # rows of few entries are taken by these, if most rows are such

    @classmethod
    def prepare(cls, expansion: KernelExpansion, *, mapped: bool = False) -> ExactEngine:
        """Lay the centers out, as most rows will want them."""
        engine = cls(expansion, mapped)
        if engine.sparse is None:
            engine.dense  # noqa: B018  # now, not when the first row comes
        return engine

    @cached_property
    def dense(self) -> DenseExact | LinearExact | PackedExact:
        """For dense rows: without centers, where that is possible."""
        expansion, mapped = self.expansion, self.mapped
        degree = None if expansion.has_series else packed_degree(expansion)
        if degree == 1:
            return LinearExact.prepare(expansion, mapped=mapped)
        packed = None if degree is None else PackedExact.prepare(expansion, mapped=mapped)
        return packed or DenseExact.prepare(expansion, mapped=mapped)

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
        if self.sparse is None or d > WIDEST_PANEL_FEATURES or n * d > MOST_DENSE_NUMBERS:
            return False
        return bool(centers.nnz <= ENTRIES_PER_MEETING * self.expansion.meeting_entries)

    @cached_property
    def single(self) -> PanelSums | SinglePacked | None:
        """For dense rows and one output: single precision, with a bound."""
        if isinstance(self.dense, PackedExact):
            return SinglePacked.prepare(self.dense)
        if isinstance(self.dense, DenseExact) and not self.dense.kernel.has_series:
            return sigmoid_sums(self.dense)
        return self._sums_in("SINGLE")

    @cached_property
    def tangent(self) -> PanelSums | None:
        """For values of one output: single precision of what exponentials add to their tangents."""
        dense = self.dense
        if not isinstance(dense, DenseExact) or self.expansion.n_outputs > 1:
            return None
        layout = dense.for_panels
        return None if layout is None else tangent_sums(dense.rounding, layout)

    @cached_property
    def several(self) -> SeveralTangents | None:
        """Likewise, for several outputs."""
        dense = self.dense
        if not isinstance(dense, DenseExact) or self.expansion.n_outputs == 1:
            return None
        layout = dense.for_panels if dense.by_products else None
        return None if layout is None else SeveralTangents.prepare(dense.rounding, layout)

    @property
    def for_open_labels(self) -> PanelSums | SinglePacked | None:
        """For labels of dense rows that a form left open: tangents, where there are such.

        They take up to a quarter longer than plain sums, and their bounds are tighter, by a factor
        of a thousand where |t| is small: at a gamma that has a form, coefficients nearly cancel,
        and plain sums leave most of what the form left open, too.
        """
        return self.single if self.tangent is None else self.tangent

    @cached_property
    def quick(self) -> PanelSums | None:
        """For dense rows and one output: doubles with quick exponentials, with a bound."""
        return self._sums_in("QUICK")

    @cached_property
    def quickest(self) -> PanelSums | None:
        """Likewise, with the quickest ones, in the same panels."""
        if self.quick is None or not isinstance(self.dense, DenseExact):
            return None
        from kernelite.backends.cpu.kernels.exp2 import QUICKEST

        return in_precision(self.quick, self.dense.rounding, QUICKEST)

    def forget_fewer_digits(self) -> None:
        """Free what single precision takes; whoever asks for it later has it laid out again."""
        for name in ("single", "tangent", "several"):
            self.__dict__.pop(name, None)

    def _sums_in(self, precision: Literal["SINGLE", "QUICK"]) -> PanelSums | None:
        dense = self.dense
        if not isinstance(dense, DenseExact) or self.expansion.n_outputs > 1:
            return None
        if (layout := dense.for_panels) is None:
            return None
        from kernelite.backends.cpu.kernels import exp2

        chosen = getattr(exp2, precision)
        if chosen.size == 8 and isinstance(dense.fused, PanelSums):  # the panels are the same
            return in_precision(dense.fused, dense.rounding, chosen)
        return rbf_sums(dense.rounding, layout, chosen)

    @cached_property
    def pairs(self) -> FusedPairs | None:
        """For dense rows of a one-vs-one classifier, of which only labels are asked for."""
        by_panels = self.sparse is None or self.entries_pay
        if not by_panels or not isinstance(self.dense, DenseExact):
            return None
        layout = self.dense.for_panels
        return None if layout is None else FusedPairs.prepare(self.dense.rounding, layout)

    @property
    def n_numbers(self) -> int:
        """Numbers of all centers."""
        return int(self.expansion.centers.size)

    @cached_property
    def shown(self) -> FloatArray:
        """Some centers, as rows like those to come."""
        return shown_centers(self.expansion.centers)

    @property
    def doubles_are_quick(self) -> bool:
        """Whether labels in doubles take no longer than with quick exponentials."""
        return self.dense.fused is not None

    def fewer_digits(
        self, rows: Rows, criterion: Criterion, *, quick: bool
    ) -> tuple[PanelSums | SinglePacked | SeveralTangents, Any] | None:
        """What sums outputs up, with no more digits than surely suffice, and rows as it takes.

        None where nothing does, or what serves such rows in doubles is faster. Tangents have the
        tighter bounds for values; they are taken where plain sums may not suffice.
        """
        engine, taken = self.engine_for(rows)
        if self.expansion.n_outputs > 1:
            voting = criterion.labels_alone and criterion.voting_classes is not None
            several = None if quick or voting or engine is not self.dense else self.several
            return None if several is None else (several, taken)
        plain: PanelSums | SinglePacked | None = self.quickest if quick else self.single
        sums, labels = plain, criterion.labels_alone
        if quick and not (plain is not None and _surely(plain, criterion)):
            sums = self.quick
        elif not (quick or labels or (plain is not None and _surely(plain, criterion))):
            sums = plain if self.tangent is None else self.tangent
        by_panels = engine is self.dense or (self.entries_pay and (labels or sums is self.tangent))
        return None if sums is None or not by_panels else (sums, taken)

    @property
    def takes_sparse(self) -> bool:
        """Whether sparse rows may stay so."""
        return self.sparse is not None or isinstance(self.dense, LinearExact)

    @property
    def by_panels(self) -> bool:
        """Whether dense rows are summed in registers: fast even one at a time."""
        if self.sparse is not None:
            return False
        return self.dense.fast_alone or self.single is not None or self.pairs is not None

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


class ShortSums(Protocol):
    """Sums in fewer digits than doubles have, laid out once."""

    @property
    def most_error(self) -> float:
        """The bound of a row as far away as any center is; infinite where that is not known."""
        ...

    def run(self, rows: Any) -> tuple[FloatArray, FloatArray]:
        """Scores and bounds, each of shape (m, k)."""
        ...


class ShortEngine(Protocol):
    """What has sums in fewer digits: of one model, or of several on the same rows."""

    steady: ClassVar[bool]
    """Whether a row's bound is the same whatever rows stand beside it."""

    @property
    def n_numbers(self) -> int:
        """Of all centers."""
        ...

    @property
    def shown(self) -> FloatArray:
        """Some centers, as rows like those to come."""
        ...

    @property
    def doubles_are_quick(self) -> bool:
        """Whether labels in doubles take no longer than with quick exponentials."""
        ...

    def fewer_digits(
        self, rows: Block, criterion: Criterion, *, quick: bool
    ) -> tuple[ShortSums, Any] | None:
        """What sums up, and the rows as it takes them; None where doubles are faster."""
        ...


@dataclass(frozen=True, eq=False)
class FewerDigits:
    """Sums in single precision, or in doubles with quick exponentials: as much as is asked for.

    Parameters
    ----------
    engine : ShortEngine
    quick : bool
        Whether in doubles, with exponentials of digits enough for a tolerance or a label.
    values : bool
        Whether values are served too: where no form came before. The model must be large enough to
        give them fewer digits; so for the decision values of labels.
    """

    engine: ShortEngine
    quick: bool
    values: bool = False
    accepts_all = False

    @property
    def name(self) -> str:
        """What statistics call it."""
        return EXACT_QUICK if self.quick else EXACT_SINGLE

    def run(
        self, rows: Block, criterion: Asked, previous: Found = None, into: Room = None
    ) -> Found:
        """Scores and bounds, where they are good enough for what is asked and settle enough."""
        if criterion is None or rows.shape[0] < self._fewest.get(criterion, 0):
            return None
        if not self._serves(criterion):
            return None
        found = self.engine.fewer_digits(rows, criterion, quick=self.quick)
        if found is None:
            return None
        sums, taken = found
        if criterion.labels_alone and not (self.quick or self.values):
            sums = self._behind_a_form(sums, taken)
        if not self._pays(sums, taken, criterion):
            return None
        return Bounded(*sums.run(taken), finite_if_bounded=True)

    def one_pass(
        self, input_map: AffineMap | None, criterion: Criterion | None, labels: SignLabels | None
    ) -> SumsPass | None:
        """What takes dense rows through this stage and a label's criterion; None: nothing."""
        if self.quick or criterion is None or not criterion.labels_alone or labels is None:
            return None
        engine, single = self.engine, None
        if isinstance(engine, ExactEngine) and engine.sparse is None:
            single = engine.single
        if not isinstance(single, PanelSums):
            return None
        return SumsPass.of(single, input_map, criterion, labels)

    def bound(self, rows: Block, criterion: Criterion | None) -> FloatArray | None:
        """A value is off by the tolerance at most, a label's score by what the label allows.

        Whether it serves a value may depend on the rows around, so it counts for all.
        """
        if criterion is None or criterion.labels_alone or not self._serves(criterion):
            return None
        found = self.engine.fewer_digits(rows, criterion, quick=self.quick)
        if found is None:
            return None
        sums, taken = found
        if (limits := criterion.value_bounds) is not None and not self.engine.steady:
            return np.broadcast_to(limits, (taken.shape[0], len(limits))).copy()
        scores, bounds = sums.run(taken)
        return np.where(criterion(scores, bounds)[:, None], bounds, 0.0)

    def _behind_a_form(self, sums: ShortSums, rows: Rows) -> ShortSums:
        engine = self.engine
        if not isinstance(engine, ExactEngine) or is_sparse(rows):
            return sums
        return engine.for_open_labels or sums

    def _pays(self, sums: ShortSums, rows: Rows, criterion: Criterion) -> bool:
        """Whether sums settle enough rows, as centers or some of the rows show."""
        m, labels = rows.shape[0], criterion.labels_alone
        some = slice(None, None, max(ROWS_PER_TRIED, m // TRIED_ROWS))
        if labels:
            several = isinstance(sums, SeveralTangents)
            if several and self._shown(sums, criterion) < WORTHWHILE_SHARE:
                return False
            few = m < ROWS_PER_TRIED * TRIED_ROWS
            return few or _settled(sums, rows[some], criterion) >= WORTHWHILE_SHARE
        if m < self._fewest_rows(sums, criterion):
            return False
        if self._shown(sums, criterion) == 1.0 or m * self.engine.n_numbers < TRIED_NUMBERS:
            return True
        return _settled(sums, rows[some], criterion) > self._cost

    def _fewest_rows(self, sums: ShortSums, criterion: Criterion) -> int:
        """Rows from which sums of values pay: those that take long enough to be tried, or fewer.

        Sums of m rows save the time of `saved` m numbers. Open rows go on at a cost that does not
        depend on their number; so does what a criterion must be asked itself, since its rule in
        numbers does not tell. Of m rows there are such with probability 1 - told^m.
        """
        found = self._fewest.get(criterion)
        if found is None:
            share, numbers = self._shown(sums, criterion), self.engine.n_numbers
            saved, told, cost = max(share - self._cost, 0.0) * numbers, share, OPEN_NUMBERS
            if criterion.rule is None and share:
                told, cost = _told(sums, self.engine.shown, criterion), ASKED_NUMBERS
            m = np.arange(1, -(-TRIED_NUMBERS // numbers))
            with np.errstate(under="ignore"):
                pays = saved * m > (1.0 - told**m) * cost
            found = 1 + int(np.argmax(pays)) if pays.any() else len(m) + 1
            self._fewest[criterion] = found
        return found

    def _shown(self, sums: ShortSums, criterion: Criterion) -> float:
        """The share of centers, taken as rows, that sums settle."""
        found = self._shares.get(criterion)
        if found is None:
            if len(self._shares) >= MOST_CRITERIA:
                self._shares.clear()
                self._fewest.clear()
            sure = _surely(sums, criterion)
            found = 1.0 if sure else _settled(sums, self.engine.shown, criterion)
            self._shares[criterion] = found
        return found

    @property
    def _cost(self) -> float:
        return QUICK_COST if self.quick else SINGLE_COST

    @cached_property
    def _shares(self) -> dict[Criterion, float]:
        return {}

    @cached_property
    def _fewest(self) -> dict[Criterion, int]:
        return {}

    def _serves(self, criterion: Criterion) -> bool:
        if criterion.labels_alone:
            return not (self.quick and self.engine.doubles_are_quick)
        wanted = self.values or criterion.labels_and_values
        return wanted and criterion.asks_values and self.engine.n_numbers >= FEWEST_NUMBERS


def _settled(sums: ShortSums, rows: Rows, criterion: Criterion) -> float:
    """The share of rows that sums settle."""
    return float(criterion(*sums.run(rows)).mean()) if rows.shape[0] else 1.0


def _told(sums: ShortSums, rows: Rows, criterion: Criterion) -> float:
    """The share of rows that sums settle as the criterion's numbers alone tell."""
    if criterion.enough is None:
        return 0.0
    return float(settled_by(criterion.enough, Bounded(*sums.run(rows)), np.inf).rows.mean())


def _surely(sums: ShortSums, criterion: Criterion) -> bool:
    """Whether sums of one output are good enough for the values of all but outlying rows."""
    limits = criterion.value_bounds
    if limits is None or len(limits) != 1:
        return False
    return bool(sums.most_error <= TOLERANCE_SHARE * float(limits[0]))


@dataclass(frozen=True, eq=False)
class DoublePrecision:
    """The last stage: sums in doubles, whose bound is their own rounding."""

    engine: ExactEngine
    name = EXACT
    accepts_all = True

    def run(
        self, rows: Block, criterion: Asked, previous: Found = None, into: Room = None
    ) -> Bounded:
        """Scores and bounds.

        Rows whose label it cannot settle get the same scores alone and among others: a matrix
        product's last digits depend on its shape, and there they are the label.
        """
        found = self.engine.run(rows, into)
        if criterion is None or not criterion.labels_alone or rows.shape[0] < 2:
            return found
        if self._row_by_row(rows):
            return found
        undecidable = np.flatnonzero(~holds(criterion, found))
        if not len(undecidable):
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
        return isinstance(fused, PanelSums | FusedValues)
