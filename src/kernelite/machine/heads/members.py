"""The members of an ensemble: a head each, on its own columns of the scores.

`ConstantHead` is a member that always answers the same: one-vs-rest puts it where a class is always
or never.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads.base import BoolArray, Head, Judged, LabelHead, Range
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["RESPONSES", "ConstantHead", "Member", "OfMembers", "checked_weights", "n_columns"]


RESPONSES = {"decision": "decision_function", "probability": "predict_proba", "value": "predict"}


@dataclass(frozen=True, eq=False)
class Member:
    """One machine of an ensemble.

    Parameters
    ----------
    head : Head
    columns : array of int, shape (head.n_scores,)
        Which columns of the ensemble's scores are this machine's.
    response : {"decision", "probability", "value"}
        What an ensemble of binary machines asks it: its decision value, the probability of its
        second class, or a regressor's value. scikit-learn takes the first that there is.
    places : array of int, optional
        Where its classes stand among the ensemble's; None when they are the same.

    Examples
    --------
    >>> from kernelite.machine.heads.values import RegressorHead
    >>> Member(RegressorHead(), [1], "value").binary(np.array([[5.0, 7.0]]))
    array([7.])
    """

    head: Head
    columns: NDArray[np.int64]
    response: Literal["decision", "probability", "value"] = "decision"
    places: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        columns = np.asarray(self.columns, dtype=np.int64).reshape(-1)
        if len(columns) != self.head.n_scores or (columns < 0).any():
            raise InputError(
                f"`columns` must name {self.head.n_scores} scores, got {columns.tolist()}."
            )
        object.__setattr__(self, "columns", columns)
        if self.response not in ("decision", "probability", "value"):
            raise InputError(f"`response` cannot be {self.response!r}.")
        if self.places is not None:
            places = np.asarray(self.places, dtype=np.int64).reshape(-1)
            if len(places) != len(self.head.classes):
                raise InputError("`places` must name a place for each of the member's classes.")
            object.__setattr__(self, "places", places)

    def of(self, scores: FloatArray) -> FloatArray:
        """Its own scores (or bounds), shape (m, head.n_scores)."""
        return scores[:, self.columns]

    def binary(self, scores: FloatArray) -> FloatArray:
        """Its response, shape (m,)."""
        answer = self.head.answer(RESPONSES[self.response], self.of(scores))
        return answer[:, 1] if self.response == "probability" else answer.reshape(-1)

    def binary_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of its response, each of shape (m,)."""
        method = RESPONSES[self.response]
        low, high = self.head.answer_range(method, self.of(scores), self.of(bounds))
        if self.response == "probability":
            return low[:, 1], high[:, 1]
        return low.reshape(-1), high.reshape(-1)

    @property
    def threshold(self) -> float:
        """Above it, a binary response means the second class."""
        return 0.0 if self.response == "decision" else 0.5

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """Its labels or values."""
        return self.head.predict(self.of(scores))

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose label is proven, shape (m,)."""
        return self.head.decided(self.of(scores), self.of(bounds))

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Its own probabilities, shape (m, its classes)."""
        return self.head.probabilities(self.of(scores))

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of its own probabilities."""
        return self.head.probability_range(self.of(scores), self.of(bounds))

    def votes(self, scores: FloatArray, n_classes: int) -> BoolArray:
        """Which of the ensemble's classes it votes for, shape (m, K)."""
        index = self.head.winners(self.of(scores))
        place = index if self.places is None else ops(index).take(self.places, index)
        return place[:, None] == np.arange(n_classes)[None, :]

    def vote_sets(self, scores: FloatArray, bounds: FloatArray, n_classes: int) -> BoolArray:
        """Which of the ensemble's classes it may vote for, shape (m, K)."""
        return self.spread(self.head.label_sets(self.of(scores), self.of(bounds)), n_classes)

    def spread(self, own: NDArray[Any], n_classes: int) -> NDArray[Any]:
        """Values of its own classes, put where these stand among all; zero elsewhere."""
        if self.places is None:
            return own
        xp = ops(own)
        none = xp.full_like(own[:, :1], 0)
        own, at = xp.concat([own, none], axis=1), {int(c): i for i, c in enumerate(self.places)}
        return own[:, [at.get(c, len(self.places)) for c in range(n_classes)]]


