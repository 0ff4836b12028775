"""q = |L^-1 x|^2 with the inverse of L stored in single precision, with proven bounds.

For any B of few columns and any c, x = B c + y and W x = (W B) c + W y, where W is the computed
inverse of `factors`. With columns that span nearly what the leading eigenvectors do, and c = B'x, y
is so short that W rounded to singles, S, may take the place of W there:

    |W x - (G c + S y)| <= |W B - G| |c| + |W - S| |y|,    G = W B as computed.

Rows in batches meet S in single precision, where sums round much more than S does. A row alone
meets it in doubles: it waits for memory, of which singles take half, and nearly all of what is lost
is |W - S| |y|.

Norms are Frobenius', but for these two, which bound spectral norms:

    |M|^2 <= | |M|'|M| |,    |M|^2 <= | |M'M| |    (the second one for M = W - S),

where |M| inside are the sizes of entries: a matrix N of entries that are not negative has no
eigenvalue above max (N v)_i / v_i, for any v of positive numbers, and no matrix has a larger
spectral norm than its sizes have.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.factors import MARGIN, InverseFactor, error_of_square
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FloatArray
from kernelite.series.rounding import SINGLE_UNIT, UNIT
from kernelite.support.records import dataclass

__all__ = ["BASIS_COLUMNS", "ShortRest", "leading_columns"]

TINY_SINGLES = 2e-45 * 4.0  # what a number or a product in single precision may lose to underflow
LOST_SQUARES = 1e-150  # of entries whose squares underflow in doubles, each
BASIS_COLUMNS = 16  # of B: a panel of any processor takes so many; more take what singles save
BASIS_TURNS = 3  # after which B has the leading eigenvectors, nearly
NORM_TURNS = 12
LEAST_SHARED_SINGLES = 1400  # lines of S that take longer to read than a thread to wake
SHORT_PANELS_PER_THREAD = 4


@dataclass(frozen=True, eq=False)
class ShortRest:
    """The inverse in single precision, for what few columns leave of rows.

    Parameters
    ----------
    across, basis : ndarray
        B, in one panel and in several.
    images : ndarray
        G = W B, in panels.
    triangle : ndarray
        S, in panels of single precision.
    shape : tuple of two ints
        Width and columns of B.
    off : float
        |W L - I|, rounded up.
    reach : float
        Not below the spectral norm of |S|.
    lost : float
        Not below the spectral norm of W - S.
    sizes : tuple of three floats
        |B|, |G| and |W|, rounded up.
    """

    across: FloatArray
    basis: FloatArray
    images: FloatArray
    triangle: NDArray[np.float32]
    shape: tuple[int, int]
    off: float
    reach: float
    lost: float
    sizes: tuple[float, float, float]

    @classmethod
    def of(cls, inverse: InverseFactor, basis: FloatArray) -> ShortRest | None:
        """With W in single precision; None where that overflows, or for want of loops.

        Parameters
        ----------
        inverse : InverseFactor
        basis : ndarray of shape (n, k)
            B of `BASIS_COLUMNS` at most, as `leading_columns` gives it, or any.
        """
        if not jit_available():
            return None
        from kernelite.backends.cpu.kernels.exp2 import DOUBLE, SINGLE
        from kernelite.backends.cpu.kernels.triangle import in_panels, panel_across, triangle_panels

        n, width = len(basis), len(inverse.matrix)
        W = inverse.matrix[:n, :n]
        with np.errstate(over="ignore", invalid="ignore"):
            S = W.astype(np.float32).astype(np.float64)
            reach = _norm_of_sizes(S)
            lost = _norm_of_rounding(S - W)
        if not (math.isfinite(reach) and math.isfinite(lost)):
            return None
        G = W @ basis
        B_size, G_size, W_size = (MARGIN * float(np.linalg.norm(one)) for one in (basis, G, W))
        return cls(
            panel_across(basis, width),
            in_panels(basis, DOUBLE, width),
            in_panels(G, SINGLE, width),
            triangle_panels(S, SINGLE, width),
            (width, basis.shape[1]),
            inverse.off,
            reach,
            lost,
            (B_size, G_size, W_size),
        )

    def squares(self, X: FloatArray, moved: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As those of `InverseFactor`."""
        from kernelite.backends.cpu.kernels.triangle import single_squares

        sums = np.empty((3, len(X)))
        single_squares(
            *(X, self.shape[1], self.across, self.basis, self.images, self.triangle), *sums
        )
        found, (lengths, known) = sums[0], np.sqrt(sums[1:])
        of_length, of_known, of_moved, ever = self._losses
        slack = of_length * lengths + of_known * known + of_moved * moved + ever
        return found, error_of_square(found, slack, self.shape[0], self.off)

    def square(self, x: FloatArray, moved: float) -> tuple[float, float]:
        """q of one row x of shape (n,), which meets S in doubles, and how far it may be off."""
        from kernelite.backends.cpu.kernels.triangle import rest_of_row, short_panel_squares

        (n, k), (starts, columns) = self.shape, self._places
        y, c, sums, parts = np.empty(n), np.empty(k), np.empty(2), np.empty(len(starts))
        rest_of_row(x, self.across, self.basis, y, c, sums)
        given = y, c, self.images, self.triangle, starts, columns, parts
        if n < LEAST_SHARED_SINGLES:
            short_panel_squares.alone(*given)  # type: ignore[attr-defined]
        else:
            share_rows(short_panel_squares, len(parts), SHORT_PANELS_PER_THREAD, *given)
        found, (length, known) = float(np.add.reduce(parts)), sums.tolist()
        of_length, of_known, of_moved, ever = self._losses_alone
        slack = of_length * math.sqrt(length) + of_known * math.sqrt(known) + of_moved * moved
        return found, error_of_square(found, slack + ever, n, self.off)

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        from kernelite.backends.cpu.kernels.exp2 import SINGLE
        from kernelite.backends.cpu.kernels.triangle import panel_places

        return panel_places(self.shape[0], SINGLE)

    @cached_property
    def _losses(self) -> tuple[float, float, float, float]:
        """What G c + S y may be off by where singles meet: see `_losses_of`."""
        from kernelite.backends.cpu.kernels.triangle import TRIANGLE_COLUMNS

        n = self.shape[0]
        rounded = (TRIANGLE_COLUMNS + 2) * SINGLE_UNIT * (1.0 + 1e-4) + (n + 4) * UNIT
        # y: a rounding to singles and one of the difference, and underflow.
        y_ever = TINY_SINGLES * math.sqrt(n)
        return self._losses_of(rounded, SINGLE_UNIT * (1.0 + 1e-6), y_ever, TINY_SINGLES * n**1.5)

    @cached_property
    def _losses_alone(self) -> tuple[float, float, float, float]:
        """The same where doubles meet singles."""
        return self._losses_of((self.shape[0] + 4) * UNIT, UNIT, 0.0, 0.0)

    def _losses_of(
        self, rounded: float, y_length: float, y_ever: float, ever: float
    ) -> tuple[float, float, float, float]:
        """What W x may be off by, per |y|, |c| and |x - what it should be|, and in any case.

        Parameters
        ----------
        rounded : float
            What sums of S y round, in |S| |y|.
        y_length, y_ever : float
            What y is off by besides what B c rounds: in |y|, and in any case.
        ever : float
            What products underflow by.
        """
        (n, k), (B_size, G_size, W_size) = self.shape, self.sizes
        y_known = (k + 2) * UNIT * B_size
        # The true y is W's, the one that is met goes with S and its rounding.
        all_of_y = (self.reach * (1.0 + rounded) + self.lost) * MARGIN
        # G is what W B was computed as; sums begin with its products.
        images = ((n + 2) * W_size * B_size + (n + k + 4) * G_size) * UNIT * MARGIN
        return (
            all_of_y * y_length + (self.reach * rounded + self.lost) * MARGIN,
            all_of_y * y_known + images,
            (self.reach + self.lost) * MARGIN,
            all_of_y * y_ever + ever,
        )


