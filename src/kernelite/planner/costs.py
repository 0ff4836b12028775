"""What candidates cost per row: operations that are counted, times rates of a core.

The rates are nanoseconds, measured on a core with AVX-512; candidates are compared by them, so that
their ratios matter most. With those of `series.series` (a multiply-add of a matrix product and of a
fused loop, an entry of a row, a row) there are nine. What does not run on all threads counts as
often as there are threads. An `Option` is an approximation with its cost.
"""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from kernelite.backends.cpu.blocks import BLOCK_ELEMENTS
from kernelite.backends.cpu.exact_dense import WIDEST
from kernelite.backends.cpu.local import LEAF, LocalEngine, Visits
from kernelite.backends.cpu.threads import thread_count
from kernelite.backends.cpu.tiers import runs_at_once
from kernelite.data.rows.inputs import is_sparse
from kernelite.machine.expansion import KernelExpansion
from kernelite.planner.plan import Candidate
from kernelite.series.approximation import Approximation
from kernelite.series.directional import product_cost
from kernelite.series.packed import packed_degree, packed_numbers
from kernelite.series.series import GATHER, LOAD, LOOP, PRODUCT, ROW
from kernelite.support.records import dataclass

__all__ = [
    "Option",
    "array_bytes",
    "behind_cost",
    "exact_cost",
    "judged_cost",
    "judging_cost",
    "local_cost",
    "tiers_cost",
    "unseen_cost",
]

# Nanoseconds of one core.
PANEL_SUM = 1 / 24  # a multiply-add of doubles in panels; of single precision, half
KERNEL_VALUE = 1.0  # an exponential, and its share of a weighted sum
ENTRY = 1.7  # an entry that meets another, by lists of features
JUDGED_ROW = 70.0  # a row's bound and label, on one thread
VOTE = 15.0  # a pair's vote, on one thread

# Multiply-adds of a panel in the time of other things.
SUMS_PER_QUICK_VALUE, SUMS_PER_DOUBLE_VALUE = 7, 11
SUMS_PER_SCATTERED_ROW = 20  # more for entries of a row, which are found one by one
SUMS_PER_WINNER = 5  # per center, by which a one-vs-one label is found from values
SINGLE_LOADS = 5  # entries of doubles that are loaded while one becomes single precision
LISTED_ENTRIES = 23 / 17  # entries that meet, in the time of a center in the lists
WINNER_ROWS = 65 / 6  # rows that are written while a class's pairs are looked at
VOTING_PAIRS = 40 / 3  # votes in the time of what all votes need besides
PACKED_SUMS = 0.96  # multiply-adds of a panel in the time of one of a packed polynomial
POINTWISE_VALUES = 1.5  # exponentials in the time of any other kernel's value
POINTWISE_ROWS = 2.5  # rows that are written while any kernel's bound is taken
BOX_GROUP_VALUES = 80.0  # exponentials in the time of 32 boxes


def exact_cost(expansion: KernelExpansion, *, labels: bool = False) -> float:
    """Nanoseconds of one core per row; `labels`: where single precision mostly suffices.

    Examples
    --------
    >>> import numpy as np
    >>> few, many = (KernelExpansion(np.ones((n, 3)), np.ones(n), 0.0, gamma=1.0) for n in (9, 99))
    >>> exact_cost(few) < exact_cost(many)
    True
    """
    n, d, k = expansion.n_centers, expansion.n_features, expansion.n_outputs
    if not expansion.has_series:
        return _pointwise_cost(expansion) + POINTWISE_ROWS * ROW * thread_count()
    classes = expansion.voting_classes
    judged = ROW + (judging_cost(expansion) if labels else 0.0)
    lists = (expansion.meeting_entries + n * LISTED_ENTRIES) * ENTRY + n * k * PRODUCT
    if expansion.kernel.quadratic or d > WIDEST:
        return min(n * (d * PRODUCT + k * PRODUCT + KERNEL_VALUE), lists) + judged
    if labels and k == 1:
        entries = _entries(expansion) + SUMS_PER_SCATTERED_ROW
        sums = min(d, entries) if is_sparse(expansion.centers) else d
        summed = n * (sums + SUMS_PER_QUICK_VALUE) * PANEL_SUM / 2
        return summed + d * SINGLE_LOADS * LOAD + judged
    if labels and classes is not None:
        sums = n * (d + SUMS_PER_QUICK_VALUE + SUMS_PER_WINNER) * PANEL_SUM / 2
        return sums + (WINNER_ROWS * classes + 1) * ROW
    weights = 0 if k == 1 else k if classes is None else classes - 1
    value = SUMS_PER_QUICK_VALUE if k == 1 else SUMS_PER_DOUBLE_VALUE
    dense = n * ((d + value) * PANEL_SUM + weights * PRODUCT)
    return min(dense, lists) + judged


