"""Values that are not linear in the scores: a transformed target, or a mean of such.

    TransformedTargetRegressor   inverse(f(z))
    Bagging-, VotingRegressor    sum_i w_i f_i(z) / sum_i w_i     where a member is not linear

Linear ones need no head of their own: they are folded into the coefficients. Increasing or
decreasing functions take the ends of a range to the ends of a range. Of an unknown function nothing
can be said, so that every row has to be exact.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads.base import Head, Judged, Range, ValueHead
from kernelite.machine.heads.intervals import columns, widened
from kernelite.machine.heads.members import Member, OfMembers, checked_weights, n_columns
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.records import dataclass

__all__ = ["DECREASING", "INCREASING", "KeptInverse", "MeanHead", "NamedInverse", "TargetHead"]

INCREASING = frozenset(
    {
        *("arcsinh", "arctan", "cbrt", "deg2rad", "exp", "exp2", "expm1", "log"),
        *("log10", "log1p", "log2", "rad2deg", "sinh", "sqrt", "tanh"),
    }
)
DECREASING = frozenset({"negative"})


@dataclass(frozen=True)
class NamedInverse:
    """A NumPy function that is monotone wherever it is defined.

    Examples
    --------
    >>> NamedInverse("expm1")(np.array([[0.0]]))
    array([[0.]])
    """

    name: str

    def __post_init__(self) -> None:
        if self.name not in INCREASING | DECREASING:
            known = ", ".join(sorted(INCREASING | DECREASING))
            raise InputError(f"{self.name!r} is not among the known functions: {known}.")

    def __call__(self, values: FloatArray) -> FloatArray:
        """Of each value, in the same shape."""
        return ops(values).function(self.name, values)

    def range(self, low: FloatArray, high: FloatArray) -> Range:
        """Ends over [low, high]; not a number outside the function's domain, hence exact."""
        with np.errstate(all="ignore"):
            ends = self(low), self(high)
            return widened(*(ends if self.name in INCREASING else ends[::-1]))


@dataclass(frozen=True, eq=False)
class KeptInverse:
    """A fitted transformer, kept as it is; no file can hold it.

    Parameters
    ----------
    transformer : object
        With `inverse_transform`.
    increasing : bool
        Whether that is known to be increasing, feature by feature.
    """

    transformer: Any
    increasing: bool = False

    @property
    def __unstorable__(self) -> str:
        return (
            f"this model keeps a {type(self.transformer).__name__} behind it as it is, and a "
            ".kernelite file holds no Python objects; joblib.dump(model, path) stores it, for "
            "readers who trust the file."
        )

    def __call__(self, values: FloatArray) -> FloatArray:
        """Of each value, in the same shape."""
        if not isinstance(values, np.ndarray):
            raise UnsupportedModelError(
                f"its values pass through a {type(self.transformer).__name__}, kept as it is"
            )
        if not len(values):  # transformers refuse none
            return values
        return np.asarray(self.transformer.inverse_transform(values))

    def range(self, low: FloatArray, high: FloatArray) -> Range:
        """Ends over [low, high]; everything, of an unknown function."""
        if not self.increasing:
            xp = ops(low)
            return xp.full_like(low, -np.inf), xp.full_like(low, np.inf)
        return widened(self(low), self(high))


@dataclass(frozen=True, eq=False)
class TargetHead(ValueHead):
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
    >>> from kernelite.machine.heads.values import RegressorHead
    >>> TargetHead(RegressorHead(), NamedInverse("exp")).predict(np.array([[0.0]]))
    array([1.])
    """

    inner: Head
    inverse: NamedInverse | KeptInverse
    flat: bool = True

    kind: Literal["regressor"] = "regressor"
    offers: ClassVar[frozenset[str]] = frozenset({"predict"})

    @property
    def n_scores(self) -> int:
        """The inner head's."""
        return self.inner.n_scores

    @property
    def n_values(self) -> int:
        """Outputs."""
        return self.inner.n_values

    def predict(self, scores: FloatArray) -> FloatArray:
        """Values of shape (m,) or (m, outputs)."""
        return self._shaped(self.inverse(columns(self.inner.predict(scores))))

    def judged_by(self, method: str) -> Judged:
        """By the ends of `predict`."""
        return "range"

    def value_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `predict`."""
        low, high = self.inner.value_range(scores, bounds)
        low, high = self.inverse.range(columns(low), columns(high))
        return self._shaped(low), self._shaped(high)

    def _shaped(self, values: FloatArray) -> FloatArray:
        # What a kept transformer makes of its columns is seen in arrays alone.
        width = values.shape[1] if isinstance(values, np.ndarray) else self.n_values
        return values[:, 0] if self.flat and width == 1 else values


@dataclass(frozen=True, eq=False)
class MeanHead(OfMembers, ValueHead):
    """The weighted mean of regressors.

    Parameters
    ----------
    members : tuple of Member
    weights : array of shape (members,), optional

    Examples
    --------
    >>> from kernelite.machine.heads.values import RegressorHead
    >>> members = tuple(Member(RegressorHead(), [i], "value") for i in range(2))
    >>> MeanHead(members).predict(np.array([[1.0, 2.0]]))
    array([1.5])
    """

    members: tuple[Member, ...]
    weights: FloatArray | None = None

    kind: Literal["regressor"] = "regressor"
    offers: ClassVar[frozenset[str]] = frozenset({"predict"})

    def __post_init__(self) -> None:
        n_columns(self.members)
        if not self.members:
            raise InputError("a mean needs at least one member.")
        if self.weights is not None:
            object.__setattr__(self, "weights", checked_weights(self.weights, self.members))

    @property
    def n_values(self) -> int:
        """Outputs."""
        return self.members[0].head.n_values

    def predict(self, scores: FloatArray) -> FloatArray:
        """Values in the members' shape."""
        each = [member.predict(scores) for member in self.members]
        return self._mean(each)

    def value_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `predict`."""
        ends = [m.head.value_range(m.of(scores), m.of(bounds)) for m in self.members]
        xp = ops(scores)
        sizes = [xp.maximum(xp.abs(low), xp.abs(high)) for low, high in ends]
        return widened(*(self._mean(list(each)) for each in (*zip(*ends), sizes)))

    def _mean(self, each: list[FloatArray]) -> FloatArray:
        weights = np.ones(len(each)) if self.weights is None else self.weights
        total: FloatArray = sum(w * values for w, values in zip(weights, each))
        return total / weights.sum()
