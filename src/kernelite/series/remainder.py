"""The remainder certificate: one number an output, a bound for every row.

The remainder r_m(t) = sum_{j>=m} t^j / j! has non-negative coefficients, so r_m(2 gamma s.u) is a
positive definite kernel and, by Cauchy-Schwarz in its RKHS, with e^-t r_m(t) = P(m, t):

    |f(z) - f_m(z)|  <=  rho_m sqrt(P(m, 2 gamma |u|^2)),      rho_m^2 = sum_ij A_i A_j R_m(i, j)
    R_m(i, j) = exp(-gamma |s_i|^2 - gamma |s_j|^2) r_m(2 gamma s_i.s_j)

for the series f_m of order m - 1 about p. |R_m(i, j)| <= sqrt(P_i P_j) with P_i = P(m, 2 gamma
|s_i|^2), so every rounding error of the double sum is relative to B^2 = (sum_i |A_i| sqrt(P_i))^2.

How the error of R_m(i, j) compares to sqrt(P_i P_j), in units of u = 2^-53, with L = gamma R^2:
t = 2 gamma s_i.s_j errs by (d + 6) 2 gamma |s_i||s_j|, and x r_{m-1}(x) <= (m + x) r_m(x), so that
costs (d + 6) (m + 2 L); the exponents cost (d + 3) 2 L. The series rounds by 20 at most. From
|t| = 2 on, exp(t - ..) and the four lowest terms are at most 7 times r_4(|t|), and round by 40
together (exp by 8 each time), so 7 * 40; the exponent's own two subtractions cost 7 * 4 L.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from kernelite.machine.expansion import KernelExpansion
from kernelite.rows.inputs import FloatArray, dense_block, row_blocks
from kernelite.series.rounding import SAFETY, TINY, UNIT, round_up, square_error

__all__ = [
    "BLOCK",
    "SERIES_BELOW",
    "DoubleSums",
    "Remainders",
    "block_sums",
    "lower_gamma",
    "remainder_norms",
    "remainders",
    "total",
]

Remainders: TypeAlias = Callable[
    [FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]
]
"""R_3 and R_4 of a block from t, which may be overwritten, and gamma |s|^2 of both sides."""
DoubleSums: TypeAlias = Callable[
    [FloatArray, FloatArray, FloatArray, Callable[[float], None] | None], FloatArray
]
"""As `double_sums`."""

BLOCK = 384  # centers a side: the temporaries of a block pair stay in the cache
SERIES_BELOW = 2.0  # |t| from which the closed form loses no more than a few digits
TERMS = 26  # of the series for |t| < 2: the first one left out is below 1e-17 of the sum
LARGEST_SQUARE = 300.0  # gamma |s|^2 up to which no factor of R_m under- or overflows


def lower_gamma(order: int, x: FloatArray) -> FloatArray:
    """An upper bound, tight to 4e-13 relatively, of P(m, x) for x >= 0 (inf gives 1).

    Where t^m underflows, the true P is below the 1e-300 that is added.

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
    with np.errstate(under="ignore"):
        out[small] = np.exp(-t) * t**order / math.factorial(order) * series
    t = x[rest]
    head = np.zeros_like(t)
    for j in range(order - 1, -1, -1):
        head = 1.0 / math.factorial(j) + head * t
    out[rest] = 1.0 - np.exp(-t) * head
    # exp(-t) head errs by 20 u and 1 - exp(-t) head >= 0.0189 for order <= 4 and t >= 1: 2e-13.
    return np.minimum(out * (1.0 + 4e-13) + 1e-300, 1.0)


