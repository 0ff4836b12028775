"""One-vs-one: votes and when a winner is proven, and probabilities as LIBSVM computes them.

In: scores of shape (m, K (K - 1) / 2), pairs in the order (0,1), (0,2), ..., signed so that a
positive score favours the first class of its pair. A score of zero votes for the second (LIBSVM).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from operator import mul
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, row_blocks
from kernelite.machine.heads.intervals import take_winner
from kernelite.machine.ops import ops

__all__ = [
    "LIMITS",
    "Coupling",
    "class_probabilities",
    "count_votes",
    "couple_pairs",
    "density_probabilities",
    "ovr_scores",
    "pair_probabilities",
    "pair_sums",
    "pairs",
    "summed_scores",
    "vote_range",
    "winner_decided",
    "winner_decided_by_sums",
    "winner_margin",
]


FEW, FEW_TERMS = 32, 1 << 19  # rows, and pairs of all their classes, that are summed in one call


def pairs(n_classes: int) -> Iterator[tuple[int, int]]:
    """(0,1), (0,2), ..., in the order of the score columns."""
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            yield i, j


def count_votes(for_first: NDArray[np.bool_], n_classes: int) -> NDArray[np.float32]:
    """Votes of shape (m, K): `for_first` says which pairs the first class wins.

    Examples
    --------
    >>> count_votes(np.array([[True, True, False]]), 3).tolist()
    [[2.0, 0.0, 1.0]]
    """
    first, second = _members(n_classes)
    # Whole numbers up to 2^24 are exact in single precision, and so is their product.
    won = ops(for_first).astype(for_first, np.float32)
    return won @ (first - second) + second.sum(axis=0)


@cache
def _members(n_classes: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Which class is the first and which the second of each pair, each of shape (k, K)."""
    made = [np.zeros((n_classes * (n_classes - 1) // 2, n_classes), np.float32) for _ in range(2)]
    for pair, classes in enumerate(pairs(n_classes)):
        for members, c in zip(made, classes):
            members[pair, c] = 1.0
    for members in made:
        members.flags.writeable = False
    return made[0], made[1]


@cache
def _terms(n_classes: int) -> tuple[NDArray[np.intp], FloatArray]:
    """The pairs of each class in order, and the signs by which they favour it: each (K - 1, K)."""
    columns = np.zeros((n_classes, n_classes), dtype=np.intp)
    for pair, (i, j) in enumerate(pairs(n_classes)):
        columns[i, j] = columns[j, i] = pair
    others = ~np.eye(n_classes, dtype=np.bool_)
    signs = np.where(np.tri(n_classes, k=-1, dtype=np.bool_), -1.0, 1.0)
    return tuple(  # type: ignore[return-value]
        np.ascontiguousarray(each[others].reshape(n_classes, -1).T) for each in (columns, signs)
    )


def _few(rows: FloatArray, n_classes: int) -> bool:
    """Whether calls would take longer than what they compute, pair by pair."""
    return n_classes > 1 and len(rows) <= min(FEW, FEW_TERMS // n_classes**2)


def summed_scores(scores: FloatArray, n_classes: int) -> FloatArray:
    """S_c: the sum of the scores in favour of each class, shape (m, K)."""
    if not isinstance(scores, np.ndarray):  # on other targets one product, in any order
        first, second = _members(n_classes)
        return scores @ (first - second)
    # In scikit-learn's order, because the last bit may break a tie: `accumulate` keeps it.
    if _few(scores, n_classes):
        columns, signs = _terms(n_classes)
        return np.add.accumulate(scores[:, columns] * signs, axis=1)[:, -1]
    # A pair's rows side by side.
    by_pair, sums = np.ascontiguousarray(scores.T), np.zeros((n_classes, len(scores)))
    for pair, (i, j) in enumerate(pairs(n_classes)):
        sums[i] += by_pair[pair]
        sums[j] -= by_pair[pair]
    return np.ascontiguousarray(sums.T)


def pair_sums(bounds: FloatArray, n_classes: int) -> FloatArray:
    """The sum of a bound over the pairs that each class takes part in, shape (m, K)."""
    if not isinstance(bounds, np.ndarray):
        first, second = _members(n_classes)
        return bounds @ (first + second)
    if _few(bounds, n_classes):
        return np.asarray(bounds[:, _terms(n_classes)[0]].sum(axis=1))
    by_pair, sums = np.ascontiguousarray(bounds.T), np.zeros((n_classes, len(bounds)))
    for pair, (i, j) in enumerate(pairs(n_classes)):
        sums[i] += by_pair[pair]
        sums[j] += by_pair[pair]
    return np.ascontiguousarray(sums.T)


def ovr_scores(scores: FloatArray, n_classes: int) -> FloatArray:
    """scikit-learn's "ovr" shape: votes plus a squashed sum of scores in (-1/3, 1/3).

    Here a score of zero votes for the first class, unlike in `predict`: so does scikit-learn.
    """
    sums = summed_scores(scores, n_classes)
    return count_votes(scores >= 0, n_classes) + sums / (3.0 * (ops(sums).abs(sums) + 1.0))


def winner_decided(scores: FloatArray, bounds: FloatArray, n_classes: int) -> NDArray[np.bool_]:
    """Rows whose most-voted class is the same for every sign the open pairs could take.

    A pair is open when |score| <= bound. L_c counts the pairs that c surely wins, U_c = L_c plus
    its open pairs. The winner w is proven when every other c has L_w > U_c, or L_w = U_c with w
    before c (ties go to the earlier class).
    """
    xp = ops(scores)
    if isinstance(scores, np.ndarray):  # where no pair is open, votes are what they are
        decided = np.asarray((np.abs(scores) > bounds).all(axis=1))
        still = np.flatnonzero(~decided)
        if len(still) < len(scores):
            if len(still):
                decided[still] = winner_decided(scores[still], bounds[still], n_classes)
            return decided
    low, high = vote_range(scores, bounds, n_classes)
    winner, mine = take_winner(low)
    others = np.arange(n_classes)[None, :]
    settled = (mine > high) | ((mine == high) & (winner < others)) | (winner == others)
    return xp.all(settled, axis=1)


def winner_decided_by_sums(
    scores: FloatArray, bounds: FloatArray, n_classes: int
) -> NDArray[np.bool_]:
    """As `winner_decided`, with ties broken by the larger sum of scores (`break_ties`)."""
    xp = ops(scores)
    low, high = vote_range(scores, bounds, n_classes)
    sums, slack = summed_scores(scores, n_classes), pair_sums(bounds, n_classes)
    # Rounding of the sums, and of the squashing s -> s / (3 (|s| + 1)) that scikit-learn compares:
    # two sums that it rounds to the same value tie, so they must differ by more than an ulp there.
    magnitude = xp.sum(xp.abs(scores), axis=1, keepdims=True)
    grown = 1.0 + xp.abs(sums)
    slack = slack + 2.0**-52 * (n_classes + 8) * (magnitude + slack + n_classes * (grown * grown))
    winner, _ = take_winner(low + sums / (3.0 * grown))
    beats = xp.take_along_axis(sums - slack, winner, axis=1) > sums + slack
    mine = xp.take_along_axis(low, winner, axis=1)
    others = np.arange(n_classes)[None, :]
    settled = (mine > high) | ((mine == high) & beats) | (winner == others)
    return xp.all(settled, axis=1)


def winner_margin(scores: FloatArray, n_classes: int) -> FloatArray:
    """The smallest lead of the most-voted class over a rival, shape (m,).

    Negative where the winner loses against a rival and leads by votes alone.

    Examples
    --------
    >>> winner_margin(np.array([[0.5, 2.0, -1.0]]), 3)
    array([0.5])
    """
    xp = ops(scores)
    winner, _ = take_winner(count_votes(scores > 0, n_classes))
    first, second = np.array(list(pairs(n_classes))).T
    lead = xp.where(winner == first[None, :], scores, np.inf)
    return xp.min(xp.where(winner == second[None, :], -scores, lead), axis=1)


def vote_range(
    scores: FloatArray, bounds: FloatArray, n_classes: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """L_c and U_c of `winner_decided`: the fewest and most votes a class can have, shape (m, K)."""
    xp = ops(scores)
    sure = xp.abs(scores) > bounds
    won = xp.astype(sure & (scores > 0), np.float32)
    lost = xp.astype(sure & (scores <= 0), np.float32)
    first, second = _members(n_classes)
    low = won @ first + lost @ second
    return low, (n_classes - 1) - (won @ second + lost @ first)


# Probabilities as LIBSVM computes them from scores: Platt's sigmoids, coupled over the pairs.
#
#     r_ij = 1 / (1 + exp(A_ij f_ij + B_ij)), clipped to [1e-7, 1 - 1e-7];      r_ji = 1 - r_ij
#     p = argmin_p sum_i sum_j (r_ji p_i - r_ij p_j)^2  subject to  sum_i p_i = 1
#
# The second line is the second method of Wu, Lin and Weng, "Probability estimates for multi-class
# classification by pairwise coupling" (2004), by their fixed-point iteration and LIBSVM's stopping
# rule, which is loose enough to be seen in the third digit: so the steps must be the same too.


LIMITS = 1e-7, 1.0 - 1e-7  # of a pair's probability
FEW_COUPLED = 4, 64  # rows, and rows times classes, that are coupled one by one
Coupling: TypeAlias = Callable[[FloatArray, int], FloatArray]
"""From the probability of the first class of each pair, and K, to those of all classes."""
BLOCK_NUMBERS = 1 << 20  # of the K x K matrices held at once: 8 MB


def class_probabilities(
    scores_for_first: FloatArray,
    a: FloatArray,
    b: FloatArray,
    n_classes: int,
    *,
    couple_two_classes: bool = False,
    coupling: Coupling | None = None,
) -> FloatArray:
    """Class probabilities from one-vs-one scores.

    Parameters
    ----------
    scores_for_first : ndarray of shape (m, K (K - 1) / 2)
        Positive where the first class of the pair is favoured.
    a, b : ndarray of shape (K (K - 1) / 2,)
        Platt's sigmoid of each pair.
    n_classes : int
        K.
    couple_two_classes : bool
        With two classes, whether to run the iteration all the same, as scikit-learn's copy of
        LIBSVM does; LIBSVM takes the sigmoid itself since version 3.24.
    coupling : callable, optional
        What couples pairs of rows instead of `couple_pairs`.

    Returns
    -------
    ndarray of shape (m, K)

    Examples
    --------
    >>> class_probabilities(np.array([[0.0], [2.0]]), np.array([-1.0]), np.array([0.0]), 2).round(3)
    array([[0.5  , 0.5  ],
           [0.881, 0.119]])
    """
    if n_classes == 2 and not couple_two_classes:
        first = pair_probabilities(scores_for_first, a, b)
        return ops(first).concat([first, 1.0 - first], axis=1)
    first = pair_probabilities(scores_for_first, a, b)
    return (coupling or couple_pairs)(first, n_classes)


def couple_pairs(first: FloatArray, n_classes: int) -> FloatArray:
    """Class probabilities from those of the first class of each pair, by LIBSVM's iteration.

    Each row's problem is solved by cyclic fixed-point steps on Q p = (p'Qp) 1, Q_ii = sum_j r_ji^2,
    Q_ij = -r_ji r_ij. A row stops when max |Qp - p'Qp| < 0.005 / K, or after max(100, K) rounds.

    Parameters
    ----------
    first : ndarray of shape (m, K (K - 1) / 2)
    n_classes : int
        K.

    Returns
    -------
    ndarray of shape (m, K)

    Examples
    --------
    >>> couple_pairs(np.array([[0.9, 0.8, 0.5]]), 3).round(2)
    array([[0.74, 0.1 , 0.16]])
    """
    K = n_classes
    if not isinstance(first, np.ndarray):
        return _coupled(first, K)
    m = len(first)
    if m <= FEW_COUPLED[0] and m * K <= FEW_COUPLED[1]:
        return np.array([_couple_one(row, K) for row in first.tolist()]).reshape(m, K)
    out = np.empty((m, K))
    for block in row_blocks(m, max(1, BLOCK_NUMBERS // (K * K))):
        out[block] = _coupled(first[block], K)
    return out


def _coupled(first: FloatArray, n_classes: int) -> FloatArray:
    """`couple_pairs` over `machine.ops`."""
    xp, K = ops(first), n_classes
    none = xp.full((first.shape[0], 1), 0.0)
    every = xp.concat([first, 1.0 - first, none], axis=1)  # r_ij, r_ji, r_ii
    k = K * (K - 1) // 2
    places = np.full((K, K), 2 * k)
    for pair, (i, j) in enumerate(pairs(K)):
        places[i, j], places[j, i] = pair, k + pair
    lines = []
    for t in range(K):
        own, other = every[:, places[t]], every[:, places[:, t]]
        diagonal = xp.sum(other * other, axis=1, keepdims=True)
        lines.append(diagonal * np.eye(K)[t][None, :] - own * other)
    uniform = xp.full((first.shape[0], K), 1.0 / K)
    Q = xp.concat(lines, axis=1)
    return xp.iterate(partial(_one_round, K), uniform, (Q,), max(100, K))


def _one_round(K: int, p: FloatArray, Q: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Move each p_t in turn to its fixed point and renormalise, keeping Qp and p'Qp up to date.

    p_t grows by delta = (p'Qp - (Qp)_t) / Q_tt; dividing by 1 + delta makes p sum to one again.
    Q has its lines side by side, shape (m, K^2). Returns p, and which rows had not stopped, (m,).
    """
    xp = ops(p)
    lines = [Q[:, t * K : (t + 1) * K] for t in range(K)]
    Qp = xp.concat([xp.sum(line * p, axis=1, keepdims=True) for line in lines], axis=1)
    pQp = xp.sum(p * Qp, axis=1, keepdims=True)
    running = ~(xp.max(xp.abs(Qp - pQp), axis=1) < 0.005 / K)
    for t, line in enumerate(lines):
        own, at = line[:, t : t + 1], Qp[:, t : t + 1]
        delta = (pQp - at) / own
        scale = 1.0 + delta
        pQp = (pQp + delta * (delta * own + 2.0 * at)) / scale / scale
        Qp = (Qp + delta * line) / scale
        p = (p + delta * np.eye(K)[t][None, :]) / scale
    return p, running


def _couple_one(first: list[float], n_classes: int) -> list[float]:
    """`couple_pairs` of one row, from the probability of the first class of each pair."""
    r = [[0.0] * n_classes for _ in range(n_classes)]
    for probability, (i, j) in zip(first, pairs(n_classes)):
        r[i][j], r[j][i] = probability, 1.0 - probability
    Q = [[-one * other for one, other in zip(*lines)] for lines in zip(r, zip(*r))]
    for t, column in enumerate(zip(*r)):
        Q[t][t] = sum(one * one for one in column)
    p = [1.0 / n_classes] * n_classes
    for _ in range(max(100, n_classes)):
        Qp = [sum(map(mul, line, p)) for line in Q]
        pQp = sum(map(mul, p, Qp))
        if all(abs(each - pQp) < 0.005 / n_classes for each in Qp):
            break
        for t, line in enumerate(Q):
            delta = (pQp - Qp[t]) / line[t]
            scale = 1.0 + delta
            p[t] += delta
            pQp = (pQp + delta * (delta * line[t] + 2.0 * Qp[t])) / scale / scale
            Qp = [(each + delta * q) / scale for each, q in zip(Qp, line)]
            p = [each / scale for each in p]
    return p


def density_probabilities(scores: FloatArray, marks: FloatArray) -> FloatArray:
    """One-class probabilities: which of LIBSVM's ten density marks a score lies under.

    Parameters
    ----------
    scores : ndarray of shape (m,)
    marks : ndarray of shape (10,)
        The model's `prob_density_marks`.

    Returns
    -------
    ndarray of shape (m, 2)
        Of a normal row, of an outlier: 0.001 below the first mark, 0.999 above the last, else
        i/10 where mark i is the first one above the score. A score equal to the last mark has
        none above and gets 0, as in LIBSVM.

    Examples
    --------
    >>> density_probabilities(np.array([-1.0, 0.25, 2.0]), np.linspace(0.0, 0.9, 10))
    array([[0.001, 0.999],
           [0.3  , 0.7  ],
           [0.999, 0.001]])
    """
    xp = ops(scores)
    under = xp.astype(scores[:, None] < marks[None, 1:], np.float64)
    step = xp.where(xp.max(under, axis=1) > 0, xp.argmax(under, axis=1) + 1, 0)
    inlier = xp.where(scores < marks[0], 0.001, step / len(marks))
    inlier = xp.where(scores > marks[-1], 0.999, inlier)
    return xp.stack([inlier, 1.0 - inlier], axis=1)


def pair_probabilities(scores: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """r_ij = 1 / (1 + exp(a f + b)), by the form that does not overflow, kept from 0 and 1."""
    with np.errstate(over="ignore"):  # an infinite exponent is as good as a large one
        t = scores * a + b
    xp = ops(t)
    small = xp.exp(-xp.abs(t))
    first = xp.where(t >= 0, small / (1.0 + small), 1.0 / (1.0 + small))
    return xp.clip(first, *LIMITS)
