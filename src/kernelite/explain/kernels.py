"""The compiled loops of Shapley values: factors of rows and centers, and their quadrature.

Centers stand in tiles of `TILE_CENTERS`, feature by feature: a loop over a tile is a few vectors.
The factor of a player, a row z and a center s is exp(-e), where e is the sum over the player's
features of a (z - s)^2 + c |z - s|.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.compiling import (
    Longs,
    Matrix,
    OutMatrix,
    OutVector,
    Vector,
    cgutils,
    helper,
    instruction,
    ir,
    kernel,
    types,
)
from kernelite.backends.cpu.kernels.exp import exp_nonpositive

__all__ = ["TILE_CENTERS", "factors", "shapley_sums"]

VECTOR_DOUBLES = 8  # doubles of a vector
TILE_CENTERS = 16  # centers of a tile
FACTOR_EXPONENT = 690.0  # of a factor: what is smaller than exp(-690) counts as that
PRODUCT_ROUNDED = 2.0**-50  # more than taking 1 away from a product rounds
_VECTORS = TILE_CENTERS // VECTOR_DOUBLES
_FUSED = ("contract",)


def _vector() -> Any:
    """LLVM's type of a vector."""
    return ir.VectorType(ir.DoubleType(), VECTOR_DOUBLES)


def _spread(builder: Any, number: Any) -> Any:
    """A vector whose entries are all one number."""
    one = builder.insert_element(ir.Constant(_vector(), ir.Undefined), number, ir.IntType(32)(0))
    places = ir.Constant(ir.VectorType(ir.IntType(32), VECTOR_DOUBLES), [0] * VECTOR_DOUBLES)
    return builder.shuffle_vector(one, one, places)


def _at(builder: Any, base: Any, offset: Any) -> Any:
    return builder.inttoptr(builder.add(base, offset), _vector().as_pointer())


@contextmanager
def _lines(builder: Any, count: Any, *, backwards: bool = False) -> Iterator[Any]:
    """A loop over lines of a tile: gives the number of bytes before each line."""
    i64 = ir.IntType(64)
    with cgutils.for_range(builder, count) as loop:
        index = loop.index
        if backwards:
            index = builder.sub(builder.sub(count, i64(1)), index)
        yield builder.mul(index, i64(8 * TILE_CENTERS))


def _variable(builder: Any) -> Any:
    """A vector that a loop changes; it becomes a register."""
    room: Any = cgutils.alloca_once(builder, _vector())
    return room


@instruction(
    types.void(
        types.uintp, types.uintp, types.intp, types.float64, types.float64, types.uintp, types.uintp
    )
)
def _add_two_nodes(
    builder: Any, u: Any, v: Any, p: Any, t: Any, w: Any, before: Any, out: Any
) -> None:
    """out[g] += w (prod over l != g of M_l(t)) + the same at 1 - t, for t <= 1/2 and all p players.

    M_l(t) = v + t (u - v), and M_l(1 - t) = u - t (u - v). Products up to g are kept in `before`
    on the way forth, and meet those from behind on the way back.
    """
    i64 = ir.IntType(64)
    times, weight = _spread(builder, t), _spread(builder, w)
    runs = [[_variable(builder) for _ in range(2)] for _ in range(_VECTORS)]

    def start(value: Any) -> None:
        for pair in runs:
            for run in pair:
                builder.store(value, run)

    def both(place: Any) -> tuple[Any, Any]:
        up = builder.load(_at(builder, u, place), align=8)
        low = builder.load(_at(builder, v, place), align=8)
        moved = builder.fmul(times, builder.fsub(up, low), flags=_FUSED)
        return builder.fadd(low, moved, flags=_FUSED), builder.fsub(up, moved, flags=_FUSED)

    def kept(line: Any, vector: int, node: int) -> Any:
        place = builder.add(
            builder.mul(line, i64(2)), i64(8 * VECTOR_DOUBLES * (2 * vector + node))
        )
        return _at(builder, before, place)

    start(weight)
    with _lines(builder, p) as line:
        for i in range(_VECTORS):
            for node, factor in enumerate(both(builder.add(line, i64(8 * VECTOR_DOUBLES * i)))):
                run = builder.load(runs[i][node])
                builder.store(run, kept(line, i, node), align=8)
                builder.store(builder.fmul(run, factor), runs[i][node])
    start(ir.Constant(_vector(), [1.0] * VECTOR_DOUBLES))
    with _lines(builder, p, backwards=True) as line:
        for i in range(_VECTORS):
            place = builder.add(line, i64(8 * VECTOR_DOUBLES * i))
            total = builder.load(_at(builder, out, place), align=8)
            for node, factor in enumerate(both(place)):
                run = builder.load(runs[i][node])
                others = builder.fmul(builder.load(kept(line, i, node), align=8), run, flags=_FUSED)
                total = builder.fadd(total, others, flags=_FUSED)
                builder.store(builder.fmul(run, factor), runs[i][node])
            builder.store(total, _at(builder, out, place), align=8)


