"""Kernels of x.z: polynomials of any degree (linear ones among them), sigmoid and cosine.

With B = gamma |x| |z| + |coef0|, the argument gamma x.z + coef0 errs by at most u (d + 6) B, and a
polynomial of degree p by u p (d + 8) B^p; tanh has slope 1 at most.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.exactly import NORM_LOSS
from kernelite.machine.kernels.base import Kernel, Reach, check_positive, powers, units
from kernelite.machine.ops import elementwise, ops
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["CosineKernel", "PolynomialKernel", "SigmoidKernel"]

OVERFLOWS = 1e290  # of a sum whose terms may have overflowed
MOST_DEGREE = 100
LEAST_MAPPED = 1e-140  # length of a mapped row, below which its entries may have lost digits


class _OfProducts(Kernel):
    """gamma x.z + coef0, and how large it can be."""

    shifts = False
    statistic = "products"
    gamma: float
    coef0: float

    def _check(self) -> None:
        check_positive(gamma=self.gamma)
        if not math.isfinite(self.coef0):
            raise InputError(f"`coef0` of a kernel must be finite, got {self.coef0!r}.")

    def argument(self, products: FloatArray) -> FloatArray:
        """gamma x.z + coef0."""
        return products * self.gamma + self.coef0

    def values(self, rows: FloatArray, centers: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return elementwise(lambda p: self.function(self.argument(p)), rows @ centers.T)

    def diagonal(self, rows: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return self.function(self.argument(ops(rows).squared_norms(rows)))

    def function(self, argument: FloatArray) -> FloatArray:
        """k of the argument, in the operations of `machine.ops`."""
        raise NotImplementedError

    def size(self, reach: Reach) -> FloatArray:
        """B, shape (m,); infinite where sums may have overflowed on the way."""
        with np.errstate(over="ignore", invalid="ignore"):
            rows, radius = reach.rows + NORM_LOSS, reach.radius + NORM_LOSS
            products = rows * radius
            found = 1.0001 * (self.gamma * products + abs(self.coef0))
            sound = (products < OVERFLOWS) & (found < OVERFLOWS)
        return ops(found).where(sound, found, np.inf)

    def moved(self, reach: Reach) -> float:
        """How far the argument moves with a row."""
        if not reach.moved:
            return 0.0
        return 1.01 * self.gamma * (reach.radius + NORM_LOSS) * reach.moved

    def units(self, reach: Reach) -> float:
        """Roundings of the argument, relative to B."""
        return reach.n_features + 6.0 + reach.relative + 2.1 * reach.moves


@dataclass(frozen=True)
class PolynomialKernel(_OfProducts):
    """(gamma x.z + coef0)^degree; of degree 1, scikit-learn's `linear` and DotProduct.

    Parameters
    ----------
    degree : int
        From 1 to 100.
    gamma : float
        Positive.
    coef0 : float

    Examples
    --------
    >>> PolynomialKernel(3, 0.5, 1.0).values(np.array([[2.0]]), np.array([[1.0], [2.0]]))
    array([[ 8., 27.]])
    """

    degree: int
    gamma: float = 1.0
    coef0: float = 0.0

    def __post_init__(self) -> None:
        self._check()
        if not 1 <= self.degree <= MOST_DEGREE:
            raise InputError(
                f"`degree` of a kernel must lie between 1 and {MOST_DEGREE}, got {self.degree!r}."
            )

    @property
    def quadratic(self) -> bool:  # type: ignore[override]
        return self.degree == 2

    @property
    def polynomial(self) -> PolynomialKernel:
        return self

    def function(self, argument: FloatArray) -> FloatArray:
        if self.degree == 1:
            return argument
        base, found = argument, None
        left = self.degree
        while left:  # products alone: whatever the platform's `pow` does
            if left & 1:
                found = base if found is None else found * base
            left >>= 1
            base = base * base if left else base
        assert found is not None
        return found

    def largest(self, reach: Reach) -> FloatArray:
        return powers(self.size(reach), self.degree)

    def error(self, reach: Reach) -> FloatArray:
        count = self.degree * (self.units(reach) + 2.0)
        found = units(1.05 * count) * self.largest(reach)
        if reach.moved:  # |p B^(p-1)| times what the argument moves by, for a row a bit farther
            moved = replace(reach, rows=reach.rows + reach.moved)
            slope = self.degree * powers(self.size(moved), self.degree - 1)
            found = found + slope * self.moved(reach)
        return found

    @property
    def label(self) -> str:
        if self.degree == 1:
            plain = self.gamma == 1.0 and self.coef0 == 0.0
            return "linear" if plain else f"linear, gamma {self.gamma:.6g}, coef0 {self.coef0:.6g}"
        return f"polynomial of degree {self.degree}, gamma {self.gamma:.6g}, coef0 {self.coef0:.6g}"


@dataclass(frozen=True)
class SigmoidKernel(_OfProducts):
    """tanh(gamma x.z + coef0).

    Parameters
    ----------
    gamma : float
        Positive.
    coef0 : float

    Examples
    --------
    >>> SigmoidKernel(1.0, 0.0).values(np.array([[1.0]]), np.array([[0.0], [9.0]])).round(4)
    array([[0., 1.]])
    """

    gamma: float = 1.0
    coef0: float = 0.0

    def __post_init__(self) -> None:
        self._check()

    def function(self, argument: FloatArray) -> FloatArray:
        return ops(argument).function("tanh", argument)

    def largest(self, reach: Reach) -> FloatArray:
        return reach.all(1.0)

    def error(self, reach: Reach) -> FloatArray:
        xp, size = ops(reach.rows), self.size(reach)
        found = units(self.units(reach)) * size + units(32.0) + self.moved(reach)
        # Where sums overflowed, the value may be no number.
        return xp.where(size < np.inf, xp.minimum(found, 2.0), np.inf)

    @property
    def label(self) -> str:
        return f"sigmoid, gamma {self.gamma:.6g}, coef0 {self.coef0:.6g}"


@dataclass(frozen=True)
class CosineKernel(Kernel):
    """x.z / (|x| |z|); zero where a vector is.

    Examples
    --------
    >>> CosineKernel().values(np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([[2.0, 0.0]])).round(4)
    array([[0.7071],
           [0.    ]])
    """

    shifts = False
    grows = False
    unit_rows = True

    @property
    def polynomial(self) -> PolynomialKernel:
        return PolynomialKernel(1)

    def values(self, rows: FloatArray, centers: FloatArray) -> FloatArray:
        return self.normalized(rows) @ self.normalized(centers).T

    @staticmethod
    def normalized(rows: FloatArray) -> FloatArray:
        """Rows of length one; zeros stay, shape (m, d). Divided twice, so that no norm is lost."""
        xp = ops(rows)
        if isinstance(rows, np.ndarray) and not rows.shape[1]:
            return rows
        sizes = xp.max(xp.abs(rows), axis=1, keepdims=True)
        rows = rows / xp.where(sizes > 0.0, sizes, 1.0)
        norms = xp.sqrt(xp.sum(rows * rows, axis=1, keepdims=True))
        return rows / xp.where(norms > 0.0, norms, 1.0)

    def diagonal(self, rows: FloatArray) -> FloatArray:
        xp = ops(rows)
        return xp.where(xp.any(rows != 0.0, axis=1), 1.0, 0.0)

    def largest(self, reach: Reach) -> FloatArray:
        return reach.all(1.0 + 1e-9)

    def error(self, reach: Reach) -> FloatArray:
        xp, rows = ops(reach.rows), reach.rows
        count = 3.0 * reach.n_features + 24.0 + 2.1 * reach.moves
        found = reach.all(min(float(units(count)), 2.0))
        if reach.moved:  # which turns it by twice its share of the length, at most
            with np.errstate(divide="ignore"):
                found = xp.minimum(found + 2.1 * reach.moved / rows, 2.0)
        if reach.moves:
            # A direction has no scale, but maps underflow and overflow: whatever comes then.
            found = xp.where(rows < LEAST_MAPPED, 2.0, found)
            found = xp.where(rows < np.inf, found, np.inf)
        return found

    @property
    def label(self) -> str:
        return "cosine"
