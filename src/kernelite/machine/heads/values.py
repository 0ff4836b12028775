"""Heads without labels: regression, transforms, densities, and what is made of several values.

    RegressorHead, TransformHead   the scores themselves
    DensityHead                    log(sum_i w_i exp(-gamma |x_i - z|^2)) + log_scale

A form of the sum may be off, even negative; how far its logarithm is off follows from the bound.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads.base import BoolArray, Head, Judged, Range, ValueHead
from kernelite.machine.heads.intervals import columns, score_range, widened
from kernelite.machine.heads.members import Member, OfMembers, checked_weights, n_columns
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.records import dataclass

__all__ = [
    "DECREASING",
    "INCREASING",
    "SMALLEST_SUM",
    "DensityHead",
    "KeptInverse",
    "MeanHead",
    "NamedInverse",
    "RegressorHead",
    "TargetHead",
    "TransformHead",
]

SMALLEST_SUM = 1e-280  # sums below may have lost digits to underflow


@dataclass(frozen=True, eq=False)
class RegressorHead(ValueHead):
    """Regression: the score is the value.

    Parameters
    ----------
    n_scores : int
        Outputs k.
    value_shape : tuple of int, optional
        What a row's value is shaped like; by default () for one output, (k,) for more. (1,) is a
        column of a table with one column.
    noise_scale : float, optional
        LIBSVM's sigma of the Laplace noise model (`probA` of a regressor).

    Examples
    --------
    >>> RegressorHead().predict(np.array([[1.5], [2.5]]))
    array([1.5, 2.5])
    """

    n_scores: int = 1
    noise_scale: float | None = None
    value_shape: tuple[int, ...] | None = None

    kind: Literal["regressor"] = "regressor"
    offers: ClassVar[frozenset[str]] = frozenset({"predict"})
    scores_are_values: ClassVar[bool] = True

    def __post_init__(self) -> None:
        shape = self.value_shape
        if shape is not None and (math.prod(shape) != self.n_scores or min(shape, default=1) < 0):
            raise InputError(
                f"`value_shape` {shape} does not hold the {self.n_scores} outputs of a row."
            )

    def predict(self, scores: FloatArray) -> FloatArray:
        """Values of shape (m, *value_shape)."""
        if self.value_shape is not None:
            return scores.reshape(scores.shape[0], *self.value_shape)
        return scores[:, 0] if self.n_scores == 1 else scores

    def value_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `predict`."""
        return score_range(self.predict(scores), self.predict(bounds))

    def sum_budget(self, tolerance: FloatArray | None) -> tuple[FloatArray, float] | None:
        """The tolerance itself."""
        return None if tolerance is None else (tolerance, 0.0)


