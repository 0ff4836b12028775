"""Rows times a matrix of few columns, where they stand: y = V'(x - p), or V'x of a sparse row.

A few rows at a time are shifted into cache, then each entry is multiplied into vectors of columns
whose sums stay in registers: as many multiply-adds as a core can start, two loads for five.
In: rows (m, d), C-contiguous. Out: y of each row, and |x - p|^2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels.compiling import cgutils, helper, instruction, ir, types
from kernelite.backends.cpu.kernels.exp2 import DOUBLE, Code
from kernelite.backends.cpu.kernels.tiles import (
    Change,
    map_and_shift,
    map_by_two_words,
    prefetch_line,
    shift,
)
from kernelite.data.rows.inputs import FloatArray

__all__ = [
    "PROJECT_LANES",
    "PROJECT_ROWS",
    "SLICE",
    "group_sizes",
    "lay_out",
    "project_entries",
    "project_rows",
]

# As many registers as a core has: room for GROUP * PROJECT_ROWS sums and operands.
PROJECT_LANES = DOUBLE.lanes
PROJECT_ROWS = PROJECT_LANES  # taken at once
GROUP = 3  # vectors of columns whose sums are in registers at once
SLICE = 256  # features at a time, so that the shifted rows stay in the first cache
_ADDRESS, _SIZE = types.uintp, types.intp


def group_sizes(n_columns: int) -> NDArray[np.int64]:
    """In what groups of vectors so many columns are taken: at most GROUP, none alone if avoidable.

    Examples
    --------
    >>> [group_sizes(PROJECT_LANES * vectors).tolist() for vectors in (1, 3, 4, 5)]
    [[1], [3], [2, 2], [3, 2]]
    """
    left = -(-n_columns // PROJECT_LANES)
    sizes = []
    while left:
        size = 2 if left == GROUP + 1 else min(left, GROUP)
        sizes.append(size)
        left -= size
    return np.array(sizes, dtype=np.int64)


def lay_out(matrix: FloatArray) -> FloatArray:
    """A (d, n_columns) matrix as `project_rows` reads it: group by group, each row by row.

    Examples
    --------
    >>> lay_out(np.ones((3, 2))).shape == (3 * PROJECT_LANES,)
    True
    """
    d, n_columns = matrix.shape
    sizes = group_sizes(n_columns)
    wide = np.zeros((d, PROJECT_LANES * int(sizes.sum())))
    wide[:, :n_columns] = matrix
    parts = np.split(wide, PROJECT_LANES * np.cumsum(sizes)[:-1], axis=1)
    return np.concatenate([part.ravel() for part in parts])


def _shifting(to_u: Change) -> Callable[..., Any]:
    """An instruction: target[i] = u of source[i] for PROJECT_ROWS rows, a vector at a time.

    Squares of u are added to `room`. Addresses; the steps between source rows and between lines of
    `way` in bytes; target rows are SLICE entries apart.
    """

    @instruction(types.void(_ADDRESS, _SIZE, _ADDRESS, _SIZE, _ADDRESS, _ADDRESS, _SIZE))
    def run(
        builder: Any,
        source: Any,
        step: Any,
        way: Any,
        way_step: Any,
        target: Any,
        room: Any,
        vectors: Any,
    ) -> None:
        code, i64 = Code(builder, DOUBLE), step.type
        totals = [code.variable(kept) for kept in code.vectors(room, PROJECT_ROWS)]
        with cgutils.for_range(builder, vectors) as loop:
            at = builder.mul(loop.index, i64(8 * PROJECT_LANES))

            def line_of_way(number: int, at: Any = at) -> Any:
                place = builder.add(way, builder.mul(way_step, i64(number)))
                return code.load(builder.add(place, at))

            shifted = to_u(builder, line_of_way)
            line, out = builder.add(source, at), builder.add(target, at)
            for total in totals:
                u = shifted(code.load(line))
                code.store(u, out)
                code.add_product(total, u, u)
                line, out = builder.add(line, step), builder.add(out, i64(8 * SLICE))
        for i, total in enumerate(totals):
            code.store(builder.load(total), room, i)

    return run


_shift_rows, _map_rows = _shifting(shift), _shifting(map_and_shift)
_map_rows_by_words = _shifting(map_by_two_words)


def _ask_for(builder: Any, rows: Any, step: Any, j: Any) -> None:
    """Ask for vector j of the rows that come next, counted across rows: a little for each j."""
    i64 = step.type
    line = builder.add(rows, builder.mul(builder.and_(j, i64(PROJECT_ROWS - 1)), step))
    far = builder.mul(builder.lshr(j, i64(PROJECT_ROWS.bit_length() - 1)), i64(8 * PROJECT_LANES))
    prefetch_line(builder, builder.add(line, far))


def _projection(group: int) -> Callable[..., Any]:
    """An instruction: y[i] += sum_j u[i, j] v[j] of PROJECT_ROWS rows, `group` vectors wide."""

    @instruction(types.void(_ADDRESS, _SIZE, _ADDRESS, _ADDRESS, _SIZE, _ADDRESS, _SIZE))
    def project(
        builder: Any,
        rows: Any,
        count: Any,
        columns: Any,
        target: Any,
        step: Any,
        coming: Any,
        coming_step: Any,
    ) -> None:
        code, i64 = Code(builder, DOUBLE), step.type
        places = [builder.add(target, builder.mul(step, i64(i))) for i in range(PROJECT_ROWS)]
        totals = [[code.variable(kept) for kept in code.vectors(at, group)] for at in places]
        with cgutils.for_range(builder, count) as loop:
            at = builder.add(columns, builder.mul(loop.index, i64(8 * PROJECT_LANES * group)))
            v = code.vectors(at, group)
            entry = builder.add(rows, builder.mul(loop.index, i64(8)))
            _ask_for(builder, coming, coming_step, loop.index)
            for line in totals:
                u = code.spread(entry)
                for total, column in zip(line, v, strict=True):
                    code.add_product(total, u, column)
                entry = builder.add(entry, i64(8 * SLICE))
        for at, line in zip(places, totals, strict=True):
            for c, total in enumerate(line):
                code.store(builder.load(total), at, c)

    return project


def _entries_projection(group: int) -> Callable[..., Any]:
    """An instruction: y += sum_i x[i] v[index[i]] for `group` vectors of columns."""

    @instruction(types.void(_ADDRESS, _ADDRESS, _SIZE, _ADDRESS, _ADDRESS))
    def project(
        builder: Any, indices: Any, entries: Any, count: Any, columns: Any, target: Any
    ) -> None:
        code, i64, i32 = Code(builder, DOUBLE), count.type, ir.IntType(32)
        totals = [code.variable(kept) for kept in code.vectors(target, group)]
        with cgutils.for_range(builder, count) as loop:
            place = builder.add(indices, builder.mul(loop.index, i64(4)))
            index = builder.load(builder.inttoptr(place, i32.as_pointer()), align=4)
            far = builder.mul(builder.sext(index, i64), i64(8 * PROJECT_LANES * group))
            x = code.spread(builder.add(entries, builder.mul(loop.index, i64(8))))
            lines = code.vectors(builder.add(columns, far), group)
            for total, v in zip(totals, lines, strict=True):
                code.add_product(total, x, v)
        for c, total in enumerate(totals):
            code.store(builder.load(total), target, c)

    return project


_project_1, _project_2, _project_3 = _projection(1), _projection(2), _projection(3)
_entries_1, _entries_2, _entries_3 = map(_entries_projection, (1, 2, 3))


@helper
def project_entries(
    indices: NDArray[np.int32],
    data: FloatArray,
    start: int,
    stop: int,
    d: int,
    columns: FloatArray,
    sizes: NDArray[np.int64],
    y: FloatArray,
) -> None:
    """y += V'x for a row with these entries; their indices must be from 0 to d - 1.

    `y` has shape (n_columns,), as many as the groups of `sizes` have.
    """
    at, base = np.uintp(y.ctypes.data), np.uintp(columns.ctypes.data)
    where = np.uintp(indices.ctypes.data) + np.uintp(4 * start)
    entries = np.uintp(data.ctypes.data) + np.uintp(8 * start)
    for size in sizes:
        if size == 1:
            _entries_1(where, entries, stop - start, base, at)
        elif size == 2:
            _entries_2(where, entries, stop - start, base, at)
        else:
            _entries_3(where, entries, stop - start, base, at)
        base += np.uintp(8 * PROJECT_LANES * size * d)
        at += np.uintp(8 * PROJECT_LANES * size)


@helper
def project_rows(
    rows: FloatArray,
    start: int,
    count: int,
    way: FloatArray,
    columns: FloatArray,
    sizes: NDArray[np.int64],
    buffer: FloatArray,
    squares: FloatArray,
    y: FloatArray,
) -> None:
    """y[i] = V'u and the sum of squares[i] = |u|^2 of rows[start + i], i < count <= PROJECT_ROWS.

    `way` is p, of shape (1, d), or shift, scale, p (and low), of shape (3 or 4, d): u = x - p,
    or ((x - shift) - low) scale - p. All of `buffer`
    (PROJECT_ROWS, SLICE), `squares` (PROJECT_ROWS, PROJECT_LANES) and `y` (PROJECT_ROWS, n_columns)
    are overwritten; rows from `count` on come out as if they were zero.
    """
    d = rows.shape[1]
    step, wide = 8 * d, 8 * y.shape[1]
    squares[:] = 0.0
    y[:] = 0.0
    first = np.uintp(rows.ctypes.data) + np.uintp(start * step)
    way_at, target = np.uintp(way.ctypes.data), np.uintp(buffer.ctypes.data)
    room, results = np.uintp(squares.ctypes.data), np.uintp(y.ctypes.data)
    if count < PROJECT_ROWS:
        buffer[:] = 0.0
    for begin in range(0, d, SLICE):
        features = min(SLICE, d - begin)
        whole = 0
        if count == PROJECT_ROWS:
            whole = features // PROJECT_LANES * PROJECT_LANES
            source, here = first + np.uintp(8 * begin), way_at + np.uintp(8 * begin)
            if len(way) == 1:
                _shift_rows(source, step, here, step, target, room, whole // PROJECT_LANES)
            elif len(way) == 3:
                _map_rows(source, step, here, step, target, room, whole // PROJECT_LANES)
            else:
                _map_rows_by_words(source, step, here, step, target, room, whole // PROJECT_LANES)
        for i in range(count):
            for j in range(whole, features):
                x, at_j = rows[start + i, begin + j], begin + j
                if len(way) == 1:
                    u = x - way[0, at_j]
                elif len(way) == 3:
                    u = (x - way[0, at_j]) * way[1, at_j] - way[2, at_j]
                else:
                    u = ((x - way[0, at_j]) - way[3, at_j]) * way[1, at_j] - way[2, at_j]
                buffer[i, j] = u
                squares[i, 0] += u * u
        base, at = np.uintp(columns.ctypes.data), results
        coming = first + np.uintp(PROJECT_ROWS * step + 8 * begin)
        for size in sizes:
            v = base + np.uintp(8 * PROJECT_LANES * size * begin)
            if size == 1:
                _project_1(target, features, v, at, wide, coming, step)
            elif size == 2:
                _project_2(target, features, v, at, wide, coming, step)
            else:
                _project_3(target, features, v, at, wide, coming, step)
            base += np.uintp(8 * PROJECT_LANES * size * d)
            at += np.uintp(8 * PROJECT_LANES * size)