def leading_columns(factor: FloatArray, count: int = BASIS_COLUMNS) -> FloatArray:
    """Orthonormal columns that span nearly what the leading eigenvectors of L L' do."""
    L, random = np.tril(factor), np.random.default_rng(0)
    columns = random.normal(size=(len(L), min(count, len(L))))
    for _ in range(BASIS_TURNS):
        columns = np.linalg.qr(L @ (L.T @ columns))[0]
    return columns


def _norm_of_sizes(W: FloatArray) -> float:
    """Not below the spectral norm of |W|."""
    sizes = np.abs(W)
    return math.sqrt(_largest_eigenvalue(lambda v: sizes.T @ (sizes @ v), len(W)))


def _norm_of_rounding(D: FloatArray) -> float:
    """Not below the spectral norm of D, whose entries have signs without a pattern."""
    from scipy.linalg.blas import dsyrk

    n = len(D)
    if not np.isfinite(D).all():
        return math.inf
    upper = np.asarray(dsyrk(1.0, D, trans=1))  # zeros below the diagonal
    np.abs(upper, out=upper)
    upper[np.diag_indices(n)] *= 0.5
    largest = _largest_eigenvalue(lambda v: upper @ v + upper.T @ v, n)
    # The product of D with itself rounds, and underflows.
    missing = math.sqrt((n + 2) * UNIT * 1.001) * float(np.linalg.norm(D)) + n * LOST_SQUARES
    return MARGIN * (math.sqrt(largest) + missing)


def _largest_eigenvalue(product: Callable[[FloatArray], FloatArray], n: int) -> float:
    """Not below it, of a matrix of entries that are not negative: max (M v)_i / v_i."""
    v, bound = np.ones(n), math.inf
    for _ in range(NORM_TURNS):
        image = product(v)
        bound = min(bound, float((image / v).max()))
        v = image / (image.max() or 1.0) + 1e-12
    return MARGIN * bound * (1.0 + 8.0 * n * UNIT)
