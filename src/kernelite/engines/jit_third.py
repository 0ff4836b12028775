"""The form of third order with its bound, in one pass: what the second tier runs.

    f3 = E (c + v.u + u'Mu + T(y, y, y)) + b,     E = exp(-gamma |u|^2),  y = u or Q'u

In: rows and, where the cubic part lives on few directions, their y. Out: scores and bounds, both
of shape (m, k). Twin: the same from `blas` and `Certificate.bound` in tiers.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kernelite.approximation.certificate import Certificate
from kernelite.approximation.cubic import CubicForm
from kernelite.approximation.quadratic import QuadraticForm
from kernelite.approximation.rounding import UNIT
from kernelite.engines import jit
from kernelite.engines.jit_blocks import add_triangle
from kernelite.engines.jit_bounds import bound_cubic_tile, prepare_cubic_certificate
from kernelite.engines.jit_cubic import CORNER_ROOM, JitCubic, add_cubic, prepare_cubic
from kernelite.engines.jit_exp import exp_nonpositive
from kernelite.engines.jit_support import array_type, helper, kernel
from kernelite.engines.jit_tiles import TILE, aligned, damp_tile, load_tile, square_tile
from kernelite.engines.threads import for_each_chunk
from kernelite.inputs import FloatArray

__all__ = ["JitThird", "prepare", "scores"]


@dataclass(frozen=True, eq=False)
class JitThird:
    """A form of third order laid out for the kernel.

    Parameters
    ----------
    form : JitForm
        Orders up to the second.
    cubic : JitCubic
        The third, of rows less its point.
    basis : ndarray of shape (d, r), optional
        Q, if the third order lives on few directions.
    certificate : ndarray of shape (k, 9)
    tails : ndarray of shape (k, 3)
        tail, slack, and what |u|^2 - |y|^2 may hide of |u|^2 (see cubic.py).
    """

    form: jit.JitForm
    cubic: JitCubic
    basis: FloatArray | None
    certificate: FloatArray
    tails: FloatArray

    @property
    def chunk(self) -> int:
        """Rows that a thread should take at a time."""
        return min(self.form.chunk, self.cubic.chunk)


def prepare(form: QuadraticForm, cubic: CubicForm, certificate: Certificate) -> JitThird:
    """Lay out a form and its third order for the kernel."""
    point = form.point if cubic.basis is None else None
    d, r = cubic.n_features, cubic.rank
    hidden = 4.0 * (d + 8) * (math.sqrt(r) + 4.0) * UNIT
    tails = np.column_stack([cubic.tail, cubic.slack, np.full(len(cubic.tail), hidden)])
    return JitThird(
        jit.prepare(form),
        prepare_cubic(cubic.packed, r, point),
        cubic.basis,
        prepare_cubic_certificate(certificate).numbers,
        np.ascontiguousarray(tails),
    )


def scores(third: JitThird, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """f3 of each row and output, and the bound on |f - f3|.

    Parameters
    ----------
    third : JitThird
    rows : ndarray of shape (m, d)
        C-contiguous float64.
    """
    form, cubic = third.form, third.cubic
    m = len(rows)
    values, bounds = np.empty((m, form.n_outputs)), np.empty((m, form.n_outputs))
    Y = rows
    if third.basis is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            Y = (rows - form.point) @ third.basis
    fixed = form.point, form.blocks, form.outputs, form.gamma, cubic.point, cubic.blocks
    bounding = third.certificate, third.tails

    def part(block: slice) -> None:
        _third_kernel(rows[block], Y[block], *fixed, *bounding, values[block], bounds[block])

    if m <= third.chunk:
        part(slice(None))
    else:
        for_each_chunk(part, m, third.chunk)
    return values, bounds


@helper
def _add_tail(
    squares: FloatArray,
    kept: FloatArray,
    exponentials: FloatArray,
    tails: FloatArray,
    width: int,
    bound: FloatArray,
) -> None:
    """bound[r] += E (|u|^2 + |u| |y| + |y|^2) (tail |v| + slack |u|)."""
    tail, slack, hidden = tails[0], tails[1], tails[2]
    for r in range(width):
        square, E = squares[r], exponentials[r]
        norm, inside = np.sqrt(square), np.sqrt(kept[r])
        rest = np.sqrt(max(square - kept[r], 0.0) + hidden * square)
        reach = (square + norm * inside + kept[r]) * (E * (1.0 + 1e-9))
        bound[r] += 0.0 if E == 0.0 else reach * (rest * tail + norm * slack)


@kernel(
    array_type(2),
    array_type(2),
    array_type(1),
    array_type(3),
    array_type(2),
    "float64",
    array_type(1),
    array_type(3),
    array_type(2),
    array_type(2),
    array_type(2, writable=True),
    array_type(2, writable=True),
)
def _third_kernel(
    rows: FloatArray,
    Y: FloatArray,
    point: FloatArray,
    blocks: FloatArray,
    outputs: FloatArray,
    gamma: float,
    cubic_point: FloatArray,
    cubic_blocks: FloatArray,
    certificate: FloatArray,
    tails: FloatArray,
    values: FloatArray,
    bounds: FloatArray,
) -> None:
    m, d = rows.shape
    rank = Y.shape[1]
    features, tall = (d + 3) // 4 * 4, (rank + 3) // 4 * 4 + CORNER_ROOM
    room = aligned((features + tall + 6) * TILE).reshape(features + tall + 6, TILE)
    room[:] = 0.0
    tile, y, rest = room[:features], room[features : features + tall], features + tall
    squares, kept, exponentials = room[rest], room[rest + 1], room[rest + 2]
    g, q, bound = room[rest + 3], room[rest + 4], room[rest + 5]
    no_linear = np.zeros(tall)
    for start in range(0, m, TILE):
        count = min(TILE, m - start)
        width = (count + 7) // 8 * 8
        load_tile(rows, start, count, point, tile)
        load_tile(Y, start, count, cubic_point, y)
        square_tile(tile, width, squares)
        square_tile(y[: tall - CORNER_ROOM], width, kept)
        for r in range(width):
            exponentials[r] = exp_nonpositive(-gamma * squares[r])
        for j in range(outputs.shape[0]):
            g[:width] = outputs[j, 0]
            add_triangle(tile, width, blocks[j], outputs[j, 2:], g)
            add_cubic(y, rank, width, cubic_blocks[j], no_linear, q, g)
            damp_tile(exponentials, width, outputs[j, 1], g)
            bound_cubic_tile(squares, exponentials, g, gamma, certificate[j], width, bound)
            _add_tail(squares, kept, exponentials, tails[j], width, bound)
            for r in range(count):
                values[start + r, j] = g[r]
                bounds[start + r, j] = bound[r]
