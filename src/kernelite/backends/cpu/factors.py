"""q = |L^-1 x|^2 by products instead of solving, with proven bounds: L's inverse, or eigenvectors.

*By the inverse.* W is a computed inverse of L with |W L - I| <= e, so that L^-1 x is within
e / (1 - e) of W x, relatively: whatever the condition of L is, its product with W says it all.

*By eigenvectors.* U and g are computed eigenvectors and eigenvalues of L L'. With T = g^-1/2 U' and
|(T L)'(T L) - I| <= f, q is |T x|^2 up to a factor between 1 / (1 + f) and 1 / (1 - f). Of that sum
the m terms with the largest g are computed. The rest is sum (u_i.x)^2 / g_i, where

    R = sum (u_i.x)^2 = |x|^2 - sum of the m terms (u_i.x)^2,    up to |U'U - I| |x|^2,

is known, so that the rest lies between R / g_(m+1) and R / g_n. Smooth kernels in few features
leave next to nothing: some dozens of eigenvectors answer for thousands of training rows.

*By both.* x = U_m c + y, with c = U_m'x of the m leading eigenvectors and y what is left. Then

    q = sum c_i^2 / g_i + |L^-1 y|^2,    up to what U'U - I, f and roundings of c can add,

and y is so short that W y is good enough in single precision, which takes half the time.

All norms of matrices are Frobenius', and a product of length n errs by n units of the product of
norms, in whatever order it is summed. Matrices may have zeros for padding, which add nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.series.rounding import SINGLE_UNIT, UNIT
from kernelite.support.records import dataclass

__all__ = ["MARGIN", "Eigenvectors", "InverseFactor", "ShortRest", "deviation_bound"]

NEAR_IDENTITY = 0.05  # of the identity: an inverse or eigenvectors farther off are not used
MARGIN = 1.0 + 1e-6  # for what bounds themselves round
SHORTEST = 1e-15  # of |y|: squares below that may underflow in single precision
TINY_SINGLES = 2e-45 * 4.0  # what a product in single precision may lose to underflow


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
        found = _squares(_product(self.matrix, X))
        slack = self.size * MARGIN * ((len(self.matrix) + 2) * UNIT * lengths + moved)
        return found, self.error(found, slack)

    def error(self, found: FloatArray, slack: FloatArray) -> FloatArray:
        """Of |L^-1 x|^2 found as |W x|^2, whose W x may be off by `slack`."""
        root = np.sqrt(found)
        error = (2.0 * root + slack) * slack + (len(self.matrix) + 4) * UNIT * found
        error += 2.0 * self.off / (1.0 - self.off) ** 2 * (root + slack) ** 2
        return MARGIN * error


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


def _product(W: NDArray[Any], X: NDArray[Any]) -> NDArray[Any]:
    """W x of rows x, shape (m, n), in their place; W is lower triangular, in columns."""
    from scipy.linalg import blas

    if len(X) == 1:
        times = blas.dtrmv if W.dtype == np.float64 else blas.strmv
        return np.asarray(times(W, X[0], lower=1, overwrite_x=1))[None]
    times = blas.dtrmm if W.dtype == np.float64 else blas.strmm
    return np.asarray(times(1.0, W, X.T, lower=1, overwrite_b=1)).T


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
    """Leading eigenvectors in doubles, and the inverse in single precision for what they leave.

    Parameters
    ----------
    leading : Eigenvectors
    inverse : InverseFactor
        Of W rounded to single precision.
    reach : float
        Not below the spectral norm of |W|.
    """

    leading: Eigenvectors
    inverse: InverseFactor
    reach: float

    @classmethod
    def of(cls, leading: Eigenvectors, inverse: InverseFactor, factor: FloatArray) -> Any:
        """With W in single precision; None where that is no inverse any more."""
        W = inverse.matrix.astype(np.float32)
        n = len(factor)
        L = np.asfortranarray(np.tril(factor))
        doubles = np.asfortranarray(W[:n, :n].astype(np.float64))
        off = _distance(doubles, L)
        if not off < NEAR_IDENTITY:
            return None
        single = InverseFactor(W, MARGIN * float(np.linalg.norm(doubles)), off)  # type: ignore[arg-type]
        return cls(leading, single, _norm_of_sizes(doubles))

    def squares(self, X: FloatArray, moved: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As those of `InverseFactor`; X is overwritten."""
        lead = self.leading
        (n, m), lengths = lead.vectors.shape, np.sqrt(_squares(X))
        C = X @ lead.vectors
        known = np.square(C) @ (1.0 / lead.values)
        sizes = np.sqrt(_squares(C))
        X -= C @ lead.vectors.T
        Y = X.astype(np.float32)
        shorts = np.sqrt(_squares(Y)) * (1.0 + 4.0 * n * SINGLE_UNIT) + SHORTEST
        V = _product(self.inverse.matrix, Y)
        rest = np.einsum("ij,ij->i", V, V, dtype=np.float64)
        # y as it is here, in singles, is off by what the doubles lost before, and by one rounding.
        lost = (m + 4) * UNIT * (lengths + math.sqrt(m) * sizes) + SINGLE_UNIT * shorts
        slack = (n + 2) * SINGLE_UNIT * (1.0 + 2.0 * n * SINGLE_UNIT) * self.reach * shorts
        slack += self.inverse.size * (lost + moved) + TINY_SINGLES * n * (1.0 + self.reach)
        error = self.inverse.error(rest, MARGIN * slack)
        error += self._crossing(known, sizes, shorts + lost + moved, lead.slack(lengths, moved))
        error += 2.0 * lead.off * self._whole(known, rest, slack, sizes) ** 2
        return known + rest, MARGIN * (error + 4.0 * UNIT * (known + rest))

    def _whole(
        self, known: FloatArray, rest: FloatArray, slack: FloatArray, sizes: FloatArray
    ) -> FloatArray:
        """Not below the root of q, but for what the inverse and f are off by."""
        other = self.leading.skewed * sizes / math.sqrt(self.leading.least)
        return np.asarray(np.sqrt(known) + np.sqrt(rest) + slack + other)

    def _crossing(
        self, known: FloatArray, sizes: FloatArray, shorts: FloatArray, slack: FloatArray
    ) -> FloatArray:
        """What is between the two parts, since eigenvectors are not quite orthogonal.

        With O = U'U - I, U'(U_m c) is c and O c. U'y is off zero in the leading places by what c
        is off, and by O c.
        """
        lead = self.leading
        skewed = lead.skewed * sizes
        first = (slack + skewed) / math.sqrt(float(lead.values[-1]))
        other = skewed / math.sqrt(lead.least)
        rounded = (len(lead.values) + 4) * UNIT * known
        own = (2.0 * np.sqrt(known) + other) * other + rounded
        between = (np.sqrt(known) + other) * first
        between += other / math.sqrt(lead.least) * (1.0 + lead.skewed) * shorts
        return np.asarray(own + 2.0 * between + first * first)


def _norm_of_sizes(W: FloatArray) -> float:
    """Not below the spectral norm of |W|: M = |W|'|W| has no eigenvalue above max (M v)_i / v_i."""
    sizes = np.abs(W)
    v = np.ones(len(W))
    bound = math.inf
    for _ in range(30):
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
