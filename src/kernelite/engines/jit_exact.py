"""The exact engine's inner loop: exponentials of a tile, then their weighted sums by BLAS.

In: a tile of exponents -gamma |x_i - z|^2 of shape (m, n) (overwritten), coefficients of shape
(n, k). Out: sums of shape (m, k), added to. Twin: `np.exp(tile) @ coefficients`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.engines.jit_exp import exp_nonpositive
from kernelite.engines.jit_support import array_type, kernel
from kernelite.inputs import FloatArray

__all__ = ["add_kernel_sums", "exp_of_products"]


def add_kernel_sums(
    tile: FloatArray, coefficients: FloatArray, out: FloatArray, *, first: bool = False
) -> None:
    """out += exp(min(tile, 0)) @ coefficients.

    Parameters
    ----------
    tile : ndarray of shape (m, n)
        Exponents, C-contiguous; overwritten.
    coefficients : ndarray of shape (n, k)
    out : ndarray of shape (m, k)
    first : bool
        Whether these are the first sums: `out` is overwritten.

    Examples
    --------
    >>> out = np.zeros((1, 1))
    >>> add_kernel_sums(np.array([[0.0, 0.0]]), np.array([[1.0], [2.0]]), out)
    >>> out
    array([[3.]])
    """
    assert tile.flags.c_contiguous  # else a copy would be overwritten
    _exp_kernel(tile.reshape(-1))  # one long row: no rests between vectors
    if first:
        np.matmul(tile, coefficients, out=out)
    else:
        out += tile @ coefficients


@kernel(array_type(1, writable=True))
def _exp_kernel(values: FloatArray) -> Any:
    for j in range(len(values)):
        x = values[j]
        x = 0.0 if x > 0.0 else x
        values[j] = exp_nonpositive(x)


def exp_of_products(
    products: NDArray[np.float32], exponents: FloatArray, shifts: FloatArray
) -> FloatArray:
    """exp(min(products - exponents - shifts, 0)) in doubles.

    Parameters
    ----------
    products : ndarray of float32, shape (m, n)
    exponents : ndarray of shape (n,)
    shifts : ndarray of shape (m,)

    Examples
    --------
    >>> exp_of_products(np.ones((1, 2), np.float32), np.array([1.0, 2.0]), np.array([0.0]))
    array([[1.        , 0.36787944]])
    """
    out = np.empty(products.shape)
    _products_kernel(products, exponents, shifts, out)
    return out


@kernel(array_type(2, "float32"), array_type(1), array_type(1), array_type(2, writable=True))
def _products_kernel(
    products: NDArray[np.float32], exponents: FloatArray, shifts: FloatArray, out: FloatArray
) -> Any:
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            x = float(products[i, j]) - exponents[j] - shifts[i]
            x = 0.0 if x > 0.0 else x
            out[i, j] = exp_nonpositive(x)
