"""Arithmetic without uncounted rounding, for what sources fold together when a model is read.

A folded constant is either the double nearest to a number that is known exactly (a `Fraction`), or
it comes with a bound on its own error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from kernelite.inputs import FloatArray

__all__ = [
    "UNIT",
    "accurate_product",
    "exact_sum",
    "nearest",
    "nearest_all",
    "relative_gap",
    "two_words",
]

UNIT = 2.0**-53
SPLITTER = 2.0**27 + 1.0  # cuts a double into halves whose products are exact
LOST = 1e-250  # more than all that underflows in a product of two matrices


def nearest(value: Fraction) -> float:
    """The double nearest to a fraction; infinite where that overflows.

    Examples
    --------
    >>> nearest(Fraction(1, 3)), nearest(Fraction(10) ** 400)
    (0.3333333333333333, inf)
    """
    try:
        return value.numerator / value.denominator  # correctly rounded
    except OverflowError:
        return math.copysign(math.inf, value)


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
    high = nearest(value)
    return high, nearest(value - Fraction(high)) if math.isfinite(high) else 0.0


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
    while rest := math.fsum(terms):
        total += Fraction(rest)
        terms.append(-rest)
    return total


def relative_gap(stored: float, meant: Fraction) -> float:
    """|stored - meant| / |meant|, not below the real value; zero where they agree.

    Examples
    --------
    >>> relative_gap(0.25, Fraction(1, 4)), relative_gap(0.1, Fraction(1, 10)) < UNIT
    (0.0, True)
    """
    if not math.isfinite(stored):
        return math.inf
    gap = abs(Fraction(stored) - meant)
    if not gap:
        return 0.0
    return nearest(gap / abs(meant)) * (1.0 + 1e-9) if meant else math.inf


def accurate_product(A: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A @ B as if computed with twice the digits, and a bound on the error of each entry.

    The products and sums of Ogita, Rump and Oishi's Dot2, for all entries at a time; for inner
    length n it errs by at most u |AB| + (n u)^2 |A||B|.

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
    n = A.shape[1]
    total, small = np.zeros((len(A), B.shape[1])), np.zeros((len(A), B.shape[1]))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        columns, rows = _halves(A), _halves(B)
        for i in range(n):
            product = np.multiply.outer(A[:, i], B[i])
            a, b = [half[:, i] for half in columns], [half[i] for half in rows]
            # What the product lost: exact, since the halves have 26 bits each.
            lost = np.multiply.outer(a[0], b[0]) - product
            lost += np.multiply.outer(a[0], b[1]) + np.multiply.outer(a[1], b[0])
            lost += np.multiply.outer(a[1], b[1])
            grown = total + product
            part = grown - total
            small += lost + ((total - (grown - part)) + (product - part))
            total = grown
        found = total + small
        sizes = np.abs(A) @ np.abs(B)
        error = 1.01 * UNIT * np.abs(found) + 1.1 * (n * UNIT) ** 2 * sizes + LOST
        if not np.isfinite(found).all():  # beyond 1e300 halves overflow
            found, error = A @ B, 1.1 * n * UNIT * sizes + LOST
    return found, error


def _halves(array: FloatArray) -> tuple[FloatArray, FloatArray]:
    """An array as the sum of two, of 26 bits each (Dekker, Veltkamp)."""
    large = SPLITTER * array
    high = large - (large - array)
    return high, array - high
