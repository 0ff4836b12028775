"""What every kernel states once: a definition, a size, how far doubles are off; and sums of them.

A kernel is a frozen dataclass whose fields are its parameters. With u = 2^-53 and p a point amid
the centers (the origin for kernels of x.z), a bound is made from the norms in a `Reach` alone:

    |x - z| <= |z - p| + R,    |z| <= |z - p| + |p|,    |x| <= R + |p|,    R = max_i |x_i - p|.

What is computed, by `values` or by a fused loop, takes differences x - z feature by feature (or
products x.z), so that a distance errs relatively by (d + 3) u, however near the two are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import reduce
from operator import add, mul
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kernelite.data.rows.inputs import FloatArray, Rows
from kernelite.machine.exactly import UNIT
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.records import dataclass

if TYPE_CHECKING:
    from kernelite.machine.kernels.products import PolynomialKernel

__all__ = [
    "POLY2",
    "RBF",
    "FunctionKernel",
    "Kernel",
    "ProductKernel",
    "Reach",
    "SumKernel",
    "check_positive",
    "powers",
    "units",
]

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


# Sums and products of kernels, as scikit-learn's kernel algebra builds them.
#
#     k = sum_p a_p prod_q k_pq
#
# A product whose factors have sizes S and errors E errs by prod (S + E) - prod S, and by its own
# roundings; a sum by what its terms err by, added up.


class _Several(Kernel):
    """What sums and products share."""

    kernels: tuple[Kernel, ...]

    @property
    def shifts(self) -> bool:  # type: ignore[override]
        """Whether all of them depend on x - z alone."""
        return all(kernel.shifts for kernel in self.kernels)

    @property
    def grows(self) -> bool:  # type: ignore[override]
        """Whether those of all of them do."""
        return all(kernel.grows for kernel in self.kernels)

    @property
    def proven(self) -> bool:  # type: ignore[override]
        """Whether all of them are."""
        return all(kernel.proven for kernel in self.kernels)

    @property
    def unproven(self) -> str:  # type: ignore[override]
        """Of the first part that is not proven."""
        return next((kernel.unproven for kernel in self.kernels if not kernel.proven), "")

    def check_centers(self, centers: Rows) -> None:
        for kernel in self.kernels:
            kernel.check_centers(centers)


@dataclass(frozen=True)
class ProductKernel(_Several):
    """A product of kernels.

    Parameters
    ----------
    kernels : tuple of Kernel
        Two at least.
    """

    kernels: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        if len(self.kernels) < 2:
            raise InputError("a product of kernels needs two at least.")

    @property
    def terms(self) -> tuple[tuple[float, tuple[Kernel, ...]], ...]:
        return ((1.0, self.kernels),)

    def values(self, rows: FloatArray, centers: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return reduce(mul, (kernel.values(rows, centers) for kernel in self.kernels))

    def diagonal(self, rows: FloatArray) -> FloatArray:
        return reduce(mul, (kernel.diagonal(rows) for kernel in self.kernels))

    def largest(self, reach: Reach) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            found = reduce(mul, (kernel.largest(reach) for kernel in self.kernels))
        return _known(found)

    def error(self, reach: Reach) -> FloatArray:
        size, off = reach.all(1.0), reach.all(0.0)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for kernel in self.kernels:
                own, error = kernel.largest(reach), kernel.error(reach)
                size, off = size * own, off * (own + error) + size * error
            found = 1.001 * off + units(len(self.kernels)) * (size + off)
        return _known(found)

    @property
    def label(self) -> str:
        return " x ".join(f"({kernel.label})" for kernel in self.kernels)


@dataclass(frozen=True)
class SumKernel(_Several):
    """A weighted sum of kernels.

    Parameters
    ----------
    amplitudes : tuple of float
        Of the kernels, none negative.
    kernels : tuple of Kernel
    rounded : float
        Relative roundings of each amplitude, in units of 2^-53.

    Examples
    --------
    >>> from kernelite.machine.kernels import Matern, PolynomialKernel
    >>> both = SumKernel((2.0, 0.5), (Matern((1.0,), 0.5), PolynomialKernel(1)))
    >>> both.values(np.array([[1.0]]), np.array([[1.0], [2.0]])).round(4)
    array([[2.5   , 1.7358]])
    """

    amplitudes: tuple[float, ...]
    kernels: tuple[Kernel, ...]
    rounded: float = 1.0

    def __post_init__(self) -> None:
        if not self.kernels or len(self.amplitudes) != len(self.kernels):
            raise InputError("a sum of kernels needs an amplitude for each of them.")
        if not all(math.isfinite(a) and a >= 0.0 for a in self.amplitudes):
            raise InputError("`amplitudes` of a sum of kernels must be finite, none negative.")
        if not self.rounded >= 0.0:
            raise InputError("`rounded` of a sum of kernels must not be negative.")

    @property
    def terms(self) -> tuple[tuple[float, tuple[Kernel, ...]], ...]:
        return tuple(
            (amplitude * own, factors)
            for amplitude, kernel in zip(self.amplitudes, self.kernels, strict=True)
            for own, factors in kernel.terms
        )

    def values(self, rows: FloatArray, centers: FloatArray) -> FloatArray:
        return self._added([kernel.values(rows, centers) for kernel in self.kernels])

    def diagonal(self, rows: FloatArray) -> FloatArray:
        return self._added([kernel.diagonal(rows) for kernel in self.kernels])

    def largest(self, reach: Reach) -> FloatArray:
        return self._added([kernel.largest(reach) for kernel in self.kernels], rising=True)

    def error(self, reach: Reach) -> FloatArray:
        off = self._added([kernel.error(reach) for kernel in self.kernels], rising=True)
        count = len(self.kernels) + 2.0 + self.rounded
        return 1.001 * off + units(count) * self.largest(reach)

    def _added(self, terms: list[FloatArray], *, rising: bool = False) -> FloatArray:
        """The weighted sum; `rising`: not below the real one, infinite where it is unknown."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            total = reduce(add, (a * term for a, term in zip(self.amplitudes, terms)))
            return _known(1.0001 * total) if rising else total

    @property
    def label(self) -> str:
        pairs = zip(self.amplitudes, self.kernels)
        terms = [k.label if a == 1.0 else f"{a:.6g} ({k.label})" for a, k in pairs]
        return " + ".join(terms)


