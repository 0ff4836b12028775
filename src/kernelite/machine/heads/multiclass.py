"""Several classes from binary machines: each against the rest, or in pairs.

OneVsRestHead    a machine per class; the largest response wins. With a single machine (two
                 classes), or with several labels per row (multilabel), each response is compared
                 with a threshold instead.
OneVsOneHead     a machine per pair of classes; votes, ties by summed responses
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads.base import BoolArray, LabelHead, Range
from kernelite.machine.heads.intervals import (
    SLACK,
    best_decided,
    lead,
    score_range,
    share_range,
    squash,
    two_classes,
    widened,
)
from kernelite.machine.heads.members import Member, OfMembers, n_columns
from kernelite.machine.heads.pairwise import (
    count_votes,
    pair_sums,
    pairs,
    summed_scores,
    vote_range,
)
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["OneVsOneHead", "OneVsRestHead", "OutputCodeHead"]


@dataclass(frozen=True, eq=False)
class OneVsRestHead(OfMembers, LabelHead):
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
    >>> from kernelite.machine.heads.svm import ClassifierHead
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
    def _by_threshold(self) -> bool:
        """Whether each response is compared with a threshold, not with the others."""
        return self.multilabel or len(self.members) == 1

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """Labels of shape (m,), or zeros and ones of shape (m, K)."""
        if self.multilabel:
            return ops(scores).where(self._above(self._responses(scores)), 1, 0)
        return super().predict(scores)

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """Index into `classes` of each row's label."""
        xp, responses = ops(scores), self._responses(scores)
        if len(self.members) == 1:
            return xp.where(self._above(responses)[:, 0], 1, 0)
        if self.last_wins:
            return len(self.classes) - 1 - xp.argmax(responses[:, ::-1], axis=1)
        return xp.argmax(responses, axis=1)

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
        if self._by_threshold:
            # Not `~above(high)`: an end that is no number decides nothing.
            below = high <= self.members[0].threshold
            return ops(scores).all(self._above(low) | below, axis=1)
        if self.last_wins:
            low, high = low[:, ::-1], high[:, ::-1]
        return best_decided(low, high, len(self.classes))

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Each machine's, shape (m, K); divided by their sum unless labels are independent."""
        xp = ops(scores)
        p = xp.stack([member.probabilities(scores)[:, 1] for member in self.members], axis=1)
        if len(self.members) == 1:
            p = xp.concat([1.0 - p, p], axis=1)
        if self.multilabel:
            return p
        total = xp.sum(p, axis=1, keepdims=True)
        return p / xp.where(total != 0, total, 1.0)

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `probabilities`."""
        xp = ops(scores)
        ends = [member.probability_range(scores, bounds) for member in self.members]
        low, high = (xp.stack([end[i][:, 1] for end in ends], axis=1) for i in (0, 1))
        if len(self.members) == 1:
            return two_classes(low, high)
        return (low, high) if self.multilabel else share_range(low, high, len(self.classes))

    def margin(self, scores: FloatArray) -> FloatArray:
        """How far a row is from another answer, shape (m,)."""
        xp, responses = ops(scores), self._responses(scores)
        if self._by_threshold:
            return xp.min(xp.abs(responses - self.members[0].threshold), axis=1)
        return lead(responses, len(self.classes))

    def _above(self, responses: FloatArray) -> BoolArray:
        return responses > self.members[0].threshold

    def _responses(self, scores: FloatArray) -> FloatArray:
        if self.alike:
            return scores
        return ops(scores).stack([member.binary(scores) for member in self.members], axis=1)

    def _response_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        if self.alike:
            return score_range(scores, bounds)
        return response_range(self.members, scores, bounds)


@dataclass(frozen=True, eq=False)
class OneVsOneHead(OfMembers, LabelHead):
    """Votes of K (K - 1) / 2 machines, a machine's second class being the pair's second.

    Parameters
    ----------
    classes : array of shape (K,)
    members : tuple of Member
        In the order (0,1), (0,2), ..., (K-2,K-1).

    Examples
    --------
    >>> from kernelite.machine.heads.svm import ClassifierHead
    >>> svm = ClassifierHead(np.array([0, 1]), first_positive=False)
    >>> head = OneVsOneHead(np.array([5, 6, 7]), tuple(Member(svm, [i]) for i in range(3)))
    >>> head.predict(np.array([[1.0, 1.0, -1.0]]))
    array([6])
    """

    classes: NDArray[Any]
    members: tuple[Member, ...]

    kind: Literal["classifier"] = "classifier"
    offers: ClassVar[frozenset[str]] = frozenset({"predict", "decision_function"})

    def __post_init__(self) -> None:
        K = len(self.classes)
        if K < 2 or len(self.members) != K * (K - 1) // 2:
            raise InputError(f"{len(self.members)} machines do not suit {K} classes in pairs.")
        n_columns(self.members)

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """Index into `classes` of each row's label."""
        xp, values = ops(scores), self._values(scores)
        if len(self.classes) == 2:
            return xp.where(values[:, 1] > self.members[0].threshold, 1, 0)
        return xp.argmax(values, axis=1)

    def decision(self, scores: FloatArray) -> FloatArray:
        """Votes plus squashed sums of responses: (m, K), or (m,) for two classes."""
        values = self._values(scores)
        return values[:, 1] if len(self.classes) == 2 else values

    def decision_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `decision`."""
        low, high = self._value_range(scores, bounds)
        last = SLACK * len(self.classes)  # of adding votes
        low, high = low - last, high + last
        return (low[:, 1], high[:, 1]) if len(self.classes) == 2 else (low, high)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose winner cannot change within the bounds."""
        low, high = self._value_range(scores, bounds)
        if len(self.classes) == 2:
            limit = self.members[0].threshold
            return (low[:, 1] > limit) | (high[:, 1] < limit)
        return best_decided(low, high, len(self.classes))

    def margin(self, scores: FloatArray) -> FloatArray:
        """How far a row is from another answer, shape (m,)."""
        if len(self.classes) == 2:
            return ops(scores).abs(self.members[0].binary(scores) - self.members[0].threshold)
        return lead(self._values(scores), len(self.classes))

    def _values(self, scores: FloatArray) -> FloatArray:
        if self.alike:
            K = len(self.classes)
            return count_votes(scores < 0.0, K) + squash(summed_scores(-scores, K))
        responses = [member.binary(scores) for member in self.members]
        votes = [member.votes(scores, 2) for member in self.members]
        return self._by_class(votes) + squash(self._by_class([(-r, r) for r in responses]))

    def _value_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        xp, K = ops(scores), len(self.classes)
        if self.alike:
            fewest, most = vote_range(-scores, bounds, K)
            sums = summed_scores(-scores, K)
            # Bounds of a class's pairs add up, and so do roundings.
            slack = pair_sums(bounds + SLACK * xp.abs(scores), K)
            return fewest + squash(sums - slack), most + squash(sums + slack)
        ends = [member.binary_range(scores, bounds) for member in self.members]
        possible = [member.vote_sets(scores, bounds, 2) for member in self.members]
        high_votes = self._by_class(possible)
        low_votes = self._by_class([~sets[:, ::-1] for sets in possible])
        low = self._by_class([(-most, least) for least, most in ends])
        high = self._by_class([(-least, most) for least, most in ends])
        sizes = [xp.maximum(xp.abs(least), xp.abs(most)) for least, most in ends]
        low, high = widened(low, high, self._by_class([(size, size) for size in sizes]))
        return low_votes + squash(low), high_votes + squash(high)

    def _by_class(self, each: list[Any]) -> FloatArray:
        """Sums over the pairs that a class takes part in, shape (m, K).

        `each` holds a pair's two values: two arrays of shape (m,), or one of shape (m, 2).
        """
        sums: list[Any] = [0.0] * len(self.classes)  # in the order of the pairs
        for two, members in zip(each, pairs(len(self.classes))):
            for side, c in enumerate(members):
                sums[c] = sums[c] + (two[side] if isinstance(two, tuple) else two[:, side])
        return ops(sums[0]).stack(sums, axis=1)


