"""Rows made ready for panels: u = z - p in their order and precision, or its entries.

Besides u: -g |u|^2, |u|^2 in doubles, and what roundings of the products u.x can grow with.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.compiling import (
    Longs,
    Matrix,
    OutInts,
    OutLongs,
    OutMatrix,
    OutSingles,
    Vector,
    helper,
    kernel,
)

__all__ = [
    "chain_weights",
    "entries",
    "ready_entries",
    "ready_rows",
    "sparse_entries",
]


@helper
def chain_weights(order: Any, width: int) -> Any:
    """How often each feature's product is rounded: L for the first of the order, 0 for others."""
    weights = np.zeros(width)
    for position in range(len(order)):
        weights[order[position]] = len(order) - position
    return weights


@helper
def ready_rows(
    rows: Any, point: Any, order: Any, weights: Any, g: float, w: Any, shifts: Any, norms: Any
) -> None:
    """u, -g |u|^2 and norms of each row; sums in four chains, which run side by side."""
    width = rows.shape[1]
    whole = width // 4 * 4
    for i in range(len(rows)):
        t0, t1, t2, t3, c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(0, whole, 4):
            u0, u1 = rows[i, j] - point[j], rows[i, j + 1] - point[j + 1]
            u2, u3 = rows[i, j + 2] - point[j + 2], rows[i, j + 3] - point[j + 3]
            u0, u1, u2, u3 = u0 * u0, u1 * u1, u2 * u2, u3 * u3
            t0, t1, t2, t3 = t0 + u0, t1 + u1, t2 + u2, t3 + u3
            c0, c1 = c0 + weights[j] * u0, c1 + weights[j + 1] * u1
            c2, c3 = c2 + weights[j + 2] * u2, c3 + weights[j + 3] * u3
        for j in range(whole, width):
            u0 = rows[i, j] - point[j]
            t0 += u0 * u0
            c0 += weights[j] * (u0 * u0)
        total, chain = (t0 + t1) + (t2 + t3), (c0 + c1) + (c2 + c3)
        for position in range(len(order)):
            feature = order[position]
            w[i, position] = rows[i, feature] - point[feature]
        shifts[i] = -g * total
        norms[i, 0], norms[i, 1] = total, math.sqrt(chain)


@helper
def ready_entries(
    rows: Any,
    point: Any,
    order: Any,
    g: float,
    least: Any,
    indptr: Any,
    indices: Any,
    data: Any,
    shifts: Any,
    norms: Any,
) -> None:
    """The entries of u above `least`, row after row.

    norms (m, 2): |u|^2, and the number of entries times their norm. `indices` and `data` have room
    for all.
    """
    indptr[0], found = 0, 0
    for i in range(len(rows)):
        total = 0.0
        for j in range(rows.shape[1]):
            u = rows[i, j] - point[j]
            total += u * u
        kept = 0.0
        for position in range(len(order)):
            feature = order[position]
            u = rows[i, feature] - point[feature]
            if not abs(u) <= least[position]:
                indices[found], data[found] = position, u
                kept += u * u
                found += 1
        shifts[i] = -g * total
        indptr[i + 1] = found
        norms[i, 0], norms[i, 1] = total, (found - indptr[i]) * math.sqrt(kept)


@kernel()
def entries(
    rows: Matrix,
    point: Vector,
    order: Longs,
    g: float,
    least: Vector,
    indptr: OutLongs,
    indices: OutInts,
    data: OutSingles,
    shifts: OutSingles,
    norms: OutMatrix,
) -> None:
    """As `ready_entries`."""
    ready_entries(rows, point, order, g, least, indptr, indices, data, shifts, norms)


@helper
def sparse_entries(
    starts: Any,
    columns: Any,
    values: Any,
    point: Any,
    always: Any,
    places: Any,
    g: float,
    least: Any,
    seen: Any,
    indptr: Any,
    indices: Any,
    data: Any,
    shifts: Any,
    norms: Any,
) -> int:
    """As `ready_entries`, for CSR rows of which `always` are the features that p is not zero in.

    `places` (d,) are those of features in the panels' order, -1 for none. `seen` (d,) is room,
    below zero. Returns the first malformed row, or -1.
    """
    indptr[0], found, width = 0, 0, len(point)
    for i in range(len(starts) - 1):
        start, stop = starts[i], starts[i + 1]
        if start < 0 or stop < start or stop > min(len(columns), len(values), starts[-1]):
            return i  # none has more entries than there is room for
        total, kept = 0.0, 0.0
        for e in range(start, stop + len(always)):
            if e < stop:
                feature = int(columns[e])
                if feature < 0 or feature >= width or seen[feature] == i:
                    return i
                seen[feature] = i
                u = values[e] - point[feature]
            else:
                feature = always[e - stop]
                if seen[feature] == i:
                    continue
                u = -point[feature]
            total += u * u
            position = places[feature]
            if position >= 0 and not abs(u) <= least[position]:
                indices[found], data[found] = position, u
                kept += u * u
                found += 1
        shifts[i] = -g * total
        indptr[i + 1] = found
        norms[i, 0], norms[i, 1] = total, (found - indptr[i]) * math.sqrt(kept)
    return -1
