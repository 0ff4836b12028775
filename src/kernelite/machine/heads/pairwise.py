"""One-vs-one: votes, and when a winner is proven; LIBSVM's probabilities of one class.

In: scores of shape (m, K (K - 1) / 2), pairs in the order (0,1), (0,2), ..., signed so that a
positive score favours the first class of its pair. A score of zero votes for the second (LIBSVM).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads.intervals import take_winner
from kernelite.machine.ops import ops
from kernelite.machine.pairs import columns_of_classes

__all__ = [
    "count_votes",
    "density_probabilities",
    "ovr_scores",
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
    second = _members(n_classes)[1]
    # Whole numbers up to 2^24 are exact in single precision, and so is their product.
    won = ops(for_first).astype(for_first, np.float32)
    return won @ _sides(n_classes)[0] + second.sum(axis=0)


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
def _sides(n_classes: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """How pairs' scores and bounds add up to those of classes: (pairs, K) each.

    They are kept because a GPU keeps a copy of a large array for as long as the array lives.
    """
    first, second = _members(n_classes)
    return first - second, first + second


@cache
def _terms(n_classes: int) -> tuple[NDArray[np.intp], FloatArray]:
    """The pairs of each class in order, and the signs by which they favour it: each (K - 1, K)."""
    columns = np.ascontiguousarray(columns_of_classes(n_classes).T)
    later = np.arange(n_classes - 1)[:, None] >= np.arange(n_classes)  # the other class of the pair
    return columns, np.where(later, 1.0, -1.0)


def _few(rows: FloatArray, n_classes: int) -> bool:
    """Whether calls would take longer than what they compute, pair by pair."""
    return n_classes > 1 and len(rows) <= min(FEW, FEW_TERMS // n_classes**2)


def summed_scores(scores: FloatArray, n_classes: int) -> FloatArray:
    """S_c: the sum of the scores in favour of each class, shape (m, K)."""
    if not isinstance(scores, np.ndarray):  # on other targets one product, in any order
        return scores @ _sides(n_classes)[0]
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
        return bounds @ _sides(n_classes)[1]
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
    if isinstance(scores, np.ndarray):  # of ten classes, 9 pairs of 45
        (columns, signs), won = _terms(n_classes), winner[:, 0]
        leads = np.take_along_axis(scores, columns.T[won], axis=1) * signs.T[won]
        return np.asarray(leads.min(axis=1))
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
