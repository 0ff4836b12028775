"""The exact engine: f in double precision, tile by tile, with a bound on its own rounding.

Prepare once (shift to the centers' mean p, norms), run on many rows. With R = max |x_i - p|:

    |computed f - f| <= u ((3 d + 16) gamma (R^2 + |u|^2) + lengths) sum_i |A_i| K_i + 2u(|b| + |f|)

where sum_i |A_i| K_i <= |A|_1 exp(-gamma max(0, |u| - R)^2). The exponent 2 gamma s.u - gamma |u|^2
- gamma |s|^2 is a product of length d + 2 with terms that err by (d + 3) u each and add up to at
most 2 gamma (|s|^2 + |u|^2) in absolute value. Features in which all centers agree have s = 0 and
are left out of the product: a fifth of MNIST's. It loses digits when gamma R^2 is large; such
models are evaluated by differences x_i - z, not shifted: there the exponent gamma D errs by
(d + 7) u relatively, and x exp(-x) <= 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernelite.approximation.rounding import GAMMA_RANGE, SAFETY, TINY, UNIT, row_rounding
from kernelite.engines.jit_support import jit_available
from kernelite.engines.threads import for_each_chunk, one_thread_each, thread_count
from kernelite.expansion import KernelExpansion
from kernelite.inputs import FloatArray, row_blocks

__all__ = ["ExactEngine"]

ROWS, CENTERS = 256, 512  # a tile of kernel values: a megabyte, near a core
MANY_OUTPUTS = 64  # from here on most of the work is the product with the coefficients,
TALL = 4  # which goes faster in taller tiles
CANCELLATION = 1e-9  # relative error of a kernel value from which differences are taken
UNDERFLOWS = 800.0  # gamma |x - z|^2 from which a kernel value is zero
SURELY = 1e-9  # more than any norm errs by, relatively


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
    varying: NDArray[np.intp] | slice
    factors: FloatArray
    largest: float
    radius: float
    weight: FloatArray
    absolute: FloatArray
    by_differences: bool

    @classmethod
    def prepare(cls, expansion: KernelExpansion, *, mapped: bool = False) -> ExactEngine:
        """Shift the centers to their mean and take their norms.

        Parameters
        ----------
        expansion : KernelExpansion
        mapped : bool
            Whether rows come through an affine map, whose rounding then counts.
        """
        centers = expansion.dense_centers()
        n, d = centers.shape
        gamma, polynomial = expansion.gamma, expansion.kernel == "poly2"
        with np.errstate(over="ignore", invalid="ignore"):
            point, varying = _middle(centers) if not polynomial else (np.zeros(d), slice(None))
            shifted = centers - point
            exponents = gamma * np.einsum("ij,ij->i", shifted, shifted)
            largest = float(exponents.max(initial=0.0))
            weight = np.abs(expansion.coefficients).sum(axis=0)
            absolute = TINY * (1.0 + weight)
            if mapped and not polynomial:
                reach = np.sqrt(np.einsum("ij,ij->i", centers, centers)).max(initial=0.0)
                absolute += row_rounding(weight, gamma, float(reach))
        sound = (d + 8) * 6.0 * largest * UNIT <= CANCELLATION  # not if it overflowed
        by_differences = not (sound and GAMMA_RANGE[0] <= gamma <= GAMMA_RANGE[1])
        if polynomial or by_differences:
            point, shifted, factors = np.zeros(d), centers, np.empty((0, 2))
        else:
            # One product gives the exponent: (2 gamma s, -gamma |s|^2, -1) . (u, 1, gamma |u|^2).
            scaled = 2.0 * gamma * shifted[:, varying]
            factors = np.column_stack([scaled, -exponents, -np.ones(n)])
        return cls(
            expansion=expansion,
            point=point,
            centers=shifted,
            varying=varying,
            factors=factors,
            largest=largest,
            radius=math.sqrt(largest / gamma) if sound else math.inf,
            weight=weight,
            absolute=absolute,
            by_differences=by_differences,
        )

    def run(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores and rounding bounds, each of shape (m, k)."""
        scores, squares = self._run(rows)
        return scores, self._bound(squares)

    def run_within(
        self, rows: FloatArray, tolerance: FloatArray, out: FloatArray | None = None
    ) -> tuple[FloatArray, int]:
        """Scores of shape (m, k), and of how many rows a bound is above an output's tolerance.

        With many outputs, bounds spelled out would cost as much as scores.

        Parameters
        ----------
        rows : ndarray of shape (m, d)
        tolerance : ndarray of shape (k,)
        out : ndarray of shape (m, k), optional
            Where the scores go.
        """
        scores, squares = self._run(rows, out)
        if self.expansion.kernel == "poly2":
            within = (self._bound(squares) <= tolerance).all(axis=1)
        else:
            # relative a + c <= tolerance for each output: one number a row decides.
            factors, room = SAFETY * UNIT * self.weight, tolerance - self._constant
            with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
                most = np.where(factors > 0.0, room / factors, np.inf).min(initial=np.inf)
                within = self._relative(squares) <= most * (1.0 - SURELY)
            within &= bool((room >= 0.0).all())
        return scores, int(np.count_nonzero(~within))

    def _run(
        self, rows: FloatArray, out: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Scores, and |u|^2 of shape (m,)."""
        m, k = len(rows), self.expansion.n_outputs
        scores, squares = np.empty((m, k)) if out is None else out, np.empty(m)
        polynomial, shifts = self.expansion.kernel == "poly2", self.expansion.intercept.any()

        def part(block: slice) -> None:
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                U = rows[block] - self.point
                squares[block] = np.einsum("ij,ij->i", U, U)
                sums = scores[block]
                if polynomial or not len(self.centers):
                    sums[:] = 0.0
                if polynomial:
                    self._add_powers(U, sums)
                elif self.by_differences:
                    self._add_sums(U, sums)
                else:
                    self._add_sums(self._lift(U, squares[block]), sums)
                if shifts:
                    sums += self.expansion.intercept

        # Few rows are shared out evenly; many go in tiles that fit a core's cache.
        chunk = max(1, min(self._tall, -(-m // thread_count())))
        with one_thread_each(m, chunk):
            for_each_chunk(part, m, chunk)
        if not (polynomial or self.by_differences):
            far = ~(self._nearest(squares) < UNDERFLOWS)
            if far.any():
                scores[far] = self.expansion.intercept
        return scores, squares

    def run_bound(self, rows: FloatArray) -> FloatArray:
        """The rounding bound of `run`, without running it: shape (m, k)."""
        with np.errstate(over="ignore"):
            U = rows - self.point
            return self._bound(np.einsum("ij,ij->i", U, U))

    @cached_property
    def _tall(self) -> int:
        """Rows of a tile: more where centers are few, so that calls do not dominate."""
        (n, d), k = self.centers.shape, self.expansion.n_outputs
        filled = ROWS * CENTERS // max(n, d, k, 1)
        return max(ROWS * TALL if k >= MANY_OUTPUTS else ROWS, min(filled, ROWS * CENTERS // 16))

    def _lift(self, U: FloatArray, squares: FloatArray) -> FloatArray:
        """(u, 1, gamma |u|^2), whose product with the factors is the exponent."""
        width = self.factors.shape[1] - 2
        lifted = np.empty((len(U), width + 2))
        lifted[:, :width] = U[:, self.varying]
        lifted[:, width], lifted[:, width + 1] = 1.0, self.expansion.gamma * squares
        return lifted

    def _add_sums(self, U: FloatArray, sums: FloatArray) -> None:
        """sums += sum_i A_i K_i of a few rows, lifted or not, centers in tiles: shape (m, k)."""
        for centers in row_blocks(len(self.centers), CENTERS):
            if self.by_differences:
                tile = self._differences(U, centers)
            else:
                tile = U @ self.factors[centers].T
            coefficients, first = self.expansion.coefficients[centers], centers.start == 0
            add_kernel_sums(tile, coefficients, sums, first=first)

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
        for centers in row_blocks(len(self.centers), CENTERS):
            tile = expansion.gamma * (rows @ self.centers[centers].T)
            tile += expansion.coef0
            sums += np.square(tile, out=tile) @ expansion.coefficients[centers]

    def _nearest(self, squares: FloatArray) -> FloatArray:
        """gamma max(0, |u| - R)^2, not above the real value: shape (m,)."""
        with np.errstate(over="ignore"):
            gap = np.sqrt(squares) * (1.0 - SURELY) - self.radius * (1.0 + SURELY)
            gap = np.maximum(gap, 0.0) * math.sqrt(self.expansion.gamma)
            return np.asarray(gap * gap * (1.0 - SURELY))

    def _bound(self, squares: FloatArray) -> FloatArray:
        """Shape (m, k). |f| <= |b| + sum_i |A_i| K_i, so that it needs no scores."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if self.expansion.kernel == "poly2":
                # 2 (d + 2): the products, squared. 8: rows that came through a map.
                grown = (self._lengths + 2 * self.expansion.n_features + 8) * self._size(squares)
                bounds = SAFETY * UNIT * grown + self._constant
                bounds[np.isnan(bounds)] = np.inf  # it overflowed: nothing is known
                return np.asarray(bounds)
            # One pass over what may be large: with many outputs this is a matter of memory.
            bounds = np.multiply.outer(self._relative(squares), SAFETY * UNIT * self.weight)
            bounds += self._constant
        return bounds

    @property
    def _lengths(self) -> float:
        """Of the sums over centers, with what exponentials and products err by."""
        n = len(self.centers)
        return min(n, CENTERS) + n / CENTERS + 64.0 + 8.0

    @property
    def _constant(self) -> FloatArray:
        return 8.0 * SAFETY * UNIT * np.abs(self.expansion.intercept) + self.absolute

    def _relative(self, squares: FloatArray) -> FloatArray:
        """What sum_i |A_i| is multiplied with in the bound, in units of rounding: shape (m,)."""
        d, gamma = self.expansion.n_features, self.expansion.gamma
        if self.by_differences:
            return np.full(len(squares), self._lengths + d + 8)
        nearest = self._nearest(squares)
        spread = (3 * d + 16) * (self.largest + gamma * squares)
        relative = np.exp(-nearest) * (self._lengths + spread)
        relative[~(nearest < UNDERFLOWS)] = 0.0
        return np.asarray(relative)

    def _size(self, squares: FloatArray) -> FloatArray:
        """sum_i |A_i| (|coef0| + gamma |x_i| |z|)^2 and a floor for underflow: shape (m, k)."""
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.sqrt(squares)
            return np.asarray(np.stack([norms**m for m in range(3)], axis=1) @ self._moments)

    @cached_property
    def _moments(self) -> FloatArray:
        """Coefficients of `_size` in |z|, shape (3, k)."""
        expansion = self.expansion
        with np.errstate(over="ignore"):
            reach = expansion.gamma * np.sqrt(np.einsum("ij,ij->i", self.centers, self.centers))
            start = np.full_like(reach, abs(expansion.coef0))
            powers = np.stack([start * start, 2.0 * start * reach, reach * reach])
            sums = powers @ np.abs(expansion.coefficients)
            return np.asarray(sums + TINY / UNIT * (1.0 + self.weight))


def _middle(centers: FloatArray) -> tuple[FloatArray, NDArray[np.intp] | slice]:
    """The centers' mean, and the features in which they differ from it."""
    n, d = centers.shape
    if not n:
        return np.zeros(d), slice(None)
    mean, lowest = centers.mean(axis=0), centers.min(axis=0)
    varying = np.flatnonzero(lowest != centers.max(axis=0))
    if len(varying) == d:
        return mean, slice(None)
    point = lowest.copy()  # a mean of equal numbers may be another one
    point[varying] = mean[varying]
    return point, varying


def add_kernel_sums(
    tile: FloatArray, coefficients: FloatArray, out: FloatArray, *, first: bool
) -> None:
    """out += exp(min(tile, 0)) @ coefficients, or out = ...; fused where there is a kernel."""
    if jit_available():
        from kernelite.engines.jit_exact import add_kernel_sums as fused

        fused(tile, coefficients, out, first=first)
    else:
        np.minimum(tile, 0.0, out=tile)
        sums = np.exp(tile, out=tile) @ coefficients
        out[...] = sums if first else out + sums
