"""The remainder certificate: one number an output, a bound for every row.

The remainder r_m(t) = sum_{j>=m} t^j / j! has non-negative coefficients, so r_m(2 gamma s.u) is a
positive definite kernel and, by Cauchy-Schwarz in its RKHS, with e^-t r_m(t) = P(m, t):

    |f(z) - f_m(z)|  <=  rho_m sqrt(P(m, 2 gamma |u|^2)),      rho_m^2 = sum_ij A_i A_j R_m(i, j)
    R_m(i, j) = exp(-gamma |s_i|^2 - gamma |s_j|^2) r_m(2 gamma s_i.s_j)

for the series f_m of order m - 1 about p. |R_m(i, j)| <= sqrt(P_i P_j) with P_i = P(m, 2 gamma
|s_i|^2), so every rounding error of the double sum is relative to B^2 = (sum_i |A_i| sqrt(P_i))^2.
Many centers have too many pairs: `many_norms` in `tensors` bounds rho in time linear in n.

How the error of R_m(i, j) compares to sqrt(P_i P_j), in units of u = 2^-53, with L = gamma R^2:
t = 2 gamma s_i.s_j errs by (d + 6) 2 gamma |s_i||s_j|, and x r_{m-1}(x) <= (m + x) r_m(x), so that
costs (d + 6) (m + 2 L); the exponents cost (d + 3) 2 L. Horner's rule for r_m(t) m! / t^m errs by
2 |t| + 3 of the same series at |t|, since k m! / (m + k)! <= m! / (m + k - 1)!; with the power,
its factor and the exponentials that is 60 at most for |t| < 9 and m <= 10. The closed form of
m = 3, 4 serves from |t| = 2 on where |t| may be above that: exp(t - ..) and the four lowest terms
are at most 7 times r_4(|t|), and round by 40 together (exp by 8 each time), so 7 * 40; the
exponent's own two subtractions cost 7 * 4 L.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, dense_block, row_blocks
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.ops import NUMPY, Arithmetic, ops
from kernelite.series.rounding import LOST_TERMS, SAFETY, UNIT, round_up, square_error

__all__ = [
    "BLOCK",
    "DoubleSums",
    "Each",
    "Remainders",
    "ScaledCenters",
    "block_sums",
    "lower_gamma",
    "majorants",
    "needs_closed_form",
    "one_by_one",
    "pair_norms",
    "remainder_norms",
    "remainders",
    "series_coefficients",
    "total",
]

BLOCK = 384  # centers a side: the temporaries of a block pair stay in the cache
SERIES_BELOW = 2.0  # |t| from which the closed form loses no more than a few digits
SERIES_UP_TO = 8.1  # |t| up to which the series alone serves: all centers with gamma |s|^2 <= 4
LARGEST_SQUARE = 300.0  # gamma |s|^2 up to which no factor of R_m under- or overflows
PAIR_OVERHEAD = 32  # features whose product takes as long as the rest of a pair
PAIRS_BUDGET = 1e11  # multiply-adds that sums over pairs may take: some six seconds of one core
REMAINDER_NUMBERS_PER_BLOCK = 1 << 20


class Remainders(Protocol):
    """R_m and R_{m+1} of a block from t, which may be overwritten, and gamma |s|^2 of both sides.

    m is `order`, and no |t| is above `size`.
    """

    def __call__(
        self, t: FloatArray, left: FloatArray, right: FloatArray, *, order: int, size: float
    ) -> tuple[FloatArray, FloatArray]: ...


Each: TypeAlias = Callable[[Callable[[slice], None], int, int], None]
"""Calls a function on slices that cover so many items, each of at most so many; on any thread."""


def one_by_one(work: Callable[[slice], None], n_items: int, chunk: int) -> None:
    """An `Each` that starts no threads."""
    for part in row_blocks(n_items, chunk):
        work(part)


class DoubleSums(Protocol):
    """As `double_sums`."""

    def __call__(
        self,
        S: FloatArray,
        A: FloatArray,
        exponents: FloatArray,
        progress: Callable[[float], None] | None,
        *,
        order: int = 3,
    ) -> FloatArray: ...


def lower_gamma(order: int, x: FloatArray, arithmetic: Arithmetic = NUMPY) -> FloatArray:
    """An upper bound, tight to 4e-13 relatively, of P(m, x) for x >= 0 (inf gives 1) and m <= 12.

    Where t^m underflows, the true P is below the 1e-300 that is added.

    Examples
    --------
    >>> lower_gamma(3, np.array([0.0, 1.0, np.inf])).round(6)
    array([0.      , 0.080301, 1.      ])
    """
    xp = ops(x)
    # The closed form needs P not to be small.
    limit, terms = (1.0, 12) if order <= 4 else (16.0, 80)
    t = xp.minimum(x, limit)
    coefficients = [math.factorial(order) / math.factorial(order + j) for j in range(terms + 1)]
    # What follows the last term is less than a geometric series.
    series = t * (coefficients[-1] / (1.0 - limit / (order + terms + 1))) + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        series = series * t + coefficient
    for _ in range(order):
        series = series * t
    t = xp.clip(x, limit, 800.0)
    head = t * (1.0 / math.factorial(order - 1)) + 1.0 / math.factorial(order - 2)
    for power in range(order - 3, -1, -1):
        head = head * t + 1.0 / math.factorial(power)
    with np.errstate(under="ignore"):
        e = xp.exp(-xp.minimum(x, 800.0))  # on either side of the limit
        small = series * e * (1.0 / math.factorial(order))
        bound = xp.where(x < limit, small, 1.0 - e * head)
    # exp(-t) head errs by the exponential's units and 12 more, and 1 - exp(-t) head >= 0.0189 for
    # order <= 4 and t >= 1; for orders up to 12 and t >= 16 it is at least 0.8. The series rounds
    # by 2 x + 20 units at most.
    margin = 64.0 * (arithmetic.exp + 24.0) * arithmetic.unit
    return xp.minimum(bound * (1.0 + margin) + 1e-300, 1.0)


def remainder_norms(
    expansion: KernelExpansion,
    point: FloatArray,
    *,
    progress: Callable[[float], None] | None = None,
    sums: DoubleSums | None = None,
    each: Each = one_by_one,
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
    each : callable
        What hands out blocks of centers.

    Notes
    -----
    n^2 d / 2 multiply-adds, in blocks, or where that is too much, time linear in n (`tensors`).
    Memory is that of the shifted centers, or of a part of them, and a few blocks.

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
    sums = sums or double_sums
    centers, scale = ScaledCenters.about(expansion, point)
    near = centers.exponents <= LARGEST_SQUARE
    above = majorants(centers)
    if not near.all():
        # The triangle inequality: far centers enter by their own norms, and nothing overflows.
        far, centers = majorants(centers.only(~near)), centers.only(near)
    else:
        far = np.zeros_like(above)
    if centers.pair_cost(len(centers)) <= PAIRS_BUDGET:
        rho = pair_norms(centers, slice(None), 3, sums, progress)
    else:
        from kernelite.series.tensors import many_norms

        rho = many_norms(centers, sums, progress, PAIRS_BUDGET, each)
    with np.errstate(over="ignore"):
        return round_up(np.minimum(round_up(far + rho), above) * scale)


@dataclass(frozen=True, eq=False)
class ScaledCenters:
    """The centers s_i = x_i - p that have coefficients, made dense only a part at a time.

    Parameters
    ----------
    expansion : KernelExpansion
    point : ndarray of shape (d,)
        p.
    used : ndarray of shape (n,)
        Which centers of the expansion these are.
    exponents : ndarray of shape (n,)
        gamma |s_i|^2.
    A : ndarray of shape (n, k)
        Coefficients, divided by a power of two so that none is above 1.
    """

    expansion: KernelExpansion
    point: FloatArray
    used: NDArray[np.intp]
    exponents: FloatArray
    A: FloatArray

    @classmethod
    def about(
        cls, expansion: KernelExpansion, point: FloatArray
    ) -> tuple[ScaledCenters, FloatArray]:
        """Of an expansion; and what the coefficients were divided by, shape (k,)."""
        A = expansion.coefficients
        with np.errstate(over="ignore"):
            # A power of two changes no digit, and keeps squares of coefficients in range.
            most = np.maximum(np.abs(A).max(axis=0, initial=0.0), 1e-290)
            scale = np.exp2(np.ceil(np.log2(most)))
            used = np.flatnonzero(A.any(axis=1))
            exponents = np.empty(len(used))
            for block in row_blocks(len(used), _block_rows(expansion.n_features)):
                S = dense_block(expansion.centers, used[block]) - point
                exponents[block] = expansion.gamma * np.einsum("ij,ij->i", S, S)
        return cls(expansion, point, used, exponents, A[used] / scale), scale

    def __len__(self) -> int:
        return len(self.used)

    @property
    def n_features(self) -> int:
        """d."""
        return self.expansion.n_features

    @cached_property
    def largest(self) -> float:
        """The largest of `exponents`."""
        return float(self.exponents.max(initial=0.0))

    def rows(self, which: slice | NDArray[np.intp]) -> FloatArray:
        """sqrt(2 gamma) s_i of some of them, dense: a copy."""
        S = dense_block(self.expansion.centers, self.used[which])  # a copy: an array of indices
        with np.errstate(over="ignore"):
            S -= self.point
            S *= math.sqrt(2.0 * self.expansion.gamma)
        return S

    def only(self, which: NDArray[Any]) -> ScaledCenters:
        """Some of them: a mask, or indices."""
        kept = (self.used[which], self.exponents[which], self.A[which])
        return replace(self, used=kept[0], exponents=kept[1], A=kept[2])

    def pair_cost(self, group: int) -> float:
        """Multiply-adds that all pairs within groups of so many centers take."""
        return len(self) * group / 2 * (self.n_features + PAIR_OVERHEAD + self.A.shape[1] - 1)


def _block_rows(n_features: int) -> int:
    return max(1, REMAINDER_NUMBERS_PER_BLOCK // max(n_features, 1))


def majorants(centers: ScaledCenters, order: int = 3) -> FloatArray:
    """sum_i |A_i| sqrt(P_i) for m = `order` and the next, rounded up: shape (2, k)."""
    with np.errstate(over="ignore"):
        arguments = 2.0 * centers.exponents * (1.0 + square_error(centers.n_features + 5))
    roots = [np.sqrt(lower_gamma(m, arguments)) for m in (order, order + 1)]
    sums = np.stack([np.abs(centers.A).T @ root for root in roots])
    return round_up(sums) * (1.0 + (len(centers) + 8) * UNIT) + LOST_TERMS


def pair_norms(
    centers: ScaledCenters,
    which: slice | NDArray[np.intp],
    order: int,
    double_sums: DoubleSums,
    progress: Callable[[float], None] | None = None,
) -> FloatArray:
    """rho_m and rho_{m+1} of some centers, from their pairs, rounded up: shape (2, k)."""
    k = centers.A.shape[1]
    if not len(centers):
        return np.zeros((2, k))
    if not isinstance(which, slice):
        centers = centers.only(which)
    d, largest, above = centers.n_features, centers.largest, majorants(centers, order)
    S, A = centers.rows(slice(None)), np.ascontiguousarray(centers.A)
    sums = double_sums(S, A, centers.exponents, progress, order=order)
    for index, m in enumerate((order, order + 1)):
        relative = 2 * BLOCK + (d + 6) * (m + 4.0 * largest) + 28.0 * largest + 320.0
        sums[index] += SAFETY * UNIT * relative * above[index] ** 2
    # Coefficients are at most 1 here, so what underflows is below 1e-300 for each pair.
    return round_up(np.sqrt(np.maximum(sums, 0.0) + 1e-300 * len(A) ** 2))


def double_sums(
    S: FloatArray,
    A: FloatArray,
    exponents: FloatArray,
    progress: Callable[[float], None] | None,
    *,
    order: int = 3,
) -> FloatArray:
    """sum_ij A_i A_j R_m(i, j) for `order` and the next: (2, k). Block pairs, one triangle."""
    parts: list[FloatArray] = []
    for left in row_blocks(len(A), BLOCK):
        parts += block_sums(S, A, exponents, left, remainders, order)
        if progress is not None:
            progress((left.stop / len(A)) ** 2)
    return total(parts)


def block_sums(
    S: FloatArray,
    A: FloatArray,
    exponents: FloatArray,
    left: slice,
    kernel: Remainders,
    order: int = 3,
) -> list[FloatArray]:
    """The sums of one block of centers with all before it and itself, each of shape (2, k)."""
    parts = []
    size = 2.0 * float(exponents.max(initial=0.0)) * 1.001  # Cauchy-Schwarz, and some rounding
    for right in [*row_blocks(left.start, BLOCK), left]:
        t = S[left] @ S[right].T
        twice = 1.0 if left == right else 2.0
        part = np.empty((2, A.shape[1]))
        found = kernel(t, exponents[left], exponents[right], order=order, size=size)
        for index, values in enumerate(found):
            part[index] = twice * np.einsum("ij,ij->j", A[left], values @ A[right])
        parts.append(part)
    return parts


def total(parts: list[FloatArray]) -> FloatArray:
    """All blocks together, without rounding: only sums within a block count in the error."""
    table = np.stack(parts)
    return np.array([[math.fsum(column) for column in order.T] for order in table.swapaxes(0, 1)])


def series_coefficients(order: int, size: float) -> FloatArray:
    """c_k = m! / (m + k)! of r_m(t) = t^m / m! sum_k c_k t^k, enough of them for |t| <= size.

    What is left out is below 2e-18 of the series at |t|: from there on terms are halved at least.

    Examples
    --------
    >>> series_coefficients(3, 0.0)
    array([1.])
    """
    terms, term = [1.0], 1.0
    while term * size ** len(terms) > 1e-18 or size > 0.5 * (order + len(terms)):
        term /= order + len(terms)
        terms.append(term)
    return np.array(terms)


def needs_closed_form(order: int, size: float) -> bool:
    """Whether |t| may be too large for the series; only orders 3 and 4 have a closed form."""
    if size > SERIES_UP_TO and order != 3:
        raise ValueError(f"no closed form of order {order} for |t| up to {size}")
    return size > SERIES_UP_TO


def remainders(
    t: FloatArray, left: FloatArray, right: FloatArray, *, order: int = 3, size: float
) -> tuple[FloatArray, FloatArray]:
    """R_m and R_{m+1} of a block; how accurate is said above."""
    damping = np.exp(-left)[:, None] * np.exp(-right)[None, :]
    power = t**order
    power *= 1.0 / math.factorial(order)
    closed_form = needs_closed_form(order, size)
    coefficients = series_coefficients(order + 1, SERIES_BELOW if closed_form else size)
    higher = np.full_like(t, coefficients[-1])
    with np.errstate(over="ignore", invalid="ignore"):  # far |t|, which the closed form replaces
        for coefficient in coefficients[-2::-1]:
            higher *= t
            higher += coefficient
        higher *= power
        higher *= t / (order + 1)
        higher *= damping
    if closed_form:
        closed = np.exp(t - left[:, None] - right[None, :])
        closed -= damping * (1.0 + t * (1.0 + 0.5 * t) + power)
        higher = np.where(np.abs(t) > SERIES_BELOW, closed, higher)
    power *= damping
    power += higher
    return power, higher
