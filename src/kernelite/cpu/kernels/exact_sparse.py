"""A tile of exponents -gamma |x_i - z|^2 for sparse rows, from centers held by feature.

In: CSR rows with |z|^2, and the centers by feature. Out: the tile, of shape (m, n).
Twin: `2 gamma rows @ centers.T - gamma |z|^2 - gamma |x_i|^2`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelite.cpu.kernels.compiling import array_type, kernel
from kernelite.rows.inputs import FloatArray

__all__ = ["fill_exponents"]


@kernel(
    array_type(1, "int64"),
    array_type(1, "int32"),
    array_type(1),
    "float64",
    array_type(1),
    array_type(1, "int64"),
    array_type(1, "int32"),
    array_type(1),
    array_type(1),
    array_type(2, writable=True),
)
def fill_exponents(
    row_starts: NDArray[np.int64],
    indices: NDArray[np.int32],
    entries: FloatArray,
    gamma: float,
    exponents: FloatArray,
    starts: NDArray[np.int64],
    holders: NDArray[np.int32],
    values: FloatArray,
    squares: FloatArray,
    tile: FloatArray,
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
