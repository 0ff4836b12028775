"""Exact sums in double precision: of dense rows, and of sparse rows where entries meet.

Dense: prepare once (shift to a point p amid the centers, norms), run on many rows. Features in
which all centers agree have s = x_i - p = 0 and are left out of the product: a fifth of MNIST's.
Where there are kernels, panels of centers are summed in registers (`fused_sums`); else, and for
very wide rows, it goes by tiles of a matrix product, exponentials, a product with coefficients.
Sparse: only entries that meet are multiplied (`SparseExact`).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.exact_rounding import CENTERS, ExactRounding
from kernelite.backends.cpu.fused_pointwise import FusedPointwise
from kernelite.backends.cpu.fused_sums import FusedSums, FusedValues
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.panels import Layout
from kernelite.backends.cpu.threads import for_each_chunk, thread_count
from kernelite.data.rows.inputs import FloatArray, is_sparse, row_blocks
from kernelite.machine.expansion import KernelExpansion, only_columns, squared_norms
from kernelite.support.records import dataclass

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["WIDEST", "DenseExact", "SparseExact", "add_kernel_sums"]

ROWS_PER_TILE = 256  # with CENTERS a tile of kernel values: a megabyte, near a core
SUMS_PER_EXPONENTIAL = 22.5  # multiply-adds of a product in the time of one kernel value
LITTLE_WORK = 1 << 21  # multiply-adds of a call that one thread does at once
WIDEST = 1024  # features; wider rows go by BLAS, which keeps larger tiles
MANY_OUTPUTS = 64  # from here on most of the work is the product with the coefficients
TALL_TILES = 4  # tiles are so many times taller where outputs are many


@dataclass(frozen=True, eq=False)
class DenseExact:
    """An expansion laid out for dense rows.

    Examples
    --------
    >>> exact = DenseExact.prepare(KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0))
    >>> exact.scores(np.array([[0.0], [1e200]]))[0]
    array([[2.5],
           [0.5]])
    """

    expansion: KernelExpansion
    rounding: ExactRounding
    layout: Layout
    centers: FloatArray

    @classmethod
    def prepare(cls, expansion: KernelExpansion, *, mapped: bool = False) -> DenseExact:
        """Shift the centers to their middle and take their norms; `mapped` as `ExactRounding`."""
        centers = expansion.dense_centers()
        d, gamma = centers.shape[1], expansion.gamma
        with np.errstate(over="ignore", invalid="ignore"):
            layout = Layout.about_middle(centers, gamma)
            norms = np.sqrt(np.einsum("ij,ij->i", centers, centers))
            largest = float((gamma * layout.squares).max(initial=0.0))
        rounding = ExactRounding(expansion, norms, largest, d, mapped)
        if rounding.polynomial or rounding.by_differences:
            return cls(expansion, rounding, Layout.unshifted(d, gamma), centers)
        return cls(expansion, rounding, layout, np.empty((0, d)))  # the layout holds them

    @property
    def point(self) -> FloatArray:
        """p, shape (d,)."""
        return self.layout.point

    @cached_property
    def factors(self) -> FloatArray:
        """(2 gamma s, -gamma |s|^2, -1): times (u, 1, gamma |u|^2), they give the exponent."""
        layout, gamma = self.layout, self.expansion.gamma
        exponents = gamma * layout.squares
        scaled = 2.0 * gamma * layout.shifted
        return np.column_stack([scaled, -exponents, -np.ones(len(exponents))])

    @cached_property
    def for_panels(self) -> Layout | None:
        """The centers as panels want them; None where they cannot serve, or would be slower.

        Exponents by products that lose digits still settle most rows: bounds say which.
        """
        rounding, d = self.rounding, self.expansion.n_features
        if rounding.polynomial or not jit_available() or d > WIDEST or not self.expansion.n_centers:
            return None
        if not rounding.by_differences:
            return self.layout
        if not rounding.in_range:
            return None
        return Layout.about_middle(self.centers, self.expansion.gamma)

    @property
    def fast_alone(self) -> bool:
        """Whether one row is summed in registers."""
        return self.fused is not None

    @cached_property
    def gaps(self) -> FusedPointwise | None:
        """Sums by differences x_i - z in registers, where products lose digits."""
        taken = self.rounding.by_differences and self.rounding.in_range
        if not taken or self.rounding.polynomial or not jit_available():
            return None
        expansion = self.expansion
        return FusedPointwise.prepare(expansion.kernel, self.centers, expansion.coefficients)

    @cached_property
    def fused(self) -> FusedSums | FusedValues | None:
        """The sums in panels, where that can be done with all digits and is faster."""
        layout = None if self.rounding.by_differences else self.for_panels
        if layout is None:
            return None
        if self.expansion.n_outputs > 1:
            return FusedValues.prepare(layout, self.expansion)
        from kernelite.backends.cpu.kernels.exp2 import DOUBLE

        return FusedSums.prepare(self.rounding, layout, DOUBLE)

    def scores(
        self, rows: FloatArray, out: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Scores of shape (m, k), and |u|^2 of shape (m,)."""
        m, k = len(rows), self.expansion.n_outputs
        scores, squares = np.empty((m, k)) if out is None else out, np.empty(m)
        if self.fused is not None:
            return scores, self.fused.scores(rows, scores)

        def part(block: slice) -> None:
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                U = rows[block] - self.point
                squares[block] = np.einsum("ij,ij->i", U, U)
                sums = np.zeros((len(U), k))
                if self.gaps is not None:
                    self.gaps.add(U, sums)
                elif self.rounding.polynomial:
                    self._add_powers(U, sums)
                elif self.rounding.by_differences:
                    self._add_sums(U, sums)
                else:
                    self._add_sums(self._lift(U, squares[block]), sums)
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
            U = rows - self.point
            return np.asarray(np.einsum("ij,ij->i", U, U))

    @cached_property
    def tall(self) -> int:
        """Rows of a tile: more where centers are few, so that calls do not dominate."""
        (n, d), k = self.expansion.centers.shape, self.expansion.n_outputs
        filled = ROWS_PER_TILE * CENTERS // max(n, d, k, 16)
        return max(ROWS_PER_TILE * (TALL_TILES if k >= MANY_OUTPUTS else 1), filled)

    def _lift(self, U: FloatArray, squares: FloatArray) -> FloatArray:
        """(u, 1, gamma |u|^2), whose product with the factors is the exponent."""
        width = self.factors.shape[1] - 2
        lifted = np.empty((len(U), width + 2))
        lifted[:, :width] = U[:, self.layout.order]
        lifted[:, width], lifted[:, width + 1] = 1.0, self.expansion.gamma * squares
        return lifted

    def _add_sums(self, U: FloatArray, sums: FloatArray) -> None:
        """sums += sum_i A_i K_i of a few rows, lifted or not, centers in tiles: shape (m, k)."""
        # Of few rows, more centers at a time: calls would dominate.
        for centers in row_blocks(self.expansion.n_centers, CENTERS * max(1, 16 // len(U))):
            if self.rounding.by_differences:
                tile = self._differences(U, centers)
            else:
                tile = U @ self.factors[centers].T
            add_kernel_sums(tile, self.expansion.coefficients[centers], sums)

    def _differences(self, U: FloatArray, centers: slice) -> FloatArray:
        tile = np.zeros((len(U), centers.stop - centers.start))
        root = math.sqrt(self.expansion.gamma)  # inside the square, where it keeps that in range
        for feature in range(U.shape[1]):
            gap = U[:, feature][:, None] - self.centers[centers, feature]
            gap *= root
            tile -= gap * gap
        return tile

    def _add_powers(self, rows: FloatArray, sums: FloatArray) -> None:
        """sums += sum_i A_i (gamma x_i.z + coef0)^2, centers in tiles: shape (m, k)."""
        expansion = self.expansion
        for centers in row_blocks(expansion.n_centers, CENTERS):
            tile = expansion.gamma * (rows @ self.centers[centers].T)
            tile += expansion.coef0
            sums += np.square(tile, out=tile) @ expansion.coefficients[centers]


def add_kernel_sums(tile: FloatArray, coefficients: FloatArray, out: FloatArray) -> None:
    """out += exp(min(tile, 0)) @ coefficients; fused where there is a kernel.

    Products sum up `CENTERS` at a time, as `ExactRounding` counts them.
    """
    if jit_available():
        from kernelite.backends.cpu.kernels.pointwise import exp_in_place

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
        rounding = ExactRounding(expansion, np.sqrt(squares), largest, longest, mapped)
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
        from kernelite.backends.cpu.kernels.pointwise import fill_exponents

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
