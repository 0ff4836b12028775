"""How a target rounds: one record each, which the rounding terms of all bounds are functions of.

A formula fixes a meaning in real numbers, not its rounding. What a target may do to it stands here:

    unit                what one operation may be off by, relatively
    exp, log, ...       what a function may be off by, in these units, of its value
    contracts           whether a product and a sum may become one operation (fma)
    reassociates        whether sums may be taken in any order
    subnormals          whether results below 2.2e-308 are kept, or become zero

Certificates are computed for `MODEL`, the arithmetic that `series.rounding` describes; `worse` says
how many times as much another target may round. Error-free transformations ask `error_free` first.
"""

from __future__ import annotations

from kernelite.support.records import dataclass

__all__ = ["C_SINGLE", "JAVASCRIPT", "MODEL", "NATIVE", "NUMPY", "ONNX", "TORCH", "Arithmetic", "C"]

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
    contracts, reassociates, subnormals : bool
        As the module says.

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
    contracts: bool = True
    reassociates: bool = True
    subnormals: bool = True

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

    @property
    def error_free(self) -> bool:
        """Whether sums and products in two words come out as they are written."""
        return not (self.contracts or self.reassociates)


FOREIGN = 32.0  # units of functions in libraries that are not ours to test: 16 ulp


def _foreign(name: str, *, unit: float = DOUBLE, contracts: bool, reassociates: bool) -> Arithmetic:
    """Of a runtime or a compiler that somebody else chooses."""
    return Arithmetic(
        name,
        unit,
        *(FOREIGN, FOREIGN, 4.0, FOREIGN, FOREIGN),
        contracts=contracts,
        reassociates=reassociates,
        subnormals=False,
    )


MODEL = Arithmetic("the model of series.rounding")
NUMPY = Arithmetic("NumPy", contracts=False)  # sums by blocks and by BLAS
NATIVE = Arithmetic("kernels")  # compiled with fused products and reordered sums
TORCH = Arithmetic("torch")
ONNX = _foreign("ONNX", contracts=True, reassociates=True)
C = _foreign("C", contracts=True, reassociates=False)
C_SINGLE = _foreign("C in float32", unit=SINGLE, contracts=True, reassociates=False)
JAVASCRIPT = _foreign("JavaScript", contracts=False, reassociates=False)
