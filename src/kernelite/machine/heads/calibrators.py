"""scikit-learn's calibrations of a decision value: sigmoid, isotonic, temperature.

    sigmoid       1 / (1 + exp(a t + b))
    isotonic      linear between thresholds, constant outside
    temperature   softmax(beta t) over the classes, (-t, t) for two

The first two are monotone, so they take the ends of a range to the ends of a range.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelite.errors import InputError
from kernelite.machine.heads.intervals import Range, finite
from kernelite.machine.ops import ops
from kernelite.rows.inputs import FloatArray

__all__ = ["IsotonicCalibrator", "SigmoidCalibrator", "softmax", "softmax_range"]

LARGEST = 1e150  # of numbers whose products are numbers


@dataclass(frozen=True)
class SigmoidCalibrator:
    """1 / (1 + exp(a t + b)).

    Examples
    --------
    >>> SigmoidCalibrator(-1.0, 0.0)(np.array([0.0, 2.0])).round(3)
    array([0.5  , 0.881])
    """

    a: float
    b: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.a) and np.isfinite(self.b)):
            raise InputError("the two numbers of a sigmoid must be finite.")

    def __call__(self, t: FloatArray) -> FloatArray:
        """Probabilities, in the shape of `t`."""
        with np.errstate(over="ignore"):
            return ops(t).expit(-(self.a * finite(t) + self.b))

    def range(self, low: FloatArray, high: FloatArray) -> Range:
        """Ends of the probability for a value between `low` and `high`."""
        ends = self(low), self(high)
        return ends if self.a <= 0 else (ends[1], ends[0])


@dataclass(frozen=True, eq=False)
class IsotonicCalibrator:
    """Linear between (x_i, y_i), constant beyond the first and the last.

    Parameters
    ----------
    x, y : arrays of shape (t,)
        Both in ascending order; y may also descend.

    Examples
    --------
    >>> IsotonicCalibrator([0.0, 1.0], [0.2, 0.8])(np.array([-1.0, 0.5]))
    array([0.2, 0.5])
    """

    x: FloatArray
    y: FloatArray

    def __post_init__(self) -> None:
        for name in ("x", "y"):
            array = np.array(getattr(self, name), dtype=np.float64)
            if array.ndim != 1 or not len(array) or not (np.abs(array) <= LARGEST).all():
                raise InputError(
                    f"`{name}` of an isotonic calibration must hold finite numbers, none huge."
                )
            object.__setattr__(self, name, array)
        if len(self.x) != len(self.y) or (np.diff(self.x) < 0).any():
            raise InputError("an isotonic calibration needs ascending `x`, one to each of `y`.")
        steps = np.diff(self.y)
        if (steps < 0).any() and (steps > 0).any():
            raise InputError("an isotonic calibration is monotone, but `y` goes up and down.")

    def __call__(self, t: FloatArray) -> FloatArray:
        """Probabilities, in the shape of `t`."""
        return ops(t).interp(t, self.x, self.y)

    def range(self, low: FloatArray, high: FloatArray) -> Range:
        """Ends of the probability for a value between `low` and `high`."""
        ends = self(low), self(high)
        return ends if self.y[0] <= self.y[-1] else (ends[1], ends[0])


def softmax(logits: FloatArray) -> FloatArray:
    """exp(l_c) / sum_c exp(l_c) along the last axis, shape (m, K).

    Examples
    --------
    >>> softmax(np.array([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    """
    xp = ops(logits)
    powers = xp.exp(logits - xp.max(logits, axis=1, keepdims=True))
    return powers / xp.sum(powers, axis=1, keepdims=True)


def softmax_range(low: FloatArray, high: FloatArray) -> Range:
    """Ends of `softmax`: its own logit low and all others high, and the other way round."""
    xp = ops(low)
    top = xp.max(high, axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        under, over = xp.exp(low - top), xp.exp(high - top)
        rest_over = xp.sum(over, axis=1, keepdims=True) - over
        rest_under = xp.maximum(xp.sum(under, axis=1, keepdims=True) - under, 0.0)
        least, most = under / (under + rest_over), over / (over + rest_under)
    # Infinite logits say nothing.
    return xp.where(xp.isnan(least), 0.0, least), xp.where(xp.isnan(most), 1.0, most)
