"""Vectors of doubles as arrays of `machine.ops`: a formula that is traced becomes instructions.

In: a formula, such as a kernel's `profile`, and a vector of its argument. Out: the same formula in
LLVM's instructions, one number per lane. A factor that is known when a formula is traced waits in
`Lanes.factor` until it has to be multiplied, so that exp(-x / 2) takes one multiplication:

    exp(x) = 2^(x log2 e),    log(x) = log2(x) ln 2

The powers and logarithms are those of `exp2`: 2^y errs by 6 units and log2 by 8. exp vanishes below
exp(-708), log1p puts back what 1 + x rounds off, and sin errs by 4 units of itself and by 3 units
of its argument, since that is multiplied by 1 / pi, and its whole part is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernelite.backends.cpu.kernels.compiling import CONTRACT
from kernelite.backends.cpu.kernels.exp2 import Code
from kernelite.series.rounding import LOG2_E
from kernelite.support.errors import KerneliteError

__all__ = ["LaneOps", "Lanes", "traceable"]

LN2 = 0.6931471805599453
LEAST_EXPONENT = -708.0 * LOG2_E  # from here on exp is zero, as it nearly is: labels may hang on it
LARGEST_POWER = 1023.99
LARGEST_SUMMAND = 1e300  # to which 1 may be added without overflow
LARGEST_TURNS = 2.0**50  # half turns of an angle, from which on they have no fraction
# sin(pi f) / f in powers of f^2, of least error for |f| <= 1/2: 0.4 u relatively.
SINE = (
    *(3.141592653589793, -5.167712780049969, 2.5501640398773007, -0.5992645293189447),
    *(0.0821458865731029, -0.007370430505916944, 0.0004662998161898394, -2.1903497074626018e-05),
    7.697826768224191e-07,
)


@dataclass(frozen=True)
class Lanes:
    """A number per lane, times a factor that is the same in all.

    Parameters
    ----------
    ops : LaneOps
    vector : LLVM's value
    factor : float
    fixed : bool
        Whether it is the same in all passes of a loop, so that dividing by it costs nothing there.
    """

    ops: LaneOps
    vector: Any
    factor: float = 1.0
    fixed: bool = False

    def __array_namespace__(self) -> LaneOps:
        return self.ops

    @property
    def value(self) -> Any:
        """LLVM's vector, multiplied."""
        if self.factor == 1.0:
            return self.vector
        code = self.ops.code
        return code.builder.fmul(self.vector, code.all_lanes(self.factor), flags=CONTRACT)

    def _with(self, vector: Any, other: Any = None, factor: float = 1.0) -> Lanes:
        return Lanes(self.ops, vector, factor, self.fixed and getattr(other, "fixed", True))

    def __neg__(self) -> Lanes:
        return self._with(self.vector, factor=-self.factor)

    def __mul__(self, other: Any) -> Lanes:
        if not isinstance(other, Lanes):
            return self._with(self.vector, factor=self.factor * float(other))
        product = self.ops.code.builder.fmul(self.vector, other.vector, flags=CONTRACT)
        return self._with(product, other, self.factor * other.factor)

    def __truediv__(self, other: Any) -> Lanes:
        if not isinstance(other, Lanes):
            return self * (1.0 / other)
        return self * (1.0 / other) if other.fixed else self._divided(other)

    def __rtruediv__(self, other: float) -> Lanes:
        top = self.ops.code.all_lanes(other / self.factor)
        return self._with(self.ops.code.builder.fdiv(top, self.vector))

    def _divided(self, other: Lanes) -> Lanes:
        quotient = self.ops.code.builder.fdiv(self.vector, other.vector)
        return self._with(quotient, other, self.factor / other.factor)

    def __add__(self, other: Any) -> Lanes:
        added = self.ops.vector(other)
        return self._with(self.ops.code.builder.fadd(self.value, added, flags=CONTRACT), other)

    def __sub__(self, other: Any) -> Lanes:
        return self + -other

    def __rsub__(self, other: Any) -> Lanes:
        return -self + other

    __rmul__, __radd__ = __mul__, __add__

    def _compared(self, how: str, other: Any) -> Any:
        return self.ops.code.builder.fcmp_ordered(how, self.value, self.ops.vector(other))

    def __lt__(self, other: Any) -> Any:
        return self._compared("<", other)

    def __le__(self, other: Any) -> Any:
        return self._compared("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._compared(">", other)

    def __ge__(self, other: Any) -> Any:
        return self._compared(">=", other)


class LaneOps:
    """The operations of `machine.ops` on lanes of doubles; others raise AttributeError."""

    def __init__(self, code: Code) -> None:
        self.code = code

    def vector(self, value: Any) -> Any:
        """LLVM's vector of a `Lanes`, or of a number."""
        return value.value if isinstance(value, Lanes) else self.code.all_lanes(float(value))

    def where(self, condition: Any, chosen: Any, other: Any) -> Lanes:
        """One or the other, lane by lane."""
        made = self.code.builder.select(condition, self.vector(chosen), self.vector(other))
        return Lanes(self, made)

    def minimum(self, x: Lanes, limit: Any) -> Lanes:
        """The smaller of both; the limit where x is not a number."""
        return self.where(x < limit, x, limit)

    def maximum(self, x: Lanes, limit: Any) -> Lanes:
        """The larger of both; the limit where x is not a number."""
        return self.where(x > limit, x, limit)

    def abs(self, x: Lanes) -> Lanes:
        """The size."""
        return Lanes(self, self.code.magnitude(x.value))

    def isnan(self, x: Lanes) -> Any:
        """Whether it is not a number."""
        value = x.value
        return self.code.builder.fcmp_unordered("uno", value, value)

    def sqrt(self, x: Lanes) -> Lanes:
        """The root, correctly rounded."""
        return Lanes(self, self.code.sqrt(x.value))

    def exp(self, x: Lanes) -> Lanes:
        """The exponential; zero below exp(-708), and where x is not a number."""
        builder, code = self.code.builder, self.code
        y = (x * LOG2_E).value
        near = builder.fcmp_ordered(">", y, code.all_lanes(LEAST_EXPONENT))
        # Vectors of 512 bits have an instruction that overflows to infinity by itself.
        y = y if code.precision.pieces else code.at_most(y, LARGEST_POWER)
        found = code.exp2_inside(y)
        return Lanes(self, builder.select(near, found, code.all_lanes(0.0)))

    def log(self, x: Lanes) -> Lanes:
        """The logarithm of numbers that are positive and normal; of others, some number."""
        return Lanes(self, self.code.log2(x.value), LN2)

    def function(self, name: str, x: Lanes) -> Lanes:
        """An elementary function by NumPy's name."""
        if name not in _FUNCTIONS:
            raise AttributeError(f"no kernel is compiled with {name}.")
        return _FUNCTIONS[name](self, x)


def _log1p(ops: LaneOps, x: Lanes) -> Lanes:
    """log(1 + x) of numbers that are not negative; what 1 + x rounds off is put back."""
    code, builder = ops.code, ops.code.builder
    one, v = code.all_lanes(1.0), code.at_most(x.value, LARGEST_SUMMAND)
    w = builder.fadd(one, v)
    lost = builder.fdiv(builder.fsub(v, builder.fsub(w, one)), w)
    return Lanes(ops, code.multiply_add(lost, code.all_lanes(LOG2_E), code.log2(w)), LN2)


def _sin(ops: LaneOps, x: Lanes) -> Lanes:
    """The sine, of x / pi without its whole part: f p(f^2), |f| <= 1/2; 0 where there is none."""
    code, builder = ops.code, ops.code.builder
    turns, rounder = (x * (1.0 / math.pi)).value, code.all_lanes(code.precision.rounder)
    shifted = builder.fadd(turns, rounder)
    f = builder.fsub(turns, builder.fsub(shifted, rounder))
    known = builder.fcmp_ordered("<", code.magnitude(turns), code.all_lanes(LARGEST_TURNS))
    f = builder.select(known, f, code.all_lanes(0.0))
    square, p = builder.fmul(f, f), code.all_lanes(SINE[-1])
    for coefficient in reversed(SINE[:-1]):
        p = code.multiply_add(p, square, code.all_lanes(coefficient))
    # Of an odd number of half turns, the last bit of `shifted` is the sign.
    odd = builder.shl(builder.bitcast(shifted, code.precision.bits), code.all_bits(63))
    sine = builder.bitcast(builder.fmul(f, p), code.precision.bits)
    return Lanes(ops, builder.bitcast(builder.xor(sine, odd), code.precision.vector))


_FUNCTIONS = {"log1p": _log1p, "sin": _sin}


class _Dry:
    """Stands for lanes where a formula is only looked at: it knows what they can do."""

    fixed = True

    def __array_namespace__(self) -> _Dry:
        return self

    def __getattr__(self, name: str) -> Callable[..., _Dry]:
        if name not in vars(LaneOps):
            raise AttributeError(name)
        return lambda *_: self

    def function(self, name: str, _x: Any) -> _Dry:
        if name not in _FUNCTIONS:
            raise AttributeError(name)
        return self

    def _same(self, *_: Any) -> _Dry:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _same
    __rtruediv__ = __neg__ = __lt__ = __le__ = __gt__ = __ge__ = _same


def traceable(formula: Callable[[Any], Any]) -> bool:
    """Whether a formula keeps to what lanes can do.

    Examples
    --------
    >>> from kernelite.machine.ops import ops
    >>> traceable(lambda x: ops(x).exp(-x)), traceable(lambda x: ops(x).erf(x))
    (True, False)
    """
    try:
        formula(_Dry())
    except (AttributeError, TypeError, KerneliteError):
        return False
    return True
