"""OneVsRestClassifier: a binary machine a class; the largest response wins.

With a single machine (two classes), or with several labels a row (multilabel), each response is
compared with a threshold instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.machine.heads.base import BoolArray
from kernelite.machine.heads.members import Member, n_columns
from kernelite.machine.heads.ranges import Range, best_decided, lead
from kernelite.rows.inputs import FloatArray

__all__ = ["OneVsRestHead"]


@dataclass(frozen=True, eq=False)
class OneVsRestHead:
    """The class whose machine responds most.

    Parameters
    ----------
    classes : array of shape (K,)
    members : tuple of Member
        K of them, or one for two classes.
    methods : tuple of str
        Which methods the source has.
    multilabel : bool
        Whether a row may have any number of labels; `predict` then has shape (m, K).
    last_wins : bool
        Which class gets a tie: the last one up to scikit-learn 1.7, then the first.

    Examples
    --------
    >>> from kernelite.machine.heads.one_vs_one import ClassifierHead
    >>> svm = ClassifierHead(np.array([0, 1]), first_positive=False)
    >>> members = tuple(Member(svm, [i]) for i in range(3))
    >>> head = OneVsRestHead(np.array(["a", "b", "c"]), members, ("predict",))
    >>> head.predict(np.array([[-1.0, -0.5, -0.6]]))
    array(['b'], dtype='<U1')
    """

    classes: NDArray[Any]
    members: tuple[Member, ...]
    methods: tuple[str, ...]
    multilabel: bool = False
    last_wins: bool = False

    kind: Literal["classifier"] = "classifier"

    def __post_init__(self) -> None:
        K = len(self.classes)
        suits = K >= 1 if self.multilabel else K >= 2
        if not suits or len(self.members) != (1 if K == 2 and not self.multilabel else K):
            raise InputError(f"{len(self.members)} machines do not suit {K} classes.")
        n_columns(self.members)

    @property
    def n_scores(self) -> int:
        """Scores of all machines."""
        return n_columns(self.members)

    @property
    def offers(self) -> frozenset[str]:
        """What the source offers."""
        return frozenset(self.methods)

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """Labels of shape (m,), or zeros and ones of shape (m, K)."""
        if self.multilabel:
            return self._above(self._responses(scores)).astype(np.int64)
        return self.classes[self.winners(scores)]

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """Index into `classes` of each row's label."""
        responses = self._responses(scores)
        if len(self.members) == 1:
            return self._above(responses)[:, 0].astype(np.intp)
        if self.last_wins:
            return len(self.classes) - 1 - np.argmax(responses[:, ::-1], axis=1)
        return np.argmax(responses, axis=1)

    def decision(self, scores: FloatArray) -> FloatArray:
        """Responses of shape (m, K), or (m,) for two classes."""
        responses = self._responses(scores)
        return responses[:, 0] if len(self.members) == 1 else responses

    def decision_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `decision`."""
        low, high = self._response_range(scores, bounds)
        return (low[:, 0], high[:, 0]) if len(self.members) == 1 else (low, high)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose label, or every label, cannot change within the bounds."""
        low, high = self._response_range(scores, bounds)
        if self.multilabel or len(self.members) == 1:
            # Not `~above(high)`: an end that is no number decides nothing.
            below = high <= self.members[0].threshold
            return np.asarray((self._above(low) | below).all(axis=1))
        if self.last_wins:
            low, high = low[:, ::-1], high[:, ::-1]
        return best_decided(low, high)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Each machine's, shape (m, K); divided by their sum unless labels are independent."""
        p = np.stack([member.probabilities(scores)[:, 1] for member in self.members], axis=1)
        if len(self.members) == 1:
            p = np.concatenate([1.0 - p, p], axis=1)
        if self.multilabel:
            return p
        total = p.sum(axis=1, keepdims=True)
        return np.divide(p, total, out=p, where=total != 0)

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `probabilities`."""
        ends = [member.probability_range(scores, bounds) for member in self.members]
        low = np.stack([end[0][:, 1] for end in ends], axis=1)
        high = np.stack([end[1][:, 1] for end in ends], axis=1)
        if len(self.members) == 1:
            return np.hstack([1.0 - high, low]), np.hstack([1.0 - low, high])
        if self.multilabel:
            return low, high
        others_high = high.sum(axis=1, keepdims=True) - high
        others_low = np.maximum(low.sum(axis=1, keepdims=True) - low, 0.0)
        least = np.divide(low, low + others_high, out=np.zeros_like(low), where=low > 0)
        most = np.divide(high, high + others_low, out=np.zeros_like(low), where=high > 0)
        return least, most

    def margin(self, scores: FloatArray) -> FloatArray:
        """How far a row is from another answer, shape (m,)."""
        responses = self._responses(scores)
        if self.multilabel or len(self.members) == 1:
            return np.abs(responses - self.members[0].threshold).min(axis=1)
        return lead(responses)

    def _above(self, responses: FloatArray) -> BoolArray:
        return responses > self.members[0].threshold

    def _responses(self, scores: FloatArray) -> FloatArray:
        return np.stack([member.binary(scores) for member in self.members], axis=1)

    def _response_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        ends = [member.binary_range(scores, bounds) for member in self.members]
        return np.stack([end[0] for end in ends], axis=1), np.stack([e[1] for e in ends], axis=1)
