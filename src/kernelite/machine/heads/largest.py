"""Classifiers that take the largest of K scores: label propagation, clusters, linear ones.

ArgmaxHead   a score per class; the first of the largest; shares of the sum as probabilities
LinearHead   a score for two classes, above 0 the second; a score per class for more
             logistic regression: p = 1 / (1 + exp(-s)) for two classes, softmax(s) for more
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.exactly import UNIT
from kernelite.machine.heads.base import (
    BoolArray,
    BySign,
    Judged,
    LabelHead,
    Range,
    checked_classes,
)
from kernelite.machine.heads.calibrated import SigmoidCalibrator, softmax, softmax_range
from kernelite.machine.heads.intervals import (
    best_decided,
    lead,
    score_range,
    take_winner,
    two_classes,
)
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["ArgmaxHead", "LinearHead"]

ROUNDING = 4 * UNIT  # two shares that differ by less may round to the same number
SIGMOID = SigmoidCalibrator(-1.0, 0.0)
SUFFICIENT_SLACK = 1e-9  # of a tolerance, more than what answers round


@dataclass(frozen=True, eq=False)
class ArgmaxHead(LabelHead):
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
        object.__setattr__(self, "classes", checked_classes(self.classes))

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
        """A score per class."""
        return len(self.classes)

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """Index into `classes` of each row's label."""
        xp, compared = ops(scores), scores
        if self.shares:
            # Rounding may leave a sum below zero, which would turn the order of its shares round.
            positive = xp.sum(scores, axis=1, keepdims=True) > 0.0
            compared = xp.where(positive, self.probabilities(scores), scores)
        return xp.argmax(compared, axis=1)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows in which the winner's lower end is above every rival's upper end."""
        xp = ops(scores)
        if self.n_classes == 1:
            return xp.full((scores.shape[0],), True)
        winner, _ = take_winner(scores)
        low = xp.take_along_axis(scores - bounds, winner, axis=1)[:, 0]
        own = winner == np.arange(self.n_classes)[None, :]
        rival = xp.max(xp.where(own, -np.inf, scores + bounds), axis=1)
        # The ends themselves round; shares are compared after one more rounding each.
        slack = ROUNDING * (xp.abs(low) + xp.abs(rival))
        return low - rival > slack

    def margin(self, scores: FloatArray) -> FloatArray:
        """How far the winner leads, shape (m,)."""
        return lead(scores, self.n_classes)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Each class's share of the sum, shape (m, K); NaN where all weights are zero."""
        if not self.shares:
            return super().probabilities(scores)
        with np.errstate(invalid="ignore", divide="ignore"):
            return scores / ops(scores).sum(scores, axis=1, keepdims=True)

    def judged_by(self, method: str) -> Judged:
        """Shares by `within`."""
        return "range" if method == "predict_proba" else "bounds"

    def within(
        self, method: str, scores: FloatArray, bounds: FloatArray, tolerance: FloatArray | float
    ) -> BoolArray:
        """Rows whose shares are off by no more than the tolerance."""
        return self.probability_errors(scores, bounds) <= tolerance

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `probabilities`."""
        shares, off = self.probabilities(scores), self.probability_errors(scores, bounds)[:, None]
        return shares - off, shares + off

    def probability_errors(self, scores: FloatArray, bounds: FloatArray) -> FloatArray:
        """How far the shares may be off, given the bounds of the weights: shape (m,).

        s'/S' - s/S = (s' - s)/S' + (s/S) (S - S')/S', so it is at most (b + p B) / (S - B), with
        B the sum of the bounds b.
        """
        xp = ops(scores)
        total, slack = (xp.sum(values, axis=1, keepdims=True) for values in (scores, bounds))
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = xp.abs(scores) / total
            worst = xp.max((bounds + shares * slack) / (total - slack), axis=1)
        return xp.where((total > slack)[:, 0], worst * (1.0 + 1e-9) + 1e-15, np.inf)


@dataclass(frozen=True, eq=False)
class LinearHead(LabelHead):
    """What a linear classifier of scikit-learn makes of its decision values.

    Parameters
    ----------
    classes : array of shape (K,)
    logistic : bool
        Whether there are probabilities, as of LogisticRegression.

    Examples
    --------
    >>> head = LinearHead(np.array(["no", "yes"]), logistic=True)
    >>> head.predict(np.array([[0.0], [2.0]])), head.probabilities(np.array([[0.0]]))
    (array(['no', 'yes'], dtype='<U3'), array([[0.5, 0.5]]))
    """

    classes: NDArray[Any]
    logistic: bool = False

    kind: Literal["classifier"] = "classifier"

    def __post_init__(self) -> None:
        if np.ndim(self.classes) != 1 or len(self.classes) < 2:
            raise InputError("a linear classifier needs two classes or more.")

    @property
    def n_scores(self) -> int:
        """1 for two classes, K for more."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    @property
    def n_values(self) -> int:
        """One tolerance, for all decision values."""
        return 1

    @property
    def offers(self) -> frozenset[str]:
        """Decision values; probabilities of a logistic one."""
        more = {"predict_proba", "predict_log_proba"} if self.logistic else set()
        return frozenset({"predict", "decision_function", *more})

    @property
    def by_sign(self) -> BySign | None:
        """Of two classes."""
        return BySign(np.asarray(self.classes)[::-1]) if self.n_scores == 1 else None

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """Index into `classes` of each row's label."""
        xp = ops(scores)
        if self.n_scores == 1:
            return xp.where(scores[:, 0] > 0, 1, 0)
        return xp.argmax(scores, axis=1)

    def decision(self, scores: FloatArray) -> FloatArray:
        """Shape (m,) for two classes, (m, K) for more."""
        return scores[:, 0] if self.n_scores == 1 else scores

    def decision_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `decision`."""
        low, high = score_range(scores, bounds)
        return self.decision(low), self.decision(high)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose label cannot change within the bounds."""
        if self.n_scores == 1:
            return ops(scores).abs(scores[:, 0]) > bounds[:, 0]
        return best_decided(*score_range(scores, bounds), self.n_scores)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Shape (m, K)."""
        if not self.logistic:
            return super().probabilities(scores)
        if self.n_scores > 1:
            return softmax(scores)
        second = SIGMOID(scores)
        return ops(scores).concat([1.0 - second, second], axis=1)

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `probabilities`."""
        low, high = score_range(scores, bounds)
        if self.n_scores > 1:
            return softmax_range(low, high, self.n_scores)
        return two_classes(*SIGMOID.range(low, high))

    def judged_by(self, method: str) -> Judged:
        """By the ends of values and probabilities."""
        return "range"

    def sufficient_limit(self, method: str, tolerance: FloatArray | float) -> float | None:
        """A sigmoid has slope 1/4 at most; those of a share p add up to 2 p (1 - p) <= 1/2."""
        slopes = {"decision_function": 1.0, "predict_proba": 0.25 if self.n_scores == 1 else 0.5}
        if method not in slopes:
            return None
        return float(np.min(tolerance)) / slopes[method] * (1.0 - SUFFICIENT_SLACK)

    def margin(self, scores: FloatArray) -> FloatArray:
        """How far a row is from another label, shape (m,)."""
        return super().margin(scores) if self.n_scores == 1 else lead(scores, self.n_scores)
