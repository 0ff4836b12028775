"""Symmetric cubic forms over tiles of rows: quadratic forms of corners, each times one feature.

    T(u, u, u) = sum_{a <= b <= c} t_abc u_a u_b u_c = sum_a u_a q_a(u_a, ..., u_r)

In: coefficients packed in the order of (a, b, c), multiplicities folded in, and rows (m, r).
Out: values of shape (m, k). Twin: `blas.cubic_values`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelite.engines.jit_blocks import add_triangle, triangle_blocks
from kernelite.engines.jit_support import array_type, kernel
from kernelite.engines.jit_tiles import CHUNK_WORK, TILE, aligned, load_tile
from kernelite.engines.threads import for_each_chunk
from kernelite.errors import InputError
from kernelite.inputs import FloatArray

__all__ = ["JitCubic", "cubic_values", "prepare_cubic"]


@dataclass(frozen=True, eq=False)
class JitCubic:
    """A cubic form laid out for the kernel.

    Parameters
    ----------
    point : ndarray of shape (r,)
        What is subtracted from rows first.
    blocks : ndarray of shape (k, n_blocks, 16)
        The corners' triangles in 4 x 4 blocks, one corner after the other.
    """

    point: FloatArray
    blocks: FloatArray

    @property
    def chunk(self) -> int:
        """Rows that a thread should take at a time."""
        work = 16.0 * self.blocks.shape[0] * self.blocks.shape[1] + 8.0 * len(self.point)
        return TILE * max(1, int(CHUNK_WORK / work / TILE))


def prepare_cubic(packed: FloatArray, rank: int, point: FloatArray | None = None) -> JitCubic:
    """Lay out packed coefficients for the kernel.

    Parameters
    ----------
    packed : ndarray of shape (k, r (r + 1) (r + 2) / 6)
    rank : int
        r.
    point : ndarray of shape (r,), optional
        Subtracted from every row; zero by default.
    """
    k, count = packed.shape
    if count != rank * (rank + 1) * (rank + 2) // 6:
        raise InputError(f"`packed` has {count} coefficients, which is not what rank {rank} has.")
    corners = []
    start = 0
    for rest in range(rank, 0, -1):
        stop = start + rest * (rest + 1) // 2
        corner = np.zeros((k, rest, rest))
        corner[:, *np.triu_indices(rest)] = packed[:, start:stop]
        corners.append(triangle_blocks(corner))
        start = stop
    blocks = np.concatenate(corners, axis=1) if corners else np.zeros((k, 0, 16))
    return JitCubic(np.zeros(rank) if point is None else np.ascontiguousarray(point), blocks)


def cubic_values(form: JitCubic, rows: FloatArray) -> FloatArray:
    """T(u, u, u) of each row and output, shape (m, k), u = row - point.

    Parameters
    ----------
    form : JitCubic
    rows : ndarray of shape (m, r)
        C-contiguous float64.

    Examples
    --------
    >>> cubic_values(prepare_cubic(np.array([[2.0]]), 1), np.array([[3.0], [1.0]]))
    array([[54.],
           [ 2.]])
    """
    out = np.empty((len(rows), len(form.blocks)))

    def part(block: slice) -> None:
        _cubic_kernel(rows[block], form.point, form.blocks, out[block])

    for_each_chunk(part, len(rows), form.chunk)
    return out


@kernel(array_type(2), array_type(1), array_type(3), array_type(2, writable=True))
def _cubic_kernel(rows: FloatArray, point: FloatArray, blocks: FloatArray, out: FloatArray) -> None:
    m, rank = rows.shape
    # Corners start at any feature, so up to three zeros stand behind the last one.
    room = aligned((rank + 5) * TILE).reshape(rank + 5, TILE)
    room[:] = 0.0
    tile, q, total = room[: rank + 3], room[rank + 3], room[rank + 4]
    no_linear = np.zeros(rank + 3)
    for start in range(0, m, TILE):
        count = min(TILE, m - start)
        width = (count + 7) // 8 * 8
        load_tile(rows, start, count, point, tile)
        for j in range(blocks.shape[0]):
            total[:width] = 0.0
            first = 0
            for a in range(rank):
                stop = a + (rank - a + 3) // 4 * 4
                q[:width] = 0.0
                first += add_triangle(tile[a:stop], width, blocks[j, first:], no_linear, q)
                for r in range(width):
                    total[r] += tile[a, r] * q[r]
            for r in range(count):
                out[start + r, j] = total[r]
