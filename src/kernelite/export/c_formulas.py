"""The operations of `kernelite.machine.ops` as C statements: kernels become C as they stand.

In: an expansion. Out: the text of `REAL NAME_kernel(const REAL *x, const REAL *c)`, a function of a
row and a center: first the sums over features that its formula asks for, then the formula.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import UnsupportedModelError
from kernelite.export.c_arrays import Writer
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import Kernel

__all__ = ["kernel_function"]

FUNCTIONS = frozenset({"log1p", "sin", "tanh"})  # of math.h, beside the operations below


def kernel_function(w: Writer, expansion: KernelExpansion, *, logarithm: bool = False) -> str:
    """C text of the kernel (an RBF one's logarithm, on request), and of its length scales.

    Examples
    --------
    >>> bump = KernelExpansion([[0.0]], [2.0], 0.5, gamma=2.0)
    >>> print(kernel_function(Writer("m"), bump))
    static inline double m_kernel(const double *x, const double *c)
    {
        double s0 = 0;
        int j;
        for (j = 0; j < m_WIDTH; j++) {
            s0 += (x[j] - c[j]) * (x[j] - c[j]);
        }
        const double v0 = s0 * -2.0;
        const double v1 = exp(v0);
        return v1;
    }
    <BLANKLINE>
    """
    made = _Statements(w)
    x, c = _Point(made, "x"), _Point(made, "c")
    if expansion.kernel == "rbf":
        exponent = made.squared_distances(x, c) * -expansion.gamma
        return made.text(exponent if logarithm else made.exp(exponent))
    return made.text(_value(expansion, x, c))


def _value(expansion: KernelExpansion, x: Any, c: Any) -> _Number:
    if isinstance(expansion.kernel, Kernel):
        return expansion.kernel.values(x, c)  # type: ignore[return-value]
    product = (x @ c.T) * expansion.gamma + expansion.coef0
    return product * product


class _Statements:
    """A function's body under construction, and the operations that add lines to it."""

    def __init__(self, w: Writer) -> None:
        self.w = w
        self.terms: list[str] = []  # what is summed over features
        self.lines: list[str] = []
        self.scales: list[NDArray[Any]] = []

    def text(self, found: _Number) -> str:
        """The whole text."""
        w = self.w
        arrays = "".join(w.array(f"length_scale_{i}", own) for i, own in enumerate(self.scales))
        sums = ", ".join(f"s{i} = 0" for i in range(len(self.terms)))
        adding = "".join(f"        s{i} += {term};\n" for i, term in enumerate(self.terms))
        lines = "".join(f"    {line}\n" for line in self.lines)
        return arrays + w.fill(
            "static inline REAL NAME_kernel(const REAL *x, const REAL *c)\n{\n"
            f"    REAL {sums};\n    int j;\n"
            f"    for (j = 0; j < NAME_WIDTH; j++) {{\n{adding}    }}\n"
            f"{lines}    return {found.text};\n}}\n"
        )

    def number(self, value: Any) -> str:
        """The text of an operand."""
        return value.text if isinstance(value, _Number) else self.w.literal(float(value))

    def line(self, text: str) -> _Number:
        """A value of its own."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"const REAL {name} = {text};")
        return _Number(self, name)

    def summed(self, term: str) -> _Number:
        """A sum over features; the same one once."""
        if term not in self.terms:
            self.terms.append(term)
        return _Number(self, f"s{self.terms.index(term)}")

    # Operations -------------------------------------------------------------------------------

    def squared_distances(self, x: _Point, c: _Point) -> _Number:
        """|x - c|^2."""
        gap = f"((x[j] - c[j]){x.scale})" if x.scale else "(x[j] - c[j])"
        return self.summed(f"{gap} * {gap}")

    def city_distances(self, x: _Point, c: _Point) -> _Number:
        """|x - c|_1."""
        return self.summed("MATH_fabs(x[j] - c[j])")

    def exp(self, x: _Number) -> _Number:
        """e^x."""
        return self.line(f"MATH_exp({x.text})")

    def log(self, x: _Number) -> _Number:
        """The natural logarithm."""
        return self.line(f"MATH_log({x.text})")

    def sqrt(self, x: _Number) -> _Number:
        """The square root."""
        return self.line(f"MATH_sqrt({x.text})")

    def minimum(self, x: _Number, y: Any) -> _Number:
        """The smaller of the two."""
        return self.where(x < y, x, y)

    def isnan(self, x: _Number) -> _Number:
        """Where it is not a number."""
        return _Number(self, f"({x.text} != {x.text})")

    def where(self, condition: _Number, yes: Any, no: Any) -> _Number:
        """`yes` where the condition holds, else `no`."""
        return self.line(f"{condition.text} ? {self.number(yes)} : {self.number(no)}")

    def function(self, name: str, x: _Number) -> _Number:
        """An elementary function by NumPy's name."""
        if name not in FUNCTIONS:
            raise UnsupportedModelError(f"its kernel calls numpy.{name}")
        return self.line(f"MATH_{name}({x.text})")


class _Point:
    """A row or a center; `scale` is what follows a difference of its features."""

    __array_ufunc__ = None

    def __init__(self, made: _Statements, name: str, scale: str = "") -> None:
        self.made, self.name, self.scale = made, name, scale

    def __array_namespace__(self) -> _Statements:
        return self.made

    @property
    def T(self) -> _Point:
        """Itself: one row."""
        return self

    def __truediv__(self, lengths: NDArray[Any]) -> _Point:
        scales = self.made.scales
        same = [i for i, known in enumerate(scales) if np.array_equal(known, lengths)]
        if not same:
            scales.append(lengths)
        place = same[0] if same else len(scales) - 1
        return _Point(self.made, self.name, f" / NAME_length_scale_{place}[j]")

    def __matmul__(self, other: _Point) -> _Number:
        return self.made.summed("x[j] * c[j]")


class _Number:
    """A value of the function; operators add lines."""

    def __init__(self, made: _Statements, text: str) -> None:
        self.made, self.text = made, text

    def __array_namespace__(self) -> _Statements:
        return self.made

    def _with(self, sign: str, other: Any, *, turned: bool = False) -> _Number:
        sides = self.text, self.made.number(other)
        left, right = sides[::-1] if turned else sides
        return self.made.line(f"{left} {sign} {right}")

    def __add__(self, other: Any) -> _Number:
        return self._with("+", other)

    def __radd__(self, other: Any) -> _Number:
        return self._with("+", other, turned=True)

    def __mul__(self, other: Any) -> _Number:
        return self._with("*", other)

    def __rmul__(self, other: Any) -> _Number:
        return self._with("*", other, turned=True)

    def __truediv__(self, other: Any) -> _Number:
        return self._with("/", other)

    def __rtruediv__(self, other: Any) -> _Number:
        return self._with("/", other, turned=True)

    def __neg__(self) -> _Number:
        return self.made.line(f"-{self.text}")

    def __gt__(self, other: Any) -> _Number:
        return _Number(self.made, f"({self.text} > {self.made.number(other)})")

    def __lt__(self, other: Any) -> _Number:
        return _Number(self.made, f"({self.text} < {self.made.number(other)})")
