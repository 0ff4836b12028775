"""Exact sums with products in single precision: twice as fast, for labels that this proves.

Only s.u is rounded to 24 bits; norms, exponentials and sums stay in doubles. With v = 2^-24, L
features that vary, R = max |s_i| and S = sum_i |A_i| K_i, which is summed up as well:

    |computed f - f| <= 1.05 v (L + 4) 2 gamma R |u| S + what double precision errs by

since both factors of each product are rounded, and a sum of L terms errs by L v times the sum of
their absolute values, at most |s| |u|. Above 1%, or where an entry of u might overflow, nothing is
known. Entries too small for single precision change an exponent by less than 1e-25.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.approximation.rounding import SAFETY
from kernelite.engines.exact_dense import EXPONENTIAL, DenseExact
from kernelite.engines.exact_rounding import CENTERS
from kernelite.engines.jit_support import jit_available
from kernelite.engines.threads import for_each_chunk, one_thread_each, thread_count
from kernelite.inputs import FloatArray, dense_block, row_blocks

__all__ = ["SingleExact"]

SINGLE_UNIT = 2.0**-24
MOST_ERROR = 0.01  # of an exponent
MOST_SQUARE = 1e76  # of |u|, so that each entry has a place in 32 bits
LOST = 1e-25  # of an exponent, by entries that are too small for single precision
LONGEST = 1 << 16  # features; so that products of roundings stay within SAFETY
GAMMAS, MOST_SPREAD = (1e-6, 1e6), 1e4  # of gamma and gamma R^2: 2 gamma s has a place in 32 bits
LEAST_WORK, MOST_WORK = 1 << 14, 1 << 28  # products a row; numbers that take a gigabyte
WORTH = 0.8  # of the time of double precision
TRIED, MOST_OPEN = 256, 0.2  # centers, and the share of them that may stay open


@dataclass(frozen=True, eq=False)
class SingleExact:
    """An expansion laid out for dense rows whose labels are all that is asked for.

    Parameters
    ----------
    dense : DenseExact
    factors : ndarray of float32, shape (n, L)
        2 gamma s.
    exponents : ndarray of shape (n,)
        gamma |s|^2.
    coefficients : ndarray of shape (n, 2 k)
        A and |A|.
    """

    dense: DenseExact
    factors: NDArray[np.float32]
    exponents: FloatArray
    coefficients: FloatArray

    @classmethod
    def prepare(cls, dense: DenseExact) -> SingleExact | None:
        """Round the factors; None where it would be unsafe, no faster, or prove too little."""
        expansion, rounding = dense.expansion, dense.rounding
        if rounding.polynomial or rounding.by_differences or not jit_available():
            return None
        n, width = dense.factors.shape[0], dense.factors.shape[1] - 2
        k, safe = expansion.n_outputs, GAMMAS[0] <= expansion.gamma <= GAMMAS[1]
        if not safe or rounding.largest > MOST_SPREAD or width > LONGEST:
            return None
        if not LEAST_WORK <= n * width <= MOST_WORK:
            return None
        if width / 2 + 2 * k + EXPONENTIAL > WORTH * (width + k + EXPONENTIAL):
            return None
        made = cls(
            dense,
            dense.factors[:, :width].astype(np.float32),
            -dense.factors[:, width],
            np.column_stack([expansion.coefficients, np.abs(expansion.coefficients)]),
        )
        scores, bounds = made.run(dense_block(expansion.centers, np.arange(0, n, -(-n // TRIED))))
        open_share = float((np.abs(scores) <= bounds).any(axis=1).mean())
        return made if open_share <= MOST_OPEN else None

    def run(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores and bounds, each of shape (m, k)."""
        m, k = len(rows), self.dense.expansion.n_outputs
        sums, squares = np.empty((m, 2 * k)), np.empty(m)

        def part(block: slice) -> None:
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                U = rows[block] - self.dense.point
                squares[block] = np.einsum("ij,ij->i", U, U)
                self._sum(U[:, self.dense.varying].astype(np.float32), squares[block], sums[block])

        chunk = max(1, min(self.dense.tall, -(-m // thread_count())))
        with one_thread_each(m, chunk):
            for_each_chunk(part, m, chunk)
        bounds = self._bounds(rows, squares, sums[:, k:])
        # Sums of which nothing is known may be NaN, of which heads would make a label.
        known = np.isfinite(bounds)
        return np.where(known, sums[:, :k], 0.0) + self.dense.expansion.intercept, bounds

    def _sum(self, U: NDArray[np.float32], squares: FloatArray, sums: FloatArray) -> None:
        from kernelite.engines.jit_exact import exp_of_products

        shifts = self.dense.expansion.gamma * squares
        for centers in row_blocks(len(self.factors), CENTERS):
            values = exp_of_products(U @ self.factors[centers].T, self.exponents[centers], shifts)
            if centers.start == 0:
                np.matmul(values, self.coefficients[centers], out=sums)
            else:
                sums += values @ self.coefficients[centers]

    def _bounds(self, rows: FloatArray, squares: FloatArray, sizes: FloatArray) -> FloatArray:
        rounding, gamma = self.dense.rounding, self.dense.expansion.gamma
        length = self.factors.shape[1] + 4
        with np.errstate(over="ignore", invalid="ignore"):
            reach = 2.0 * np.sqrt(gamma * rounding.largest * squares)  # 2 gamma R |u|
            error = SAFETY * SINGLE_UNIT * length * reach + LOST
            bounds: Any = rounding.bounds(squares, self.dense.length(rows))
            bounds += SAFETY * error[:, None] * sizes
        # An infinite entry times a tiny factor is infinite, however small their product would be.
        bounds[~((error <= MOST_ERROR) & (squares <= MOST_SQUARE))] = np.inf
        return np.asarray(bounds)
