"""The exact engine's inner loops: exponentials of a tile, and a tile's exponents of sparse rows.

Exponents are -gamma |x_i - z|^2. In and out: arrays of shape (m, n).
Twin: `np.exp(np.minimum(tile, 0))`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite.cpu.kernels.compiling import Ints, Longs, OutMatrix, OutVector, Vector, kernel, ready
from kernelite.cpu.kernels.exp import exp_nonpositive
from kernelite.rows.inputs import FloatArray

__all__ = ["exp_in_place", "fill_exponents"]


def exp_in_place(tile: FloatArray) -> None:
    """tile = exp(min(tile, 0)).

    Parameters
    ----------
    tile : ndarray of shape (m, n)
        Exponents, C-contiguous; overwritten.

    Examples
    --------
    >>> tile = np.array([[0.0, -np.inf, 1e-9]])
    >>> exp_in_place(tile)
    >>> tile
    array([[1., 0., 1.]])
    """
    assert tile.flags.c_contiguous  # else a copy would be overwritten
    if not ready(_exp_kernel):
        np.exp(np.minimum(tile, 0.0, out=tile), out=tile)
        return
    _exp_kernel(tile.reshape(-1))  # one long row: no rests between vectors


@kernel()
def _exp_kernel(values: OutVector) -> Any:
    for j in range(len(values)):
        x = values[j]
        x = 0.0 if x > 0.0 else x
        values[j] = exp_nonpositive(x)


# A tile of exponents -gamma |x_i - z|^2 for sparse rows, from centers held by feature.
#
# In: CSR rows with |z|^2, and the centers by feature. Out: the tile, of shape (m, n).
# Twin: `2 gamma rows @ centers.T - gamma |z|^2 - gamma |x_i|^2`.


@kernel()
def fill_exponents(
    row_starts: Longs,
    indices: Ints,
    entries: Vector,
    gamma: float,
    exponents: Vector,
    starts: Longs,
    holders: Ints,
    values: Vector,
    squares: Vector,
    tile: OutMatrix,
) -> int:
    """Fill `tile`; the first malformed row, or -1.

    The rows lie between the first and the last of `row_starts` and have `squares` |z|^2; the rest
    as in `SparseExact`.
    """
    m, n = tile.shape
    width = len(starts) - 1
    for row in range(m):
        start, stop = row_starts[row], row_starts[row + 1]
        if start < 0 or stop < start or stop > min(len(indices), len(entries)):
            return row
        for i in range(n):
            tile[row, i] = 0.0
        previous = -1
        for e in range(start, stop):
            feature, entry = int(indices[e]), entries[e]
            if feature <= previous or feature >= width:
                return row
            previous = feature
            for q in range(starts[feature], starts[feature + 1]):
                tile[row, holders[q]] += entry * values[q]
        for i in range(n):
            tile[row, i] = 2.0 * gamma * tile[row, i] - gamma * squares[row] - exponents[i]
    return -1
