"""What is claimed of exponentials, logarithms and sines, read from the constants in the source.

Each claim asks Sollya how far a polynomial is from its function, and Gappa how far the rounded
steps are from the polynomial, with and without fused multiply-adds (compilers fuse all or none).
A figure is the larger of the two; it must not exceed what the package states.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

from kernelite.cpu.fused_sums import EXP2_ERROR
from kernelite.cpu.kernels import compiling, exp, exp2, radial
from tests.prove.tools import dyadic, enclosures, in_sollya, largest, most_error

__all__ = ["Claim", "claims", "family"]

LOG2_ERROR = 8  # units, as `radial` and `exp2` state
SINE_ERROR = 4  # units, as `radial` states
EXP_ERROR, SINGLE_EXP_ERROR = 2, 8  # units, as `exp` states
SIDES = {"256 bits": False, "512 bits": True}


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
    yield from _odd("log2(x)", exp2.LOG2, "log2((1 + x) / (1 - x))", _quotient(), LOG2_ERROR)
    doubles = family(False).DOUBLE
    yield Claim("sin(pi f)", "f at most", Fraction(1, 2), lambda: _reduction(doubles, -(2.0**50)))
    yield from _odd("sin(pi f)", radial.SINE, "sin(pi * x)", _half(), SINE_ERROR)
    yield from _exponential("exp(x)", _double_exp(), EXP_ERROR)
    yield from _exponential("exp(x), single", _single_exp(), SINGLE_EXP_ERROR)


def _kind(size: int) -> str:
    return f"@rnd = float<ieee_{8 * size},ne>;\n"


def _unit(size: int) -> Fraction:
    return Fraction(1, 1 << (24 if size == 4 else 53))


def _rounded(numbers: Sequence[float], size: int) -> list[Fraction]:
    """Constants as instructions have them."""
    return [Fraction(float(np.float32(one) if size == 4 else one)) for one in numbers]


def _horner(numbers: Sequence[Fraction], at: str, exactly: str, fused: bool) -> str:
    """p(at) in rounded steps as `p0`, p(exactly) without rounding as `P0`."""
    last = len(numbers) - 1
    lines = [f"p{last} = {dyadic(numbers[last])};", f"P{last} = p{last};"]
    for j in range(last - 1, -1, -1):
        c = dyadic(numbers[j])
        product = f"p{j + 1} * {at}" if fused else f"rnd(p{j + 1} * {at})"
        lines += [f"p{j} = rnd({product} + {c});", f"P{j} = P{j + 1} * {exactly} + {c};"]
    return "\n".join(lines) + "\n"


def _in_x(numbers: Sequence[Fraction], x: str = "x") -> str:
    """A polynomial as Sollya reads it."""
    text = "0"
    for one in reversed(numbers):
        text = f"{in_sollya(one)} + {x} * ({text})"
    return text


def _interval(most: Fraction) -> str:
    return f"[-{dyadic(most)}, {dyadic(most)}]"


def _above(value: Fraction) -> Fraction:
    """A number of 60 bits that is not below a positive one."""
    places = 60 - (value.numerator.bit_length() - value.denominator.bit_length())
    scaled = value * Fraction(2) ** places
    return Fraction(-(-scaled.numerator // scaled.denominator)) / Fraction(2) ** places


def _size(text: str) -> Fraction:
    """The largest magnitude in Gappa's first enclosure."""
    return max(abs(end) for end in enclosures(text)[0])


def _powers(subject: str, precision: Any) -> Iterator[Claim]:
    """Claims of one `Precision`: reduction, scaling and error of 2^y."""
    unit, pieces = _unit(precision.size), precision.pieces
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
        assert low == 0
        return high
    found = Fraction(0)
    for low, high in ((least, -0.5), (0.5, -least)):
        ends = f"y in [{dyadic(low)}, {dyadic(high)}]"
        f, gap = enclosures(f"{head} {{ {ends} -> y - n in ? /\\ f - (y - n) in ? }} {turned}")
        assert gap == (0, 0)
        found = max(found, -f[0], f[1])
    # Between, n is zero, and f is y.
    (n,) = enclosures(f"{head} {{ |y| <= 1b-1 -> n in ? }}")
    assert n == (0, 0)
    return found


