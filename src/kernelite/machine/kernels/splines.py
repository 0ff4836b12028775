"""Polyharmonic splines, which grow with the distance: r^2 log r, -r, r^3, -r^5.

Of r^q, |r k'| = q r^q and |k'| = q r^(q-1). Of the thin plate spline, |r k'| <= r^2 (2 |log r| + 1)
and |k'| <= r (2 |log r| + 1), with humps of at most 0.4 and 0.8 where r < 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelite.errors import InputError
from kernelite.machine.kernels.base import Reach
from kernelite.machine.kernels.rational import Shaped
from kernelite.machine.ops import ops
from kernelite.rows.inputs import FloatArray

__all__ = ["PowerSpline", "ThinPlateSpline"]

SIGNS = {1: -1.0, 3: 1.0, 5: -1.0}
NAMES = {1: "linear", 3: "cubic", 5: "quintic"}


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
        return np.asarray(self.power * r**self.power)

    def slope(self, r: FloatArray) -> FloatArray:
        return np.asarray(self.power * r ** (self.power - 1))

    def largest(self, reach: Reach) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.asarray((1.0001 * self.epsilon * reach.distances) ** self.power)

    @property
    def label(self) -> str:
        return f"{NAMES[self.power]} spline, epsilon {self.epsilon:.6g}"


def _logs(r: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(r > 0.0, np.abs(np.log(r)), 0.0)
