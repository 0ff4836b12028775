"""What candidates cost per row: operations that are counted (`Work`), times ten rates of a core.

`RATES` are nanoseconds, measured once on a core with AVX-512 and kept, so that estimates are the
same everywhere; `python -m benchmarks.rates` measures them again. Candidates are compared with each
other, so only the ratios of the rates matter. How many rows the exact engine sums twice, because
single precision leaves them open, is not counted but seen on some rows (`Reached`). An `Option` is
an approximation with its cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from kernelite.backends.cpu.approximation import runs_at_once
from kernelite.backends.cpu.exact_dense import WIDEST_PANEL_FEATURES
from kernelite.backends.cpu.local import LEAF, LocalEngine, Visits
from kernelite.backends.cpu.rows import BLOCK_ELEMENTS
from kernelite.backends.cpu.threads import thread_count
from kernelite.data.rows.inputs import is_sparse
from kernelite.machine.expansion import KernelExpansion
from kernelite.planner.plan import Candidate, exact_name
from kernelite.program.bounded import EXACT, EXACT_QUICK, EXACT_SINGLE, PAIRS
from kernelite.series.approximation import Approximation
from kernelite.series.packed import packed_degree, packed_numbers
from kernelite.series.work import Work, product_work, quadratic_work, spectral_work
from kernelite.support.records import dataclass

__all__ = [
    "RATES",
    "Option",
    "Reached",
    "array_bytes",
    "behind_cost",
    "exact_candidate",
    "exact_cost",
    "exact_work",
    "least_form_cost",
    "local_cost",
    "margin_work",
    "nanoseconds",
    "open_row_work",
    "second_cost",
    "tiers_cost",
    "unseen_cost",
    "voting_work",
]

Reached: TypeAlias = Mapping[str, float]
"""Exact stages, by what statistics call them, and the share of rows that each is asked for."""

RATES = Work(
    rows=2.0,
    loads=0.14,
    bounds=3.6,
    products=1 / 60,
    loops=1 / 44,
    sums=1 / 65,
    values=0.4,
    meetings=0.65,
    votes=1.1,
    fetched=0.012,
)
"""Nanoseconds of one core for one operation of each kind."""

# How many operations of a kind take as long as something else does.
ROWS_PER_OPEN_ROW = 15  # rows, while a row that a form left open is settled in the form's own call,
BOUNDS_PER_OPEN_ROW = 7  # and bounds an output more, where it is picked out and put back instead
ROWS_PER_EXACT_ROW = 5  # rows, while sums over all centers begin and end
LOADS_PER_LABEL_FEATURE = 8  # loads, while a feature of a row is laid out for panels,
LOADS_PER_VALUE_FEATURE = 16  # and where values are asked for
SUMS_PER_QUICK_VALUE, SUMS_PER_DOUBLE_VALUE = 8, 11  # sums, for a center's exponential
SINGLES_PER_VALUE, SINGLES_PER_SUM = 12, 2.3  # in single precision, and of these in a sum's time
BEHIND_PER_ALONE = 1.15  # times, for open rows: few at a time, and by tangents
SUMS_PER_WEIGHT = 2.5  # sums, for a center's part in one of several outputs
SINGLES_PER_WINNER = 22  # likewise, per center, by which a one-vs-one label is found from values
ROWS_PER_CLASS = 2  # rows, while the pairs of a class are looked at
SUMS_PER_SCATTERED_ROW = 20  # more sums for entries of a row, which are found one by one
LISTED_MEETINGS = 23 / 17  # meetings, for a center in the lists
PACKED_SUMS = 0.96  # sums, for a monomial of a packed polynomial
POINTWISE_VALUES = 1.5  # values, for one of a kernel that is not an exponential
POINTWISE_ROWS = 2.5  # rows, while such a kernel's bound is taken
BOX_GROUP_VALUES = 300  # values, for 32 boxes of near centers that are looked at one by one,
FAR_GROUP_VALUES = 10  # and for as many that are seen to be far all together
NEAR_LOOPS, NEAR_VALUES = 4, 0.7  # loops, for each feature as the kernel pads them, and values
NEAR_FETCHED = 6  # bytes fetched, for one of a near center that is in no cache,
NEAR_CACHE_BYTES = 1 << 23  # which holds so many of all centers
VOTES_PER_ROW = 25  # votes, for all that they need besides
VOTES_PER_DECIDED_ROW = 250  # more, where a row is not settled by the pairs of one class
VOTES_PER_MARGIN, VOTES_PER_RIVAL = 36, 9  # for how far the winner leads, and for each other class


def nanoseconds(work: Work) -> float:
    """What so much work takes on one core.

    Examples
    --------
    >>> round(nanoseconds(Work(rows=2, loads=10)), 2)
    5.4
    """
    return sum(count * rate for count, rate in zip(work, RATES, strict=True))


def exact_cost(
    expansion: KernelExpansion, *, labels: bool = False, reached: Reached | None = None
) -> float:
    """Nanoseconds of one core per row.

    Parameters
    ----------
    expansion : KernelExpansion
    labels : bool
        Whether labels are asked for, not values.
    reached : dict of str to float, optional
        The share of rows that each exact stage is asked for; without it, the first one that may
        serve settles all.

    Examples
    --------
    >>> import numpy as np
    >>> few, many = (KernelExpansion(np.ones((n, 3)), np.ones(n), 0.0, gamma=1.0) for n in (9, 99))
    >>> exact_cost(few) < exact_cost(many)
    True
    """
    return nanoseconds(exact_work(expansion, labels=labels, reached=reached))


def exact_candidate(
    expansion: KernelExpansion,
    verdict: str,
    *,
    labels: bool = False,
    reached: Reached | None = None,
) -> Candidate:
    """The exact engine's line in the plan."""
    cost = exact_cost(expansion, labels=labels, reached=reached) / thread_count()
    return Candidate(exact_name(expansion.n_centers), cost, 1.0, expansion.nbytes, verdict)