def response_range(members: tuple[Member, ...], scores: FloatArray, bounds: FloatArray) -> Range:
    """Ends of the members' responses, each of shape (m, members)."""
    ends = [member.binary_range(scores, bounds) for member in members]
    low, high = (ops(scores).stack([end[i] for end in ends], axis=1) for i in (0, 1))
    return low, high


# OutputCodeClassifier: binary machines answer a code word; the nearest class's code wins.
#
# label = argmin_c |y - code_c|^2 = argmin_c |code_c|^2 - 2 y . code_c


@dataclass(frozen=True, eq=False)
class OutputCodeHead(OfMembers, LabelHead):
    """The class whose code word is nearest to the responses.

    Parameters
    ----------
    classes : array of shape (K,)
    code_book : array of shape (K, c)
    members : tuple of Member
        c of them.

    Examples
    --------
    >>> from kernelite.machine.heads.svm import ClassifierHead
    >>> svm = ClassifierHead(np.array([0, 1]), first_positive=False)
    >>> book = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> head = OutputCodeHead(np.array([5, 6, 7]), book, (Member(svm, [0]), Member(svm, [1])))
    >>> head.predict(np.array([[-0.5, 2.0]]))
    array([6])
    """

    classes: NDArray[Any]
    code_book: FloatArray
    members: tuple[Member, ...]

    kind: Literal["classifier"] = "classifier"
    offers: ClassVar[frozenset[str]] = frozenset({"predict"})

    def __post_init__(self) -> None:
        book = np.array(self.code_book, dtype=np.float64)
        if book.shape != (len(self.classes), len(self.members)) or not np.isfinite(book).all():
            raise InputError(
                f"`code_book` must have shape ({len(self.classes)}, {len(self.members)}), got "
                f"{book.shape}."
            )
        object.__setattr__(self, "code_book", book)
        n_columns(self.members)

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """Index into `classes` of each row's label."""
        codes, first = self._codes()
        xp = ops(scores)
        nearest = xp.argmax(-self._distances(self.decision(scores), codes), axis=1)
        return xp.take(first, nearest)

    def decision(self, scores: FloatArray) -> FloatArray:
        """Responses of shape (m, c)."""
        return ops(scores).stack([member.binary(scores) for member in self.members], axis=1)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose nearest code cannot change within the bounds.

        The difference of two squared distances is linear in the responses.
        """
        xp = ops(scores)
        low, high = response_range(self.members, scores, bounds)
        codes, _ = self._codes()
        with np.errstate(invalid="ignore"):  # infinite ends
            middle, radius = (low + high) / 2.0, (high - low) / 2.0
            distances = self._distances(middle, codes)
            winner = xp.argmax(-distances, axis=1)
            nearest = xp.take_along_axis(distances, winner[:, None], axis=1)[:, 0]
            radius = radius + SLACK * (1.0 + xp.abs(middle))
            # Distances round by all of their terms, those that two codes share among them.
            largest = float(np.abs(codes).max(initial=0.0))
            noise = (4.0 * SLACK * largest) * xp.sum(largest + xp.abs(middle), axis=1)
            mine, settled = xp.take(codes, winner), xp.full((scores.shape[0],), True)
            for index, code in enumerate(codes):
                reach = 2.0 * xp.sum(radius * xp.abs(mine - code), axis=1) + noise
                settled = settled & ((winner == index) | (distances[:, index] - nearest > reach))
        return settled

    def margin(self, scores: FloatArray) -> FloatArray:
        """By how much the nearest code is nearer than the next one, shape (m,)."""
        codes, _ = self._codes()
        return lead(-self._distances(self.decision(scores), codes), len(codes))

    def _distances(self, responses: FloatArray, codes: FloatArray) -> FloatArray:
        return np.square(codes).sum(axis=1) - 2.0 * (responses @ codes.T)

    def _codes(self) -> tuple[FloatArray, NDArray[np.intp]]:
        """Codes that differ, in order, each with the first class that has it: that one wins."""
        _, first = np.unique(self.code_book, axis=0, return_index=True)
        first = np.sort(first)
        return self.code_book[first], first
