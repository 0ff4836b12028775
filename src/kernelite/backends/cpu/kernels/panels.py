"""Rows meet panels of centers: products, exponents, exponentials and sums stay in registers.

A panel holds a few vectors of centers side by side, one line per feature. For several rows w at a
time, or for the entries of one row, and in 32 or 64 bits,

    2^(w.x_i + c_i + r),    w.x_i summed up from zero, then c_i and r added; in doubles before it

is summed up over the centers of a block of panels, or written out for each center. Of a sigmoid,
it is c_i / (1 + 2^(w.x_i + r)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.compiling import (
    Longs,
    Matrix,
    OutInts,
    OutLongs,
    OutMatrix,
    OutSingles,
    Vector,
    array_type,
    cgutils,
    helper,
    instruction,
    ir,
    kernel,
    types,
)
from kernelite.backends.cpu.kernels.exp2 import (
    DOUBLE,
    PANEL_VECTORS,
    QUICK,
    QUICKEST,
    SINGLE,
    Code,
    Precision,
)

__all__ = [
    "SUMS",
    "add_by_halves",
    "chain_weights",
    "entries",
    "entry_products",
    "ready_entries",
    "ready_rows",
    "row_products",
    "sigmoid_sums",
    "single_entry_sums",
    "sparse_entries",
    "value_entries",
    "value_rows",
]


def row_products(
    code: Code, first: list[list[Any]], where: Any, step: Any, count: Any, panel: Any
) -> Any:
    """Variables with `first` + w.x for rows that lie `step` bytes apart: lists as `first` has."""
    builder, size, i64 = code.builder, code.precision.size, count.type
    sums = [[code.variable(start) for start in line] for line in first]
    with cgutils.for_range(builder, count) as loop:
        at = builder.add(panel, builder.mul(loop.index, i64(size * code.precision.panel)))
        x = code.vectors(at, PANEL_VECTORS)
        entry = builder.add(where, builder.mul(loop.index, i64(size)))
        for line in sums:
            w = code.spread(entry)
            for total, column in zip(line, x, strict=True):
                code.add_product(total, w, column)
            entry = builder.add(entry, step)
    return sums


def entry_products(
    code: Code, first: list[list[Any]], where: Any, data: Any, count: Any, panel: Any
) -> Any:
    """As `row_products` for one row of which only some entries are not zero."""
    builder, size, i64, i32 = code.builder, code.precision.size, count.type, ir.IntType(32)
    sums = [code.variable(start) for start in first[0]]
    with cgutils.for_range(builder, count) as loop:
        place = builder.add(where, builder.mul(loop.index, i64(4)))
        feature = builder.load(builder.inttoptr(place, i32.as_pointer()), align=4)
        line = builder.mul(builder.zext(feature, i64), i64(size * code.precision.panel))
        w = code.spread(builder.add(data, builder.mul(loop.index, i64(size))))
        at = builder.add(panel, line)
        for v, total in enumerate(sums):
            code.add_product(total, w, code.load(at, v))
    return [sums]


def _over_panels(
    products: Callable[..., Any],
    precision: Precision,
    rows: int,
    *,
    summed: bool,
    sigmoid: bool = False,
) -> Callable[..., Any]:
    """An instruction for a few rows and a number of panels.

    It takes addresses and steps in bytes. The first three arguments are those of `products`; sums
    go to doubles `out_step` apart, values of a row side by side.
    """
    address, number = types.uintp, types.intp
    given = address, number, number, address, number, number, address, address, address, number

    @instruction(types.void(*given))
    def run(
        builder: Any,
        where: Any,
        step: Any,
        count: Any,
        panel: Any,
        panel_step: Any,
        panels: Any,
        exponents: Any,
        shifts: Any,
        out: Any,
        out_step: Any,
    ) -> None:
        code, i64, size = Code(builder, precision), count.type, precision.size
        shift = [code.spread(builder.add(shifts, i64(size * i))) for i in range(rows)]
        totals = [code.variable() for _ in range(rows)]
        with cgutils.for_range(builder, panels) as loop:
            here = builder.add(panel, builder.mul(loop.index, panel_step))
            across = builder.mul(loop.index, i64(size * precision.panel))
            # Doubles have digits to spare for sums that begin with c + r, which is faster.
            early, zero = size == 8 and not sigmoid, [code.all_lanes(0.0)] * PANEL_VECTORS
            c = code.vectors(builder.add(exponents, across), PANEL_VECTORS) if early else zero
            first = [[builder.fadd(one, r) for one in c] if early else c for r in shift]
            found = products(code, first, where, step, count, here)
            c = c if early else code.vectors(builder.add(exponents, across), PANEL_VECTORS)
            place = builder.add(out, across)
            for line, r, total in zip(found, shift, totals, strict=True):
                y: list[Any] = [builder.load(product) for product in line]
                if not early and not sigmoid:
                    y = [builder.fadd(one, c[v]) for v, one in enumerate(y)]
                y = y if early else [builder.fadd(one, r) for one in y]
                values = [code.exp2(one) for one in y]
                if sigmoid:
                    above = [builder.fadd(one, code.all_lanes(1.0)) for one in values]
                    values = [builder.fdiv(*both) for both in zip(c, above, strict=True)]
                if summed:
                    add_by_halves(code, values, total)
                else:
                    for v, value in enumerate(values):
                        code.store(value, place, v)
                    place = builder.add(place, out_step)
        if summed:
            for i, total in enumerate(totals):
                at = builder.add(out, builder.mul(out_step, i64(i)))
                code.store_total(builder.load(total), at)

    return run


def add_by_halves(code: Code, values: list[Any], total: Any) -> None:
    """total += the sum of vectors, by halves: few roundings for each."""
    while len(values) > 1:
        values = [code.builder.fadd(*values[i : i + 2]) for i in range(0, len(values), 2)]
    code.builder.store(code.builder.fadd(code.builder.load(total), values[0]), total)


def over_rows(
    name: str, precision: Precision, *, summed: bool, sigmoid: bool = False
) -> Callable[..., None]:
    """A function of rows: sums of each block of panels, or 2^(...) of row i and center j."""
    many, size = precision.rows, precision.size
    several = _over_panels(row_products, precision, many, summed=summed, sigmoid=sigmoid)
    one = _over_panels(row_products, precision, 1, summed=summed, sigmoid=sigmoid)
    each = 8 if summed else size  # bytes of a result

    def run(rows: Any, shifts: Any, panels: Any, exponents: Any, starts: Any, out: Any) -> None:
        length, width = rows.shape[1], len(exponents) // starts[-1]
        step, far = size * length, each * out.shape[1]
        w, r = np.uintp(rows.ctypes.data), np.uintp(shifts.ctypes.data)
        whole = len(rows) // many * many
        for block in range(len(starts) - 1):
            first, count = starts[block], starts[block + 1] - starts[block]
            x = np.uintp(panels.ctypes.data) + np.uintp(first * width * step)
            c = np.uintp(exponents.ctypes.data) + np.uintp(first * width * size)
            place = block if summed else first * width
            at = np.uintp(out.ctypes.data) + np.uintp(each * place)
            for i in range(0, whole, many):
                here, shift, to = w + np.uintp(i * step), r + np.uintp(i * size), np.uintp(i * far)
                several(here, step, length, x, width * step, count, c, shift, at + to, far)
            for i in range(whole, len(rows)):
                here, shift, to = w + np.uintp(i * step), r + np.uintp(i * size), np.uintp(i * far)
                one(here, step, length, x, width * step, count, c, shift, at + to, far)

    run.__name__ = run.__qualname__ = name  # compiled code is kept under it
    return run


def _over_entries(name: str, precision: Precision, *, summed: bool) -> Callable[..., None]:
    """As `over_rows` for rows given by their entries; `indptr` may start anywhere."""
    one = _over_panels(entry_products, precision, 1, summed=summed)
    size, each = precision.size, 8 if summed else precision.size

    def run(
        indptr: Any,
        indices: Any,
        data: Any,
        shifts: Any,
        panels: Any,
        exponents: Any,
        starts: Any,
        out: Any,
    ) -> None:
        width, line = len(exponents) // starts[-1], len(panels) // starts[-1] * size
        far = each * out.shape[1]
        for block in range(len(starts) - 1):
            first, count = starts[block], starts[block + 1] - starts[block]
            x = np.uintp(panels.ctypes.data) + np.uintp(first * line)
            c = np.uintp(exponents.ctypes.data) + np.uintp(first * width * size)
            place = block if summed else first * width
            at = np.uintp(out.ctypes.data) + np.uintp(each * place)
            for i in range(len(shifts)):
                where = np.uintp(indices.ctypes.data) + np.uintp(4 * indptr[i])
                values = np.intp(data.ctypes.data) + size * indptr[i]
                shift, there = np.uintp(shifts.ctypes.data) + np.uintp(i * size), np.uintp(i * far)
                entries = indptr[i + 1] - indptr[i]
                one(where, values, entries, x, line, count, c, shift, at + there, far)

    run.__name__ = run.__qualname__ = name
    return run


def panel_types(dtype: str) -> tuple[Any, ...]:
    """Of rows, shifts, panels, exponents, starts and out."""
    flat = array_type(1, dtype)
    out = array_type(2, writable=True)
    return array_type(2, dtype), flat, flat, flat, array_type(1, "int64"), out


SUMS = {
    precision: helper(over_rows(f"{name}_sums", precision, summed=True))
    for name, precision in (
        ("single", SINGLE),
        ("double", DOUBLE),
        ("quick", QUICK),
        ("quickest", QUICKEST),
    )
}
"""By precision: (rows, shifts, panels, exponents, starts, out): sums of blocks into out (m, B)."""
sigmoid_sums = helper(over_rows("sigmoid_sums", SINGLE, summed=True, sigmoid=True))
"""As `SUMS`, of a sigmoid; instead of exponents, c."""
single_entry_sums = helper(_over_entries("single_entry_sums", SINGLE, summed=True))
"""(indptr, indices, data, shifts, panels, exponents, starts, out), as `SUMS`."""
value_rows = helper(over_rows("value_rows", SINGLE, summed=False))
"""out[i, j] = 2^(...) of row i and center j; `out` may be wider than that."""
value_entries = helper(_over_entries("value_entries", SINGLE, summed=False))


# Rows made ready for panels: u = z - p in their order and precision, or its entries.
#
# Besides u: -g |u|^2, |u|^2 in doubles, and what roundings of the products u.x can grow with.


@helper
def chain_weights(order: Any, width: int) -> Any:
    """How often each feature's product is rounded: L for the first of the order, 0 for others."""
    weights = np.zeros(width)
    for position in range(len(order)):
        weights[order[position]] = len(order) - position
    return weights


