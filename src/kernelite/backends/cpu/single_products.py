"""Sigmoid kernels and cubic polynomials in single precision: half the time, a wider bound.

With y_i = 2 log2(e) (gamma x_i.z + coef0), a sigmoid is tanh = 1 - 2 / (1 + 2^y), so that

    sum_i a_i k_i = sum_i a_i - 2 sum_{a_i > 0} |a_i| / (1 + 2^y_i) + 2 sum_{a_i < 0} |a_i| / (...)

in panels (`panels`), with v = 2^-24. y = x.w + r is a product of length L, to which r is added:

    |error of y| <= v (|x|' |w|' + 4 |x| |w| + 4 |r|)

counts rounding x, w and r, and the last sum. 1 / (1 + 2^y) has slope ln(2) / 4 at most; the power's
6 v move it by 1.5 v; 1 + 2^y, the quotient and |a| are rounded, 3 v of the value. A block's values
have one sign, so that summing them errs by (panels + 12) v of what is found.
"""

from __future__ import annotations

import math
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.cpu.exact_packed import PackedExact
from kernelite.backends.cpu.fused_sums import (
    EXP2_ERROR,
    LEAST_ROWS,
    LEAST_WORK,
    MOST_LOG,
    MOST_NUMBERS,
)
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.panels import BLOCK_PANELS, LOG2_E, Layout, Panels
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.kernels import PolynomialKernel, SigmoidKernel
from kernelite.series.packed import packed_places
from kernelite.series.rounding import SAFETY, SINGLE_UNIT, UNIT
from kernelite.support.records import dataclass

__all__ = ["SinglePacked", "SingleProducts"]

SINGLE_NORMS = 1e-15, 1e15  # between these, nothing overflows or is lost in single precision
LARGEST_PACKED_NORM = 1e9  # of a row that meets a packed polynomial: cubes are no overflow


@dataclass(frozen=True, eq=False)
class SingleProducts:
    """One output's sigmoid expansion in panels of single precision.

    Parameters
    ----------
    exact : DenseExact
    panels : Panels
        2 log2(e) gamma x_i, with |a_i| instead of exponents.
    signs : ndarray of shape (B,)
    terms : ndarray of shape (B, 4)
        What y errs by: times the chain of a row's entries, once, times |z|; then sum |a_i|.
    constants : ndarray of shape (8,)
        In the order of the kernel.
    """

    exact: DenseExact
    panels: Panels
    signs: FloatArray
    terms: FloatArray
    constants: FloatArray

    @classmethod
    def prepare(cls, exact: DenseExact) -> SingleProducts | None:
        """None for other kernels and several outputs, and where single precision has no room."""
        kernel, expansion = exact.kernel, exact.expansion
        if not isinstance(kernel, SigmoidKernel) or expansion.n_outputs > 1:
            return None
        if not jit_available() or not expansion.coefficients.any():
            return None
        a = expansion.coefficients[:, 0]
        sizes, shift = np.abs(a), 2.0 * LOG2_E * kernel.coef0
        served = 2.0**-MOST_LOG <= sizes[sizes > 0.0].min() <= sizes.max() <= 2.0**MOST_LOG
        reach = 2.0 * LOG2_E * kernel.gamma * exact.rounding.radius
        ranges = SINGLE_NORMS[0] < kernel.gamma and reach < SINGLE_NORMS[1] > abs(shift)
        if not (served and ranges) or exact.centers.size > MOST_NUMBERS:
            return None
        from kernelite.backends.cpu.kernels.exp2 import SINGLE

        layout = Layout.about_origin(exact.centers, kernel.gamma)
        panels, blocks, signs = Panels.by_sign(layout, SINGLE, a, folded=False)
        terms = np.empty((len(blocks), 4))
        for number, block in enumerate(blocks):
            x = 2.0 * layout.g * np.array([layout.chains[block].max(), layout.reach(block)])
            own = UNIT * (expansion.n_features + 8) * x[1]
            terms[number] = (
                SINGLE_UNIT * x[0],
                4.0 * SINGLE_UNIT * abs(shift) + 1e-15,  # and what is too small to be held
                4.0 * SINGLE_UNIT * x[1] + own,
                float(sizes[block].sum()),
            )
        lost = 2.0 * 2.0**SINGLE.smallest * (len(a) + float(sizes.sum()))
        constants = (
            *(float(a.sum()), shift, float(expansion.intercept[0])),
            len(a) * UNIT * float(sizes.sum()) + lost,
            SAFETY * (BLOCK_PANELS + 12.0 + 3.0) * SINGLE_UNIT,
            *(SAFETY * math.log(2.0) / 4.0, SAFETY * EXP2_ERROR / 4.0 * SINGLE_UNIT),
            SINGLE_NORMS[1] ** 2,
        )
        return cls(exact, panels, signs, terms * (1.0 + 1e-3), np.array(constants))

    @property
    def most_error(self) -> float:
        """Not known in advance."""
        return math.inf

    def run(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores and bounds, each of shape (m, 1)."""
        m = len(rows)
        scores, bounds, squares = np.empty((m, 1)), np.empty((m, 1)), np.empty(m)
        given = np.ascontiguousarray(rows), *self._fixed, scores, bounds, squares
        share_rows(self._kernel, m, self._least_rows, *given)
        # What doubles err by, and whatever moved rows and centers before.
        bounds += self.exact.rounding.bounded(scores, squares)
        return scores, bounds

    @cached_property
    def _kernel(self) -> Any:
        from kernelite.backends.cpu.kernels.panel_sums import sigmoid_scores

        return sigmoid_scores

    @cached_property
    def _least_rows(self) -> int:
        """Rows that are worth a thread."""
        return max(LEAST_ROWS, int(LEAST_WORK / max(self.panels.layout.shifted.size, 1)))

    @cached_property
    def _fixed(self) -> tuple[Any, ...]:
        """What the kernel takes between rows and answers."""
        panels = self.panels
        centers = panels.layout.order, panels.lines, panels.exponents, panels.starts
        return *centers, self.signs, self.terms, self.constants


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

    @property
    def most_error(self) -> float:
        """Not known in advance."""
        return math.inf

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
