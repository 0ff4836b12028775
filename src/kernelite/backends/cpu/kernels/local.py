"""Sums over the centers near a row, far leaves left out against a proven bound.

In: rows (m, w) and `Leaves`. Out, for each row and output: the sum of A_i exp(-gamma |x_i - z|^2)
over the leaves that were evaluated, the same sum of |A_i|, and

    left out = sum over the other leaves (or whole groups) of exp(-gamma distance^2) sum |A_i|

with the distance to their box. Leaves with gamma distance^2 below a threshold are evaluated; the
threshold rises until what is left out is within absolute + relative * sum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.compiling import (
    Blocks,
    Matrix,
    OutMatrix,
    Vector,
    imported,
    inlined,
    kernel,
)
from kernelite.backends.cpu.kernels.exp import exp_nonpositive

__all__ = ["WIDTHS", "local_kernel"]

WIDTHS = (2, 4, 8)  # features that kernels are compiled for; rows are padded with zeros
STEP, GROWTH = 1.0, 1.25  # by how much the threshold rises, and that rise itself
UNDERFLOW = 745.0  # exp of less is zero


LOCAL_BY_ROW = ("rows", "scores", "magnitudes", "left_out", "counts")


def all_kernels() -> list[Callable[..., None]]:
    """The kernels of all widths, for `kernelite.warm_up`."""
    return [local_kernel(width) for width in WIDTHS]


@cache
def local_kernel(width: int) -> Callable[..., None]:
    """The compiled sums for rows of one of the `WIDTHS`."""

    to_fixed_tuple = imported("numba.np.unsafe.ndarray", "to_fixed_tuple")

    @inlined
    def exponents(row: Any, low: Any, high: Any, gamma: float, t: Any, e: Any) -> None:
        """gamma distance^2 from a row to boxes (w, lanes), and exp of its negative."""
        for lane in range(t.shape[0]):
            total = 0.0
            for f in range(width):
                gap = max(low[f, lane] - row[f], row[f] - high[f, lane], 0.0)
                total += gap * gap
            t[lane] = gamma * total
        for lane in range(t.shape[0]):
            e[lane] = exp_nonpositive(-t[lane])

    @inlined
    def add_leaf(
        row: Any,
        centers: Any,
        coefficients: Any,
        leaf: int,
        gamma: float,
        values: Any,
        sums: Any,
        sizes: Any,
    ) -> None:
        """Add the terms of a leaf's centers, lane by lane; a real call would cost half of it."""
        for j in range(values.shape[0]):
            square = 0.0
            for f in range(width):
                gap = centers[leaf, f, j] - row[f]
                square += gap * gap
            values[j] = exp_nonpositive(-gamma * square)
        for output in range(sums.shape[0]):
            for j in range(values.shape[0]):
                value = coefficients[leaf, output, j] * values[j]
                sums[output, j] += value
                sizes[output, j] += abs(value)

    @kernel(name=f"local_sums_{width}", by_row=LOCAL_BY_ROW)
    def local_sums(
        rows: Matrix,
        centers: Blocks,
        coefficients: Blocks,
        low: Blocks,
        high: Blocks,
        weight: Blocks,
        group_low: Matrix,
        group_high: Matrix,
        group_weight: Matrix,
        gamma: float,
        absolute: Vector,
        relative: float,
        start: float,
        scores: OutMatrix,
        magnitudes: OutMatrix,
        left_out: OutMatrix,
        counts: OutMatrix,
    ) -> Any:
        groups, k = low.shape[0], coefficients.shape[1]
        group_t, group_e = np.empty(groups), np.empty(groups)
        lanes = centers.shape[2]  # not a constant: the compiler would unroll, not vectorise
        t, e = np.empty((groups, lanes)), np.empty((groups, lanes))
        opened = np.empty(groups, np.int64)
        sums, sizes, values = np.empty((k, lanes)), np.empty((k, lanes)), np.empty(lanes)
        for i in range(rows.shape[0]):
            row: Any = to_fixed_tuple(rows[i], width)
            sums[:] = 0.0
            sizes[:] = 0.0
            exponents(row, group_low, group_high, gamma, group_t, group_e)
            n_opened, evaluated = 0, 0
            threshold, step = start, STEP
            while True:
                for g in range(groups):
                    if group_t[g] < threshold:
                        exponents(row, low[g], high[g], gamma, t[n_opened], e[n_opened])
                        opened[n_opened] = g
                        n_opened += 1
                        group_t[g], group_e[g] = np.inf, 0.0
                for place in range(n_opened):
                    for lane in range(lanes):
                        if t[place, lane] < threshold:
                            leaf = opened[place] * lanes + lane
                            add_leaf(row, centers, coefficients, leaf, gamma, values, sums, sizes)
                            t[place, lane], e[place, lane] = np.inf, 0.0
                            evaluated += 1
                enough = True
                for output in range(k):
                    total, size, rest = 0.0, 0.0, 0.0
                    for g in range(groups):
                        rest += group_weight[output, g] * group_e[g]
                    values[:] = 0.0
                    for place in range(n_opened):
                        g = opened[place]
                        for lane in range(lanes):
                            values[lane] += weight[g, output, lane] * e[place, lane]
                    for lane in range(lanes):
                        total += sums[output, lane]
                        size += sizes[output, lane]
                        rest += values[lane]
                    scores[i, output], magnitudes[i, output] = total, size
                    left_out[i, output] = rest
                    enough = enough and rest <= absolute[output] + relative * total
                if enough or threshold > UNDERFLOW:
                    break
                threshold += step
                step *= GROWTH
            counts[i, 0], counts[i, 1], counts[i, 2] = n_opened, evaluated, threshold

    return local_sums
