"""Densities: the logarithm of a sum of positive bumps.

    log density(z) = log(sum_i w_i exp(-gamma |x_i - z|^2)) + log_scale

A form of the sum may be off, even negative; how far its logarithm is off follows from the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernelite.errors import InputError
from kernelite.machine.heads.base import BoolArray
from kernelite.rows.inputs import FloatArray

__all__ = ["DensityHead"]

SMALLEST = 1e-280  # sums below may have lost digits to underflow


@dataclass(frozen=True, eq=False)
class DensityHead:
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

    def __post_init__(self) -> None:
        if not math.isfinite(self.log_scale):
            raise InputError(f"`log_scale` must be finite, got {self.log_scale!r}.")
        for name in ("atol", "rtol"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise InputError(f"`{name}` must not be negative, got {getattr(self, name)!r}.")

    @property
    def offers(self) -> frozenset[str]:
        """A density scores samples."""
        return frozenset({"score_samples"})

    def score_samples(self, scores: FloatArray) -> FloatArray:
        """Log-densities of shape (m,); minus infinity where the sum is not positive."""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(scores[:, 0], 0.0)) + self.log_scale

    def predict(self, scores: FloatArray) -> FloatArray:
        """The log-densities; compiled models call it `score_samples`."""
        return self.score_samples(scores)

    def decision(self, scores: FloatArray) -> FloatArray:
        """The log-densities."""
        return self.score_samples(scores)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """No row: a density is within a tolerance or not; there is no label to decide."""
        return np.zeros(len(scores), dtype=np.bool_)

    def underflows(self, log_densities: FloatArray) -> BoolArray:
        """Rows whose sum is so small that it has to be taken in logarithms."""
        return np.asarray(log_densities < math.log(SMALLEST) + self.log_scale)

    def budget(self, tolerance: float) -> tuple[float, float]:
        """(absolute, relative): by how much a sum S may be off, absolute + relative S.

        A sum that is off by b has a logarithm off by at most -log(1 - b / S), which is the
        tolerance where b = (1 - exp(-tolerance)) S. Densities are sums times exp(log_scale).
        """
        with np.errstate(over="ignore"):
            absolute = self.atol * float(np.exp(-self.log_scale)) if self.atol else 0.0
        return absolute, -math.expm1(-tolerance) * (1.0 - 1e-9)

    def within(self, scores: FloatArray, bounds: FloatArray, tolerance: float) -> BoolArray:
        """Rows whose log-density is within the tolerance, or whose density is within `atol`."""
        S, b = scores[:, 0], bounds[:, 0]
        absolute, relative = self.budget(tolerance)
        return np.asarray((b < S) & (b <= absolute + relative * S))
