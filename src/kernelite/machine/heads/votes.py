"""One-vs-one votes, and when a winner is proven.

In: scores of shape (m, K (K - 1) / 2), pairs in the order (0,1), (0,2), ..., signed so that a
positive score favours the first class of its pair. A score of zero votes for the second (LIBSVM).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kernelite.rows.inputs import FloatArray

__all__ = [
    "count_votes",
    "ovr_scores",
    "pairs",
    "summed_scores",
    "vote_range",
    "winner_decided",
    "winner_decided_by_sums",
    "winner_margin",
]


def pairs(n_classes: int) -> Iterator[tuple[int, int]]:
    """(0,1), (0,2), ..., in the order of the score columns."""
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            yield i, j


def count_votes(for_first: NDArray[np.bool_], n_classes: int) -> NDArray[np.int64]:
    """Votes of shape (m, K): `for_first` says which pairs the first class wins.

    Examples
    --------
    >>> count_votes(np.array([[True, True, False]]), 3)
    array([[2, 0, 1]])
    """
    first, second = _members(n_classes)
    # Whole numbers up to 2^24 are exact in single precision, and so is their product.
    votes = for_first.astype(np.float32) @ (first - second) + second.sum(axis=0)
    return np.asarray(votes, dtype=np.int64)


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


def summed_scores(scores: FloatArray, n_classes: int) -> FloatArray:
    """S_c: the sum of the scores in favour of each class, shape (m, K)."""
    # In scikit-learn's order, because the last bit may break a tie; a pair's rows side by side.
    by_pair, sums = np.ascontiguousarray(scores.T), np.zeros((n_classes, len(scores)))
    for pair, (i, j) in enumerate(pairs(n_classes)):
        sums[i] += by_pair[pair]
        sums[j] -= by_pair[pair]
    return np.ascontiguousarray(sums.T)


def ovr_scores(scores: FloatArray, n_classes: int) -> FloatArray:
    """scikit-learn's "ovr" shape: votes plus a squashed sum of scores in (-1/3, 1/3).

    Here a score of zero votes for the first class, unlike in `predict`: so does scikit-learn.
    """
    sums = summed_scores(scores, n_classes)
    return count_votes(scores >= 0, n_classes) + sums / (3.0 * (np.abs(sums) + 1.0))


def winner_decided(scores: FloatArray, bounds: FloatArray, n_classes: int) -> NDArray[np.bool_]:
    """Rows whose most-voted class is the same for every sign the open pairs could take.

    A pair is open when |score| <= bound. L_c counts the pairs that c surely wins, U_c = L_c plus
    its open pairs. The winner w is proven when every other c has L_w > U_c, or L_w = U_c with w
    before c (ties go to the earlier class).
    """
    low, high = vote_range(scores, bounds, n_classes)
    winner = np.argmax(low, axis=1)[:, None]
    mine = np.take_along_axis(low, winner, axis=1)
    others = np.arange(n_classes)[None, :]
    settled = (mine > high) | ((mine == high) & (others > winner)) | (others == winner)
    return np.asarray(settled.all(axis=1))


def winner_decided_by_sums(
    scores: FloatArray, bounds: FloatArray, n_classes: int
) -> NDArray[np.bool_]:
    """As `winner_decided`, with ties broken by the larger sum of scores (`break_ties`)."""
    low, high = vote_range(scores, bounds, n_classes)
    sums = summed_scores(scores, n_classes)
    slack = np.zeros_like(sums)
    for column, (i, j) in enumerate(pairs(n_classes)):
        slack[:, i] += bounds[:, column]
        slack[:, j] += bounds[:, column]
    # Rounding of the sums, and of the squashing s -> s / (3 (|s| + 1)) that scikit-learn compares:
    # two sums that it rounds to the same value tie, so they must differ by more than an ulp there.
    magnitude = np.abs(scores).sum(axis=1, keepdims=True)
    slack += (
        2.0**-52 * (n_classes + 8) * (magnitude + slack + n_classes * (1.0 + np.abs(sums)) ** 2)
    )
    winner = np.argmax(low + sums / (3.0 * (np.abs(sums) + 1.0)), axis=1)[:, None]
    beats = np.take_along_axis(sums - slack, winner, axis=1) > sums + slack
    mine = np.take_along_axis(low, winner, axis=1)
    others = np.arange(n_classes)[None, :]
    settled = (mine > high) | ((mine == high) & beats) | (others == winner)
    return np.asarray(settled.all(axis=1))


def winner_margin(scores: FloatArray, n_classes: int) -> FloatArray:
    """The smallest lead of the most-voted class over a rival, shape (m,).

    Negative where the winner loses against a rival and leads by votes alone.

    Examples
    --------
    >>> winner_margin(np.array([[0.5, 2.0, -1.0]]), 3)
    array([0.5])
    """
    winner = np.argmax(count_votes(scores > 0, n_classes), axis=1)
    margin = np.full(len(scores), np.inf)
    for column, (i, j) in enumerate(pairs(n_classes)):
        lead = np.where(winner == i, scores[:, column], np.inf)
        lead = np.where(winner == j, -scores[:, column], lead)
        margin = np.minimum(margin, lead)
    return margin


def vote_range(
    scores: FloatArray, bounds: FloatArray, n_classes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """L_c and U_c of `winner_decided`: the fewest and most votes a class can have, shape (m, K)."""
    sure = np.abs(scores) > bounds
    won = (sure & (scores > 0)).astype(np.float32)
    lost = (sure & (scores <= 0)).astype(np.float32)
    first, second = _members(n_classes)
    low = won @ first + lost @ second
    high = (n_classes - 1) - (won @ second + lost @ first)
    return low.astype(np.int64), high.astype(np.int64)
