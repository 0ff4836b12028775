"""Rows meet a lower triangle W: |W x|^2, or |G c + W y|^2 with c = B'x and y = x - B c.

W lies in panels of as many of its lines as `panels` puts centers side by side, column by column as
far as the diagonal reaches. Some rows y meet 64 columns of a panel at a time in registers, and
these sums are added up in doubles, whatever the precision of W and y is. With the unit u of that
precision, what is found for G c + W y is off, line by line, by no more than

    (64 + 2) u |W| |y|,    and by 2^-53 times (n / 64 + 2) |W| |y| + (n / 64 + columns + 4) |G| |c|,

where |.| are the sizes of all entries, n is their number in a line, and y is as it was rounded.
B, G and c are doubles. Rows and panels of W stay in cache while they meet.

A row alone has nobody to share a panel with: it waits for W to come. So it meets W of singles in
doubles, in one go, and the sums are off by (n + columns) 2^-53 (|W| |y| + |G| |c|).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels.compiling import (
    Longs,
    Matrix,
    OutVector,
    Singles,
    Vector,
    cgutils,
    helper,
    instruction,
    ir,
    kernel,
    types,
)
from kernelite.backends.cpu.kernels.exp2 import DOUBLE, PANEL_VECTORS, SINGLE, WIDE, Code, Precision
from kernelite.backends.cpu.kernels.panels import add_by_halves, row_products
from kernelite.data.rows.inputs import FloatArray

__all__ = [
    "TRIANGLE_COLUMNS",
    "double_squares",
    "in_panels",
    "panel_across",
    "panel_places",
    "panel_squares",
    "rest_of_row",
    "short_panel_squares",
    "single_squares",
    "triangle_panels",
]

TRIANGLE_COLUMNS = 64  # met at a time: a panel's part and those of the rows are in the L1 cache
DOUBLES_AT_ONCE, SINGLES_AT_ONCE = 48, 96  # rows that meet all panels in turn: they are in the L2
MANY = 6 if WIDE else 2  # in registers at a time, with a line of the panel and an entry


def triangle_panels(W: Any, precision: Precision, width: int) -> Any:
    """A lower triangle in panels, flat, for rows of a width that is not below its own.

    Examples
    --------
    >>> triangle_panels(np.eye(3), DOUBLE, 3).shape == (3 * DOUBLE.panel,)
    True
    """
    panel, parts = precision.panel, []
    for top in range(0, width, panel):
        part = np.zeros((min(top + panel, width), panel), precision.dtype)
        lines = np.tril(W[top : top + panel], top)[:, : len(part)].T
        part[: lines.shape[0], : lines.shape[1]] = lines
        parts.append(part.ravel())
    return np.concatenate(parts)


def panel_places(width: int, precision: Precision = DOUBLE) -> NDArray[np.int64]:
    """Where the panels of a triangle begin and how many columns they have, (2, panels).

    The longest come first, so that threads that share them end at the same time.

    Examples
    --------
    >>> panel_places(DOUBLE.panel + 1).tolist() == [
    ...     [DOUBLE.panel**2, 0],
    ...     [DOUBLE.panel + 1, DOUBLE.panel],
    ... ]
    True
    """
    panel = precision.panel
    columns = np.minimum(np.arange(panel, width + panel, panel), width)
    starts = panel * (np.cumsum(columns) - columns)
    return np.ascontiguousarray(np.stack([starts, columns])[:, ::-1], dtype=np.int64)


def in_panels(G: FloatArray, precision: Precision, width: int) -> FloatArray:
    """Likewise a matrix of few columns, in doubles."""
    lines, few = -(-width // precision.panel) * precision.panel, G.shape[1]
    filled = np.zeros((lines, few))
    filled[: len(G)] = G
    panels = filled.reshape(lines // DOUBLE.panel, DOUBLE.panel, few)
    return np.ascontiguousarray(panels.swapaxes(1, 2)).ravel()


def panel_across(B: FloatArray, width: int) -> FloatArray:
    """The transpose of a matrix of few columns in one panel: no more of them than that is wide."""
    filled = np.zeros((width, DOUBLE.panel))
    filled[: len(B), : B.shape[1]] = B
    return filled.ravel()


def _meeting(precision: Precision, rows: int) -> Callable[..., Any]:
    """An instruction: out += panel . some columns of a few rows; addresses, steps in bytes."""
    address, number = types.uintp, types.intp

    @instruction(types.void(address, number, number, address, address, number))
    def meet(
        builder: Any, where: Any, step: Any, count: Any, panel: Any, out: Any, out_step: Any
    ) -> None:
        code, lanes = Code(builder, precision), precision.lanes
        zero = [[code.all_lanes(0.0)] * PANEL_VECTORS for _ in range(rows)]
        found = row_products(code, zero, where, step, count, panel)
        wide = ir.VectorType(ir.DoubleType(), lanes)
        for i, line in enumerate(found):
            place = builder.add(out, builder.mul(out_step, out_step.type(i)))
            for v, product in enumerate(line):
                at = builder.add(place, place.type(8 * lanes * v))
                pointer = builder.inttoptr(at, wide.as_pointer())
                value = builder.load(product)
                value = builder.fpext(value, wide) if precision.size == 4 else value
                both = builder.fadd(builder.load(pointer, align=8), value)
                builder.store(both, pointer, align=8)

    return meet


def _meeting_short() -> Callable[..., Any]:
    """An instruction: out += panel of singles . columns of a row, in doubles; addresses."""
    address, number = types.uintp, types.intp

    @instruction(types.void(address, number, address, address))
    def meet(builder: Any, where: Any, count: Any, panel: Any, out: Any) -> None:
        code, i64, lanes = Code(builder, DOUBLE), count.type, DOUBLE.lanes
        vectors = SINGLE.panel // lanes
        short = ir.VectorType(ir.FloatType(), lanes)
        sums = [code.variable(code.load(out, v)) for v in range(vectors)]
        with cgutils.for_range(builder, count) as loop:
            at = builder.add(panel, builder.mul(loop.index, i64(4 * SINGLE.panel)))
            z = code.spread(builder.add(where, builder.mul(loop.index, i64(8))))
            for v, total in enumerate(sums):
                place = builder.add(at, at.type(4 * lanes * v))
                column = builder.load(builder.inttoptr(place, short.as_pointer()), align=4)
                code.add_product(total, z, builder.fpext(column, DOUBLE.vector))
        for v, total in enumerate(sums):
            code.store(builder.load(total), out, v)

    return meet


def _squaring(numbers: int) -> Callable[..., Any]:
    """An instruction: each out += |v|^2 of so many doubles; addresses, and how many v there are."""
    address, number = types.uintp, types.intp

    @instruction(types.void(address, number, address))
    def square(builder: Any, where: Any, count: Any, out: Any) -> None:
        code, i64 = Code(builder, DOUBLE), count.type
        with cgutils.for_range(builder, count) as loop:
            at = builder.add(where, builder.mul(loop.index, i64(8 * numbers)))
            vectors = code.vectors(at, numbers // DOUBLE.lanes)
            total = code.variable()
            add_by_halves(code, [builder.fmul(one, one) for one in vectors], total)
            place = builder.add(out, builder.mul(loop.index, i64(8)))
            pointer = builder.inttoptr(place, ir.DoubleType().as_pointer())
            found = code.total(builder.load(total))
            builder.store(builder.fadd(builder.load(pointer, align=8), found), pointer, align=8)

    return square


def _adding(precision: Precision) -> Any:
    """A function: v += panel . y of some rows, by their addresses; says where the panel ends."""
    several, one = _meeting(precision, MANY), _meeting(precision, 1)
    size, line = precision.size, precision.size * precision.panel

    @helper
    def add(y: Any, step: int, count: int, columns: int, panel: Any, v: Any, v_step: int) -> Any:
        whole = count // MANY * MANY
        for left in range(0, columns, TRIANGLE_COLUMNS):
            some = min(TRIANGLE_COLUMNS, columns - left)
            for i in range(0, whole, MANY):
                here, there = np.uintp(i * step + size * left), np.uintp(i * v_step)
                several(y + here, step, some, panel, v + there, v_step)
            for i in range(whole, count):
                here, there = np.uintp(i * step + size * left), np.uintp(i * v_step)
                one(y + here, step, some, panel, v + there, v_step)
            panel += np.uintp(line * some)
        return panel

    return add


_add_doubles, _add_singles = _adding(DOUBLE), _adding(SINGLE)
_add_short = _meeting_short()
_square_doubles, _square_singles = _squaring(DOUBLE.panel), _squaring(SINGLE.panel)
DOUBLE_PANEL, SINGLE_PANEL = DOUBLE.panel, SINGLE.panel


@kernel()
def double_squares(rows: Matrix, W: Vector, out: OutVector) -> None:
    """|W x|^2 of each row (m, width) into out (m,)."""
    m, width = rows.shape
    room = np.empty((min(DOUBLES_AT_ONCE, m), DOUBLE_PANEL))
    v, v_step = np.uintp(room.ctypes.data), 8 * DOUBLE_PANEL
    for first in range(0, m, DOUBLES_AT_ONCE):
        count = min(DOUBLES_AT_ONCE, m - first)
        x = np.uintp(rows.ctypes.data) + np.uintp(8 * first * width)
        panel, found = np.uintp(W.ctypes.data), np.uintp(out.ctypes.data) + np.uintp(8 * first)
        out[first : first + count] = 0.0
        for top in range(0, width, DOUBLE_PANEL):
            room[:count] = 0.0
            end = min(top + DOUBLE_PANEL, width)
            panel = _add_doubles(x, 8 * width, count, end, panel, v, v_step)
            _square_doubles(v, count, found)


@kernel(by_row=("starts", "columns", "out"))
def panel_squares(row: Vector, W: Vector, starts: Longs, columns: Longs, out: OutVector) -> None:
    """|w|^2 of the part w of W x that each panel gives, of one row x: `panel_places` has them."""
    room = np.empty((1, DOUBLE_PANEL))
    x, v, step = np.uintp(row.ctypes.data), np.uintp(room.ctypes.data), 8 * DOUBLE_PANEL
    for i in range(len(starts)):
        room[0] = 0.0
        out[i] = 0.0
        panel = np.uintp(W.ctypes.data) + np.uintp(8 * starts[i])
        _add_doubles(x, 8 * len(row), 1, columns[i], panel, v, step)
        _square_doubles(v, 1, np.uintp(out.ctypes.data) + np.uintp(8 * i))


@kernel()
def rest_of_row(
    x: Vector, across: Vector, B: Vector, rest: OutVector, c: OutVector, sums: OutVector
) -> None:
    """c = B'x and what it leaves of x; |rest|^2 and |c|^2 into sums.

    B comes as in `single_squares`, of as many columns as c has room for.
    """
    width, few = len(x), len(c)
    own, part = np.zeros((1, DOUBLE_PANEL)), np.empty((1, DOUBLE_PANEL))
    z, t, step = np.uintp(own.ctypes.data), np.uintp(part.ctypes.data), 8 * DOUBLE_PANEL
    if few > 0:
        across_panel = np.uintp(across.ctypes.data)
        _add_doubles(np.uintp(x.ctypes.data), 8 * width, 1, width, across_panel, z, step)
    sums[:] = 0.0
    panel = np.uintp(B.ctypes.data)
    for top in range(0, width, DOUBLE_PANEL):
        part[0] = 0.0
        panel = _add_doubles(z, step, 1, few, panel, t, step)
        for j in range(min(DOUBLE_PANEL, width - top)):
            part[0, j] = x[top + j] - part[0, j]
            rest[top + j] = part[0, j]
        _square_doubles(t, 1, np.uintp(sums.ctypes.data))
    c[:] = own[0, :few]
    _square_doubles(z, 1, np.uintp(sums.ctypes.data) + np.uintp(8))


@kernel(by_row=("starts", "columns", "out"))
def short_panel_squares(
    rest: Vector, c: Vector, G: Vector, W: Singles, starts: Longs, columns: Longs, out: OutVector
) -> None:
    """|v|^2 of the part v of G c + W y that each panel of singles gives, of one row in doubles."""
    room = np.empty((1, SINGLE_PANEL))
    v, few, step = np.uintp(room.ctypes.data), len(c), 8 * SINGLE_PANEL
    y, z = np.uintp(rest.ctypes.data), np.uintp(c.ctypes.data)
    for i in range(len(starts)):
        room[0] = 0.0
        out[i] = 0.0
        # As many columns as the panel's last line is long: where it stands among panels.
        line = (columns[i] + SINGLE_PANEL - 1) // SINGLE_PANEL - 1
        own = np.uintp(G.ctypes.data) + np.uintp(8 * line * SINGLE_PANEL * few)
        for half in range(0, SINGLE_PANEL, DOUBLE_PANEL):
            there = v + np.uintp(8 * half)
            own = _add_doubles(z, 8 * few, 1, few, own, there, step)
        panel = np.uintp(W.ctypes.data) + np.uintp(4 * starts[i])
        _add_short(y, columns[i], panel, v)
        _square_singles(v, 1, np.uintp(out.ctypes.data) + np.uintp(8 * i))


@kernel()
def single_squares(
    rows: Matrix,
    few: int,
    across: Vector,
    B: Vector,
    G: Vector,
    W: Singles,
    out: OutVector,
    rests: OutVector,
    shares: OutVector,
) -> None:
    """|G c + W y|^2 of each row into out (m,), |y|^2 into rests, |c|^2 into shares.

    c is B'x, and y what it leaves of x. B of `few` columns comes as one panel of its transpose,
    and in panels, as G does.
    """
    m, width = rows.shape
    tall = min(SINGLES_AT_ONCE, m)
    y = np.empty((tall, width), np.float32)
    own, room = np.empty((tall, DOUBLE_PANEL)), np.empty((tall, SINGLE_PANEL))
    part = np.empty((tall, DOUBLE_PANEL))
    c, v = np.uintp(own.ctypes.data), np.uintp(room.ctypes.data)
    t, short = np.uintp(part.ctypes.data), np.uintp(y.ctypes.data)
    step, v_step, y_step = 8 * DOUBLE_PANEL, 8 * SINGLE_PANEL, 4 * width
    for first in range(0, m, SINGLES_AT_ONCE):
        count = min(SINGLES_AT_ONCE, m - first)
        last, far = first + count, np.uintp(8 * first)
        out[first:last] = 0.0
        rests[first:last] = 0.0
        shares[first:last] = 0.0
        own[:count] = 0.0
        x = np.uintp(rows.ctypes.data) + np.uintp(8 * first * width)
        _add_doubles(x, 8 * width, count, width, np.uintp(across.ctypes.data), c, step)
        _square_doubles(c, count, np.uintp(shares.ctypes.data) + far)
        panel = np.uintp(B.ctypes.data)
        for top in range(0, width, DOUBLE_PANEL):
            part[:count] = 0.0
            panel = _add_doubles(c, step, count, few, panel, t, step)
            for i in range(count):
                for j in range(min(DOUBLE_PANEL, width - top)):
                    part[i, j] = rows[first + i, top + j] - part[i, j]
                    y[i, top + j] = part[i, j]
            _square_doubles(t, count, np.uintp(rests.ctypes.data) + far)
        panel, own_panel = np.uintp(W.ctypes.data), np.uintp(G.ctypes.data)
        for top in range(0, width, SINGLE_PANEL):
            room[:count] = 0.0
            for half in range(0, SINGLE_PANEL, DOUBLE_PANEL):
                there = v + np.uintp(8 * half)
                own_panel = _add_doubles(c, step, count, few, own_panel, there, v_step)
            end = min(top + SINGLE_PANEL, width)
            panel = _add_singles(short, y_step, count, end, panel, v, v_step)
            _square_singles(v, count, np.uintp(out.ctypes.data) + far)
