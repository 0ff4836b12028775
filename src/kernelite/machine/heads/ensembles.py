"""Several machines' answers: votes of classifiers, or one machine per output.

Votes are averaged probabilities (soft) or counted labels (hard): BaggingClassifier and
VotingClassifier; the first takes probabilities where its machines have them.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads.base import BoolArray, LabelHead, Range
from kernelite.machine.heads.intervals import (
    best_decided,
    lead,
    score_range,
    summed_columns,
    widened,
)
from kernelite.machine.heads.members import Member, OfMembers, checked_weights, n_columns
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["MultiOutputHead", "VotingHead"]


@dataclass(frozen=True, eq=False)
class VotingHead(OfMembers, LabelHead):
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
    >>> from kernelite.machine.heads.svm import ClassifierHead
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
            own = len(member.head.classes)
            if len(places) != own or (places < 0).any() or (places >= K).any():
                raise InputError("a member's classes are not all among the ensemble's.")
        if self.weights is not None:
            object.__setattr__(self, "weights", checked_weights(self.weights, self.members))
        n_columns(self.members)

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """Index into `classes` of each row's label."""
        return ops(scores).argmax(self._totals(scores), axis=1)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Averaged probabilities, or shares of the votes; shape (m, K)."""
        return self._totals(scores) / self._weight

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `probabilities`."""
        low, high = self._total_range(scores, bounds)
        return widened(low / self._weight, high / self._weight)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose winner cannot change within the bounds."""
        counts = not self.soft and (self.weights is None or _whole(self.weights))
        return best_decided(*self._total_range(scores, bounds), len(self.classes), counts=counts)

    def decision(self, scores: FloatArray) -> FloatArray:
        """The mean of the members' decision values, in their shape."""
        if self.alike:
            return summed_columns(scores) / len(self.members)
        each = [member.head.decision(member.of(scores)) for member in self.members]
        return sum(each[1:], start=each[0]) / len(each)

    def decision_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `decision`."""
        count = len(self.members)
        if self.alike:
            xp, (lows, highs) = ops(scores), score_range(scores, bounds)
            size = summed_columns(xp.maximum(xp.abs(lows), xp.abs(highs)))
            low, high = widened(summed_columns(lows), summed_columns(highs), size)
            return low / count, high / count
        ends = [m.head.decision_range(m.of(scores), m.of(bounds)) for m in self.members]
        low, high = (sum((end[i] for end in ends[1:]), start=ends[0][i]) for i in (0, 1))
        xp = ops(scores)
        sizes = [xp.maximum(xp.abs(least), xp.abs(most)) for least, most in ends]
        low, high = widened(low, high, sum(sizes[1:], start=sizes[0]))
        return low / count, high / count

    def transform(self, scores: FloatArray) -> NDArray[Any]:
        """What each member says, side by side: probabilities (soft), or indices of labels."""
        xp, K = ops(scores), len(self.classes)
        if self.soft:
            return xp.concat([member.probabilities(scores) for member in self.members], axis=1)
        votes = [xp.astype(m.votes(scores, K), np.float64) for m in self.members]
        return xp.stack([xp.argmax(own, axis=1) for own in votes], axis=1)

    def within(
        self, method: str, scores: FloatArray, bounds: FloatArray, tolerance: FloatArray | float
    ) -> BoolArray:
        """For `transform`: rows of which every member's label is proven, or its probabilities
        are close.
        """
        if method != "transform":
            return super().within(method, scores, bounds, tolerance)
        xp = ops(scores)
        if not self.soft:
            each = [member.decided(scores, bounds) for member in self.members]
            return xp.all(xp.stack(each, axis=1), axis=1)
        ends = [member.probability_range(scores, bounds) for member in self.members]
        widths = xp.concat([high - low for low, high in ends], axis=1)
        return xp.all(widths <= tolerance, axis=1)

    def margin(self, scores: FloatArray) -> FloatArray:
        """How far a row is from another label, shape (m,)."""
        xp, K = ops(scores), len(self.classes)
        if self.soft:
            return lead(self.probabilities(scores), K)
        # Before the label changes, a member that votes for it has to change its mind.
        chosen = self.winners(scores)[:, None] == np.arange(K)[None, :]
        least = xp.full((scores.shape[0],), np.inf)
        for member in self.members:
            mine = xp.any(member.votes(scores, K) & chosen, axis=1)
            own = member.head.margin(member.of(scores))
            least = xp.minimum(least, xp.where(mine, own, np.inf))
        return least

    @property
    def _weight(self) -> float:
        return float(len(self.members) if self.weights is None else self.weights.sum())

    def _weighted(self, index: int, values: NDArray[Any]) -> NDArray[Any]:
        return 1.0 * values if self.weights is None else self.weights[index] * values

    @cached_property
    def _counts_signs(self) -> bool:
        """Whether votes are counted, each the sign of a score."""
        return self.alike and not self.soft and self.weights is None

    def _totals(self, scores: FloatArray) -> FloatArray:
        if self._counts_signs:
            second = _counted(scores >= 0.0)
            return ops(scores).stack([len(self.members) - second, second], axis=1)
        K = len(self.classes)
        each = [
            m.spread(m.probabilities(scores), K) if self.soft else m.votes(scores, K)
            for m in self.members
        ]
        return self._summed(each)

    def _total_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        xp, K = ops(scores), len(self.classes)
        if self._counts_signs:
            count, sure, second = len(self.members), xp.abs(scores) > bounds, scores >= 0.0
            # One class has the fewest votes where the other has the most.
            low, lost = _counted(sure & second), _counted(sure & ~second)
            most = xp.stack([count - low, count - lost], axis=1)
            return xp.stack([lost, low], axis=1), most
        lows, highs = [], []
        for member in self.members:
            if self.soft:
                ends = member.probability_range(scores, bounds)
                least, most = member.spread(ends[0], K), member.spread(ends[1], K)
            else:
                most = member.vote_sets(scores, bounds, K)
                count = xp.sum(xp.astype(most, np.float64), axis=1, keepdims=True)
                least = most & (count == 1)
            lows.append(least)
            highs.append(most)
        return self._summed(lows), self._summed(highs)

    def _summed(self, each: list[NDArray[Any]]) -> FloatArray:
        weighted = [self._weighted(i, values) for i, values in enumerate(each)]
        return sum(weighted[1:], start=weighted[0])


def _counted(votes: BoolArray) -> FloatArray:
    """How many of a row's votes are cast, shape (m,)."""
    xp = ops(votes)
    return xp.sum(xp.astype(votes, np.float64), axis=1)