@helper
def ready_rows(
    rows: Any, point: Any, order: Any, weights: Any, g: float, w: Any, shifts: Any, norms: Any
) -> None:
    """u, -g |u|^2 and norms of each row; sums in four chains, which run side by side."""
    width = rows.shape[1]
    whole = width // 4 * 4
    for i in range(len(rows)):
        t0, t1, t2, t3, c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(0, whole, 4):
            u0, u1 = rows[i, j] - point[j], rows[i, j + 1] - point[j + 1]
            u2, u3 = rows[i, j + 2] - point[j + 2], rows[i, j + 3] - point[j + 3]
            u0, u1, u2, u3 = u0 * u0, u1 * u1, u2 * u2, u3 * u3
            t0, t1, t2, t3 = t0 + u0, t1 + u1, t2 + u2, t3 + u3
            c0, c1 = c0 + weights[j] * u0, c1 + weights[j + 1] * u1
            c2, c3 = c2 + weights[j + 2] * u2, c3 + weights[j + 3] * u3
        for j in range(whole, width):
            u0 = rows[i, j] - point[j]
            t0 += u0 * u0
            c0 += weights[j] * (u0 * u0)
        total, chain = (t0 + t1) + (t2 + t3), (c0 + c1) + (c2 + c3)
        for position in range(len(order)):
            feature = order[position]
            w[i, position] = rows[i, feature] - point[feature]
        shifts[i] = -g * total
        norms[i, 0], norms[i, 1] = total, math.sqrt(chain)


