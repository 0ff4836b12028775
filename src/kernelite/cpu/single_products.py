"""Sigmoid kernels in single precision: half the time, and a bound that is wider.

    a = gamma x.z + coef0,    |computed a - a| <= v ((d + 8) gamma |x| |z| + 4 |coef0|),   v = 2^-24

which counts rounding x, z, gamma and coef0 to single precision, and the sum of their products. tanh
has slope 1 and errs by less than 32 v; sums over centers are doubles. For labels, which hardly
ever need more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.cpu.exact_pointwise import PointwiseExact
from kernelite.cpu.exact_rounding import CENTERS
from kernelite.cpu.fused_sums import SINGLE_UNIT
from kernelite.cpu.kernels.compiling import jit_available, ready
from kernelite.cpu.threads import for_each_chunk, one_thread_each, thread_count
from kernelite.machine.kernels import SigmoidKernel
from kernelite.rows.inputs import FloatArray, row_blocks
from kernelite.series.rounding import SAFETY

__all__ = ["SingleProducts"]

ROWS = 128  # of a tile
LARGEST = 1e15  # of norms: squares and products are no overflow in single precision,
SMALLEST = 1e-15  # and what underflows is less than that of the largest


@dataclass(frozen=True, eq=False)
class SingleProducts:
    """A sigmoid expansion laid out in single precision.

    Parameters
    ----------
    exact : PointwiseExact
    centers : float32 array of shape (d, n)
    """

    exact: PointwiseExact
    centers: NDArray[np.float32] = field(repr=False)

    @classmethod
    def prepare(cls, exact: PointwiseExact) -> SingleProducts | None:
        """None for other kernels, and where single precision has no room."""
        radius = exact.rounding.radius
        if not isinstance(exact.kernel, SigmoidKernel) or not jit_available():
            return None
        if not SMALLEST < radius < LARGEST or not SMALLEST < exact.kernel.gamma < LARGEST:
            return None
        if not abs(exact.kernel.coef0) < LARGEST:
            return None
        return cls(exact, np.ascontiguousarray(exact.centers.T.astype(np.float32)))

    @property
    def ready(self) -> bool:
        """Whether its kernel is compiled; if not, that is begun."""
        from kernelite.cpu.kernels.pointwise import sigmoid_of_single

        return ready(sigmoid_of_single)

    def run(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores and bounds, each of shape (m, k)."""
        exact, m = self.exact, len(rows)
        scores = np.zeros((m, exact.expansion.n_outputs))

        def part(block: slice) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                self._add(rows[block], scores[block])

        chunk = max(1, min(ROWS, -(-m // thread_count())))
        with one_thread_each(m, chunk):
            for_each_chunk(part, m, chunk)
        scores += exact.expansion.intercept
        squares = exact.squares(rows)
        return scores, exact.rounding.bounds(squares) + self._more(squares)

    def _add(self, rows: FloatArray, sums: FloatArray) -> None:
        from kernelite.cpu.kernels.pointwise import sigmoid_of_single

        kernel: Any = self.exact.kernel
        gamma, coef0 = np.float32(kernel.gamma), np.float32(kernel.coef0)
        coefficients, own = self.exact.expansion.coefficients, rows.astype(np.float32)
        for block in row_blocks(self.centers.shape[1], CENTERS):
            products = own @ self.centers[:, block]
            values = np.empty(products.shape)
            sigmoid_of_single(products.reshape(-1), gamma, coef0, values.reshape(-1))
            sums += values @ coefficients[block]

    def _more(self, squares: FloatArray) -> FloatArray:
        """What single precision adds to a bound, shape (m, k); infinite beyond its range."""
        rounding, kernel = self.exact.rounding, self.exact.kernel
        assert isinstance(kernel, SigmoidKernel)
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.sqrt(squares) * (1.0 + 1e-9) + 1e-15  # less may underflow
            share = kernel.gamma * (rounding.n_features + 8.0) * rounding.radius
            fixed = 4.0 * abs(kernel.coef0) + 32.0
            more = SAFETY * SINGLE_UNIT * (share * norms + fixed)
            found = np.multiply.outer(np.minimum(more, 2.0), rounding.weight)
        found[~(norms < LARGEST)] = np.inf
        return found