@instruction(types.void(types.uintp, types.uintp, types.intp, types.uintp))
def _spreads(builder: Any, u: Any, v: Any, p: Any, out: Any) -> None:
    """Of each lane: sum r_g, sum r_g^2 and prod (u_g + v_g) / 2, with r = (u - v) / (u + v)."""
    i64 = ir.IntType(64)
    begin = [ir.Constant(_vector(), [value] * VECTOR_DOUBLES) for value in (0.0, 0.0, 1.0)]
    half = ir.Constant(_vector(), [0.5] * VECTOR_DOUBLES)
    found = [[_variable(builder) for _ in begin] for _ in range(_VECTORS)]
    for several in found:
        for value, one in zip(begin, several):
            builder.store(value, one)
    with _lines(builder, p) as line:
        for i, (first, second, product) in enumerate(found):
            place = builder.add(line, i64(8 * VECTOR_DOUBLES * i))
            up = builder.load(_at(builder, u, place), align=8)
            low = builder.load(_at(builder, v, place), align=8)
            both = builder.fadd(up, low)
            r = builder.fdiv(builder.fsub(up, low), both)
            square = builder.fmul(r, r, flags=_FUSED)
            builder.store(builder.fadd(builder.load(first), r), first)
            builder.store(builder.fadd(builder.load(second), square, flags=_FUSED), second)
            middle = builder.fmul(both, half)
            builder.store(builder.fmul(builder.load(product), middle), product)
    for i, several in enumerate(found):
        for line_number, one in enumerate(several):
            place = i64(8 * (TILE_CENTERS * line_number + VECTOR_DOUBLES * i))
            builder.store(builder.load(one), _at(builder, out, place), align=8)


@instruction(
    types.void(
        *(types.uintp, types.uintp, types.intp, types.uintp),
        *(types.uintp, types.uintp, types.uintp),
    )
)
def _add_players(
    builder: Any, u: Any, v: Any, p: Any, total: Any, errors: Any, value: Any, size: Any
) -> None:
    """value += total (u - v) and size += total (u + v) errors, for all players and lanes."""
    i64 = ir.IntType(64)
    off = [
        builder.load(_at(builder, errors, i64(8 * VECTOR_DOUBLES * i)), align=8)
        for i in range(_VECTORS)
    ]
    with _lines(builder, p) as line:
        for i in range(_VECTORS):
            place = builder.add(line, i64(8 * VECTOR_DOUBLES * i))
            up, low, found = (
                builder.load(_at(builder, base, place), align=8) for base in (u, v, total)
            )
            given = builder.fmul(found, builder.fsub(up, low), flags=_FUSED)
            reach = builder.fmul(found, builder.fadd(up, low))
            for base, more in ((value, given), (size, builder.fmul(reach, off[i], flags=_FUSED))):
                to = _at(builder, base, place)
                builder.store(
                    builder.fadd(builder.load(to, align=8), more, flags=_FUSED), to, align=8
                )


@kernel()
def factors(
    rows: Matrix,
    moves: Matrix,
    centers: Matrix,
    square: Vector,
    city: Vector,
    player: Longs,
    relative: float,
    center_moves: float,
    begin: int,
    end: int,
    room: OutVector,
    out: OutMatrix,
    errors: OutMatrix,
) -> None:
    """Factors of players, and how far their product may be off relatively, by their exponents.

    An item is a row and a tile: number row tiles + tile. `moves` says how far each coordinate of a
    row may be off, `center_moves` likewise relative to a center's, `relative` how far an exponent
    computed from them is, relatively. `out` has a line of (p, TILE_CENTERS) per
    item, `errors` of TILE_CENTERS.
    """
    tiles, d, p = len(centers), len(square), len(room) // TILE_CENTERS
    for item in range(begin, end):
        row, tile = item // tiles, item % tiles
        room[:] = 0.0
        off = errors[item]
        off[:] = 0.0
        for feature in range(d):
            z, moved = rows[row, feature], moves[row, feature]
            a, c, base = square[feature], city[feature], player[feature] * TILE_CENTERS
            for k in range(TILE_CENTERS):
                s = centers[tile, feature * TILE_CENTERS + k]
                gap = abs(z - s)
                exponent = (a * gap + c) * gap
                eta = moved + center_moves * abs(s)
                room[base + k] += exponent
                off[k] += relative * exponent + (a * (2.0 * gap + eta) + c) * eta
        for k in range(TILE_CENTERS):
            off[k] = math.expm1(min(off[k], FACTOR_EXPONENT))
        line = out[item]
        for place in range(p * TILE_CENTERS):
            line[place] = exp_nonpositive(-min(room[place], FACTOR_EXPONENT))


