"""log(x) for positive x in plain arithmetic, so that loops over it become vector instructions.

    x = 2^k m, sqrt(1/2) <= m < sqrt(2):   log(x) = k ln 2 + 2 t (1 + s p(s)),    s = t^2
    t = (m - 1) / (m + 1), |t| <= 0.1716

p interpolates (atanh(t) / t - 1) / s in seven Chebyshev points, so that 1 + s p errs by 5e-18.
m - 1 is exact, m + 1 and the quotient are rounded, so that near 1, where k = 0, the logarithm errs
by a few u of itself; elsewhere it is at least 0.34, and k ln 2, whose upper part has 32 bits, adds
no more. Together at most 8 u of the value.
"""

from __future__ import annotations

from kernelite.cpu.kernels.compiling import helper
from kernelite.cpu.kernels.exp import LN2_LOWER, LN2_UPPER, bits_of, double_of

__all__ = ["log_positive"]

_HALF_ROOT = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_ROUNDER = 1.5 * 2.0**52  # whole numbers added to its bits are added to it
_ROUNDER_BITS = 0x4338000000000000
_P0, _P1, _P2, _P3, _P4, _P5, _P6 = (
    *(0.3333333333333335, 0.19999999999949652, 0.14285714313032352, 0.11111105560116714),
    *(0.09091445093018471, 0.07665843173087572, 0.073084426874254),
)


@helper
def log_positive(x: float) -> float:
    """log(x) within 8 u of itself for normal x; of zero, infinity and NaN some large number."""
    bits = bits_of(x)
    k = (bits - _HALF_ROOT) >> 52
    m = double_of(bits - (k << 52))
    n = double_of(k + _ROUNDER_BITS) - _ROUNDER
    t = (m - 1.0) / (m + 1.0)
    s = t * t
    p = _P5 + s * _P6
    p = _P4 + s * p
    p = _P3 + s * p
    p = _P2 + s * p
    p = _P1 + s * p
    p = _P0 + s * p
    series = t + t * (s * p)
    return (series + series + n * LN2_LOWER) + n * LN2_UPPER
