"""Interval arithmetic on what heads answer: where decision values, probabilities and labels can be.

In: scores s and bounds b of shape (m, k), true scores anywhere in [s - b, s + b]. Out: pairs
(low, high) that contain the true answer. Heads of several machines are built on these: a monotone
calibration keeps ends, an average averages them, and the largest of several is proven when its low
end is above every other high end.

A head may define `decision_range`, `probability_range`, `value_range` and `label_sets`; one that
does not is taken to be able to answer anything, so that its rows go to the exact model.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.machine.heads.base import BoolArray, Head
from kernelite.machine.heads.one_vs_one import ClassifierHead
from kernelite.machine.heads.regressor import RegressorHead
from kernelite.machine.heads.votes import pairs, summed_scores, vote_range, winner_margin
from kernelite.rows.inputs import FloatArray

__all__ = [
    "Range",
    "best_decided",
    "decision_range",
    "label_sets",
    "lead",
    "margin",
    "probability_range",
    "score_range",
    "squash",
    "value_range",
    "winners",
]

Range: TypeAlias = "tuple[FloatArray, FloatArray]"

SLACK = 1e-12
"""Relative; ends are computed by a few roundings of 1e-16 each, and so are a library's answers."""


def score_range(scores: FloatArray, bounds: FloatArray) -> Range:
    """(s - b, s + b), rounded outwards."""
    return np.nextafter(scores - bounds, -np.inf), np.nextafter(scores + bounds, np.inf)


def decision_range(head: Head, scores: FloatArray, bounds: FloatArray) -> Range:
    """Ends of `head.decision`, in its shape.

    Examples
    --------
    >>> head = ClassifierHead(np.array([0, 1]), first_positive=False)
    >>> low, high = decision_range(head, np.array([[1.0]]), np.array([[0.25]]))
    >>> low.round(9), high.round(9)
    (array([0.75]), array([1.25]))
    """
    own = getattr(head, "decision_range", None)
    if own is not None:
        return own(scores, bounds)
    if isinstance(head, ClassifierHead):
        return _one_vs_one_range(head, scores, bounds)
    return _anything(head.decision(scores), -np.inf, np.inf)


def probability_range(head: Any, scores: FloatArray, bounds: FloatArray) -> Range:
    """Ends of `head.probabilities`, shape (m, K)."""
    own = getattr(head, "probability_range", None)
    if own is not None:
        return own(scores, bounds)
    if isinstance(head, ClassifierHead) and head.n_classes == 2 and not head.couple_two_classes:
        ends = [head.probabilities(_finite(end)) for end in score_range(scores, bounds)]
        return np.minimum(*ends), np.maximum(*ends)
    return _anything(np.empty((len(scores), len(head.classes))), 0.0, 1.0)


def value_range(head: Head, scores: FloatArray, bounds: FloatArray) -> Range:
    """Ends of a regressor's `predict`, in its shape."""
    own = getattr(head, "value_range", None)
    if own is not None:
        return own(scores, bounds)
    values = head.predict(scores)
    if isinstance(head, RegressorHead):
        return score_range(values, head.predict(bounds))
    return _anything(values, -np.inf, np.inf)


def label_sets(head: Any, scores: FloatArray, bounds: FloatArray) -> BoolArray:
    """Which labels a row can have, shape (m, K): one where it is decided, possibly all.

    Examples
    --------
    >>> head = ClassifierHead(np.array([0, 1]), first_positive=False)
    >>> label_sets(head, np.array([[1.0], [0.1]]), np.full((2, 1), 0.25))
    array([[False,  True],
           [ True,  True]])
    """
    possible = np.ones((len(scores), len(head.classes)), dtype=np.bool_)
    if isinstance(head, ClassifierHead) and head.n_classes > 2 and not head.labels_by_probability:
        low, high = vote_range(head.towards_first(scores), bounds, head.n_classes)
        possible = high >= low.max(axis=1, keepdims=True)
    decided = head.decided(scores, bounds)
    sure = winners(head, scores[decided])[:, None] == np.arange(len(head.classes))
    possible[decided] = sure
    return possible


