"""Several outputs' values in single precision, by what exponentials add to their tangents.

With h, t_i, b_ij and the polynomials of `tangents`, a tile of rows and centers is taken in two
steps: h(t_i) of all pairs, then its products with the centers' columns of b,

    sums_j += sum_{i in tile} b_ij h(t_i)

Centers lie in the lanes, so that so many outputs take so many products, whatever a vector holds.
`fused_tangents` says what the columns are, and has the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.compiling import (
    Longs,
    Matrix,
    OutMatrix,
    SingleMatrix,
    Singles,
    Vector,
    cgutils,
    helper,
    instruction,
    ir,
    kernel,
    types,
)
from kernelite.backends.cpu.kernels.exp2 import DOUBLE, PANEL_VECTORS, SINGLE, WIDE, Code
from kernelite.backends.cpu.kernels.panel_values import SEVERAL as ROWS_OF_DOTS
from kernelite.backends.cpu.kernels.panel_values import one_weighted, several_weighted
from kernelite.backends.cpu.kernels.panels import chain_weights, ready_rows, row_products
from kernelite.backends.cpu.kernels.tangents import MOST_SQUARE, POLYNOMIALS, REACHES, horner
from kernelite.series.rounding import LOG2_E

__all__ = ["LANES_OF_SUMS", "TILE_PANELS", "several_tangents"]

TANGENT_TILE_ROWS = 24  # whose h of a tile of centers stay in the cache next to the core
TILE_PANELS = 4  # of a tile of centers: a lane adds up 16 products before doubles take over
LANES_OF_SUMS = DOUBLE.lanes  # that are added up at the end
SUMMED_ROWS = 4 if WIDE else 2  # that meet up to six columns in registers
SEVERAL, TAKEN, SINGLE_PANEL = SINGLE.rows, SINGLE.lanes, SINGLE.panel
NEAR, MID, FAR = REACHES


def _values(rows: int, number: int, *, far_too: bool = False) -> Callable[..., Any]:
    """An instruction: h(t) of a few rows and some panels, and each lane's largest |t|.

    It takes addresses, steps in bytes and numbers of features and of panels. `far_too`: of those
    beyond the polynomial, by exponentials.
    """
    address, count_type = types.uintp, types.intp
    given = address, count_type, count_type, address, count_type, count_type

    @instruction(types.void(*given, address, count_type, address, count_type))
    def run(
        builder: Any,
        where: Any,
        step: Any,
        count: Any,
        panel: Any,
        panel_step: Any,
        panels: Any,
        out: Any,
        out_step: Any,
        largest: Any,
        largest_step: Any,
    ) -> None:
        code, i64 = Code(builder, SINGLE), count.type
        zeros = [[code.all_lanes(0.0)] * PANEL_VECTORS] * rows
        places = [builder.add(largest, builder.mul(largest_step, i64(i))) for i in range(rows)]
        most = [code.variable(code.load(place)) for place in places]
        with cgutils.for_range(builder, panels) as loop:
            here = builder.add(panel, builder.mul(loop.index, panel_step))
            found = row_products(code, zeros, where, step, count, here)
            to = builder.add(out, builder.mul(loop.index, i64(4 * SINGLE.panel)))
            for line, far in zip(found, most, strict=True):
                for v, product in enumerate(line):
                    t: Any = builder.load(product)
                    size, before = code.magnitude(t), builder.load(far)
                    farther = builder.fcmp_ordered(">", size, before)
                    builder.store(builder.select(farther, size, before), far)
                    bent = builder.fmul(builder.fmul(t, t), horner(code, t, POLYNOMIALS[number]))
                    if far_too:
                        power = code.exp2_inside(builder.fmul(t, code.all_lanes(LOG2_E)))
                        above = builder.fsub(builder.fsub(power, code.all_lanes(1.0)), t)
                        beyond = builder.fcmp_ordered(">", size, code.all_lanes(MID))
                        bent = builder.select(beyond, above, bent)
                    code.store(bent, to, v)
                to = builder.add(to, out_step)
        for far, place in zip(most, places, strict=True):
            code.store(builder.load(far), place)

    return run


def _weighted(rows: int, columns: int) -> Callable[..., Any]:
    """An instruction: sums of some rows += h times some columns, for some vectors of centers.

    It takes addresses, steps in bytes and the number of vectors. Two halves of a vector of sums
    are added up, and go to doubles.
    """
    address, number = types.uintp, types.intp

    @instruction(types.void(address, number, address, number, number, address, number))
    def run(
        builder: Any,
        values: Any,
        step: Any,
        weights: Any,
        weight_step: Any,
        vectors: Any,
        out: Any,
        out_step: Any,
    ) -> None:
        code, double, i64 = Code(builder, SINGLE), Code(builder, DOUBLE), step.type
        sums = [[code.variable() for _ in range(columns)] for _ in range(rows)]
        with cgutils.for_range(builder, vectors) as loop:
            across = builder.mul(loop.index, i64(4 * SINGLE.lanes))
            at, b = builder.add(values, across), []
            line = builder.add(weights, across)
            for _ in range(columns):
                b.append(code.load(line))
                line = builder.add(line, weight_step)
            for totals in sums:
                h = code.load(at)
                for total, one in zip(totals, b, strict=True):
                    code.add_product(total, h, one)
                at = builder.add(at, step)
        for i, totals in enumerate(sums):
            place = builder.add(out, builder.mul(out_step, i64(i)))
            for c, total in enumerate(totals):
                whole = builder.fadd(*_split(code, builder.load(total), SINGLE.lanes // 2))
                whole = builder.fpext(whole, DOUBLE.vector)
                double.store(builder.fadd(double.load(place, c), whole), place, c)

    return run


def _split(code: Code, value: Any, half: int) -> tuple[Any, Any]:
    """The two halves of a vector."""
    nothing, kind = ir.Constant(value.type, ir.Undefined), ir.VectorType(ir.IntType(32), half)
    places = [ir.Constant(kind, list(range(start, start + half))) for start in (0, half)]
    low, high = (code.builder.shuffle_vector(value, nothing, own) for own in places)
    return low, high


_several_near, _several_mid = (_values(SEVERAL, number) for number in range(2))
_one_near, _one_mid = (_values(1, number) for number in range(2))
_one_far = _values(1, 1, far_too=True)
_some_6, _some_3, _some_2, _some_1 = (_weighted(SUMMED_ROWS, n) for n in (6, 3, 2, 1))
_alone_6, _alone_3, _alone_2, _alone_1 = (_weighted(1, n) for n in (6, 3, 2, 1))


@helper
def _add_tile(
    values: Any, count: int, b: Any, b_step: int, columns: int, sums: Any, first: int
) -> None:
    """Add the products of a tile's values, (rows, centers), with all columns to sums."""
    rows, vectors = values.shape[0], count // TAKEN
    step, out_step, wide = 4 * values.shape[1], 8 * sums.shape[1], 8 * LANES_OF_SUMS
    whole = rows // SUMMED_ROWS * SUMMED_ROWS
    column = 0
    while column < columns:
        left = columns - column
        taken = 1
        if left >= 6:
            taken = 6
        elif left >= 3:
            taken = 3
        elif left == 2:
            taken = 2
        weights = b + np.uintp(column * b_step)
        i = 0
        while i < rows:
            here = np.uintp(values.ctypes.data) + np.uintp(i * step)
            there = np.uintp(sums.ctypes.data) + np.uintp(i * out_step + (first + column) * wide)
            given = here, step, weights, b_step, vectors, there, out_step
            if i < whole:
                if taken == 6:
                    _some_6(*given)
                elif taken == 3:
                    _some_3(*given)
                elif taken == 2:
                    _some_2(*given)
                else:
                    _some_1(*given)
                i += SUMMED_ROWS
            else:
                if taken == 6:
                    _alone_6(*given)
                elif taken == 3:
                    _alone_3(*given)
                elif taken == 2:
                    _alone_2(*given)
                else:
                    _alone_1(*given)
                i += 1
        column += taken


