"""What candidates cost per row: operations that are counted (`Work`), times ten rates of a core.

`RATES` are nanoseconds, measured once on a core with AVX-512 and kept, so that estimates are the
same everywhere; `python -m benchmarks.rates` measures them again. Candidates are compared by them,
so that their ratios matter most. What does not run on all threads counts as often as there are
threads. An `Option` is an approximation with its cost.
"""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from kernelite.backends.cpu.blocks import BLOCK_ELEMENTS
from kernelite.backends.cpu.exact_dense import WIDEST_PANEL_FEATURES
from kernelite.backends.cpu.local import LEAF, LocalEngine, Visits
from kernelite.backends.cpu.threads import thread_count
from kernelite.backends.cpu.tiers import runs_at_once
from kernelite.data.rows.inputs import is_sparse
from kernelite.machine.expansion import KernelExpansion
from kernelite.planner.plan import Candidate
from kernelite.series.approximation import Approximation
from kernelite.series.directional import product_work
from kernelite.series.packed import packed_degree, packed_numbers
from kernelite.series.series import SeriesForm, Work, quadratic_work
from kernelite.support.records import dataclass

__all__ = [
    "RATES",
    "Option",
    "array_bytes",
    "behind_cost",
    "exact_cost",
    "exact_work",
    "judged_cost",
    "least_form_cost",
    "local_cost",
    "nanoseconds",
    "open_row_cost",
    "second_cost",
    "tiers_cost",
    "unseen_cost",
]

RATES = Work(
    rows=12.0,
    loads=1 / 5,
    bounds=8.0,
    products=2 / 45,
    loops=1 / 15,
    sums=1 / 24,
    values=1.0,
    meetings=1.7,
    votes=15.0,
    fetched=0.03,
)
"""Nanoseconds of one core for one operation of each kind."""

# How many operations of a kind take as long as something else does.
GATHERED_ROWS = 10  # rows, while an open row is picked out and its result put back
SUMS_PER_QUICK_VALUE, SUMS_PER_DOUBLE_VALUE = 7, 11  # sums, for a center's exponential
SUMS_PER_SCATTERED_ROW = 20  # more sums for entries of a row, which are found one by one
SUMS_PER_WINNER = 5  # per center, by which a one-vs-one label is found from values
SINGLE_LOADS = 5  # loads, while a double becomes single precision
LISTED_MEETINGS = 23 / 17  # meetings, for a center in the lists
WINNER_ROWS = 65 / 6  # rows, while a class's pairs are looked at
PACKED_SUMS = 0.96  # sums, for a monomial of a packed polynomial
POINTWISE_VALUES = 1.5  # values, for one of a kernel that is not an exponential
POINTWISE_ROWS = 2.5  # rows, while such a kernel's bound is taken
BOX_GROUP_VALUES = 230  # values, for 32 boxes of near centers that are looked at one by one,
FAR_GROUP_VALUES = 10  # and for as many that are seen to be far all together
NEAR_LOOPS = 4  # loops, for a feature of a near center
VOTES_PER_ROW = 14 / 3  # votes, for the bound and the label of a row with one output,
VOTES_PER_FORM = 1 / 3  # and for those of a row that a form answered
VOTES_PER_OUTPUT = 1 / 3  # more for every further output
VOTES_BESIDES = 40 / 3  # for what all votes of pairs need besides
PROVEN_VOTES, PLAIN_VOTES = 2.0, 0.4  # times that, behind a form with and without bounds


def nanoseconds(work: Work) -> float:
    """What so much work takes on one core.

    Examples
    --------
    >>> nanoseconds(Work(rows=2, loads=10))
    26.0
    """
    return sum(count * rate for count, rate in zip(work, RATES, strict=True))


def exact_cost(expansion: KernelExpansion, *, labels: bool = False) -> float:
    """Nanoseconds of one core per row; `labels`: where single precision mostly suffices.

    Examples
    --------
    >>> import numpy as np
    >>> few, many = (KernelExpansion(np.ones((n, 3)), np.ones(n), 0.0, gamma=1.0) for n in (9, 99))
    >>> exact_cost(few) < exact_cost(many)
    True
    """
    return nanoseconds(exact_work(expansion, labels=labels))


def exact_work(expansion: KernelExpansion, *, labels: bool = False) -> Work:
    """What a row takes if all centers are summed; `labels`: mostly in single precision."""
    n, d, k = expansion.n_centers, expansion.n_features, expansion.n_outputs
    if not expansion.has_series:
        return _pointwise_work(expansion) + Work(rows=POINTWISE_ROWS).times(thread_count())
    classes = expansion.voting_classes
    judged = Work(rows=1) + (_judging(expansion, VOTES_PER_ROW) if labels else Work())
    meetings = expansion.meeting_entries + n * LISTED_MEETINGS
    lists = Work(meetings=meetings, products=n * k)
    if expansion.kernel.quadratic or d > WIDEST_PANEL_FEATURES:
        return min(Work(products=n * (d + k), values=n), lists, key=nanoseconds) + judged
    if labels and k == 1:
        entries = _entries(expansion) + SUMS_PER_SCATTERED_ROW
        sums = min(d, entries) if is_sparse(expansion.centers) else d
        # Twice as many fit into a register in single precision.
        summed = Work(sums=n * (sums + SUMS_PER_QUICK_VALUE) / 2, loads=d * SINGLE_LOADS)
        return summed + judged
    if labels and classes is not None:
        sums = n * (d + SUMS_PER_QUICK_VALUE + SUMS_PER_WINNER) / 2
        return Work(sums=sums, rows=WINNER_ROWS * classes + 1)
    weights = 0 if k == 1 else k if classes is None else classes - 1
    value = SUMS_PER_QUICK_VALUE if k == 1 else SUMS_PER_DOUBLE_VALUE
    dense = Work(sums=n * (d + value), products=n * weights)
    return min(dense, lists, key=nanoseconds) + judged


