"""Kernels of r = |(x - z) / l|, with one length scale or one per feature.

Let r be the real distance and k the profile. With sensitivity s >= |r k'(r)| and slope g >= |k'(r)|
on all distances that occur, a computed value errs by at most

    u ((d + 3) / 2 + 6) s  +  g |what rows and centers were moved by|  +  own u |k|.

Coordinates move where each feature has its own length scale, since x / l is rounded, and where rows
came through a map. Such a row moves by c u |z|, a center by c u |x|. Either |z - p| < 2 R, or
r >= |z - p| / 2, so that g |z - p| <= 2 s; together g (|z| + |x|) <= g (3 R + 2 |p|) + 2 s, far
rows included.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np

from kernelite.data.rows.inputs import FloatArray, Rows
from kernelite.machine.kernels.base import Kernel, Reach, check_positive, units
from kernelite.machine.ops import elementwise, ops
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["FARTHEST", "Gaussian", "Radial", "Rbf", "ScaledRadial"]

FARTHEST = 1e145  # of a distance whose square is surely no overflow
LOST_DISTANCE = 1e-150  # of a distance whose square underflows
VANISHED = 1e4  # of a scaled distance at which exponentials are zero


class Radial(Kernel):
    """A function of the distance; subclasses say how it is scaled and what is made of it."""

    statistic = "squares"
    bounded: ClassVar[bool] = True
    """Whether |k| <= 1, so that no value errs by more."""
    vanishes: ClassVar[bool] = False
    """Whether k is zero in doubles from a distance of `VANISHED` on."""
    own: ClassVar[float] = 24.0
    """Roundings of the profile itself, relative to the largest value."""
    isotropic: bool = True
    """Whether all features have the same scale: then the distance is scaled, not the rows."""
    most_sensitive: ClassVar[float]
    steepest: ClassVar[float]

    @abstractmethod
    def profile(self, squares: FloatArray) -> FloatArray:
        """k from scaled r^2 of any shape, up to infinity, in the operations of `machine.ops`."""

    def sensitivity(self, r: FloatArray) -> FloatArray | float:
        """At least |r k'(r)| for all distances up to r."""
        return self.most_sensitive

    def slope(self, r: FloatArray) -> FloatArray | float:
        """At least |k'(r)| for all distances up to r."""
        return self.steepest

    @property
    @abstractmethod
    def scale(self) -> float:
        """What distances are multiplied with at most: one over the least length scale."""

    @abstractmethod
    def scaled(self, rows: FloatArray) -> FloatArray:
        """Rows (m, d) in scaled coordinates, each rounded once."""

    def taken(self, rows: FloatArray) -> FloatArray:
        """Rows (m, d) as compiled loops take them: scaled where features have their own scales."""
        return rows if self.isotropic else self.scaled(rows)

    def values(self, rows: FloatArray, centers: FloatArray) -> FloatArray:
        xp, scale = ops(rows), self.scale
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            if self.isotropic:
                squares = xp.squared_distances(rows, centers)
                return elementwise(lambda s: self.profile(s * scale * scale), squares)
            squares = xp.squared_distances(self.scaled(rows), self.scaled(centers))
            return elementwise(self.profile, squares)

    def diagonal(self, rows: FloatArray) -> FloatArray:
        return self.profile(ops(rows).full((rows.shape[0],), 0.0))

    def largest(self, reach: Reach) -> FloatArray:
        return reach.all(1.0)

    def error(self, reach: Reach) -> FloatArray:
        xp = ops(reach.rows)
        with np.errstate(over="ignore", invalid="ignore"):
            lost = LOST_DISTANCE * max(1.0, self.scale)
            r = reach.distances * (self.scale * (1.0 + 1e-9)) + lost
            s, g = self.sensitivity(r), self.slope(r)
            moves = reach.moves + (0.0 if self.isotropic else 1.0)
            length = (reach.n_features + 3.0) / 2.0 + 6.0 + reach.relative
            found = units(length) * s + units(self.own) * self.largest(reach) + lost * g
            if moves:
                moved = self.scale * (3.0 * reach.radius + 2.0 * reach.offset)
                found = found + units(moves) * (g * moved + 2.0 * s)
            if reach.moved:
                found = found + 1.01 * reach.moved * self.scale * g
            far = FARTHEST * min(1.0, self.scale)  # squares are taken before or after scaling
            if not self.bounded:
                return xp.where(r < far, found, np.inf)
            # Of a row that is so far away, k is zero, and is computed as zero, if it vanishes.
            zero = self.vanishes and far > VANISHED and reach.radius * self.scale < 0.1 * far
            unknown = xp.isnan(found) | (xp.isnan(r) if zero else ~(r < far))
            return xp.where(unknown, 1.0 + 1e-9, xp.minimum(found, 1.0 + 1e-9))


