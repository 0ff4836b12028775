"""Several outputs' exact sums in doubles, from rows to scores, tile after tile in one call.

Kernel values of a few rows and 512 centers are written once, and multiplied with the centers'
coefficients while they are in cache:

    sums_c += sum_{i in run} K_i a_i,    a run: centers of one class, not more than 512

One-vs-one centers stand class by class and have K - 1 coefficients; an output is then the sum of
two classes' sums.
"""

from __future__ import annotations

from collections.abc import Callable
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
    kernel,
    types,
)
from kernelite.backends.cpu.kernels.exp2 import DOUBLE, Code
from kernelite.backends.cpu.kernels.panels import chain_weights, over_rows, ready_rows

__all__ = [
    "SEVERAL",
    "VALUE_CENTERS",
    "VALUE_LANES",
    "one_weighted",
    "several_scores",
    "several_weighted",
]

VALUE_CENTERS = 512  # whose kernel values are kept at a time; no run is longer
VALUE_ROWS = 48  # with them, 200 kB of kernel values
SEVERAL = 8  # rows that meet a center's coefficients in registers
VALUE_LANES = DOUBLE.lanes  # outputs that are summed up at a time
DOUBLE_PANEL = DOUBLE.panel  # centers

_kernel_values = helper(over_rows("kernel_values", DOUBLE, summed=False))


def _weighted(rows: int) -> Callable[..., Any]:
    """An instruction: out += sum_i k_i a_i over a run, a_i a vector of outputs, for some rows.

    It takes addresses, steps in bytes and the number of centers. A run is summed up by itself,
    then added.
    """
    address, number = types.uintp, types.intp

    @instruction(types.void(address, number, address, number, number, address, number))
    def run(
        builder: Any,
        values: Any,
        step: Any,
        lines: Any,
        line_step: Any,
        centers: Any,
        out: Any,
        out_step: Any,
    ) -> None:
        code, i64 = Code(builder, DOUBLE), centers.type
        sums = [code.variable() for _ in range(rows)]
        with cgutils.for_range(builder, centers) as loop:
            a = code.load(builder.add(lines, builder.mul(loop.index, line_step)))
            at = builder.add(values, builder.mul(loop.index, i64(8)))
            for total in sums:
                code.add_product(total, code.spread(at), a)
                at = builder.add(at, step)
        for i, total in enumerate(sums):
            place = builder.add(out, builder.mul(out_step, i64(i)))
            code.store(builder.fadd(code.load(place), builder.load(total)), place)

    return run


several_weighted, one_weighted = _weighted(SEVERAL), _weighted(1)


@helper
def _add_run(
    values: Any, count: int, start: int, stop: int, weights: Any, at: Any, sums: Any
) -> None:
    """Add a run of centers to the sums of `count` rows, which begin in column `at`."""
    step, wide, out_step = 8 * values.shape[1], weights.shape[1], 8 * sums.shape[1]
    tile, first = at
    k = np.uintp(values.ctypes.data) + np.uintp(8 * (start - tile))
    whole = count // SEVERAL * SEVERAL
    for column in range(0, wide, VALUE_LANES):
        a = np.uintp(weights.ctypes.data) + np.uintp(8 * (start * wide + column))
        out = np.uintp(sums.ctypes.data) + np.uintp(8 * (first + column))
        for i in range(0, whole, SEVERAL):
            here, there = k + np.uintp(i * step), out + np.uintp(i * out_step)
            several_weighted(here, step, a, 8 * wide, stop - start, there, out_step)
        for i in range(whole, count):
            here, there = k + np.uintp(i * step), out + np.uintp(i * out_step)
            one_weighted(here, step, a, 8 * wide, stop - start, there, out_step)


@kernel(by_row=("rows", "scores", "squares"))
def several_scores(
    rows: Matrix,
    point: Vector,
    order: Longs,
    g: float,
    panels: Vector,
    exponents: Vector,
    runs: Longs,
    columns: Longs,
    weights: Matrix,
    firsts: Longs,
    seconds: Longs,
    intercept: Vector,
    scores: OutMatrix,
    squares: OutVector,
) -> None:
    """Scores (m, k) and |u|^2 (m,).

    Parameters besides those of `panel_sums.SCORES`: the first center of each run and the end of the
    last, (R + 1,); where each run's sums begin, (R,); coefficients (n, wide), wide a multiple of
    VALUE_LANES; where the sums of each output are, (k,), and the second ones, below 0 where there
    are none.
    """
    tall, length = min(VALUE_ROWS, len(rows)), len(order)
    # A class without centers has no run, but its outputs have their place: zeros.
    width = max(columns.max() + weights.shape[1], firsts.max() + 1, seconds.max() + 1)
    w, shifts = np.empty((tall, length)), np.empty(tall)
    norms, values, sums = (
        np.empty((tall, 2)),
        np.empty((tall, VALUE_CENTERS)),
        np.empty((tall, width)),
    )
    each, one = chain_weights(order, rows.shape[1]), np.zeros(2, np.int64)
    for first in range(0, len(rows), VALUE_ROWS):
        count = min(tall, len(rows) - first)
        ready_rows(rows[first : first + count], point, order, each, g, w, shifts, norms)
        sums[:count] = 0.0
        run = 0
        for tile in range(0, len(exponents), VALUE_CENTERS):
            end = min(tile + VALUE_CENTERS, len(exponents))
            one[1] = (end - tile) // DOUBLE_PANEL
            lines, c = panels[tile * length : end * length], exponents[tile:end]
            _kernel_values(w[:count], shifts, lines, c, one, values)
            while run < len(columns) and runs[run] < end:
                at = tile, columns[run]
                _add_run(values, count, runs[run], runs[run + 1], weights, at, sums)
                run += 1
        for i in range(count):
            squares[first + i] = norms[i, 0]
            for j in range(len(firsts)):
                found = sums[i, firsts[j]]
                if seconds[j] >= 0:
                    found += sums[i, seconds[j]]
                scores[first + i, j] = found + intercept[j]
