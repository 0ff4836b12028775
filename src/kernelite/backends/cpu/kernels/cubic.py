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

from kernelite.backends.cpu.kernels.compiling import cgutils, helper, instruction, types
from kernelite.backends.cpu.kernels.exp2 import DOUBLE, WIDE, Code, Precision
from kernelite.backends.cpu.kernels.tiles import FORM_WORK, TILE_HEIGHT
from kernelite.data.rows.inputs import FloatArray
from kernelite.support.errors import InputError

__all__ = [
    "CUBIC_SUMS",
    "PARTIAL",
    "JitCubic",
    "add_cubic",
    "prepare_cubic",
    "product_lines",
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
            _weigh(source + np.uintp(line * step), step, count, coefficients, target, width)
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


_weigh = weigher("weigh_doubles", DOUBLE)