def exact_work(
    expansion: KernelExpansion, *, labels: bool = False, reached: Reached | None = None
) -> Work:
    """What a row takes if all centers are summed; as `exact_cost`."""
    if not expansion.has_series:
        return _pointwise_work(expansion) + Work(rows=POINTWISE_ROWS)
    if reached is None:
        voting = expansion.voting_classes is not None
        reached = {PAIRS if voting else EXACT_SINGLE: 1.0} if labels else {EXACT_QUICK: 1.0}
    loads = LOADS_PER_LABEL_FEATURE if labels else LOADS_PER_VALUE_FEATURE
    work = Work(rows=ROWS_PER_EXACT_ROW, loads=loads * expansion.n_features)
    for stage, share in reached.items():
        work += _stage_work(expansion, stage).times(share)
        if labels and stage == EXACT and expansion.voting_classes is not None:
            work += voting_work(expansion, VOTES_PER_DECIDED_ROW).times(share)
    if labels and expansion.voting_classes is None:
        work += voting_work(expansion, VOTES_PER_ROW)
    return work


def _stage_work(expansion: KernelExpansion, stage: str) -> Work:
    """What a row takes of one exact stage, its beginning and end aside."""
    n, d, k = expansion.n_centers, expansion.n_features, expansion.n_outputs
    lists = Work(meetings=expansion.meeting_entries + n * LISTED_MEETINGS, products=n * k)
    if expansion.kernel.quadratic or d > WIDEST_PANEL_FEATURES:
        return min(Work(products=n * (d + k), values=n), lists, key=nanoseconds)
    classes = expansion.voting_classes
    if stage == PAIRS and classes is not None:
        sums = n * (d + SINGLES_PER_VALUE + SINGLES_PER_WINNER) / SINGLES_PER_SUM
        return Work(sums=sums, rows=ROWS_PER_CLASS * classes)
    if stage == EXACT_SINGLE:
        sums = float(d)
        if is_sparse(expansion.centers):
            sums = min(sums, _entries(expansion) + SUMS_PER_SCATTERED_ROW)
        # Twice as many fit into a register.
        return Work(sums=n * (sums + SINGLES_PER_VALUE * (1 + k) / 2) / SINGLES_PER_SUM)
    if stage == EXACT_QUICK and k == 1:
        return min(Work(sums=n * (d + SUMS_PER_QUICK_VALUE)), lists, key=nanoseconds)
    weights = 0 if k == 1 else k if classes is None else classes - 1
    dense = Work(sums=n * (d + SUMS_PER_DOUBLE_VALUE + SUMS_PER_WEIGHT * weights))
    return min(dense, lists, key=nanoseconds)


