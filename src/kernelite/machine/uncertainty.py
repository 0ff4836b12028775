"""How far the stored numbers of an expansion may be from those of the model that they stand for.

The exact model is the user's estimator in real arithmetic on its own stored doubles. Readers fold
constants, length scales and linear layers into the numbers of one expansion, and folding rounds.
What it can have changed is kept here; `kernelite.series.rounding.folding` puts it into every
bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.rows.inputs import FloatArray

__all__ = ["Uncertainty"]


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Bounds on the errors of an expansion's numbers; real values are within them.

    Parameters
    ----------
    coefficients : ndarray of shape (k,)
        Of each output, the absolute errors of all A_i added up.
    intercept : ndarray of shape (k,)
        The absolute error of b.
    gamma : float
        The relative error of gamma, or of all squared distances.
    centers : float
        The relative error of each coordinate of the centers.

    Examples
    --------
    >>> one = Uncertainty(np.array([1e-16]), np.zeros(1), gamma=1e-16)
    >>> float((one + one).coefficients[0]), (one + one).gamma
    (2e-16, 2e-16)
    """

    coefficients: FloatArray
    intercept: FloatArray
    gamma: float = 0.0
    centers: float = 0.0

    def __post_init__(self) -> None:
        for name in ("coefficients", "intercept"):
            object.__setattr__(self, name, np.array(getattr(self, name), dtype=np.float64))
        if self.coefficients.ndim != 1 or self.coefficients.shape != self.intercept.shape:
            raise InputError("an uncertainty holds two numbers an output.")
        for name in ("coefficients", "intercept", "gamma", "centers"):
            if not np.all(np.asarray(getattr(self, name)) >= 0):  # infinite is sound
                raise InputError(f"`{name}` of an uncertainty must not be negative or NaN.")

    @classmethod
    def none(cls, n_outputs: int) -> Uncertainty:
        """Of numbers that are the model's own."""
        return cls(np.zeros(n_outputs), np.zeros(n_outputs))

    def __add__(self, other: Uncertainty) -> Uncertainty:
        """Of numbers that were rounded in both ways."""
        return Uncertainty(
            self.coefficients + other.coefficients,
            self.intercept + other.intercept,
            self.gamma + other.gamma,
            self.centers + other.centers,
        )

    def behind(self, weights: FloatArray) -> Uncertainty:
        """Of outputs W f, for W of shape (q, k)."""
        sizes = np.abs(weights)
        coefficients, intercept = sizes @ self.coefficients, sizes @ self.intercept
        return Uncertainty(coefficients, intercept, self.gamma, self.centers)

    def times(self, factors: FloatArray) -> Uncertainty:
        """Of outputs that are multiplied, each by its own of k factors."""
        sizes = np.abs(factors)
        coefficients, intercept = sizes * self.coefficients, sizes * self.intercept
        return Uncertainty(coefficients, intercept, self.gamma, self.centers)

    def of_outputs(self, outputs: NDArray[np.integer]) -> Uncertainty:
        """Of some outputs, in their order."""
        coefficients, intercept = self.coefficients[outputs], self.intercept[outputs]
        return Uncertainty(coefficients, intercept, self.gamma, self.centers)