def _bits_in_the_way(precision: Any) -> int:
    """Bits of the rounder that would stay beside n where n is moved into, or looked up by."""
    kind = np.dtype(precision.dtype).type
    whole = int(kind(precision.rounder / max(precision.pieces, 1)).view(f"u{precision.size}"))
    kept = 3 if precision.pieces else 8 * precision.size - precision.mantissa
    return whole & ((1 << kept) - 1)


def _short_of_one(precision: Any) -> Fraction:
    """How far p(f) is below 1 for f >= 0; not at all: so 2^smallest p(f) has all its digits."""
    numbers = _rounded(precision.polynomial, precision.size)
    text = _kind(precision.size) + "f = rnd(F);\n" + _horner(numbers, "f", "f", True)
    low, _high = enclosures(f"{text} {{ F in [0, 1b-1] -> p0 in ? }}")[0]
    return max(1 - low, Fraction(0))


def _power_error(precision: Any, fused: bool) -> Fraction:
    """|computed / 2^y - 1|, at the exponent where least digits are left."""
    size, pieces = precision.size, precision.pieces
    numbers = _rounded(precision.polynomial, size)
    low, high = (Fraction(0), Fraction(1, pieces)) if pieces else (Fraction(-1, 2), Fraction(1, 2))
    eps = _above(most_error(_in_x(numbers), "2^x", low, high))
    # Rounded down to pieces, f is itself rounded; else it is exact (`_reduction`).
    text = _kind(size) + ("f = rnd(F);\n" if pieces else "f = rnd(f_);\nF = f;\n")
    text += _horner(numbers, "f", "F", fused)
    given = (
        f"F in [{dyadic(low)}, {dyadic(high)}] /\\ M in [1b-1, 3] /\\ P0 -/ M in {_interval(eps)}"
    )
    if pieces and not (precision.quick or pieces > 1):  # quick ones may lose digits: cut off
        scale = dyadic(2.0**precision.smallest)
        text += f"r = rnd(p0 * {scale}); W = M * {scale};\n"
        return _size(f"{text} {{ {given} -> r -/ W in ? }} $ F in 16;")
    error = _size(f"{text} {{ {given} -> p0 -/ M in ? }} $ F in 16;")
    if pieces <= 1:
        return error
    table = max(
        largest(f"abs({in_sollya(2.0 ** (j / pieces))} / 2^({j}/{pieces}) - 1)")
        for j in range(pieces)
    )
    # Scaled by a power of two, the product is above 2^smallest, since p(0) = 1: rounded once.
    assert numbers[0] == 1
    return (1 + table) * (1 + error) * (1 + _unit(size)) - 1


@dataclass(frozen=True)
class Odd:
    """An odd function as t q(t^2), rounded; `t` is computed, `T` its exact twin.

    Parameters
    ----------
    start : str
        Gappa's definitions of t and T.
    cases : list of str
        What is given of them; at zero the function is exactly zero.
    reach : Fraction
        The largest |T|.
    split : str
        How Gappa takes them apart.
    summed : bool
        Whether a whole number is added at the end, at least twice as large as the product.
    """

    start: str
    cases: list[str]
    reach: Fraction
    split: str
    summed: bool


