"""The form of third order with its bound, in one pass: what the second tier runs.

    f3 = E (c + v.u + u'Mu + T(y, y, y)) + b,     E = exp(-gamma |u|^2),  y = u or Q'u

In: rows and, where the cubic part lives on few directions, their y. Out: scores and bounds, both
of shape (m, k). On the way lies the form of second order: where nearly all rows need the third,
both stages are one pass. Twin: `CellEngine.second`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels import quadratic_dense
from kernelite.backends.cpu.kernels.bounds import (
    bound_output_tile,
    prepare_shared_certificate,
    second_roots_tile,
    third_roots_tile,
)
from kernelite.backends.cpu.kernels.compiling import (
    Blocks,
    Matrix,
    OutMatrix,
    OutVector,
    Vector,
    helper,
    kernel,
)
from kernelite.backends.cpu.kernels.cubic import (
    CUBIC_SUMS,
    JitCubic,
    add_cubic,
    prepare_cubic,
    product_lines,
)
from kernelite.backends.cpu.kernels.exp import exp_nonpositive
from kernelite.backends.cpu.kernels.judging import Link
from kernelite.backends.cpu.kernels.tiles import (
    FORM_WORK,
    TILE_HEIGHT,
    add_triangle,
    aligned,
    damp_tile,
    load_tile,
    padded,
    square_tile,
    triangle_blocks,
)
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FloatArray
from kernelite.program.bounded import OPEN, Bounded
from kernelite.series.approximation import Certificate
from kernelite.series.cubic import CubicForm
from kernelite.series.directional import PairedCubic
from kernelite.series.rounding import ABOVE, hidden_square
from kernelite.series.series import QuadraticForm

__all__ = ["JitThird", "prepare", "prepare_paired", "scores", "two_tiers"]

# Both orders of a tile of rows: scores, bounds, and which of them answers.
#
# In: c + v.u + u'Mu (+ T) of k outputs, `totals` of shape (k, width), and what all outputs share:
# |u|^2, |u|, E, sqrt(P), |y|^2, a score, whether a row is open, whether it stays so; a line each.

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


LANE_ROWS = 8  # rows of a tile are a multiple
LARGE_RANK, SMALL_TILE = 96, 16  # from there on the products of a whole tile would fill the caches


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
    certificates : ndarray of shape (2, k, 9)
        Of the form up to the second order, and up to the third.
    tails : ndarray of shape (k, 3), or (0, 3) without a basis
        tail, slack, and what |u|^2 - |y|^2 may hide of |u|^2 (see cubic.py).
    vectors : ndarray of shape (k, 4 ceil(d / 4)), or (0, 0)
        a of each output, where a product stands for the third order (see directional.py).
    matrix : ndarray of shape (n_blocks, 16)
        The triangle of B.
    """

    form: quadratic_dense.JitForm
    cubic: JitCubic
    basis: FloatArray | None
    certificates: FloatArray
    tails: FloatArray
    vectors: FloatArray
    matrix: FloatArray

    @property
    def least_rows(self) -> int:
        """Rows that are worth a thread."""
        return min(self.form.least_rows, self.cubic.least_rows)

    @cached_property
    def held_rows(self) -> int:
        """Rows for which the interpreter's lock is kept."""
        work = self.form.blocks.size + self.cubic.weights.size + self.matrix.size
        return int(FORM_WORK / max(work, 1))


def prepare(form: QuadraticForm, cubic: CubicForm, certificate: Certificate) -> JitThird:
    """Lay out a form and its third order for the kernel."""
    point = form.point if cubic.basis is None else None
    d, r = cubic.n_features, cubic.rank
    hidden = hidden_square(d, r)
    tails = np.column_stack([cubic.tail, cubic.slack, np.full(len(cubic.tail), hidden)])
    certificates = [prepare_shared_certificate(certificate, degree).numbers for degree in (2, 3)]
    return JitThird(
        quadratic_dense.prepare(form),
        prepare_cubic(cubic.packed, r, point),
        cubic.basis,
        np.stack(certificates),
        np.ascontiguousarray(tails if cubic.basis is not None else tails[:0]),
        np.empty((0, 0)),
        np.empty((0, 16)),
    )


def prepare_paired(form: QuadraticForm, paired: PairedCubic, certificate: Certificate) -> JitThird:
    """Lay out a form and the product that stands for its third order."""
    d, k = form.n_features, form.n_outputs
    certificates = [
        prepare_shared_certificate(certificate, 2).numbers,
        prepare_shared_certificate(paired.widened(certificate), 3).numbers,
    ]
    vectors = np.zeros((k, padded(d)))
    vectors[:, :d] = paired.vectors
    B = paired.matrix
    return JitThird(
        quadratic_dense.prepare(form),
        prepare_cubic(np.empty((k, 0)), 0),
        None,
        np.stack(certificates),
        np.column_stack([paired.rest, np.zeros((k, 2))]),  # on no direction: y = 0
        vectors,
        triangle_blocks((np.triu(B) + np.triu(B, 1))[None])[0],
    )


def scores(third: JitThird, rows: FloatArray) -> Bounded:
    """f3 of each row and output, and the bound on |f - f3|.

    Parameters
    ----------
    third : JitThird
    rows : ndarray of shape (m, d)
        C-contiguous float64.
    """
    return _run(third, rows, _NO_TOLERANCE)._replace(stage=None)


