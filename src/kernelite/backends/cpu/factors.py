"""q = |L^-1 x|^2 by products instead of solving, with proven bounds: L's inverse, or eigenvectors.

*By the inverse.* W is a computed inverse of L with |W L - I| <= e, so that L^-1 x is within
e / (1 - e) of W x, relatively: whatever the condition of L is, its product with W says it all.

*By eigenvectors.* U and g are computed eigenvectors and eigenvalues of L L'. With T = g^-1/2 U' and
|(T L)'(T L) - I| <= f, q is |T x|^2 up to a factor between 1 / (1 + f) and 1 / (1 - f). Of that sum
the m terms with the largest g are computed. The rest is sum (u_i.x)^2 / g_i, where

    R = sum (u_i.x)^2 = |x|^2 - sum of the m terms (u_i.x)^2,    up to |U'U - I| |x|^2,

is known, so that the rest lies between R / g_(m+1) and R / g_n. Smooth kernels in few features
leave next to nothing: some dozens of eigenvectors answer for thousands of training rows.

Norms of matrices are Frobenius', where nothing else is said, and a product of length n errs by n
units of the product of norms, in whatever order it is summed. Matrices may have zeros for padding,
which add nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FloatArray
from kernelite.series.rounding import UNIT
from kernelite.support.records import dataclass

__all__ = [
    "MARGIN",
    "Eigenvectors",
    "InverseFactor",
    "Number",
    "deviation_bound",
    "error_of_square",
]

NEAR_IDENTITY = 0.05  # of the identity: an inverse or eigenvectors farther off are not used
MARGIN = 1.0 + 1e-6  # for what bounds themselves round
LEAST_SHARED_WIDTH = 1000  # whose triangle takes longer to read than a thread to wake
PANELS_PER_THREAD = 8
Number = TypeVar("Number", float, FloatArray)


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

    def square(self, x: FloatArray, moved: float) -> tuple[float, float]:
        """The same of one row x of shape (n,), which is overwritten."""
        length = math.sqrt(float(x.dot(x)))
        slack = self.size * MARGIN * ((len(x) + 2) * UNIT * length + moved)
        found = float(self._found(x[None])[0])
        return found, error_of_square(found, slack, len(x), self.off)

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
        return error_of_square(found, slack, len(self.matrix), self.off)


def error_of_square(found: Number, slack: Number, n: int, off: float) -> Number:
    """(2 r + slack) slack, n + 4 units of r^2, and t (r + slack)^2, where r^2 was found."""
    t = 2.0 * off / (1.0 - off) ** 2
    shift = (2.0 * found**0.5 + slack) * slack
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

    def square(self, x: FloatArray, moved: float) -> tuple[float, float]:
        """As that of `InverseFactor`; x stays."""
        found, error = self.squares(x[None], np.full(1, moved))
        return float(found[0]), float(error[0])

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
