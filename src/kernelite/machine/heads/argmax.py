"""Classifiers that take the largest of K scores: one-vs-rest, label propagation, clusters.

In: a score a class. Out: the class with the largest, the first of them if several are; optionally
each class's share of the sum as its probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.machine.heads.base import BoolArray
from kernelite.rows.inputs import FloatArray

__all__ = ["ArgmaxHead"]

ROUNDING = 4 * 2.0**-53  # two shares that differ by less may round to the same number


@dataclass(frozen=True, eq=False)
class ArgmaxHead:
    """The class with the largest score, the first one of those that tie.

    Parameters
    ----------
    classes : array of shape (K,)
        Labels, in the order in which ties are broken.
    shares : bool
        Whether scores are weights, not negative, whose shares of their sum are probabilities
        (label propagation).

    Examples
    --------
    >>> head = ArgmaxHead(np.array(["a", "b", "c"]), shares=True)
    >>> head.predict(np.array([[0.1, 0.6, 0.3], [2.0, 1.0, 2.0]]))
    array(['b', 'a'], dtype='<U1')
    >>> head.probabilities(np.array([[1.0, 2.0, 1.0]]))
    array([[0.25, 0.5 , 0.25]])
    """

    classes: NDArray[Any]
    shares: bool = False

    kind: Literal["classifier"] = "classifier"

    def __post_init__(self) -> None:
        classes = np.asarray(self.classes)
        if classes.ndim != 1 or classes.size == 0:
            raise InputError(f"`classes` must be a list of labels, got shape {classes.shape}.")
        if len(np.unique(classes)) != len(classes):
            raise InputError("`classes` contains a label twice.")
        object.__setattr__(self, "classes", classes)

    @property
    def offers(self) -> frozenset[str]:
        """Labels, and probabilities where scores are weights."""
        return frozenset({"predict", "predict_proba"} if self.shares else {"predict"})

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    @property
    def n_scores(self) -> int:
        """A score a class."""
        return len(self.classes)

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """Labels of shape (m,)."""
        compared = scores
        if self.shares:
            # Rounding may leave a sum below zero, which would turn the order of its shares round.
            positive = scores.sum(axis=1, keepdims=True) > 0.0
            compared = np.where(positive, self.probabilities(scores), scores)
        return self.classes[np.argmax(compared, axis=1)]

    def decision(self, scores: FloatArray) -> FloatArray:
        """The scores themselves, shape (m, K)."""
        return scores

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows in which the winner's lower end is above every rival's upper end."""
        if self.n_classes == 1:
            return np.ones(len(scores), dtype=np.bool_)
        winner = np.argmax(scores, axis=1)[:, None]
        low = np.take_along_axis(scores - bounds, winner, axis=1)[:, 0]
        high = scores + bounds
        np.put_along_axis(high, winner, -np.inf, axis=1)
        rival = high.max(axis=1)
        # The ends themselves round; shares are compared after one more rounding each.
        slack = ROUNDING * (np.abs(low) + np.abs(rival))
        return np.asarray(low - rival > slack)

    def margin(self, scores: FloatArray) -> FloatArray:
        """How far the winner leads, shape (m,)."""
        if self.n_classes == 1:
            return np.full(len(scores), np.inf)
        top = np.partition(scores, -2, axis=1)
        return top[:, -1] - top[:, -2]

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Each class's share of the sum, shape (m, K); NaN where all weights are zero."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return scores / scores.sum(axis=1, keepdims=True)

    def probability_errors(self, scores: FloatArray, bounds: FloatArray) -> FloatArray:
        """How far the shares may be off, given the bounds of the weights: shape (m,).

        s'/S' - s/S = (s' - s)/S' + (s/S) (S - S')/S', so it is at most (b + p B) / (S - B), with
        B the sum of the bounds b.
        """
        total, slack = scores.sum(axis=1), bounds.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = np.abs(scores) / total[:, None]
            worst = ((bounds + shares * slack[:, None]) / (total - slack)[:, None]).max(axis=1)
        return np.where(total > slack, worst * (1.0 + 1e-9) + 1e-15, np.inf)