def _quotient() -> Odd:
    """(m - 1) / (m + 1), sqrt(1/2) <= m < sqrt(2) as the bits of `HALF_ROOT` say."""
    ends = np.array([exp2.HALF_ROOT, exp2.HALF_ROOT + (1 << 52)], dtype=np.int64).view(np.float64)
    low, high = (Fraction(float(one)) for one in ends)
    unit = _unit(8)
    return Odd(
        "m = rnd(m_); t = rnd(rnd(m - 1) / rnd(m + 1)); T = (m - 1) / (m + 1);\n",
        [
            f"m in [{dyadic(low)}, {dyadic(1 - unit)}] /\\ m - 1 in [{dyadic(low - 1)}, -1b-53]",
            f"m in [{dyadic(1 + 2 * unit)}, {dyadic(high)}] /\\ "
            f"m - 1 in [1b-52, {dyadic(high - 1)}]",
        ],
        _above(max((1 - low) / (1 + low), (high - 1) / (high + 1))),
        split="m in 16",
        summed=True,
    )


def _half() -> Odd:
    """f, at most 1/2; below 2^-400 the first coefficient alone is left."""
    cases = ["t in [1b-400, 1b-1]", "t in [-1b-1, -1b-400]"]
    return Odd("t = rnd(t_); T = t;\n", cases, Fraction(1, 2), "t in 16", summed=False)


def _odd(
    subject: str, numbers: Sequence[float], function: str, odd: Odd, stated: int
) -> Iterator[Claim]:
    """The claim of t q(t^2)."""

    def find() -> Fraction:
        exact = _rounded(numbers, 8)
        polynomial = f"x * ({_in_x(exact, 'x^2')})"
        eps = _above(most_error(polynomial, function, -odd.reach, odd.reach))
        return max(
            _odd_error(odd, exact, eps, case, fused)
            for case in odd.cases
            for fused in (True, False)
        )

    yield Claim(subject, "error in units", stated * _unit(8), find, _unit(8))


def _odd_error(
    odd: Odd, numbers: list[Fraction], eps: Fraction, case: str, fused: bool
) -> Fraction:
    """|t q(t^2) / function - 1|, the last step included.

    Where n is added to a product v that errs by e |v|, the sum errs by e |v| <= e |n + v| (1 +
    2^-40), because |v| is at most 1/2 but for a rounding; then it is rounded.
    """
    product = "t * p0" if fused or not odd.summed else "rnd(t * p0)"
    text = _kind(8) + odd.start + "s = rnd(t * t); S = T * T;\n" + _horner(numbers, "s", "S", fused)
    text += f"v = {product}; V = T * P0;\n"
    given = f"{case} /\\ V -/ M in {_interval(eps)}"
    unit = _unit(8)
    error = _size(f"{text} {{ {given} -> v -/ M in ? }} $ {odd.split};")
    if odd.summed:
        error *= 1 + Fraction(1, 1 << 40)
    return (1 + error) * (1 + unit) - 1


@dataclass(frozen=True)
class Exponential:
    """The constants of an `exp` by n ln 2 + r; `series` begins with r^2."""

    size: int
    least: float
    log2_e: float
    rounder: float
    upper: float
    lower: float
    series: list[Fraction]

    @property
    def least_normal(self) -> int:
        """Exponent of the smallest normal number."""
        return -126 if self.size == 4 else -1022


def _numbered(letter: str, first: int) -> list[float]:
    """_C2, _C3 and so on of `exp`, as far as there are any."""
    found = []
    while hasattr(exp, f"_{letter}{first + len(found)}"):
        found.append(float(getattr(exp, f"_{letter}{first + len(found)}")))
    return found


def _double_exp() -> Exponential:
    constants = exp.SMALLEST_EXPONENT, exp._LOG2_E, exp._ROUNDER, exp.LN2_UPPER, exp.LN2_LOWER
    return Exponential(8, *constants, _rounded(_numbered("C", 2), 8))


def _single_exp() -> Exponential:
    constants = (
        *(exp._LEAST_SINGLE, exp._LOG2_E_SINGLE, exp._ROUNDER_SINGLE),
        *(exp._UPPER_SINGLE, exp._LOWER_SINGLE),
    )
    return Exponential(4, *(float(one) for one in constants), _rounded(_numbered("S", 2), 4))


