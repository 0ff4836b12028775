"""Linear classifiers on kernel features: a score for two classes, a score a class for more.

label: the second class where the score is above 0; the largest of several, the first if tied
logistic regression: p = 1 / (1 + exp(-s)) for two classes, softmax(s) for more
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.machine.heads.base import BoolArray
from kernelite.machine.heads.calibrators import SigmoidCalibrator, softmax, softmax_range
from kernelite.machine.heads.ranges import Range, best_decided, lead, score_range
from kernelite.rows.inputs import FloatArray

__all__ = ["LinearHead"]

SIGMOID = SigmoidCalibrator(-1.0, 0.0)


@dataclass(frozen=True, eq=False)
class LinearHead:
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

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """Labels of shape (m,)."""
        return self.classes[self.winners(scores)]

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """Index into `classes` of each row's label."""
        if self.n_scores == 1:
            return (scores[:, 0] > 0).astype(np.intp)
        return np.argmax(scores, axis=1)

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
            return np.asarray(np.abs(scores[:, 0]) > bounds[:, 0])
        return best_decided(*score_range(scores, bounds))

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Shape (m, K)."""
        if self.n_scores > 1:
            return softmax(scores)
        second = SIGMOID(scores)
        return np.hstack([1.0 - second, second])

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `probabilities`."""
        low, high = score_range(scores, bounds)
        if self.n_scores > 1:
            return softmax_range(low, high)
        least, most = SIGMOID.range(low, high)
        return np.hstack([1.0 - most, least]), np.hstack([1.0 - least, most])

    def margin(self, scores: FloatArray) -> FloatArray:
        """How far a row is from another label, shape (m,)."""
        return np.abs(scores[:, 0]) if self.n_scores == 1 else lead(scores)