def voting_work(expansion: KernelExpansion, besides: float) -> Work:
    """Labels of several classes from their scores, or those of pairs, and from bounds."""
    if expansion.n_outputs == 1:
        return Work()
    return Work(votes=besides + expansion.n_outputs)


def margin_work(expansion: KernelExpansion) -> Work:
    """How far the winner of several classes leads, where that settles rows, and no bound."""
    if expansion.n_outputs == 1:
        return Work()
    classes = expansion.voting_classes or expansion.n_outputs
    return Work(votes=VOTES_PER_MARGIN + VOTES_PER_RIVAL * (classes - 1))


def local_cost(engine: LocalEngine, visits: Visits) -> float:
    """Nanoseconds of one core per row that looks at so many groups of boxes and leaves."""
    expansion = engine.expansion
    n, k = expansion.n_centers, expansion.n_outputs
    boxes = visits.groups * BOX_GROUP_VALUES + n / (LEAF * LEAF) * FAR_GROUP_VALUES
    centers = LEAF * visits.leaves
    loops = centers * (NEAR_LOOPS * engine.width + 2 * k)
    held = 8.0 * n * (engine.width + k)
    fetched = NEAR_FETCHED * max(1.0 - NEAR_CACHE_BYTES / held, 0.0) * centers * held / n
    work = Work(rows=1, loops=loops, values=NEAR_VALUES * centers + boxes, fetched=fetched)
    return nanoseconds(work)


def _entries(expansion: KernelExpansion) -> float:
    """Of a row like the centers, where they are sparse."""
    centers: Any = expansion.centers
    return float(centers.nnz / max(len(centers.indptr) - 1, 1)) if is_sparse(centers) else 0.0


def _pointwise_work(expansion: KernelExpansion) -> Work:
    """A row of the engine for any kernel: one dot product, a packed polynomial, or all centers."""
    n, d, k = expansion.n_centers, expansion.n_features, expansion.n_outputs
    degree = packed_degree(expansion)
    if degree == 1:
        return Work(rows=1, loads=d, products=d * k)
    if degree is not None:
        return Work(rows=1, loads=d, sums=packed_numbers(d, degree) * k * PACKED_SUMS)
    return Work(rows=1, loops=n * d, products=n * k, values=n * POINTWISE_VALUES)


@dataclass(frozen=True, eq=False)
class Option:
    """An approximation with what it is expected to cost per row, in nanoseconds of one core.

    `unseen` is the part of that which no sample shows, so that no timing has it.
    """

    name: str
    approximation: Approximation
    nanoseconds: float
    open_share: float
    unseen: float = 0.0

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return array_bytes(self.approximation)

    def on_all_threads(self) -> Option:
        """With what it is expected to cost here, where several threads share the rows."""
        count = thread_count()
        return replace(self, nanoseconds=self.nanoseconds / count, unseen=self.unseen / count)

    def candidate(self, verdict: str = "") -> Candidate:
        """Its line in the plan."""
        return Candidate(self.name, self.nanoseconds, self.open_share, self.nbytes, verdict)


