"""Calibration: a threshold on the margin that keeps a promised rate of label differences.

Thresholds are tested from most to least fallback on the rows of `X` that were not used to choose
the form, each by an exact binomial (Clopper-Pearson) bound, stopping at the first failure. In such a fixed sequence every
test may use the full confidence. The promise is statistical, for rows like those tested.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.support.errors import InputError

__all__ = [
    "Calibration",
    "calibrate",
    "largest_rate",
    "require_rows",
    "rows_needed",
    "threshold_grid",
]

# Shares of rows sent to the exact model, finer where most models end up.
SHARES = (
    *(1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.17, 0.15, 0.13, 0.12, 0.11, 0.1, 0.09, 0.08, 0.07),
    *(0.06, 0.055, 0.05, 0.045, 0.04, 0.035, 0.03, 0.025, 0.02, 0.015, 0.01, 0.005, 0.0),
)


@dataclass(frozen=True)
class Calibration:
    """The chosen threshold and the evidence for it.

    Parameters
    ----------
    threshold : float
        Rows with a margin at or below it go to the exact model.
    fallback : float
        Their share among the rows tested.
    differences, rows : int
        Labels that differed above the threshold, among the rows tested.
    rate_bound : float
        The upper confidence bound of that rate.
    """

    threshold: float
    fallback: float
    differences: int
    rows: int
    rate_bound: float


def rows_needed(max_disagreement: float, confidence: float) -> int:
    """Rows to test before even no difference at all proves the rate.

    Examples
    --------
    >>> rows_needed(1e-3, 0.99)
    4603
    """
    return math.ceil(math.log1p(-confidence) / math.log1p(-max_disagreement))


def require_rows(rows: int, max_disagreement: float, confidence: float) -> None:
    """Refuse to calibrate on too few rows."""
    needed = rows_needed(max_disagreement, confidence)
    if rows < needed:
        raise InputError(
            f"calibrating to a rate of {max_disagreement:g} at confidence {confidence:g} needs "
            f"{needed} rows to test on, so `X` must hold at least {math.ceil(needed / 0.8)} rows; "
            f"{rows} are left for testing."
        )


def largest_rate(differences: int, rows: int, confidence: float) -> float:
    """Clopper-Pearson: the largest rate that so few differences leave plausible."""
    from scipy.special import betaincinv

    if differences >= rows:
        return 1.0
    return float(betaincinv(differences + 1, rows - differences, confidence))


def threshold_grid(margins: FloatArray) -> FloatArray:
    """Thresholds from most to least fallback: quantiles of the margins of the choosing rows."""
    grid = np.quantile(margins, SHARES)
    grid[-1] = -np.inf
    # The first sends every row to the exact model, so the sequence starts with a sure success.
    grid[0] = np.inf
    return grid


def calibrate(
    grid: FloatArray,
    margins: FloatArray,
    differs: NDArray[np.bool_],
    *,
    max_disagreement: float,
    confidence: float,
) -> Calibration:
    """Walk down the grid while the promised rate is proven.

    Parameters
    ----------
    grid : ndarray
        Decreasing thresholds, chosen on other rows.
    margins : ndarray of shape (m,)
    differs : ndarray of shape (m,)
        Whether the form's label is not the exact model's.
    max_disagreement, confidence : float

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> margins = rng.uniform(size=10_000)
    >>> found = calibrate(np.array([np.inf, 0.5, 0.1, 0.0]), margins, margins < 0.2,
    ...                   max_disagreement=1e-3, confidence=0.99)
    >>> found.threshold, found.differences
    (0.5, 0)
    """
    m = len(margins)
    require_rows(m, max_disagreement, confidence)
    best: Calibration | None = None
    for threshold in grid:
        served = margins > threshold
        differences = int(np.count_nonzero(differs & served))
        bound = largest_rate(differences, m, confidence)
        if bound > max_disagreement:
            break
        fallback = 1.0 - float(served.mean())
        best = Calibration(float(threshold), fallback, differences, m, bound)
    assert best is not None
    return best