def _known(bound: FloatArray) -> FloatArray:
    """Infinite where it is no number."""
    xp = ops(bound)
    return xp.where(xp.isnan(bound), np.inf, bound)


# Kernels that are Python functions: called as they are, and nothing is known of their values.


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """A function of two tables of rows, or of two rows.

    Parameters
    ----------
    function : callable
        f(Z, X) of shape (m, n), or f(z, x), a number.
    of_pairs : bool
        Whether it takes two rows.

    Examples
    --------
    >>> FunctionKernel(lambda Z, X: Z @ X.T).values(np.ones((1, 2)), np.eye(2))
    array([[1., 1.]])
    """

    function: Callable[[Any, Any], Any]
    of_pairs: bool = False
    shifts = False
    proven = False
    unproven = "is a Python function, of whose values nothing is known"

    @property
    def __unstorable__(self) -> str:
        return (
            "the kernel of this model is a Python function, and a .kernelite file holds no Python "
            "objects; joblib.dump(model, path) stores it, for readers who trust the file."
        )

    def values(self, rows: FloatArray, centers: FloatArray) -> FloatArray:
        if not isinstance(rows, np.ndarray):
            raise UnsupportedModelError("its kernel is a Python function")
        if self.of_pairs:
            found: Any = [[self.function(z, x) for x in centers] for z in rows]
        else:
            found = self.function(rows, centers)
            found = found.toarray() if hasattr(found, "toarray") else found
        values = np.asarray(found, dtype=np.float64)
        if values.shape != (len(rows), len(centers)):
            raise InputError(
                f"the kernel function answers an array of shape {values.shape} for {len(rows)} "
                f"rows and {len(centers)} support vectors; it must be one number for each pair."
            )
        return values

    def diagonal(self, rows: FloatArray) -> FloatArray:
        return np.array([self.values(row[None], row[None])[0, 0] for row in rows])

    def largest(self, reach: Reach) -> FloatArray:
        return np.full(len(reach.rows), np.inf)

    def error(self, reach: Reach) -> FloatArray:
        return np.full(len(reach.rows), np.inf)

    @property
    def label(self) -> str:
        return f"the function {getattr(self.function, '__name__', type(self.function).__name__)}"
