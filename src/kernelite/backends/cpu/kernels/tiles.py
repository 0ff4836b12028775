"""Tiles: a few rows, shifted and transposed into cache, so that loops over rows are vectors.

In: rows of shape (m, d), C-contiguous. Out: u' of shape (>= d, TILE_HEIGHT), a column a row.
The rows of the next tile are requested from memory while this one is computed. Quadratic forms over
a tile go by 4 x 4 blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from kernelite.backends.cpu.kernels.compiling import helper, instruction, ir, types
from kernelite.data.rows.inputs import FloatArray

__all__ = [
    "FORM_WORK",
    "TILE_HEIGHT",
    "Change",
    "add_triangle",
    "aligned",
    "damp_tile",
    "load_mapped_tile",
    "load_tile",
    "load_words_tile",
    "map_and_shift",
    "map_by_two_words",
    "padded",
    "prefetch_line",
    "shift",
    "square_tile",
    "triangle_blocks",
]

TILE_HEIGHT = 64  # rows; best of 32 to 256 for d = 4 to 256: two of d = 22 fit the L1 cache
FORM_WORK = 5e5  # multiply-adds that are worth a thread: some tens of microseconds
_LANES = 8  # rows transposed at once: a 512-bit vector, or several smaller ones
# What one step of the transpose takes from a pair of vectors: 8 + i is entry i of the second.
_SHUFFLES = (
    (1, (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15)),
    (2, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15)),
    (4, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)),
)

Change: TypeAlias = Callable[[Any, Callable[[int], Any]], Callable[[Any], Any]]
"""Given the builder and what loads line n of the way, gives what changes entries of a row."""


def prefetch_line(builder: Any, address: Any) -> None:
    """Have the code that is being built ask for the cache line at an address; harmless anywhere."""
    pointer, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
    signature = ir.FunctionType(ir.VoidType(), [pointer, i32, i32, i32])
    function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], signature)
    # read, moderate locality, data
    builder.call(function, [builder.inttoptr(address, pointer), i32(0), i32(2), i32(1)])


_prefetch = instruction(types.void(types.uintp))(prefetch_line)


def _transposing(change: Change) -> Callable[..., Any]:
    """An instruction: target[j, i] = changed source[i, j], i, j < 8; addresses, steps in bytes."""
    address, size = types.uintp, types.intp

    @instruction(types.void(address, size, address, size, address, size))
    def transpose(
        builder: Any, source: Any, step: Any, way: Any, way_step: Any, target: Any, target_step: Any
    ) -> None:
        vector = ir.VectorType(ir.DoubleType(), _LANES)
        masks = ir.VectorType(ir.IntType(32), _LANES)

        def at(address: Any) -> Any:
            return builder.inttoptr(address, vector.as_pointer())

        def line_of_way(n: int) -> Any:
            place = builder.add(way, builder.mul(way_step, ir.Constant(way_step.type, n)))
            return builder.load(at(place), align=8)

        changed = change(builder, line_of_way)
        lines = []
        for _ in range(_LANES):
            lines.append(changed(builder.load(at(source), align=8)))
            source = builder.add(source, step)
        for distance, low, high in _SHUFFLES:
            for i in (i for i in range(_LANES) if not i & distance):
                pair = lines[i], lines[i + distance]
                lines[i] = builder.shuffle_vector(*pair, ir.Constant(masks, low))
                lines[i + distance] = builder.shuffle_vector(*pair, ir.Constant(masks, high))
        for line in lines:
            builder.store(line, at(target), align=8)
            target = builder.add(target, target_step)

    return transpose


def shift(builder: Any, line: Callable[[int], Any]) -> Callable[[Any], Any]:
    """What makes u of an entry: u = z - way[0]."""
    point = line(0)
    return lambda z: builder.fsub(z, point)


def map_and_shift(builder: Any, line: Callable[[int], Any]) -> Callable[[Any], Any]:
    """Likewise: u = (z - way[0]) way[1] - way[2]."""
    from_, scale, point = line(0), line(1), line(2)
    return lambda z: builder.fsub(builder.fmul(builder.fsub(z, from_), scale), point)


def map_by_two_words(builder: Any, line: Callable[[int], Any]) -> Callable[[Any], Any]:
    """Likewise: u = ((z - way[0]) - way[3]) way[1] - way[2]."""
    from_, scale, point, low = line(0), line(1), line(2), line(3)

    def changed(z: Any) -> Any:
        moved = builder.fsub(builder.fsub(z, from_), low)
        return builder.fsub(builder.fmul(moved, scale), point)

    return changed


@helper
def aligned(n: int) -> FloatArray:
    """Room for n doubles that starts with a cache line, so that no vector spans two."""
    room = np.empty(n + 8)
    start = (-room.ctypes.data % 64) // 8
    return room[start : start + n]


def _loader(name: str, change: Change, entry: Any) -> Any:
    """A function that loads a tile: eight by eight entries by `change`, else one by `entry`."""
    transpose = _transposing(change)

    def load(rows: FloatArray, start: int, count: int, way: FloatArray, tile: FloatArray) -> Any:
        d = rows.shape[1]
        whole = count // _LANES * _LANES
        step, tile_step = 8 * d, 8 * tile.shape[1]
        first = np.uintp(rows.ctypes.data) + np.uintp(start * step)
        way_at, target = np.uintp(way.ctypes.data), np.uintp(tile.ctypes.data)
        for r in range(0, whole, _LANES):
            source = first + np.uintp(r * step)
            for line in range(d):  # eight rows of d doubles are d cache lines
                _prefetch(source + np.uintp(TILE_HEIGHT * step + 64 * line))
            j = 0
            while j < d:
                left = d - j
                # A rest of half a block or more is transposed too, overlapping what is done.
                if left < _LANES and left >= _LANES // 2 and d >= _LANES:
                    j = d - _LANES
                    left = _LANES
                if left >= _LANES:
                    transpose(
                        source + np.uintp(8 * j),
                        step,
                        way_at + np.uintp(8 * j),
                        step,
                        target + np.uintp(j * tile_step + 8 * r),
                        tile_step,
                    )
                    j += _LANES
                else:
                    for i in range(_LANES):
                        tile[j, r + i] = entry(rows[start + r + i, j], way, j)
                    j += 1
        for r in range(whole, count):
            for j in range(d):
                tile[j, r] = entry(rows[start + r, j], way, j)

    load.__qualname__ = name  # compiled code is kept under it
    return helper(load)


@helper
def _shifted(z: float, point: FloatArray, j: int) -> float:
    return z - point[j]


@helper
def _mapped_and_shifted(z: float, way: FloatArray, j: int) -> float:
    return (z - way[0, j]) * way[1, j] - way[2, j]


@helper
def _mapped_by_two_words(z: float, way: FloatArray, j: int) -> float:
    return ((z - way[0, j]) - way[3, j]) * way[1, j] - way[2, j]


load_tile = _loader("load_tile", shift, _shifted)
"""(rows, start, count, point, tile): tile[j, r] = rows[start + r, j] - point[j] for r < count."""
load_mapped_tile = _loader("load_mapped_tile", map_and_shift, _mapped_and_shifted)
"""Likewise, way of shape (3, d): (rows[start + r, j] - way[0, j]) way[1, j] - way[2, j]."""
load_words_tile = _loader("load_words_tile", map_by_two_words, _mapped_by_two_words)
"""Likewise, way of shape (4, d): ((rows[start + r, j] - way[0, j]) - way[3, j]) way[1, j] - ..."""


@helper
def square_tile(tile: FloatArray, width: int, sq_norms: FloatArray) -> None:
    """|u|^2 of a tile's rows."""
    sq_norms[:width] = 0.0
    for a in range(0, tile.shape[0], 4):
        for r in range(width):
            u0, u1, u2, u3 = tile[a, r], tile[a + 1, r], tile[a + 2, r], tile[a + 3, r]
            sq_norms[r] += (u0 * u0 + u1 * u1) + (u2 * u2 + u3 * u3)


