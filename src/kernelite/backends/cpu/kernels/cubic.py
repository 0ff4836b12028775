"""Symmetric cubic forms of several outputs over a tile of rows: few products, much used.

    T_j(u, u, u) = sum_a u_a q_aj,    q_aj = sum_{a <= b <= c} t_jabc (u_b u_c)

In: coefficients packed in the order of (a, b, c), multiplicities folded in. The products u_b u_c
are made once a tile, in the order of (b, c): each q_aj is a weighted sum of those from (a, a) on.
Four q at a time share what they load, their sums stay in registers. A term passes through at most
64 + r^2 / 128 + r sums, less than rounding.py allows the third order. Twin: `cubic_values`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.compiling import (
    Matrix,
    OutMatrix,
    OutVector,
    SingleMatrix,
    Vector,
    cgutils,
    helper,
    instruction,
    kernel,
    types,
)
from kernelite.backends.cpu.kernels.exp2 import DOUBLE, SINGLE, WIDE, Code, Precision
from kernelite.backends.cpu.kernels.tiles import FORM_WORK, TILE_HEIGHT, aligned, load_tile
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FloatArray
from kernelite.support.errors import InputError

__all__ = [
    "CUBIC_SUMS",
    "LANES",
    "PARTIAL",
    "JitCubic",
    "PackedCubic",
    "add_cubic",
    "linear_rows",
    "linear_weights",
    "prepare_cubic",
    "product_lines",
    "single_packed",
    "weigher",
]

CUBIC_SUMS = 4  # q at a time: with CUBIC_VECTORS of rows each, what registers hold
CUBIC_VECTORS = 4 if WIDE else 2
FEWEST_TILES = 8  # that a thread takes at a time: the room for all products is made anew each time
PARTIAL = 64  # products that are summed up before their sum is put aside


@dataclass(frozen=True, eq=False)
class JitCubic:
    """A cubic form laid out for the kernel.

    Parameters
    ----------
    point : ndarray of shape (r,)
        What is subtracted from rows first.
    weights : ndarray of shape (n_lines, 4)
        What the products are multiplied with for four q; the q of all outputs in turn, by a.
    """

    point: FloatArray
    weights: FloatArray

    @property
    def least_rows(self) -> int:
        """Rows that a thread should take at a time."""
        work = float(self.weights.size) + 8.0 * len(self.point)
        return TILE_HEIGHT * max(FEWEST_TILES, int(FORM_WORK / max(work, 1.0) / TILE_HEIGHT))


def prepare_cubic(packed: FloatArray, rank: int, point: FloatArray | None = None) -> JitCubic:
    """Lay out packed coefficients for the kernel.

    Parameters
    ----------
    packed : ndarray of shape (k, r (r + 1) (r + 2) / 6)
    rank : int
        r.
    point : ndarray of shape (r,), optional
        Subtracted from every row; zero by default.

    Examples
    --------
    >>> prepare_cubic(np.ones((2, 10)), 3).weights.shape
    (7, 4)
    """
    k, count = packed.shape
    if count != rank * (rank + 1) * (rank + 2) // 6:
        raise InputError(f"`packed` has {count} coefficients, which is not what rank {rank} has.")
    lines = rank * (rank + 1) // 2
    dense = np.zeros((-(-rank * k // CUBIC_SUMS) * CUBIC_SUMS, lines))
    start = 0
    for a in range(rank):
        size = (rank - a) * (rank - a + 1) // 2
        dense[a * k : (a + 1) * k, lines - size :] = packed[:, start : start + size]
        start += size
    weights = [np.empty((0, CUBIC_SUMS))]
    for row in range(0, rank * k, CUBIC_SUMS):
        a = row // k
        weights.append(dense[row : row + CUBIC_SUMS, a * rank - a * (a - 1) // 2 :].T)
    shift = np.zeros(rank) if point is None else np.ascontiguousarray(point)
    return JitCubic(shift, np.ascontiguousarray(np.concatenate(weights)))


@helper
def product_lines(rank: int) -> int:
    """How many products u_b u_c there are, b <= c."""
    return rank * (rank + 1) // 2


@helper
def add_cubic(
    tile: FloatArray,
    rank: int,
    width: int,
    weights: FloatArray,
    products: FloatArray,
    room: FloatArray,
    totals: FloatArray,
) -> None:
    """totals[j, r] += T_j(u, u, u) for the rows r < width <= TILE_HEIGHT of a tile.

    `products` has a line for each of them, `room` has CUBIC_SUMS lines; both are overwritten.
    """
    lines = 0
    for b in range(rank):
        for c in range(b, rank):
            for r in range(width):
                products[lines, r] = tile[b, r] * tile[c, r]
            lines += 1
    k, step = totals.shape[0], 8 * tile.shape[1]
    source, target = np.uintp(products.ctypes.data), np.uintp(room.ctypes.data)
    coefficients = np.uintp(weights.ctypes.data)
    for row in range(0, rank * k, CUBIC_SUMS):
        a = row // k
        room[:, :width] = 0.0
        line = a * rank - a * (a - 1) // 2
        while line < lines:
            count = min(PARTIAL, lines - line)
            _weigh_doubles(source + np.uintp(line * step), step, count, coefficients, target, width)
            line += count
            coefficients += np.uintp(8 * CUBIC_SUMS * count)
        for i in range(min(CUBIC_SUMS, rank * k - row)):
            a, j = (row + i) // k, (row + i) % k
            for r in range(width):
                totals[j, r] += tile[a, r] * room[i, r]


def _weighing(precision: Precision, vectors: int) -> Callable[..., Any]:
    """An instruction: target[i] += sum_l weights[l, i] source[l], i < CUBIC_SUMS, vectors of rows.

    Addresses; lines of source and target are `step` bytes apart.
    """
    address, size = types.uintp, types.intp

    @instruction(types.void(address, size, size, address, address))
    def weigh(builder: Any, source: Any, step: Any, count: Any, weights: Any, target: Any) -> None:
        code, i64, each = Code(builder, precision), step.type, precision.size
        totals = [[code.variable() for _ in range(vectors)] for _ in range(CUBIC_SUMS)]
        with cgutils.for_range(builder, count) as loop:
            products = code.vectors(builder.add(source, builder.mul(loop.index, step)), vectors)
            place = builder.add(weights, builder.mul(loop.index, i64(each * CUBIC_SUMS)))
            for i, own in enumerate(totals):
                weight = code.spread(builder.add(place, i64(each * i)))
                for total, product in zip(own, products, strict=True):
                    code.add_product(total, weight, product)
        for i, own in enumerate(totals):
            line = builder.add(target, builder.mul(step, i64(i)))
            for v, total in enumerate(own):
                code.store(builder.fadd(code.load(line, v), builder.load(total)), line, v)

    return weigh


def weigher(name: str, precision: Precision) -> Callable[..., None]:
    """(source, step, count, weights, target, width): add weighted lines to CUBIC_SUMS lines.

    For `width` rows, a multiple of the lanes; addresses, as `_weighing` takes them.
    """
    wide, narrow = _weighing(precision, CUBIC_VECTORS), _weighing(precision, 1)
    size, lanes = precision.size, precision.lanes

    def weigh(source: Any, step: int, count: int, weights: Any, target: Any, width: int) -> None:
        r = 0
        while r + lanes * CUBIC_VECTORS <= width:
            here = np.uintp(size * r)
            wide(source + here, step, count, weights, target + here)
            r += lanes * CUBIC_VECTORS
        while r < width:
            here = np.uintp(size * r)
            narrow(source + here, step, count, weights, target + here)
            r += lanes

    weigh.__qualname__ = name  # compiled code is kept under it
    return helper(weigh)


_weigh_doubles = weigher("weigh_doubles", DOUBLE)


# Polynomials that need no centers: a cubic one with all lower orders, packed, and a linear one.
#
#     out_j = sum_{a <= b <= c} t_jabc w_a w_b w_c,    w = (z, 1)
#     out = w.z + b,    and |z|^2 besides, in one pass over the rows
#
# In: rows of shape (m, d). Out: (m, k); of the linear one (m,). Twins: `cubic_values` of rows with
# a column of ones, a matrix product. The cubic one goes in single precision too, for one output:
# there products w_b w_c are rounded to 24 bits, and so are their weighted sums, 64 terms at a time.

LANES, SINGLE_LANES = DOUBLE.lanes, SINGLE.lanes
PACKED_ROWS = 4  # whose products are summed up at once, in registers


@dataclass(frozen=True, eq=False)
class PackedCubic:
    """Packed coefficients laid out for the kernel.

    Parameters
    ----------
    cubic : JitCubic
        Of rank d + 1.
    n_outputs : int
        k.
    """

    cubic: JitCubic
    n_outputs: int

    @classmethod
    def prepare(cls, packed: FloatArray, n_features: int) -> PackedCubic:
        """From (k, r (r + 1) (r + 2) / 6) coefficients, r = d + 1."""
        return cls(prepare_cubic(packed, n_features + 1), len(packed))

    def run(self, rows: FloatArray, out: FloatArray) -> None:
        """out = the polynomial of dense, contiguous rows: shape (m, k)."""
        zeros, weights = np.zeros(rows.shape[1]), self.cubic.weights
        least = self.cubic.least_rows
        share_rows(packed_kernel, len(rows), least, rows, zeros, weights, out)


@kernel(by_row=("rows", "out"))
def packed_kernel(rows: Matrix, zeros: Vector, weights: Matrix, out: OutMatrix) -> Any:
    m, d = rows.shape
    k, rank = out.shape[1], d + 1
    tall, lines = (rank + 3) // 4 * 4, product_lines(rank)
    height = tall + lines + CUBIC_SUMS + k
    room = aligned(height * TILE_HEIGHT).reshape(height, TILE_HEIGHT)
    room[:tall] = 0.0
    tile, rest = room[:tall], tall
    products, rest = room[rest : rest + lines], rest + lines
    sums, totals = room[rest : rest + CUBIC_SUMS], room[rest + CUBIC_SUMS :]
    for start in range(0, m, TILE_HEIGHT):
        count = min(TILE_HEIGHT, m - start)
        width = (count + 7) // 8 * 8
        load_tile(rows, start, count, zeros, tile)
        tile[d, :width] = 1.0
        totals[:, :width] = 0.0
        add_cubic(tile, rank, width, weights, products, sums, totals)
        for r in range(count):
            for j in range(k):
                out[start + r, j] = totals[j, r]


_weigh_singles = weigher("weigh_singles", SINGLE)


@kernel(by_row=("rows", "out"))
def single_packed(rows: Matrix, zeros: Vector, weights: SingleMatrix, out: OutVector) -> Any:
    """As `packed_kernel` for one output, in single precision; out of shape (m,).

    The last sums, of w_a times what single precision gave, are doubles.
    """
    m, d = rows.shape
    rank = d + 1
    tall, lines = (rank + 3) // 4 * 4, product_lines(rank)
    tile = aligned(tall * TILE_HEIGHT).reshape(tall, TILE_HEIGHT)
    tile[:] = 0.0
    single = np.empty((rank + lines + CUBIC_SUMS, TILE_HEIGHT), np.float32)
    z, products, sums = single[:rank], single[rank : rank + lines], single[rank + lines :]
    step = 4 * TILE_HEIGHT
    source, target = np.uintp(products.ctypes.data), np.uintp(sums.ctypes.data)
    for start in range(0, m, TILE_HEIGHT):
        count = min(TILE_HEIGHT, m - start)
        width = (count + SINGLE_LANES - 1) // SINGLE_LANES * SINGLE_LANES
        load_tile(rows, start, count, zeros, tile)
        tile[d] = 1.0
        for a in range(rank):
            for r in range(TILE_HEIGHT):
                z[a, r] = tile[a, r]
        line = 0
        for b in range(rank):
            for c in range(b, rank):
                for r in range(TILE_HEIGHT):
                    products[line, r] = z[b, r] * z[c, r]
                line += 1
        out[start : start + count] = 0.0
        coefficients = np.uintp(weights.ctypes.data)
        for first in range(0, rank, CUBIC_SUMS):
            sums[:] = np.float32(0.0)
            line = first * rank - first * (first - 1) // 2
            while line < lines:
                some = min(PARTIAL, lines - line)
                _weigh_singles(
                    source + np.uintp(line * step), step, some, coefficients, target, width
                )
                line += some
                coefficients += np.uintp(4 * CUBIC_SUMS * some)
            for i in range(min(CUBIC_SUMS, rank - first)):
                for r in range(count):
                    out[start + r] += tile[first + i, r] * sums[i, r]


def linear_weights(w: FloatArray) -> FloatArray:
    """A vector of at least `LANES` numbers as `linear_rows` takes it.

    Whole vectors, then the last `LANES` numbers, of which those that came before are zero, then
    ones and zeros that say which of a row's last entries count.

    Examples
    --------
    >>> laid_out = linear_weights(np.arange(1.0, LANES + 2))
    >>> (laid_out[2 * LANES - 1] == LANES + 1, laid_out[3 * LANES - 1] == 1.0)
    (np.True_, np.True_)
    """
    d = len(w)
    last = np.zeros(LANES)
    last[LANES - d % LANES :] = 1.0
    return np.concatenate([w[: d - d % LANES], last * w[d - LANES :], last])


def _products(rows: int) -> Callable[..., Any]:
    """An instruction: w.z and |z|^2 of rows `step` bytes apart; addresses, `count` whole vectors.

    The last entries of a row are loaded together, `last` bytes from its beginning.
    """

    address, size = types.uintp, types.intp

    @instruction(types.void(address, size, size, size, address, address, address))
    def run(
        builder: Any,
        where: Any,
        step: Any,
        count: Any,
        last: Any,
        weights: Any,
        scores: Any,
        squares: Any,
    ) -> None:
        code, i64 = Code(builder, DOUBLE), step.type
        found = [(code.variable(), code.variable()) for _ in range(rows)]

        def add(at: Any, w: Any, counts: Any = None) -> None:
            for product, square in found:
                z = code.load(at)
                z = z if counts is None else builder.fmul(z, counts)
                code.add_product(product, z, w)
                code.add_product(square, z, z)
                at = builder.add(at, step)

        with cgutils.for_range(builder, count) as loop:
            far = builder.mul(loop.index, i64(8 * LANES))
            add(builder.add(where, far), code.load(builder.add(weights, far)))
        rest = builder.add(weights, builder.mul(count, i64(8 * LANES)))
        add(builder.add(where, last), code.load(rest), code.load(rest, 1))
        for i, (product, square) in enumerate(found):
            code.store_total(builder.load(product), builder.add(scores, i64(8 * i)))
            code.store_total(builder.load(square), builder.add(squares, i64(8 * i)))

    return run


_several, _one = _products(PACKED_ROWS), _products(1)


@kernel(by_row=("rows", "scores", "squares"))
def linear_rows(
    rows: Matrix, weights: Vector, intercept: float, scores: OutVector, squares: OutVector
) -> Any:
    """scores (m,) = w.z + b and squares (m,) = |z|^2, w as `linear_weights` gives it.

    A row that is not finite shows in its square.
    """
    m, d = rows.shape
    step, last, count = 8 * d, 8 * (d - LANES), d // LANES
    z, w = np.uintp(rows.ctypes.data), np.uintp(weights.ctypes.data)
    s, q = np.uintp(scores.ctypes.data), np.uintp(squares.ctypes.data)
    whole = m // PACKED_ROWS * PACKED_ROWS
    for i in range(0, whole, PACKED_ROWS):
        here, there = z + np.uintp(i * step), np.uintp(8 * i)
        _several(here, step, count, last, w, s + there, q + there)
    for i in range(whole, m):
        here, there = z + np.uintp(i * step), np.uintp(8 * i)
        _one(here, step, count, last, w, s + there, q + there)
    for i in range(m):
        scores[i] += intercept