@dataclass(frozen=True)
class ScaledRadial(Radial):
    """Divides by length scales, as scikit-learn does.

    Parameters
    ----------
    length_scale : tuple of float
        One for all features, or one for each.
    """

    length_scale: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if not self.length_scale:
            raise InputError("`length_scale` of a kernel needs a number at least.")
        for value in self.length_scale:
            if not value > 0:  # infinite is sound: such a feature does not count
                raise InputError(f"`length_scale` of a kernel must be positive, got {value!r}.")
        if not math.isfinite(1.0 / min(self.length_scale)):
            raise InputError("`length_scale` of a kernel is too small for doubles.")

    @property
    def scale(self) -> float:
        # Of an infinite length scale not zero, by which nobody could divide, but next to it.
        return max(1.0 / min(self.length_scale), 5e-324)

    @property
    def isotropic(self) -> bool:  # type: ignore[override]
        return len(self.length_scale) == 1

    def check_centers(self, centers: Rows) -> None:
        self._check_width(centers.shape[1])

    def _check_width(self, n_features: int) -> None:
        if not self.isotropic and len(self.length_scale) != n_features:
            raise InputError(
                f"a kernel with {len(self.length_scale)} length scales does not fit rows of "
                f"{n_features} features."
            )

    def scaled(self, rows: FloatArray) -> FloatArray:
        known = isinstance(rows, np.ndarray)  # other targets show no width
        if known:
            self._check_width(rows.shape[1])
        with np.errstate(over="ignore"):
            return rows / np.array(self.length_scale, dtype=rows.dtype if known else None)

    @property
    def scales(self) -> str:
        """The length scales in a few words."""
        if self.isotropic:
            return f"length scale {self.length_scale[0]:.6g}"
        low, high = min(self.length_scale), max(self.length_scale)
        return f"length scales {low:.6g} to {high:.6g}"


@dataclass(frozen=True)
class Rbf(ScaledRadial):
    """exp(-r^2 / 2): the RBF kernel as a part of sums and products.

    Examples
    --------
    >>> Rbf((1.0,)).values(np.zeros((1, 1)), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.1353]])
    """

    vanishes = True
    most_sensitive, steepest = 0.7358, 0.6066  # 2 / e and exp(-1 / 2)

    def profile(self, squares: FloatArray) -> FloatArray:
        return ops(squares).exp(squares * -0.5)

    @property
    def label(self) -> str:
        return f"RBF, {self.scales}"


@dataclass(frozen=True)
class Gaussian(Radial):
    """exp(-gamma |x - z|^2): the RBF kernel of machines, which has the paper's form.

    Parameters
    ----------
    gamma : float

    Examples
    --------
    >>> Gaussian(0.5).values(np.zeros((1, 1)), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.1353]])
    """

    gamma: float
    coef0: ClassVar[float] = 0.0
    damps = True
    peaks = True
    vanishes = True
    most_sensitive, steepest = 0.7358, 0.8578  # 2 / e and sqrt(2 / e)

    def __post_init__(self) -> None:
        check_positive(gamma=self.gamma)

    @property
    def scale(self) -> float:
        return math.sqrt(self.gamma)

    def scaled(self, rows: FloatArray) -> FloatArray:
        return rows * self.scale

    def profile(self, squares: FloatArray) -> FloatArray:
        return ops(squares).exp(-squares)

    def exponents(self, squares: FloatArray) -> FloatArray:
        return -self.gamma * squares

    @property
    def label(self) -> str:
        return f"gamma {self.gamma:.6g}"
