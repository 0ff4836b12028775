"""Polynomial kernels without their centers: one symmetric tensor, packed.

    sum_i A_i (gamma x_i.z + coef0)^p = T(w, ..., w),    w = (z, 1),    y_i = (x_i, coef0 / gamma)
    T = gamma^p sum_i A_i y_i (x) ... (x) y_i

Degree 1 is a vector per output. Of degree 3 only entries a <= b <= c are kept, multiplicities
folded in, in the order of `series.cubic`. Degree 4 is a quadratic form of the products w_a w_b,
a <= b. All is exact up to rounding: term by term and in absolute value, everything that is summed
is at most sum_i |A_i| (gamma |x_i| |z| + |coef0|)^p.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, is_sparse
from kernelite.machine.exactly import (
    NORM_LOSS,
    UNIT,
    Uncertainty,
    accurate_product,
    exact_sum,
    gap,
    nearest_all,
)
from kernelite.machine.expansion import KernelExpansion, only_columns, squared_norms
from kernelite.machine.kernels import CosineKernel, PolynomialKernel
from kernelite.series.rounding import ABOVE
from kernelite.series.work import packed_size

__all__ = [
    "collapsed",
    "linear_map",
    "packed_degree",
    "packed_numbers",
    "packed_places",
    "packed_tensor",
    "pair_places",
]

DEGREES = (1, 3, 4)
MOST_PACKED_NUMBERS = 1 << 24  # of a tensor: 128 MB
MOST_COLLAPSED = 1 << 21  # numbers of all outputs, held as centers: 16 MB
CENTERS_AT_ONCE = 4096


def packed_degree(expansion: KernelExpansion) -> int | None:
    """The degree of a kernel that collapses with fewer numbers than the centers have; else None.

    Examples
    --------
    >>> cubic = PolynomialKernel(3)
    >>> packed_degree(KernelExpansion(np.ones((50, 2)), np.ones(50), 0.0, kernel=cubic))
    3
    """
    kernel = expansion.kernel.polynomial
    if kernel is None or kernel.degree not in DEGREES:
        return None
    if kernel.degree == 1:
        return 1
    if not 1e-20 < kernel.gamma < 1e20 or abs(kernel.coef0) > 1e20:
        return None  # powers of them might be lost
    numbers = packed_numbers(expansion.n_features, kernel.degree) * expansion.n_outputs
    direct = expansion.n_centers * (expansion.n_features + 16.0 + expansion.n_outputs)
    return kernel.degree if numbers <= min(direct, MOST_PACKED_NUMBERS) else None


def packed_numbers(d: int, degree: int) -> int:
    """Of the tensor of one output.

    Examples
    --------
    >>> packed_numbers(50, 3)
    23426
    """
    if degree == 1:
        return d
    return packed_size(d + 1) if degree == 3 else ((d + 1) * (d + 2) // 2) ** 2


class LinearMap(NamedTuple):
    """f(z) = W z + b; for a cosine kernel z is of length one.

    Parameters
    ----------
    weights : ndarray of shape (k, c)
        W, of the features in `columns`; elsewhere it is zero.
    intercept : ndarray of shape (k,)
    lost : ndarray of shape (k,)
        How far W_j may be off, as a norm,
    lost_intercept : ndarray of shape (k,)
        and b.
    columns : ndarray of shape (c,), optional
        None stands for all.
    """

    weights: FloatArray
    intercept: FloatArray
    lost: FloatArray
    lost_intercept: FloatArray
    columns: NDArray[np.integer] | None


def linear_map(expansion: KernelExpansion) -> LinearMap:
    """Add up the centers of a linear or a cosine kernel.

    Examples
    --------
    >>> two = KernelExpansion([[1.0], [3.0]], [1.0, -1.0], 0.5, kernel=PolynomialKernel(1))
    >>> linear_map(two).weights
    array([[-2.]])
    """
    kernel, A, known = expansion.kernel.polynomial, expansion.coefficients, expansion.known
    centers, columns, units = expansion.centers, None, 0.0
    assert kernel is not None
    gamma, coef0 = kernel.gamma, kernel.coef0
    if expansion.kernel.unit_rows:
        centers = CosineKernel.normalized(expansion.dense_centers())
        units = 1.1 * expansion.n_features + 10.0
    if is_sparse(centers):
        columns = np.unique(centers.indices)
        centers = only_columns(centers, columns)
    with np.errstate(over="ignore", invalid="ignore"):
        if is_sparse(centers):
            product = np.asarray(centers.T @ A)
            error = UNIT * 1.01 * (len(A) + 2.0) * np.asarray(abs(centers).T @ np.abs(A))
        else:
            product, error = accurate_product(np.ascontiguousarray(centers.T), A)
        W = np.ascontiguousarray(gamma * product.T)
        sizes = np.sqrt(squared_norms(centers)) * ABOVE + NORM_LOSS
        weight = gamma * (np.abs(A) * sizes[:, None]).sum(axis=0)
        lost = np.sqrt(np.square(gamma * error.T + 2.0 * UNIT * np.abs(W)).sum(axis=1)) + NORM_LOSS
        lost += (units * UNIT + known.gamma + known.centers) * weight
        lost += gamma * float(sizes.max(initial=0.0)) * known.coefficients
    constants = [
        Fraction(b) + Fraction(coef0) * exact_sum(column)
        for b, column in zip(expansion.intercept, A.T)
    ]
    b = nearest_all(constants)
    lost_b = np.array(list(map(gap, b, constants))) + abs(coef0) * known.coefficients
    return LinearMap(W, b, lost * (1.0 + 1e-6), lost_b + known.intercept, columns)


def collapsed(expansion: KernelExpansion) -> KernelExpansion:
    """A linear expansion with one center per output; others, and small ones, as they are.

    Examples
    --------
    >>> two = KernelExpansion([[1.0], [3.0]], [1.0, -1.0], 0.5, kernel=PolynomialKernel(1))
    >>> collapsed(two).centers, collapsed(two).coefficients
    (array([[-2.]]), array([[1.]]))
    """
    k, d = expansion.n_outputs, expansion.n_features
    few = expansion.n_centers <= k or k * d > MOST_COLLAPSED
    if few or expansion.kernel.unit_rows or packed_degree(expansion) != 1:
        return expansion
    found = linear_map(expansion)
    size = float(np.sqrt(squared_norms(found.weights)).max())
    if not 1e-100 < size < 1e100 or not np.isfinite(found.lost).all():
        return expansion
    W = found.weights
    if found.columns is not None:
        W = np.zeros((k, d))
        W[:, found.columns] = found.weights
    # An error of the coefficient meets no more than |W| |z|.
    lost = Uncertainty(found.lost / size * ABOVE, found.lost_intercept)
    return KernelExpansion(
        W, np.eye(k), found.intercept, kernel=PolynomialKernel(1), uncertainty=lost
    )


def pair_places(r: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """a and b of the products w_a w_b, a <= b, row by row."""
    a, b = np.triu_indices(r)
    return a, b


def packed_places(r: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """a, b and c of the coefficients t_abc, a <= b <= c, in the order in which they are packed.

    Examples
    --------
    >>> [axis.tolist() for axis in packed_places(2)]
    [[0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 1, 1]]
    """
    pairs = [np.triu_indices(r - a) for a in range(r)]
    first = np.repeat(np.arange(r), [len(b) for b, _ in pairs])
    b, c = (np.concatenate([pair[axis] + a for a, pair in enumerate(pairs)]) for axis in (0, 1))
    return first, b, c


def packed_tensor(expansion: KernelExpansion) -> FloatArray:
    """T of degree 3, shape (k, r (r + 1) (r + 2) / 6), or of degree 4, shape (k, P, P); r = d + 1.

    Examples
    --------
    >>> one = KernelExpansion([[2.0]], [1.0], 0.0, kernel=PolynomialKernel(3, 1.0, 1.0))
    >>> packed_tensor(one)  # (2 z + 1)^3
    array([[ 8., 12.,  6.,  1.]])
    """
    kernel = expansion.kernel.polynomial
    assert kernel is not None
    r, k = expansion.n_features + 1, expansion.n_outputs
    a, b = pair_places(r)
    twice = np.where(a == b, 1.0, 2.0)
    centers = expansion.dense_centers()
    last = np.full((len(centers), 1), kernel.coef0 / kernel.gamma)
    Y = np.hstack([centers, last])
    A = kernel.gamma**kernel.degree * expansion.coefficients
    found = np.zeros((k, packed_size(r)) if kernel.degree == 3 else (k, len(a), len(a)))
    for start in range(0, len(Y), CENTERS_AT_ONCE):
        block = slice(start, start + CENTERS_AT_ONCE)
        part, weights = Y[block], A[block]
        pairs = part[:, a] * part[:, b]
        for j in range(k):
            used = np.flatnonzero(weights[:, j])
            left = (part if kernel.degree == 3 else pairs * twice)[used] * weights[used, j, None]
            right = pairs[used] if kernel.degree == 3 else pairs[used] * twice
            if kernel.degree == 3:
                found[j] += _packed(left, right, r)
            else:
                found[j] += left.T @ right
    return found


def _packed(left: FloatArray, pairs: FloatArray, r: int) -> FloatArray:
    """t_abc for a <= b <= c with multiplicities, from y_a and y_b y_c of weighted centers."""
    out = np.empty(packed_size(r))
    start = 0
    for a in range(r):
        rest = r - a
        first = a * r - a * (a - 1) // 2  # where the pairs (a, a), (a, a + 1), ... begin
        sums = left[:, a] @ pairs[:, first:]
        b, c = np.triu_indices(rest)
        times = np.where(b == c, np.where(b == 0, 1.0, 3.0), np.where(b == 0, 3.0, 6.0))
        out[start : start + len(b)] = sums * times
        start += len(b)
    return out
