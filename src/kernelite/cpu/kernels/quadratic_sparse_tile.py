"""The compiled part of quadratic_sparse.py: rows of a CSR matrix, a tile at a time.

M is read from the 4 x 4 blocks that the dense kernel uses: M_ab, a <= b, stands at
line(a) + column(b) of an output's flat blocks.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from kernelite.cpu.kernels.bounds import bound_tile
from kernelite.cpu.kernels.compiling import array_type, helper, kernel
from kernelite.cpu.kernels.exp import exp_nonpositive
from kernelite.cpu.kernels.tiles import TILE, aligned
from kernelite.rows.inputs import FloatArray

__all__ = ["sparse_kernel"]

IntArray = NDArray[np.int64]
# Unsigned, so that no index is checked for counting from the end.
PlaceArray = NDArray[np.uint64]


@helper
def _read_row(
    indices: NDArray[np.int32],
    data: FloatArray,
    start: int,
    stop: int,
    point: FloatArray,
    z: FloatArray,
    places: PlaceArray,
) -> tuple[int, float, float]:
    """Copy a row's entries with their places; also |z|^2 and z.p.

    `places` are an entry's index in `outputs`, its column and its line in M. Filled up with
    zeros, placed like the last entry, to a multiple of four: that number is returned, or -1 for
    a malformed row.
    """
    n, d = stop - start, len(point)
    square, product = 0.0, 0.0
    if n < 0 or n > d or start < 0 or stop > min(len(indices), len(data)):
        return -1, square, product
    wide = (d + 3) // 4
    previous = -1
    for i in range(n):
        index = int(indices[start + i])
        if index <= previous or index >= d:
            return -1, square, product
        previous = index
        value = data[start + i]
        square += value * value
        product += value * point[index]
        a, within = index >> 2, index & 3
        z[i] = value
        places[0, i] = index + 2
        places[1, i] = 16 * a + within
        # Lines of blocks above this one have wide, wide - 1, ... blocks; columns count from 0.
        places[2, i] = 16 * (a * wide - ((a * (a + 1)) >> 1)) + 4 * within
    filled = (n + 3) >> 2 << 2
    for i in range(n, filled):
        z[i] = 0.0
        for kind in range(3):
            places[kind, i] = places[kind, n - 1]
    return filled, square, product


@helper
def _row_form(
    z: FloatArray, places: PlaceArray, filled: int, blocks: FloatArray, outputs: FloatArray, k: int
) -> float:
    """c' + v'.z + z'Mz of output k; four entries of z at a time against all that follow."""
    total = outputs[k, 0]
    for i in range(0, filled, 4):
        c0, c1, c2, c3 = places[1, i], places[1, i + 1], places[1, i + 2], places[1, i + 3]
        l0, l1, l2, l3 = places[2, i], places[2, i + 1], places[2, i + 2], places[2, i + 3]
        z0, z1, z2, z3 = z[i], z[i + 1], z[i + 2], z[i + 3]
        y0 = outputs[k, places[0, i]] + blocks[k, l0 + c0] * z0
        y0 += blocks[k, l0 + c1] * z1 + blocks[k, l0 + c2] * z2 + blocks[k, l0 + c3] * z3
        y1 = outputs[k, places[0, i + 1]] + blocks[k, l1 + c1] * z1
        y1 += blocks[k, l1 + c2] * z2 + blocks[k, l1 + c3] * z3
        y2 = outputs[k, places[0, i + 2]] + blocks[k, l2 + c2] * z2 + blocks[k, l2 + c3] * z3
        y3 = outputs[k, places[0, i + 3]] + blocks[k, l3 + c3] * z3
        for j in range(i + 4, filled):
            column, value = places[1, j], z[j]
            y0 += blocks[k, l0 + column] * value
            y1 += blocks[k, l1 + column] * value
            y2 += blocks[k, l2 + column] * value
            y3 += blocks[k, l3 + column] * value
        total += (z0 * y0 + z1 * y1) + (z2 * y2 + z3 * y3)
    return total


@kernel(
    array_type(1, "int64"),
    array_type(1, "int32"),
    array_type(1),
    array_type(1),
    "float64",
    array_type(3),
    array_type(2),
    "float64",
    "float64",
    array_type(2),
    array_type(2, writable=True),
    array_type(1, writable=True),
    array_type(1, writable=True),
    array_type(2, writable=True),
)
def sparse_kernel(
    starts: IntArray,
    indices: NDArray[np.int32],
    data: FloatArray,
    point: FloatArray,
    point_sq: float,
    blocks: FloatArray,
    outputs: FloatArray,
    gamma: float,
    slack: float,
    certificate: FloatArray,
    values: FloatArray,
    sq_norms: FloatArray,
    reach: FloatArray,
    bounds: FloatArray,
) -> int:
    """All rows between the first and the last of `starts`; the first malformed row, or -1."""
    m, d, k = len(starts) - 1, len(point), len(outputs)
    point_norm = math.sqrt(point_sq)
    room = aligned((k + 4) * TILE).reshape(k + 4, TILE)
    room[:] = 0.0
    g, squares, reaches, exponentials, bound = room[4:], room[0], room[1], room[2], room[3]
    z, places = np.empty(d + 4), np.empty((3, d + 4), dtype=np.uint64)
    flat = blocks.reshape(k, blocks.shape[1] * 16)
    for start in range(0, m, TILE):
        count = min(TILE, m - start)
        for r in range(count):
            row = start + r
            filled, square, product = _read_row(
                indices, data, starts[row], starts[row + 1], point, z, places
            )
            if filled < 0:
                return row
            squares[r] = max((square + point_sq) - 2.0 * product, 0.0)
            reaches[r] = square
            for j in range(k):
                g[j, r] = _row_form(z, places, filled, flat, outputs, j)
        for r in range(TILE):
            norms = math.sqrt(reaches[r]) + point_norm
            reaches[r] = 1.0000001 * norms * norms
        for r in range(TILE):
            exponentials[r] = exp_nonpositive(-gamma * squares[r]) if gamma > 0.0 else 1.0
        for r in range(count):  # by slices they would be compared in shape: seconds to compile
            sq_norms[start + r], reach[start + r] = squares[r], reaches[r]
        for j in range(k):
            line, intercept = g[j], outputs[j, 1]
            for r in range(TILE):
                E = exponentials[r]
                line[r] = (0.0 if E == 0.0 else E * line[r]) + intercept
            for r in range(count):
                values[start + r, j] = line[r]
            if len(certificate) > 0:
                numbers = certificate[j]
                bound_tile(squares, reaches, exponentials, line, gamma, slack, numbers, TILE, bound)
                for r in range(count):
                    bounds[start + r, j] = bound[r]
    return -1
