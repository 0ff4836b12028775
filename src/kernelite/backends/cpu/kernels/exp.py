"""exp(x) for x <= 0 in plain arithmetic, so that loops over it become vector instructions.

    x = n ln 2 + r, |r| <= ln 2 / 2 (1 + 2^-40):   exp(x) = 2^n (1 + r + r^2/2 + ... + r^13/13!)

The series leaves out 0.05 u (u = 2^-53); r is off by 0.25 u, its own rounding, because n times the
upper part of ln 2 is exact; Horner's last steps round by less than 1.25 u. `make prove` proves
1.6 u in all, hence at most 2 ulp (the tests hold 1.2). Below -708, where results would become
denormal, the answer is 0; at 0 it is 1.
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
    helper,
    instruction,
    ir,
    jit_available,
    kernel,
    types,
)
from kernelite.data.rows.inputs import FloatArray

__all__ = [
    "LN2_LOWER",
    "LN2_UPPER",
    "SMALLEST_EXPONENT",
    "affine",
    "exp_in_place",
    "exp_nonpositive",
    "fill_exponents",
    "sigmoid",
]

SMALLEST_EXPONENT = -708.0  # exp(-708) = 3.3e-308 is still normal
_LOG2_E = 1.0 / math.log(2.0)
# ln 2 = upper + lower; the upper part has 32 bits, so n times it is exact for n < 2^21.
LN2_UPPER = float.fromhex("0x1.62e42feep-1")
LN2_LOWER = float.fromhex("0x1.a39ef35793c76p-33")
_ROUNDER = 1.5 * 2.0**52  # adding it rounds to an integer, which stays in the lowest bits
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13 = (
    1.0 / math.factorial(j) for j in range(2, 14)
)


@instruction(types.int64(types.float64))
def bits_of(builder: Any, value: Any) -> Any:
    """The 64 bits of a double as an integer."""
    return builder.bitcast(value, ir.IntType(64))


@instruction(types.float64(types.int64))
def double_of(builder: Any, bits: Any) -> Any:
    """The double with these 64 bits."""
    return builder.bitcast(bits, ir.DoubleType())


@helper
def exp_nonpositive(x: float) -> float:
    """exp(x) within 2 ulp for -708 <= x <= 0, 0 for smaller x, -inf included; NaN stays NaN."""
    y = SMALLEST_EXPONENT if x < SMALLEST_EXPONENT else x
    shifted = y * _LOG2_E + _ROUNDER
    n = shifted - _ROUNDER
    r = (y - n * LN2_UPPER) - n * LN2_LOWER
    s = _C12 + r * _C13
    s = _C11 + r * s
    s = _C10 + r * s
    s = _C9 + r * s
    s = _C8 + r * s
    s = _C7 + r * s
    s = _C6 + r * s
    s = _C5 + r * s
    s = _C4 + r * s
    s = _C3 + r * s
    s = _C2 + r * s
    mantissa = 1.0 + (r + (r * r) * s)
    # The low bits of `shifted` hold n: moved to the exponent's place they make 2^n.
    scale = double_of((bits_of(shifted) + 1023) << 52)
    return 0.0 if x < SMALLEST_EXPONENT else mantissa * scale


# Tiles of kernel values that are still in cache: functions of them in place, as vectors.
#
# Of exponents -gamma |x_i - z|^2, which are made here for sparse rows, or of products x.z. Twins:
# `np.exp(np.minimum(tile, 0))`, and `function` of the kernels in `machine.kernels.products`.
# Functions of distances are in `radial`.


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