def winners(head: Any, scores: FloatArray) -> NDArray[np.intp]:
    """Index of each row's label among `head.classes`, shape (m,)."""
    if hasattr(head, "winners"):
        return head.winners(scores)
    order = np.argsort(head.classes)
    return order[np.searchsorted(head.classes, head.predict(scores), sorter=order)]


def best_decided(low: FloatArray, high: FloatArray, *, counts: bool = False) -> BoolArray:
    """Rows in which the largest of K values is the same wherever each lies between its ends.

    Parameters
    ----------
    low, high : ndarray of shape (m, K)
    counts : bool
        Whether the values are whole numbers, so that equal ones are equal and the first wins.
        Otherwise values that differ by rounding alone count as undecided, unless both ends agree.

    Returns
    -------
    ndarray of shape (m,)

    Examples
    --------
    >>> best_decided(np.array([[0.2, 0.5], [0.2, 0.5]]), np.array([[0.4, 0.6], [0.5, 0.6]]))
    array([ True, False])
    """
    winner = np.argmax(low, axis=1)[:, None]
    mine = np.take_along_axis(low, winner, axis=1)
    others = np.arange(low.shape[1])[None, :]
    later = others > winner
    if counts:
        settled = (mine > high) | ((mine == high) & later)
    else:
        with np.errstate(invalid="ignore"):  # infinite ends
            gap = SLACK * np.maximum(np.abs(mine), np.abs(high))
            settled = mine - high > gap
        known = (low == high) & np.take_along_axis(low == high, winner, axis=1)
        settled |= known & (mine == high) & later
    return np.asarray((settled | (others == winner)).all(axis=1))


def lead(values: FloatArray) -> FloatArray:
    """By how much the largest of K values leads, shape (m,)."""
    if values.shape[1] < 2:
        return np.full(len(values), np.inf)
    top = np.partition(values, -2, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]


def margin(head: Any, scores: FloatArray) -> FloatArray:
    """How far a row is from another label, shape (m,): |f|, or the winner's smallest lead."""
    own = getattr(head, "margin", None)
    if own is not None:
        return own(scores)
    if isinstance(head, ClassifierHead) and head.n_classes > 2:
        return winner_margin(head.towards_first(scores), head.n_classes)
    threshold = head.threshold if isinstance(head, ClassifierHead) else 0.0
    return np.abs(scores[:, 0] - threshold)


def squash(sums: FloatArray) -> FloatArray:
    """scikit-learn's s / (3 (|s| + 1)), increasing, into (-1/3, 1/3)."""
    with np.errstate(invalid="ignore"):
        squashed = sums / (3.0 * (np.abs(sums) + 1.0))
    return np.where(np.isinf(sums), np.sign(sums) / 3.0, squashed)


def _one_vs_one_range(head: ClassifierHead, scores: FloatArray, bounds: FloatArray) -> Range:
    K = head.n_classes
    if K == 2 or head.shape == "ovo":
        low, high = score_range(scores, bounds)
        return (low[:, 0], high[:, 0]) if K == 2 else (low, high)
    towards_first = head.towards_first(scores)
    votes_low, votes_high = vote_range(towards_first, bounds, K)
    sums = summed_scores(towards_first, K)
    # Every class takes part in K - 1 pairs; their bounds add up, and so does rounding.
    slack = _pair_sums(bounds + SLACK * np.abs(scores), K)
    return votes_low + squash(sums - slack), votes_high + squash(sums + slack)


def _pair_sums(values: FloatArray, n_classes: int) -> FloatArray:
    sums = np.zeros((len(values), n_classes))
    for column, (i, j) in enumerate(pairs(n_classes)):
        sums[:, i] += values[:, column]
        sums[:, j] += values[:, column]
    return sums


def _anything(like: NDArray[Any], low: float, high: float) -> Range:
    return np.full(like.shape, low), np.full(like.shape, high)


def _finite(scores: FloatArray) -> FloatArray:
    largest = np.finfo(np.float64).max
    return np.clip(scores, -largest, largest)
