"""Exact sums in double precision: of dense rows, and of sparse rows where entries meet.

    f(z) = sum_i A_i k(x_i, z) + b

Dense: prepare once (shift to a point p amid the centers, norms), run on many rows. Of RBF kernels,
features in which all centers agree have s = x_i - p = 0 and are left out of the product: a fifth of
MNIST's. Where there are kernels, panels of centers are summed in registers (`fused_sums`), and
other kernels' values in loops (`fused_pointwise`); else, and for very wide rows, it goes by tiles:
of a matrix product and exponentials, or of `Kernel.values`. Kernels without centers at all are in
`exact_packed`. Sparse: only entries that meet are multiplied (`SparseExact`).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.exact_rounding import CENTERS, ExactRounding, PointwiseRounding
from kernelite.backends.cpu.fused_pointwise import SUMS_PER_EXPONENTIAL, FusedPointwise
from kernelite.backends.cpu.fused_sums import FusedValues, PanelSums, rbf_sums
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.panels import Layout, middle
from kernelite.backends.cpu.threads import for_each_chunk, thread_count
from kernelite.data.rows.inputs import FloatArray, is_sparse, row_blocks
from kernelite.machine.expansion import KernelExpansion, only_columns, squared_norms
from kernelite.machine.kernels import Kernel
from kernelite.support.records import dataclass

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["WIDEST_PANEL_FEATURES", "DenseExact", "SparseExact", "add_kernel_sums"]

ROWS_PER_TILE = 256  # with CENTERS a tile of kernel values: a megabyte, near a core
LITTLE_WORK = 1 << 21  # multiply-adds of a call that one thread does at once
WIDEST_PANEL_FEATURES = 1024  # features; wider rows go by BLAS, which keeps larger tiles
MANY_OUTPUTS = 64  # from here on most of the work is the product with the coefficients
TALL_TILES = 4  # tiles are so many times taller where outputs are many


@dataclass(frozen=True, eq=False)
class DenseExact:
    """An expansion laid out for dense rows.

    Parameters
    ----------
    expansion : KernelExpansion
    rounding : ExactRounding or PointwiseRounding
    layout : Layout
        About a point p. Of exponents by products, it holds the centers.
    centers : ndarray of shape (n, d)
        All others meet them as they are.

    Examples
    --------
    >>> exact = DenseExact.prepare(KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0))
    >>> exact.scores(np.array([[0.0], [1e200]]))[0]
    array([[2.5],
           [0.5]])
    """

    expansion: KernelExpansion
    rounding: Any
    layout: Layout
    centers: FloatArray

    @classmethod
    def prepare(cls, expansion: KernelExpansion, *, mapped: bool = False) -> DenseExact:
        """Shift the centers to their middle and take their norms; `mapped` as `ExactRounding`."""
        if not expansion.has_series:
            return cls.by_values(expansion, mapped=mapped)
        d, gamma = expansion.n_features, expansion.gamma
        with np.errstate(over="ignore", invalid="ignore"):
            layout = Layout.about_middle(expansion.centers, gamma)
            reach = math.sqrt(float(squared_norms(expansion.centers).max(initial=0.0)))
            largest = gamma * float(layout.squares.max(initial=0.0))
        rounding = ExactRounding(expansion, reach, largest, d, mapped)
        if rounding.polynomial or rounding.by_differences:
            centers = expansion.dense_centers()
            return cls(expansion, rounding, Layout.without_centers(np.zeros(d), gamma), centers)
        return cls(expansion, rounding, layout, np.empty((0, d)))

    @classmethod
    def by_values(cls, expansion: KernelExpansion, *, mapped: bool = False) -> DenseExact:
        """Values and bounds are the kernel's own, whichever kernel it is."""
        centers = np.ascontiguousarray(expansion.dense_centers())
        n, d = centers.shape
        point = middle(centers) if expansion.kernel.shifts else np.zeros(d)
        lengths = min(n, CENTERS) + 2.0 * n / CENTERS + 72.0
        rounding = PointwiseRounding.of(expansion, point, lengths, mapped=mapped)
        return cls(expansion, rounding, Layout.without_centers(point, 1.0), centers)

    @property
    def point(self) -> FloatArray:
        """p, shape (d,)."""
        return self.layout.point

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self.expansion.kernel

    @cached_property
    def by_products(self) -> bool:
        """Whether exponents come from products with shifted centers."""
        return self._exponents and not self.rounding.by_differences

    @cached_property
    def _exponents(self) -> bool:
        """Whether sums are those of an RBF kernel, with its own rounding."""
        return isinstance(self.rounding, ExactRounding) and not self.rounding.polynomial

    @cached_property
    def factors(self) -> FloatArray:
        """(2 gamma s, -gamma |s|^2, -1): times (u, 1, gamma |u|^2), they give the exponent."""
        layout, gamma = self.layout, self.expansion.gamma
        factors = np.empty((layout.n_centers, len(layout.order) + 2))
        for block, s in layout.blocks():
            np.multiply(s, 2.0 * gamma, out=factors[block, :-2])
        factors[:, -2], factors[:, -1] = -gamma * layout.squares, -1.0
        return factors

    @cached_property
    def for_panels(self) -> Layout | None:
        """The centers as panels want them; None where they cannot serve, or would be slower.

        Exponents by products that lose digits still settle most rows: bounds say which.
        """
        narrow = self.expansion.n_features <= WIDEST_PANEL_FEATURES
        if not (self._exponents and jit_available() and narrow and self.expansion.n_centers):
            return None
        if self.by_products:
            return self.layout
        if not self.rounding.in_range:
            return None
        return Layout.about_middle(self.centers, self.expansion.gamma)

    @property
    def fast_alone(self) -> bool:
        """Whether one row is summed in registers."""
        return self.fused is not None or (not self._exponents and self.loops is not None)

    @cached_property
    def loops(self) -> FusedPointwise | None:
        """Sums by differences x_i - z, or of any kernel's values, in compiled loops."""
        expansion = self.expansion
        by_gaps = self._exponents and not self.by_products and self.rounding.in_range
        if isinstance(self.rounding, ExactRounding) and not by_gaps:
            return None
        return FusedPointwise.prepare(expansion.kernel, self.centers, expansion.coefficients)

    @cached_property
    def fused(self) -> PanelSums | FusedValues | None:
        """The sums in panels, where that can be done with all digits and is faster."""
        layout = self.for_panels if self.by_products else None
        if layout is None:
            return None
        if self.expansion.n_outputs > 1:
            return FusedValues.prepare(layout, self.expansion)
        from kernelite.backends.cpu.kernels.exp2 import DOUBLE

        return rbf_sums(self.rounding, layout, DOUBLE)

    def scores(
        self, rows: FloatArray, out: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Scores of shape (m, k), and |u|^2 of shape (m,)."""
        m, k = len(rows), self.expansion.n_outputs
        scores = np.empty((m, k)) if out is None else out
        if self.fused is not None:
            return scores, self.fused.scores(rows, scores)
        if self.loops is not None and self.loops.in_registers:
            sums = scores if m == 1 else np.empty((m, k))
            sums[...] = 0.0
            self.loops.add(rows, sums)
            return np.add(sums, self.expansion.intercept, out=scores), self.squares(rows)
        squares = np.empty(m)

        def part(block: slice) -> None:
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                own, sums = rows[block], np.zeros((block.stop - block.start, k))
                squares[block] = self.squares(own)
                if self.loops is not None:
                    self.loops.add(own, sums)
                else:
                    self.add_tiles(own, sums, squares[block])
                np.add(sums, self.expansion.intercept, out=scores[block])

        # Few rows are shared out evenly, very few are not worth that; many go in tiles that fit a
        # core's cache.
        work = m * self.expansion.n_centers * (self.expansion.n_features + SUMS_PER_EXPONENTIAL)
        chunk = max(1, m if work < LITTLE_WORK else min(self.tall, -(-m // thread_count())))
        for_each_chunk(part, m, chunk, blas=True)
        return scores, squares

    def length(self, rows: FloatArray) -> int:
        """L of the rows, as `ExactRounding` wants it."""
        return rows.shape[1]

    def squares(self, rows: FloatArray) -> FloatArray:
        """|u|^2 alone."""
        with np.errstate(over="ignore"):
            U = rows - self.point if self._shifts else rows
            return np.asarray(np.einsum("ij,ij->i", U, U))

    @cached_property
    def _shifts(self) -> bool:
        return bool(self.point.any())

    @cached_property
    def tall(self) -> int:
        """Rows of a tile: more where centers are few, so that calls do not dominate."""
        (n, d), k = self.expansion.centers.shape, self.expansion.n_outputs
        filled = ROWS_PER_TILE * CENTERS // max(n, d, k, 16)
        return max(ROWS_PER_TILE * (TALL_TILES if k >= MANY_OUTPUTS else 1), filled)

    def add_tiles(
        self, rows: FloatArray, sums: FloatArray, squares: FloatArray | None = None
    ) -> None:
        """sums += sum_i A_i k(x_i, z), centers in tiles: shape (m, k); |u|^2 if it is known."""
        if self.by_products:
            rows = self._lift(rows, self.squares(rows) if squares is None else squares)
        coefficients = self.expansion.coefficients
        # Of few rows, more exponents at a time: calls would dominate.
        wide = CENTERS * max(1, 16 // max(len(rows), 1)) if self._exponents else CENTERS
        for tile in row_blocks(self.expansion.n_centers, wide):
            if self.by_products:
                add_kernel_sums(rows @ self.factors[tile].T, coefficients[tile], sums)
            elif self._exponents:
                add_kernel_sums(self._differences(rows, tile), coefficients[tile], sums)
            else:
                sums += self.kernel.values(rows, self.centers[tile]) @ coefficients[tile]

    def _lift(self, rows: FloatArray, squares: FloatArray) -> FloatArray:
        """(u, 1, gamma |u|^2), whose product with the factors is the exponent."""
        order = self.layout.order
        lifted = np.empty((len(rows), len(order) + 2))
        lifted[:, :-2] = rows[:, order] - self.point[order]
        lifted[:, -2], lifted[:, -1] = 1.0, self.expansion.gamma * squares
        return lifted

    def _differences(self, rows: FloatArray, centers: slice) -> FloatArray:
        """-gamma |x_i - z|^2 of some centers, for any gamma."""
        tile = np.zeros((len(rows), centers.stop - centers.start))
        root = math.sqrt(self.expansion.gamma)  # inside the square, where it keeps that in range
        for feature in range(rows.shape[1]):
            gap = rows[:, feature][:, None] - self.centers[centers, feature]
            gap *= root
            tile -= gap * gap
        return tile


def add_kernel_sums(tile: FloatArray, coefficients: FloatArray, out: FloatArray) -> None:
    """out += exp(min(tile, 0)) @ coefficients; fused where there is a kernel.

    Products sum up `CENTERS` at a time, as `ExactRounding` counts them.
    """
    if jit_available():
        from kernelite.backends.cpu.kernels.exp import exp_in_place

        exp_in_place(tile)
    else:
        np.exp(np.minimum(tile, 0.0, out=tile), out=tile)
    for centers in row_blocks(tile.shape[1], CENTERS):
        out += tile[:, centers] @ coefficients[centers]


# Exact sums for sparse rows and centers: only entries that meet are multiplied.
#
# The centers are held by feature. A row's entries walk down the lists of their features and add up
# all x_i.z, in time that grows with the entries that meet and not with n d; text of 30,000 words is
# served hundreds of times faster than by products of dense tables. Nothing is shifted.

WIDE_FEATURES = 1 << 22  # features from which those that no center has are left out of the lists
VALUES_PER_THREAD = 1 << 17  # kernel values of a thread: a megabyte
SUMS_PER_ENTRY = 25  # multiply-adds of a dense product in the time of one entry that meets another


@dataclass(frozen=True, eq=False)
class SparseExact:
    """An expansion laid out for sparse rows.

    Parameters
    ----------
    expansion : KernelExpansion
    rounding : ExactRounding
    exponents : ndarray of shape (n,)
        gamma |x_i|^2.
    starts, holders, values
        Feature j of center `holders[e]` is `values[e]`, starts[j] <= e < starts[j + 1].
    columns : ndarray, optional
        The features that j counts, where it does not count all.
    """

    expansion: KernelExpansion
    rounding: ExactRounding
    exponents: FloatArray
    starts: NDArray[np.int64]
    holders: NDArray[np.int32]
    values: FloatArray
    columns: NDArray[np.integer] | None

    @classmethod
    def prepare(cls, expansion: KernelExpansion, *, mapped: bool = False) -> SparseExact | None:
        """Lay out sparse centers by feature; None where dense products are better or safer."""
        centers = expansion.centers
        if not expansion.kernel.damps or not is_sparse(centers) or not jit_available():
            return None
        n, d = centers.shape
        if SUMS_PER_ENTRY * expansion.meeting_entries > n * d:
            return None
        squares = squared_norms(centers)
        with np.errstate(over="ignore"):  # then there are dense products
            exponents = expansion.gamma * squares
        largest = float(exponents.max(initial=0.0))
        longest = int(np.diff(centers.indptr).max(initial=0))
        reach = math.sqrt(float(squares.max(initial=0.0)))
        rounding = ExactRounding(expansion, reach, largest, longest, mapped)
        if rounding.by_differences:
            return None
        columns = np.unique(centers.indices) if d > WIDE_FEATURES else None
        by_feature = (centers if columns is None else only_columns(centers, columns)).tocsc()
        return cls(
            expansion=expansion,
            rounding=rounding,
            exponents=exponents,
            starts=by_feature.indptr.astype(np.int64),
            holders=by_feature.indices.astype(np.int32),
            values=by_feature.data,
            columns=columns,
        )

    @property
    def serves_dense_rows(self) -> bool:
        """Whether even rows without zeros, which meet all entries, are cheaper this way."""
        n, d = self.expansion.centers.shape
        return SUMS_PER_ENTRY * len(self.values) <= n * d

    def scores(
        self, rows: csr_array, out: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Scores of shape (m, k), and |z|^2 of shape (m,)."""
        from kernelite.backends.cpu.kernels.densify import check_canonical
        from kernelite.backends.cpu.kernels.exp import fill_exponents

        m, n = rows.shape[0], self.expansion.n_centers
        scores = np.empty((m, self.expansion.n_outputs)) if out is None else out
        squares = squared_norms(rows)
        if self.columns is not None:
            rows = only_columns(rows, self.columns)
        entries = rows.indices.astype(np.int32, copy=False), rows.data
        centers = self.exponents, self.starts, self.holders, self.values
        fixed = *entries, self.expansion.gamma, *centers

        def part(block: slice) -> None:
            tile = np.empty((block.stop - block.start, n))
            starts = rows.indptr[block.start : block.stop + 1].astype(np.int64)
            bad = fill_exponents(starts, *fixed, squares[block], tile)
            check_canonical(bad, block.start, rows.shape[1])
            with np.errstate(under="ignore", over="ignore", invalid="ignore"):
                sums = np.zeros((len(tile), self.expansion.n_outputs))
                add_kernel_sums(tile, self.expansion.coefficients, sums)
                np.add(sums, self.expansion.intercept, out=scores[block])

        chunk = max(1, min(VALUES_PER_THREAD // max(n, 1), -(-m // thread_count())))
        for_each_chunk(part, m, chunk, blas=True)
        return scores, squares

    def length(self, rows: csr_array) -> FloatArray:
        """L of each row, as `ExactRounding` wants it."""
        return np.maximum(np.diff(rows.indptr), self.rounding.length).astype(np.float64)

    def squares(self, rows: csr_array) -> FloatArray:
        """|z|^2 alone."""
        return squared_norms(rows)
