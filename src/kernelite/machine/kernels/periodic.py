"""ExpSineSquared: exp(-2 sin^2(pi |x - z| / p) / l^2), with one length scale and one period.

Its slope in the angle is at most (4 / l^2) |sin| exp(-2 sin^2 / l^2) <= 1.22 / l, and at most
2 / l^2. The angle of a far row is large, and errs in proportion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernelite.machine.kernels.base import check_positive
from kernelite.machine.kernels.radial import Radial
from kernelite.machine.ops import ops
from kernelite.rows.inputs import FloatArray

__all__ = ["ExpSineSquared"]


@dataclass(frozen=True)
class ExpSineSquared(Radial):
    """A periodic kernel.

    Parameters
    ----------
    length_scale, periodicity : float

    Examples
    --------
    >>> import numpy as np
    >>> ExpSineSquared(1.0, 2.0).values(np.zeros((1, 1)), np.array([[1.0], [2.0]])).round(4)
    array([[0.1353, 1.    ]])
    """

    length_scale: float = 1.0
    periodicity: float = 1.0

    def __post_init__(self) -> None:
        check_positive(length_scale=self.length_scale, periodicity=self.periodicity)

    @property
    def scale(self) -> float:
        return 1.0 / self.periodicity

    @property
    def isotropic(self) -> bool:
        return True

    @property
    def own(self) -> float:  # type: ignore[override]
        """The sine errs by an ulp of 1 at most."""
        return 32.0 + 8.0 / self.length_scale

    def scaled(self, rows: FloatArray) -> FloatArray:
        return rows / self.periodicity

    def profile(self, squares: FloatArray) -> FloatArray:
        xp = ops(squares)
        waves = xp.function("sin", xp.sqrt(squares) * math.pi) / self.length_scale
        found = xp.exp(waves * waves * -2.0)
        return xp.where(xp.isnan(found), 0.0, found)  # of an infinite angle: anything

    def sensitivity(self, r: FloatArray) -> FloatArray:
        return r * self.slope(r)

    def slope(self, r: FloatArray) -> float:
        # By division, which overflows to infinity: then nothing is known of a value.
        return math.pi * min(2.0 / self.length_scale / self.length_scale, 1.22 / self.length_scale)

    @property
    def label(self) -> str:
        return (
            f"ExpSineSquared, length scale {self.length_scale:.6g}, period {self.periodicity:.6g}"
        )
