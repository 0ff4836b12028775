"""Tiles of kernel values that are still in cache: functions of them in place, as vectors.

Of exponents -gamma |x_i - z|^2, which are made here for sparse rows, or of products x.z. Twins:
`np.exp(np.minimum(tile, 0))`, and `function` of the kernels in `machine.kernels.products`.
Functions of distances are in `radial`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.compiling import (
    Ints,
    Longs,
    OutMatrix,
    OutVector,
    Vector,
    jit_available,
    kernel,
)
from kernelite.backends.cpu.kernels.exp import exp_nonpositive
from kernelite.data.rows.inputs import FloatArray

__all__ = [
    "affine",
    "exp_in_place",
    "fill_exponents",
    "sigmoid",
]


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
    if not jit_available():
        np.exp(np.minimum(tile, 0.0, out=tile), out=tile)
        return
    _exp_kernel(tile.reshape(-1))  # one long row: no rests between vectors


@kernel()
def _exp_kernel(values: OutVector) -> Any:
    for j in range(len(values)):
        x = values[j]
        x = 0.0 if x > 0.0 else x
        values[j] = exp_nonpositive(x)


@kernel()
def affine(values: OutVector, gamma: float, coef0: float) -> Any:
    """gamma v + coef0."""
    for j in range(len(values)):
        values[j] = gamma * values[j] + coef0


@kernel()
def sigmoid(values: OutVector, gamma: float, coef0: float) -> Any:
    """tanh(gamma v + coef0) as (1 - e) / (1 + e), e = exp(-2 |argument|)."""
    for j in range(len(values)):
        v = gamma * values[j] + coef0
        e = exp_nonpositive(-2.0 * math.fabs(v))
        t = (1.0 - e) / (1.0 + e)
        values[j] = t if v > 0.0 else -t


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
