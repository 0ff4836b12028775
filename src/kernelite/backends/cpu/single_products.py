"""Sigmoid kernels and cubic polynomials in single precision: half the time, a wider bound.

Of a sigmoid,

    a = gamma x.z + coef0,    |computed a - a| <= v ((d + 8) gamma |x| |z| + 4 |coef0|),   v = 2^-24

which counts rounding x, z, gamma and coef0 to single precision, and the sum of their products. tanh
has slope 1 and errs by less than 32 v; sums over centers are doubles. For labels, which hardly
ever need more.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.exact_packed import PackedExact
from kernelite.backends.cpu.exact_pointwise import PointwiseExact
from kernelite.backends.cpu.exact_rounding import CENTERS
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.threads import for_each_chunk, share_rows, thread_count
from kernelite.data.rows.inputs import FloatArray, row_blocks
from kernelite.machine.kernels import PolynomialKernel, SigmoidKernel
from kernelite.series.packed import packed_places
from kernelite.series.rounding import SAFETY, SINGLE_UNIT
from kernelite.support.records import dataclass

__all__ = ["SinglePacked", "SingleProducts"]

ROWS_PER_SINGLE_TILE = 128
SINGLE_NORMS = 1e-15, 1e15  # between these, nothing overflows or is lost in single precision
LARGEST_PACKED_NORM = 1e9  # of a row that meets a packed polynomial: cubes are no overflow


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
        if not all(SINGLE_NORMS[0] < one < SINGLE_NORMS[1] for one in (radius, exact.kernel.gamma)):
            return None
        if not abs(exact.kernel.coef0) < SINGLE_NORMS[1]:
            return None
        return cls(exact, np.ascontiguousarray(exact.centers.T.astype(np.float32)))

    def run(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores and bounds, each of shape (m, k)."""
        exact, m = self.exact, len(rows)
        scores = np.zeros((m, exact.expansion.n_outputs))

        def part(block: slice) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                self._add(rows[block], scores[block])

        chunk = max(1, min(ROWS_PER_SINGLE_TILE, -(-m // thread_count())))
        for_each_chunk(part, m, chunk, blas=True)
        scores += exact.expansion.intercept
        squares = exact.squares(rows)
        return scores, exact.rounding.bounds(squares) + self._more(squares)

    def _add(self, rows: FloatArray, sums: FloatArray) -> None:
        from kernelite.backends.cpu.kernels.pointwise import sigmoid_of_single

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
        found[~(norms < SINGLE_NORMS[1])] = np.inf
        return found


@dataclass(frozen=True, eq=False)
class SinglePacked:
    """One output's packed cubic polynomial in single precision, with a bound that is wider.

    With v = 2^-24, every term t_abc w_a w_b w_c passes through at most 64 + r (r + 1) / 128 + 8
    roundings: of z, t and products, and of sums 64 at a time. Cauchy's inequality bounds the sum
    of their sizes,

        sum |t_abc w_a w_b w_c| <= |T|_F |w|^3,    w = (z, s),    for any s > 0

    if the last axis of T is divided by s. Near |w_l| = |z| it is tight; s^2 = |coef0| / gamma
    makes centers and rows alike.

    Parameters
    ----------
    exact : PackedExact
    weights : float32 array of shape (lines, 4)
        As `JitCubic` has them, over `scale`.
    scale : float
        A power of two, so that no weight is above 1.
    size : float
        |T|_F, rounded up.
    last : float
        s.
    """

    exact: PackedExact
    weights: NDArray[np.float32] = field(repr=False)
    scale: float
    size: float
    last: float

    @classmethod
    def prepare(cls, exact: PackedExact) -> SinglePacked | None:
        """None for several outputs, other degrees, and where single precision has no room."""
        kernel = exact.expansion.kernel
        assert isinstance(kernel, PolynomialKernel)
        largest = float(np.abs(exact.tensor).max(initial=0.0))
        if exact.degree != 3 or len(exact.tensor) != 1 or exact.fused is None:
            return None
        last = math.sqrt(max(abs(kernel.coef0) / kernel.gamma, 1e-6))
        if not 1e-200 < largest < 1e200 or not last < LARGEST_PACKED_NORM:
            return None
        scale = 2.0 ** math.frexp(largest)[1]
        a, b, c = packed_places(exact.expansion.n_features + 1)
        times = np.where(a == b, np.where(b == c, 1.0, 3.0), np.where(b == c, 3.0, 6.0))
        of_last = sum((axis == exact.expansion.n_features).astype(float) for axis in (a, b, c))
        squares = np.square(exact.tensor[0] / scale / last**of_last) / times
        size = scale * math.sqrt(float(squares.sum())) * (1.0 + 1e-9)
        weights = (exact.fused.cubic.weights / scale).astype(np.float32)
        return cls(exact, weights, scale, size, last)

    def run(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores and bounds, each of shape (m, 1)."""
        from kernelite.backends.cpu.kernels.cubic import PARTIAL
        from kernelite.backends.cpu.kernels.packed import single_packed

        rows = np.ascontiguousarray(rows)
        m, r = len(rows), self.exact.expansion.n_features + 1
        scores, zeros = np.empty((m, 1)), np.zeros(r - 1)
        flat = scores.reshape(-1)

        assert self.exact.fused is not None
        least = self.exact.fused.cubic.least_rows
        share_rows(single_packed, m, least, rows, zeros, self.weights, flat)
        scores *= self.scale
        scores += self.exact.expansion.intercept
        squares = self.exact.squares(rows)
        count = PARTIAL + r * (r + 1) / (2.0 * PARTIAL) + 8.0
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.sqrt(squares + self.last**2)
            more = SAFETY * count * SINGLE_UNIT * self.size * norms**3
            # What is too small for single precision is lost: of every term, less than 1e-40.
            more += 1e-35 * self.scale * np.sqrt(squares + 1.0) ** 3
        more[~(squares < LARGEST_PACKED_NORM**2)] = np.inf
        return scores, self.exact.rounding.bounds(squares) + more[:, None]
