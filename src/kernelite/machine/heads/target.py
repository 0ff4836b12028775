"""Values that are not linear in the scores: a transformed target, or a mean of such.

    TransformedTargetRegressor   inverse(f(z))
    Bagging-, VotingRegressor    sum_i w_i f_i(z) / sum_i w_i     where a member is not linear

Linear ones need no head of their own: they are folded into the coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernelite.errors import InputError
from kernelite.machine.heads.base import BoolArray, Head
from kernelite.machine.heads.inverses import KeptInverse, NamedInverse
from kernelite.machine.heads.members import Member, checked_weights, n_columns
from kernelite.machine.heads.ranges import Range, value_range
from kernelite.rows.inputs import FloatArray

__all__ = ["MeanHead", "TargetHead"]


@dataclass(frozen=True, eq=False)
class TargetHead:
    """A regressor whose values pass through a function.

    Parameters
    ----------
    inner : Head
        The regressor's own.
    inverse : NamedInverse or KeptInverse
    flat : bool
        Whether one output is returned in shape (m,).

    Examples
    --------
    >>> from kernelite.machine.heads.regressor import RegressorHead
    >>> TargetHead(RegressorHead(), NamedInverse("exp")).predict(np.array([[0.0]]))
    array([1.])
    """

    inner: Head
    inverse: NamedInverse | KeptInverse
    flat: bool = True

    kind: Literal["regressor"] = "regressor"

    @property
    def n_scores(self) -> int:
        """The inner head's."""
        return self.inner.n_scores

    @property
    def n_values(self) -> int:
        """Outputs."""
        return int(getattr(self.inner, "n_values", self.inner.n_scores))

    @property
    def offers(self) -> frozenset[str]:
        """A regressor predicts."""
        return frozenset({"predict"})

    def predict(self, scores: FloatArray) -> FloatArray:
        """Values of shape (m,) or (m, outputs)."""
        return self._shaped(self.inverse(_columns(self.inner.predict(scores))))

    def decision(self, scores: FloatArray) -> FloatArray:
        """The values themselves."""
        return self.predict(scores)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """No row: a value is within a tolerance or it is not."""
        return np.zeros(len(scores), dtype=np.bool_)

    def value_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `predict`."""
        low, high = value_range(self.inner, scores, bounds)
        low, high = self.inverse.range(_columns(low), _columns(high))
        return self._shaped(low), self._shaped(high)

    def _shaped(self, values: FloatArray) -> FloatArray:
        return values[:, 0] if self.flat and values.shape[1] == 1 else values


@dataclass(frozen=True, eq=False)
class MeanHead:
    """The weighted mean of regressors.

    Parameters
    ----------
    members : tuple of Member
    weights : array of shape (members,), optional

    Examples
    --------
    >>> from kernelite.machine.heads.regressor import RegressorHead
    >>> members = tuple(Member(RegressorHead(), [i], "value") for i in range(2))
    >>> MeanHead(members).predict(np.array([[1.0, 2.0]]))
    array([1.5])
    """

    members: tuple[Member, ...]
    weights: FloatArray | None = None

    kind: Literal["regressor"] = "regressor"

    def __post_init__(self) -> None:
        n_columns(self.members)
        if not self.members:
            raise InputError("a mean needs at least one member.")
        if self.weights is not None:
            object.__setattr__(self, "weights", checked_weights(self.weights, self.members))

    @property
    def n_scores(self) -> int:
        """Scores of all machines."""
        return n_columns(self.members)

    @property
    def n_values(self) -> int:
        """Outputs."""
        head = self.members[0].head
        return int(getattr(head, "n_values", head.n_scores))

    @property
    def offers(self) -> frozenset[str]:
        """A regressor predicts."""
        return frozenset({"predict"})

    def predict(self, scores: FloatArray) -> FloatArray:
        """Values in the members' shape."""
        each = [member.predict(scores) for member in self.members]
        return self._mean(each)

    def decision(self, scores: FloatArray) -> FloatArray:
        """The values themselves."""
        return self.predict(scores)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """No row: a value is within a tolerance or it is not."""
        return np.zeros(len(scores), dtype=np.bool_)

    def value_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `predict`."""
        ends = [value_range(m.head, m.of(scores), m.of(bounds)) for m in self.members]
        return self._mean([low for low, _ in ends]), self._mean([high for _, high in ends])

    def _mean(self, each: list[FloatArray]) -> FloatArray:
        weights = np.ones(len(each)) if self.weights is None else self.weights
        total: FloatArray = sum(w * values for w, values in zip(weights, each))
        return total / weights.sum()


def _columns(values: FloatArray) -> FloatArray:
    return values[:, None] if values.ndim == 1 else values