def _whole(weights: FloatArray) -> bool:
    """Whether sums of these are whole numbers, which doubles hold."""
    return bool((weights == np.floor(weights)).all() and weights.sum() < 2.0**53)


# MultiOutputClassifier and MultiOutputRegressor: one machine per output, answers side by side.


@dataclass(frozen=True, eq=False)
class MultiOutputHead(OfMembers):
    """Several heads, none of which knows of the others.

    Parameters
    ----------
    members : tuple of Member
    kind : {"classifier", "regressor"}
    methods : tuple of str
        Which methods the source has.

    Examples
    --------
    >>> from kernelite.machine.heads.values import RegressorHead
    >>> members = (Member(RegressorHead(), [1], "value"), Member(RegressorHead(), [0], "value"))
    >>> MultiOutputHead(members, "regressor", ("predict",)).predict(np.array([[1.0, 2.0]]))
    array([[2., 1.]])
    """

    members: tuple[Member, ...]
    kind: Literal["classifier", "regressor"]
    methods: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.members:
            raise InputError("a model of several outputs needs at least one.")
        n_columns(self.members)

    @property
    def n_values(self) -> int:
        """Outputs."""
        return len(self.members)

    @property
    def classes(self) -> list[NDArray[Any]] | None:
        """One array of labels per output."""
        if self.kind == "regressor":
            return None
        return [member.head.classes for member in self.members]

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """Labels or values of shape (m, outputs)."""
        return ops(scores).stack([m.predict(scores).reshape(-1) for m in self.members], axis=1)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows of which every output is decided."""
        each = [member.decided(scores, bounds) for member in self.members]
        return ops(scores).all(ops(scores).stack(each, axis=1), axis=1)

    def value_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of a regressor's `predict`."""
        ends = [m.head.value_range(m.of(scores), m.of(bounds)) for m in self.members]
        low, high = (ops(scores).stack([e[i].reshape(-1) for e in ends], axis=1) for i in (0, 1))
        return low, high

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Those of each output, side by side; see `split`."""
        return ops(scores).concat([m.probabilities(scores) for m in self.members], axis=1)

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `probabilities`."""
        ends = [member.probability_range(scores, bounds) for member in self.members]
        low, high = (ops(scores).concat([end[i] for end in ends], axis=1) for i in (0, 1))
        return low, high

    def split(self, probabilities: FloatArray) -> list[FloatArray]:
        """One array per output, as scikit-learn returns them."""
        assert self.classes is not None
        ends = np.cumsum([0, *(len(labels) for labels in self.classes)]).tolist()
        # Times one: a copy, of tensors too.
        return [probabilities[:, start:end] * 1.0 for start, end in pairwise(ends)]

    def margin(self, scores: FloatArray) -> FloatArray:
        """The smallest margin of an output, shape (m,)."""
        each = [m.head.margin(m.of(scores)) for m in self.members]
        return ops(scores).min(ops(scores).stack(each, axis=1), axis=1)
