"""What every second-order series about a point has in common; u = z - p.

    f^(z) = E (c + v.u + q(u)) + b,    E = exp(-gamma |u|^2), or 1 for "poly2"

How the quadratic part q is held (a matrix, a truncated spectrum) is the subclasses' matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.rows.inputs import FloatArray

__all__ = ["SeriesForm"]


@dataclass(frozen=True, eq=False, kw_only=True)
class SeriesForm:
    """The parts that all forms share.

    Parameters
    ----------
    point : ndarray of shape (d,)
        p, the expansion point.
    constant : ndarray of shape (k,)
        c.
    linear : ndarray of shape (d, k)
        v, a column an output.
    intercept : ndarray of shape (k,)
        b.
    gamma : float
    max_sq_norm : float
        |s_max|^2, the largest squared distance of a center from p.
    kernel : {"rbf", "poly2"}
    """

    point: FloatArray
    constant: FloatArray
    linear: FloatArray
    intercept: FloatArray
    gamma: float
    max_sq_norm: float
    kernel: Literal["rbf", "poly2"] = "rbf"

    def __post_init__(self) -> None:
        d, k = len(self.point), len(self.constant)
        self._check_arrays(point=(d,), constant=(k,), linear=(d, k), intercept=(k,))
        if not (np.isfinite(self.gamma) and self.gamma > 0):
            raise InputError(f"`gamma` of a form must be positive, got {self.gamma!r}.")
        if not self.max_sq_norm >= 0:
            raise InputError(f"`max_sq_norm` must not be negative, got {self.max_sq_norm!r}.")

    def _check_arrays(self, **shapes: tuple[int, ...]) -> None:
        for name, shape in shapes.items():
            array: NDArray[Any] = getattr(self, name)
            if array.shape != shape:
                raise InputError(f"`{name}` of a form must have shape {shape}, got {array.shape}.")
            if not np.isfinite(array).all():
                raise InputError(f"`{name}` of a form contains NaN or infinity.")

    @property
    def n_features(self) -> int:
        """d."""
        return len(self.point)

    @property
    def n_outputs(self) -> int:
        """k."""
        return len(self.constant)

    @property
    def gamma_max(self) -> float:
        """The paper's bound on gamma after training: 1 / (4 |s_max|^2)."""
        return float(np.inf) if self.max_sq_norm == 0 else 0.25 / self.max_sq_norm

    def valid(self, sq_norms: FloatArray) -> NDArray[np.bool_]:
        """Rows for which every term of the series is within 3.05%: |s_max|^2 |u|^2 < 1/(16 g^2).

        Parameters
        ----------
        sq_norms : ndarray of shape (m,)
            |u|^2.
        """
        if self.kernel == "poly2":
            return np.ones(len(sq_norms), dtype=np.bool_)
        with np.errstate(over="ignore", invalid="ignore"):
            return sq_norms * (self.max_sq_norm * self.gamma * self.gamma) < 1.0 / 16.0
