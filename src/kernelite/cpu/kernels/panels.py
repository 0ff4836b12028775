"""Rows meet panels of centers: products, exponents, exponentials and sums stay in registers.

A panel holds a few vectors of centers side by side, one line per feature. For several rows w at a
time, or for the entries of one row, and in 32 or 64 bits,

    2^(w.x_i + c_i + r),    w.x_i summed up from zero, then c_i and r added; in doubles before it

is summed up over the centers of a block of panels, or written out for each center.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from kernelite.cpu.kernels.compiling import array_type, helper, instruction, kernel
from kernelite.cpu.kernels.exp2 import DOUBLE, QUICK, SINGLE, VECTORS, Code, Precision

__all__ = [
    "double_sums",
    "double_values",
    "quick_sums",
    "single_entry_sums",
    "single_sums",
    "value_entries",
    "value_rows",
]


def _row_products(
    code: Code, first: list[list[Any]], where: Any, step: Any, count: Any, panel: Any
) -> Any:
    """Variables with `first` + w.x for rows that lie `step` bytes apart: lists as `first` has."""
    builder, size, i64 = code.builder, code.precision.size, count.type
    sums = [[code.variable(start) for start in line] for line in first]
    with cgutils.for_range(builder, count) as loop:
        at = builder.add(panel, builder.mul(loop.index, i64(size * code.precision.panel)))
        x = _vectors(code, at)
        entry = builder.add(where, builder.mul(loop.index, i64(size)))
        for line in sums:
            w = code.spread(entry)
            for total, column in zip(line, x, strict=True):
                builder.store(code.multiply_add(w, column, builder.load(total)), total)
            entry = builder.add(entry, step)
    return sums


def _entry_products(
    code: Code, first: list[list[Any]], where: Any, data: Any, count: Any, panel: Any
) -> Any:
    """As `_row_products` for one row of which only some entries are not zero."""
    builder, size, i64, i32 = code.builder, code.precision.size, count.type, ir.IntType(32)
    sums = [code.variable(start) for start in first[0]]
    with cgutils.for_range(builder, count) as loop:
        place = builder.add(where, builder.mul(loop.index, i64(4)))
        feature = builder.load(builder.inttoptr(place, i32.as_pointer()), align=4)
        line = builder.mul(builder.zext(feature, i64), i64(size * code.precision.panel))
        w = code.spread(builder.add(data, builder.mul(loop.index, i64(size))))
        at = builder.add(panel, line)
        for v, total in enumerate(sums):
            builder.store(code.multiply_add(w, code.load(at, v), builder.load(total)), total)
    return [sums]


def _over_panels(
    products: Callable[..., Any], *, summed: bool, several: bool = False, quick: bool = False
) -> Callable[..., Any]:
    """An instruction for a few rows and a number of panels, in the precision of `like`.

    It takes addresses and steps in bytes. The first three arguments are those of `products`; sums
    go to doubles `out_step` apart, values of a row side by side.
    """

    @instruction
    def run(
        _context: Any,
        like: Any,
        _where: Any,
        _step: Any,
        _count: Any,
        _panel: Any,
        _panel_step: Any,
        _panels: Any,
        _exponents: Any,
        _shifts: Any,
        _out: Any,
        _out_step: Any,
    ) -> Any:
        precision = QUICK if quick else _precision(like)
        rows = precision.rows if several else 1

        def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            _, where, step, count, panel, panel_step, panels, exponents, shifts, out, far = (
                arguments
            )
            code, i64, size = Code(builder, precision), count.type, precision.size
            shift = [code.spread(builder.add(shifts, i64(size * i))) for i in range(rows)]
            totals = [code.variable() for _ in range(rows)]
            with cgutils.for_range(builder, panels) as loop:
                here = builder.add(panel, builder.mul(loop.index, panel_step))
                across = builder.mul(loop.index, i64(size * precision.panel))
                # Doubles have digits to spare for sums that begin with c + r, which is faster.
                early, zero = size == 8, [code.all_lanes(0.0)] * VECTORS
                c = _vectors(code, builder.add(exponents, across)) if early else zero
                first = [[builder.fadd(one, r) for one in c] if early else c for r in shift]
                found = products(code, first, where, step, count, here)
                c = c if early else _vectors(code, builder.add(exponents, across))
                place = builder.add(out, across)
                for line, r, total in zip(found, shift, totals, strict=True):
                    y: list[Any] = [builder.load(product) for product in line]
                    if not early:
                        y = [builder.fadd(builder.fadd(one, c[v]), r) for v, one in enumerate(y)]
                    values = [code.exp2(one) for one in y]
                    if summed:
                        _add(code, values, total)
                    else:
                        for v, value in enumerate(values):
                            code.store(value, place, v)
                        place = builder.add(place, far)
            if summed:
                for i, total in enumerate(totals):
                    at = builder.add(out, builder.mul(far, i64(i)))
                    code.store_total(builder.load(total), at)
            return context.get_dummy_value()

        address, size = types.uintp, types.intp
        arguments = (
            like,
            address,
            size,
            size,
            address,
            size,
            size,
            address,
            address,
            address,
            size,
        )
        return types.void(*arguments), build

    return run


def _vectors(code: Code, address: Any) -> list[Any]:
    """A panel's line."""
    return [code.load(address, v) for v in range(VECTORS)]


