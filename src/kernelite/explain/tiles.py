"""Shapley values of products on processors: factors and their quadrature, by compiled loops.

In: a term, rows. Out: sums over centers and background rows, as `sums.Products` states them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.threads import for_each_chunk, thread_count
from kernelite.data.rows.inputs import FloatArray
from kernelite.explain.kernels import TILE_CENTERS, factors, shapley_sums
from kernelite.explain.quadrature import Rules
from kernelite.explain.terms import ProductTerm
from kernelite.machine.exactly import UNIT

__all__ = ["Tiles"]

PARTS_AT_ONCE = 32  # pieces of the centers that threads can take


@dataclass(frozen=True, eq=False)
class Tiles:
    """The centers of a term in tiles of `TILE_CENTERS`, feature by feature.

    The term's `relative` says all that exponents err by.
    """

    centers: FloatArray  # (tiles, d TILE_CENTERS)
    weights: FloatArray  # (tiles, k TILE_CENTERS)
    term: ProductTerm
    player: NDArray[np.int64]
    count: int
    center_moves: float

    room = 1 << 22  # 32 MB
    lost = 1e-280

    @classmethod
    def of(cls, term: ProductTerm, player: NDArray[np.int64], p: int, moves: float) -> Tiles:
        """Laid out for p players; centers may be off by `moves`, relatively."""
        n, d = term.centers.shape
        tiles = max(1, -(-n // TILE_CENTERS))
        k = term.coefficients.shape[1]
        centers, weights = np.zeros((tiles * TILE_CENTERS, d)), np.zeros((tiles * TILE_CENTERS, k))
        centers[:n], weights[:n] = term.centers, term.coefficients
        if n:
            centers[n:] = term.centers[-1]  # with a coefficient of zero

        def by_lanes(array: FloatArray) -> FloatArray:
            each = array.reshape(tiles, TILE_CENTERS, -1).transpose(0, 2, 1)
            return np.ascontiguousarray(each).reshape(tiles, -1)

        return cls(by_lanes(centers), by_lanes(weights), term, player, p, moves)

    @property
    def line(self) -> int:
        """Numbers that the factors of a row take."""
        return len(self.centers) * self.count * TILE_CENTERS

    def factors(self, rows: FloatArray, moves: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of each row, tile, player and lane, and what errors of exponents do to their products."""
        items = len(rows) * len(self.centers)
        out, errors = np.empty((items, self.count * TILE_CENTERS)), np.empty((items, TILE_CENTERS))

        def work(part: slice) -> None:
            factors(
                rows,
                moves,
                self.centers,
                self.term.square,
                self.term.city,
                self.player,
                self.term.relative,
                self.center_moves,
                part.start,
                part.stop,
                np.empty(self.count * TILE_CENTERS),
                out,
                errors,
            )

        for_each_chunk(work, items, max(1, items // (4 * thread_count())))
        return out, errors

    def base(
        self, v: tuple[FloatArray, FloatArray], background: int
    ) -> tuple[FloatArray, FloatArray]:
        """Sums of the background's own products, and their rounding."""
        T, p = len(self.centers), self.count
        products = v[0].reshape(-1, T, p, TILE_CENTERS).prod(axis=2)
        weights = self.weights.reshape(T, -1, TILE_CENTERS)
        units = UNIT * (6.0 * p + len(self.term.centers) + background + 32.0)
        off = products * (units + 1.01 * v[1].reshape(-1, T, TILE_CENTERS))
        return (
            np.einsum("btl,tkl->k", products, weights),
            np.einsum("btl,tkl->k", off, np.abs(weights)),
        )

    def sums(
        self,
        u: tuple[FloatArray, FloatArray],
        v: tuple[FloatArray, FloatArray],
        rules: Rules,
        background: int,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Values and sizes of shape (m, k, p) and middles (m, k), over these background rows."""
        T, p = len(self.centers), self.count
        k, m = self.weights.shape[1] // TILE_CENTERS, len(u[0]) // T
        parts = min(T, PARTS_AT_ONCE)
        per_item = -(-T // parts)
        parts = -(-T // per_item)
        units = UNIT * (8.0 * p + rules.most + background + per_item * TILE_CENTERS + parts + 32.0)
        out, sizes = np.empty((parts * m, k * p)), np.empty((parts * m, k * p))
        middles = np.empty((parts * m, k))

        def work(part: slice) -> None:
            shapley_sums(
                *u,
                *v,
                self.weights,
                rules.nodes,
                rules.weights,
                rules.starts,
                rules.choice,
                rules.side,
                rules.steps,
                units,
                m,
                T,
                per_item,
                part.start,
                part.stop,
                np.empty((5, p * TILE_CENTERS)),
                np.empty(5 * TILE_CENTERS),
                out,
                sizes,
                middles,
            )

        for_each_chunk(work, parts * m, max(1, parts * m // (4 * thread_count())))
        return (
            out.reshape(parts, m, k, p).sum(axis=0),
            sizes.reshape(parts, m, k, p).sum(axis=0),
            middles.reshape(parts, m, k).sum(axis=0),
        )
