"""OneVsOneClassifier: a binary machine a pair of classes; votes, ties by summed responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.machine.heads.base import BoolArray
from kernelite.machine.heads.members import Member, n_columns
from kernelite.machine.heads.ranges import SLACK, Range, best_decided, lead, squash
from kernelite.machine.heads.votes import pairs
from kernelite.rows.inputs import FloatArray

__all__ = ["PairwiseHead"]


@dataclass(frozen=True, eq=False)
class PairwiseHead:
    """Votes of K (K - 1) / 2 machines, a machine's second class being the pair's second.

    Parameters
    ----------
    classes : array of shape (K,)
    members : tuple of Member
        In the order (0,1), (0,2), ..., (K-2,K-1).

    Examples
    --------
    >>> from kernelite.machine.heads.one_vs_one import ClassifierHead
    >>> svm = ClassifierHead(np.array([0, 1]), first_positive=False)
    >>> head = PairwiseHead(np.array([5, 6, 7]), tuple(Member(svm, [i]) for i in range(3)))
    >>> head.predict(np.array([[1.0, 1.0, -1.0]]))
    array([6])
    """

    classes: NDArray[Any]
    members: tuple[Member, ...]

    kind: Literal["classifier"] = "classifier"

    def __post_init__(self) -> None:
        K = len(self.classes)
        if K < 2 or len(self.members) != K * (K - 1) // 2:
            raise InputError(f"{len(self.members)} machines do not suit {K} classes in pairs.")
        n_columns(self.members)

    @property
    def n_scores(self) -> int:
        """Scores of all machines."""
        return n_columns(self.members)

    @property
    def offers(self) -> frozenset[str]:
        """As OneVsOneClassifier."""
        return frozenset({"predict", "decision_function"})

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """Labels of shape (m,)."""
        return self.classes[self.winners(scores)]

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """Index into `classes` of each row's label."""
        values = self._values(scores)
        if len(self.classes) == 2:
            return (values[:, 1] > self.members[0].threshold).astype(np.intp)
        return np.argmax(values, axis=1)

    def decision(self, scores: FloatArray) -> FloatArray:
        """Votes plus squashed sums of responses: (m, K), or (m,) for two classes."""
        values = self._values(scores)
        return values[:, 1] if len(self.classes) == 2 else values

    def decision_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `decision`."""
        low, high = self._value_range(scores, bounds)
        return (low[:, 1], high[:, 1]) if len(self.classes) == 2 else (low, high)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose winner cannot change within the bounds."""
        low, high = self._value_range(scores, bounds)
        if len(self.classes) == 2:
            limit = self.members[0].threshold
            return (low[:, 1] > limit) | (high[:, 1] < limit)
        return best_decided(low, high)

    def margin(self, scores: FloatArray) -> FloatArray:
        """How far a row is from another answer, shape (m,)."""
        if len(self.classes) == 2:
            return np.abs(self.members[0].binary(scores) - self.members[0].threshold)
        return lead(self._values(scores))

    def _values(self, scores: FloatArray) -> FloatArray:
        votes = np.zeros((len(scores), len(self.classes)))
        sums = np.zeros_like(votes)
        for member, (i, j) in zip(self.members, pairs(len(self.classes))):
            response = member.binary(scores)
            sums[:, i] -= response
            sums[:, j] += response
            votes[:, [i, j]] += member.votes(scores, 2)
        return votes + squash(sums)

    def _value_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        shape = (len(scores), len(self.classes))
        low_votes, high_votes, low, high, size = (np.zeros(shape) for _ in range(5))
        for member, (i, j) in zip(self.members, pairs(len(self.classes))):
            least, most = member.binary_range(scores, bounds)
            possible = member.vote_sets(scores, bounds, 2)
            high_votes[:, [i, j]] += possible
            low_votes[:, [i, j]] += ~possible[:, ::-1]
            low[:, i] -= most
            high[:, i] -= least
            low[:, j] += least
            high[:, j] += most
            size[:, [i, j]] += np.maximum(np.abs(least), np.abs(most))[:, None]
        slack = SLACK * size  # of summing
        return low_votes + squash(low - slack), high_votes + squash(high + slack)