def least_form_cost(d: int, k: int) -> float:
    """Per row, of the cheapest form there could be, with its bound: truncated, or in full."""
    least = min((quadratic_work(d, k), spectral_work(d, k, 1)), key=nanoseconds)
    return nanoseconds(least + Work(bounds=k))


def open_row_work(k: int, *, labels: bool) -> Work:
    """What a row takes besides, that a form left open: to be given on, and put back."""
    joined = labels and k == 1
    return Work(rows=ROWS_PER_OPEN_ROW, bounds=0 if joined else BOUNDS_PER_OPEN_ROW * k)


def second_cost(approximation: Approximation) -> float:
    """Nanoseconds of one core per row of the second form, if there is one."""
    full, cubic = approximation.full, approximation.cubic
    return nanoseconds(sum((one.work for one in (full, cubic) if one is not None), Work()))


def tiers_cost(
    approximation: Approximation,
    expansion: KernelExpansion,
    after_first: float,
    after_second: float,
    *,
    labels: bool = True,
    after_product: float = 1.0,
) -> float:
    """Nanoseconds of one core per row, given the shares left open by the first and second tier.

    `labels`: whether labels are asked for, not values. Where both forms run in one pass, a product
    may stand for the third order, and leave the share `after_product` to it.
    """
    form, k = approximation.form, approximation.form.n_outputs
    first = form.work + Work(bounds=k if approximation.certified else 0)
    if labels:
        first += voting_work(expansion, VOTES_PER_ROW)
    second, both = second_cost(approximation), not labels and approximation.has_second_form
    if both and runs_at_once(approximation.full, after_first):  # in one pass
        cost = nanoseconds(first + Work(rows=ROWS_PER_OPEN_ROW)) + after_product * second
        cost += nanoseconds(product_work(form.n_features, k)) if after_product < 1.0 else 0.0
    else:
        given_on = nanoseconds(open_row_work(k, labels=labels))
        cost = nanoseconds(first) + after_first * (given_on + second)
    return cost + after_second * behind_cost(expansion, labels=labels)


def behind_cost(expansion: KernelExpansion, *, labels: bool) -> float:
    """What the exact engine costs for a row that a form left open.

    After a form, values are summed in doubles, and the shortcut by the winner's pairs is not used.
    """
    if labels and expansion.n_outputs == 1:
        return BEHIND_PER_ALONE * exact_cost(expansion, labels=True, reached={EXACT_SINGLE: 1.0})
    return exact_cost(expansion, labels=labels, reached={EXACT: 1.0})


def unseen_cost(
    approximation: Approximation, expansion: KernelExpansion, share: float, narrowing: float
) -> float:
    """What open rows cost besides, that are too rare for a sample to show: few in each block.

    They are too rare to share the cost of fetching the second tier's arrays, or all centers.

    Parameters
    ----------
    approximation : Approximation
    expansion : KernelExpansion
    share : float
        Of all rows, that the sample would not have shown.
    narrowing : float
        Of these, those that the second tier leaves open too.
    """
    second = array_bytes(approximation.full) + array_bytes(approximation.cubic)
    block = BLOCK_ELEMENTS / max(expansion.n_features, 4 * expansion.n_outputs, 1)
    fetched = -math.expm1(-share * block) * second
    fetched -= math.expm1(-share * narrowing * block) * expansion.nbytes
    return nanoseconds(Work(fetched=fetched / block))


def array_bytes(value: Any) -> int:
    """Bytes of all arrays inside nested dataclasses and tuples.

    Examples
    --------
    >>> array_bytes((np.zeros(4), np.zeros((2, 3))))
    80
    """
    if isinstance(value, np.ndarray):
        return value.nbytes
    if is_sparse(value):
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)
    if isinstance(value, tuple | list):
        return sum(array_bytes(item) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return sum(array_bytes(getattr(value, field.name)) for field in fields(value))
    return 0
