"""Centers sorted into boxes of neighbours: leaves of 32 centers, groups of 32 leaves.

In: centers (n, d) and coefficients (n, k). Out: arrays laid out for vector loops, features padded
to a fixed width. Places that are not needed hold centers of weight zero, in boxes infinitely far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelite.rows.inputs import FloatArray

__all__ = ["LEAF", "Leaves", "sort_into_leaves"]

LEAF = 32  # centers of a leaf, and leaves of a group: four vectors of eight doubles


@dataclass(frozen=True, eq=False)
class Leaves:
    """G groups of 32 leaves of 32 centers, in w features (d and zeros).

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
    n, d = centers.shape
    order = _order(centers)
    groups = max(1, -(-n // (LEAF * LEAF)))
    places = groups * LEAF * LEAF
    sorted_centers = np.full((places, width), np.inf)
    sorted_centers[:n] = 0.0
    sorted_centers[:n, :d] = centers[order]
    weights = np.zeros((places, coefficients.shape[1]))
    weights[:n] = coefficients[order]
    by_leaf = sorted_centers.reshape(-1, LEAF, width)
    low, high = by_leaf.min(axis=1), np.where(np.isfinite(by_leaf), by_leaf, -np.inf).max(axis=1)
    high[np.isneginf(high)] = np.inf
    sizes = np.abs(weights).reshape(-1, LEAF, weights.shape[1]).sum(axis=1)
    group_high = np.where(np.isfinite(high), high, -np.inf).reshape(groups, LEAF, -1).max(axis=1)
    return Leaves(
        # An infinite center times a weight of zero would be NaN: the last real one fills up.
        centers=_transposed(np.where(np.isfinite(by_leaf), by_leaf, 0.0)),
        coefficients=_transposed(weights.reshape(-1, LEAF, weights.shape[1])),
        low=_transposed(low.reshape(groups, LEAF, -1)),
        high=_transposed(high.reshape(groups, LEAF, -1)),
        weight=_transposed(sizes.reshape(groups, LEAF, -1)),
        group_low=np.ascontiguousarray(low.reshape(groups, LEAF, -1).min(axis=1).T),
        group_high=np.ascontiguousarray(group_high.T),
        group_weight=np.ascontiguousarray(sizes.reshape(groups, LEAF, -1).sum(axis=1).T),
    )


def _order(centers: FloatArray) -> NDArray[np.int64]:
    """Centers in the order of their leaves; every leaf but the last is full."""
    order = np.arange(len(centers))
    pending = [(0, len(centers))]
    while pending:
        start, stop = pending.pop()
        count = stop - start
        if count <= LEAF:
            continue
        part = order[start:stop]
        rows = centers[part]
        widest = int(np.argmax(rows.max(axis=0) - rows.min(axis=0)))
        unit = LEAF * LEAF if count > LEAF * LEAF else LEAF
        units = (count + unit - 1) // unit
        middle = unit * ((units + 1) // 2)
        order[start:stop] = part[np.argpartition(rows[:, widest], middle - 1)]
        pending += [(start, start + middle), (start + middle, stop)]
    return order


def _transposed(array: FloatArray) -> FloatArray:
    return np.ascontiguousarray(array.transpose(0, 2, 1))
