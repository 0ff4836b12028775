"""A claim, and rounded steps of a polynomial in the words of Gappa and Sollya."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tests.prove.tools import dyadic, enclosures, in_sollya

__all__ = [
    "Claim",
    "above",
    "horner",
    "in_x",
    "interval",
    "magnitude",
    "rounded",
    "rounding",
    "unit_of",
]


@dataclass(frozen=True)
class Claim:
    """A number that the package states, and how it is found.

    Parameters
    ----------
    subject : str
    what : str
    stated : Fraction
        What the figure may be at most.
    find : callable
        Gives the figure.
    unit : Fraction
        In which both are printed.
    """

    subject: str
    what: str
    stated: Fraction
    find: Callable[[], Fraction]
    unit: Fraction = Fraction(1)


def rounding(size: int) -> str:
    """Gappa's word for numbers of so many bytes, rounded to nearest."""
    return f"@rnd = float<ieee_{8 * size},ne>;\n"


def unit_of(size: int) -> Fraction:
    """u, or v of single precision."""
    return Fraction(1, 1 << (24 if size == 4 else 53))


def rounded(numbers: Sequence[float], size: int) -> list[Fraction]:
    """Constants as instructions have them."""
    return [Fraction(float(np.float32(one) if size == 4 else one)) for one in numbers]


def horner(numbers: Sequence[Fraction], at: str, exactly: str, fused: bool) -> str:
    """p(at) in rounded steps as `p0`, p(exactly) without rounding as `P0`."""
    last = len(numbers) - 1
    lines = [f"p{last} = {dyadic(numbers[last])};", f"P{last} = p{last};"]
    for j in range(last - 1, -1, -1):
        c = dyadic(numbers[j])
        product = f"p{j + 1} * {at}" if fused else f"rnd(p{j + 1} * {at})"
        lines += [f"p{j} = rnd({product} + {c});", f"P{j} = P{j + 1} * {exactly} + {c};"]
    return "\n".join(lines) + "\n"


def in_x(numbers: Sequence[Fraction], x: str = "x") -> str:
    """A polynomial as Sollya reads it."""
    text = "0"
    for one in reversed(numbers):
        text = f"{in_sollya(one)} + {x} * ({text})"
    return text


def interval(most: Fraction) -> str:
    """From -most to most, as Gappa reads it."""
    return f"[-{dyadic(most)}, {dyadic(most)}]"


def above(value: Fraction) -> Fraction:
    """A number of 60 bits that is not below a positive one."""
    places = 60 - (value.numerator.bit_length() - value.denominator.bit_length())
    scaled = value * Fraction(2) ** places
    return Fraction(-(-scaled.numerator // scaled.denominator)) / Fraction(2) ** places


def magnitude(text: str) -> Fraction:
    """The largest magnitude in Gappa's first enclosure."""
    return max(abs(end) for end in enclosures(text)[0])
