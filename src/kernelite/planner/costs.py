"""What exact sums cost per row: operations that are counted, times rates of a core.

The rates are nanoseconds, measured on a core with AVX-512; candidates are compared by them, so that
their ratios matter most. With those of `series.series` (a multiply-add of a matrix product and of a
fused loop, an entry of a row, a row) there are nine. What does not run on all threads counts as
often as there are threads.
"""

from __future__ import annotations

from typing import Any

from kernelite.backends.cpu.exact_dense import WIDEST
from kernelite.backends.cpu.local import LEAF, LocalEngine, Visits
from kernelite.backends.cpu.threads import thread_count
from kernelite.data.rows.inputs import is_sparse
from kernelite.machine.expansion import KernelExpansion
from kernelite.series.packed import packed_degree, packed_numbers
from kernelite.series.series import LOAD, LOOP, PRODUCT, ROW

__all__ = ["exact_cost", "judging_cost", "local_cost"]

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
