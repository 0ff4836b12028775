"""Values of which only two ends are known, and what that proves about answers that compare them.

In: ends (low, high), each of shape (m, K), and none of them rounded inwards. Out: which rows have
the same largest value wherever each lies, and by how much it leads.

Ends that are equal doubles are no tie: sums round, and functions saturate (a sigmoid at 1, which it
never reaches). So every formula here rounds its ends outwards: one operation by `outwards`,
functions and sums by `widened`. Ties are concluded from whole counts and constants alone.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.ops import ops

__all__ = [
    "LOST_IN_HEADS",
    "SLACK",
    "BoolArray",
    "Range",
    "best_decided",
    "columns",
    "finite",
    "lead",
    "others",
    "outwards",
    "score_range",
    "share_range",
    "squash",
    "summed_columns",
    "take_winner",
    "two_classes",
    "widened",
]

BoolArray: TypeAlias = NDArray[np.bool_]
Range: TypeAlias = "tuple[FloatArray, FloatArray]"

SLACK = 1e-12
"""Relative; ends are computed by a few roundings of 1e-16 each, and so are a library's answers."""
LARGEST_DOUBLE = float(np.finfo(np.float64).max)
LOST_IN_HEADS = 1e-300  # absolute: more than what underflow loses


def outwards(low: FloatArray, high: FloatArray) -> Range:
    """Ends that one operation rounded, moved outwards by as much."""
    xp = ops(low)
    return xp.nextafter(low, -np.inf), xp.nextafter(high, np.inf)


def widened(low: FloatArray, high: FloatArray, size: FloatArray | None = None) -> Range:
    """Ends of a function, or of a sum whose terms have the size given, rounded outwards."""
    xp = ops(low)
    below, above = (xp.abs(end) for end in (low, high)) if size is None else (size, size)
    return low - (SLACK * below + LOST_IN_HEADS), high + (SLACK * above + LOST_IN_HEADS)


def score_range(scores: FloatArray, bounds: FloatArray) -> Range:
    """(s - b, s + b), rounded outwards."""
    return outwards(scores - bounds, scores + bounds)


def two_classes(low: FloatArray, high: FloatArray) -> Range:
    """Ends of both classes' probabilities, from columns of those of the second: shape (m, 2)."""
    xp, first = ops(low), outwards(1.0 - high, 1.0 - low)
    return xp.concat([first[0], low], axis=1), xp.concat([first[1], high], axis=1)


def others(values: FloatArray, n_classes: int) -> FloatArray:
    """The sum of all other values of the row, shape (m, K): nothing is subtracted, or cancels."""
    return values @ (1.0 - np.eye(n_classes))


def summed_columns(values: FloatArray) -> FloatArray:
    """The sum of each row, from its first value on; shape (m,). The last bit may break a tie."""
    if isinstance(values, np.ndarray):
        return np.add.accumulate(values, axis=1)[:, -1]
    return ops(values).sum(values, axis=1)


def finite(ends: FloatArray) -> FloatArray:
    """Infinite ends, brought back to where 0 times them is still 0."""
    return ops(ends).clip(ends, -LARGEST_DOUBLE, LARGEST_DOUBLE)


def columns(values: FloatArray) -> FloatArray:
    """Values on two axes: those of one output as a column."""
    return values[:, None] if values.ndim == 1 else values


def take_winner(values: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """The place of each row's (first) largest value, and that value: columns of shape (m, 1)."""
    xp = ops(values)
    winner = xp.argmax(values, axis=1)[:, None]
    return winner, xp.take_along_axis(values, winner, axis=1)


def best_decided(
    low: FloatArray,
    high: FloatArray,
    n_classes: int,
    *,
    counts: bool = False,
    constants: bool = False,
) -> BoolArray:
    """Rows in which the largest of K values is the same wherever each lies between its ends.

    Parameters
    ----------
    low, high : ndarray of shape (m, K)
    n_classes : int
        K.
    counts : bool
        Whether the values are whole numbers, so that equal ones are equal and the first wins.
        Otherwise values that differ by rounding alone count as undecided, and so do equal ones,
    constants : bool
        but for those whose two ends are equal, where only constants have such ends.

    Returns
    -------
    ndarray of shape (m,)

    Examples
    --------
    >>> best_decided(np.array([[0.2, 0.5], [0.2, 0.5]]), np.array([[0.4, 0.6], [0.5, 0.6]]), 2)
    array([ True, False])
    """
    xp = ops(low)
    winner, mine = take_winner(low)
    places = np.arange(n_classes)[None, :]
    if counts:
        settled = (mine > high) | ((mine == high) & (winner < places))
    else:
        with np.errstate(invalid="ignore"):  # infinite ends
            gap = SLACK * xp.maximum(xp.abs(mine), xp.abs(high))
            settled = mine - high > gap
        if constants:
            known = (low == high) & (mine == xp.take_along_axis(high, winner, axis=1))
            settled = settled | (known & (mine == high) & (winner < places))
    return xp.all(settled | (winner == places), axis=1)


def lead(values: FloatArray, n_classes: int) -> FloatArray:
    """By how much the largest of K values leads, shape (m,)."""
    xp = ops(values)
    if n_classes < 2:
        return xp.full((values.shape[0],), np.inf)
    first, second = xp.top_two(values, n_classes)
    return first - second


def share_range(low: FloatArray, high: FloatArray, n_classes: int) -> Range:
    """Ends of each value's share of the sum: its own low and the others high, and the reverse."""
    xp = ops(low)
    others_high, others_low = others(high, n_classes), others(xp.maximum(low, 0.0), n_classes)
    least = xp.where(low > 0, low / xp.where(low > 0, low + others_high, 1.0), 0.0)
    # Not `high > 0`: of an end that is no number nothing is known.
    most = xp.where(high <= 0, 0.0, high / xp.where(high <= 0, 1.0, high + others_low))
    return widened(least, most)


def squash(sums: FloatArray) -> FloatArray:
    """scikit-learn's s / (3 (|s| + 1)), increasing, into (-1/3, 1/3)."""
    xp = ops(sums)
    with np.errstate(invalid="ignore"):
        squashed = sums / (3.0 * (xp.abs(sums) + 1.0))
    return xp.where(xp.isinf(sums), xp.sign(sums) / 3.0, squashed)
