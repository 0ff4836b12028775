"""How a target rounds: one record each, which the rounding terms of all bounds are functions of.

A formula fixes a meaning in real numbers, not its rounding. Targets differ in what stands here:

    unit                what one operation may be off by, relatively
    exp, log, ...       what a function may be off by, in these units, of its value

All may take sums in any order, make a product and a sum one operation (fma), and lose what is
subnormal: bounds allow for it everywhere. Certificates are computed for `MODEL`, the arithmetic
that `series.rounding` describes; `worse` says how many times as much another target may round.
"""

from __future__ import annotations

from kernelite.support.records import dataclass

__all__ = ["C_SINGLE", "JAVASCRIPT", "MODEL", "NUMPY", "ONNX", "TORCH", "Arithmetic", "C"]

DOUBLE, SINGLE = 2.0**-53, 2.0**-24


@dataclass(frozen=True)
class Arithmetic:
    """What a target promises about its floating-point operations.

    Parameters
    ----------
    name : str
        What messages call the target.
    unit : float
        The relative error of +, -, * and /.
    exp, log, sqrt, tanh, sin : float
        The error of a function, in units, of its value.

    Examples
    --------
    >>> NUMPY.worse, ONNX.worse, C.proves, C_SINGLE.proves
    (1.0, 4.0, True, False)
    """

    name: str
    unit: float = DOUBLE
    exp: float = 8.0
    log: float = 8.0
    sqrt: float = 1.0
    tanh: float = 8.0
    sin: float = 8.0

    @property
    def worse(self) -> float:
        """How many times as much as `MODEL` it may round: that of its worst operation.

        Sums need no term: `MODEL` counts them in any order, with fused products or without.
        Neither do subnormal numbers: what underflows has a term of its own, far above them.
        """
        ratio = self.unit / MODEL.unit
        functions = ("exp", "log", "sqrt", "tanh", "sin")
        return ratio * max(1.0, *(getattr(self, f) / getattr(MODEL, f) for f in functions))

    @property
    def proves(self) -> bool:
        """Whether bounds hold on it: exponents of doubles are what all of them count on."""
        return self.unit == DOUBLE


FOREIGN = 32.0  # units of functions in libraries that are not ours to test: 16 ulp


def _foreign(name: str, unit: float = DOUBLE) -> Arithmetic:
    """Of a runtime or a compiler that somebody else chooses."""
    return Arithmetic(name, unit, FOREIGN, FOREIGN, 4.0, FOREIGN, FOREIGN)


MODEL = Arithmetic("the model of series.rounding")
NUMPY = Arithmetic("NumPy")  # and compiled kernels
TORCH = Arithmetic("torch")
ONNX = _foreign("ONNX")
C = _foreign("C")
C_SINGLE = _foreign("C in float32", SINGLE)
JAVASCRIPT = _foreign("JavaScript")
