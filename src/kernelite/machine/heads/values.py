"""Heads without labels: regression, transforms and densities, each answered within a tolerance.

    RegressorHead, TransformHead   the scores themselves
    DensityHead                    log(sum_i w_i exp(-gamma |x_i - z|^2)) + log_scale

A form of the sum may be off, even negative; how far its logarithm is off follows from the bound.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads.base import BoolArray, Judged, Range, ValueHead
from kernelite.machine.heads.intervals import score_range, widened
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["SMALLEST_SUM", "DensityHead", "RegressorHead", "TransformHead"]

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