@helper
def _rule(u: Any, v: Any, p: int, choice: Any, side: int, steps: float, found: Any) -> int:
    """Which rule is fine enough for all centers of a tile, by the largest of their spreads."""
    _spreads(np.uintp(u.ctypes.data), np.uintp(v.ctypes.data), p, np.uintp(found.ctypes.data))
    first, second = 0.0, 0.0
    for k in range(TILE_CENTERS):
        squares = found[TILE_CENTERS + k]
        first = max(first, abs(found[k]) + min(1.0, np.sqrt(squares)))
        second = max(second, squares)
    i, j = int(first * steps) + 1, int(second * steps) + 1
    last = side * side
    return choice[i * side + j] if i < side and j < side else choice[last]


@kernel()
def shapley_sums(
    u: Matrix,
    u_errors: Matrix,
    v: Matrix,
    v_errors: Matrix,
    weights: Matrix,
    nodes: Vector,
    node_weights: Vector,
    starts: Longs,
    choice: Longs,
    side: int,
    steps: float,
    units: float,
    m: int,
    tiles: int,
    per_item: int,
    begin: int,
    end: int,
    room: OutMatrix,
    found: OutVector,
    out: OutMatrix,
    sizes: OutMatrix,
    middles: OutMatrix,
) -> None:
    """Shapley values of rows under some centers, summed over background rows; an item each.

    An item is a row and `per_item` tiles: number part m + row. `u` has the factors of rows, `v` of
    the background, `weights` a line of (k, TILE_CENTERS) coefficients per tile. `nodes` up to 1/2
    stand for two each; those of rule r are starts[r] to starts[r + 1]. A side of 0 means the
    last rule always. `sizes` are what roundings grow with, `middles` sum
    |A| prod (u + v) / 2: see `shapley`.
    """
    p, k = u.shape[1] // TILE_CENTERS, weights.shape[1] // TILE_CENTERS
    background = len(v) // tiles
    before, total, value, size = room[0], room[2], room[3], room[4]
    for item in range(begin, end):
        part, row = item // m, item % m
        out[item, :] = 0.0
        sizes[item, :] = 0.0
        middles[item, :] = 0.0
        for tile in range(part * per_item, min(tiles, (part + 1) * per_item)):
            value[:] = 0.0
            size[:] = 0.0
            mine, my_errors = u[row * tiles + tile], u_errors[row * tiles + tile]
            middle, errors = found[3 * TILE_CENTERS : 4 * TILE_CENTERS], found[4 * TILE_CENTERS :]
            middle[:] = 0.0
            for b in range(background):
                other, its_errors = v[b * tiles + tile], v_errors[b * tiles + tile]
                rule = len(starts) - 2
                if side:
                    rule = _rule(mine, other, p, choice, side, steps, found)
                    for lane in range(TILE_CENTERS):
                        middle[lane] += found[2 * TILE_CENTERS + lane]
                total[:] = 0.0
                for node in range(starts[rule], starts[rule + 1]):
                    _add_two_nodes(
                        np.uintp(mine.ctypes.data),
                        np.uintp(other.ctypes.data),
                        p,
                        nodes[node],
                        node_weights[node],
                        np.uintp(before.ctypes.data),
                        np.uintp(total.ctypes.data),
                    )
                for lane in range(TILE_CENTERS):
                    both = (1.0 + my_errors[lane]) * (1.0 + its_errors[lane])
                    errors[lane] = (1.0 + units) * both - 1.0 + PRODUCT_ROUNDED
                _add_players(
                    np.uintp(mine.ctypes.data),
                    np.uintp(other.ctypes.data),
                    p,
                    np.uintp(total.ctypes.data),
                    np.uintp(errors.ctypes.data),
                    np.uintp(value.ctypes.data),
                    np.uintp(size.ctypes.data),
                )
            for output in range(k):
                for lane in range(TILE_CENTERS):
                    weight = weights[tile, output * TILE_CENTERS + lane]
                    middles[item, output] += abs(weight) * middle[lane]
                    for g in range(p):
                        at = g * TILE_CENTERS + lane
                        out[item, output * p + g] += weight * value[at]
                        sizes[item, output * p + g] += abs(weight) * size[at]
