"""Rows meet panels of centers: distances, a function of them and sums stay in registers.

A panel holds a few vectors of centers side by side, one line per feature. Distances are taken by
differences, feature by feature, so that they err relatively, however near the two are:

    s = sum_l (x_l - z_l)^2    or    sum_l |x_l - z_l|    or    sum_l (x_l - z_l)^2 / (x_l + z_l)

The kernel's own `profile` (`machine.kernels`), traced into the loop (`lanes`), makes a kernel value
of s times a number; values are multiplied with coefficients and added up, or written out. The
bounds of the kernels count at most 24 roundings of a profile (40 of RationalQuadratic).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.compiling import (
    array_type,
    cgutils,
    instruction,
    ir,
    kernel,
    types,
)
from kernelite.backends.cpu.kernels.exp2 import DOUBLE, PANEL_VECTORS, WIDE, Code
from kernelite.backends.cpu.kernels.lanes import LaneOps, Lanes
from kernelite.machine import kernels
from kernelite.machine.kernels import Kernel

__all__ = ["PANEL", "radial_kernel", "stand_in"]

PANEL = DOUBLE.panel
RADIAL_ROWS_AT_ONCE = 4 if WIDE else 2  # their sums and a line of the panel fill the registers
PANELS_PER_BLOCK = 512 // PANEL  # many rows meet them in turn; sums are added up lane by lane
DISTANCES = "squares", "city", "chi-squared"  # of kernels' `statistic`
LEAST_SUM = 2.0**-1022  # of two entries; where both are zero, nothing is divided by it


def stand_in(kind: type[Kernel], variant: tuple[Any, ...], *numbers: Any) -> Any:
    """A kernel whose profile can be traced: with the fields that are compiled in, and numbers."""
    made = object.__new__(kind)
    for name, value in (*zip(kind.variants, variant), *zip(kind.numbers, numbers)):
        object.__setattr__(made, name, value)
    return made


def _distances(
    code: Code, rows: int, where: Any, step: Any, count: Any, panel: Any, statistic: str
) -> Any:
    """Variables with s for rows that lie `step` bytes apart: a list per row, one per vector."""
    builder, i64 = code.builder, count.type
    sums = [[code.variable() for _ in range(PANEL_VECTORS)] for _ in range(rows)]
    with cgutils.for_range(builder, count) as loop:
        at = builder.add(panel, builder.mul(loop.index, i64(8 * PANEL)))
        x = code.vectors(at, PANEL_VECTORS)
        entry = builder.add(where, builder.mul(loop.index, i64(8)))
        for line in sums:
            z = code.spread(entry)
            for total, column in zip(line, x, strict=True):
                gap, before = builder.fsub(column, z), builder.load(total)
                if statistic == "city":
                    after = builder.fadd(before, code.magnitude(gap))
                elif statistic == "squares":
                    after = code.multiply_add(gap, gap, before)
                else:
                    both = code.at_least(builder.fadd(column, z), LEAST_SUM)
                    after = code.multiply_add(gap, builder.fdiv(gap, both), before)
                builder.store(after, total)
            entry = builder.add(entry, step)
    return sums


def _add_weighted(code: Code, values: list[Any], weights: Any, total: Any) -> None:
    """total += the sum of vectors times weights, by halves: few roundings for each."""
    builder, sums = code.builder, []
    for v in range(0, PANEL_VECTORS, 2):
        first = builder.fmul(values[v], code.load(weights, v))
        sums.append(code.multiply_add(values[v + 1], code.load(weights, v + 1), first))
    both = builder.fadd(*sums)
    builder.store(builder.fadd(builder.load(total), both), total)


def _over_panels(kind: type[Kernel], variant: tuple[Any, ...], rows: int) -> Callable[..., Any]:
    """An instruction for a few rows and a number of panels; addresses, steps in bytes.

    Sums are added to doubles `out_step` apart; values of a row stand side by side.
    """

    address, size, real = types.uintp, types.intp, types.float64
    given = address, size, size, address, size, address, real, real, types.boolean, address, size

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
        summed: Any,
        out: Any,
        out_step: Any,
    ) -> None:
        code, i64 = Code(builder, DOUBLE), count.type
        ops, scale = LaneOps(code), code.everywhere(a)
        number = Lanes(ops, code.everywhere(b), fixed=True)
        profile = stand_in(kind, variant, number).profile
        panel_step = builder.mul(count, i64(8 * PANEL))

        @contextmanager
        def each_panel() -> Iterator[tuple[Any, list[list[Any]]]]:
            """A loop over panels: how far its centers are behind the first, and s, row by row."""
            with cgutils.for_range(builder, panels) as loop:
                here = builder.add(panel, builder.mul(loop.index, panel_step))
                across = builder.mul(loop.index, i64(8 * PANEL))
                found = _distances(code, rows, where, step, count, here, kind.statistic)
                yield across, [[builder.load(s) for s in line] for line in found]

        def values_of(line: list[Any]) -> list[Lanes]:
            return [profile(Lanes(ops, s) * Lanes(ops, scale)) for s in line]

        with builder.if_else(summed) as (to_sum, to_write):
            with to_sum:
                totals = [code.variable() for _ in range(rows)]
                with each_panel() as (across, found):
                    own = builder.add(weights, across)
                    for line, total in zip(found, totals, strict=True):
                        values = values_of(line)
                        factor = values[0].factor  # the same for all, so that a sum may wait for it
                        _add_weighted(code, [one.vector for one in values], own, total)
                for i, total in enumerate(totals):
                    at = builder.add(out, builder.mul(out_step, i64(i)))
                    pointer = builder.inttoptr(at, ir.DoubleType().as_pointer())
                    before = builder.load(pointer, align=8)
                    more = builder.fmul(code.total(builder.load(total)), ir.DoubleType()(factor))
                    builder.store(builder.fadd(before, more), pointer, align=8)
            with to_write, each_panel() as (across, found):
                place = builder.add(out, across)
                for line in found:
                    for v, one in enumerate(values_of(line)):
                        code.store(one.value, place, v)
                    place = builder.add(place, out_step)

    return run


def all_kernels() -> list[Callable[..., None]]:
    """The kernels of all kernel functions here, for `kernelite.warm_up`."""
    return [radial_kernel(*one) for one in _kinds()]


def _kinds() -> Iterator[tuple[type[Kernel], tuple[Any, ...]]]:
    """Kernel functions of distances, with each value of the fields that are compiled in."""
    for name in kernels.__all__:
        kind = getattr(kernels, name)
        if getattr(kind, "statistic", "") in DISTANCES and not kind.__abstractmethods__:
            yield from ((kind, variant) for variant in product(*kind.variants.values()))


@cache
def radial_kernel(kind: type[Kernel], variant: tuple[Any, ...]) -> Callable[..., None]:
    """The compiled loop of a kernel function: sums of one output, or values.

    It takes rows (m, d), panels and their coefficients, which of the panels are meant (the first
    and their number), what distances are multiplied with, the kernel's own number (or 0), whether
    sums are asked for, and `out`: (m, 1), which sums are added to, or room for values,
    (m, number PANEL).
    """
    several, one = (_over_panels(kind, variant, rows) for rows in (RADIAL_ROWS_AT_ONCE, 1))

    def run(
        rows: Any,
        panels: Any,
        weights: Any,
        first: int,
        count: int,
        a: float,
        b: float,
        summed: bool,
        out: Any,
    ) -> None:
        m, d = rows.shape
        step, far, across = 8 * d, 8 * out.shape[1], 0 if summed else 8 * PANEL
        z, whole = np.uintp(rows.ctypes.data), m // RADIAL_ROWS_AT_ONCE * RADIAL_ROWS_AT_ONCE
        for start in range(first, first + count, PANELS_PER_BLOCK):
            some = min(PANELS_PER_BLOCK, first + count - start)
            x = np.uintp(panels.ctypes.data) + np.uintp(start * PANEL * step)
            c = np.uintp(weights.ctypes.data) + np.uintp(start * PANEL * 8)
            to = np.uintp(out.ctypes.data) + np.uintp((start - first) * across)
            for i in range(0, whole, RADIAL_ROWS_AT_ONCE):
                here, there = z + np.uintp(i * step), to + np.uintp(i * far)
                several(here, step, d, x, some, c, a, b, summed, there, far)
            for i in range(whole, m):
                here, there = z + np.uintp(i * step), to + np.uintp(i * far)
                one(here, step, d, x, some, c, a, b, summed, there, far)

    # What compiled code is kept under.
    words = kind.__name__.lower(), *(str(value).replace(".", "_") for value in variant)
    run.__name__ = run.__qualname__ = "_".join(words)
    flat, table = array_type(1), array_type(2, writable=True)
    which, numbers = ("int64", "int64"), ("float64", "float64")
    types = array_type(2), flat, flat, *which, *numbers, "boolean", table
    return kernel(*types, by_row=("rows", "out"))(run)
