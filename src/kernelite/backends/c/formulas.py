"""C source text: numbers and labels as literals, then kernels as functions.

The operations of `kernelite.machine.ops` become C statements, and so kernels C as they stand. In:
an expansion. Out: the text of `REAL NAME_kernel(const REAL *x, const REAL *c)`, a function of a row
and a center: first the sums over features that its formula asks for, then the formula.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.machine.expansion import KernelExpansion
from kernelite.support.errors import InputError, UnsupportedModelError

__all__ = [
    "Writer",
    "array",
    "check_name",
    "comment",
    "constant_bytes",
    "kernel_function",
    "literal",
    "string",
]

# Numbers and labels as C99 source text.
#
# In: arrays and strings. Out: `static const` definitions whose literals read back to the same bits.

WIDTH = 96
LONGEST_STRING = 4095  # what a C99 compiler has to accept
_KEYWORDS = """auto break case char const continue default do double else enum extern float for goto
if inline int long register restrict return short signed sizeof static struct switch typedef union
unsigned void volatile while main"""


@dataclass(frozen=True)
class Writer:
    r"""Names and precision of one header. Users' text never goes through `template`.

    Parameters
    ----------
    name : str
        What stands for NAME in the templates.
    dtype : {"float64", "float32"}
        What REAL is.

    Examples
    --------
    >>> Writer("m").define("CELLS", "1")
    '#define m_CELLS 1\n'
    >>> Writer("m", "float32").fill("REAL NAME_score")
    'float m_score'
    """

    name: str
    dtype: str = "float64"

    def define(self, macro: str, value: str) -> str:
        """`#define NAME_macro value`; `value` is template text."""
        return f"#define {self.name}_{macro} {self.fill(value)}\n"

    def array(self, name: str, values: NDArray[Any], dtype: str | None = None) -> str:
        """`static const REAL NAME_name[...] = {...};`"""
        return array(f"{self.name}_{name}", values, dtype or self.dtype)

    def literal(self, value: float) -> str:
        """A number of the header's precision."""
        return literal(value, self.dtype)

    def template(self, file: str) -> str:
        """A file of the folder `templates`, filled in."""
        folder = resources.files("kernelite.backends.c").joinpath("templates")
        return self.fill(folder.joinpath(file).read_text("utf-8"))

    def fill(self, text: str) -> str:
        """Template text with its placeholders replaced; MATH_exp is `exp`, or `expf`."""
        real, end = ("float", "f") if self.dtype == "float32" else ("double", "")
        text = re.sub(r"\bMATH_(\w+)\b", rf"\1{end}", text)
        return re.sub(r"\bREAL\b", real, re.sub(r"\bNAME_", f"{self.name}_", text))