@instruction(types.float64(types.uintp))
def _total(builder: Any, address: Any) -> Any:
    """The sum of the lanes of a column of sums."""
    code = Code(builder, DOUBLE)
    return code.total(code.load(address))


@instruction(types.float64(types.uintp))
def _greatest(builder: Any, address: Any) -> Any:
    """The largest of the lanes of a vector, none of which is NaN."""
    code = Code(builder, SINGLE)
    value, i32, lanes = code.load(address), ir.IntType(32), SINGLE.lanes
    while lanes > 1:
        lanes //= 2
        low, high = _split(code, value, lanes)
        value = builder.select(builder.fcmp_ordered(">", low, high), low, high)
    return builder.fpext(builder.extract_element(value, i32(0)), ir.DoubleType())


@helper
def _add_linear(rows: Any, point: Any, linear: Any, outputs: Any, u: Any, dots: Any) -> None:
    """sum_i b_ij + v_j.u of each row: `dots` (rows, outputs), with room for whole vectors."""
    d, wide = linear.shape
    for i in range(len(rows)):
        for feature in range(d):
            u[i, feature] = rows[i, feature] - point[feature]
        for j in range(wide):
            dots[i, j] = outputs[0, j] if j < outputs.shape[1] else 0.0
    whole = len(rows) // ROWS_OF_DOTS * ROWS_OF_DOTS
    for column in range(0, wide, LANES_OF_SUMS):
        v = np.uintp(linear.ctypes.data) + np.uintp(8 * column)
        i = 0
        while i < len(rows):
            here = np.uintp(u.ctypes.data) + np.uintp(8 * i * d)
            there = np.uintp(dots.ctypes.data) + np.uintp(8 * (i * wide + column))
            if i < whole:
                several_weighted(here, 8 * d, v, 8 * wide, d, there, 8 * wide)
                i += ROWS_OF_DOTS
            else:
                one_weighted(here, 8 * d, v, 8 * wide, d, there, 8 * wide)
                i += 1