def _judging(expansion: KernelExpansion, alone: float) -> Work:
    """Labels from scores and bounds: votes of pairs, or `alone` for one output, on one thread."""
    k = expansion.n_outputs
    if expansion.voting_classes is not None:
        return Work(votes=VOTES_BESIDES + k).times(thread_count())
    return Work(votes=alone + (k - 1) * VOTES_PER_OUTPUT).times(thread_count())


def local_cost(engine: LocalEngine, visits: Visits) -> float:
    """Nanoseconds of one core per row that looks at so many groups of boxes and leaves."""
    expansion = engine.expansion
    n, d, k = expansion.n_centers, expansion.n_features, expansion.n_outputs
    boxes = visits.groups * BOX_GROUP_VALUES + n / (LEAF * LEAF) * FAR_GROUP_VALUES
    centers = LEAF * visits.leaves
    loops = centers * (NEAR_LOOPS * d + 2 * k)
    return nanoseconds(Work(rows=1, loops=loops, values=centers + boxes))


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
    truncated = Work(rows=1, loads=d, products=8 * d, loops=36 * k)
    return min(map(nanoseconds, (quadratic_work(d, k), truncated))) + nanoseconds(Work(bounds=k))


def open_row_cost(full: SeriesForm | None, k: int, *, at_once: bool = False) -> float:
    """What an open row costs in a second form besides the third order."""
    found = Work(rows=0 if at_once else GATHERED_ROWS, bounds=k)
    return nanoseconds(found if full is None else found + full.work)


def second_cost(approximation: Approximation, *, at_once: bool = False) -> float:
    """Nanoseconds of one core per row of the second form; `at_once`: with the first."""
    if not approximation.has_second_form:
        return 0.0
    third = 0.0 if approximation.cubic is None else nanoseconds(approximation.cubic.work)
    return open_row_cost(approximation.full, approximation.form.n_outputs, at_once=at_once) + third


def tiers_cost(
    approximation: Approximation,
    expansion: KernelExpansion,
    after_first: float,
    after_second: float,
    *,
    labels: bool = True,
    values: bool = False,
    after_product: float = 1.0,
) -> float:
    """Nanoseconds of one core per row, given the shares left open by the first and second tier.

    `labels`: what the exact engine is asked for. `values`: what settles a row are tolerances of
    its outputs, nothing else. There a product may stand for the third order and leave the share
    `after_product` to the second tier. What does not run on all threads counts as often as there
    are threads.
    """
    form, certified = approximation.form, approximation.certified
    d, k = form.n_features, form.n_outputs
    cost = nanoseconds(form.work + Work(bounds=k if certified else 0))
    cost += judged_cost(expansion, labels, proven=certified)
    third = approximation.cubic is not None and approximation.cubic.evaluated
    at_once = values and third and runs_at_once(approximation.full, after_first)
    if at_once and after_product < 1.0:
        cost += nanoseconds(product_work(d, k)) + after_product * second_cost(approximation)
    else:
        share = 1.0 if at_once else after_first
        cost += share * second_cost(approximation, at_once=at_once)
    return cost + after_second * behind_cost(expansion, labels)


def judged_cost(expansion: KernelExpansion, labels: bool, *, proven: bool = True) -> float:
    """What a row's answer costs behind a form: labels from scores, and from bounds if `proven`."""
    if not labels:
        return 0.0
    votes = PROVEN_VOTES if proven else PLAIN_VOTES
    factor = votes if expansion.voting_classes is not None else 1.0
    return factor * nanoseconds(_judging(expansion, VOTES_PER_FORM))


def behind_cost(expansion: KernelExpansion, labels: bool) -> float:
    """What the exact engine costs for a row that a form left open.

    After a form, the shortcut by the winner's pairs is not used.
    """
    found = exact_work(expansion, labels=labels and expansion.n_outputs == 1)
    return nanoseconds(found + Work(rows=GATHERED_ROWS))


def unseen_cost(
    approximation: Approximation, expansion: KernelExpansion, share: float, narrowing: float
) -> float:
    """What open rows cost besides, that are too rare for a sample to show: few in each block.

    Such a row shares what brings the second tier's arrays, or all centers, from memory with none.

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
    return nanoseconds(Work(fetched=fetched / block)) * thread_count()


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
