"""The bumps of kernel density estimates: functions of r = |x - z| / h that are zero from r = 1 on.

    tophat 1,    epanechnikov 1 - r^2,    linear 1 - r,    cosine cos(pi r / 2)

The `exponential` one is a Matern kernel. A tophat jumps at r = 1, so that nothing is known of its
value to the last digit there: its error counts as 1.
"""

from __future__ import annotations

import math
from typing import Literal

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.kernels.radial import ScaledRadial
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["BUMPS", "Bump", "log_volume"]

# Name -> at least |r k'(r)|, which is at least |k'(r)| as well, up to r = 1.
BUMPS = {"tophat": math.inf, "epanechnikov": 2.0, "linear": 1.0, "cosine": 1.58}


@dataclass(frozen=True)
class Bump(ScaledRadial):
    """A bump of a kernel density estimate.

    Parameters
    ----------
    length_scale : tuple of float
        The bandwidth h.
    shape : {"tophat", "epanechnikov", "linear", "cosine"}

    Examples
    --------
    >>> import numpy as np
    >>> Bump((2.0,), "linear").values(np.zeros((1, 1)), np.array([[0.0], [1.0], [3.0]]))
    array([[1. , 0.5, 0. ]])
    """

    shape: Literal["tophat", "epanechnikov", "linear", "cosine"] = "tophat"
    peaks = True
    vanishes = True
    statistic = ""  # no loops are compiled

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shape not in BUMPS:
            raise InputError(f"`shape` must be one of {', '.join(BUMPS)}, got {self.shape!r}.")

    def profile(self, squares: FloatArray) -> FloatArray:
        xp = ops(squares)
        if self.shape == "tophat":
            return xp.where(squares < 1.0, 1.0, 0.0)
        left = 1.0 - xp.minimum(squares if self.shape == "epanechnikov" else xp.sqrt(squares), 1.0)
        return left if self.shape != "cosine" else xp.function("sin", left * (0.5 * math.pi))

    def sensitivity(self, r: FloatArray) -> float:
        return BUMPS[self.shape]

    def slope(self, r: FloatArray) -> float:
        return BUMPS[self.shape]

    @property
    def label(self) -> str:
        return f"{self.shape} bump, {self.scales}"


def log_volume(shape: str, d: int) -> float:
    """log of the integral of a bump of width 1 over d dimensions, as scikit-learn computes it.

    "exponential" is exp(-r). Of the cosine in most even dimensions it is no number there.

    Examples
    --------
    >>> round(math.exp(log_volume("tophat", 2)), 6), round(math.exp(log_volume("linear", 1)), 6)
    (3.141593, 1.0)
    """
    ball = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1.0)
    sphere = math.log(d) + ball  # the surface is the derivative of the volume
    if shape == "tophat":
        return ball
    if shape == "epanechnikov":
        return ball + math.log(2.0 / (d + 2.0))
    if shape == "linear":
        return ball - math.log(d + 1.0)
    if shape == "exponential":
        return sphere + math.lgamma(d)
    # By parts, twice each. In even dimensions scikit-learn leaves the last term out; so it is here.
    found, term = 0.0, 2.0 / math.pi
    for n in range(1, d + 1, 2):
        found += term
        term *= -(d - n) * (d - n - 1) * (2.0 / math.pi) ** 2
    return sphere + math.log(found) if found > 0 else math.nan
