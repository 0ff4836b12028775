"""Coefficients of one-vs-one machines: a column for each pair of the K classes.

A center of class c has coefficients only for the K - 1 pairs of c, so its class is read off the
zeros. Pairs are in the order (0,1), (0,2), ..., (K-2,K-1).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.support.errors import InputError

__all__ = [
    "classes_of_centers",
    "columns_of_class",
    "columns_of_classes",
    "n_classes",
    "own_columns",
    "sides_of_pairs",
    "spread_out",
]

MOST_STORED_CLASSES = 128  # stored so: a small file must not become a large array


def n_classes(n_pairs: int) -> int | None:
    """K of so many pairs; None where there is no such K above two.

    Examples
    --------
    >>> n_classes(3), n_classes(325), n_classes(4), n_classes(1)
    (3, 26, None, None)
    """
    K = (1 + math.isqrt(1 + 8 * n_pairs)) // 2
    return K if K > 2 and n_pairs == K * (K - 1) // 2 else None


def columns_of_class(K: int, c: int) -> NDArray[np.intp]:
    """Columns of the pairs of class c with classes 0, 1, ... but itself, shape (K - 1,).

    Examples
    --------
    >>> columns_of_class(4, 1)
    array([0, 3, 4])
    """
    others = np.array([j for j in range(K) if j != c], dtype=np.intp)
    i, j = np.minimum(others, c), np.maximum(others, c)
    return i * (2 * K - i - 1) // 2 + j - i - 1


def columns_of_classes(K: int) -> NDArray[np.intp]:
    """Those of all classes, shape (K, K - 1)."""
    return np.stack([columns_of_class(K, c) for c in range(K)])


def sides_of_pairs(K: int) -> NDArray[np.intp]:
    """Where a pair's first and second class have their own columns, K - 1 per class: (2, k).

    Examples
    --------
    >>> sides_of_pairs(3)
    array([[0, 1, 3],
           [2, 4, 5]])
    """
    i, j = np.triu_indices(K, 1)
    return np.stack([i * (K - 1) + j - 1, j * (K - 1) + i])


def classes_of_centers(coefficients: FloatArray) -> NDArray[np.intp] | None:
    """The class of each center, shape (n,); None where columns are not pairs of classes.

    Examples
    --------
    >>> classes_of_centers(np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0], [-1.0, 0.0, 3.0]]))
    array([0, 2, 1])
    >>> classes_of_centers(np.ones((1, 3))) is None
    True
    """
    K = n_classes(coefficients.shape[1])
    if K is None:
        return None
    meets = np.zeros((coefficients.shape[1], K), dtype=np.float32)
    for c in range(K):
        meets[columns_of_class(K, c), c] = 1.0
    used = (coefficients != 0.0).astype(np.float32)
    within = used @ meets == used.sum(axis=1, keepdims=True)
    return np.argmax(within, axis=1) if within.any(axis=1).all() else None


def own_columns(coefficients: FloatArray) -> tuple[NDArray[np.int32], FloatArray] | None:
    """Classes (n,) and their own coefficients (n, K - 1), for files; None where that is no use."""
    K = n_classes(coefficients.shape[1])
    if K is None or K > MOST_STORED_CLASSES:
        return None
    owner = classes_of_centers(coefficients)
    if owner is None:
        return None
    own = np.take_along_axis(coefficients, columns_of_classes(K)[owner], axis=1)
    return owner.astype(np.int32), own


def spread_out(owner: NDArray[np.int32], own: FloatArray) -> FloatArray:
    """Back from `own_columns`: shape (n, K (K - 1) / 2).

    Examples
    --------
    >>> spread_out(np.array([2]), np.array([[5.0, 7.0]]))
    array([[0., 5., 7.]])
    """
    fits = (
        own.ndim == 2 and owner.shape == own.shape[:1] and 2 <= own.shape[1] < MOST_STORED_CLASSES
    )
    if not fits or owner.dtype.kind not in "iu":  # truth values would choose rows, not name classes
        raise InputError("`coefficients` are not what those of pairs of classes are stored as.")
    n, K = len(own), own.shape[1] + 1
    if n and not (owner.min() >= 0 and owner.max() < K):
        raise InputError(f"`coefficients` name a class that is not among {K}.")
    whole = np.zeros((n, K * (K - 1) // 2))
    np.put_along_axis(whole, columns_of_classes(K)[owner], own, axis=1)
    return whole
