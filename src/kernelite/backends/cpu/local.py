"""The local engine: sums over the centers near a row, and a bound on all that was left out.

    |computed f - f| <= left out + u (n / 32 + (d + 8) 745 + 96) sum_i |A_i| K_i + 4u (|b| + |f|)

over the centers that were summed. gamma |x - z|^2 is computed from differences, so it errs by
(d + 5) u relatively, and it is at most 745 where its exponential is not zero. The distance to a
box errs alike, which the factor 1 + 1e-9 on what was left out covers.

First come the boxes that centers are sorted into; last, logarithms of sums that would underflow.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FloatArray, Rows, is_sparse, row_blocks
from kernelite.machine.expansion import KernelExpansion, squared_distances, squared_norms
from kernelite.machine.ops import ops
from kernelite.program.bounded import NEAR, Bounded
from kernelite.program.cascade import Asked, Block, Found, Room
from kernelite.program.criteria import Criterion, never
from kernelite.series.approximation import LocalSums
from kernelite.series.rounding import ABOVE, GAMMA_RANGE, LOST_TERMS, SAFETY, UNIT, folding
from kernelite.support.records import dataclass

__all__ = ["LEAF", "LocalEngine", "NearCenters", "Visits", "log_sums", "sort_into_leaves"]

# Centers sorted into boxes of neighbours: leaves of 32 centers, groups of 32 leaves.
#
# In: centers (n, d) and coefficients (n, k). Out: arrays laid out for vector loops, features padded
# to a fixed width. Places that are not needed hold centers of weight zero, in boxes infinitely far.

LEAF = 32  # centers of a leaf, and leaves of a group: four vectors of eight doubles
LEAVES_AT_ONCE, CENTERS_AT_ONCE = 1 << 10, 1 << 15  # that are copied: a megabyte, or some


class Leaves(NamedTuple):
    """G groups of 32 leaves of 32 centers, in w features (d and zeros), as the kernel takes them.

    Parameters
    ----------
    centers : ndarray of shape (32 G, w, 32)
    coefficients : ndarray of shape (32 G, k, 32)
    low, high : ndarray of shape (G, w, 32)
        Boxes of the leaves.
    weight : ndarray of shape (G, k, 32)
        The sum of |A_i| in a leaf.
    group_low, group_high : ndarray of shape (w, G)
    group_weight : ndarray of shape (k, G)
    """

    centers: FloatArray
    coefficients: FloatArray
    low: FloatArray
    high: FloatArray
    weight: FloatArray
    group_low: FloatArray
    group_high: FloatArray
    group_weight: FloatArray


def sort_into_leaves(centers: FloatArray, coefficients: FloatArray, width: int) -> Leaves:
    """Split at the middle of the widest side, groups first, then leaves.

    Parameters
    ----------
    centers : ndarray of shape (n, d)
    coefficients : ndarray of shape (n, k)
    width : int
        w, at least d.

    Examples
    --------
    >>> leaves = sort_into_leaves(np.arange(40.0)[:, None], np.ones((40, 1)), 1)
    >>> leaves.centers.shape, leaves.weight[0, 0, :3].tolist()
    ((32, 1, 32), [32.0, 8.0, 0.0])
    >>> leaves.low[0, 0, :3].tolist(), leaves.high[0, 0, :3].tolist()
    ([0.0, 32.0, inf], [31.0, 39.0, inf])
    """
    (n, d), k = centers.shape, coefficients.shape[1]
    order = _order(centers)
    groups = max(1, -(-n // (LEAF * LEAF)))
    leaves = groups * LEAF
    # Filled some leaves at a time, since all centers may be many.
    by_leaf, weights = np.zeros((leaves, width, LEAF)), np.zeros((leaves, k, LEAF))
    low, high = np.full((leaves, width), np.inf), np.full((leaves, width), np.inf)
    sizes = np.zeros((leaves, k))
    for block in row_blocks(-(-n // LEAF), LEAVES_AT_ONCE):
        some = order[block.start * LEAF : block.stop * LEAF]
        count, filled = block.stop - block.start, len(some)
        rows = np.zeros((count * LEAF, width))
        rows[:filled, :d] = centers[some]
        by_leaf[block] = rows.reshape(count, LEAF, width).transpose(0, 2, 1)
        rows[filled:] = np.inf  # places without a center
        low[block] = rows.reshape(count, LEAF, width).min(axis=1)
        rows[filled:] = -np.inf
        high[block] = rows.reshape(count, LEAF, width).max(axis=1)
        own = np.zeros((count * LEAF, k))
        own[:filled] = coefficients[some]
        weights[block] = own.reshape(count, LEAF, k).transpose(0, 2, 1)
        sizes[block] = np.abs(own).reshape(count, LEAF, k).sum(axis=1)
    group_high = np.where(np.isfinite(high), high, -np.inf).reshape(groups, LEAF, -1).max(axis=1)
    return Leaves(
        centers=by_leaf,
        coefficients=weights,
        low=_transposed(low.reshape(groups, LEAF, -1)),
        high=_transposed(high.reshape(groups, LEAF, -1)),
        weight=_transposed(sizes.reshape(groups, LEAF, -1)),
        group_low=np.ascontiguousarray(low.reshape(groups, LEAF, -1).min(axis=1).T),
        group_high=np.ascontiguousarray(group_high.T),
        group_weight=np.ascontiguousarray(sizes.reshape(groups, LEAF, -1).sum(axis=1).T),
    )


def _order(centers: FloatArray) -> NDArray[Any]:
    """Centers in the order of their leaves; every leaf but the last is full."""
    small = len(centers) <= np.iinfo(np.int32).max
    order = np.arange(len(centers), dtype=np.int32 if small else np.int64)
    pending = [(0, len(centers))]
    while pending:
        start, stop = pending.pop()
        count = stop - start
        if count <= LEAF:
            continue
        part = order[start:stop]
        if count <= CENTERS_AT_ONCE:
            rows = centers[part]
            values = rows[:, int(np.argmax(rows.max(axis=0) - rows.min(axis=0)))]
        else:  # a copy of all their features would take as much as the model
            sides = [np.ptp(centers[part, j]) for j in range(centers.shape[1])]
            values = centers[part, int(np.argmax(sides))]
        unit = LEAF * LEAF if count > LEAF * LEAF else LEAF
        units = (count + unit - 1) // unit
        middle = unit * ((units + 1) // 2)
        order[start:stop] = part[np.argpartition(values, middle - 1)]
        pending += [(start, start + middle), (start + middle, stop)]
    return order


def _transposed(array: FloatArray) -> FloatArray:
    return np.ascontiguousarray(array.transpose(0, 2, 1))


# The engine: which boxes a row visits, their sums, and what the others could add.

LEAST_LOCAL_ROWS = 32  # so many rows are worth a thread
MOST_BOXED_FEATURES = 8  # boxes of wider rows would all be near


@dataclass(frozen=True)
class Visits:
    """What a row cost on average: boxes looked at in groups, leaves summed."""

    groups: float
    leaves: float
    threshold: float


@dataclass(frozen=True, eq=False)
class LocalEngine:
    """An expansion sorted into boxes, ready to run.

    Examples
    --------
    >>> x = np.linspace(0.0, 9.0, 500)[:, None]
    >>> bumps = KernelExpansion(x, np.ones(500), [0.0], gamma=50.0)
    >>> engine = LocalEngine.prepare(bumps, LocalSums(np.array([1e-3])))
    >>> found = engine.run(np.array([[4.0]]))
    >>> bool(abs(found.scores - bumps.scores([[4.0]])) <= found.bounds)
    True
    >>> bool(found.bounds <= 1e-3 + 1e-9)
    True
    """

    expansion: KernelExpansion
    settings: LocalSums
    leaves: Leaves
    width: int
    absolute: FloatArray

    @staticmethod
    def serves(expansion: KernelExpansion) -> bool:
        """Whether there is a kernel for this expansion."""
        narrow = 0 < expansion.n_features <= MOST_BOXED_FEATURES and expansion.n_centers > 0
        ordinary = GAMMA_RANGE[0] <= expansion.gamma <= GAMMA_RANGE[1]
        return expansion.kernel.damps and narrow and ordinary and jit_available()

    @classmethod
    def prepare(
        cls, expansion: KernelExpansion, settings: LocalSums, *, mapped: bool = False
    ) -> LocalEngine:
        """Sort the centers into boxes.

        Parameters
        ----------
        expansion : KernelExpansion
            One that `serves` accepts.
        settings : LocalSums
        mapped : bool
            Whether rows come through an affine map, whose rounding then counts.
        """
        from kernelite.backends.cpu.kernels.local import WIDTHS

        width = min(w for w in WIDTHS if w >= expansion.n_features)
        centers = expansion.dense_centers()
        weight = np.abs(expansion.coefficients).sum(axis=0)
        reach = math.sqrt(float(squared_norms(centers).max(initial=0.0)))
        absolute = LOST_TERMS * (1.0 + weight) + folding(expansion, weight, reach, mapped=mapped)
        leaves = sort_into_leaves(centers, expansion.coefficients, width)
        return cls(expansion, settings, leaves, width, absolute)

    def run(self, rows: FloatArray) -> Bounded:
        """Scores and bounds."""
        sums, sizes, left_out, _ = self._sums(rows)
        expansion = self.expansion
        scores = sums + expansion.intercept
        n, d = expansion.n_centers, expansion.n_features
        relative = n / LEAF + (d + 8) * 745.0 + 96.0
        rounding = relative * sizes + 4.0 * (np.abs(expansion.intercept) + np.abs(scores))
        bounds = left_out * ABOVE + SAFETY * UNIT * rounding + self.absolute
        return Bounded(scores, bounds)

    def visits(self, rows: FloatArray) -> Visits:
        """What these rows cost, on average."""
        counts = self._sums(rows)[3]
        groups, leaves, threshold = counts.mean(axis=0) if len(rows) else np.zeros(3)
        return Visits(float(groups), float(leaves), float(threshold))

    def _sums(self, rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        from kernelite.backends.cpu.kernels.local import local_kernel

        m, k = len(rows), self.expansion.n_outputs
        sums, sizes, left_out = (np.empty((m, k)) for _ in range(3))
        found, kernel = (sums, sizes, left_out, np.empty((m, 3))), local_kernel(self.width)
        limits = self.settings.absolute, self.settings.relative, self.settings.start
        fixed = *self.leaves, self.expansion.gamma, *limits

        padded = np.zeros((m, self.width))
        padded[:, : rows.shape[1]] = rows
        share_rows(kernel, m, LEAST_LOCAL_ROWS, padded, *fixed, *found)
        return found


@dataclass(frozen=True, eq=False)
class NearCenters:
    """Sums over near centers as a stage, where a criterion says what is good enough."""

    engine: LocalEngine
    name = NEAR
    accepts_all = False

    def run(
        self, rows: Block, criterion: Asked, previous: Found = None, into: Room = None
    ) -> Found:
        """Scores and bounds of the rows."""
        if criterion is None or criterion is never:
            return None
        return self.engine.run(rows.toarray() if is_sparse(rows) else rows)

    def bound(self, rows: Block, criterion: Criterion | None) -> FloatArray:
        """What is left out depends on the row, so it is run."""
        return self.engine.run(rows).bounds  # type: ignore[return-value]


# The logarithm of a sum of positive bumps, where the sum itself would underflow.
#
#     log sum_i A_i exp(-gamma |x_i - z|^2) = m + log sum_i exp(e_i - m)
#
# with e_i = log A_i - gamma |x_i - z|^2 and m the largest of them: one term at least is 1, however
# far z is.

LOG_SUM_ELEMENTS = 1 << 20  # exponents held at once: 8 MB


def _squares(expansion: KernelExpansion, rows: Rows) -> FloatArray:
    """|x_i - z|^2 of shape (m, n); of kernels without a series, by differences."""
    if expansion.kernel.damps:
        return squared_distances(expansion, rows)
    dense = np.asarray(rows.toarray() if is_sparse(rows) else rows)
    return np.asarray(ops(dense).squared_distances(dense, expansion.dense_centers()))


def log_sums(expansion: KernelExpansion, rows: Rows) -> FloatArray:
    """Of an expansion with one output and no negative coefficient: shape (m,).

    Examples
    --------
    >>> bump = KernelExpansion([[0.0]], [1.0], [0.0], gamma=1.0)
    >>> log_sums(bump, np.array([[100.0]]))
    array([-10000.])
    """
    out = np.empty(rows.shape[0])
    with np.errstate(divide="ignore"):
        logarithms = np.log(expansion.coefficients[:, 0])
    tile = max(16, LOG_SUM_ELEMENTS // max(expansion.n_centers, 1))
    for block in row_blocks(rows.shape[0], tile):
        found = expansion.kernel.exponents(_squares(expansion, rows[block]))
        assert found is not None
        e = found + logarithms
        m = e.max(axis=1)
        e -= np.where(np.isfinite(m), m, 0.0)[:, None]
        with np.errstate(under="ignore", divide="ignore"):
            out[block] = np.log(np.exp(e, out=e).sum(axis=1)) + np.where(np.isfinite(m), m, 0.0)
    return out
