"""Arithmetic without uncounted rounding, for what sources fold together when a model is read.

A folded constant is either the double nearest to a number that is known exactly (a `Fraction`), or
it comes with a bound on its own error. `Uncertainty` keeps such bounds for all numbers of an
expansion.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.records import dataclass

__all__ = [
    "NORM_LOSS",
    "UNIT",
    "Uncertainty",
    "accurate_product",
    "exact_sum",
    "fraction",
    "gap",
    "nearest",
    "nearest_all",
    "quotient",
    "quotient_in_words",
    "relative_gap",
    "two_words",
]

UNIT = 2.0**-53
SLICES = 6  # of the factors of a product
NORM_LOSS = 1e-150  # more than a norm loses if its square underflows
LOST_IN_PRODUCTS = 1e-250  # more than all that underflows in a product of two matrices


def fraction(value: Any, name: str, *, positive: bool = False) -> Fraction:
    """A model's number as it is, exactly; NaN and infinity, which a failed fit leaves, are refused.

    Parameters
    ----------
    value : float
    name : str
        What messages call it.
    positive : bool
        Refuse zero and less too.

    Examples
    --------
    >>> fraction(0.5, "scale")
    Fraction(1, 2)
    >>> fraction(float("nan"), "scale")
    Traceback (most recent call last):
    kernelite.UnsupportedModelError: `scale` of this model is nan, not a finite number; ...
    """
    number = float(value)
    if not math.isfinite(number) or (positive and number <= 0):
        wanted = "a positive finite number" if positive else "a finite number"
        raise UnsupportedModelError(
            f"`{name}` of this model is {number}, not {wanted}; fit it again with other parameters "
            "or data."
        )
    return Fraction(number)


def nearest(value: Fraction) -> float:
    """The double nearest to a fraction; infinite where that overflows.

    Examples
    --------
    >>> nearest(Fraction(1, 3)), nearest(Fraction(10) ** 400)
    (0.3333333333333333, inf)
    """
    return quotient(value.numerator, value.denominator)


def quotient(numerator: int, denominator: int) -> float:
    """The double nearest to the quotient of two integers; infinite where that overflows."""
    try:
        return numerator / denominator  # correctly rounded
    except OverflowError:
        return math.inf if (numerator > 0) == (denominator > 0) else -math.inf


def nearest_all(values: Iterable[Fraction]) -> FloatArray:
    """The doubles nearest to fractions, as an array."""
    return np.array([nearest(value) for value in values], dtype=np.float64)


def two_words(value: Fraction) -> tuple[float, float]:
    """A fraction as hi + lo: hi the nearest double, lo the one nearest to what is left.

    Examples
    --------
    >>> two_words(Fraction(1, 3))
    (0.3333333333333333, 1.850371707708594e-17)
    """
    return quotient_in_words(value.numerator, value.denominator)


def quotient_in_words(numerator: int, denominator: int) -> tuple[float, float]:
    """The quotient of two integers as two words; they need not be reduced, which takes long."""
    high = quotient(numerator, denominator)
    if not math.isfinite(high):
        return high, 0.0
    p, q = high.as_integer_ratio()
    return high, quotient(numerator * q - p * denominator, denominator * q)


def exact_sum(values: Any) -> Fraction:
    """The sum of doubles, exactly.

    Each turn of `math.fsum` gives the nearest double to what is left; it is zero after a few.

    Examples
    --------
    >>> exact_sum([1e16, 1.0, -1e16]), exact_sum([0.1, 0.2]) == Fraction(0.1) + Fraction(0.2)
    (Fraction(1, 1), True)
    """
    terms = [float(value) for value in values]
    total = Fraction(0)
    try:
        while rest := math.fsum(terms):
            total += Fraction(rest)
            terms.append(-rest)
    except (ValueError, OverflowError):  # NaN; infinity, or a sum that overflows
        raise UnsupportedModelError(
            "the weights of this model do not add up to a finite number; fit it again with other "
            "parameters or data."
        ) from None
    return total


def gap(stored: float, meant: Fraction) -> float:
    """|stored - meant|, not below the real value; zero where they agree.

    Examples
    --------
    >>> gap(0.25, Fraction(1, 4)), 0 < gap(0.1, Fraction(1, 10)) < 1e-17
    (0.0, True)
    """
    if not math.isfinite(stored):
        return math.inf
    return _rounded_up(abs(Fraction(stored) - meant))


def relative_gap(stored: float, meant: Fraction) -> float:
    """|stored - meant| / |meant|, not below the real value; zero where they agree.

    Examples
    --------
    >>> relative_gap(0.25, Fraction(1, 4)), relative_gap(0.1, Fraction(1, 10)) < UNIT
    (0.0, True)
    """
    if not math.isfinite(stored):
        return math.inf
    off = abs(Fraction(stored) - meant)
    if not meant:
        return math.inf if off else 0.0
    return _rounded_up(off / abs(meant))


def _rounded_up(value: Fraction) -> float:
    return nearest(value) * (1.0 + 1e-9) + 5e-324 if value else 0.0


def accurate_product(A: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A @ B as if computed with twice the digits, and a bound on the error of each entry.

    Rows of A and columns of B are cut into slices of so few bits that products of slices are exact
    (Ozaki and others). Slice i is at most 2^(i (1 - bits) + 1) of the row's largest entry; products
    of slices whose numbers add up to `SLICES` or more are left out. The others are added up by
    two-sums, with an error of (number u)^2 of their absolute values.

    Parameters
    ----------
    A : ndarray of shape (m, n)
    B : ndarray of shape (n, k)

    Returns
    -------
    product, error : ndarrays of shape (m, k)

    Examples
    --------
    >>> accurate_product(np.array([[1e16, 1.0, -1e16]]), np.ones((3, 1)))[0]
    array([[1.]])
    """
    if B.size > A.size:  # what is sliced as it goes had better be the larger one
        product, error = accurate_product(B.T, A.T)
        return np.ascontiguousarray(product.T), error.T
    n, given = A.shape[1], (A, B)
    bits = (53 - max(n - 1, 1).bit_length()) // 2
    total, small, sizes = (np.zeros((len(A), B.shape[1])) for _ in range(3))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        largest = np.abs(A).max(axis=1, initial=0.0)[:, None] * np.abs(B).max(axis=0, initial=0.0)
        slices = []
        for _ in range(SLICES):
            slices.append(_leading(B, bits, axis=0))
            B = B - slices[-1]
        for i in range(SLICES):
            part = _leading(A, bits, axis=1)
            A = A - part
            for other in slices[: SLICES - i]:
                product = part @ other  # exactly
                grown = total + product
                added = grown - total
                small += (total - (grown - added)) + (product - added)
                total = grown
                sizes += np.abs(product)
        found = total + small
        left_out = 4.0 * (SLICES + 1) ** 2 * n * 2.0 ** (SLICES * (1 - bits)) * largest
        error = 1.01 * UNIT * np.abs(found) + (SLICES**2 * UNIT) ** 2 * sizes
        error = error + left_out + LOST_IN_PRODUCTS
        if not (np.isfinite(found) & np.isfinite(error)).all():  # beyond 1e290 slices overflow
            found = given[0] @ given[1]
            error = 1.1 * (n + 1) * UNIT * (np.abs(given[0]) @ np.abs(given[1])) + LOST_IN_PRODUCTS
    return found, error


