"""Both orders of a tile of rows: scores, bounds, and which of them answers.

In: c + v.u + u'Mu (+ T) of k outputs, `totals` of shape (k, width), and what all outputs share:
|u|^2, |u|, E, sqrt(P), |y|^2, a score, whether a row is open, whether it stays so; a line each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels.bounds import (
    bound_output_tile,
    second_roots_tile,
    third_roots_tile,
)
from kernelite.backends.cpu.kernels.compiling import helper
from kernelite.backends.cpu.kernels.tiles import add_triangle, damp_tile
from kernelite.data.rows.inputs import FloatArray
from kernelite.series.rounding import ABOVE

__all__ = ["SHARED", "add_paired", "keep_better", "second_order", "third_order"]

SHARED = 8  # lines


@helper
def _add_tail(
    squares: FloatArray,
    norms: FloatArray,
    kept: FloatArray,
    exponentials: FloatArray,
    tails: FloatArray,
    width: int,
    bound: FloatArray,
) -> None:
    """bound[r] += E (|u|^2 + |u| |y| + |y|^2) (tail |v| + slack |u|)."""
    tail, slack, hidden = tails[0], tails[1], tails[2]
    for r in range(width):
        square, norm, E = squares[r], norms[r], exponentials[r]
        inside = np.sqrt(kept[r])
        rest = np.sqrt(max(square - kept[r], 0.0) + hidden * square)
        reach = (square + norm * inside + kept[r]) * (E * ABOVE)
        bound[r] += 0.0 if E == 0.0 else reach * (rest * tail + norm * slack)


@helper
def _raise(bound: FloatArray, limit: float, count: int, is_open: FloatArray) -> None:
    """is_open[r] = 1 where a bound is above its limit, or is not a number."""
    for r in range(count):
        is_open[r] = is_open[r] if bound[r] <= limit else 1.0


@helper
def add_paired(
    tile: FloatArray,
    width: int,
    vectors: FloatArray,
    matrix: FloatArray,
    form: FloatArray,
    product: FloatArray,
    totals: FloatArray,
) -> None:
    """totals[j, r] += (a_j.u) (u'Bu); `form` and `product` are lines to work in."""
    form[:width] = 0.0
    add_triangle(tile, width, matrix, np.zeros(tile.shape[0]), form)
    for j in range(vectors.shape[0]):
        a = vectors[j]
        product[:width] = 0.0
        for b in range(0, tile.shape[0], 4):
            a0, a1, a2, a3 = a[b], a[b + 1], a[b + 2], a[b + 3]
            for r in range(width):
                left = a0 * tile[b, r] + a1 * tile[b + 1, r]
                product[r] += left + (a2 * tile[b + 2, r] + a3 * tile[b + 3, r])
        for r in range(width):
            totals[j, r] += product[r] * form[r]


@helper
def second_order(
    totals: FloatArray,
    shared: FloatArray,
    outputs: FloatArray,
    gamma: float,
    certificate: FloatArray,
    tolerance: FloatArray,
    count: int,
    first: FloatArray,
    values: FloatArray,
    bounds: FloatArray,
) -> None:
    """Scores and bounds of the form as it stands in `totals`, and which rows they leave open."""
    width = (count + 7) // 8 * 8
    squares, norms, exponentials, roots = shared[0], shared[1], shared[2], shared[3]
    g, is_open = shared[5], shared[6]
    second_roots_tile(squares, exponentials, gamma, width, roots)
    for j in range(outputs.shape[0]):
        g[:width] = totals[j, :width]
        damp_tile(exponentials, width, outputs[j, 1], g)
        bound_output_tile(
            squares, norms, exponentials, roots, g, gamma, certificate[j], width, first[j]
        )
        _raise(first[j], tolerance[j], count, is_open)
        for r in range(count):
            values[r, j] = g[r]
            bounds[r, j] = first[j, r]


@helper
def third_order(
    totals: FloatArray,
    shared: FloatArray,
    outputs: FloatArray,
    gamma: float,
    certificate: FloatArray,
    tails: FloatArray,
    width: int,
    second: FloatArray,
) -> None:
    """Scores, in `totals`, and bounds of the form with its third order."""
    squares, norms, exponentials, roots = shared[0], shared[1], shared[2], shared[3]
    third_roots_tile(squares, exponentials, gamma, width, roots)
    for j in range(outputs.shape[0]):
        damp_tile(exponentials, width, outputs[j, 1], totals[j])
        bound_output_tile(
            squares, norms, exponentials, roots, totals[j], gamma, certificate[j], width, second[j]
        )
        if len(tails) > 0:
            _add_tail(squares, norms, shared[4], exponentials, tails[j], width, second[j])


@helper
def keep_better(
    totals: FloatArray,
    second: FloatArray,
    first: FloatArray,
    shared: FloatArray,
    tolerance: FloatArray,
    count: int,
    values: FloatArray,
    bounds: FloatArray,
    tier: NDArray[np.int8],
) -> None:
    """Answer open rows that the third order settles; not where its bound is the looser one."""
    is_open, worse = shared[6], shared[7]
    worse[:count] = 0.0
    for j in range(len(tolerance)):
        _raise(second[j], tolerance[j], count, worse)
        for r in range(count):
            worse[r] = worse[r] if second[j, r] <= first[j, r] else 1.0
    for r in range(count):
        if is_open[r] > 0.0 and worse[r] == 0.0:
            tier[r] = 1
            for j in range(totals.shape[0]):
                values[r, j] = totals[j, r]
                bounds[r, j] = second[j, r]
