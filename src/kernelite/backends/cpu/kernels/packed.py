"""Polynomials that need no centers: a cubic one with all lower orders, packed, and a linear one.

    out_j = sum_{a <= b <= c} t_jabc w_a w_b w_c,    w = (z, 1)
    out = w.z + b,    and |z|^2 besides, in one pass over the rows

In: rows of shape (m, d). Out: (m, k); of the linear one (m,). Twins: `cubic_values` of rows with a
column of ones, a matrix product. The cubic one goes in single precision too, for one output: there
products w_b w_c are rounded to 24 bits, and so are their weighted sums, 64 terms at a time.
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
    instruction,
    kernel,
    types,
)
from kernelite.backends.cpu.kernels.cubic import (
    CUBIC_SUMS,
    PARTIAL,
    JitCubic,
    add_cubic,
    prepare_cubic,
    product_lines,
    weigher,
)
from kernelite.backends.cpu.kernels.exp2 import DOUBLE, SINGLE, Code
from kernelite.backends.cpu.kernels.tiles import TILE_HEIGHT, aligned, load_tile
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FloatArray

__all__ = ["LANES", "PackedCubic", "linear_rows", "linear_weights", "single_packed"]

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


_weigh = weigher("weigh_singles", SINGLE)


@kernel(by_row=("rows", "out"))
def single_packed(
    rows: Matrix,
    zeros: Vector,
    weights: SingleMatrix,
    out: OutVector,
) -> Any:
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
                _weigh(source + np.uintp(line * step), step, some, coefficients, target, width)
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
