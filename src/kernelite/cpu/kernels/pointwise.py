"""Kernel values in place: distances of rows and centers, then a function of each, as vectors.

Distances are taken by differences, feature by feature; centers lie with a line per feature, so that
loops over them become vector instructions. Functions overwrite a tile that is still in cache.
Twins: `cdist`, and `profile` or `function` of the kernels in `machine.kernels`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernelite.cpu.kernels.compiling import array_type, helper, kernel
from kernelite.cpu.kernels.exp import exp_nonpositive, exp_nonpositive_single
from kernelite.cpu.kernels.log import log_positive
from kernelite.rows.inputs import FloatArray

__all__ = [
    "affine",
    "city_distances",
    "exponential",
    "inverse_multiquadric",
    "inverse_quadratic",
    "matern_1",
    "matern_3",
    "matern_5",
    "multiquadric",
    "power_spline",
    "rational",
    "sigmoid",
    "sigmoid_of_single",
    "square_distances",
    "thin_plate",
]

_TILE = array_type(2), array_type(2), "int64", "int64", array_type(2, writable=True)
_VALUES = array_type(1, writable=True), "float64", "float64"
_ZERO, _ONE, _MINUS_TWO = np.float32(0.0), np.float32(1.0), np.float32(-2.0)
_FAR = 1500.0  # exp(-_FAR) is zero
_TINY = 1e-300  # that logarithms are taken of instead of zero


@kernel(*_TILE)
def square_distances(
    rows: FloatArray, lines: FloatArray, start: int, count: int, tile: FloatArray
) -> Any:
    """tile[i, j] = |x - z|^2 for the `count` centers from `start` on; lines of shape (d, n).

    Features that are left over by fours come first: one, two or three of them.
    """
    d, stop = rows.shape[1], start + count
    for i in range(rows.shape[0]):
        out, f = tile[i], d % 4
        if f == 0:
            out[:count] = 0.0
        elif f == 1:
            z0, x0 = rows[i, 0], lines[0, start:stop]
            for j in range(count):
                a = x0[j] - z0
                out[j] = a * a
        elif f == 2:
            z0, z1, x0, x1 = rows[i, 0], rows[i, 1], lines[0, start:stop], lines[1, start:stop]
            for j in range(count):
                a, b = x0[j] - z0, x1[j] - z1
                out[j] = a * a + b * b
        else:
            z0, z1, z2 = rows[i, 0], rows[i, 1], rows[i, 2]
            x0, x1, x2 = lines[0, start:stop], lines[1, start:stop], lines[2, start:stop]
            for j in range(count):
                a, b, c = x0[j] - z0, x1[j] - z1, x2[j] - z2
                out[j] = (a * a + b * b) + c * c
        while f < d:
            z0, z1, z2, z3 = rows[i, f], rows[i, f + 1], rows[i, f + 2], rows[i, f + 3]
            x0, x1 = lines[f, start:stop], lines[f + 1, start:stop]
            x2, x3 = lines[f + 2, start:stop], lines[f + 3, start:stop]
            for j in range(count):
                a, b, c, e = x0[j] - z0, x1[j] - z1, x2[j] - z2, x3[j] - z3
                out[j] += (a * a + b * b) + (c * c + e * e)
            f += 4


@kernel(*_TILE)
def city_distances(
    rows: FloatArray, lines: FloatArray, start: int, count: int, tile: FloatArray
) -> Any:
    """As `square_distances`, of |x - z|_1."""
    d, stop = rows.shape[1], start + count
    for i in range(rows.shape[0]):
        out, f = tile[i], d % 4
        out[:count] = 0.0
        for rest in range(f):
            z0, x0 = rows[i, rest], lines[rest, start:stop]
            for j in range(count):
                out[j] += math.fabs(x0[j] - z0)
        while f < d:
            z0, z1, z2, z3 = rows[i, f], rows[i, f + 1], rows[i, f + 2], rows[i, f + 3]
            x0, x1 = lines[f, start:stop], lines[f + 1, start:stop]
            x2, x3 = lines[f + 2, start:stop], lines[f + 3, start:stop]
            for j in range(count):
                near = math.fabs(x0[j] - z0) + math.fabs(x1[j] - z1)
                out[j] += near + (math.fabs(x2[j] - z2) + math.fabs(x3[j] - z3))
            f += 4


@helper
def _angle(square: float, scale: float) -> float:
    """sqrt of a square, scaled, and no larger than exponentials need."""
    a = math.sqrt(square) * scale
    return a if a < _FAR else _FAR


@kernel(*_VALUES)
def affine(values: FloatArray, gamma: float, coef0: float) -> Any:
    """gamma v + coef0."""
    for j in range(len(values)):
        values[j] = gamma * values[j] + coef0


@kernel(*_VALUES)
def exponential(values: FloatArray, rate: float, _b: float) -> Any:
    """exp(-rate v)."""
    for j in range(len(values)):
        values[j] = exp_nonpositive(-(rate * values[j]))


@kernel(*_VALUES)
def matern_1(values: FloatArray, scale: float, _b: float) -> Any:
    """exp(-a), a = scale sqrt(v)."""
    for j in range(len(values)):
        values[j] = exp_nonpositive(-_angle(values[j], scale))


@kernel(*_VALUES)
def matern_3(values: FloatArray, scale: float, _b: float) -> Any:
    """(1 + a) exp(-a)."""
    for j in range(len(values)):
        a = _angle(values[j], scale)
        values[j] = (1.0 + a) * exp_nonpositive(-a)


@kernel(*_VALUES)
def matern_5(values: FloatArray, scale: float, _b: float) -> Any:
    """(1 + a + a^2 / 3) exp(-a)."""
    for j in range(len(values)):
        a = _angle(values[j], scale)
        values[j] = (1.0 + a + a * a * (1.0 / 3.0)) * exp_nonpositive(-a)


@kernel(*_VALUES)
def rational(values: FloatArray, rate: float, alpha: float) -> Any:
    """(1 + rate v)^-alpha; what 1 + rate v rounds off is put back."""
    for j in range(len(values)):
        v = rate * values[j]
        w = 1.0 + v
        logs = log_positive(w) + (v - (w - 1.0)) / w
        values[j] = exp_nonpositive(-(alpha * logs)) if w < 1e300 else 0.0


@kernel(*_VALUES)
def multiquadric(values: FloatArray, rate: float, _b: float) -> Any:
    """-sqrt(1 + rate v)."""
    for j in range(len(values)):
        values[j] = -math.sqrt(1.0 + rate * values[j])


@kernel(*_VALUES)
def inverse_multiquadric(values: FloatArray, rate: float, _b: float) -> Any:
    """1 / sqrt(1 + rate v)."""
    for j in range(len(values)):
        values[j] = 1.0 / math.sqrt(1.0 + rate * values[j])


@kernel(*_VALUES)
def inverse_quadratic(values: FloatArray, rate: float, _b: float) -> Any:
    """1 / (1 + rate v)."""
    for j in range(len(values)):
        values[j] = 1.0 / (1.0 + rate * values[j])


@kernel(*_VALUES)
def power_spline(values: FloatArray, rate: float, power: float) -> Any:
    """-r, r^3 or -r^5, r = sqrt(rate v); a loop each, so that none has branches."""
    if power == 1.0:
        for j in range(len(values)):
            values[j] = -math.sqrt(rate * values[j])
    elif power == 3.0:
        for j in range(len(values)):
            s = rate * values[j]
            values[j] = math.sqrt(s) * s
    else:
        for j in range(len(values)):
            s = rate * values[j]
            values[j] = -(math.sqrt(s) * s) * s


@kernel(*_VALUES)
def thin_plate(values: FloatArray, rate: float, _b: float) -> Any:
    """r^2 log r, r^2 = rate v."""
    for j in range(len(values)):
        s = rate * values[j]
        values[j] = 0.5 * (s * log_positive(s if s > _TINY else _TINY))


@kernel(array_type(1, "float32"), "float32", "float32", array_type(1, writable=True))
def sigmoid_of_single(products: Any, gamma: Any, coef0: Any, values: FloatArray) -> Any:
    """As `sigmoid`, in single precision; values are doubles, for what is made of them."""
    for j in range(len(values)):
        v = gamma * products[j] + coef0
        e = exp_nonpositive_single(_MINUS_TWO * abs(v))
        t = (_ONE - e) / (_ONE + e)
        values[j] = t if v > _ZERO else -t


@kernel(*_VALUES)
def sigmoid(values: FloatArray, gamma: float, coef0: float) -> Any:
    """tanh(gamma v + coef0) as (1 - e) / (1 + e), e = exp(-2 |argument|)."""
    for j in range(len(values)):
        v = gamma * values[j] + coef0
        e = exp_nonpositive(-2.0 * math.fabs(v))
        t = (1.0 - e) / (1.0 + e)
        values[j] = t if v > 0.0 else -t
