"""Chi-squared kernels, of rows without negative numbers (histograms).

    q = sum_l (x_l - z_l)^2 / (x_l + z_l),    k = -q    or    k = exp(-gamma q)

A feature that is zero in both adds nothing. A term errs relatively by 5 roundings and their sum by
d more, and t exp(-t) <= 1 / e. Since (x - z)^2 / (x + z) <= |x - z|, q is at most sqrt(d) |x - z|.
Its derivative by z_l, 1 - 4 x^2 / (x + z)^2, lies between -3 and 1.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from kernelite.data.rows.inputs import FloatArray, Rows
from kernelite.machine.kernels.base import Kernel, Reach, check_positive, units
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.records import dataclass

__all__ = ["AdditiveChiSquared", "ChiSquared"]

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
