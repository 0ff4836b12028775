"""log(x) for positive x in plain arithmetic, so that loops over it become vector instructions.

    x = 2^k m, sqrt(1/2) <= m < sqrt(2):   log(x) = k ln 2 + 2 (t + t^3/3 + ... + t^23/23)
    t = (m - 1) / (m + 1), |t| <= 0.1716

The series leaves out less than 1e-18 of itself. m - 1 is exact, m + 1 and the quotient are rounded,
so that near 1, where k = 0, the logarithm errs by a few u of itself; elsewhere it is at least 0.34,
and k ln 2, whose upper part has 32 bits, adds no more. Together at most 8 u of the value.
"""

from __future__ import annotations

from kernelite.cpu.kernels.compiling import helper
from kernelite.cpu.kernels.exp import LN2_LOWER, LN2_UPPER, bits_of, double_of

__all__ = ["log_positive"]

_HALF_ROOT = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_ROUNDER = 1.5 * 2.0**52  # whole numbers added to its bits are added to it
_ROUNDER_BITS = 0x4338000000000000
_C3, _C5, _C7, _C9, _C11, _C13, _C15, _C17, _C19, _C21, _C23 = (1.0 / n for n in range(3, 24, 2))


@helper
def log_positive(x: float) -> float:
    """log(x) within 8 u of itself for normal x; of zero, infinity and NaN some large number."""
    bits = bits_of(x)
    k = (bits - _HALF_ROOT) >> 52
    m = double_of(bits - (k << 52))
    n = double_of(k + _ROUNDER_BITS) - _ROUNDER
    t = (m - 1.0) / (m + 1.0)
    s = t * t
    p = _C21 + s * _C23
    p = _C19 + s * p
    p = _C17 + s * p
    p = _C15 + s * p
    p = _C13 + s * p
    p = _C11 + s * p
    p = _C9 + s * p
    p = _C7 + s * p
    p = _C5 + s * p
    p = _C3 + s * p
    series = t + t * (s * p)
    return (series + series + n * LN2_LOWER) + n * LN2_UPPER
