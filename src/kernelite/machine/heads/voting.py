"""Votes of several classifiers: averaged probabilities (soft) or counted labels (hard).

BaggingClassifier and VotingClassifier; the first takes probabilities where its machines have them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.machine.heads.base import BoolArray
from kernelite.machine.heads.members import Member, checked_weights, n_columns
from kernelite.machine.heads.ranges import Range, best_decided, decision_range, lead, margin
from kernelite.rows.inputs import FloatArray

__all__ = ["VotingHead"]


@dataclass(frozen=True, eq=False)
class VotingHead:
    """Classifiers that vote.

    Parameters
    ----------
    classes : array of shape (K,)
    members : tuple of Member
        Their `places` say which of `classes` theirs are.
    soft : bool
        Average probabilities, or count labels. A tie goes to the first class.
    methods : tuple of str
        Which methods the source has.
    weights : array of shape (members,), optional

    Examples
    --------
    >>> from kernelite.machine.heads.one_vs_one import ClassifierHead
    >>> svm = ClassifierHead(np.array([0, 1]), first_positive=False)
    >>> members = tuple(Member(svm, [i]) for i in range(3))
    >>> head = VotingHead(np.array(["no", "yes"]), members, False, ("predict",))
    >>> head.predict(np.array([[-1.0, 2.0, 0.5]]))
    array(['yes'], dtype='<U3')
    """

    classes: NDArray[Any]
    members: tuple[Member, ...]
    soft: bool
    methods: tuple[str, ...]
    weights: FloatArray | None = None

    kind: Literal["classifier"] = "classifier"

    def __post_init__(self) -> None:
        if not self.members or not len(self.classes):
            raise InputError("a vote needs members and classes.")
        K = len(self.classes)
        for member in self.members:
            places = np.arange(K) if member.places is None else member.places
            own = len(member.head.classes)  # type: ignore[attr-defined]
            if len(places) != own or (places < 0).any() or (places >= K).any():
                raise InputError("a member's classes are not all among the ensemble's.")
        if self.weights is not None:
            object.__setattr__(self, "weights", checked_weights(self.weights, self.members))
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
        """Labels of shape (m,)."""
        return self.classes[self.winners(scores)]

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """Index into `classes` of each row's label."""
        return np.argmax(self._totals(scores), axis=1)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Averaged probabilities, or shares of the votes; shape (m, K)."""
        return self._totals(scores) / self._weight

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `probabilities`."""
        low, high = self._total_range(scores, bounds)
        return low / self._weight, high / self._weight

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose winner cannot change within the bounds."""
        low, high = self._total_range(scores, bounds)
        return best_decided(low, high, counts=not self.soft and self.weights is None)

    def decision(self, scores: FloatArray) -> FloatArray:
        """The mean of the members' decision values, in their shape."""
        each = [member.head.decision(member.of(scores)) for member in self.members]
        return sum(each[1:], start=each[0]) / len(each)

    def decision_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `decision`."""
        ends = [decision_range(m.head, m.of(scores), m.of(bounds)) for m in self.members]
        count = len(ends)
        return (
            np.sum([low for low, _ in ends], axis=0) / count,
            np.sum([high for _, high in ends], axis=0) / count,
        )

    def transform(self, scores: FloatArray) -> NDArray[Any]:
        """What each member says, side by side: probabilities (soft), or indices of labels."""
        if self.soft:
            return np.hstack([member.probabilities(scores) for member in self.members])
        K = len(self.classes)
        return np.stack([m.votes(scores, K).argmax(axis=1) for m in self.members], axis=1)

    def transform_settled(
        self, scores: FloatArray, bounds: FloatArray, tolerance: float
    ) -> BoolArray:
        """Rows of which every member's label is proven, or its probabilities are close."""
        if not self.soft:
            return np.all([member.decided(scores, bounds) for member in self.members], axis=0)
        widths = [np.subtract(*m.probability_range(scores, bounds)[::-1]) for m in self.members]
        return np.asarray((np.hstack(widths) <= tolerance).all(axis=1))

    def margin(self, scores: FloatArray) -> FloatArray:
        """How far a row is from another label, shape (m,)."""
        if self.soft:
            return lead(self.probabilities(scores))
        # Before the label changes, a member that votes for it has to change its mind.
        winner = self.winners(scores)[:, None]
        least = np.full(len(scores), np.inf)
        for member in self.members:
            votes = member.votes(scores, len(self.classes))
            mine = np.take_along_axis(votes, winner, axis=1)[:, 0]
            own = margin(member.head, member.of(scores))
            least = np.minimum(least, np.where(mine, own, np.inf))
        return least

    @property
    def _weight(self) -> float:
        return float(len(self.members) if self.weights is None else self.weights.sum())

    def _weighted(self, index: int, values: NDArray[Any]) -> NDArray[Any]:
        return values if self.weights is None else self.weights[index] * values

    def _totals(self, scores: FloatArray) -> FloatArray:
        K = len(self.classes)
        totals = np.zeros((len(scores), K))
        for index, member in enumerate(self.members):
            if self.soft:
                own: NDArray[Any] = member.spread(member.probabilities(scores), K)
            else:
                own = member.votes(scores, K)
            totals += self._weighted(index, own)
        return totals

    def _total_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        K = len(self.classes)
        low, high = np.zeros((2, len(scores), K))
        for index, member in enumerate(self.members):
            if self.soft:
                ends = member.probability_range(scores, bounds)
                least, most = member.spread(ends[0], K), member.spread(ends[1], K)
            else:
                most = member.vote_sets(scores, bounds, K)
                least = most & (most.sum(axis=1, keepdims=True) == 1)
            low += self._weighted(index, least)
            high += self._weighted(index, most)
        return low, high
