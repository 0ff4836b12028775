"""How much of an expansion may be left out: the settings of sums over near centers only.

Centers are sorted into boxes; those far from a row are left out of its sum, and what they could
add at most is in its error bound. No arrays: the boxes are made when a model is first run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelite.errors import InputError
from kernelite.rows.inputs import FloatArray

__all__ = ["LocalSums"]


@dataclass(frozen=True, eq=False)
class LocalSums:
    """What may be left out of a row's sum: absolute + relative * sum, an output.

    Parameters
    ----------
    absolute : ndarray of shape (k,)
    relative : float
        For one output whose coefficients are all positive; else 0.
    start : float
        gamma distance^2 up to which boxes are summed at once, before what is left out is looked
        at. Any value is sound; a good one saves looking.

    Examples
    --------
    >>> LocalSums(np.array([1e-3])).start
    6.0
    """

    absolute: FloatArray
    relative: float = 0.0
    start: float = 6.0

    def __post_init__(self) -> None:
        if self.absolute.ndim != 1 or not (self.absolute >= 0).all():
            raise InputError("`absolute` must hold numbers not below zero, one an output.")
        if not (0.0 <= self.relative < 1.0 and 0.0 <= self.start < np.inf):
            raise InputError("`relative` must lie between 0 and 1, and `start` not below 0.")
        if self.relative and len(self.absolute) != 1:
            raise InputError("a relative budget is for one output.")
