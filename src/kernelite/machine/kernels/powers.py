"""Kernels by powers of a distance: RationalQuadratic, (inverse) multiquadrics and splines."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.kernels.base import Reach, check_positive
from kernelite.machine.kernels.radial import FARTHEST, Radial, ScaledRadial
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = [
    "InverseMultiquadric",
    "InverseQuadratic",
    "Multiquadric",
    "PowerSpline",
    "RationalQuadratic",
    "Shaped",
    "ThinPlateSpline",
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

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(alpha=self.alpha)

    def profile(self, squares: FloatArray) -> FloatArray:
        xp = ops(squares)
        return xp.exp(xp.function("log1p", squares / (2.0 * self.alpha)) * -self.alpha)

    def sensitivity(self, r: FloatArray) -> float:
        return min(2.0, 2.0 * self.alpha)

    def slope(self, r: FloatArray) -> float:
        return 1.0

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

    @property
    def isotropic(self) -> bool:
        return True

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

    def profile(self, squares: FloatArray) -> FloatArray:
        return -ops(squares).sqrt(squares + 1.0)

    def sensitivity(self, r: FloatArray) -> FloatArray:
        return r

    def slope(self, r: FloatArray) -> float:
        return 1.0

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

    def profile(self, squares: FloatArray) -> FloatArray:
        return 1.0 / ops(squares).sqrt(squares + 1.0)

    def sensitivity(self, r: FloatArray) -> float:
        return 0.39

    def slope(self, r: FloatArray) -> float:
        return 0.39


@dataclass(frozen=True)
class InverseQuadratic(Shaped):
    """1 / (1 + r^2).

    Examples
    --------
    >>> InverseQuadratic(1.0).values(np.zeros((1, 1)), np.array([[1.0]]))
    array([[0.5]])
    """

    def profile(self, squares: FloatArray) -> FloatArray:
        return 1.0 / (squares + 1.0)

    def sensitivity(self, r: FloatArray) -> float:
        return 0.5

    def slope(self, r: FloatArray) -> float:
        return 0.65


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
