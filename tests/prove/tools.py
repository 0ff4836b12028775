"""Sollya and Gappa as functions: questions in, proven numbers out.

Numbers pass between Python, Sollya and Gappa exactly, as `m b e`, that is m 2^e.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from fractions import Fraction
from functools import cache

__all__ = [
    *("Unproven", "dyadic", "enclosures", "in_sollya", "largest"),
    *("missing", "most_error", "require"),
]

TOOLS = ("sollya", "gappa")
SECONDS = 120  # that a question may take; all take under ten
_NUMBER = re.compile(r"(-?\d+)(?:b(-?\d+))?")


class Unproven(Exception):
    """A tool found no answer."""


def require(holds: bool, otherwise: str) -> None:
    """Give a proof up that rests on what does not hold."""
    if not holds:
        raise Unproven(f"{otherwise}.")


def missing() -> list[str]:
    """The tools that are not installed."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def dyadic(value: float | Fraction) -> str:
    """A number whose denominator is a power of two, as Gappa reads it.

    Examples
    --------
    >>> dyadic(0.75), dyadic(-2.0)
    ('3b-2', '-2b0')
    """
    exact = Fraction(value)
    places = exact.denominator.bit_length() - 1
    assert exact.denominator == 1 << places
    return f"{exact.numerator}b{-places}"


def in_sollya(value: float | Fraction) -> str:
    """A rational number as Sollya reads it."""
    exact = Fraction(value)
    return f"({exact.numerator}/{exact.denominator})"


@cache
def most_error(polynomial: str, function: str, low: Fraction, high: Fraction) -> Fraction:
    """At least the largest |polynomial / function - 1| on [low, high]; both are written in x."""
    text = (
        "prec = 400!; verbosity = 0!; display = dyadic!;"
        f"print(sup(supnorm({polynomial}, {function}, [{in_sollya(low)}; {in_sollya(high)}], "
        "relative, 2^(-12)))); quit;"
    )
    return _number(_run("sollya", text).strip())


@cache
def largest(expression: str) -> Fraction:
    """At least the value of a constant expression."""
    text = f"prec = 400!; verbosity = 0!; display = dyadic!; print(sup([{expression}])); quit;"
    return _number(_run("sollya", text).strip())


def enclosures(text: str) -> list[tuple[Fraction, Fraction]]:
    """What Gappa proves of every `in ?`, in their order."""
    found, answer = [], _run("gappa", text)
    if "trivially equal" in answer:  # of a hint that it could not check
        raise Unproven(f"Gappa warns: {answer}")
    for line in answer.splitlines():
        if " in [" in line:
            ends = re.sub(r"\{[^}]*\}", "", line.rsplit(" in [", 1)[1]).strip(" ]").split(",")
            found.append((_number(ends[0].strip()), _number(ends[-1].strip())))
    if len(found) != text.count("in ?"):
        raise Unproven(f"Gappa answered {len(found)} of {text.count('in ?')} questions.")
    return found


def _number(text: str) -> Fraction:
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise Unproven(f"no number was found: {text!r}")
    return int(found[1]) * Fraction(2) ** int(found[2] or 0)


def _run(tool: str, text: str) -> str:
    """A tool's words about a script; Gappa says on stderr what it proves."""
    done = subprocess.run(
        [tool], input=text, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return done.stdout + (done.stderr if tool == "gappa" else "")