def _add(code: Code, values: list[Any], total: Any) -> None:
    """total += the sum of vectors, by halves: few roundings for each."""
    while len(values) > 1:
        values = [code.builder.fadd(*values[i : i + 2]) for i in range(0, len(values), 2)]
    code.builder.store(code.builder.fadd(code.builder.load(total), values[0]), total)


def _precision(like: Any) -> Precision:
    return SINGLE if like.dtype == types.float32 else DOUBLE


_several_sums = _over_panels(_row_products, summed=True, several=True)
_one_sum = _over_panels(_row_products, summed=True)
_several_quick = _over_panels(_row_products, summed=True, several=True, quick=True)
_one_quick = _over_panels(_row_products, summed=True, quick=True)
_several_values = _over_panels(_row_products, summed=False, several=True)
_one_value = _over_panels(_row_products, summed=False)
_entries_sum = _over_panels(_entry_products, summed=True)
_entries_value = _over_panels(_entry_products, summed=False)


@helper
def _sum_rows(
    rows: Any, shifts: Any, panels: Any, exponents: Any, starts: Any, many: int, out: Any
) -> None:
    length, size, width = rows.shape[1], rows.itemsize, len(exponents) // starts[-1]
    step, far = size * length, 8 * out.shape[1]
    w, r = np.uintp(rows.ctypes.data), np.uintp(shifts.ctypes.data)
    whole = len(rows) // many * many
    for block in range(len(starts) - 1):
        first, count = starts[block], starts[block + 1] - starts[block]
        x = np.uintp(panels.ctypes.data) + np.uintp(first * width * step)
        c = np.uintp(exponents.ctypes.data) + np.uintp(first * width * size)
        at = np.uintp(out.ctypes.data) + np.uintp(8 * block)
        for i in range(0, whole, many):
            here, shift, there = np.uintp(i * step), np.uintp(i * size), np.uintp(i * far)
            _several_sums(
                rows, w + here, step, length, x, width * step, count, c, r + shift, at + there, far
            )
        for i in range(whole, len(rows)):
            here, shift, there = np.uintp(i * step), np.uintp(i * size), np.uintp(i * far)
            _one_sum(
                rows, w + here, step, length, x, width * step, count, c, r + shift, at + there, far
            )


@helper
def _sum_quickly(
    rows: Any, shifts: Any, panels: Any, exponents: Any, starts: Any, many: int, out: Any
) -> None:
    # Not one function for both: compiled code is kept under its name.
    length, size, width = rows.shape[1], rows.itemsize, len(exponents) // starts[-1]
    step, far = size * length, 8 * out.shape[1]
    w, r = np.uintp(rows.ctypes.data), np.uintp(shifts.ctypes.data)
    whole = len(rows) // many * many
    for block in range(len(starts) - 1):
        first, count = starts[block], starts[block + 1] - starts[block]
        x = np.uintp(panels.ctypes.data) + np.uintp(first * width * step)
        c = np.uintp(exponents.ctypes.data) + np.uintp(first * width * size)
        at = np.uintp(out.ctypes.data) + np.uintp(8 * block)
        for i in range(0, whole, many):
            here, shift, there = np.uintp(i * step), np.uintp(i * size), np.uintp(i * far)
            _several_quick(
                rows, w + here, step, length, x, width * step, count, c, r + shift, at + there, far
            )
        for i in range(whole, len(rows)):
            here, shift, there = np.uintp(i * step), np.uintp(i * size), np.uintp(i * far)
            _one_quick(
                rows, w + here, step, length, x, width * step, count, c, r + shift, at + there, far
            )


@helper
def _sum_entries(
    indptr: Any,
    indices: Any,
    data: Any,
    shifts: Any,
    panels: Any,
    exponents: Any,
    starts: Any,
    out: Any,
) -> None:
    size, width = data.itemsize, len(exponents) // starts[-1]
    line = len(panels) // starts[-1] * size
    far = 8 * out.shape[1]
    for block in range(len(starts) - 1):
        first, count = starts[block], starts[block + 1] - starts[block]
        x = np.uintp(panels.ctypes.data) + np.uintp(first * line)
        c = np.uintp(exponents.ctypes.data) + np.uintp(first * width * size)
        at = np.uintp(out.ctypes.data) + np.uintp(8 * block)
        for i in range(len(shifts)):
            where = np.uintp(indices.ctypes.data) + np.uintp(4 * indptr[i])
            values = np.intp(data.ctypes.data) + size * indptr[i]
            shift = np.uintp(shifts.ctypes.data) + np.uintp(i * size)
            entries, there = indptr[i + 1] - indptr[i], np.uintp(i * far)
            _entries_sum(data, where, values, entries, x, line, count, c, shift, at + there, far)