@helper
def _finish(
    rows: Any, point: Any, gamma: float, sums: Any, norms: Any, fixed: Any, first: int, out: Any
) -> None:
    """Scores and bounds of a tile, whose first row is row `first` of `out`: see `fused_tangents`.

    sums (rows, lanes of all columns). norms (rows, 4): |u|^2, the chain of the row's entries, the
    reach that chose its polynomial, and the largest |t|.
    """
    linear, sides, outputs, constants, totals, u, dots = fixed
    scores, bounds = out
    by_chain, by_norm, steady, near, mid, far, units, widest, shallow, safety = constants
    k, columns = scores.shape[1], len(totals) - 1
    _add_linear(rows, point, linear, outputs, u, dots)
    for i in range(len(rows)):
        place = np.uintp(sums.ctypes.data) + np.uintp(8 * i * sums.shape[1])
        for column in range(columns):  # the one after all stays zero
            totals[column] = _total(place + np.uintp(8 * LANES_OF_SUMS * column))
        square, norm, largest = norms[i, 0], math.sqrt(norms[i, 0]), norms[i, 3]
        off = by_chain * norms[i, 1] + by_norm * norm + steady
        relative, steep = near if norms[i, 2] <= NEAR else mid, shallow
        if largest > MID:
            relative = max(relative, far * (6.0 + largest))
            steep = max(steep, largest * largest / (largest - 1.0))
        damp, rounded = math.exp(-gamma * square), units * (1.0 + gamma * square)
        known = square <= MOST_SQUARE and off <= 0.01 and largest <= FAR
        away = 1.02 * off
        by_weight = away * off + rounded * (1.0 + widest * norm)
        for j in range(k):
            score = dots[i, j] + (totals[sides[0, j]] + totals[sides[1, j]])
            intercept, weight = outputs[1, j], outputs[4, j]
            # More than what it errs by itself.
            held = outputs[3, j] * (totals[sides[2, j]] + totals[sides[3, j]]) * (1.0 + 1e-3)
            slope = math.sqrt(weight * held * steep)
            error = (away + relative + rounded) * held + away * slope + by_weight * weight
            bound = safety * damp * error + 1e-15 * abs(intercept) + outputs[2, j]
            if known and bound < math.inf:
                scores[first + i, j], bounds[first + i, j] = damp * score + intercept, bound
            else:
                scores[first + i, j], bounds[first + i, j] = intercept, math.inf


