"""Exact sums that need no centers: one dot product, or a packed polynomial of degree 3 or 4.

Laid out from an expansion as `series.packed` states it; bounds are those of a polynomial kernel
whose sums pass through more roundings: n when the tensor is made, and the number of pairs and
features when rows meet it.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.exact_rounding import PointwiseRounding
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.threads import for_each_chunk, share_rows, thread_count
from kernelite.data.rows.inputs import FloatArray, Rows, is_sparse
from kernelite.machine.affine import AFFINE_UNITS
from kernelite.machine.expansion import KernelExpansion, only_columns, squared_norms
from kernelite.machine.kernels import CosineKernel, PolynomialKernel
from kernelite.series.cubic import cubic_values
from kernelite.series.packed import linear_map, packed_places, packed_tensor, pair_places
from kernelite.series.rounding import LOST_TERMS, SAFETY, SINGLE_UNIT, UNIT, intercept_error
from kernelite.support.records import dataclass

if TYPE_CHECKING:
    from kernelite.backends.cpu.kernels.cubic import PackedCubic

__all__ = ["LinearExact", "PackedExact", "SinglePacked"]

ROWS_PER_PRODUCT = 1 << 14  # one thread takes so many
NUMBERS_PER_THREAD = 1 << 19  # fewer numbers of rows are not worth a thread
LEAST_TENSOR_TERM = 1e-250  # that the largest terms of a tensor must be above
FARTHEST_PACKED_ROW = 1e70  # of a row whose fourth power is no overflow
LARGEST_PACKED_NORM = 1e9  # of a row in single precision: cubes are no overflow
PAIR_NUMBERS_PER_TILE = 1 << 17  # products w_a w_b held at once: a megabyte


@dataclass(frozen=True, eq=False)
class LinearExact:
    """W z + b; of a cosine kernel, W z / |z| + b.

    Examples
    --------
    >>> model = KernelExpansion([[1.0], [3.0]], [1.0, -1.0], 0.5, kernel=PolynomialKernel(1))
    >>> LinearExact.prepare(model).scores(np.array([[2.0]]))[0]
    array([[-3.5]])
    """

    expansion: KernelExpansion
    rounding: PointwiseRounding
    weights: FloatArray
    intercept: FloatArray
    columns: NDArray[np.integer] | None = None

    @classmethod
    def prepare(cls, expansion: KernelExpansion, *, mapped: bool = False) -> LinearExact:
        """Add the centers up; what that rounds is counted."""
        W, b, lost, lost_b, columns = linear_map(expansion)
        with np.errstate(over="ignore"):
            sizes = np.sqrt(squared_norms(W)) * (1.0 + 1e-9)
        sizes = np.where((sizes > 0.0) | ~W.any(axis=1), sizes, np.inf)  # lost by an underflow
        kernel = expansion.kernel if expansion.kernel.unit_rows else PolynomialKernel(1)
        constant = intercept_error(b) + lost_b + LOST_TERMS * (1.0 + sizes)
        rounding = PointwiseRounding(
            *(kernel, sizes, lost, constant, 1.0, 0.0, expansion.n_features, 8.0),
            moves=(AFFINE_UNITS if mapped else 0.0) + expansion.known.relative / UNIT,
            moved=expansion.known.rows,
        )
        return cls(expansion, rounding, np.ascontiguousarray(W.T), b, columns)

    @property
    def fast_alone(self) -> bool:
        """One row is one product."""
        return True

    @property
    def fused(self) -> None:
        """No centers are met."""
        return

    @cached_property
    def _one_pass(self) -> FloatArray | None:
        """The weights as the kernel takes them: of one output, of rows that are not too narrow."""
        plain = self.columns is None and not self.expansion.kernel.unit_rows
        if not plain or self.weights.shape[1] != 1 or not jit_available():
            return None
        from kernelite.backends.cpu.kernels.cubic import LANES, linear_weights

        w = self.weights[:, 0]
        return linear_weights(w) if len(w) >= LANES else None

    def scores(self, rows: Rows, out: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Scores of shape (m, k), and |z|^2 of shape (m,)."""
        if is_sparse(rows):
            return self._sparse_scores(rows, out)
        m = len(rows)
        scores, squares = np.empty((m, len(self.intercept))) if out is None else out, np.empty(m)
        if self._one_pass is not None and rows.flags.c_contiguous and scores.flags.c_contiguous:
            self._run_one_pass(rows, self._one_pass, scores, squares)
            return scores, squares
        cosine = self.expansion.kernel.unit_rows

        def part(block: slice) -> None:
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                own = rows[block]
                np.einsum("ij,ij->i", own, own, out=squares[block])
                if cosine:
                    own = CosineKernel.normalized(own)
                own = own if self.columns is None else own[:, self.columns]
                np.matmul(own, self.weights, out=scores[block])
                scores[block] += self.intercept

        chunk = max(1, min(ROWS_PER_PRODUCT, -(-m // thread_count()))) if m > 512 else max(m, 1)
        for_each_chunk(part, m, chunk, blas=True)
        return scores, squares

    def _run_one_pass(
        self, rows: FloatArray, weights: FloatArray, scores: FloatArray, squares: FloatArray
    ) -> None:
        """Products and norms together, so that rows are read once."""
        from kernelite.backends.cpu.kernels.cubic import linear_rows

        flat, intercept = scores.reshape(-1), float(self.intercept[0])

        least = NUMBERS_PER_THREAD // max(rows.shape[1], 1)
        share_rows(linear_rows, len(rows), least, rows, weights, intercept, flat, squares)

    def _sparse_scores(self, rows: Any, out: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        if self.expansion.kernel.unit_rows:  # by the safe way
            return self.scores(np.asarray(rows.toarray()), out)
        squares = squared_norms(rows)
        with np.errstate(over="ignore", invalid="ignore"):
            own = rows if self.columns is None else only_columns(rows, self.columns)
            found = np.asarray(own @ self.weights) + self.intercept
        if out is None:
            return found, squares
        out[...] = found
        return out, squares

    def length(self, rows: Rows) -> int:
        """Not needed: the bounds know the number of features."""
        return self.expansion.n_features

    def squares(self, rows: Rows) -> FloatArray:
        """|z|^2 alone."""
        return squared_norms(rows)


@dataclass(frozen=True, eq=False)
class PackedExact:
    """A polynomial of degree 3 or 4 as one packed tensor per output.

    Examples
    --------
    >>> cubic = PolynomialKernel(3, 1.0, 1.0)
    >>> model = KernelExpansion(np.ones((40, 1)), np.ones(40), 0.5, kernel=cubic)
    >>> PackedExact.prepare(model).scores(np.array([[1.0]]))[0]
    array([[320.5]])
    """

    expansion: KernelExpansion
    rounding: PointwiseRounding
    tensor: FloatArray
    degree: int

    @classmethod
    def prepare(cls, expansion: KernelExpansion, *, mapped: bool = False) -> PackedExact | None:
        """Add the centers up; None where that overflows."""
        assert isinstance(expansion.kernel, PolynomialKernel)
        with np.errstate(over="ignore", invalid="ignore"):
            tensor = packed_tensor(expansion)
        if not np.isfinite(tensor).all():
            return None
        r = expansion.n_features + 1
        # n for the sums over centers; pairs, features and powers of gamma for the rest.
        lengths = expansion.n_centers + r * (r + 1) / 2 + 2.0 * r + 120.0
        rounding = PointwiseRounding.of(expansion, np.zeros(r - 1), lengths, mapped=mapped)
        # Entries may underflow, and then meet |w|^p: that must be less than roundings.
        with np.errstate(over="ignore", under="ignore"):
            least = np.float64(expansion.kernel.gamma * rounding.radius) ** expansion.kernel.degree
        if not (rounding.weight[rounding.weight > 0.0] * least > LEAST_TENSOR_TERM).all():
            return None
        rounding = replace(rounding, farthest=FARTHEST_PACKED_ROW)
        return cls(expansion, rounding, tensor, expansion.kernel.degree)

    @property
    def fast_alone(self) -> bool:
        """Whether one row is fast: nothing but BLAS is needed for degree 4."""
        return self.degree == 4 or self.fused is not None

    @cached_property
    def fused(self) -> PackedCubic | None:
        """The loop over packed coefficients of degree 3."""
        if self.degree == 4 or not jit_available():
            return None
        from kernelite.backends.cpu.kernels.cubic import PackedCubic

        return PackedCubic.prepare(self.tensor, self.expansion.n_features)

    def scores(
        self, rows: FloatArray, out: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Scores of shape (m, k), and |z|^2 of shape (m,)."""
        m, k = len(rows), self.expansion.n_outputs
        scores = np.empty((m, k)) if out is None else out
        squares = self.squares(rows)
        rows = np.ascontiguousarray(rows)
        if self.fused is not None:
            self.fused.run(rows, scores)
            scores += self.expansion.intercept
            return scores, squares
        pairs = (self.expansion.n_features + 1) * (self.expansion.n_features + 2) // 2
        chunk = max(1, min(PAIR_NUMBERS_PER_TILE // pairs + 1, -(-m // thread_count())))

        def part(block: slice) -> None:
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                own = np.hstack([rows[block], np.ones((block.stop - block.start, 1))])
                found = cubic_values(self.tensor, own) if self.degree == 3 else self._quartic(own)
                np.add(found, self.expansion.intercept, out=scores[block])

        for_each_chunk(part, m, chunk, blas=True)
        return scores, squares

    def _quartic(self, own: FloatArray) -> FloatArray:
        """q'Mq of each row and output, q the products of features: shape (m, k)."""
        a, b = pair_places(own.shape[1])
        pairs = own[:, a] * own[:, b]
        each = [np.einsum("ij,ij->i", pairs @ M, pairs) for M in self.tensor]
        return np.stack(each, axis=1)

    def length(self, rows: FloatArray) -> int:
        """Not needed: the bounds know the number of features."""
        return self.expansion.n_features

    def squares(self, rows: FloatArray) -> FloatArray:
        """|z|^2 alone."""
        return squared_norms(rows)


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
        from kernelite.backends.cpu.kernels.cubic import PARTIAL, single_packed

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
