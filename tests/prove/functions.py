"""Claims of log2(x), sin(pi f) and exp(x)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from kernelite.backends.cpu.kernels import exp, exp2, lanes
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

__all__ = ["double_exp", "functions"]

LOG2_ERROR = 8  # units, as `lanes` and `exp2` state
SINE_ERROR = 4  # units, as `lanes` states
EXP_ERROR = 2  # units, as `exp` states


def functions() -> Iterator[Claim]:
    """Claims of all of them, but for the sine's reduction, which is that of 2^y."""
    yield from _odd("log2(x)", exp2.LOG2, "log2((1 + x) / (1 - x))", _quotient(), LOG2_ERROR)
    yield from _odd("sin(pi f)", lanes.SINE, "sin(pi * x)", _half(), SINE_ERROR)
    yield from _exponential("exp(x)", double_exp(), EXP_ERROR)


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
    unit = unit_of(8)
    return Odd(
        "m = rnd(m_); t = rnd(rnd(m - 1) / rnd(m + 1)); T = (m - 1) / (m + 1);\n",
        [
            f"m in [{dyadic(low)}, {dyadic(1 - unit)}] /\\ m - 1 in [{dyadic(low - 1)}, -1b-53]",
            f"m in [{dyadic(1 + 2 * unit)}, {dyadic(high)}] /\\ "
            f"m - 1 in [1b-52, {dyadic(high - 1)}]",
        ],
        above(max((1 - low) / (1 + low), (high - 1) / (high + 1))),
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
        exact = rounded(numbers, 8)
        polynomial = f"x * ({in_x(exact, 'x^2')})"
        eps = above(most_error(polynomial, function, -odd.reach, odd.reach))
        return max(
            _odd_error(odd, exact, eps, case, fused)
            for case in odd.cases
            for fused in (True, False)
        )

    yield Claim(subject, "error in units", stated * unit_of(8), find, unit_of(8))


def _odd_error(
    odd: Odd, numbers: list[Fraction], eps: Fraction, case: str, fused: bool
) -> Fraction:
    """|t q(t^2) / function - 1|, the last step included.

    Where n is added to a product v that errs by e |v|, the sum errs by e |v| <= e |n + v| (1 +
    2^-40), because |v| is at most 1/2 but for a rounding; then it is rounded.
    """
    product = "t * p0" if fused or not odd.summed else "rnd(t * p0)"
    text = (
        rounding(8) + odd.start + "s = rnd(t * t); S = T * T;\n" + horner(numbers, "s", "S", fused)
    )
    text += f"v = {product}; V = T * P0;\n"
    given = f"{case} /\\ V -/ M in {interval(eps)}"
    unit = unit_of(8)
    error = magnitude(f"{text} {{ {given} -> v -/ M in ? }} $ {odd.split};")
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


def double_exp() -> Exponential:
    constants = exp.SMALLEST_EXPONENT, exp._LOG2_E, exp._ROUNDER, exp.LN2_UPPER, exp.LN2_LOWER
    return Exponential(8, *constants, rounded(_numbered("C", 2), 8))


def _exponential(subject: str, of: Exponential, stated: int) -> Iterator[Claim]:
    """Claims of one exponential."""
    unit = unit_of(of.size)
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
    gap = above(largest(f"abs(log(2) - {in_sollya(of.upper)} - {in_sollya(of.lower)})"))
    scale = above(largest(f"abs({in_sollya(of.log2_e)} * log(2) - 1)"))
    yk, nu, nl = (
        ("y * K", "n * U", "n * L") if fused else ("rnd(y * K)", "rnd(n * U)", "rnd(n * L)")
    )
    text = (
        f"{rounding(size)} K = {k}; R = {dyadic(of.rounder)}; U = {dyadic(of.upper)};\n"
        f"L = {dyadic(of.lower)}; y = rnd(y_); k = {yk}; s = rnd(k + R); n = s - R;\n"
        f"nu = {nu}; nl = {nl}; a = rnd(y - nu); r = rnd(a - nl); A = y - n * LN2;\n"
    )
    given = f"LN2 - (U + L) in {interval(gap)} /\\ K * LN2 - 1 in {interval(scale)}"
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
    require(lost == 0, "x - n U may be rounded")
    # Above, n is zero, and r is x.
    (none,) = enclosures(f"{text} {{ y in [{split}, 0] -> n in ? }}")
    require(none == (0, 0), "a small x may have a whole part")
    return n, above(exact + error), error


def _exp_error(of: Exponential, fused: bool) -> Fraction:
    """|computed / exp(x) - 1|."""
    _n, reach, moved = _reduced(of, fused)
    eps = above(most_error(in_x([Fraction(1), Fraction(1), *of.series]), "exp(x)", -reach, reach))
    text = rounding(of.size) + "r = rnd(r_);\n" + horner(of.series, "r", "r", fused)
    product = "rnd(r * r) * p0" if fused else "rnd(rnd(r * r) * p0)"
    text += f"m = rnd(1 + rnd(r + {product})); E = 1 + (r + (r * r) * P0);\n"
    given = f"r in {interval(reach)} /\\ M in [1b-1, 2] /\\ E -/ M in {interval(eps)}"
    error = magnitude(f"{text} {{ {given} -> m -/ M in ? }} $ r in 16;")
    return (1 + error) * (1 + moved + moved * moved) - 1
