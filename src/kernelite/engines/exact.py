"""The exact engine: f in double precision, tile by tile, with a bound on its own rounding.

Prepare once (shift to the centers' mean, norms), run on many rows. Per row, with S_i = x_i - p:

    |computed f - f| <= u ((d + 8) 2 gamma (R^2 + |u|^2) + lengths) sum_i |A_i| K_i + 2u(|b| + |f|)

where sum_i |A_i| K_i <= |A|_1 exp(-gamma max(0, |u| - R)^2). The expansion |x|^2 + |z|^2 - 2 x.z
loses digits when gamma R^2 is huge; such models are evaluated by differences instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kernelite.approximation.rounding import SAFETY, TINY, UNIT, row_rounding
from kernelite.engines.jit_support import jit_available
from kernelite.engines.threads import for_each_chunk, single_threaded_blas, thread_count
from kernelite.expansion import KernelExpansion
from kernelite.inputs import FloatArray, row_blocks

__all__ = ["ExactEngine"]

ROWS, CENTERS = 128, 512  # a tile of kernel values: half a megabyte, in a core's own cache
CANCELLATION = 1e-9  # relative error of a kernel value from which differences are taken
UNDERFLOWS = 800.0  # gamma |x - z|^2 from which a kernel value is zero


@dataclass(frozen=True, eq=False)
class ExactEngine:
    """An expansion made ready to run.

    Examples
    --------
    >>> engine = ExactEngine.prepare(KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0))
    >>> scores, bounds = engine.run(np.array([[0.0], [1e200]]))
    >>> scores
    array([[2.5],
           [0.5]])
    """

    expansion: KernelExpansion
    point: FloatArray
    centers: FloatArray
    factors: FloatArray
    largest: float
    radius: float
    weight: FloatArray
    absolute: FloatArray
    by_differences: bool

    @classmethod
    def prepare(cls, expansion: KernelExpansion) -> ExactEngine:
        """Shift the centers to their mean and take their norms."""
        centers = expansion.dense_centers()
        n, d = centers.shape
        point = centers.mean(axis=0) if n and expansion.kernel == "rbf" else np.zeros(d)
        shifted = centers - point
        with np.errstate(over="ignore"):
            exponents = expansion.gamma * np.einsum("ij,ij->i", shifted, shifted)
        largest = float(exponents.max(initial=0.0))
        # One product gives the exponent: (2 gamma s, -gamma |s|^2, -1) . (u, 1, gamma |u|^2).
        factors = np.column_stack([2.0 * expansion.gamma * shifted, -exponents, -np.ones(n)])
        radius = float(np.sqrt(largest / expansion.gamma))
        weight = np.abs(expansion.coefficients).sum(axis=0)
        reach = radius + math.hypot(*point)
        return cls(
            expansion=expansion,
            point=point,
            centers=shifted,
            factors=factors,
            largest=largest,
            radius=radius,
            weight=weight,
            absolute=TINY * (1.0 + weight) + row_rounding(weight, expansion.gamma, reach),
            by_differences=bool((d + 8) * 4.0 * largest * UNIT > CANCELLATION),
        )

    def run(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores and rounding bounds, each of shape (m, k)."""
        if self.expansion.kernel == "poly2":
            return self._run_polynomial(rows)
        m, k = len(rows), self.expansion.n_outputs
        scores, squares = np.empty((m, k)), np.empty(m)

        def part(block: slice) -> None:
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                U = rows[block] - self.point
                squares[block] = np.einsum("ij,ij->i", U, U)
                scores[block] = self._sums(U, squares[block]) + self.expansion.intercept

        # Few rows are shared out evenly; many go in tiles that fit a core's cache.
        chunk = max(1, min(ROWS, -(-m // thread_count())))
        with single_threaded_blas():
            for_each_chunk(part, m, chunk)
        far = self._far(squares)
        scores[far] = self.expansion.intercept
        return scores, self._bound(squares, scores)

    def run_bound(self, rows: FloatArray) -> FloatArray:
        """The rounding bound of `run`, without running it: shape (m, k)."""
        if self.expansion.kernel == "poly2":
            return self._run_polynomial(rows)[1]
        with np.errstate(over="ignore"):
            U = rows - self.point
            squares = np.einsum("ij,ij->i", U, U)
        # |f| <= |b| + |A|_1 stands in for the score.
        return self._bound(squares, np.abs(self.expansion.intercept) + self.weight[None, :])

    def _sums(self, U: FloatArray, squares: FloatArray) -> FloatArray:
        """sum_i A_i K_i of a few rows, centers in tiles: shape (m, k)."""
        m, gamma = len(U), self.expansion.gamma
        sums = np.zeros((m, self.expansion.n_outputs))
        lifted = np.column_stack([U, np.ones(m), gamma * squares])
        for centers in row_blocks(len(self.centers), CENTERS):
            if self.by_differences:
                tile = self._differences(U, centers)
            else:
                tile = lifted @ self.factors[centers].T
            add_kernel_sums(tile, self.expansion.coefficients[centers], sums)
        return sums

    def _differences(self, U: FloatArray, centers: slice) -> FloatArray:
        tile = np.zeros((len(U), centers.stop - centers.start))
        for feature in range(U.shape[1]):
            gap = U[:, feature][:, None] - self.centers[centers, feature]
            tile += gap * gap
        tile *= -self.expansion.gamma
        return tile

    def _far(self, squares: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        gap = np.maximum(np.sqrt(squares) - self.radius, 0.0)
        with np.errstate(over="ignore"):
            return ~(self.expansion.gamma * gap * gap < UNDERFLOWS)

    def _bound(self, squares: FloatArray, scores: FloatArray) -> FloatArray:
        expansion = self.expansion
        n, d = self.centers.shape
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            gap = np.maximum(np.sqrt(squares) * (1.0 - 1e-12) - self.radius * (1.0 + 1e-12), 0.0)
            kernels = np.exp(-expansion.gamma * gap * gap * (1.0 - 1e-12))
            if self.by_differences:
                # Relative to the distance: (d + 8) u gamma D with exp(-gamma D) nonzero.
                spread = np.full(len(squares), (d + 8) * UNDERFLOWS)
            else:
                spread = (d + 8) * 2.0 * (self.largest + expansion.gamma * squares)
            relative = spread + CENTERS + n / CENTERS + 64.0
            grown = (kernels * relative)[:, None] * self.weight
        grown[self._far(squares)] = 0.0
        rounding = UNIT * (grown + 4.0 * (np.abs(expansion.intercept) + np.abs(scores)))
        return SAFETY * rounding + self.absolute

    def _run_polynomial(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        expansion = self.expansion
        n, d = self.centers.shape
        with np.errstate(over="ignore", invalid="ignore"):
            products = expansion.gamma * (rows @ self.centers.T) + expansion.coef0
            scores = np.square(products) @ expansion.coefficients + expansion.intercept
            norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
            reach = abs(expansion.coef0) + expansion.gamma * np.outer(
                norms, np.sqrt(np.einsum("ij,ij->i", self.centers, self.centers))
            )
            size = np.square(reach) @ np.abs(expansion.coefficients)
            relative = UNIT * (n + 2 * d + 24)  # 8 of it for rows that came through a map
            bounds = SAFETY * (relative * size + 4.0 * UNIT * (np.abs(scores) + np.abs(scores)))
        return scores, bounds + TINY * (1.0 + self.weight)


def add_kernel_sums(tile: FloatArray, coefficients: FloatArray, out: FloatArray) -> None:
    """out += exp(min(tile, 0)) @ coefficients; the fused kernel does it where there is one."""
    if jit_available():
        from kernelite.engines.jit_exact import add_kernel_sums as fused

        fused(tile, coefficients, out)
    else:
        np.minimum(tile, 0.0, out=tile)
        out += np.exp(tile, out=tile) @ coefficients
