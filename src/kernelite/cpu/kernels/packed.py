"""A cubic polynomial with all lower orders, packed: rows meet it tile by tile.

    out_j = sum_{a <= b <= c} t_jabc w_a w_b w_c,    w = (z, 1)

In: rows of shape (m, d). Out: (m, k). Twin: `blas.cubic_values` of rows with a column of ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelite.cpu.kernels.compiling import array_type, kernel, ready
from kernelite.cpu.kernels.cubic import SUMS, JitCubic, add_cubic, prepare_cubic, product_lines
from kernelite.cpu.kernels.tiles import TILE, aligned, load_tile
from kernelite.cpu.threads import for_each_chunk
from kernelite.rows.inputs import FloatArray

__all__ = ["PackedCubic"]


@dataclass(frozen=True, eq=False)
class PackedCubic:
    """Packed coefficients laid out for the kernel.

    Parameters
    ----------
    cubic : JitCubic
        Of rank d + 1.
    n_outputs : int
        k.
    """

    cubic: JitCubic
    n_outputs: int

    @classmethod
    def prepare(cls, packed: FloatArray, n_features: int) -> PackedCubic:
        """From (k, r (r + 1) (r + 2) / 6) coefficients, r = d + 1."""
        return cls(prepare_cubic(packed, n_features + 1), len(packed))

    @property
    def ready(self) -> bool:
        """Whether the kernel is compiled; if not, that is begun."""
        return ready(packed_kernel)

    def run(self, rows: FloatArray, out: FloatArray) -> None:
        """out = the polynomial of dense, contiguous rows: shape (m, k)."""
        zeros, weights = np.zeros(rows.shape[1]), self.cubic.weights

        def part(block: slice) -> None:
            packed_kernel(rows[block], zeros, weights, out[block])

        for_each_chunk(part, len(rows), self.cubic.chunk)


@kernel(array_type(2), array_type(1), array_type(2), array_type(2, writable=True))
def packed_kernel(rows: FloatArray, zeros: FloatArray, weights: FloatArray, out: FloatArray) -> Any:
    m, d = rows.shape
    k, rank = out.shape[1], d + 1
    tall, lines = (rank + 3) // 4 * 4, product_lines(rank)
    height = tall + lines + SUMS + k
    room = aligned(height * TILE).reshape(height, TILE)
    room[:tall] = 0.0
    tile, rest = room[:tall], tall
    products, rest = room[rest : rest + lines], rest + lines
    sums, totals = room[rest : rest + SUMS], room[rest + SUMS :]
    for start in range(0, m, TILE):
        count = min(TILE, m - start)
        width = (count + 7) // 8 * 8
        load_tile(rows, start, count, zeros, tile)
        tile[d, :width] = 1.0
        totals[:, :width] = 0.0
        add_cubic(tile, rank, width, weights, products, sums, totals)
        for r in range(count):
            for j in range(k):
                out[start + r, j] = totals[j, r]
