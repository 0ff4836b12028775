"""One output's exact sums, from rows to scores and bounds, tile after tile in one call.

A tile of rows is made ready, meets all panels (`panels`), and its sums over blocks
become scores and bounds before the next tile is read. So a call takes any number of rows, and all
that it needs besides rows and answers stays in cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.compiling import (
    Ints,
    Longs,
    Matrix,
    OutLongs,
    OutMatrix,
    OutVector,
    Singles,
    Vector,
    array_type,
    helper,
    kernel,
)
from kernelite.backends.cpu.kernels.exp2 import DOUBLE, QUICK, QUICKEST, SINGLE, Precision
from kernelite.backends.cpu.kernels.panels import (
    SUMS,
    chain_weights,
    ready_entries,
    ready_rows,
    sigmoid_sums,
    single_entry_sums,
    sparse_entries,
)

__all__ = [
    "PART_SCORES",
    "SCORES",
    "entry_scores",
    "finish",
    "growth",
    "sigmoid_scores",
    "sparse_scores",
]

BY_ROW = ("rows", "scores", "bounds", "squares")
SUM_ROWS = 240  # whole numbers of what kernels take at once: 3, 4 or 6
ENTRY_ROWS = 4096  # of a few entries each: panels are read once for all of them


@helper
def growth(error: float) -> float:
    """2^error - 1, rounded up; infinite where the exponent may be off by more than 20."""
    if error <= 0.01:
        return 0.7 * error  # 2^0.01 - 1 < 0.00696
    if error <= 20.0:
        return 1.001 * (2.0**error - 1.0)
    return math.inf  # NaN too


@helper
def finish(sums: Any, norms: Any, fixed: Any, first: int, count: int, out: Any) -> None:
    """Scores, bounds and |u|^2 of a tile, whose first row is row `first` of `out`.

    Bounds are those that `fused_sums` derives; none are computed where there is no room for them.
    Blocks are added up in four chains: n / 512 roundings, or a few, whatever the panels' width.
    """
    signs, terms, constants = fixed
    scores, bounds, squares = out
    relative, cut_off, intercept, constant, most, safety = constants
    blocks = sums.shape[1]
    for i in range(count):
        square, chain = norms[i, 0], norms[i, 1]
        t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
        whole = blocks // 4 * 4
        for b in range(0, whole, 4):
            t0 += signs[b] * sums[i, b]
            t1 += signs[b + 1] * sums[i, b + 1]
            t2 += signs[b + 2] * sums[i, b + 2]
            t3 += signs[b + 3] * sums[i, b + 3]
        for b in range(whole, blocks):
            t0 += signs[b] * sums[i, b]
        score = (t0 + t1) + (t2 + t3)
        if len(squares) > 0:
            squares[first + i] = square
        if len(bounds) == 0:
            scores[first + i, 0] = score + intercept
            continue
        norm, size, error = math.sqrt(square), 0.0, 0.0
        for b in range(blocks):
            found = sums[i, b]
            e = terms[b, 0] * chain + terms[b, 1] + terms[b, 2] * norm + terms[b, 3] * square
            size += found
            error += (found + cut_off) * (growth(e) + relative)
        bound = safety * (error + cut_off) + 1e-15 * (size + abs(intercept)) + constant
        if square <= most and bound < math.inf:
            scores[first + i, 0], bounds[first + i, 0] = score + intercept, bound
        else:
            scores[first + i, 0], bounds[first + i, 0] = intercept, math.inf


def _over_tiles(name: str, precision: Precision) -> Callable[..., None]:
    """A function from rows to scores, in one precision."""
    sums_of, dtype = SUMS[precision], np.float32 if precision.size == 4 else np.float64

    def run(
        rows: Any,
        point: Any,
        order: Any,
        g: float,
        panels: Any,
        exponents: Any,
        starts: Any,
        signs: Any,
        terms: Any,
        constants: Any,
        scores: Any,
        bounds: Any,
        squares: Any,
    ) -> None:
        tall = min(SUM_ROWS, len(rows))
        w, shifts = np.empty((tall, len(order)), dtype), np.empty(tall, dtype)
        norms, sums = np.empty((tall, 2)), np.empty((tall, len(starts) - 1))
        weights = chain_weights(order, rows.shape[1])
        fixed, out = (signs, terms, constants), (scores, bounds, squares)
        for first in range(0, len(rows), SUM_ROWS):
            count = min(tall, len(rows) - first)
            ready_rows(rows[first : first + count], point, order, weights, g, w, shifts, norms)
            sums_of(w[:count], shifts, panels, exponents, starts, sums)
            finish(sums, norms, fixed, first, count, out)

    run.__name__ = run.__qualname__ = name  # compiled code is kept under it
    return run


def _types(dtype: str) -> tuple[Any, ...]:
    """Of the arguments of `_over_tiles`."""
    flat, numbers = array_type(1), array_type(1, dtype)
    out = array_type(2, writable=True)
    panels = numbers, numbers, array_type(1, "int64")
    ends = flat, array_type(2), flat, out, out, array_type(1, writable=True)
    return array_type(2), flat, array_type(1, "int64"), "float64", *panels, *ends


SCORES = {
    precision: kernel(
        *_types(precision.dtype), by_row=BY_ROW, inside=BY_ROW[:3] if precision is SINGLE else ()
    )(_over_tiles(name, precision))
    for name, precision in (
        ("single_scores", SINGLE),
        ("double_scores", DOUBLE),
        ("quick_scores", QUICK),
        ("quickest_scores", QUICKEST),
    )
}
"""By precision: scores (m, 1), bounds (m, 1) and |u|^2 (m,) of rows; the last two may be empty."""


@kernel(by_row=BY_ROW)
def sigmoid_scores(
    rows: Matrix,
    order: Longs,
    panels: Singles,
    weights: Singles,
    starts: Longs,
    signs: Vector,
    terms: Matrix,
    constants: Vector,
    scores: OutMatrix,
    bounds: OutMatrix,
    squares: OutVector,
) -> None:
    """As `SCORES`, of a sigmoid: total - 2 sum |a_i| / (1 + 2^y_i), with |a_i| for weights.

    `fused_sums.sigmoid_sums` derives the bounds, and says what terms (B, 4) and constants (8,) are.
    """
    tall, origin = min(SUM_ROWS, len(rows)), np.zeros(rows.shape[1])
    w, shifts = np.empty((tall, len(order)), np.float32), np.empty(tall, np.float32)
    norms, sums = np.empty((tall, 2)), np.empty((tall, len(starts) - 1))
    chains = chain_weights(order, rows.shape[1])
    total, shift, intercept, constant, relative, slope, steady, most = constants
    for first in range(0, len(rows), SUM_ROWS):
        count = min(tall, len(rows) - first)
        ready_rows(rows[first : first + count], origin, order, chains, 0.0, w, shifts, norms)
        shifts[:count] = shift
        sigmoid_sums(w[:count], shifts, panels, weights, starts, sums)
        for i in range(count):
            square, norm = norms[i, 0], math.sqrt(norms[i, 0])
            score, error, size = total, 0.0, abs(total)
            for b in range(len(signs)):
                found = sums[i, b]
                off = terms[b, 0] * norms[i, 1] + terms[b, 1] + terms[b, 2] * norm
                score -= 2.0 * signs[b] * found
                size += 2.0 * found
                error += relative * found + terms[b, 3] * (steady + slope * off)
            bound = 2.0 * error + 1e-15 * (size + abs(intercept)) + constant
            squares[first + i] = square
            if square <= most and bound < math.inf:
                scores[first + i, 0], bounds[first + i, 0] = score + intercept, bound
            else:
                scores[first + i, 0], bounds[first + i, 0] = intercept, math.inf


@kernel(by_row=BY_ROW)
def entry_scores(
    rows: Matrix,
    point: Vector,
    order: Longs,
    g: float,
    least: Vector,
    panels: Singles,
    exponents: Singles,
    starts: Longs,
    signs: Vector,
    terms: Matrix,
    constants: Vector,
    scores: OutMatrix,
    bounds: OutMatrix,
    squares: OutVector,
) -> None:
    """As `SCORES`, for dense rows of which few features are off the point."""
    tall = min(SUM_ROWS, len(rows))
    indptr, most = np.empty(tall + 1, np.int64), tall * len(order)
    indices, data = np.empty(most, np.int32), np.empty(most, np.float32)
    shifts, norms = np.empty(tall, np.float32), np.empty((tall, 2))
    sums = np.empty((tall, len(starts) - 1))
    fixed, out = (signs, terms, constants), (scores, bounds, squares)
    for first in range(0, len(rows), SUM_ROWS):
        count = min(tall, len(rows) - first)
        part = rows[first : first + count]
        ready_entries(part, point, order, g, least, indptr, indices, data, shifts, norms)
        found = indptr[: count + 1], indices, data, shifts[:count]
        single_entry_sums(*found, panels, exponents, starts, sums)
        finish(sums, norms, fixed, first, count, out)


@kernel()
def sparse_scores(
    rows: Longs,
    columns: Ints,
    values: Vector,
    point: Vector,
    always: Longs,
    places: Longs,
    g: float,
    least: Vector,
    panels: Singles,
    exponents: Singles,
    starts: Longs,
    signs: Vector,
    terms: Matrix,
    constants: Vector,
    seen: OutLongs,
    scores: OutMatrix,
    bounds: OutMatrix,
    squares: OutVector,
) -> int:
    """As `SCORES`, for CSR rows that start at `rows`; returns the first malformed row, or -1.

    The rest is as `sparse_entries` takes it.
    """
    m = len(rows) - 1
    tall = min(ENTRY_ROWS, m)
    indptr, most = np.empty(tall + 1, np.int64), 0
    for first in range(0, m, ENTRY_ROWS):
        count = min(tall, m - first)
        held = min(rows[first + count] - rows[first], len(columns))  # which are yet to be checked
        most = max(most, held + count * len(always))
    indices, data = np.empty(most, np.int32), np.empty(most, np.float32)
    shifts, norms = np.empty(tall, np.float32), np.empty((tall, 2))
    sums = np.empty((tall, len(starts) - 1))
    fixed, out = (signs, terms, constants), (scores, bounds, squares)
    for first in range(0, m, ENTRY_ROWS):
        count = min(tall, m - first)
        seen[:] = -1
        own = rows[first : first + count + 1]
        given = columns, values, point, always, places, g, least, seen
        bad = sparse_entries(own, *given, indptr, indices, data, shifts, norms)
        if bad >= 0:
            return first + bad
        found = indptr[: count + 1], indices, data, shifts[:count]
        single_entry_sums(*found, panels, exponents, starts, sums)
        finish(sums, norms, fixed, first, count, out)
    return -1


# Several machines' exact sums on the same rows, from rows to scores and bounds in one call.
#
# A tile of rows is made ready once. It then meets the panels of one machine after the other, each
# with a width g of its own, which changes nothing about a row but -g |u|^2.


def _over_parts(name: str, precision: Precision) -> Callable[..., None]:
    """A function from rows to scores of all machines, in one precision."""
    sums_of, dtype = SUMS[precision], np.float32 if precision.size == 4 else np.float64

    def run(
        rows: Any,
        point: Any,
        order: Any,
        widths: Any,
        places: Any,
        panels: Any,
        exponents: Any,
        starts: Any,
        signs: Any,
        terms: Any,
        constants: Any,
        rounding: float,
        scores: Any,
        bounds: Any,
    ) -> None:
        tall, length = min(SUM_ROWS, len(rows)), len(order)
        w, shifts = np.empty((tall, length), dtype), np.empty(tall, dtype)
        norms, squares = np.empty((tall, 2)), np.empty(0)
        own, off = np.empty((tall, 1)), np.empty((tall, 1))
        size = np.empty((tall, scores.shape[1]))
        weights = chain_weights(order, rows.shape[1])
        for first in range(0, len(rows), SUM_ROWS):
            count = min(tall, len(rows) - first)
            ready_rows(rows[first : first + count], point, order, weights, 1.0, w, shifts, norms)
            scores[first : first + count] = 0.0
            bounds[first : first + count] = 0.0
            size[:count] = 0.0
            for part in range(len(widths)):
                for i in range(count):
                    shifts[i] = -widths[part] * norms[i, 0]
                at, end, block, last = (
                    places[part, 0],
                    places[part, 1],
                    places[part, 2],
                    places[part, 3],
                )
                sums = np.empty((tall, last - block))
                lines, c = panels[at * length : end * length], exponents[at:end]
                sums_of(w[:count], shifts, lines, c, starts[block + part : last + part + 1], sums)
                fixed = signs[block:last], terms[block:last], constants[part]
                finish(sums, norms, fixed, 0, count, (own, off, squares))
                output = places[part, 4]
                for i in range(count):
                    scores[first + i, output] += own[i, 0]
                    bounds[first + i, output] += off[i, 0]
                    size[i, output] += abs(own[i, 0])
            if rounding > 0.0:
                for i in range(count):
                    for output in range(scores.shape[1]):
                        grown = bounds[first + i, output] * (1.0 + rounding)
                        bounds[first + i, output] = grown + rounding * size[i, output]

    run.__name__ = run.__qualname__ = name  # compiled code is kept under it
    return run


def _part_types(dtype: str) -> tuple[Any, ...]:
    """Of the arguments of `_over_parts`."""
    flat, table, numbers = array_type(1), array_type(2), array_type(1, dtype)
    longs, out = array_type(1, "int64"), array_type(2, writable=True)
    model = numbers, numbers, longs, flat, table, table, "float64"
    return table, flat, longs, flat, array_type(2, "int64"), *model, out, out


PART_SCORES = {
    precision: kernel(*_part_types(precision.dtype), by_row=("rows", "scores", "bounds"))(
        _over_parts(name, precision)
    )
    for name, precision in (("single_parts", SINGLE), ("quick_parts", QUICK))
}
"""By precision: scores and bounds (m, k) of rows.

Besides what `panel_sums.SCORES` takes: g of each machine, (P,); where its centers begin and end,
where its blocks do, and the output that it is added to, (P, 5); starts of blocks, counted from its
own first panel, and their end, machine after machine; constants (P, 6); what adding machines up
rounds, relatively.
"""
