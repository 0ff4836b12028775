"""q = |L^-1 x|^2 by products instead of solving, with proven bounds: L's inverse, or eigenvectors.

*By the inverse.* W is a computed inverse of L with |W L - I| <= e, so that L^-1 x is within
e / (1 - e) of W x, relatively: whatever the condition of L is, its product with W says it all.

*By eigenvectors.* U and g are computed eigenvectors and eigenvalues of L L'. With T = g^-1/2 U' and
|(T L)'(T L) - I| <= f, q is |T x|^2 up to a factor between 1 / (1 + f) and 1 / (1 - f). Of that sum
the m terms with the largest g are computed. The rest is sum (u_i.x)^2 / g_i, where

    R = sum (u_i.x)^2 = |x|^2 - sum of the m terms (u_i.x)^2,    up to |U'U - I| |x|^2,

is known, so that the rest lies between R / g_(m+1) and R / g_n. Smooth kernels in few features
leave next to nothing: some dozens of eigenvectors answer for thousands of training rows.

*In single precision.* For any B of few columns and any c, x = B c + y and W x = (W B) c + W y. With
columns that span nearly what the leading eigenvectors do, and c = B'x, y is so short that W y is
good enough in single precision, which takes half the time. W is rounded first and taken as it is
then, with an e of its own; y is off by one rounding and by what B c rounds.

Norms of matrices are Frobenius', where nothing else is said, and a product of length n errs by n
units of the product of norms, in whatever order it is summed. Matrices may have zeros for padding,
which add nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FloatArray
from kernelite.series.rounding import SINGLE_UNIT, UNIT
from kernelite.support.records import dataclass

__all__ = [
    "BASIS_COLUMNS",
    "MARGIN",
    "Eigenvectors",
    "InverseFactor",
    "ShortRest",
    "deviation_bound",
    "leading_columns",
]

NEAR_IDENTITY = 0.05  # of the identity: an inverse or eigenvectors farther off are not used
MARGIN = 1.0 + 1e-6  # for what bounds themselves round
TINY_SINGLES = 2e-45 * 4.0  # what a number or a product in single precision may lose to underflow
BASIS_COLUMNS = 16  # of B: a panel of any processor takes so many; more take what singles save
BASIS_TURNS = 3  # after which B has the leading eigenvectors, nearly
NORM_TURNS = 12
LEAST_SHARED_WIDTH = 1000  # whose triangle takes longer to read than a thread to wake
PANELS_PER_THREAD = 8


@dataclass(frozen=True, eq=False)
class InverseFactor:
    """W, a computed inverse of L.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        W, lower triangular, in columns.
    size : float
        |W|, rounded up.
    off : float
        |W L - I|, rounded up.

    Examples
    --------
    >>> inverse = InverseFactor.of(np.array([[2.0, 0.0], [1.0, 1.0]]))
    >>> q, error = inverse.squares(np.array([[2.0, 3.0]]), np.zeros(1))
    >>> q, bool(error[0] < 1e-12)
    (array([5.]), True)
    """

    matrix: FloatArray
    size: float
    off: float

    @classmethod
    def of(cls, factor: FloatArray, width: int | None = None) -> InverseFactor | None:
        """Invert, and see how well; None where doubles do not do. Padded to a width."""
        from scipy.linalg.lapack import dtrtri

        L = np.asfortranarray(np.tril(factor))
        W, failed = dtrtri(L, lower=1)
        if failed or not np.isfinite(W).all():
            return None
        size, off = MARGIN * float(np.linalg.norm(W)), _distance(W, L)
        matrix = np.asfortranarray(_padded(W, width or len(W), width or len(W)))
        return cls(matrix, size, off) if off < NEAR_IDENTITY else None

    def squares(self, X: FloatArray, moved: FloatArray) -> tuple[FloatArray, FloatArray]:
        """q of each row x, shape (m,), and how far it may be off; X is overwritten.

        Parameters
        ----------
        X : ndarray of shape (m, n)
        moved : ndarray of shape (m,)
            |x - what it should be|.
        """
        lengths = np.sqrt(_squares(X))
        found = self._found(X)
        slack = self.size * MARGIN * ((len(self.matrix) + 2) * UNIT * lengths + moved)
        return found, self.error(found, slack)

    def _found(self, X: FloatArray) -> FloatArray:
        """|W x|^2 of each row."""
        if not jit_available():
            return _squares(_product(self.matrix, X))
        from kernelite.backends.cpu.kernels.triangle import double_squares, panel_squares

        if len(X) == 1 and len(self.matrix) >= LEAST_SHARED_WIDTH:
            parts = np.empty(len(self._places[0]))
            given = X[0], self._panels, *self._places, parts
            share_rows(panel_squares, len(parts), PANELS_PER_THREAD, *given)
            return parts.sum(keepdims=True)
        found = np.empty(len(X))
        double_squares(X, self._panels, found)
        return found

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        from kernelite.backends.cpu.kernels.triangle import panel_places

        return panel_places(len(self.matrix))

    @cached_property
    def _panels(self) -> FloatArray:
        from kernelite.backends.cpu.kernels.exp2 import DOUBLE
        from kernelite.backends.cpu.kernels.triangle import triangle_panels

        panels: FloatArray = triangle_panels(self.matrix, DOUBLE, len(self.matrix))
        return panels

    def error(self, found: FloatArray, slack: FloatArray) -> FloatArray:
        """Of |L^-1 x|^2 found as |W x|^2, whose W x may be off by `slack`."""
        return _error(found, slack, len(self.matrix), self.off)


def _error(found: FloatArray, slack: FloatArray, n: int, off: float) -> FloatArray:
    """(2 r + slack) slack, n + 4 units of r^2, and t (r + slack)^2, where r^2 was found."""
    t = 2.0 * off / (1.0 - off) ** 2
    shift = (2.0 * np.sqrt(found) + slack) * slack
    return MARGIN * (1.0 + t) * shift + MARGIN * (t + (n + 4) * UNIT) * found


def _distance(W: FloatArray, L: FloatArray) -> float:
    """|W L - I|, rounded up; both are lower triangular."""
    from scipy.linalg.blas import dtrmm

    n = len(L)
    product = np.asarray(dtrmm(1.0, W, L, lower=1))
    product[np.diag_indices(n)] -= 1.0
    rounded = (n + 2) * UNIT * float(np.linalg.norm(W)) * float(np.linalg.norm(L))
    return MARGIN * (float(np.linalg.norm(product)) + rounded)


def _padded(array: FloatArray, rows: int, columns: int) -> FloatArray:
    made = np.zeros((rows, columns), dtype=array.dtype)
    made[: array.shape[0], : array.shape[1]] = array
    return made


def _product(W: FloatArray, X: FloatArray) -> FloatArray:
    """W x of rows x, shape (m, n), in their place; W is lower triangular, in columns."""
    from scipy.linalg import blas

    return np.asarray(blas.dtrmm(1.0, W, X.T, lower=1, overwrite_b=1)).T


def _squares(X: NDArray[Any]) -> NDArray[Any]:
    """|x|^2 of each row."""
    return np.asarray(np.einsum("ij,ij->i", X, X))


@dataclass(frozen=True, eq=False)
class Eigenvectors:
    """The m leading eigenvectors of L L', and what is known of the others.

    Parameters
    ----------
    vectors : ndarray of shape (n, m)
        Orthonormal up to `skewed`.
    values : ndarray of shape (m,)
        Their eigenvalues.
    largest, least : float
        The ends of the other eigenvalues.
    skewed : float
        |U'U - I| of all n vectors, rounded up.
    off : float
        |(T L)'(T L) - I|, rounded up.
    """

    vectors: FloatArray
    values: FloatArray
    largest: float
    least: float
    skewed: float
    off: float

    @classmethod
    def all_of(cls, factor: FloatArray, width: int | None = None) -> Eigenvectors | None:
        """All n of them, padded to a width; `leading` keeps some."""
        L = np.tril(factor)
        n = len(L)
        with np.errstate(over="ignore", invalid="ignore"):
            values, U = np.linalg.eigh(L @ L.T)
        values, U = values[::-1].copy(), np.ascontiguousarray(U[:, ::-1])
        if not (np.isfinite(values).all() and values[-1] > 0.0):
            return None
        eye = np.diag_indices(n)
        product = U.T @ U
        product[eye] -= 1.0
        skewed = MARGIN * (float(np.linalg.norm(product)) + (n + 2) * UNIT * (n + 1.0))
        T = U.T / np.sqrt(values)[:, None]
        Y = T @ L
        rounded = (n + 6) * UNIT * float(np.linalg.norm(T)) * float(np.linalg.norm(L)) * MARGIN
        product = Y.T @ Y
        product[eye] -= 1.0
        off = float(np.linalg.norm(product)) + (n + 2) * UNIT * float(np.linalg.norm(Y)) ** 2
        off = MARGIN * (off + (2.0 * math.sqrt(1.0 + off) + rounded) * rounded)
        if not (off < NEAR_IDENTITY and skewed < NEAR_IDENTITY):
            return None
        least = float(values[-1])
        return cls(_padded(U, width or n, n), values, least, least, skewed, off)

    def leading(self, m: int) -> Eigenvectors:
        """The first m, of an object that has all."""
        return Eigenvectors(
            *(self.vectors[:, :m], self.values[:m]),
            *(float(self.values[m]), float(self.values[-1]), self.skewed, self.off),
        )

    def kept(self) -> Eigenvectors:
        """The same with room for these vectors alone."""
        return replace(self, vectors=np.ascontiguousarray(self.vectors), values=self.values.copy())

    def squares(self, X: FloatArray, moved: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As those of `InverseFactor`."""
        return self.of_products(X @ self.vectors, _squares(X), moved)

    def of_products(
        self, C: FloatArray, squares: FloatArray, moved: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """q from U'x of the rows, shape (m, leading), and |x|^2."""
        (n, m), length = self.vectors.shape, np.sqrt(squares)
        C = np.square(C)
        taken, known = C.sum(axis=1), C @ (1.0 / self.values)
        # How far U'x, its square and its weighted square may be off.
        slack = self.slack(length, moved)
        taken_off = (2.0 * np.sqrt(taken) + slack) * slack + (m + 2) * UNIT * taken
        scaled = slack / math.sqrt(float(self.values[-1]))
        known_off = (2.0 * np.sqrt(known) + scaled) * scaled + (m + 4) * UNIT * known
        moving = (self.skewed + (n + 2) * UNIT) * squares + (2.0 * length + moved) * moved
        left = squares - taken
        error = MARGIN * (taken_off + moving)
        low = np.maximum(left - error, 0.0) / self.largest
        high = np.maximum(left + error, 0.0) / self.least
        low, high = low / (1.0 + 4.0 * UNIT), high * (1.0 + 4.0 * UNIT)
        bottom = np.maximum(known - known_off, 0.0) + low
        top = known + known_off + high
        bottom, top = bottom / (1.0 + self.off), top / (1.0 - self.off)
        center = 0.5 * (bottom + top)
        return center, MARGIN * (0.5 * (top - bottom) + 4.0 * UNIT * top)

    def slack(self, lengths: FloatArray, moved: FloatArray) -> FloatArray:
        """How far U'x may be off."""
        n, m = self.vectors.shape
        rounded = (n + 2) * UNIT * math.sqrt(m) * lengths
        return np.asarray(MARGIN * (rounded + moved) * (1.0 + self.skewed))


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
        W, in panels of single precision.
    shape : tuple of two ints
        Width and columns of B.
    off : float
        |W L - I| of this W, rounded up.
    reach : float
        Not below the spectral norm of |W|.
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
    sizes: tuple[float, float, float]

    @classmethod
    def of(cls, inverse: InverseFactor, basis: FloatArray, factor: FloatArray) -> ShortRest | None:
        """With W in single precision; None where that is no inverse any more, or for want of loops.

        Parameters
        ----------
        inverse : InverseFactor
        basis : ndarray of shape (n, k)
            B of `BASIS_COLUMNS` at most, as `leading_columns` gives it, or any.
        factor : ndarray of shape (n, n)
            L.
        """
        if not jit_available():
            return None
        from kernelite.backends.cpu.kernels.exp2 import DOUBLE, SINGLE
        from kernelite.backends.cpu.kernels.triangle import in_panels, panel_across, triangle_panels

        n, width = len(factor), len(inverse.matrix)
        with np.errstate(over="ignore", invalid="ignore"):
            W = inverse.matrix[:n, :n].astype(np.float32).astype(np.float64)
            off = _distance(W, np.asfortranarray(np.tril(factor)))
        if not off < NEAR_IDENTITY:
            return None
        G = W @ basis
        B_size, G_size, W_size = (MARGIN * float(np.linalg.norm(one)) for one in (basis, G, W))
        return cls(
            panel_across(basis, width),
            in_panels(basis, DOUBLE, width),
            in_panels(G, SINGLE, width),
            triangle_panels(W, SINGLE, width),
            (width, basis.shape[1]),
            off,
            _norm_of_sizes(W),
            (B_size, G_size, W_size),
        )

    def squares(self, X: FloatArray, moved: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As those of `InverseFactor`."""
        from kernelite.backends.cpu.kernels.triangle import single_squares

        sums = np.empty((3, len(X)))
        single_squares(
            *(X, self.shape[1], self.across, self.basis, self.images, self.triangle),
            *sums,
        )
        found, (lengths, known) = sums[0], np.sqrt(sums[1:])
        of_length, of_known, of_moved, ever = self._losses
        slack = of_length * lengths + of_known * known + of_moved * moved + ever
        return found, _error(found, slack, self.shape[0], self.off)

    @cached_property
    def _losses(self) -> tuple[float, float, float, float]:
        """What W x may be off by, per |y|, |c| and |x - what it should be|, and in any case."""
        from kernelite.backends.cpu.kernels.triangle import TRIANGLE_COLUMNS

        (n, k), (B_size, G_size, W_size) = self.shape, self.sizes
        # y: a rounding to singles and one of the difference, those of B c, and underflow.
        y_length, y_known = SINGLE_UNIT * (1.0 + 1e-6), (k + 2) * UNIT * B_size
        y_ever = TINY_SINGLES * math.sqrt(n)
        # Sums of products with y as it is then.
        rounded = (TRIANGLE_COLUMNS + 2) * SINGLE_UNIT * (1.0 + 1e-4) + (n + 4) * UNIT
        all_of_y = self.reach * (1.0 + rounded) * MARGIN
        # G is what W B was computed as; sums begin with its products.
        images = ((n + 2) * W_size * B_size + (n + k + 4) * G_size) * UNIT * MARGIN
        return (
            all_of_y * y_length + self.reach * rounded * MARGIN,
            all_of_y * y_known + images,
            self.reach * MARGIN,
            all_of_y * y_ever + TINY_SINGLES * n**1.5,
        )


def leading_columns(factor: FloatArray, count: int = BASIS_COLUMNS) -> FloatArray:
    """Orthonormal columns that span nearly what the leading eigenvectors of L L' do."""
    L, random = np.tril(factor), np.random.default_rng(0)
    columns = random.normal(size=(len(L), min(count, len(L))))
    for _ in range(BASIS_TURNS):
        columns = np.linalg.qr(L @ (L.T @ columns))[0]
    return columns


def _norm_of_sizes(W: FloatArray) -> float:
    """Not below the spectral norm of |W|: M = |W|'|W| has no eigenvalue above max (M v)_i / v_i."""
    sizes = np.abs(W)
    v = np.ones(len(W))
    bound = math.inf
    for _ in range(NORM_TURNS):
        image = sizes.T @ (sizes @ v)
        bound = min(bound, float((image / v).max()))
        v = image / image.max() + 1e-12
    return MARGIN * math.sqrt(bound * (1.0 + 8.0 * len(W) * UNIT))


def deviation_bound(variances: FloatArray, errors: FloatArray) -> FloatArray:
    """How far the root of max(variance, 0) may be off, from how far the variance may be.

    Examples
    --------
    >>> deviation_bound(np.array([4.0, 0.0]), np.array([0.4, 0.09])).round(3)
    array([0.103, 0.3  ])
    """
    with np.errstate(invalid="ignore"):
        below = np.sqrt(np.maximum(variances - errors, 0.0))
        here = np.sqrt(np.maximum(variances, 0.0))
        above = np.sqrt(np.maximum(variances + errors, 0.0))
        found = MARGIN * np.maximum(here - below, above - here) + 4.0 * UNIT * above
    return np.where(np.isnan(found), np.inf, found)
