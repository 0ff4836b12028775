"""What is claimed of 2^y and of `functions`, read from the constants in the source.

Each claim asks Sollya how far a polynomial is from its function, and Gappa how far the rounded
steps are from the polynomial, with and without fused multiply-adds (compilers fuse all or none).
A figure is the larger of the two; it must not exceed what the package states.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from fractions import Fraction
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

from kernelite.backends.cpu.fused_sums import EXP2_ERROR
from kernelite.backends.cpu.kernels import compiling, exp2
from tests.prove.functions import functions
from tests.prove.steps import (
    Claim,
    above,
    horner,
    in_x,
    interval,
    magnitude,
    rounded,
    rounding,
    unit_of,
)
from tests.prove.tools import dyadic, enclosures, in_sollya, largest, most_error, require

__all__ = ["Claim", "claims", "family"]

SIDES = {"256 bits": False, "512 bits": True}


def family(wide: bool) -> ModuleType:
    """The module `exp2` as processors with or without vectors of 512 bits have it."""
    name = f"tests.prove.exp2_{'wide' if wide else 'narrow'}"
    spec = importlib.util.spec_from_file_location(name, exp2.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with mock.patch.object(compiling, "wide_vectors", return_value=wide):
        sys.modules[name] = module  # where dataclasses look their module up
        spec.loader.exec_module(module)
    return module


def claims() -> Iterator[Claim]:
    """Everything that is to be proven."""
    for side, wide in SIDES.items():
        module = family(wide)
        for name, value in vars(module).items():
            if isinstance(value, module.Precision):
                yield from _powers(f"2^y, {name}, {side}", value)
    doubles = family(False).DOUBLE
    yield Claim("sin(pi f)", "f at most", Fraction(1, 2), lambda: _reduction(doubles, -(2.0**50)))
    yield from functions()


def _powers(subject: str, precision: Any) -> Iterator[Claim]:
    """Claims of one `Precision`: reduction, scaling and error of 2^y."""
    unit, pieces = unit_of(precision.size), precision.pieces
    width = Fraction(1, pieces) if pieces else Fraction(1, 2)
    yield Claim(subject, "f at most", width, lambda: _reduction(precision, precision.smallest))
    yield Claim(
        subject,
        "bits of the whole part beside the rounder",
        Fraction(0),
        lambda: Fraction(_bits_in_the_way(precision)),
    )
    if not pieces:
        yield Claim(subject, "1 - p(f) where f >= 0", Fraction(0), lambda: _short_of_one(precision))
    stated = EXP2_ERROR * unit + Fraction(precision.error)
    shown = Fraction(1) if precision.quick else unit
    yield Claim(
        subject,
        "error" if precision.quick else "error in units",
        Fraction(stated),
        lambda: max(_power_error(precision, fused) for fused in (True, False)),
        shown,
    )


def _reduction(precision: Any, least: float) -> Fraction:
    """The largest |f| for |y| <= -least; f is exact, or (pieces) its rounding is counted."""
    grid = precision.rounder / max(precision.pieces, 1)
    mode = "dn" if precision.pieces else "ne"
    head = (
        f"@rnd = float<ieee_{8 * precision.size},ne>;\n"
        f"@to = float<ieee_{8 * precision.size},{mode}>;\n"
        f"R = {dyadic(grid)}; y = rnd(y_); s = to(y + R); n = s - R; f = rnd(y - n);\n"
    )
    turned = "y - n -> -(s - (y + R));"
    if precision.pieces:
        ends = f"y in [{dyadic(least)}, {dyadic(-least)}]"
        low, high = enclosures(f"{head} {{ {ends} -> y - n in ? }} {turned}")[0]
        require(low == 0, "f may be negative")
        return high
    found = Fraction(0)
    for low, high in ((least, -0.5), (0.5, -least)):
        ends = f"y in [{dyadic(low)}, {dyadic(high)}]"
        f, gap = enclosures(f"{head} {{ {ends} -> y - n in ? /\\ f - (y - n) in ? }} {turned}")
        require(gap == (0, 0), "f may be rounded")
        found = max(found, -f[0], f[1])
    # Between, n is zero, and f is y.
    (n,) = enclosures(f"{head} {{ |y| <= 1b-1 -> n in ? }}")
    require(n == (0, 0), "a small y may have a whole part")
    return found


def _bits_in_the_way(precision: Any) -> int:
    """Bits of the rounder that would stay beside n where n is moved into, or looked up by."""
    rounder = np.array(precision.rounder / max(precision.pieces, 1), dtype=precision.dtype)
    whole = int(rounder.view(f"u{precision.size}"))
    kept = 3 if precision.pieces else 8 * precision.size - precision.mantissa
    return whole & ((1 << kept) - 1)


def _short_of_one(precision: Any) -> Fraction:
    """How far p(f) is below 1 for f >= 0; not at all: so 2^smallest p(f) has all its digits."""
    numbers = rounded(precision.polynomial, precision.size)
    text = rounding(precision.size) + "f = rnd(F);\n" + horner(numbers, "f", "f", True)
    low, _high = enclosures(f"{text} {{ F in [0, 1b-1] -> p0 in ? }}")[0]
    return max(1 - low, Fraction(0))


def _power_error(precision: Any, fused: bool) -> Fraction:
    """|computed / 2^y - 1|, at the exponent where least digits are left."""
    size, pieces = precision.size, precision.pieces
    numbers = rounded(precision.polynomial, size)
    low, high = (Fraction(0), Fraction(1, pieces)) if pieces else (Fraction(-1, 2), Fraction(1, 2))
    eps = above(most_error(in_x(numbers), "2^x", low, high))
    # Rounded down to pieces, f is itself rounded; else it is exact (`_reduction`).
    text = rounding(size) + ("f = rnd(F);\n" if pieces else "f = rnd(f_);\nF = f;\n")
    text += horner(numbers, "f", "F", fused)
    given = (
        f"F in [{dyadic(low)}, {dyadic(high)}] /\\ M in [1b-1, 3] /\\ P0 -/ M in {interval(eps)}"
    )
    if pieces and not (precision.quick or pieces > 1):  # quick ones may lose digits: cut off
        scale = dyadic(2.0**precision.smallest)
        text += f"r = rnd(p0 * {scale}); W = M * {scale};\n"
        return magnitude(f"{text} {{ {given} -> r -/ W in ? }} $ F in 16;")
    error = magnitude(f"{text} {{ {given} -> p0 -/ M in ? }} $ F in 16;")
    if pieces <= 1:
        return error
    table = max(
        largest(f"abs({in_sollya(2.0 ** (j / pieces))} / 2^({j}/{pieces}) - 1)")
        for j in range(pieces)
    )
    # Scaled by a power of two, the product is above 2^smallest, since p(0) = 1: rounded once.
    require(numbers[0] == 1, "p(0) is not 1")
    return (1 + table) * (1 + error) * (1 + unit_of(size)) - 1
