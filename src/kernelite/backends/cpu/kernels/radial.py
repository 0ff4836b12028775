"""Rows meet panels of centers: distances, a function of them and sums stay in registers.

A panel holds a few vectors of centers side by side, one line per feature. Distances are taken by
differences, feature by feature, so that they err relatively, however near the two are:

    s = sum_l (x_l - z_l)^2    or    sum_l |x_l - z_l|

A function of `FUNCTIONS`, with a number of its own, makes a kernel value of s; values are
multiplied with coefficients and added up, or written out. Twins: `profile` of the kernels in
`machine.kernels`, whose bounds count at most 24 roundings of the function (40 of `rational`):
sqrt is rounded once, 2^y errs by 6 units and log2 by 8.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from kernelite.backends.cpu.kernels.compiling import (
    array_type,
    cgutils,
    instruction,
    ir,
    kernel,
    types,
)
from kernelite.backends.cpu.kernels.exp2 import DOUBLE, VECTORS, WIDE, Code

__all__ = ["FUNCTIONS", "PANEL", "all_kernels", "radial_kernel"]

PANEL = DOUBLE.panel
ROWS = 4 if WIDE else 2  # taken at once: their sums and a line of the panel fill the registers
BLOCK = 512 // PANEL  # panels that many rows meet in turn: their sums are added up lane by lane
LOG2_E = 1.4426950408889634
FAR = 708.0  # from here on exp(-a) is zero, as it nearly is in doubles: labels may hang on that
# sin(pi f) / f in powers of f^2, of least error for |f| <= 1/2: 0.4 u relatively
SINE = (
    *(3.141592653589793, -5.167712780049969, 2.5501640398773007, -0.5992645293189447),
    *(0.0821458865731029, -0.007370430505916944, 0.0004662998161898394, -2.1903497074626018e-05),
    7.697826768224191e-07,
)

Function: TypeAlias = Callable[[Code, Any, Any, Any], Any]
"""Given s and two numbers in every lane."""


def _exponential(code: Code, s: Any, rate: Any, _b: Any) -> Any:
    """exp(-rate s)."""
    return _decaying(code, code.builder.fmul(rate, s))


def _matern(code: Code, s: Any, scale: Any, *polynomial: float) -> Any:
    """p(a) exp(-a), a = scale sqrt(s); p without its constant, which is 1."""
    a, p = code.builder.fmul(code.sqrt(s), scale), None
    if polynomial:
        p = code.all_lanes(polynomial[-1])
        for coefficient in (*polynomial[-2::-1], 1.0):
            p = code.multiply_add(p, a, code.all_lanes(coefficient))
    return _decaying(code, a, p)


def _decaying(code: Code, a: Any, p: Any = None) -> Any:
    """p exp(-a), zero from `FAR` on, whatever p is there; of a that is not a number, zero."""
    builder = code.builder
    e = code.exp2_inside(builder.fmul(a, code.all_lanes(-LOG2_E)))
    near = builder.fcmp_ordered("<", a, code.all_lanes(FAR))
    value = e if p is None else builder.fmul(p, e)
    return builder.select(near, value, code.all_lanes(0.0))


def _rational(code: Code, s: Any, rate: Any, alpha: Any) -> Any:
    """(1 + rate s)^-alpha; what 1 + rate s rounds off is put back."""
    builder, one = code.builder, code.all_lanes(1.0)
    v = code.at_most(builder.fmul(rate, s), 1e300)
    w = builder.fadd(one, v)
    lost = builder.fdiv(builder.fsub(v, builder.fsub(w, one)), w)
    logs = code.multiply_add(lost, code.all_lanes(LOG2_E), code.log2(w))
    exponent = builder.fmul(alpha, logs)
    near = builder.fcmp_ordered("<", exponent, code.all_lanes(FAR * LOG2_E))
    found = code.exp2_inside(builder.fneg(exponent))
    return builder.select(near, found, code.all_lanes(0.0))


def _periodic(code: Code, s: Any, frequency: Any, rate: Any) -> Any:
    """2^(-rate sin^2(pi q)), q = frequency sqrt(s): of f, q without its whole part, at most 1/2.

    sin(pi f) = f p(f^2) errs by 4 u of itself. Of a q that has no fraction, the value is 1.
    """
    builder = code.builder
    q, rounder = builder.fmul(code.sqrt(s), frequency), code.all_lanes(DOUBLE.rounder)
    f = builder.fsub(q, builder.fsub(builder.fadd(q, rounder), rounder))
    known = builder.fcmp_ordered("<", q, code.all_lanes(2.0**50))
    f = builder.select(known, f, code.all_lanes(0.0))
    square, p = builder.fmul(f, f), code.all_lanes(SINE[-1])
    for coefficient in reversed(SINE[:-1]):
        p = code.multiply_add(p, square, code.all_lanes(coefficient))
    sine = builder.fmul(f, p)
    exponent = builder.fmul(builder.fmul(sine, sine), rate)
    near = builder.fcmp_ordered("<", exponent, code.all_lanes(FAR * LOG2_E))
    found = code.exp2_inside(builder.fneg(exponent))
    return builder.select(near, found, code.all_lanes(0.0))


def _multiquadric(code: Code, s: Any, rate: Any, _b: Any) -> Any:
    """-sqrt(1 + rate s)."""
    return code.builder.fneg(code.sqrt(_one_and(code, s, rate)))


def _inverse_multiquadric(code: Code, s: Any, rate: Any, _b: Any) -> Any:
    """1 / sqrt(1 + rate s)."""
    return code.builder.fdiv(code.all_lanes(1.0), code.sqrt(_one_and(code, s, rate)))


def _inverse_quadratic(code: Code, s: Any, rate: Any, _b: Any) -> Any:
    """1 / (1 + rate s)."""
    return code.builder.fdiv(code.all_lanes(1.0), _one_and(code, s, rate))


def _one_and(code: Code, s: Any, rate: Any) -> Any:
    return code.multiply_add(s, rate, code.all_lanes(1.0))


def _power(code: Code, s: Any, rate: Any, squares: int) -> Any:
    """v^(squares + 1/2), v = rate s, with a sign that alternates: -r, r^3, -r^5."""
    builder = code.builder
    v = builder.fmul(s, rate)
    value = code.sqrt(v)
    for _ in range(squares):
        value = builder.fmul(value, v)
    return value if squares == 1 else builder.fneg(value)


def _thin_plate(code: Code, s: Any, rate: Any, _b: Any) -> Any:
    """v log2(v), v = rate s: r^2 log r but for a factor; zero at zero, whose log2 is a number."""
    v = code.builder.fmul(s, rate)
    return code.builder.fmul(v, code.log2(v))


FUNCTIONS: dict[str, Function] = {
    "exponential": _exponential,
    "matern_1": lambda code, s, a, _: _matern(code, s, a),
    "matern_3": lambda code, s, a, _: _matern(code, s, a, 1.0),
    "matern_5": lambda code, s, a, _: _matern(code, s, a, 1.0, 1.0 / 3.0),
    "rational": _rational,
    "periodic": _periodic,
    "multiquadric": _multiquadric,
    "inverse_multiquadric": _inverse_multiquadric,
    "inverse_quadratic": _inverse_quadratic,
    "power_1": lambda code, s, a, _: _power(code, s, a, 0),
    "power_3": lambda code, s, a, _: _power(code, s, a, 1),
    "power_5": lambda code, s, a, _: _power(code, s, a, 2),
    "thin_plate": _thin_plate,
}


def _distances(
    code: Code, rows: int, where: Any, step: Any, count: Any, panel: Any, *, city: bool
) -> Any:
    """Variables with s for rows that lie `step` bytes apart: a list per row, one per vector."""
    builder, i64 = code.builder, count.type
    sums = [[code.variable() for _ in range(VECTORS)] for _ in range(rows)]
    with cgutils.for_range(builder, count) as loop:
        at = builder.add(panel, builder.mul(loop.index, i64(8 * PANEL)))
        x = code.vectors(at, VECTORS)
        entry = builder.add(where, builder.mul(loop.index, i64(8)))
        for line in sums:
            z = code.spread(entry)
            for total, column in zip(line, x, strict=True):
                gap, before = builder.fsub(column, z), builder.load(total)
                if city:
                    after = builder.fadd(before, code.magnitude(gap))
                else:
                    after = code.multiply_add(gap, gap, before)
                builder.store(after, total)
            entry = builder.add(entry, step)
    return sums


def _add_weighted(code: Code, values: list[Any], weights: Any, total: Any) -> None:
    """total += the sum of vectors times weights, by halves: few roundings for each."""
    builder, sums = code.builder, []
    for v in range(0, VECTORS, 2):
        first = builder.fmul(values[v], code.load(weights, v))
        sums.append(code.multiply_add(values[v + 1], code.load(weights, v + 1), first))
    both = builder.fadd(*sums)
    builder.store(builder.fadd(builder.load(total), both), total)


def _over_panels(function: Function, rows: int, *, city: bool, summed: bool) -> Callable[..., Any]:
    """An instruction for a few rows and a number of panels; addresses, steps in bytes.

    Sums are added to doubles `out_step` apart; values of a row stand side by side.
    """

    address, size, real = types.uintp, types.intp, types.float64
    given = address, size, size, address, size, address, real, real, address, size

    @instruction(types.void(*given))
    def run(
        builder: Any,
        where: Any,
        step: Any,
        count: Any,
        panel: Any,
        panels: Any,
        weights: Any,
        a: Any,
        b: Any,
        out: Any,
        out_step: Any,
    ) -> None:
        code, i64 = Code(builder, DOUBLE), count.type
        numbers = code.everywhere(a), code.everywhere(b)
        totals = [code.variable() for _ in range(rows)]
        panel_step = builder.mul(count, i64(8 * PANEL))
        with cgutils.for_range(builder, panels) as loop:
            here = builder.add(panel, builder.mul(loop.index, panel_step))
            across = builder.mul(loop.index, i64(8 * PANEL))
            found = _distances(code, rows, where, step, count, here, city=city)
            place, own = builder.add(out, across), builder.add(weights, across)
            for line, total in zip(found, totals, strict=True):
                values = [function(code, builder.load(s), *numbers) for s in line]
                if summed:
                    _add_weighted(code, values, own, total)
                else:
                    for v, value in enumerate(values):
                        code.store(value, place, v)
                    place = builder.add(place, out_step)
        if summed:
            for i, total in enumerate(totals):
                at = builder.add(out, builder.mul(out_step, i64(i)))
                pointer = builder.inttoptr(at, ir.DoubleType().as_pointer())
                before = builder.load(pointer, align=8)
                after = builder.fadd(before, code.total(builder.load(total)))
                builder.store(after, pointer, align=8)

    return run


def all_kernels() -> list[Callable[..., None]]:
    """The kernels of all functions, for `kernelite.warm_up`."""
    named = [(name, False) for name in FUNCTIONS] + [("exponential", True)]
    return [radial_kernel(*one, summed) for one in named for summed in (True, False)]


@cache
def radial_kernel(name: str, city: bool, summed: bool) -> Callable[..., None]:
    """The compiled loop of a function: sums of one output, or values.

    It takes rows (m, d), panels and their coefficients, which of the panels are meant (the first
    and their number), two numbers, and `out`: (m, 1), which sums are added to, or room for values,
    (m, number PANEL).
    """
    function = FUNCTIONS[name]
    several = _over_panels(function, ROWS, city=city, summed=summed)
    one = _over_panels(function, 1, city=city, summed=summed)
    across = 0 if summed else 8 * PANEL

    def run(
        rows: Any,
        panels: Any,
        weights: Any,
        first: int,
        count: int,
        a: float,
        b: float,
        out: Any,
    ) -> None:
        m, d = rows.shape
        step, far = 8 * d, 8 * out.shape[1]
        z, whole = np.uintp(rows.ctypes.data), m // ROWS * ROWS
        for start in range(first, first + count, BLOCK):
            some = min(BLOCK, first + count - start)
            x = np.uintp(panels.ctypes.data) + np.uintp(start * PANEL * step)
            c = np.uintp(weights.ctypes.data) + np.uintp(start * PANEL * 8)
            to = np.uintp(out.ctypes.data) + np.uintp((start - first) * across)
            for i in range(0, whole, ROWS):
                here, there = z + np.uintp(i * step), to + np.uintp(i * far)
                several(here, step, d, x, some, c, a, b, there, far)
            for i in range(whole, m):
                here, there = z + np.uintp(i * step), to + np.uintp(i * far)
                one(here, step, d, x, some, c, a, b, there, far)

    # What compiled code is kept under.
    run.__name__ = f"{'city_' if city else ''}{name}_{'sums' if summed else 'values'}"
    run.__qualname__ = run.__name__
    flat, table = array_type(1), array_type(2, writable=True)
    integers, numbers = ("int64", "int64"), ("float64", "float64")
    return kernel(array_type(2), flat, flat, *integers, *numbers, table)(run)
