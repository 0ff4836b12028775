"""Certificates of many centers in time linear in their number, instead of all pairs.

The feature space of r_m(2 gamma s.u) is an orthogonal sum over the powers j >= m, in which s has
the parts sigma^(x)j / sqrt(j!) with sigma = sqrt(2 gamma) s. With w_i = A_i exp(-|sigma_i|^2 / 2),

    rho_m^2 = sum_{j>=m} |T_j|^2 / j!,      T_j = sum_i w_i sigma_i (x) .. (x) sigma_i   (j times)

|T_j| is the Frobenius norm of sum_i w_i mu_a(sigma_i) mu_b(sigma_i)' for a + b = j, where mu_a has
every product of a entries once, times the root of its number of orders, for <mu_a(x), mu_a(y)> =
(x.y)^a. That takes n C(d + a - 1, a) C(d + b - 1, b) multiply-adds, so orders up to some q can be
afforded. What is beyond them is at most

    rho_{q+1}  <=  sum_i |A_i| sqrt(P(q + 1, |sigma_i|^2))
    rho_{q+1}  <=  sum over groups of centers, of rho_{q+1} of each group by its own pairs

by the triangle inequality. Groups are drawn at random: their systematic parts then add up to that
of all, and only their random parts, which n centers have sqrt(n) times, grow with their number.
Centers with gamma |s|^2 > 4 have too many powers; they are groups by themselves from q = 2 on.

Rounding, in units of u = 2^-53 and as a share of the sum of absolute values of each entry of T_j:
entries of sigma err by 3, products of j of them by 4 j; w_i by (d + 3) gamma |s_i|^2 + 9, its
product by 1; a sum over a block by its length b and one over blocks by their number. These sums of
absolute values form a tensor of norm at most sum_i |w_i| |sigma_i|^j <= sqrt(j!) B_3, since
e^-x x^j / j! <= P(3, x); B_3 = sum_i |A_i| sqrt(P(3, |sigma_i|^2)) as in `remainder`. So

    |T_j| / sqrt(j!)  <=  |computed T_j| / sqrt(j!) + u (4 j + (d + 3) 4 + b + blocks + 10) B_3

and the norm of computed entries, all terms of one sign, errs by the lengths of its sums. With
|sigma|^2 <= 8 and coefficients of at most 1, what underflows is below 1e-300 for each center.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations_with_replacement
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, row_blocks, rows_within
from kernelite.series.remainder import (
    DoubleSums,
    Each,
    ScaledCenters,
    majorants,
    one_by_one,
    pair_norms,
)
from kernelite.series.rounding import SAFETY, UNIT, round_up

__all__ = ["many_norms", "monomials", "tensor_norms"]

NEAR_EXPONENT = 4.0  # gamma |s|^2 of centers whose powers are taken one by one
LARGEST_ORDER = 8
LARGEST_TENSOR = 2.5e6  # numbers of all outputs, so also multiply-adds per center: 100 us of a core
LARGEST_BEYOND_FOURTH = 5e5  # of higher orders, which matter less
TENSORS_FIRST = 4.0  # times the cost of groups, up to which a power comes before them
BLOCK_CENTERS = 2048
STRIPE = 256  # lines of a symmetric matrix that are computed from the diagonal on
# Of what is known of rho_3 and rho_4, that what is only bounded may be: 1% and 12% more then.
BEYOND_THIRD, BEYOND_FOURTH = 0.14, 0.5
NOTHING = 1e-200  # of outputs without coefficients, rho is below that
FEWEST_IN_A_GROUP = 512

Progress = Callable[[float], None]


def many_norms(
    centers: ScaledCenters,
    sums: DoubleSums,
    progress: Progress | None,
    budget: float,
    each: Each = one_by_one,
) -> FloatArray:
    """rho_3 and rho_4 from above, rounded up, of coefficients up to 1: shape (2, k).

    Parameters
    ----------
    centers : ScaledCenters
    sums : callable
        Sums over pairs, as `remainder.double_sums`.
    progress : callable, optional
        Told the share that is done.
    budget : float
        Multiply-adds that pairs may take.
    each : callable
        What hands out blocks of centers.
    """
    told = progress or (lambda share: None)
    near = centers.exponents <= NEAR_EXPONENT
    group = max(FEWEST_IN_A_GROUP, int(len(centers) * budget / centers.pair_cost(len(centers))))
    rho = np.zeros((2, centers.A.shape[1]))
    if near.any():
        rho = _near_norms(centers.only(near), group, sums, each, lambda share: told(0.9 * share))
    if not near.all():
        outer = centers.only(~near)
        found = _group_norms(outer, 3, group, sums, lambda share: told(0.9 + 0.1 * share))
        rho = rho + np.minimum(found, majorants(outer))
    told(1.0)
    return round_up(rho)


def _near_norms(
    centers: ScaledCenters, group: int, sums: DoubleSums, each: Each, progress: Progress
) -> FloatArray:
    """As `many_norms`: one power after the other, until what is beyond them hardly matters."""
    d, k = centers.n_features, centers.A.shape[1]
    known: dict[int, FloatArray] = {}  # |T_j| / sqrt(j!)
    order, rest, in_groups, steps = 2, majorants(centers), False, 0
    while not _small(known, rest):
        start, stop = (1.0 - 0.6**step for step in (steps, steps + 1))
        told, steps = _between(progress, start, stop), steps + 1
        size = tensor_size(d, order + 1) * k
        most = LARGEST_TENSOR if order < 4 else LARGEST_BEYOND_FOURTH
        affordable = order < LARGEST_ORDER and size <= most
        cheap = len(centers) * size <= TENSORS_FIRST * centers.pair_cost(group)
        if not in_groups and not (affordable and cheap):
            rest = np.minimum(rest, _group_norms(centers, order + 1, group, sums, told))
            in_groups = True
        elif affordable:
            order += 1
            known[order] = tensor_norms(centers, order, told, each)
            rest, in_groups = majorants(centers, order + 1), False
        else:
            break
    return np.stack(
        [np.sqrt(_squares(known, m) + rest[max(0, m - order - 1)] ** 2) for m in (3, 4)]
    )


def _small(known: dict[int, FloatArray], rest: FloatArray) -> bool:
    """Whether what is beyond the known orders hardly matters to rho_3 and rho_4."""
    shares = ((3, BEYOND_THIRD), (4, BEYOND_FOURTH))
    limits = (share * np.sqrt(_squares(known, m)) + NOTHING for m, share in shares)
    return all((rest[0] <= limit).all() for limit in limits)


def _squares(known: dict[int, FloatArray], first: int) -> FloatArray:
    """The sum of squares of known norms from an order on; of shape (k,) or (1,)."""
    return sum((norm**2 for order, norm in known.items() if order >= first), np.zeros(1))


def _between(progress: Progress, start: float, stop: float) -> Progress:
    return lambda share: progress(start + share * (stop - start))


def _group_norms(
    centers: ScaledCenters, order: int, group: int, sums: DoubleSums, progress: Progress
) -> FloatArray:
    """rho_m and rho_{m+1} of random groups of centers, added up: shape (2, k)."""
    drawn = np.random.default_rng(0).permutation(len(centers))
    parts = np.array_split(drawn, -(-len(centers) // group))
    found = np.zeros((2, centers.A.shape[1]))
    for done, part in enumerate(parts):
        found += pair_norms(centers, np.sort(part), order, sums)
        progress((done + 1) / len(parts))
    return found * (1.0 + len(parts) * UNIT)


def tensor_size(d: int, order: int) -> int:
    """Numbers of the matrix whose norm is that of T_j.

    Examples
    --------
    >>> tensor_size(10, 3), tensor_size(10, 4)
    (550, 3025)
    """
    low = order // 2
    return math.comb(d + low - 1, low) * math.comb(d + order - low - 1, order - low)


def tensor_norms(
    centers: ScaledCenters,
    order: int,
    progress: Progress | None = None,
    each: Each = one_by_one,
) -> FloatArray:
    """|T_j| / sqrt(j!) of every output, rounded up: shape (k,).

    Parameters
    ----------
    centers : ScaledCenters
        With gamma |s|^2 of at most 4 and coefficients of at most 1.
    order : int
        j.
    progress, each : callable, optional
        As for `many_norms`.
    """
    (n, k), d = centers.A.shape, centers.n_features
    low, high = order // 2, order - order // 2
    columns = math.comb(d + high - 1, high)
    tensor = np.zeros((k, math.comb(d + low - 1, low), columns))
    block = max(1, min(BLOCK_CENTERS, rows_within(columns)))
    done, lock = 0, Lock()

    def add(part: slice) -> None:
        nonlocal done
        sigma = np.ascontiguousarray(centers.rows(part).T)
        short = monomials(sigma, low)
        long = short if high == low else monomials(sigma, high)
        weights = centers.A[part] * np.exp(-centers.exponents[part])[:, None]
        for output in range(k):
            _add_products(tensor[output], short * weights[:, output], long, lock)
        with lock:
            done += part.stop - part.start
            if progress is not None:
                progress(done / n)

    each(add, n, block)
    rows, lines = (_repeats(d, degree) for degree in (low, high))
    squares = np.array([_square_norm(one, rows, lines) for one in tensor])
    lengths = 4 * order + 4 * (d + 3) + block + -(-n // block) + 10
    norms = np.sqrt(squares * (1.0 + SAFETY * UNIT * (2 * len(rows) + len(lines) + 4)))
    norms = norms / math.sqrt(math.factorial(order)) + 1e-300 * n
    return round_up(norms + SAFETY * UNIT * lengths * majorants(centers)[0])


def _add_products(out: FloatArray, short: FloatArray, long: FloatArray, lock: Lock) -> None:
    """out += short long', of a symmetric matrix only what lies in a stripe or after it."""
    symmetric = out.shape[0] == out.shape[1]
    for stripe in row_blocks(len(out), STRIPE):
        first = stripe.start if symmetric else 0
        products = short[stripe] @ long[first:].T
        with lock:
            out[stripe, first:] += products