def _exponential(subject: str, of: Exponential, stated: int) -> Iterator[Claim]:
    """Claims of one exponential."""
    unit = _unit(of.size)
    yield Claim(
        subject,
        "smallest normal number / smallest result",
        Fraction(1),
        lambda: largest(f"2^({of.least_normal}) / exp({int(of.least)})"),
    )
    yield Claim(
        subject,
        "|n| at most",
        Fraction(-of.least_normal),
        lambda: max(_reduced(of, fused)[0] for fused in (True, False)),
    )
    yield Claim(
        subject,
        "error in units",
        stated * unit,
        lambda: max(_exp_error(of, fused) for fused in (True, False)),
        unit,
    )


def _reduced(of: Exponential, fused: bool) -> tuple[Fraction, Fraction, Fraction]:
    """The largest |n| and |r|, and how far r is from x - n ln 2."""
    size, k, split = of.size, dyadic(of.log2_e), "-1b-2"
    gap = _above(largest(f"abs(log(2) - {in_sollya(of.upper)} - {in_sollya(of.lower)})"))
    scale = _above(largest(f"abs({in_sollya(of.log2_e)} * log(2) - 1)"))
    yk, nu, nl = (
        ("y * K", "n * U", "n * L") if fused else ("rnd(y * K)", "rnd(n * U)", "rnd(n * L)")
    )
    text = (
        f"{_kind(size)} K = {k}; R = {dyadic(of.rounder)}; U = {dyadic(of.upper)};\n"
        f"L = {dyadic(of.lower)}; y = rnd(y_); k = {yk}; s = rnd(k + R); n = s - R;\n"
        f"nu = {nu}; nl = {nl}; a = rnd(y - nu); r = rnd(a - nl); A = y - n * LN2;\n"
    )
    given = f"LN2 - (U + L) in {_interval(gap)} /\\ K * LN2 - 1 in {_interval(scale)}"
    hints = (
        "n - y * K -> (s - (k + R)) + (k - y * K);\n"
        "y - n * LN2 -> -(n - y * K) * LN2 - y * (K * LN2 - 1);\n"
        "y - nu -> A + n * (LN2 - U) + (n * U - nu);\n"
        "LN2 -> (LN2 - (U + L)) + (U + L);\n"
        "LN2 - U -> (LN2 - (U + L)) + L;\n"
        "r - A -> (r - (a - nl)) + (a - (y - nu)) + (n * U - nu) - (nl - n * L) "
        "+ n * (LN2 - (U + L));\n"
    )
    wanted = "n in ? /\\ A in ? /\\ r - A in ? /\\ a - (y - nu) in ?"
    case = f"y in [{dyadic(of.least)}, {split}] /\\ {given}"
    n, exact, error, lost = (
        max(abs(end) for end in ends)
        for ends in enclosures(f"{text} {{ {case} -> {wanted} }} {hints}")
    )
    assert lost == 0
    # Above, n is zero, and r is x.
    (none,) = enclosures(f"{text} {{ y in [{split}, 0] -> n in ? }}")
    assert none == (0, 0)
    return n, _above(exact + error), error


def _exp_error(of: Exponential, fused: bool) -> Fraction:
    """|computed / exp(x) - 1|."""
    _n, reach, moved = _reduced(of, fused)
    eps = _above(most_error(_in_x([Fraction(1), Fraction(1), *of.series]), "exp(x)", -reach, reach))
    text = _kind(of.size) + "r = rnd(r_);\n" + _horner(of.series, "r", "r", fused)
    product = "rnd(r * r) * p0" if fused else "rnd(rnd(r * r) * p0)"
    text += f"m = rnd(1 + rnd(r + {product})); E = 1 + (r + (r * r) * P0);\n"
    given = f"r in {_interval(reach)} /\\ M in [1b-1, 2] /\\ E -/ M in {_interval(eps)}"
    error = _size(f"{text} {{ {given} -> m -/ M in ? }} $ r in 16;")
    return (1 + error) * (1 + moved + moved * moved) - 1