@helper
def damp_tile(exponentials: FloatArray, width: int, intercept: float, g: FloatArray) -> None:
    """g[r] = E g + b; b alone where E is zero, even if g overflowed."""
    for r in range(width):
        E = exponentials[r]
        g[r] = (0.0 if E == 0.0 else E * g[r]) + intercept


# Quadratic forms over a tile of rows: the upper triangle of a matrix in 4 x 4 blocks.
#
#     g += sum_{a <= b} m_ab u_a u_b + v.u
#
# A block keeps its 16 coefficients in registers along all rows of the tile, loads 8 features and
# does 20 multiply-adds: as many as a core can start in that time.


def padded(n_features: int) -> int:
    """The next multiple of four."""
    return (n_features + 3) // 4 * 4


def triangle_blocks(triangles: FloatArray) -> FloatArray:
    """Cut upper triangles, shape (k, d, d), into blocks row by row: (k, n_blocks, 16).

    Examples
    --------
    >>> triangle_blocks(np.ones((1, 5, 5))).shape
    (1, 3, 16)
    """
    k, d, _ = triangles.shape
    width = padded(d)
    filled = np.zeros((k, width, width))
    filled[:, :d, :d] = triangles
    blocks = filled.reshape(k, width // 4, 4, width // 4, 4).swapaxes(2, 3)
    lines, columns = np.triu_indices(width // 4)
    return np.ascontiguousarray(blocks[:, lines, columns].reshape(k, len(lines), 16))


@helper
def add_triangle(
    tile: FloatArray, width: int, blocks: FloatArray, linear: FloatArray, g: FloatArray
) -> int:
    """g[r] += v.u + u'Mu for the rows r < width of a tile; returns the number of blocks used."""
    index = 0
    for a in range(0, tile.shape[0], 4):
        m = blocks[index]
        m00, m01, m02, m03 = m[0], m[1], m[2], m[3]
        m11, m12, m13, m22, m23, m33 = m[5], m[6], m[7], m[10], m[11], m[15]
        v0, v1, v2, v3 = linear[a], linear[a + 1], linear[a + 2], linear[a + 3]
        index += 1
        for r in range(width):
            u0, u1, u2, u3 = tile[a, r], tile[a + 1, r], tile[a + 2, r], tile[a + 3, r]
            left = u0 * (v0 + m00 * u0 + m01 * u1 + m02 * u2 + m03 * u3)
            left += u1 * (v1 + m11 * u1 + m12 * u2 + m13 * u3)
            g[r] += left + (u2 * (v2 + m22 * u2 + m23 * u3) + u3 * (v3 + m33 * u3))
        for b in range(a + 4, tile.shape[0], 4):
            m = blocks[index]
            m00, m01, m02, m03, m10, m11, m12, m13 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]
            m20, m21, m22, m23 = m[8], m[9], m[10], m[11]
            m30, m31, m32, m33 = m[12], m[13], m[14], m[15]
            index += 1
            for r in range(width):
                u0, u1, u2, u3 = tile[b, r], tile[b + 1, r], tile[b + 2, r], tile[b + 3, r]
                left = tile[a, r] * (m00 * u0 + m01 * u1 + m02 * u2 + m03 * u3)
                left += tile[a + 1, r] * (m10 * u0 + m11 * u1 + m12 * u2 + m13 * u3)
                right = tile[a + 2, r] * (m20 * u0 + m21 * u1 + m22 * u2 + m23 * u3)
                right += tile[a + 3, r] * (m30 * u0 + m31 * u1 + m32 * u2 + m33 * u3)
                g[r] += left + right
    return index
