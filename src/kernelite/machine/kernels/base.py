"""What every kernel states once: its definition in NumPy, its size, and how far doubles are off.

A kernel is a frozen dataclass whose fields are its parameters. With u = 2^-53 and p a point amid
the centers (the origin for kernels of x.z), a bound is made from the norms in a `Reach` alone:

    |x - z| <= |z - p| + R,    |z| <= |z - p| + |p|,    |x| <= R + |p|,    R = max_i |x_i - p|.

What is computed, by `values` or by a fused loop, takes differences x - z feature by feature (or
products x.z), so that a distance errs relatively by (d + 3) u, however near the two are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kernelite.data.rows.inputs import FloatArray, Rows
from kernelite.machine.exactly import UNIT
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

if TYPE_CHECKING:
    from kernelite.machine.kernels.products import PolynomialKernel

__all__ = ["POLY2", "RBF", "Kernel", "Reach", "check_positive", "powers", "units"]

# What files, and those who write `kernel=`, call the two kernels that have a series.
RBF, POLY2 = "rbf", "poly2"


@dataclass(frozen=True, eq=False)
class Reach:
    """How far rows and centers are from a point p, and what moved them.

    Parameters
    ----------
    rows : ndarray of shape (m,)
        |z - p|, rounded up.
    radius : float
        R, rounded up.
    offset : float
        |p|, rounded up.
    n_features : int
        d.
    relative : float
        Relative errors of a kernel's argument by folding, in units of 2^-53.
    moves : float
        Relative errors of each coordinate of rows or centers, in units of 2^-53.
    moved : float
        How far a row may be from where it should be, besides.
    """

    rows: FloatArray
    radius: float
    offset: float
    n_features: int
    relative: float = 0.0
    moves: float = 0.0
    moved: float = 0.0

    @property
    def distances(self) -> FloatArray:
        """No center is farther from a row than that, shape (m,)."""
        return self.rows + self.radius

    def all(self, value: float) -> FloatArray:
        """The same for all rows, shape (m,)."""
        return ops(self.rows).full_like(self.rows, value)


class Kernel(ABC):
    """k(x, z) for rows of numbers.

    Subclasses are frozen dataclasses, so that equal parameters make equal kernels.
    """

    shifts: ClassVar[bool] = True
    """Whether k depends on x - z alone, so that p may be any point."""
    proven: ClassVar[bool] = True
    """Whether `error` rests on nothing that is only assumed."""
    unproven: ClassVar[str] = ""
    """Where it does: what is not proven, as the end of a sentence about the kernel."""
    statistic: ClassVar[str] = ""
    """What `profile` is a function of, if compiled loops can take it: "squares" of distances,
    "city" or "chi-squared" distances, or "products"; each times a scale. Empty: `values` is all
    there is."""
    numbers: ClassVar[tuple[str, ...]] = ()
    """The field, if any, that compiled loops of `profile` are given when they run."""
    variants: ClassVar[dict[str, tuple[Any, ...]]] = {}
    """Fields that are compiled into loops of `profile`, each with the values that are served."""
    damps: ClassVar[bool] = False
    """Whether k is exp(-gamma |x - z|^2), whose series is damped by exp(-gamma |u|^2)."""
    quadratic: ClassVar[bool] = False
    """Whether k is (gamma x.z + coef0)^2, which is its own series about the origin."""

    grows: ClassVar[bool] = True
    """Whether `largest` and `error` are nowhere smaller for rows that are farther away."""
    peaks: ClassVar[bool] = False
    """Whether k is a bump: never negative, 1 at no distance and less at any other."""
    unit_rows: ClassVar[bool] = False
    """Whether k looks at rows and centers after they were scaled to length one."""

    @abstractmethod
    def values(self, rows: FloatArray, centers: FloatArray) -> FloatArray:
        """k of all pairs: (m, d) and (n, d) to (m, n). The definition, over `machine.ops`."""

    def taken(self, rows: FloatArray) -> FloatArray:
        """Rows (m, d) as compiled loops of `profile` take them."""
        return rows

    @abstractmethod
    def diagonal(self, rows: FloatArray) -> FloatArray:
        """k(z, z), shape (m,)."""

    @abstractmethod
    def largest(self, reach: Reach) -> FloatArray:
        """No |k| of a row with any center is above this, shape (m,); infinite if unknown.

        In the operations of `machine.ops`, like `error`: a target may bound its own values.
        """

    @abstractmethod
    def error(self, reach: Reach) -> FloatArray:
        """|computed k - k| of a row with any center is at most this, shape (m,)."""

    @property
    @abstractmethod
    def label(self) -> str:
        """A few words for people, with the parameters."""

    @property
    def has_series(self) -> bool:
        """Whether the kernel has the paper's form; then it has a `gamma` and a `coef0`."""
        return self.damps or self.quadratic

    @property
    def polynomial(self) -> PolynomialKernel | None:
        """The polynomial of x.z that k is, of scaled rows if `unit_rows`; None if it is none."""
        return None

    @property
    def terms(self) -> tuple[tuple[float, tuple[Kernel, ...]], ...]:
        """k as a sum of products: amplitudes and factors."""
        return ((1.0, (self,)),)

    @property
    def tag(self) -> str:
        """What files and `KernelExpansion` call it; of kernels without a series, the label."""
        return RBF if self.damps else POLY2 if self.quadratic else self.label

    def exponents(self, squares: FloatArray) -> FloatArray | None:
        """log k from |x - z|^2, where k underflows and its logarithm does not; else None."""
        return None

    def check_centers(self, centers: Rows) -> None:
        """Refuse centers that its parameters do not fit, or for which it is not defined."""
        return

    def __str__(self) -> str:
        return self.label


def check_positive(**values: float) -> None:
    """Refuse parameters that are not positive and finite numbers.

    Examples
    --------
    >>> check_positive(gamma=0.0)
    Traceback (most recent call last):
    kernelite.InputError: `gamma` of a kernel must be positive and finite, got 0.0.
    """
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"`{name}` of a kernel must be positive and finite, got {value!r}.")


def units(count: FloatArray | float) -> FloatArray | float:
    """So many roundings as a number, higher orders included."""
    return 1.01 * UNIT * count


def powers(base: FloatArray, exponent: int) -> FloatArray:
    """base^exponent by products; infinite where it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return base ** float(exponent)
