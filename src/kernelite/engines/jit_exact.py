"""The exact engine's inner loop: exponentials and their weighted sum in one pass over a tile.

In: a tile of exponents -gamma |x_i - z|^2 of shape (m, n) (overwritten), coefficients of shape
(n, k). Out: sums of shape (m, k), added to. Twin: `np.exp(tile) @ coefficients`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite.engines.jit_exp import exp_nonpositive
from kernelite.engines.jit_support import array_type, kernel
from kernelite.inputs import FloatArray

__all__ = ["add_kernel_sums"]

_LANES = 64  # sums kept apart: vectors of rows need no reordering of a single sum


def add_kernel_sums(
    tile: FloatArray, coefficients: FloatArray, out: FloatArray, *, first: bool = False
) -> None:
    """out += exp(min(tile, 0)) @ coefficients.

    Parameters
    ----------
    tile : ndarray of shape (m, n)
        Exponents; overwritten where there are several outputs.
    coefficients : ndarray of shape (n, k)
    out : ndarray of shape (m, k)
    first : bool
        Whether `out` is zero, so that the product may be written there.

    Examples
    --------
    >>> out = np.zeros((1, 1))
    >>> add_kernel_sums(np.array([[0.0, 0.0]]), np.array([[1.0], [2.0]]), out)
    >>> out
    array([[3.]])
    """
    if coefficients.shape[1] == 1:
        _sum_kernel(tile, coefficients, out)
    else:
        _exp_kernel(tile)
        if first:
            np.matmul(tile, coefficients, out=out)
        else:
            out += tile @ coefficients


@kernel(array_type(2), array_type(2), array_type(2, writable=True))
def _sum_kernel(tile: FloatArray, coefficients: FloatArray, out: FloatArray) -> Any:
    m, n = tile.shape
    whole = n // _LANES * _LANES
    sums = np.empty(_LANES)
    for i in range(m):
        sums[:] = 0.0
        row = tile[i]
        for j in range(0, whole, _LANES):
            for lane in range(_LANES):
                x = row[j + lane]
                x = 0.0 if x > 0.0 else x
                sums[lane] += exp_nonpositive(x) * coefficients[j + lane, 0]
        total = 0.0
        for j in range(whole, n):
            x = row[j]
            x = 0.0 if x > 0.0 else x
            total += exp_nonpositive(x) * coefficients[j, 0]
        for lane in range(_LANES):
            total += sums[lane]
        out[i, 0] += total


@kernel(array_type(2, writable=True))
def _exp_kernel(tile: FloatArray) -> Any:
    m, n = tile.shape
    for i in range(m):
        row = tile[i]
        for j in range(n):
            x = row[j]
            x = 0.0 if x > 0.0 else x
            row[j] = exp_nonpositive(x)
