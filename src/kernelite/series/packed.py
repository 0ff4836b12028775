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

import numpy as np
from numpy.typing import NDArray

from kernelite.machine.exactly import accurate_product, exact_sum, gap, nearest_all
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import Cosine, Polynomial
from kernelite.rows.inputs import FloatArray, is_sparse
from kernelite.series.cubic import packed_size

__all__ = ["linear_map", "packed_degree", "packed_tensor", "pair_places", "packed_numbers"]

DEGREES = (1, 3, 4)
MOST_NUMBERS = 1 << 24  # of a tensor: 128 MB
ROWS = 4096  # centers at a time


def packed_degree(expansion: KernelExpansion) -> int | None:
    """The degree of a kernel that collapses with fewer numbers than the centers have; else None.

    Examples
    --------
    >>> packed_degree(KernelExpansion(np.ones((50, 2)), np.ones(50), 0.0, kernel=Polynomial(3)))
    3
    """
    kernel = expansion.kernel
    if isinstance(kernel, Cosine):
        return 1
    if not isinstance(kernel, Polynomial) or kernel.degree not in DEGREES:
        return None
    if kernel.degree == 1:
        return 1
    if not 1e-20 < kernel.gamma < 1e20 or abs(kernel.coef0) > 1e20:
        return None  # powers of them might be lost
    numbers = packed_numbers(expansion.n_features, kernel.degree) * expansion.n_outputs
    direct = expansion.n_centers * (expansion.n_features + 16.0 + expansion.n_outputs)
    return kernel.degree if numbers <= min(direct, MOST_NUMBERS) else None


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


def linear_map(expansion: KernelExpansion) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """W (k, d) and b (k,) of a linear kernel, f(z) = W z + b; bounds on |error of W_j|, and of b.

    For a cosine kernel z is of length one.
    """
    kernel, A = expansion.kernel, expansion.coefficients
    centers, known = expansion.centers, expansion.known
    units = 0.0
    if isinstance(kernel, Cosine):
        centers = Cosine.normalized(expansion.dense_centers())
        units, gamma, coef0 = 1.1 * expansion.n_features + 10.0, 1.0, 0.0
    else:
        assert isinstance(kernel, Polynomial)
        gamma, coef0 = kernel.gamma, kernel.coef0
    sizes = _norms(centers)
    with np.errstate(over="ignore", invalid="ignore"):
        if is_sparse(centers):
            W = np.asarray((centers.T @ A).T)
            errors = 2.0**-53 * 1.01 * (len(A) + 2.0) * (abs(centers).T @ np.abs(A)).T
        else:
            product, error = accurate_product(np.ascontiguousarray(centers.T), A)
            W, errors = np.ascontiguousarray(product.T), error.T
        W = W * gamma
        errors = gamma * errors + 2.0**-52 * np.abs(W)
        weight = gamma * (np.abs(A) * sizes[:, None]).sum(axis=0)
        lost = np.sqrt(np.square(errors).sum(axis=1))
        lost += (units * 2.0**-53 + known.gamma + known.centers) * weight
        lost += gamma * float(sizes.max(initial=0.0)) * known.coefficients
    constants = [
        Fraction(b) + Fraction(coef0) * exact_sum(column)
        for b, column in zip(expansion.intercept, A.T)
    ]
    b = nearest_all(constants)
    lost_b = np.array(list(map(gap, b, constants))) + abs(coef0) * known.coefficients
    return W, b, lost * (1.0 + 1e-6), lost_b + known.intercept


def _norms(centers: FloatArray) -> FloatArray:
    if is_sparse(centers):
        return np.sqrt(np.asarray(centers.multiply(centers).sum(axis=1)).reshape(-1)) * (1.0 + 1e-9)
    return np.sqrt(np.einsum("ij,ij->i", centers, centers)) * (1.0 + 1e-9)


def pair_places(r: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """a and b of the products w_a w_b, a <= b, row by row."""
    a, b = np.triu_indices(r)
    return a, b


def packed_tensor(expansion: KernelExpansion) -> FloatArray:
    """T of degree 3, shape (k, r (r + 1) (r + 2) / 6), or of degree 4, shape (k, P, P); r = d + 1.

    Examples
    --------
    >>> one = KernelExpansion([[2.0]], [1.0], 0.0, kernel=Polynomial(3, 1.0, 1.0))
    >>> packed_tensor(one)  # (2 z + 1)^3
    array([[ 8., 12.,  6.,  1.]])
    """
    kernel = expansion.kernel
    assert isinstance(kernel, Polynomial)
    r, k = expansion.n_features + 1, expansion.n_outputs
    a, b = pair_places(r)
    twice = np.where(a == b, 1.0, 2.0)
    centers = expansion.dense_centers()
    last = np.full((len(centers), 1), kernel.coef0 / kernel.gamma)
    Y = np.hstack([centers, last])
    A = kernel.gamma**kernel.degree * expansion.coefficients
    found = np.zeros((k, packed_size(r)) if kernel.degree == 3 else (k, len(a), len(a)))
    for start in range(0, len(Y), ROWS):
        part, weights = Y[start : start + ROWS], A[start : start + ROWS]
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
