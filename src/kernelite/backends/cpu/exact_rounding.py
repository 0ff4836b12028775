"""Bounds on how far the exact engine's sums are from f.

In: |u|^2 of each row. Out: bounds of shape (m, k). With R = max |x_i - p|, u = z - p, and p = 0
where rows are not shifted:

    |computed f - f| <= u ((3 L + 24) gamma (R^2 + |u|^2) + lengths) sum_i |A_i| K_i + 2u(|b| + |f|)

where sum_i |A_i| K_i <= |A|_1 exp(-gamma max(0, |u| - R)^2). The exponent 2 gamma s.u - gamma |u|^2
- gamma |s|^2 is a product of length L + 2 with terms that err by (L + 3) u each and add up to at
most 2 gamma (|s|^2 + |u|^2) in absolute value; L = d, or the most entries of the row and of any
center where only entries are multiplied. It loses digits when gamma R^2 is large; such
models are evaluated by differences x_i - z, not shifted: there the exponent gamma D errs by
(d + 7) u relatively, and x exp(-x) <= 1.

Of any other kernel, E and K, the error and the size of a value, are the kernel's own word for rows
of a given norm (`machine.kernels`):

    |computed f - f| <= sum_i |A_i| (E + lengths u K) + 2u(|b| + |f|)
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FLOAT64, FloatArray
from kernelite.machine.affine import AFFINE_UNITS
from kernelite.machine.expansion import KernelExpansion, squared_norms
from kernelite.machine.kernels import Kernel, PolynomialKernel, Reach
from kernelite.machine.ops import ops
from kernelite.program.bounded import Factored
from kernelite.series.rounding import (
    GAMMA_RANGE,
    LOST_TERMS,
    SAFETY,
    SUMS_OVERFLOW,
    UNIT,
    VALUES_OVERFLOW,
    folding,
    intercept_error,
    polynomial_error,
    polynomial_units,
)
from kernelite.support.records import dataclass

__all__ = ["CENTERS", "LOST", "SURELY", "UNDERFLOWS", "ExactRounding", "PointwiseRounding"]

CENTERS = 512  # that one product sums up; sums of products follow
CANCELLATION = 1e-9  # relative error of a kernel value from which differences are taken
UNDERFLOWS = 800.0  # gamma |x - z|^2 from which a kernel value is zero
SURELY = 1e-9  # more than any norm errs by, relatively,
LOST = 1e-150  # and absolutely, by squares that underflow
SPELLED_ROWS = 64  # up to which every output's bound is told: calls take longer than numbers
SLOPE = 5  # where `ExactRounding.numbers` has what grows with the length of products
ONE, NOTHING = np.ones(1), np.zeros(1)

Length: TypeAlias = "int | FloatArray"


@dataclass(frozen=True, eq=False)
class ExactRounding:
    """What bounds need to know of an expansion and of how its sums are taken.

    Parameters
    ----------
    expansion : KernelExpansion
    reach : float
        max |x_i|.
    largest : float
        gamma R^2.
    length : int
        L, as far as the centers go.
    mapped : bool
        Whether rows come through an affine map, whose rounding then counts.

    Examples
    --------
    >>> from kernelite.program.bounded import spelled_out
    >>> model = KernelExpansion([[0.0], [3.0]], [1.0, 1.0], 0.0, gamma=1.0)
    >>> rounding = ExactRounding(model, 3.0, 9.0, 1, False)
    >>> rounding.by_differences, bool(spelled_out(rounding.bounds(np.array([4.0]), 1)) < 1e-12)
    (False, True)
    """

    expansion: KernelExpansion
    reach: float
    largest: float
    length: int
    mapped: bool

    def bounds(self, squares: FloatArray, length: Length) -> FloatArray | Factored:
        """From |u|^2 and L of the rows: shape (m, k), one number per row where that is enough.

        |f| <= |b| + sum_i |A_i| K_i, so that they need no scores.
        """
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if not self.polynomial:
                # With many outputs, bounds spelled out would cost as much as scores.
                relative = self.relative(squares, length)
                return Factored(relative, SAFETY * UNIT * self.weight, self.constant)
            xp, power = ops(squares), self._power(squares)[:, None]
            # 2 (d + 2): the products, squared.
            units = self._lengths + 2 * self.expansion.n_features + 8
            units += polynomial_units(self.expansion, mapped=self.mapped)
            bounds = self._size(squares) * (SAFETY * UNIT * units) + self.constant
            error = polynomial_error(self.expansion)
            if error.any():
                bounds = bounds + power * (SAFETY * error)
            # Where it overflowed, or a kernel value did before a small coefficient met it.
            return xp.where((power < VALUES_OVERFLOW) & ~xp.isnan(bounds), bounds, np.inf)

    def bounded(
        self, scores: FloatArray, squares: FloatArray, length: Length
    ) -> FloatArray | Factored:
        """As `bounds`, and rows far from all centers get the intercept for their scores.

        They take one pass of a kernel; of many rows and outputs, one number per row is told.
        """
        if self._numbers is not None and isinstance(length, int) and scores.flags.c_contiguous:
            from kernelite.backends.cpu.kernels.judging import ROWS_PER_THREAD, bound_rows

            m, numbers, (factors, constant, intercept) = len(squares), self._numbers, self._outputs
            spelled = len(factors) == 1 or m <= SPELLED_ROWS
            bounds = np.empty((m, len(factors) if spelled else 1))
            if length != self.length:
                numbers = numbers.copy()
                numbers[SLOPE] = 3.0 * length + 24.0
            share_rows(
                *(bound_rows, m, ROWS_PER_THREAD, squares, numbers),
                *((factors, constant) if spelled else (ONE, NOTHING)),
                *(intercept, scores, bounds),
            )
            return bounds if spelled else Factored(bounds[:, 0], factors, constant)
        far = self.far(squares)
        if far.any():
            scores[far] = self.expansion.intercept
        return self.bounds(squares, length)

    @cached_property
    def _numbers(self) -> FloatArray | None:
        """What the kernel takes of a row's |u|^2; None: it cannot serve."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            known = bool(np.isfinite(self.constant).all())
        if not known or self.polynomial or self.by_differences or not jit_available():
            return None
        return self.numbers()

    @cached_property
    def _outputs(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What it takes of each output: the factor of the row's number, constant, intercept."""
        each = SAFETY * UNIT * self.weight, self.constant, self.expansion.intercept
        factors, constant, intercept = (one.view(FLOAT64) for one in each)
        return factors, constant, intercept

    def numbers(self) -> FloatArray:
        """What kernels make the bound of the first output of, by products: shape (10,)."""
        gamma, surely = self.expansion.gamma, 1.0 + SURELY
        reach = (1.0 - SURELY, math.sqrt(self.largest / gamma) * surely, math.sqrt(gamma))
        sums = (self._lengths, 3.0 * self.length + 24.0, self.largest, gamma)
        fixed = (SAFETY * UNIT * float(self.weight[0]), float(self.constant[0]))
        return np.array([*reach, UNDERFLOWS, *sums, *fixed])

    def far(self, squares: FloatArray) -> NDArray[np.bool_]:
        """Rows so far from all centers that f is b, and products may have overflowed."""
        if self.polynomial or self.by_differences:
            return np.zeros(len(squares), dtype=np.bool_)
        return ~(self._nearest(squares) < UNDERFLOWS)

    @property
    def polynomial(self) -> bool:
        """Whether the kernel is (gamma x.z + coef0)^2."""
        return self.expansion.kernel.quadratic

    @cached_property
    def by_differences(self) -> bool:
        """Whether exponents by products would lose digits."""
        return not (self._sound and self.in_range)

    @property
    def in_range(self) -> bool:
        """Whether exponents by products neither over- nor underflow."""
        ordinary = GAMMA_RANGE[0] <= self.expansion.gamma <= GAMMA_RANGE[1]
        return ordinary and math.isfinite(self.largest)

    @property
    def _sound(self) -> bool:
        # Not if it overflowed.
        return (self.length + 8) * 6.0 * self.largest * UNIT <= CANCELLATION

    @cached_property
    def weight(self) -> FloatArray:
        """sum_i |A_i|, shape (k,)."""
        return np.abs(self.expansion.coefficients).sum(axis=0)

    @cached_property
    def constant(self) -> FloatArray:
        """What every bound adds: for the intercept, underflow and mapped rows, shape (k,)."""
        fixed = intercept_error(self.expansion.intercept) + LOST_TERMS * (1.0 + self.weight)
        return fixed + folding(self.expansion, self.weight, self.reach, mapped=self.mapped)

    @property
    def _lengths(self) -> float:
        """Of the sums over centers, with what exponentials and products err by.

        Where centers stand class by class, a product may end at a tile's end and at a class's.
        """
        n = self.expansion.n_centers
        return min(n, CENTERS) + 2.0 * n / CENTERS + 64.0 + 8.0 + self._folded

    @cached_property
    def _folded(self) -> float:
        """What log2 |A_i| inside an exponent adds (`fused_sums`).

        Three sums that it is part of are rounded, and it is itself, by an ulp at most: six times
        its size, on average over sum_i |A_i|.
        """
        sizes = np.abs(self.expansion.coefficients)
        if self.polynomial or self.expansion.n_outputs > 1 or not sizes.any():
            return 0.0
        sizes = sizes[sizes > 0.0]
        logs = np.log(sizes)
        sizes /= sizes.max()
        return 6.0 * float(np.abs(logs, out=logs) @ sizes) / float(sizes.sum())

    def relative(self, squares: FloatArray, length: Length) -> FloatArray:
        """What sum_i |A_i| is multiplied with in the bound, in units of rounding: shape (m,)."""
        if self.by_differences:
            return ops(squares).full_like(squares, self._lengths + self.length + 8)
        xp, nearest = ops(squares), self._nearest(squares)
        spread = (squares * self.expansion.gamma + self.largest) * (3.0 * length + 24.0)
        relative = xp.exp(-nearest) * (spread + self._lengths)
        return xp.where(nearest < UNDERFLOWS, relative, 0.0)

    def _nearest(self, squares: FloatArray) -> FloatArray:
        """gamma max(0, |u| - R)^2, not above the real value: shape (m,)."""
        gamma = self.expansion.gamma
        radius = math.sqrt(self.largest / gamma) if self._sound else math.inf
        xp = ops(squares)
        with np.errstate(over="ignore"):
            gap = xp.sqrt(squares) * (1.0 - SURELY) - radius * (1.0 + SURELY)
            gap = xp.maximum(gap, 0.0) * math.sqrt(gamma)
            return gap * gap * (1.0 - SURELY)

    def _size(self, squares: FloatArray) -> FloatArray:
        """sum_i |A_i| (|coef0| + gamma |x_i| |z|)^2 and a floor for underflow: shape (m, k)."""
        with np.errstate(over="ignore", invalid="ignore"):
            xp = ops(squares)
            lengths = xp.sqrt(squares) + LOST
            return xp.stack([lengths**m for m in range(3)], axis=1) @ self._moments

    def _power(self, squares: FloatArray) -> FloatArray:
        """(|coef0| + gamma max |x_i| |z|)^2, no kernel value is larger: shape (m,)."""
        reach = self.expansion.gamma * (self.reach + LOST)
        size = (ops(squares).sqrt(squares) + LOST) * reach + abs(self.expansion.coef0)
        return size * size

    @cached_property
    def _moments(self) -> FloatArray:
        """Coefficients of `_size` in |z|, shape (3, k)."""
        with np.errstate(over="ignore"):
            reach = self.expansion.gamma * (np.sqrt(squared_norms(self.expansion.centers)) + LOST)
            start = np.full_like(reach, abs(self.expansion.coef0))
            powers = np.stack([start * start, 2.0 * start * reach, reach * reach])
            sums = powers @ np.abs(self.expansion.coefficients)
            return np.asarray(sums + LOST_TERMS / UNIT * (1.0 + self.weight))


# Of any kernel, by its own word.

STEPS_PER_OCTAVE = 64  # a single row's bound is that of a row whose square is 1/32 larger at most
LOST_NORM = 1e-140  # more than a norm whose square underflows


@dataclass(frozen=True, eq=False)
class PointwiseRounding:
    """What bounds need to know of sums of kernel values.

    Parameters
    ----------
    kernel : Kernel
    weight : ndarray of shape (k,)
        sum_i |A_i|.
    lost : ndarray of shape (k,)
        What A_i may be off by, added up.
    constant : ndarray of shape (k,)
        What every bound adds.
    radius, offset : float
        Of the centers about p, and |p|, as in `Reach`.
    n_features : int
    lengths : float
        Of the sums over centers, in units of rounding.
    relative, moves, moved : float
        As in `Reach`.
    farthest : float
        Of rows with |z - p| above that nothing is known: products on the way may overflow.
    """

    kernel: Kernel
    weight: FloatArray
    lost: FloatArray
    constant: FloatArray
    radius: float
    offset: float
    n_features: int
    lengths: float
    relative: float = 0.0
    moves: float = 0.0
    moved: float = 0.0
    farthest: float = math.inf

    @classmethod
    def of(
        cls, expansion: KernelExpansion, point: FloatArray, lengths: float, *, mapped: bool
    ) -> PointwiseRounding:
        """Of an expansion whose sums over centers pass through so many roundings."""
        assert isinstance(expansion.kernel, Kernel)
        known = expansion.known
        with np.errstate(over="ignore", invalid="ignore"):
            centers = expansion.dense_centers() - point
            radius = float(np.sqrt(np.einsum("ij,ij->i", centers, centers).max(initial=0.0)))
            weight = np.abs(expansion.coefficients).sum(axis=0) * (1.0 + 1e-9)
        constant = intercept_error(expansion.intercept) + known.intercept
        return cls(
            expansion.kernel,
            weight,
            known.coefficients,
            constant + LOST_TERMS * (1.0 + weight),
            radius * (1.0 + 1e-9) if math.isfinite(radius) else math.inf,
            math.hypot(*point) * (1.0 + 1e-9),
            expansion.n_features,
            lengths,
            known.gamma / UNIT,
            known.centers / UNIT + (AFFINE_UNITS if mapped else 0.0) + known.relative / UNIT,
            known.rows,
        )

    def bounds(self, squares: FloatArray, _length: Any = None) -> FloatArray:
        """Shape (m, k), from |z - p|^2 of the rows, in the operations of `machine.ops`."""
        if self._slopes is not None and isinstance(squares, np.ndarray):
            return self._linear_bounds(squares, self._slopes)
        xp = ops(squares)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            values, sizes = self._per_row(squares)
            bounds = values[:, None] * (SAFETY * self.weight)
            if self.lost.any():
                bounds = bounds + sizes[:, None] * (SAFETY * self.lost)
            bounds = bounds + self.constant
        known = bounds < SUMS_OVERFLOW
        if self.farthest < math.inf:
            known = known & (squares < self.farthest**2)[:, None]
        return xp.where(known, bounds, np.inf)

    @cached_property
    def _slopes(self) -> FloatArray | None:
        """Of a linear kernel, whose bounds grow with |z| alone: what |z| is multiplied with."""
        kernel = self.kernel
        linear = isinstance(kernel, PolynomialKernel) and kernel.degree == 1 and not kernel.coef0
        if not linear or self.moved or self.farthest < math.inf:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            values, sizes = self._per_row(np.ones(1))
            slopes = 1.001 * SAFETY * (values * self.weight + sizes * self.lost)
        return slopes if np.isfinite(slopes).all() else None

    def _linear_bounds(self, squares: FloatArray, slopes: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.sqrt(squares)[:, None]
            norms += LOST_NORM
            known = bool(norms.max(initial=0.0) < math.inf)
            # Of one output in place: room that is new takes longer than the arithmetic.
            room = norms if len(slopes) == 1 and known else None
            bounds = np.multiply(norms, slopes, out=room)
            bounds += self.constant
        if not (known and bounds.max(initial=0.0) < SUMS_OVERFLOW):
            bounds[~(bounds < SUMS_OVERFLOW)] = np.inf
        return bounds

    def _per_row(self, squares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """E + lengths u K and K of each row, shape (m,)."""
        rows = ops(squares).sqrt(squares) * (1.0 + 1e-9)
        reach = Reach(
            *(rows, self.radius, self.offset, self.n_features),
            *(self.relative, self.moves, self.moved),
        )
        sizes = self.kernel.largest(reach)
        return self.kernel.error(reach) + UNIT * self.lengths * sizes, sizes

    def bounded(self, scores: FloatArray, squares: FloatArray, _length: Any = None) -> FloatArray:
        """As `bounds`: no row is answered without being computed.

        A single row gets the bound of one that is a little farther away, which is kept: it would
        take ten times as long as the row's own sums.
        """
        if len(squares) > 1 or not self.kernel.grows:
            return self.bounds(squares)
        part, power = math.frexp(float(squares[0])) if len(squares) else (math.nan, 0)
        if not 0.0 < part < math.inf:  # zero, NaN, none
            return self.bounds(squares)
        step = math.ceil(part * STEPS_PER_OCTAVE), power
        found = self._steps.get(step)
        if found is None:
            farther = math.ldexp(step[0] / STEPS_PER_OCTAVE, power) if power < 1000 else math.inf
            found = self._steps[step] = self.bounds(np.array([farther]))
        return found.copy()

    @cached_property
    def _steps(self) -> dict[tuple[int, int], FloatArray]:
        """Bounds that `bounded` has found, by the square of a distance: parts of a power of two."""
        return {}