@helper
def ready_entries(
    rows: Any,
    point: Any,
    order: Any,
    g: float,
    least: Any,
    indptr: Any,
    indices: Any,
    data: Any,
    shifts: Any,
    norms: Any,
) -> None:
    """The entries of u above `least`, row after row.

    norms (m, 2): |u|^2, and the number of entries times their norm. `indices` and `data` have room
    for all.
    """
    indptr[0], found = 0, 0
    for i in range(len(rows)):
        total = 0.0
        for j in range(rows.shape[1]):
            u = rows[i, j] - point[j]
            total += u * u
        kept = 0.0
        for position in range(len(order)):
            feature = order[position]
            u = rows[i, feature] - point[feature]
            if not abs(u) <= least[position]:
                indices[found], data[found] = position, u
                kept += u * u
                found += 1
        shifts[i] = -g * total
        indptr[i + 1] = found
        norms[i, 0], norms[i, 1] = total, (found - indptr[i]) * math.sqrt(kept)


@kernel()
def entries(
    rows: Matrix,
    point: Vector,
    order: Longs,
    g: float,
    least: Vector,
    indptr: OutLongs,
    indices: OutInts,
    data: OutSingles,
    shifts: OutSingles,
    norms: OutMatrix,
) -> None:
    """As `ready_entries`."""
    ready_entries(rows, point, order, g, least, indptr, indices, data, shifts, norms)


@helper
def sparse_entries(
    starts: Any,
    columns: Any,
    values: Any,
    point: Any,
    always: Any,
    places: Any,
    g: float,
    least: Any,
    seen: Any,
    indptr: Any,
    indices: Any,
    data: Any,
    shifts: Any,
    norms: Any,
) -> int:
    """As `ready_entries`, for CSR rows of which `always` are the features that p is not zero in.

    `places` (d,) are those of features in the panels' order, -1 for none. `seen` (d,) is room,
    below zero. Returns the first malformed row, or -1.
    """
    indptr[0], found, width = 0, 0, len(point)
    for i in range(len(starts) - 1):
        start, stop = starts[i], starts[i + 1]
        if start < 0 or stop < start or stop > min(len(columns), len(values), starts[-1]):
            return i  # none has more entries than there is room for
        total, kept = 0.0, 0.0
        for e in range(start, stop + len(always)):
            if e < stop:
                feature = int(columns[e])
                if feature < 0 or feature >= width or seen[feature] == i:
                    return i
                seen[feature] = i
                u = values[e] - point[feature]
            else:
                feature = always[e - stop]
                if seen[feature] == i:
                    continue
                u = -point[feature]
            total += u * u
            position = places[feature]
            if position >= 0 and not abs(u) <= least[position]:
                indices[found], data[found] = position, u
                kept += u * u
                found += 1
        shifts[i] = -g * total
        indptr[i + 1] = found
        norms[i, 0], norms[i, 1] = total, (found - indptr[i]) * math.sqrt(kept)
    return -1
