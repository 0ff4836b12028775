"""A polynomial beside an expansion, evaluated exactly: the tail of an RBF interpolant.

    P(z) = sum_t beta_t prod_j ((z_j - shift_j) / scale_j)^p_tj

A row's terms are products of at most their degree's factors, each of which errs by 2u, and there
are t of them: |computed P - P| <= u (4 degree + t + 8) sum_t |beta_t| |monomial_t|.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.exactly import UNIT
from kernelite.machine.ops import NUMPY, Arithmetic, ops
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["PolynomialTail"]


@dataclass(frozen=True, eq=False)
class PolynomialTail:
    """A polynomial of d variables with k outputs.

    Parameters
    ----------
    powers : ndarray of int, shape (t, d)
        The exponents of each monomial.
    coefficients : ndarray of shape (t, k)
    shift, scale : ndarray of shape (d,)

    Examples
    --------
    >>> line = PolynomialTail(np.array([[0], [1]]), np.array([[1.0], [2.0]]), [0.0], [1.0])
    >>> line.values(np.array([[3.0]]))[0]
    array([[7.]])
    """

    powers: NDArray[np.int64]
    coefficients: FloatArray
    shift: FloatArray
    scale: FloatArray

    def __post_init__(self) -> None:
        for name in ("coefficients", "shift", "scale"):
            array = np.array(getattr(self, name), dtype=np.float64)
            if not np.isfinite(array).all():
                raise InputError(f"`{name}` of a polynomial must be finite.")
            object.__setattr__(self, name, array)
        object.__setattr__(self, "powers", np.array(self.powers, dtype=np.int64))
        t, d = self.powers.shape if self.powers.ndim == 2 else (-1, -1)
        if self.coefficients.ndim != 2 or len(self.coefficients) != t:
            raise InputError("a polynomial needs a row of `coefficients` for each of `powers`.")
        if self.shift.shape != (d,) or self.scale.shape != (d,) or (self.scale == 0).any():
            raise InputError(f"`shift` and `scale` of a polynomial must hold {d} numbers.")
        if (self.powers < 0).any() or (self.powers > 100).any():
            raise InputError("`powers` of a polynomial must lie between 0 and 100.")

    @property
    def n_features(self) -> int:
        """d."""
        return len(self.shift)

    @property
    def n_outputs(self) -> int:
        """k."""
        return int(self.coefficients.shape[1])

    @property
    def units(self) -> int:
        """What P may be off by, in units of u times the sum of its terms' sizes."""
        return 4 * int(self.powers.sum(axis=1).max(initial=0)) + len(self.powers) + 8

    def values(
        self, rows: FloatArray, arithmetic: Arithmetic = NUMPY
    ) -> tuple[FloatArray, FloatArray]:
        """P of rows of shape (m, d), and bounds on its rounding: each of shape (m, k)."""
        xp, monomials = ops(rows), []
        with np.errstate(over="ignore", invalid="ignore"):
            z = (rows - self.shift) / self.scale
            for powers in self.powers:
                term = xp.full((rows.shape[0],), 1.0)
                for factor in np.repeat(np.arange(len(powers)), powers).tolist():
                    term = term * z[:, factor]
                monomials.append(term)
            terms = xp.stack(monomials, axis=1)
            sizes = xp.abs(terms) @ np.abs(self.coefficients)
        unit = arithmetic.worse * 1.05 * UNIT * self.units
        return terms @ self.coefficients, sizes * unit