def judging_cost(expansion: KernelExpansion, alone: float = JUDGED_ROW) -> float:
    """Nanoseconds per row for labels from scores and bounds: votes, or `alone` for one output."""
    k = expansion.n_outputs
    if expansion.voting_classes is not None:
        return (VOTING_PAIRS + k) * VOTE * thread_count()
    return (alone + (k - 1) * VOTE / 3) * thread_count()


def local_cost(engine: LocalEngine, visits: Visits) -> float:
    """Nanoseconds of one core per row that looks at so many groups of boxes and leaves."""
    expansion = engine.expansion
    n, d, k = expansion.n_centers, expansion.n_features, expansion.n_outputs
    boxes = (visits.groups + n / (LEAF * LEAF)) * BOX_GROUP_VALUES * KERNEL_VALUE
    return ROW + LEAF * visits.leaves * ((d + 2 * k) * LOOP + KERNEL_VALUE) + boxes


def _entries(expansion: KernelExpansion) -> float:
    """Of a row like the centers, where they are sparse."""
    centers: Any = expansion.centers
    return float(centers.nnz / max(len(centers.indptr) - 1, 1)) if is_sparse(centers) else 0.0


def _pointwise_cost(expansion: KernelExpansion) -> float:
    """A row of the engine for any kernel: one dot product, a packed polynomial, or all centers."""
    n, d, k = expansion.n_centers, expansion.n_features, expansion.n_outputs
    degree = packed_degree(expansion)
    if degree == 1:
        return ROW + d * (LOAD + k * PRODUCT)
    if degree is not None:
        return ROW + d * LOAD + packed_numbers(d, degree) * k * PACKED_SUMS * PANEL_SUM
    return ROW + n * (d * LOOP + k * PRODUCT + POINTWISE_VALUES * KERNEL_VALUE)


JUDGED = 5.0  # nanoseconds of one thread that a row's label takes, of one output behind a form
VOTED, COUNTED = 2.0, 0.4  # times `judging_cost`, of votes that bounds must leave sure, or need not
FETCHED = 0.03  # and each byte of the arrays that a block's first open row brings from memory


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
    d, k = approximation.form.n_features, approximation.form.n_outputs
    cost = approximation.first_cost + judged_cost(expansion, labels, proven=approximation.certified)
    third = approximation.cubic is not None and approximation.cubic.evaluated
    at_once = values and third and runs_at_once(approximation.full, after_first)
    if at_once and after_product < 1.0:
        cost += product_cost(d, k) + after_product * approximation.second_cost()
    else:
        cost += (1.0 if at_once else after_first) * approximation.second_cost(at_once=at_once)
    return cost + after_second * behind_cost(expansion, labels)


def judged_cost(expansion: KernelExpansion, labels: bool, *, proven: bool = True) -> float:
    """What a row's answer costs behind a form: labels from scores, and from bounds if `proven`."""
    if not labels:
        return 0.0
    votes = VOTED if proven else COUNTED
    factor = votes if expansion.voting_classes is not None else 1.0
    return factor * judging_cost(expansion, JUDGED)


def behind_cost(expansion: KernelExpansion, labels: bool) -> float:
    """What the exact engine costs for a row that a form left open.

    Behind a form, a winner's pairs alone are not looked for.
    """
    return exact_cost(expansion, labels=labels and expansion.n_outputs == 1) + GATHER


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
    return FETCHED * fetched / block * thread_count()


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
