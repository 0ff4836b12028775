"""The remainder certificate: one number an output, a bound for every row.

The remainder r_m(t) = sum_{j>=m} t^j / j! has non-negative coefficients, so r_m(2 gamma s.u) is a
positive definite kernel and, by Cauchy-Schwarz in its RKHS, with e^-t r_m(t) = P(m, t):

    |f(z) - f_m(z)|  <=  rho_m sqrt(P(m, 2 gamma |u|^2)),      rho_m^2 = sum_ij A_i A_j R_m(i, j)
    R_m(i, j) = exp(-gamma |s_i|^2 - gamma |s_j|^2) r_m(2 gamma s_i.s_j)

for the series f_m of order m - 1 about p. |R_m(i, j)| <= sqrt(P_i P_j) with P_i = P(m, 2 gamma
|s_i|^2), so every rounding error of the double sum is relative to B^2 = (sum_i |A_i| sqrt(P_i))^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from kernelite.approximation.rounding import SAFETY, UNIT, round_up
from kernelite.expansion import KernelExpansion
from kernelite.inputs import FloatArray, dense_block, row_blocks

__all__ = ["lower_gamma", "remainder_norms"]

BLOCK = 384  # centers a side: the temporaries of a block pair stay in the cache
SERIES_BELOW = 2.0  # |t| from which the closed form loses no more than a few digits
TERMS = 26  # of the series for |t| < 2: the first one left out is below 1e-17 of the sum
LARGEST_SQUARE = 300.0  # gamma R^2 beyond which exp(2 gamma s.s) may overflow


def lower_gamma(order: int, x: FloatArray) -> FloatArray:
    """An upper bound, tight to 1e-13 relatively, of P(m, x) for x >= 0 (inf gives 1).

    Examples
    --------
    >>> lower_gamma(3, np.array([0.0, 1.0, np.inf])).round(6)
    array([0.      , 0.080301, 1.      ])
    """
    out = np.ones_like(x)
    small, rest = x < 1.0, (x >= 1.0) & (x < 800.0)
    t = x[small]
    series = np.ones_like(t)
    for j in range(order + 20, order, -1):
        series = 1.0 + series * t / j
    out[small] = np.exp(-t) * t**order / math.factorial(order) * series
    t = x[rest]
    head = np.zeros_like(t)
    for j in range(order - 1, -1, -1):
        head = 1.0 / math.factorial(j) + head * t
    out[rest] = 1.0 - np.exp(-t) * head
    # 1 - exp(-t) head >= 0.0189 for order <= 4 and t >= 1, so 1e-13 covers its cancellation.
    return np.minimum(out * (1.0 + 1e-13), 1.0)


def remainder_norms(
    expansion: KernelExpansion,
    point: FloatArray,
    *,
    progress: Callable[[float], None] | None = None,
) -> FloatArray:
    """rho_3 and rho_4 of every output, rounded up: shape (2, k).

    Parameters
    ----------
    expansion : KernelExpansion
        With the RBF kernel.
    point : ndarray of shape (d,)
        p.
    progress : callable, optional
        Told the share that is done, from time to time.

    Notes
    -----
    n^2 d / 2 multiply-adds, in blocks; memory is that of the shifted centers and a few blocks.

    Examples
    --------
    The bound is attained for one center at z = x_1:

    >>> one = KernelExpansion([[1.0]], [1.0], 0.0, gamma=0.5)
    >>> rho = remainder_norms(one, np.array([0.0]))
    >>> from kernelite.approximation.quadratic import quadratic_form
    >>> from kernelite.engines.blas import quadratic_scores
    >>> missing = 1.0 - quadratic_scores(quadratic_form(one, np.zeros(1)), np.array([[1.0]]))[0]
    >>> bool(np.isclose(missing, rho[0] * np.sqrt(lower_gamma(3, np.array([1.0])))))
    True
    """
    S, A, squares = _relevant_centers(expansion, point)
    gamma, (n, d) = expansion.gamma, S.shape
    largest = float(squares.max(initial=0.0)) * gamma
    majorants = np.stack(
        [np.abs(A).T @ np.sqrt(lower_gamma(m, 2.0 * gamma * squares)) for m in (3, 4)]
    )
    majorants = round_up(majorants) * (1.0 + (n + 8) * UNIT)
    if largest > LARGEST_SQUARE or n == 0:
        return majorants  # the triangle inequality: no cancellation kept, and nothing overflows
    sums = _double_sums(S, A, gamma, squares, progress)
    for index, m in enumerate((3, 4)):
        relative = 2 * BLOCK + (d + 5) * (m + 4.0 * largest) + 64.0
        sums[index] += SAFETY * UNIT * relative * majorants[index] ** 2
    return np.minimum(round_up(np.sqrt(np.maximum(sums, 0.0))), majorants)


def _relevant_centers(
    expansion: KernelExpansion, point: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    used = np.flatnonzero(expansion.coefficients.any(axis=1))
    S = dense_block(expansion.centers, used) - point
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->i", S, S)
    return S, expansion.coefficients[used], squares


def _double_sums(
    S: FloatArray,
    A: FloatArray,
    gamma: float,
    squares: FloatArray,
    progress: Callable[[float], None] | None,
) -> FloatArray:
    """sum_ij A_i A_j R_m(i, j) for m = 3, 4: shape (2, k). Block pairs, one triangle."""
    n, k = A.shape
    scaled = math.sqrt(2.0 * gamma) * S
    exponents = gamma * squares
    parts: list[list[list[float]]] = [[[] for _ in range(k)] for _ in range(2)]
    done = 0
    for left in row_blocks(n, BLOCK):
        for right in row_blocks(left.stop, BLOCK):
            t = scaled[left] @ scaled[right].T
            twice = 1.0 if left == right else 2.0
            for index, values in enumerate(_remainders(t, exponents[left], exponents[right])):
                pair = twice * np.einsum("ij,ij->j", A[left], values @ A[right])
                for output in range(k):
                    parts[index][output].append(float(pair[output]))
        done = left.stop
        if progress is not None:
            progress((done / n) ** 2)
    # fsum adds the blocks without rounding, so only sums within a block count in the error.
    return np.array([[math.fsum(values) for values in row] for row in parts]).reshape(2, k)


def _remainders(
    t: FloatArray, left: FloatArray, right: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """R_3 and R_4 of a block, accurate relatively to R(|t|)."""
    damping = np.exp(-left)[:, None] * np.exp(-right)[None, :]
    cubes = t * t * t
    cubes *= 1.0 / 6.0
    size = float(np.abs(t).max(initial=0.0))
    fourth = _series_from_fourth(t, min(size, SERIES_BELOW))
    fourth *= damping
    if size > SERIES_BELOW:
        closed = np.exp(t - left[:, None] - right[None, :])
        closed -= damping * (1.0 + t * (1.0 + 0.5 * t) + cubes)
        fourth = np.where(np.abs(t) > SERIES_BELOW, closed, fourth)
    cubes *= damping
    cubes += fourth
    return cubes, fourth


def _series_from_fourth(t: FloatArray, size: float) -> FloatArray:
    """sum_{j>=4} t^j / j! by Horner, with as many terms as |t| <= size needs."""
    terms, term = 1, 1.0
    while terms < TERMS and term > 1e-18:
        term *= size / (4 + terms)
        terms += 1
    series = np.ones_like(t)
    for j in range(4 + terms, 4, -1):
        series *= t
        series *= 1.0 / j
        series += 1.0
    series *= t * t
    series *= t * t
    series *= 1.0 / 24.0
    return series