def _square_norm(tensor: FloatArray, rows: FloatArray, lines: FloatArray) -> float:
    """The sum of squares of all entries, each as often as it occurs."""
    if len(rows) != len(lines):
        return float(rows @ np.square(tensor) @ lines)
    found = 0.0
    for stripe in row_blocks(len(tensor), STRIPE):
        squares = np.square(tensor[stripe, stripe.start :])
        weights = lines[stripe.start :].copy()
        weights[stripe.stop - stripe.start :] *= 2.0  # their mirror images were not computed
        found += float(rows[stripe] @ squares @ weights)
    return found


def monomials(sigma: FloatArray, degree: int) -> FloatArray:
    """All products of `degree` entries, in lexicographic order: shape (C(d + a - 1, a), b).

    Parameters
    ----------
    sigma : ndarray of shape (d, b)
        A column per center.
    degree : int
        a, at least 1.

    Examples
    --------
    >>> monomials(np.array([[2.0], [3.0]]), 2).ravel()
    array([4., 6., 9.])
    """
    d = len(sigma)
    found = sigma
    for a in range(2, degree + 1):
        longer, at = np.empty((math.comb(d + a - 1, a), sigma.shape[1])), 0
        for first in range(d):
            # Those that begin with `first` or later are the last ones.
            count = math.comb(d - first + a - 2, a - 1)
            np.multiply(sigma[first], found[-count:], out=longer[at : at + count])
            at += count
        found = longer
    return found


def _repeats(d: int, degree: int) -> NDArray[np.float64]:
    """How many orders the entries of each product have, as `monomials` lists them.

    Examples
    --------
    >>> _repeats(2, 3)
    array([1., 3., 3., 1.])
    """
    counts = []
    for indices in combinations_with_replacement(range(d), degree):
        orders = math.factorial(degree)
        for index in set(indices):
            orders //= math.factorial(indices.count(index))
        counts.append(float(orders))
    return np.array(counts)
