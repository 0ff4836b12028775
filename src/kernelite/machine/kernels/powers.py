"""Kernels by powers of a distance: RationalQuadratic, (inverse) multiquadrics and splines."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.kernels.base import Reach, check_positive
from kernelite.machine.kernels.radial import FARTHEST, Radial, ScaledRadial
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = [
    "Bump",
    "InverseMultiquadric",
    "InverseQuadratic",
    "Multiquadric",
    "PowerSpline",
    "RationalQuadratic",
    "ThinPlateSpline",
    "log_volume",
]

# Kernels that decay by a power: RationalQuadratic, and SciPy's (inverse) multiquadrics.
#
# RationalQuadratic: with v = r^2 / (2 alpha), k = (1 + v)^-alpha and |r k'(r)| = 2 alpha v (1 + v)^
# -(alpha + 1), at most min(2, 2 alpha); |k'(r)| = r (1 + v)^-(alpha + 1) <= 1. It is computed as
# exp(-alpha log1p(v)), whose exponent x errs by a few u x, and x exp(-x) < 1.


@dataclass(frozen=True)
class RationalQuadratic(ScaledRadial):
    """(1 + r^2 / (2 alpha))^-alpha.

    Parameters
    ----------
    length_scale : tuple of float
    alpha : float

    Examples
    --------
    >>> RationalQuadratic((1.0,), 1.0).values(np.zeros((1, 1)), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.3333]])
    """

    alpha: float = 1.0
    own = 40.0
    numbers = ("alpha",)
    steepest = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(alpha=self.alpha)

    def profile(self, squares: FloatArray) -> FloatArray:
        xp = ops(squares)
        return xp.exp(xp.function("log1p", squares / (2.0 * self.alpha)) * -self.alpha)

    def sensitivity(self, r: FloatArray) -> float:
        return min(2.0, 2.0 * self.alpha)

    def error(self, reach: Reach) -> FloatArray:
        # Of a small alpha, r^2 / (2 alpha) overflows before r^2 does, while k may still be near 1.
        farthest = FARTHEST * math.sqrt(min(1.0, 2.0 * self.alpha)) / self.scale
        xp = ops(reach.rows)
        return xp.where(reach.distances < farthest, super().error(reach), 1.0 + 1e-9)

    @property
    def label(self) -> str:
        return f"RationalQuadratic, alpha {self.alpha:.6g}, {self.scales}"


@dataclass(frozen=True)
class Shaped(Radial):
    """A function of epsilon |x - z|, as SciPy's interpolator has them.

    Parameters
    ----------
    epsilon : float
    """

    epsilon: float = 1.0

    def __post_init__(self) -> None:
        check_positive(epsilon=self.epsilon)

    @property
    def scale(self) -> float:
        return self.epsilon

    def scaled(self, rows: FloatArray) -> FloatArray:
        return rows * self.epsilon

    @property
    def label(self) -> str:
        words = "".join(c if c.islower() else f" {c.lower()}" for c in type(self).__name__)
        return f"{words.strip()}, epsilon {self.epsilon:.6g}"


@dataclass(frozen=True)
class Multiquadric(Shaped):
    """-sqrt(1 + r^2).

    Examples
    --------
    >>> Multiquadric(1.0).values(np.zeros((1, 1)), np.array([[0.0]]))
    array([[-1.]])
    """

    bounded = False
    steepest = 1.0

    def profile(self, squares: FloatArray) -> FloatArray:
        return -ops(squares).sqrt(squares + 1.0)

    def sensitivity(self, r: FloatArray) -> FloatArray:
        return r

    def largest(self, reach: Reach) -> FloatArray:
        return 1.0 + 1.0001 * self.epsilon * reach.distances


@dataclass(frozen=True)
class InverseMultiquadric(Shaped):
    """1 / sqrt(1 + r^2).

    Examples
    --------
    >>> InverseMultiquadric(1.0).values(np.zeros((1, 1)), np.array([[0.0]]))
    array([[1.]])
    """

    most_sensitive, steepest = 0.39, 0.39

    def profile(self, squares: FloatArray) -> FloatArray:
        return 1.0 / ops(squares).sqrt(squares + 1.0)


@dataclass(frozen=True)
class InverseQuadratic(Shaped):
    """1 / (1 + r^2).

    Examples
    --------
    >>> InverseQuadratic(1.0).values(np.zeros((1, 1)), np.array([[1.0]]))
    array([[0.5]])
    """

    most_sensitive, steepest = 0.5, 0.65

    def profile(self, squares: FloatArray) -> FloatArray:
        return 1.0 / (squares + 1.0)


# Polyharmonic splines, which grow with the distance: r^2 log r, -r, r^3, -r^5.
#
# Of r^q, |r k'| = q r^q and |k'| = q r^(q-1). Of the thin plate spline, |r k'| <= r^2 (2 |log r| +
# 1) and |k'| <= r (2 |log r| + 1), with humps of at most 0.4 and 0.8 where r < 1.


SIGNS = {1: -1.0, 3: 1.0, 5: -1.0}
SPLINE_NAMES = {1: "linear", 3: "cubic", 5: "quintic"}


@dataclass(frozen=True)
class ThinPlateSpline(Shaped):
    """r^2 log r; zero at zero.

    Examples
    --------
    >>> ThinPlateSpline(1.0).values(np.zeros((1, 1)), np.array([[0.0], [2.0]])).round(4)
    array([[0.    , 2.7726]])
    """

    bounded = False

    def profile(self, squares: FloatArray) -> FloatArray:
        xp = ops(squares)
        return squares * (xp.log(xp.where(squares > 0.0, squares, 1.0)) * 0.5)

    def sensitivity(self, r: FloatArray) -> FloatArray:
        return r * r * (2.0 * _logs(r) + 1.0) + 0.4

    def slope(self, r: FloatArray) -> FloatArray:
        return r * (2.0 * _logs(r) + 1.0) + 0.8

    def largest(self, reach: Reach) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            r = 1.0001 * self.epsilon * reach.distances
            return r * r * _logs(r) + 0.2


@dataclass(frozen=True)
class PowerSpline(Shaped):
    """-r, r^3 or -r^5.

    Parameters
    ----------
    epsilon : float
    power : {1, 3, 5}

    Examples
    --------
    >>> PowerSpline(1.0, 3).values(np.zeros((1, 1)), np.array([[2.0]]))
    array([[8.]])
    """

    power: int = 1
    bounded = False
    variants: ClassVar = {"power": tuple(SIGNS)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.power not in SIGNS:
            raise InputError(f"`power` of a spline must be 1, 3 or 5, got {self.power!r}.")

    def profile(self, squares: FloatArray) -> FloatArray:
        r = ops(squares).sqrt(squares)
        for _ in range(self.power // 2):
            r = r * squares
        return r * SIGNS[self.power]

    def sensitivity(self, r: FloatArray) -> FloatArray:
        return self.power * r**self.power

    def slope(self, r: FloatArray) -> FloatArray:
        return self.power * r ** (self.power - 1)

    def largest(self, reach: Reach) -> FloatArray:
        with np.errstate(over="ignore"):
            return (1.0001 * self.epsilon * reach.distances) ** self.power

    @property
    def label(self) -> str:
        return f"{SPLINE_NAMES[self.power]} spline, epsilon {self.epsilon:.6g}"


def _logs(r: FloatArray) -> FloatArray:
    xp = ops(r)
    with np.errstate(divide="ignore", invalid="ignore"):
        return xp.where(r > 0.0, xp.abs(xp.log(r)), 0.0)


# The bumps of kernel density estimates: functions of r = |x - z| / h that are zero from r = 1 on.
#
#     tophat 1,    epanechnikov 1 - r^2,    linear 1 - r,    cosine cos(pi r / 2)
#
# The `exponential` one is a Matern kernel. A tophat jumps at r = 1, so that nothing is known of its
# value to the last digit there: its error counts as 1.


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

    slope = sensitivity

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