def check_name(name: str) -> str:
    """A prefix for C identifiers, or an error.

    Examples
    --------
    >>> check_name("ijcnn1")
    'ijcnn1'
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,30}", name) or name in _KEYWORDS.split():
        raise InputError(
            f"`name` must be a C identifier of at most 31 letters, digits and underscores that "
            f"begins with a letter, got {name!r}."
        )
    return name


def literal(value: float, dtype: str = "float64") -> str:
    """The shortest literal that gives this number back.

    Examples
    --------
    >>> literal(0.1), literal(2.0), literal(0.1, "float32"), literal(float("inf"))
    ('0.1', '2.0', '0.1f', '1.7976931348623157e+308')
    """
    if dtype == "float32":
        single = np.float32(value)
        if not np.isfinite(single):
            raise UnsupportedModelError(
                f"this model holds {value:.3g}, which float32 cannot; export it in float64."
            )
        return f"{float(str(single))!r}f"
    # Only bounds may be infinite; the largest number is as good a bound.
    return repr(float(np.nan_to_num(value)))


def array(name: str, values: NDArray[Any], dtype: str = "float64") -> str:
    """`static const double name[a][b] = {...};`; "int": of whole numbers.

    Examples
    --------
    >>> print(array("c", np.array([[1.0, 2.5]])))
    static const double c[1][2] = {
        {1.0, 2.5}};
    """
    kind = {"float32": "float", "int": "int"}.get(dtype, "double")
    shape = "".join(f"[{length}]" for length in values.shape)
    return f"static const {kind} {name}{shape} = {_braced(values, dtype, 1)};\n"


def constant_bytes(text: str) -> int:
    """Bytes of all `static const` arrays of numbers in generated text.

    Examples
    --------
    >>> constant_bytes(array("c", np.ones((3, 2))))
    48
    """
    total = 0
    for kind, shape in re.findall(r"^static const (\w+) \w+((?:\[\d+\])+) =", text, re.MULTILINE):
        lengths = [int(length) for length in re.findall(r"\d+", shape)]
        total += {"double": 8, "float": 4, "long": 8}.get(kind, 0) * int(np.prod(lengths))
    return total


def string(text: str) -> str:
    """A C string literal in UTF-8.

    Examples
    --------
    >>> print(string('say "what??" \\n'))
    "say \\"what\\?\\?\\" \\012"
    """
    data = text.encode("utf-8", "replace")
    if data.decode("utf-8") != text or b"\0" in data or len(data) > LONGEST_STRING:
        raise UnsupportedModelError(f"the label {text[:40]!r} cannot be a C string.")
    # Octal escapes have at most three digits, so what follows cannot run into them; `?` is
    # escaped because of trigraphs.
    special = {ord(c): f"\\{c}" for c in '"\\?'}
    escaped = (special.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in data)
    return f'"{"".join(escaped)}"'


def comment(*lines: str) -> str:
    """Text as a C comment that it cannot end or bend.

    Examples
    --------
    >>> print(comment("a */ b"), end="")
    /* a * / b */
    """
    safe = []
    for line in lines:
        plain = "".join(c if 32 <= ord(c) < 127 else "?" for c in line)
        plain = plain.replace("*/", "* /").replace("/*", "/ *")
        # No trigraphs, and no line that goes on in the next.
        safe.append(re.sub(r"\?(?=\?)", "? ", plain).rstrip("\\ "))
    return "/* " + "\n   ".join(safe) + " */\n"


def _braced(values: NDArray[Any], dtype: str, depth: int) -> str:
    if values.ndim > 1:
        inner = (",\n" + "    " * depth).join(_braced(row, dtype, depth + 1) for row in values)
        return "{\n" + "    " * depth + inner + "}"
    lines, line = [], ""
    for value in values:
        token = str(int(value)) if dtype == "int" else literal(float(value), dtype)
        if line and len(line) + len(token) + 2 > WIDTH - 4 * depth:
            lines.append(line + ",")
            line = token
        else:
            line = f"{line}, {token}" if line else token
    return "{" + ("\n" + "    " * depth).join([*lines, line]) + "}"


# Kernels as C functions.

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
    if expansion.kernel.damps:
        exponent = made.squared_distances(x, c) * -expansion.gamma
        return made.text(exponent if logarithm else made.exp(exponent))
    return made.text(_value(expansion, x, c))


def _value(expansion: KernelExpansion, x: Any, c: Any) -> _Number:
    if not expansion.has_series:
        return expansion.kernel.values(x, c)  # type: ignore[return-value]
    product = (x @ c.T) * expansion.gamma + expansion.coef0
    return product * product


def _call(name: str) -> Any:
    """A function of math.h as an operation."""
    return lambda self, x: self.line(f"MATH_{name}({x.text})")


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

    exp, log, sqrt = _call("exp"), _call("log"), _call("sqrt")

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
        return _call(name)(self, x)


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


def _operator(sign: str, *, turned: bool = False) -> Any:
    """An operator of Python's that adds a line."""

    def operate(self: _Number, other: Any) -> _Number:
        sides = self.text, self.made.number(other)
        left, right = sides[::-1] if turned else sides
        return self.made.line(f"{left} {sign} {right}")

    return operate


class _Number:
    """A value of the function; operators add lines."""

    def __init__(self, made: _Statements, text: str) -> None:
        self.made, self.text = made, text

    def __array_namespace__(self) -> _Statements:
        return self.made

    __add__, __radd__ = _operator("+"), _operator("+", turned=True)
    __mul__, __rmul__ = _operator("*"), _operator("*", turned=True)
    __truediv__, __rtruediv__ = _operator("/"), _operator("/", turned=True)

    def __neg__(self) -> _Number:
        return self.made.line(f"-{self.text}")

    def __gt__(self, other: Any) -> _Number:
        return _Number(self.made, f"({self.text} > {self.made.number(other)})")

    def __lt__(self, other: Any) -> _Number:
        return _Number(self.made, f"({self.text} < {self.made.number(other)})")