@helper
def value_rows(
    rows: Any, shifts: Any, panels: Any, exponents: Any, starts: Any, many: int, out: Any
) -> None:
    """out[i, j] = 2^(...) of row i and center j, block by block; out may be wider than that."""
    length, size, width = rows.shape[1], rows.itemsize, len(exponents) // starts[-1]
    step, far = size * length, size * out.shape[1]
    w, r = np.uintp(rows.ctypes.data), np.uintp(shifts.ctypes.data)
    whole = len(rows) // many * many
    for block in range(len(starts) - 1):
        first, count = starts[block], starts[block + 1] - starts[block]
        x = np.uintp(panels.ctypes.data) + np.uintp(first * width * step)
        c = np.uintp(exponents.ctypes.data) + np.uintp(first * width * size)
        at = np.uintp(out.ctypes.data) + np.uintp(first * width * size)
        for i in range(0, whole, many):
            here, shift, there = np.uintp(i * step), np.uintp(i * size), np.uintp(i * far)
            _several_values(
                rows, w + here, step, length, x, width * step, count, c, r + shift, at + there, far
            )
        for i in range(whole, len(rows)):
            here, shift, there = np.uintp(i * step), np.uintp(i * size), np.uintp(i * far)
            _one_value(
                rows, w + here, step, length, x, width * step, count, c, r + shift, at + there, far
            )


@helper
def value_entries(
    indptr: Any,
    indices: Any,
    data: Any,
    shifts: Any,
    panels: Any,
    exponents: Any,
    starts: Any,
    out: Any,
) -> None:
    """As `value_rows` for rows given by their entries; `indptr` may start anywhere."""
    size, width = data.itemsize, len(exponents) // starts[-1]
    line, far = len(panels) // starts[-1] * size, size * out.shape[1]
    for block in range(len(starts) - 1):
        first, count = starts[block], starts[block + 1] - starts[block]
        x = np.uintp(panels.ctypes.data) + np.uintp(first * line)
        c = np.uintp(exponents.ctypes.data) + np.uintp(first * width * size)
        at = np.uintp(out.ctypes.data) + np.uintp(first * width * size)
        for i in range(len(shifts)):
            where = np.uintp(indices.ctypes.data) + np.uintp(4 * indptr[i])
            values = np.intp(data.ctypes.data) + size * indptr[i]
            shift, there = np.uintp(shifts.ctypes.data) + np.uintp(i * size), np.uintp(i * far)
            entries = indptr[i + 1] - indptr[i]
            _entries_value(data, where, values, entries, x, line, count, c, shift, at + there, far)


def _row_types(dtype: str) -> tuple[Any, ...]:
    flat = array_type(1, dtype)
    return array_type(2, dtype), flat, flat, flat


_SUMS = array_type(1, "int64"), "int64", array_type(2, writable=True)


@kernel(*_row_types("float32"), *_SUMS)
def single_sums(
    rows: Any, shifts: Any, panels: Any, exponents: Any, starts: Any, many: int, out: Any
) -> None:
    _sum_rows(rows, shifts, panels, exponents, starts, many, out)


@kernel(*_row_types("float64"), *_SUMS)
def double_sums(
    rows: Any, shifts: Any, panels: Any, exponents: Any, starts: Any, many: int, out: Any
) -> None:
    _sum_rows(rows, shifts, panels, exponents, starts, many, out)


@kernel(*_row_types("float64"), *_SUMS)
def quick_sums(
    rows: Any, shifts: Any, panels: Any, exponents: Any, starts: Any, many: int, out: Any
) -> None:
    _sum_quickly(rows, shifts, panels, exponents, starts, many, out)


@kernel(*_row_types("float64"), *_SUMS)
def double_values(
    rows: Any, shifts: Any, panels: Any, exponents: Any, starts: Any, many: int, out: Any
) -> None:
    value_rows(rows, shifts, panels, exponents, starts, many, out)


@kernel(
    array_type(1, "int64"),
    array_type(1, "int32"),
    *(array_type(1, "float32") for _ in range(4)),
    array_type(1, "int64"),
    array_type(2, writable=True),
)
def single_entry_sums(
    indptr: Any,
    indices: Any,
    data: Any,
    shifts: Any,
    panels: Any,
    exponents: Any,
    starts: Any,
    out: Any,
) -> None:
    _sum_entries(indptr, indices, data, shifts, panels, exponents, starts, out)
