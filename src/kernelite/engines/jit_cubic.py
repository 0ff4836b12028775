"""Symmetric cubic forms over a tile of rows: quadratic forms of corners, each times one feature.

    T(u, u, u) = sum_{a <= b <= c} t_abc u_a u_b u_c = sum_a u_a q_a(u_a, ..., u_r)

In: coefficients packed in the order of (a, b, c), multiplicities folded in. Twin:
`blas.cubic_values`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelite.engines.jit_blocks import add_triangle, triangle_blocks
from kernelite.engines.jit_support import helper
from kernelite.engines.jit_tiles import CHUNK_WORK, TILE
from kernelite.errors import InputError
from kernelite.inputs import FloatArray

__all__ = ["CORNER_ROOM", "JitCubic", "add_cubic", "prepare_cubic"]

CORNER_ROOM = 3  # corners start at any feature, so up to three zeros stand behind the last one


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


@helper
def add_cubic(
    tile: FloatArray,
    rank: int,
    width: int,
    blocks: FloatArray,
    no_linear: FloatArray,
    q: FloatArray,
    total: FloatArray,
) -> None:
    """total[r] += T(u, u, u) for the rows of a tile with CORNER_ROOM zeros behind its features."""
    first = 0
    for a in range(rank):
        stop = a + (rank - a + 3) // 4 * 4
        q[:width] = 0.0
        first += add_triangle(tile[a:stop], width, blocks[first:], no_linear, q)
        for r in range(width):
            total[r] += tile[a, r] * q[r]
