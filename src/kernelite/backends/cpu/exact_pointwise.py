"""Exact sums for any kernel in double precision, with proven bounds.

    f(z) = sum_i A_i k(x_i, z) + b,    |computed f - f| <= sum_i |A_i| (E + lengths u K) + ...

E and K, the error and the size of a kernel value, are the kernel's own word for rows of a given
norm (`machine.kernels`). Values come in tiles of rows and centers: from `Kernel.values`, or from
loops in which statistic, function and sum stay in registers (`fused_pointwise`). A linear kernel
needs no centers at all, and polynomials of low degree few numbers: see `exact_packed`.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from kernelite.backends.cpu.exact_rounding import CENTERS
from kernelite.backends.cpu.fused_pointwise import FusedPointwise
from kernelite.backends.cpu.panels import middle
from kernelite.backends.cpu.threads import for_each_chunk, thread_count
from kernelite.data.rows.inputs import FloatArray, row_blocks
from kernelite.machine.affine import AFFINE_UNITS
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import Kernel, PolynomialKernel, Reach
from kernelite.series.rounding import SAFETY, SUMS_OVERFLOW, TINY, UNIT, intercept_error
from kernelite.support.records import dataclass

__all__ = ["PointwiseExact", "PointwiseRounding"]

ROWS_PER_CHUNK = 256  # with CENTERS a tile of kernel values
LITTLE_VALUES = 1 << 19  # kernel values of a call that one thread computes at once
LOST_NORM = 1e-140  # more than a norm whose square underflows
STEPS_PER_OCTAVE = 64  # a single row's bound is that of a row whose square is 1/32 larger at most


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
            constant + TINY * (1.0 + weight),
            radius * (1.0 + 1e-9) if math.isfinite(radius) else math.inf,
            math.hypot(*point) * (1.0 + 1e-9),
            expansion.n_features,
            lengths,
            known.gamma / UNIT,
            known.centers / UNIT + (AFFINE_UNITS if mapped else 0.0) + known.relative / UNIT,
            known.rows,
        )

    def bounds(self, squares: FloatArray, _length: Any = None) -> FloatArray:
        """Shape (m, k), from |z - p|^2 of the rows."""
        if self._slopes is not None:
            return self._linear_bounds(squares, self._slopes)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            values, sizes = self._per_row(squares)
            bounds = np.multiply.outer(values, SAFETY * self.weight)
            if self.lost.any():
                bounds += np.multiply.outer(sizes, SAFETY * self.lost)
            bounds += self.constant
        bounds[~(bounds < SUMS_OVERFLOW)] = np.inf
        if self.farthest < math.inf:
            bounds[~(squares < self.farthest**2)] = np.inf
        return bounds

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
        rows = np.sqrt(squares) * (1.0 + 1e-9)
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


@dataclass(frozen=True, eq=False)
class PointwiseExact:
    """An expansion with any kernel, laid out for dense rows.

    Examples
    --------
    >>> from kernelite.machine.kernels import Laplacian
    >>> model = KernelExpansion([[0.0]], [2.0], 0.5, kernel=Laplacian(1.0))
    >>> PointwiseExact.prepare(model).scores(np.array([[0.0], [1e200]]))[0]
    array([[2.5],
           [0.5]])
    """

    expansion: KernelExpansion
    rounding: PointwiseRounding
    point: FloatArray
    centers: FloatArray

    @classmethod
    def prepare(cls, expansion: KernelExpansion, *, mapped: bool = False) -> PointwiseExact:
        """Take what bounds need; the centers stay where they are."""
        assert isinstance(expansion.kernel, Kernel)
        centers = np.ascontiguousarray(expansion.dense_centers())
        n, d = centers.shape
        point = middle(centers) if expansion.kernel.shifts else np.zeros(d)
        lengths = min(n, CENTERS) + 2.0 * n / CENTERS + 72.0
        rounding = PointwiseRounding.of(expansion, point, lengths, mapped=mapped)
        return cls(expansion, rounding, point, centers)

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self.rounding.kernel

    @property
    def fast_alone(self) -> bool:
        """Whether one row is summed in registers."""
        return self.fused is not None

    @cached_property
    def fused(self) -> FusedPointwise | None:
        """Sums in registers, where there is a loop for the kernel."""
        return FusedPointwise.prepare(self.kernel, self.centers, self.expansion.coefficients)

    def scores(
        self, rows: FloatArray, out: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Scores of shape (m, k), and |z - p|^2 of shape (m,)."""
        m, n = len(rows), self.expansion.n_centers
        scores = np.empty((m, self.expansion.n_outputs)) if out is None else out
        fused = self.fused
        if m == 1 and fused is not None and fused.in_registers:
            scores[...] = 0.0
            fused.add(rows, scores)
            scores += self.expansion.intercept
            return scores, self.squares(rows)

        def part(block: slice) -> None:
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                sums = np.zeros((block.stop - block.start, self.expansion.n_outputs))
                if fused is not None:
                    fused.add(rows[block], sums)
                else:
                    self._add_tiles(rows[block], sums)
                np.add(sums, self.expansion.intercept, out=scores[block])

        chunk = max(1, m if m * n < LITTLE_VALUES else min(ROWS_PER_CHUNK, -(-m // thread_count())))
        for_each_chunk(part, m, chunk, blas=True)
        return scores, self.squares(rows)

    def _add_tiles(self, rows: FloatArray, sums: FloatArray) -> None:
        """sums += sum_i A_i k(x_i, z), centers in tiles: shape (m, k)."""
        for tile in row_blocks(self.expansion.n_centers, CENTERS):
            values = self.kernel.values(rows, self.centers[tile])
            sums += values @ self.expansion.coefficients[tile]

    def length(self, rows: FloatArray) -> int:
        """Not needed: the bounds know the number of features."""
        return self.expansion.n_features

    def squares(self, rows: FloatArray) -> FloatArray:
        """|z - p|^2 alone."""
        with np.errstate(over="ignore"):
            U = rows - self.point if self._shifts else rows
            return np.asarray(np.einsum("ij,ij->i", U, U))

    @cached_property
    def _shifts(self) -> bool:
        return bool(self.point.any())
