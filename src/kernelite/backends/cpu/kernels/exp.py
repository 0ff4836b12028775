"""exp(x) for x <= 0 in plain arithmetic, so that loops over it become vector instructions.

    x = n ln 2 + r, |r| <= ln 2 / 2 (1 + 2^-40):   exp(x) = 2^n (1 + r + r^2/2 + ... + r^13/13!)

The series leaves out 0.05 u (u = 2^-53); r is off by 0.25 u, its own rounding, because n times the
upper part of ln 2 is exact; Horner's last steps round by less than 1.25 u. `make prove` proves
1.6 u in all, hence at most 2 ulp (the tests hold 1.2). Below -708, where results would become
denormal, the answer is 0; at 0 it is 1.
"""

from __future__ import annotations

import math
from typing import Any

from kernelite.backends.cpu.kernels.compiling import helper, instruction, ir, types

__all__ = ["LN2_LOWER", "LN2_UPPER", "SMALLEST_EXPONENT", "exp_nonpositive"]

SMALLEST_EXPONENT = -708.0  # exp(-708) = 3.3e-308 is still normal
_LOG2_E = 1.0 / math.log(2.0)
# ln 2 = upper + lower; the upper part has 32 bits, so n times it is exact for n < 2^21.
LN2_UPPER = float.fromhex("0x1.62e42feep-1")
LN2_LOWER = float.fromhex("0x1.a39ef35793c76p-33")
_ROUNDER = 1.5 * 2.0**52  # adding it rounds to an integer, which stays in the lowest bits
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13 = (
    1.0 / math.factorial(j) for j in range(2, 14)
)


@instruction(types.int64(types.float64))
def bits_of(builder: Any, value: Any) -> Any:
    """The 64 bits of a double as an integer."""
    return builder.bitcast(value, ir.IntType(64))


@instruction(types.float64(types.int64))
def double_of(builder: Any, bits: Any) -> Any:
    """The double with these 64 bits."""
    return builder.bitcast(bits, ir.DoubleType())


@helper
def exp_nonpositive(x: float) -> float:
    """exp(x) within 2 ulp for -708 <= x <= 0, 0 for smaller x, -inf included; NaN stays NaN."""
    y = SMALLEST_EXPONENT if x < SMALLEST_EXPONENT else x
    shifted = y * _LOG2_E + _ROUNDER
    n = shifted - _ROUNDER
    r = (y - n * LN2_UPPER) - n * LN2_LOWER
    s = _C12 + r * _C13
    s = _C11 + r * s
    s = _C10 + r * s
    s = _C9 + r * s
    s = _C8 + r * s
    s = _C7 + r * s
    s = _C6 + r * s
    s = _C5 + r * s
    s = _C4 + r * s
    s = _C3 + r * s
    s = _C2 + r * s
    mantissa = 1.0 + (r + (r * r) * s)
    # The low bits of `shifted` hold n: moved to the exponent's place they make 2^n.
    scale = double_of((bits_of(shifted) + 1023) << 52)
    return 0.0 if x < SMALLEST_EXPONENT else mantissa * scale