def checked_weights(weights: FloatArray, members: tuple[Member, ...]) -> FloatArray:
    """Weights of a mean or a vote: a number a member, none negative, not all zero."""
    weights = np.array(weights, dtype=np.float64)
    if weights.shape != (len(members),) or not (weights >= 0).all():
        raise InputError(f"`weights` must hold {len(members)} numbers, none negative.")
    if not 0 < weights.sum() < np.inf:
        raise InputError("`weights` must have a positive, finite sum.")
    return weights


def n_columns(members: tuple[Member, ...]) -> int:
    """How many scores the members have in all; they must cover 0, 1, ... without a gap.

    Examples
    --------
    >>> from kernelite.machine.heads.values import RegressorHead
    >>> n_columns((Member(RegressorHead(), [0]), Member(RegressorHead(), [0])))
    1
    """
    none = np.zeros(0, dtype=np.int64)
    used = np.unique(np.concatenate([none, *(member.columns for member in members)]))
    if not np.array_equal(used, np.arange(len(used))):
        raise InputError("the members of an ensemble must cover its scores without a gap.")
    return len(used)


class OfMembers(Head):
    """A head on the scores of several machines, its `members`.

    Most ensembles hold the same binary machine many times. Their formulas then take all scores at
    once: a call per machine would take longer than the sums over all support vectors of a row.
    """

    if TYPE_CHECKING:

        @property
        def members(self) -> tuple[Member, ...]:
            """A field of most, a property of others."""

    methods: tuple[str, ...]
    """Which methods the source has; heads that need not be told say what they offer."""

    @property
    def offers(self) -> frozenset[str]:
        """What the source offers."""
        return frozenset(self.methods)

    @property
    def n_scores(self) -> int:
        """Scores of all machines."""
        return n_columns(self.members)

    @property
    def n_values(self) -> int:
        """One tolerance for all machines."""
        return 1

    @cached_property
    def alike(self) -> bool:
        """Whether every machine has one score, whose sign is its vote, in the order of these."""
        return all(
            member.head.votes_by_sign
            and member.response == "decision"
            and member.places is None
            and member.columns.tolist() == [column]
            for column, member in enumerate(self.members)
        )

    def judged_by(self, method: str) -> Judged:
        """By the ends of what the machines say together."""
        return "range"


@dataclass(frozen=True, eq=False)
class ConstantHead(LabelHead):
    """Answers `value`, 0 or 1, without looking at any score.

    Examples
    --------
    >>> ConstantHead(1).probabilities(np.zeros((2, 0)))
    array([[0., 1.],
           [0., 1.]])
    """

    value: int

    kind: Literal["classifier"] = "classifier"
    n_scores: Literal[0] = 0
    offers: ClassVar[frozenset[str]] = frozenset({"predict", "decision_function", "predict_proba"})

    @property
    def classes(self) -> NDArray[Any]:
        """The two labels of a binary machine."""
        return np.array([0, 1])

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """The constant, shape (m,)."""
        return ops(scores).full((scores.shape[0],), self.value)

    def decision(self, scores: FloatArray) -> FloatArray:
        """The constant, shape (m,)."""
        return ops(scores).full((scores.shape[0],), float(self.value))

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Every row."""
        return ops(scores).full((scores.shape[0],), True)

    def decision_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Both ends are the constant."""
        return self.decision(scores), self.decision(scores)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Shape (m, 2)."""
        second = self.decision(scores)[:, None]
        return ops(scores).concat([1.0 - second, second], axis=1)

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Both ends are the constant's."""
        return self.probabilities(scores), self.probabilities(scores)

    def judged_by(self, method: str) -> Judged:
        """By its ends."""
        return "range"