@kernel(by_row=("rows", "scores", "bounds"))
def several_tangents(
    rows: Matrix,
    point: Vector,
    order: Longs,
    gamma: float,
    panels: Singles,
    weights: SingleMatrix,
    tiles: Longs,
    firsts: Longs,
    reach: float,
    linear: Matrix,
    sides: Longs,
    outputs: Matrix,
    constants: Vector,
    scores: OutMatrix,
    bounds: OutMatrix,
) -> None:
    """Scores (m, k) and bounds (m, k) of dense rows.

    Parameters: those of `panel_sums.SCORES`; columns of b, with what bounds need as the last,
    (columns, n); the first panel of each tile and the end of the last, (T + 1,); the column of
    sums with which each tile's begin, (T,); 2 gamma R; sum_i b_ij 2 gamma s_i, (d, k) and columns
    of zeros; four columns of sums for each output, the one after all for none: its own, and those
    of its bound, (4 k,); numbers of outputs, (5, k), and others, (10,), as `_finish` names them.
    """
    length, width, columns = len(order), SINGLE_PANEL, weights.shape[0]
    tall, centers = min(TANGENT_TILE_ROWS, len(rows)), TILE_PANELS * width
    # A class without centers has no tile, but its outputs have their place: zeros.
    every = max(firsts.max() + columns, sides.max())
    w, shifts = np.empty((tall, length), np.float32), np.empty(tall, np.float32)
    norms, values = np.empty((tall, 4)), np.empty((tall, centers), np.float32)
    largest, sums = (np.empty((tall, TAKEN), np.float32), np.empty((tall, every * LANES_OF_SUMS)))
    each, totals = chain_weights(order, len(point)), np.zeros(every + 1)
    u, dots = np.empty((tall, len(point))), np.empty((tall, linear.shape[1]))
    fixed = linear, sides.reshape(4, scores.shape[1]), outputs, constants, totals, u, dots
    out = scores, bounds
    step, panel_step, b_step = 4 * length, 4 * width * length, 4 * weights.shape[1]
    for first in range(0, len(rows), TANGENT_TILE_ROWS):
        count = min(tall, len(rows) - first)
        part = rows[first : first + count]
        ready_rows(part, point, order, each, gamma, w, shifts, norms)
        sums[:count], norms[:count, 3] = 0.0, 0.0
        whole = count // SEVERAL * SEVERAL
        for i in range(count):
            norms[i, 2] = reach * math.sqrt(norms[i, 0])
        for i in range(0, whole, SEVERAL):  # those that are taken at once have one polynomial
            farthest = 0.0
            for j in range(i, i + SEVERAL):
                farthest = max(farthest, norms[j, 2])
            for j in range(i, i + SEVERAL):
                norms[j, 2] = farthest
        for tile in range(len(firsts)):
            begin, taken = tiles[tile], tiles[tile + 1] - tiles[tile]
            largest[:count] = 0.0
            x = np.uintp(panels.ctypes.data) + np.uintp(begin * panel_step)
            i = 0
            while i < count:
                here = np.uintp(w.ctypes.data) + np.uintp(i * step)
                to = np.uintp(values.ctypes.data) + np.uintp(4 * i * centers)
                far = np.uintp(largest.ctypes.data) + np.uintp(4 * i * TAKEN)
                given = here, step, length, x, panel_step, taken, to, 4 * centers, far, 4 * TAKEN
                if i < whole:
                    if norms[i, 2] <= NEAR:
                        _several_near(*given)
                    else:
                        _several_mid(*given)
                    i += SEVERAL
                else:
                    if norms[i, 2] <= NEAR:
                        _one_near(*given)
                    else:
                        _one_mid(*given)
                    i += 1
            for i in range(count):
                far = np.uintp(largest.ctypes.data) + np.uintp(4 * i * TAKEN)
                most = _greatest(far)
                norms[i, 3] = max(norms[i, 3], most)
                if most > MID:
                    here = np.uintp(w.ctypes.data) + np.uintp(i * step)
                    to = np.uintp(values.ctypes.data) + np.uintp(4 * i * centers)
                    given = here, step, length, x, panel_step, taken, to, 4 * centers, far, 0
                    _one_far(*given)
            b = np.uintp(weights.ctypes.data) + np.uintp(4 * begin * width)
            of_tile = values[:count], taken * width, b, b_step, columns
            _add_tile(*of_tile, sums[:count], firsts[tile])
        _finish(part, point, gamma, sums, norms, fixed, first, out)