def _leading(array: FloatArray, bits: int, axis: int) -> FloatArray:
    """The leading bits of each entry, counted from the largest along an axis."""
    largest = np.abs(array).max(axis=axis, initial=0.0, keepdims=True)
    cut = np.ldexp(1.0, np.frexp(largest)[1] + (53 - bits))
    return (array + cut) - cut


# How far the stored numbers of an expansion may be from those of the model that they stand for.
#
# The exact model is the user's estimator in real arithmetic on its own stored doubles. Readers fold
# constants, length scales and linear layers into the numbers of one expansion, and folding rounds.
# What it can have changed is kept here; `kernelite.series.rounding.folding` puts it into every
# bound.


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Bounds on the errors of an expansion's numbers; real values are within them.

    Parameters
    ----------
    coefficients : ndarray of shape (k,)
        Of each output, the absolute errors of all A_i added up.
    intercept : ndarray of shape (k,)
        The absolute error of b.
    gamma : float
        The relative error of gamma, or of all squared distances.
    centers : float
        The relative error of each coordinate of the centers.
    rows : float
        How far a row may be from where it should be, by a projection or polynomial before.
    relative : float
        The same relative to the row's norm, beyond that of an affine map.

    Examples
    --------
    >>> one = Uncertainty(np.array([1e-16]), np.zeros(1), gamma=1e-16)
    >>> float((one + one).coefficients[0]), (one + one).gamma
    (2e-16, 2e-16)
    """

    coefficients: FloatArray
    intercept: FloatArray
    gamma: float = 0.0
    centers: float = 0.0
    rows: float = 0.0
    relative: float = 0.0

    def __post_init__(self) -> None:
        for name in ("coefficients", "intercept"):
            object.__setattr__(self, name, np.array(getattr(self, name), dtype=np.float64))
        if self.coefficients.ndim != 1 or self.coefficients.shape != self.intercept.shape:
            raise InputError("an uncertainty holds two numbers an output.")
        for name in ("coefficients", "intercept", "gamma", "centers", "rows", "relative"):
            if not np.all(np.asarray(getattr(self, name)) >= 0):  # infinite is sound
                raise InputError(f"`{name}` of an uncertainty must not be negative or NaN.")

    def __pack__(self) -> dict[str, Any]:
        """For files: what is said of rows only where there is something to say."""
        stored = {field.name: getattr(self, field.name) for field in fields(self)}
        return {k: v for k, v in stored.items() if k not in ("rows", "relative") or v}

    @classmethod
    def none(cls, n_outputs: int) -> Uncertainty:
        """Of numbers that are the model's own."""
        return cls(np.zeros(n_outputs), np.zeros(n_outputs))

    def __add__(self, other: Uncertainty) -> Uncertainty:
        """Of numbers that were rounded in both ways."""
        return Uncertainty(
            self.coefficients + other.coefficients,
            self.intercept + other.intercept,
            self.gamma + other.gamma,
            self.centers + other.centers,
            self.rows + other.rows,
            self.relative + other.relative,
        )

    def behind(self, weights: FloatArray) -> Uncertainty:
        """Of outputs W f, for W of shape (q, k)."""
        sizes = np.abs(weights)
        coefficients, intercept = sizes @ self.coefficients, sizes @ self.intercept
        return replace(self, coefficients=coefficients, intercept=intercept)

    def times(self, factors: FloatArray) -> Uncertainty:
        """Of outputs that are multiplied, each by its own of k factors."""
        sizes = np.abs(factors)
        coefficients, intercept = sizes * self.coefficients, sizes * self.intercept
        return replace(self, coefficients=coefficients, intercept=intercept)

    def of_outputs(self, outputs: NDArray[np.integer]) -> Uncertainty:
        """Of some outputs, in their order."""
        coefficients, intercept = self.coefficients[outputs], self.intercept[outputs]
        return replace(self, coefficients=coefficients, intercept=intercept)
