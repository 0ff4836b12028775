"""How far the stored numbers of an expansion may be from those of the model that they stand for.

The exact model is the user's estimator in real arithmetic on its own stored doubles. Readers fold
constants, length scales and linear layers into the numbers of one expansion, and folding rounds.
What it can have changed is kept here; `kernelite.series.rounding.folding` puts it into every
bound.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

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
    rows : float
        How far a row may be from where it should be, by a projection or polynomial before.
    relative : float
        The same relative to the row's norm, beyond that of an affine map.

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
    rows: float = 0.0
    relative: float = 0.0

    def __post_init__(self) -> None:
        for name in ("coefficients", "intercept"):
            object.__setattr__(self, name, np.array(getattr(self, name), dtype=np.float64))
        if self.coefficients.ndim != 1 or self.coefficients.shape != self.intercept.shape:
            raise InputError("an uncertainty holds two numbers an output.")
        for name in ("coefficients", "intercept", "gamma", "centers", "rows", "relative"):
            if not np.all(np.asarray(getattr(self, name)) >= 0):  # infinite is sound
                raise InputError(f"`{name}` of an uncertainty must not be negative or NaN.")

    def __pack__(self) -> dict[str, Any]:
        """For files: what is said of rows only where there is something to say."""
        stored = {field.name: getattr(self, field.name) for field in fields(self)}
        return {k: v for k, v in stored.items() if k not in ("rows", "relative") or v}

    @classmethod
    def __unpack__(cls, stored: dict[str, Any]) -> Uncertainty:
        """Back from `__pack__`."""
        return cls(**stored)

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
            self.rows + other.rows,
            self.relative + other.relative,
        )

    def behind(self, weights: FloatArray) -> Uncertainty:
        """Of outputs W f, for W of shape (q, k)."""
        sizes = np.abs(weights)
        coefficients, intercept = sizes @ self.coefficients, sizes @ self.intercept
        return replace(self, coefficients=coefficients, intercept=intercept)

    def times(self, factors: FloatArray) -> Uncertainty:
        """Of outputs that are multiplied, each by its own of k factors."""
        sizes = np.abs(factors)
        coefficients, intercept = sizes * self.coefficients, sizes * self.intercept
        return replace(self, coefficients=coefficients, intercept=intercept)

    def of_outputs(self, outputs: NDArray[np.integer]) -> Uncertainty:
        """Of some outputs, in their order."""
        coefficients, intercept = self.coefficients[outputs], self.intercept[outputs]
        return replace(self, coefficients=coefficients, intercept=intercept)
