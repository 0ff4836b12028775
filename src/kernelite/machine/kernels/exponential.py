"""Kernels that decay by an exponential: Matern, Laplacian, ExpSineSquared, chi-squared."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

import numpy as np

from kernelite.data.rows.inputs import FloatArray, Rows
from kernelite.machine.kernels.base import Kernel, Reach, check_positive, units
from kernelite.machine.kernels.radial import Radial, ScaledRadial
from kernelite.machine.ops import elementwise, ops
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.records import dataclass

__all__ = ["AdditiveChiSquared", "ChiSquared", "ExpSineSquared", "Laplacian", "Matern"]

# Matern kernels: exp(-r), (1 + a) exp(-a), (1 + a + a^2 / 3) exp(-a), or any nu by SciPy's `kv`.
#
#     a = sqrt(2 nu) r,    k = 2^(1 - nu) / Gamma(nu) a^nu K_nu(a)
#
# With nu = p + 1/2 that is exp(-a) times a polynomial of degree p, whose coefficients
# p! / (2p)! (2p - i)! / ((p - i)! i!) 2^i are positive: Horner's rule errs by 2p + 1 roundings.
#
# |r k'(r)| is at most 0.37, 0.55 and 0.61 for nu = 1/2, 3/2 and 5/2, and below 2 / e in the limit;
# |k'(r)| is at most 1, 0.64 and 0.63.


CLOSED = (0.5, 1.5, 2.5)  # which have loops and derivatives
HALVES = tuple(p + 0.5 for p in range(9))  # which are an exponential times a polynomial
MATERN_NAMES = {0.5: "1/2", 1.5: "3/2", 2.5: "5/2"}
ZERO_EXPONENT = 1500.0  # exp(-FAR) is zero; products with infinity would not be


@dataclass(frozen=True)
class Matern(ScaledRadial):
    """A Matern kernel.

    Parameters
    ----------
    length_scale : tuple of float
    nu : float
        Smoothness. Other than 1/2, 3/2, 5/2, ..., 17/2, values rest on `scipy.special.kv`, whose
        accuracy is assumed, not proven.

    Examples
    --------
    >>> Matern((2.0,), 1.5).values(np.zeros((1, 1)), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.4834]])
    """

    nu: float = 1.5
    peaks = True
    vanishes = True
    most_sensitive = 0.75
    variants: ClassVar = {"nu": CLOSED}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.nu) and self.nu > 0):
            raise InputError(f"`nu` of a Matern kernel must be positive, got {self.nu!r}.")

    @property
    def proven(self) -> bool:  # type: ignore[override]
        """Only where there is a closed form."""
        return self.nu in HALVES

    unproven = "rests on SciPy's Bessel functions, whose accuracy is not proven"

    def profile(self, squares: FloatArray) -> FloatArray:
        xp = ops(squares)
        a = xp.minimum(xp.sqrt(squares) * math.sqrt(2.0 * self.nu), ZERO_EXPONENT)
        if self.nu == 0.5:
            return xp.exp(-a)
        if self.nu == 1.5:
            return (1.0 + a) * xp.exp(-a)
        if self.nu == 2.5:
            return (1.0 + a + a * a / 3.0) * xp.exp(-a)
        if self.nu in HALVES:
            found = None
            for coefficient in reversed(_polynomial(self.nu)):
                found = a * 0.0 + coefficient if found is None else found * a + coefficient
            return found * xp.exp(-a)
        return self._by_bessel(a)

    def exponents(self, squares: FloatArray) -> FloatArray | None:
        if self.nu != 0.5 or not self.isotropic:
            return None
        return -ops(squares).sqrt(squares) * self.scale

    def _by_bessel(self, a: FloatArray) -> FloatArray:
        from scipy.special import gammaln, kve

        if not isinstance(a, np.ndarray):
            raise UnsupportedModelError("its kernel rests on SciPy's Bessel functions")
        with np.errstate(all="ignore"):
            logs = (1.0 - self.nu) * math.log(2.0) - gammaln(self.nu) + self.nu * np.log(a) - a
            found = np.exp(logs) * kve(self.nu, a)
        return np.where(a == 0.0, 1.0, np.minimum(np.nan_to_num(found, posinf=1.0), 1.0))

    def slope(self, r: FloatArray) -> float:
        # Below 1/2 there is a cusp at zero, of infinite slope.
        return 1.0 if self.nu >= 0.5 else 1e12

    @property
    def label(self) -> str:
        return f"Matern {MATERN_NAMES.get(self.nu, f'{self.nu:.6g}')}, {self.scales}"


def _polynomial(nu: float) -> list[float]:
    """Coefficients of 1, a, a^2, ..., each rounded once.

    Examples
    --------
    >>> _polynomial(1.5), _polynomial(2.5)
    ([1.0, 1.0], [1.0, 1.0, 0.3333333333333333])
    """
    p, f = round(nu - 0.5), math.factorial
    return [
        float(Fraction(f(p) * f(2 * p - i) * 2**i, f(2 * p) * f(p - i) * f(i)))
        for i in range(p + 1)
    ]


# The Laplacian kernel exp(-gamma |x - z|_1), with a kink at zero in every feature.
#
# By differences, |x - z|_1 errs relatively by (d + 2) u, and t exp(-t) <= 1 / e: near rows and
# centers are as exact as far ones. Where coordinates move by c u, the distance moves by at most
# c u sqrt(d) (|z| + |x|).


FARTHEST_SUM = 1e290  # of a distance whose sum is surely no overflow


@dataclass(frozen=True)
class Laplacian(Kernel):
    """exp(-gamma |x - z|_1).

    Parameters
    ----------
    gamma : float

    Examples
    --------
    >>> Laplacian(1.0).values(np.zeros((1, 2)), np.array([[1.0, -1.0]])).round(4)
    array([[0.1353]])
    """

    gamma: float
    statistic = "city"

    def __post_init__(self) -> None:
        check_positive(gamma=self.gamma)

    @property
    def scale(self) -> float:
        """What distances are multiplied with."""
        return self.gamma

    def profile(self, distances: FloatArray) -> FloatArray:
        """k from scaled distances, in the operations of `machine.ops`."""
        return ops(distances).exp(-distances)

    def values(self, rows: FloatArray, centers: FloatArray) -> FloatArray:
        xp = ops(rows)
        with np.errstate(over="ignore", under="ignore"):
            distances = xp.city_distances(rows, centers)
            return elementwise(lambda r: self.profile(r * self.gamma), distances)

    def diagonal(self, rows: FloatArray) -> FloatArray:
        return ops(rows).full((rows.shape[0],), 1.0)

    def largest(self, reach: Reach) -> FloatArray:
        return reach.all(1.0)

    def error(self, reach: Reach) -> FloatArray:
        length = reach.n_features + 8.0 + reach.relative
        found = units(length) * 0.37 + units(16.0)
        if reach.moves:
            root = math.sqrt(reach.n_features)
            moved = self.gamma * (3.0 * reach.radius + 2.0 * reach.offset) + 0.74
            found += units(reach.moves) * root * moved
        if reach.moved:
            found += 1.01 * reach.moved * math.sqrt(reach.n_features) * self.gamma
        near, most = reach.distances < FARTHEST_SUM, 1.0 + 1e-9
        return ops(reach.rows).where(near, min(found, most), most)

    @property
    def label(self) -> str:
        return f"Laplacian, gamma {self.gamma:.6g}"


# ExpSineSquared: exp(-2 sin^2(pi |x - z| / p) / l^2), with one length scale and one period.
#
# Its slope in the angle is at most (4 / l^2) |sin| exp(-2 sin^2 / l^2) <= 1.22 / l, and at most
# 2 / l^2. The angle of a far row is large, and errs in proportion.


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
    numbers = ("length_scale",)

    def __post_init__(self) -> None:
        check_positive(length_scale=self.length_scale, periodicity=self.periodicity)

    @property
    def scale(self) -> float:
        return 1.0 / self.periodicity

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


# Chi-squared kernels, of rows without negative numbers (histograms).
#
#     q = sum_l (x_l - z_l)^2 / (x_l + z_l),    k = -q    or    k = exp(-gamma q)
#
# A feature that is zero in both adds nothing. A term errs relatively by 5 roundings and their sum
# by d more, and t exp(-t) <= 1 / e. Since (x - z)^2 / (x + z) <= |x - z|, q is at most
# sqrt(d) |x - z|. Its derivative by z_l, 1 - 4 x^2 / (x + z)^2, lies between -3 and 1.


LARGEST_ENTRY = 1e150  # of rows whose squares are surely no overflow
LOST_TERM = 1e-300  # of a term whose square underflows


def refuse_negative(rows: FloatArray) -> None:
    """Raise InputError where a row has a negative number."""
    if (rows < 0).any():
        raise InputError("`X` has negative numbers, which a chi-squared kernel does not take.")


def statistics(rows: FloatArray, centers: FloatArray) -> FloatArray:
    """q of all pairs: (m, d) and (n, d) to (m, n), feature by feature."""
    if not isinstance(rows, np.ndarray):
        raise UnsupportedModelError("its kernel is chi-squared")
    refuse_negative(rows)
    found = np.zeros((len(rows), len(centers)))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for z, x in zip(rows.T, centers.T):
            sums, gaps = np.add.outer(z, x), np.subtract.outer(z, x)
            found += gaps * (gaps / np.where(sums > 0, sums, 1.0))
    return found


class _OfStatistics(Kernel):
    """What both have in common."""

    shifts = False
    statistic = "chi-squared"

    def check_centers(self, centers: Rows) -> None:
        if centers.shape[0] and centers.min() < 0:
            raise InputError(
                "`centers` have negative numbers, which a chi-squared kernel does not take."
            )

    def taken(self, rows: FloatArray) -> FloatArray:
        """Rows as compiled loops take them."""
        refuse_negative(rows)
        return rows

    def size(self, reach: Reach) -> FloatArray:
        """No q of a row is larger, shape (m,): |x - z|_1 is at most sqrt(d) (|x| + |z|)."""
        with np.errstate(over="ignore"):
            found = 1.01 * math.sqrt(reach.n_features) * reach.distances + LOST_TERM
        return np.where(found < LARGEST_ENTRY, found, np.inf)

    def units(self, reach: Reach) -> float:
        """Roundings of q, relative to it."""
        return reach.n_features + 8.0 + reach.relative

    def moved(self, reach: Reach) -> FloatArray:
        """How far q moves with rows and centers: no derivative is above 3."""
        root = 3.0 * math.sqrt(reach.n_features)
        far = units(reach.moves) * (reach.rows + reach.radius) + 1.01 * reach.moved
        return np.asarray(root * far + reach.n_features * LOST_TERM)


@dataclass(frozen=True)
class ChiSquared(_OfStatistics):
    """exp(-gamma q), scikit-learn's `chi2`.

    Parameters
    ----------
    gamma : float

    Examples
    --------
    >>> ChiSquared(1.0).values(np.array([[1.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0]])).round(4)
    array([[0.3679, 1.    ]])
    """

    gamma: float

    def __post_init__(self) -> None:
        check_positive(gamma=self.gamma)

    @property
    def scale(self) -> float:
        """What q is multiplied with."""
        return self.gamma

    def profile(self, q: FloatArray) -> FloatArray:
        """k from scaled q, in the operations of `machine.ops`."""
        return ops(q).exp(-q)

    def values(self, rows: FloatArray, centers: FloatArray) -> FloatArray:
        with np.errstate(under="ignore", over="ignore"):
            return self.profile(self.gamma * statistics(rows, centers))

    def diagonal(self, rows: FloatArray) -> FloatArray:
        return np.ones(len(rows))

    def largest(self, reach: Reach) -> FloatArray:
        return np.ones(len(reach.rows))

    def error(self, reach: Reach) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            found = units(self.units(reach)) * 0.37 + units(16.0) + self.gamma * self.moved(reach)
            known = np.isfinite(self.size(reach)) & (found < 1.0)
        return np.where(known, found, 1.0 + 1e-9)

    @property
    def label(self) -> str:
        return f"chi-squared, gamma {self.gamma:.6g}"


@dataclass(frozen=True)
class AdditiveChiSquared(_OfStatistics):
    """-q, scikit-learn's `additive_chi2`.

    Examples
    --------
    >>> AdditiveChiSquared().values(np.array([[1.0, 3.0]]), np.array([[0.0, 1.0]]))
    array([[-2.]])
    """

    scale: ClassVar[float] = 1.0

    def profile(self, q: FloatArray) -> FloatArray:
        """k from q, in the operations of `machine.ops`."""
        return -q

    def values(self, rows: FloatArray, centers: FloatArray) -> FloatArray:
        return self.profile(statistics(rows, centers))

    def diagonal(self, rows: FloatArray) -> FloatArray:
        return np.zeros(len(rows))

    def largest(self, reach: Reach) -> FloatArray:
        return self.size(reach)

    def error(self, reach: Reach) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(units(self.units(reach)) * self.size(reach) + self.moved(reach))

    @property
    def label(self) -> str:
        return "additive chi-squared"