def remainder_norms(
    expansion: KernelExpansion,
    point: FloatArray,
    *,
    progress: Callable[[float], None] | None = None,
    sums: DoubleSums | None = None,
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
    sums : callable, optional
        What sums over pairs of centers instead of `double_sums`, as accurately.

    Notes
    -----
    n^2 d / 2 multiply-adds, in blocks; memory is that of the shifted centers and a few blocks.

    Examples
    --------
    The bound is attained for one center at z = x_1:

    >>> one = KernelExpansion([[1.0]], [1.0], 0.0, gamma=0.5)
    >>> rho = remainder_norms(one, np.array([0.0]))
    >>> from kernelite.series.series import quadratic_form
    >>> missing = 1.0 - quadratic_form(one, np.zeros(1)).evaluate(np.array([[1.0]]))[0]
    >>> bool(np.isclose(missing, rho[0] * np.sqrt(lower_gamma(3, np.array([1.0])))))
    True
    """
    A, sums = expansion.coefficients, sums or double_sums
    with np.errstate(over="ignore"):
        # A power of two changes no digit, and keeps squares of coefficients in range.
        scale = np.exp2(np.ceil(np.log2(np.maximum(np.abs(A).max(axis=0, initial=0.0), 1e-290))))
    S, exponents, A = _scaled_centers(expansion, point, A / scale)
    near = exponents <= LARGEST_SQUARE
    majorants = _majorants(A, exponents, expansion.n_features)
    if not near.all():
        # The triangle inequality: far centers enter by their own norms, and nothing overflows.
        far = _majorants(A[~near], exponents[~near], expansion.n_features)
        own = _majorants(A[near], exponents[near], expansion.n_features)
        rho = far + _norms(S[near], A[near], exponents[near], own, progress, sums)
    else:
        rho = _norms(S, A, exponents, majorants, progress, sums)
    with np.errstate(over="ignore"):
        return round_up(np.minimum(round_up(rho), majorants) * scale)


def _scaled_centers(
    expansion: KernelExpansion, point: FloatArray, A: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """sqrt(2 gamma) s_i, gamma |s_i|^2 and coefficients, of the centers that have any."""
    used = np.flatnonzero(A.any(axis=1))
    S = dense_block(expansion.centers, used)  # a copy: `used` is an array of indices
    with np.errstate(over="ignore"):
        S -= point
        exponents = expansion.gamma * np.einsum("ij,ij->i", S, S)
        S *= math.sqrt(2.0 * expansion.gamma)
    return S, exponents, A[used]


def _majorants(A: FloatArray, exponents: FloatArray, n_features: int) -> FloatArray:
    """sum_i |A_i| sqrt(P_i) for m = 3, 4, rounded up: shape (2, k)."""
    with np.errstate(over="ignore"):
        arguments = 2.0 * exponents * (1.0 + square_error(n_features + 5))
    roots = [np.sqrt(lower_gamma(m, arguments)) for m in (3, 4)]
    sums = np.stack([np.abs(A).T @ root for root in roots])
    return round_up(sums) * (1.0 + (len(A) + 8) * UNIT) + TINY


def _norms(
    S: FloatArray,
    A: FloatArray,
    exponents: FloatArray,
    majorants: FloatArray,
    progress: Callable[[float], None] | None,
    double_sums: DoubleSums,
) -> FloatArray:
    """rho of centers that are not far, from the double sum with its rounding: shape (2, k)."""
    if not len(A):
        return np.zeros((2, A.shape[1]))
    d, largest = S.shape[1], float(exponents.max(initial=0.0))
    sums = double_sums(S, A, exponents, progress)
    for index, m in enumerate((3, 4)):
        relative = 2 * BLOCK + (d + 6) * (m + 4.0 * largest) + 28.0 * largest + 320.0
        sums[index] += SAFETY * UNIT * relative * majorants[index] ** 2
    # Coefficients are at most 1 here, so what underflows is below 1e-300 for each pair.
    return round_up(np.sqrt(np.maximum(sums, 0.0) + 1e-300 * len(A) ** 2))


def double_sums(
    S: FloatArray,
    A: FloatArray,
    exponents: FloatArray,
    progress: Callable[[float], None] | None,
) -> FloatArray:
    """sum_ij A_i A_j R_m(i, j) for m = 3, 4: shape (2, k). Block pairs, one triangle."""
    parts: list[FloatArray] = []
    for left in row_blocks(len(A), BLOCK):
        parts += block_sums(S, A, exponents, left, remainders)
        if progress is not None:
            progress((left.stop / len(A)) ** 2)
    return total(parts)


def block_sums(
    S: FloatArray, A: FloatArray, exponents: FloatArray, left: slice, kernel: Remainders
) -> list[FloatArray]:
    """The sums of one block of centers with all before it and itself, each of shape (2, k)."""
    parts = []
    for right in [*row_blocks(left.start, BLOCK), left]:
        t = S[left] @ S[right].T
        twice = 1.0 if left == right else 2.0
        part = np.empty((2, A.shape[1]))
        for index, values in enumerate(kernel(t, exponents[left], exponents[right])):
            part[index] = twice * np.einsum("ij,ij->j", A[left], values @ A[right])
        parts.append(part)
    return parts


def total(parts: list[FloatArray]) -> FloatArray:
    """All blocks together, without rounding: only sums within a block count in the error."""
    table = np.stack(parts)
    return np.array([[math.fsum(column) for column in order.T] for order in table.swapaxes(0, 1)])


def remainders(t: FloatArray, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    """R_3 and R_4 of a block; how accurate is said above."""
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