def two_tiers(third: JitThird, rows: FloatArray, tolerance: FloatArray) -> Bounded:
    """Both orders of all rows, the third where the second is not within the tolerance.

    `stage` is 0 where the second order settled a row, 1 where the third did, and `OPEN` where
    neither; there scores and bounds are the second order's.

    Parameters
    ----------
    third : JitThird
    rows : ndarray of shape (m, d)
        C-contiguous float64.
    tolerance : ndarray of shape (k,)
        What the bound of each output must not exceed.
    """
    return _run(third, rows, np.ascontiguousarray(tolerance))


_NO_TOLERANCE = np.empty(0)


def _run(third: JitThird, rows: FloatArray, tolerance: FloatArray) -> Bounded:
    form, cubic, m = third.form, third.cubic, len(rows)
    room = np.empty((m, form.n_outputs)), np.empty((m, form.n_outputs))
    sq_norms, stage = np.empty(m), np.empty(m, dtype=np.int8)
    Y = rows if not len(third.vectors) else np.empty((m, 0))
    if third.basis is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            Y = (rows - form.point) @ third.basis
    second = form.point, form.blocks, form.outputs, form.gamma
    order = cubic.point, cubic.weights, third.vectors, third.matrix
    bounding = third.certificates, third.tails, tolerance
    given = rows, Y, *second, *order, *bounding, *room, sq_norms, stage
    share_rows(third_kernel, m, third.least_rows, *given, held=third.held_rows)
    return Bounded(*room, sq_norms, stage=stage)


def open_rows_link(third: JitThird, numbers: int) -> Link | None:
    """What the kernel of a first form calls for the rows that it leaves open.

    None where their directions are projected by BLAS. `numbers` are those of all centers, whose
    sums come next: fewer rows than fill vectors may be summed sooner.
    """
    if third.basis is not None or len(third.vectors):
        return None
    form, cubic, d = third.form, third.cubic, len(third.form.point)
    if form.n_outputs != 1:
        return None
    row, answer = np.empty((1, d)), np.empty((1, 1))
    second = form.point, form.blocks, form.outputs, form.gamma
    order = cubic.point, cubic.weights, third.vectors, third.matrix
    given = row, row, *second, *order, third.certificates, third.tails, _NO_TOLERANCE
    out = answer, np.empty((1, 1)), np.empty(1), np.empty(1, np.int8)
    fewest = 1 + int(LANE_ROWS * (cubic.weights.size + form.blocks.size) / max(numbers, 1))
    return Link(third_kernel, (*given, *out), fewest)


@kernel(
    by_row=("rows", "Y", "values", "bounds", "sq_norms", "stage"),
    inside=("rows", "values", "bounds", "Y", "sq_norms", "stage"),
)
def third_kernel(
    rows: Matrix,
    Y: Matrix,
    point: Vector,
    blocks: Blocks,
    outputs: Matrix,
    gamma: float,
    cubic_point: Vector,
    weights: Matrix,
    vectors: Matrix,
    matrix: Matrix,
    certificates: Blocks,
    tails: Matrix,
    tolerance: Vector,
    values: OutMatrix,
    bounds: OutMatrix,
    sq_norms: OutVector,
    stage: Annotated[NDArray[np.int8], 1, "int8", True],
) -> Any:
    m, d = rows.shape
    k, rank = outputs.shape[0], Y.shape[1]
    features, tall, lines = (d + 3) // 4 * 4, (rank + 3) // 4 * 4, product_lines(rank)
    span = TILE_HEIGHT if rank <= LARGE_RANK else SMALL_TILE
    span = min(span, max(m + LANE_ROWS - 1, LANE_ROWS) // LANE_ROWS * LANE_ROWS)  # a few open rows
    height = features + tall + lines + CUBIC_SUMS + 3 * k + SHARED
    room = aligned(height * span).reshape(height, span)
    room[: features + tall] = 0.0
    tile, rest = room[:features], features
    y, rest = room[rest : rest + tall], rest + tall
    products, rest = room[rest : rest + lines], rest + lines
    sums, rest = room[rest : rest + CUBIC_SUMS], rest + CUBIC_SUMS
    totals, first, second = room[rest:][:k], room[rest + k :][:k], room[rest + 2 * k :][:k]
    shared = room[rest + 3 * k :]
    for start in range(0, m, span):
        count = min(span, m - start)
        width, stop = (count + 7) // 8 * 8, start + count
        load_tile(rows, start, count, point, tile)
        square_tile(tile, width, shared[0])
        for r in range(width):
            shared[1, r] = np.sqrt(shared[0, r])
            shared[2, r] = exp_nonpositive(-gamma * shared[0, r])
        for j in range(k):
            totals[j, :width] = outputs[j, 0]
            add_triangle(tile, width, blocks[j], outputs[j, 2:], totals[j])
        shared[6, :count] = 1.0
        here, limits = values[start:stop], bounds[start:stop]
        if len(tolerance) > 0:
            shared[6, :count] = 0.0
            certificate = certificates[0]
            second_order(
                *(totals, shared, outputs, gamma, certificate, tolerance, count),
                *(first, here, limits),
            )
        for r in range(count):
            sq_norms[start + r] = shared[0, r]
            stage[start + r] = 0 if shared[6, r] == 0.0 else OPEN
        if shared[6, :count].sum() > 0.0:
            if len(vectors) > 0:
                add_paired(tile, width, vectors, matrix, shared[4], shared[5], totals)
                shared[4, :width] = 0.0
            else:
                load_tile(Y, start, count, cubic_point, y)
                square_tile(y, width, shared[4])
                add_cubic(y, rank, width, weights, products, sums, totals)
            certificate = certificates[1]
            third_order(totals, shared, outputs, gamma, certificate, tails, width, second)
            keep_better(
                *(totals, second, first, shared, tolerance, count),
                *(here, limits, stage[start:stop]),
            )