@dataclass(frozen=True, eq=False)
class TransformHead(ValueHead):
    """Kernel PCA, Nystroem features: k coordinates per row.

    Parameters
    ----------
    n_scores : int

    Examples
    --------
    >>> TransformHead(2).transform(np.array([[1.0, 2.0]]))
    array([[1., 2.]])
    """

    n_scores: int

    kind: Literal["transform"] = "transform"
    offers: ClassVar[frozenset[str]] = frozenset({"transform"})

    def __post_init__(self) -> None:
        if self.n_scores < 0:
            raise InputError(f"`n_scores` must not be negative, got {self.n_scores}.")

    def transform(self, scores: FloatArray) -> FloatArray:
        """Coordinates of shape (m, k)."""
        return scores

    def predict(self, scores: FloatArray) -> FloatArray:
        """The coordinates; compiled models call it `transform`."""
        return scores

    def value_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of the coordinates."""
        return score_range(scores, bounds)

    def sum_budget(self, tolerance: FloatArray | None) -> tuple[FloatArray, float] | None:
        """The tolerance itself."""
        return None if tolerance is None else (tolerance, 0.0)


@dataclass(frozen=True, eq=False)
class DensityHead(ValueHead):
    """Log-density of a kernel density estimate.

    Parameters
    ----------
    log_scale : float
        What the logarithm of the sum is off the log-density by.
    atol, rtol : float
        How far densities may be off, as the estimator was set up: `atol` + `rtol` density. A
        compiled model's `tolerance` stands for `rtol`, where it is given.

    Examples
    --------
    >>> DensityHead(0.0).score_samples(np.array([[1.0], [0.0]]))
    array([  0., -inf])
    """

    log_scale: float
    atol: float = 0.0
    rtol: float = 0.0

    kind: Literal["density"] = "density"
    n_scores: Literal[1] = 1
    offers: ClassVar[frozenset[str]] = frozenset({"score_samples"})

    def __post_init__(self) -> None:
        if not math.isfinite(self.log_scale):
            raise InputError(f"`log_scale` must be finite, got {self.log_scale!r}.")
        for name in ("atol", "rtol"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise InputError(f"`{name}` must not be negative, got {getattr(self, name)!r}.")

    def score_samples(self, scores: FloatArray) -> FloatArray:
        """Log-densities of shape (m,); minus infinity where the sum is not positive."""
        xp = ops(scores)
        with np.errstate(divide="ignore"):
            return self.from_logarithms(xp.log(xp.maximum(scores[:, 0], 0.0)))

    def value_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of the log-densities: everything below, where the sum may be zero."""
        low, high = (self.score_samples(end) for end in score_range(scores, bounds))
        return widened(low, high, ops(low).maximum(ops(low).abs(high), abs(self.log_scale)))

    def from_logarithms(self, log_sums: FloatArray) -> FloatArray:
        """Log-densities from the logarithms of the sums."""
        return log_sums + self.log_scale

    def predict(self, scores: FloatArray) -> FloatArray:
        """The log-densities; compiled models call it `score_samples`."""
        return self.score_samples(scores)

    def underflows(self, answers: FloatArray) -> BoolArray:
        """Rows whose sum is so small that it has to be taken in logarithms."""
        return answers < math.log(SMALLEST_SUM) + self.log_scale

    def budget(self, tolerance: float) -> tuple[float, float]:
        """(absolute, relative): by how much a sum S may be off, absolute + relative S.

        A sum that is off by b has a logarithm off by at most -log(1 - b / S), which is the
        tolerance where b = (1 - exp(-tolerance)) S. Densities are sums times exp(log_scale).
        """
        with np.errstate(over="ignore"):
            absolute = self.atol * float(np.exp(-self.log_scale)) if self.atol else 0.0
        return absolute, -math.expm1(-tolerance) * (1.0 - 1e-9)

    def own_tolerance(self, default: float) -> FloatArray:
        """`rtol`, where the estimator has one.

        Examples
        --------
        >>> DensityHead(0.0, rtol=0.01).own_tolerance(1e-3)
        array([0.01])
        """
        return np.array([self.rtol or default])

    def sum_budget(self, tolerance: FloatArray | None) -> tuple[FloatArray, float] | None:
        """As `budget`, kept finite."""
        assert tolerance is not None
        absolute, relative = self.budget(float(tolerance[0]))
        return np.array([min(absolute, 1e300)]), relative

    def judged_by(self, method: str) -> Judged:
        """By `within`."""
        return "range"

    def within(
        self, method: str, scores: FloatArray, bounds: FloatArray, tolerance: FloatArray | float
    ) -> BoolArray:
        """Rows whose log-density is within the tolerance, or whose density is within `atol`."""
        S, b = scores[:, 0], bounds[:, 0]
        absolute, relative = self.budget(float(np.asarray(tolerance).reshape(-1)[0]))
        return (b < S) & (b <= absolute + relative * S)


# Values that are not linear in the scores: a transformed target, or a mean of such.
#
#     TransformedTargetRegressor   inverse(f(z))
#     Bagging-, VotingRegressor    sum_i w_i f_i(z) / sum_i w_i     where a member is not linear
#
# Linear ones need no head of their own: they are folded into the coefficients. Increasing or
# decreasing functions take the ends of a range to the ends of a range. Of an unknown function
# nothing can be said, so that every row has to be exact.

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
