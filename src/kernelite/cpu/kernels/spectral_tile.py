"""A tile of projected rows to scores and bounds: what dense and sparse rows have in common.

    f^ = E (c + v.u + y'Cy + mid |u|^2) + b,     E = exp(-gamma |u|^2)

In: y, v.u and |u|^2 of a tile's rows, a column a row. Out: scores and, with a certificate, bounds
with the truncation inside.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite.cpu.kernels.blocks import add_triangle
from kernelite.cpu.kernels.bounds import bound_tile
from kernelite.cpu.kernels.compiling import helper
from kernelite.cpu.kernels.exp import exp_nonpositive
from kernelite.cpu.kernels.tiles import damp_tile, square_tile
from kernelite.rows.inputs import FloatArray
from kernelite.series.rounding import SAFETY

__all__ = ["finish_tile", "tile_of"]


@helper
def tile_of(room: FloatArray, blocked: int, k: int) -> Any:
    """y, v.u and |u|^2 of a tile, and four lines to spare, in `room` of blocked + k + 5 lines."""
    rest = blocked + k
    spare = room[rest + 1], room[rest + 2], room[rest + 3], room[rest + 4]
    return (room[:blocked], room[blocked:rest], room[rest]), spare


@helper
def _add_truncation(
    squares: FloatArray,
    reach: FloatArray,
    kept: FloatArray,
    exponentials: FloatArray,
    hidden: float,
    output: FloatArray,
    width: int,
    bound: FloatArray,
) -> None:
    """bound[r] += E (spread |x|^2 + 2 cross |y| |x| + leftover |u|^2), with room for rounding.

    |u|^2 and |y|^2 may be off by `hidden` times the reach.
    """
    spread, cross, leftover = output[3], output[4], output[5]
    for r in range(width):
        off, E = hidden * reach[r], exponentials[r]
        rest = max(squares[r] - kept[r], 0.0) + off
        size = spread * rest + cross * np.sqrt((kept[r] + off) * rest)
        size += leftover * (squares[r] + off)
        bound[r] += 0.0 if E == 0.0 else SAFETY * (E * size)


@helper
def finish_tile(
    start: int, count: int, fixed: Any, folded: Any, tile: Any, spare: Any, results: Any
) -> None:
    """Scores and bounds of a tile's rows from y, v.u and |u|^2.

    `folded` is what the sparse kernel adds: the reach, and by how much of it |u|^2 (`slack`) and
    with |y|^2 (`hidden`) may be off.
    """
    cores, outputs, gamma, certificate, nothing = fixed
    reach, slack, hidden = folded
    Y, linear, squares = tile
    inside, exponentials, g, bound = spare
    values, sq_norms, kept, bounds = results
    width = (count + 7) // 8 * 8
    square_tile(Y, width, inside)
    for r in range(width):
        exponentials[r] = exp_nonpositive(-gamma * squares[r]) if gamma > 0.0 else 1.0
    for r in range(count):
        sq_norms[start + r] = squares[r]
        kept[start + r] = inside[r]
    for j in range(outputs.shape[0]):
        for r in range(width):
            g[r] = outputs[j, 0] + linear[j, r] + outputs[j, 2] * squares[r]
        add_triangle(Y, width, cores[j], nothing, g)
        damp_tile(exponentials, width, outputs[j, 1], g)
        for r in range(count):
            values[start + r, j] = g[r]
        if len(certificate) > 0:
            numbers = certificate[j]
            bound_tile(squares, reach, exponentials, g, gamma, slack, numbers, width, bound)
            _add_truncation(squares, reach, inside, exponentials, hidden, outputs[j], width, bound)
            for r in range(count):
                bounds[start + r, j] = bound[r]
