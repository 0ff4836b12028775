"""Several machines' exact sums on the same rows, from rows to scores and bounds in one call.

A tile of rows is made ready once. It then meets the panels of one machine after the other, each
with a width g of its own, which changes nothing about a row but -g |u|^2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.compiling import array_type, kernel
from kernelite.backends.cpu.kernels.exp2 import QUICK, SINGLE, Precision
from kernelite.backends.cpu.kernels.panel_rows import chain_weights, ready_rows
from kernelite.backends.cpu.kernels.panel_sums import SUM_ROWS, finish
from kernelite.backends.cpu.kernels.panels import SUMS

__all__ = ["PART_SCORES"]


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


def _types(dtype: str) -> tuple[Any, ...]:
    """Of the arguments of `_over_parts`."""
    flat, table, numbers = array_type(1), array_type(2), array_type(1, dtype)
    longs, out = array_type(1, "int64"), array_type(2, writable=True)
    model = numbers, numbers, longs, flat, table, table, "float64"
    return table, flat, longs, flat, array_type(2, "int64"), *model, out, out


PART_SCORES = {
    precision: kernel(*_types(precision.dtype), by_row=("rows", "scores", "bounds"))(
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
