"""C source text: numbers and labels as literals, templates, and the statements of formulas."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.model.export.emitting import Language
from kernelite.support.errors import InputError, UnsupportedModelError

__all__ = [
    "CLanguage",
    "Writer",
    "array",
    "check_name",
    "comment",
    "literal",
    "string",
    "whole",
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
    >>> Writer("m").define("CLASSES", "2")
    '#define m_CLASSES 2\n'
    >>> Writer("m", "float32").fill("REAL NAME_score")
    'float m_score'
    """

    name: str
    dtype: str = "float64"

    @property
    def real(self) -> str:
        """The type of its numbers."""
        return "float" if self.dtype == "float32" else "double"

    def define(self, macro: str, value: str) -> str:
        """`#define NAME_macro value`; `value` is template text."""
        return f"#define {self.name}_{macro} {self.fill(value)}\n"

    def template(self, file: str) -> str:
        """A file of the folder `templates`, filled in."""
        folder = resources.files("kernelite.backends.c").joinpath("templates")
        return self.fill(folder.joinpath(file).read_text("utf-8"))

    def fill(self, text: str) -> str:
        """Template text with its placeholders replaced."""
        return re.sub(r"\bREAL\b", self.real, re.sub(r"\bNAME_", f"{self.name}_", text))


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
    return repr(float(value) if math.isfinite(value) else float(np.nan_to_num(value)))


def whole(value: int, is_long: bool) -> str:
    """A whole number; -2^63 has no literal, since the sign is not part of one.

    Examples
    --------
    >>> whole(-7, False), whole(-(2**63), True)
    ('-7', '(-9223372036854775807LL - 1)')
    """
    if value == -(2**63):
        return f"({whole(value + 1, is_long)} - 1)"
    return f"{int(value)}LL" if is_long else str(int(value))


def array(name: str, values: NDArray[Any], dtype: str = "float64") -> str:
    """`static const double name[n] = {...};`; "int": of whole numbers.

    Examples
    --------
    >>> print(array("c", np.array([1.0, 2.5])))
    static const double c[2] = {1.0, 2.5};
    """
    kind = {"float32": "float", "int": "int"}.get(dtype, "double")
    lines, line = [], ""
    for value in values.tolist():
        token = str(int(value)) if dtype == "int" else literal(value, dtype)
        if line and len(line) + len(token) + 2 > WIDTH - 4:
            lines.append(line + ",")
            line = token
        else:
            line = f"{line}, {token}" if line else token
    text = "\n    ".join(["", *lines, line] if lines else [line])
    return f"static const {kind} {name}[{len(values)}] = {{{text}}};\n"


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


# Statements of C99, for formulas that `model.export.emitting` writes.

C_FUNCTIONS = {
    "abs": "fabs",
    "arcsinh": "asinh",
    "arctan": "atan",
    **{name: name for name in ("cbrt", "erf", "exp", "exp2", "expm1", "log", "log10", "log1p")},
    **{name: name for name in ("log2", "sin", "sinh", "sqrt", "tanh")},
}
"""Of math.h, by the names of NumPy's functions and of `machine.ops`."""


class CLanguage(Language):
    """C99 in one precision.

    Examples
    --------
    >>> CLanguage("float32").operate("exp", ["x"])
    'expf(x)'
    """

    name = "C"

    def __init__(self, dtype: str = "float64") -> None:
        self.dtype = dtype
        self.kinds = {"f": "float" if dtype == "float32" else "double", "i": "int", "b": "int"}
        end = "f" if dtype == "float32" else ""
        self.functions = {op: f"{name}{end}({{}})" for op, name in C_FUNCTIONS.items()}
        self.functions |= {"nextafter": f"nextafter{end}({{}}, {{}})", "to_i": "(int){}"}

    def literal(self, value: float, kind: str) -> str:
        """A number."""
        if kind != "f":
            return str(int(value))
        if np.isinf(value):
            return "INFINITY" if value > 0 else "-INFINITY"
        return "NAN" if np.isnan(value) else literal(float(value), self.dtype)

    def held(self, name: str, size: int, kind: str) -> str:
        """The declaration of an array."""
        return f"{self.kinds[kind]} {name}[{size}];"

    def variable(self, name: str, kind: str, value: str, *, fixed: bool = False) -> str:
        """The declaration of a scalar."""
        return f"{'const ' if fixed else ''}{self.kinds[kind]} {name} = {value};"

    def loop(self, index: str, start: str, stop: int) -> str:
        """The line that opens a loop."""
        return f"for (int {index} = {start}; {index} < {stop}; {index}++) {{"

    def table(self, name: str, values: NDArray[Any], kind: str) -> str:
        """The definition of an array of constants."""
        return array(name, values, self.dtype if kind == "f" else "int")
