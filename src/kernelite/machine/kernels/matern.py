"""Matern kernels: exp(-r), (1 + a) exp(-a), (1 + a + a^2 / 3) exp(-a), or any nu by SciPy's `kv`.

    a = sqrt(2 nu) r,    k = 2^(1 - nu) / Gamma(nu) a^nu K_nu(a)

|r k'(r)| is at most 0.37, 0.55 and 0.61 for nu = 1/2, 3/2 and 5/2, and below 2 / e in the limit;
|k'(r)| is at most 1, 0.64 and 0.63.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kernelite.errors import InputError, UnsupportedModelError
from kernelite.machine.kernels.radial import ScaledRadial
from kernelite.machine.ops import ops
from kernelite.rows.inputs import FloatArray

__all__ = ["Matern"]

CLOSED = (0.5, 1.5, 2.5)
NAMES = {0.5: "1/2", 1.5: "3/2", 2.5: "5/2"}
FAR = 1500.0  # exp(-FAR) is zero; products with infinity would not be


@dataclass(frozen=True)
class Matern(ScaledRadial):
    """A Matern kernel.

    Parameters
    ----------
    length_scale : tuple of float
    nu : float
        Smoothness. Other than 1/2, 3/2 and 5/2, values rest on `scipy.special.kv`, whose accuracy
        is assumed, not proven.

    Examples
    --------
    >>> Matern((2.0,), 1.5).values(np.zeros((1, 1)), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.4834]])
    """

    nu: float = 1.5
    vanishes = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.nu) and self.nu > 0):
            raise InputError(f"`nu` of a Matern kernel must be positive, got {self.nu!r}.")

    @property
    def proven(self) -> bool:  # type: ignore[override]
        """Only where there is a closed form."""
        return self.nu in CLOSED

    def profile(self, squares: FloatArray) -> FloatArray:
        xp = ops(squares)
        a = xp.minimum(xp.sqrt(squares) * math.sqrt(2.0 * self.nu), FAR)
        if self.nu == 0.5:
            return xp.exp(-a)
        if self.nu == 1.5:
            return (1.0 + a) * xp.exp(-a)
        if self.nu == 2.5:
            return (1.0 + a + a * a / 3.0) * xp.exp(-a)
        return self._by_bessel(a)

    def _by_bessel(self, a: FloatArray) -> FloatArray:
        from scipy.special import gammaln, kve

        if not isinstance(a, np.ndarray):
            raise UnsupportedModelError("its kernel rests on SciPy's Bessel functions")
        with np.errstate(all="ignore"):
            logs = (1.0 - self.nu) * math.log(2.0) - gammaln(self.nu) + self.nu * np.log(a) - a
            found = np.exp(logs) * kve(self.nu, a)
        return np.where(a == 0.0, 1.0, np.minimum(np.nan_to_num(found, posinf=1.0), 1.0))

    def sensitivity(self, r: FloatArray) -> float:
        return 0.75

    def slope(self, r: FloatArray) -> float:
        # Below 1/2 there is a cusp at zero, of infinite slope.
        return 1.0 if self.nu >= 0.5 else 1e12

    @property
    def label(self) -> str:
        return f"Matern {NAMES.get(self.nu, f'{self.nu:.6g}')}, {self.scales}"
