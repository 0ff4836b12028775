"""What every second-order series about a point has in common; u = z - p.

    f^(z) = E (c + v.u + q(u)) + b,    E = exp(-gamma |u|^2), or 1 for "poly2"

How the quadratic part q is held (a matrix, a truncated spectrum) is the subclasses' matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.rows.inputs import FloatArray

__all__ = ["CERTIFY", "GATHER", "LOAD", "LOOP", "PRODUCT", "ROW", "SeriesForm", "damp"]

# What forms cost per row, in nanoseconds of one core: measured on one with AVX-512. The planner
# compares candidates by these, so that their ratios matter most.
PRODUCT = 2 / 45  # a multiply-add inside a matrix product
LOOP = 1 / 15  # a multiply-add inside a fused kernel
LOAD = 1 / 5  # an entry of a row: read, shifted, transposed, squared
ROW = 12.0  # a row's exponential, its scores written and turned into an answer
CERTIFY = 8.0  # the bound of an output
GATHER = 120.0  # picking an open row out and putting its result back


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
    def cost(self) -> float:
        """Nanoseconds of one core per row, bounds aside."""
        raise NotImplementedError

    @property
    def terms(self) -> dict[str, FloatArray]:
        """The arrays that a score is summed from, times coordinates of the row."""
        return {"constant": self.constant, "linear": self.linear, "intercept": self.intercept}

    @property
    def rank(self) -> int | None:
        """Directions that the quadratic part is cut to; None where it is whole."""
        return None

    def evaluate(self, rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """The definition: f^ of each row, |u|^2, and |y|^2 of a truncated form.

        Parameters
        ----------
        rows : ndarray of shape (m, d)

        Returns
        -------
        scores : ndarray of shape (m, k)
        sq_norms, kept : ndarray of shape (m,)
        """
        with np.errstate(over="ignore", invalid="ignore"):
            U = rows - self.point
            sq_norms = np.einsum("ij,ij->i", U, U)
            g = U @ self.linear
            g += self.constant
            kept = self._add_quadratic(U, sq_norms, g)
        if self.kernel == "rbf":
            damp(g, sq_norms, self.gamma)
        g += self.intercept
        return g, sq_norms, kept

    def _add_quadratic(
        self, U: FloatArray, sq_norms: FloatArray, g: FloatArray
    ) -> FloatArray | None:
        """g += q(u); returns |y|^2 where q lives on fewer directions."""
        raise NotImplementedError

    def truncation_bound(self, sq_norms: FloatArray, kept: FloatArray | None) -> FloatArray | float:
        """What the directions left out may add, (m, k): nothing, unless a subclass says so."""
        return 0.0

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
        return sq_norms < self._farthest

    @cached_property
    def _farthest(self) -> float:
        """|u|^2 from which a row is outside the validity bound."""
        with np.errstate(all="ignore"):
            scale = np.float64(16.0) * self.max_sq_norm * self.gamma * self.gamma
            return float(np.inf if self.kernel == "poly2" else np.float64(1.0) / scale)


def damp(g: FloatArray, sq_norms: FloatArray, gamma: float) -> None:
    """g *= exp(-gamma |u|^2), in place; zero where the exponential is, even if g overflowed."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        E = np.exp(-gamma * sq_norms)
        g *= E[:, None]
    g[E == 0.0] = 0.0
