"""How far a row may move before its label can change: a proven lower bound.

For each score f a function D(r) bounds |f(z + w) - f(z)| for all |w| <= r. The head then says, as
it does for bounds of any other kind, whether the label is the same for all scores within D(r). The
radius is the largest r for which it is, found by halving: the nearest point with another label is
at least that far away.

RBF terms: the proof stands before `gaussian_change`.

Other kernels: linear ones by |w.g|; polynomials by (|a_i| + t_i)^p - |a_i|^p, where t_i is what the
argument a_i can move by; Laplacian ones by exp(gamma |w|_1) - 1; Matern, rational quadratic and
sigmoid ones by their largest slope.

Everything is rounded up: errors of kernel values (`slopes`) enter each sum in absolute value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kernelite.data.rows.inputs import FloatArray, row_blocks
from kernelite.explain.slopes import Slope, has_slope, slope_of
from kernelite.explain.terms import SeenBy, scales, seen_by
from kernelite.machine.exactly import UNIT
from kernelite.machine.kernels import (
    Gaussian,
    Laplacian,
    Matern,
    PolynomialKernel,
    ProductKernel,
    RationalQuadratic,
    Rbf,
    SigmoidKernel,
)
from kernelite.model.fields import ModelFields
from kernelite.support.errors import InputError, UnsupportedModelError

__all__ = ["radius"]

DISTANCES_AT_ONCE = 1 << 21  # rows times centers times features of a block
HALVINGS = 18  # of a range of 2^40: radii are within 2e-4 of the largest that is proven
SMALLEST_SHARE = 2.0**-40  # of the largest radius looked at

Change: TypeAlias = Callable[[FloatArray], FloatArray]
"""|f(z + w) - f(z)| at most, for |w| <= r: (m,) to (m, k)."""


def radius(model: ModelFields, X: Any, *, norm: str = "l2") -> FloatArray:
    """How far each row's label holds: see `CompiledModel.radius`."""
    if norm not in ("l2", "linf"):
        raise InputError(f"`norm` must be 'l2' or 'linf', got {norm!r}.")
    if not model.head.proves_labels:
        raise InputError(
            f"a radius says how far a label holds, but this {model.head.kind} answers no labels; "
            "`gradient` says how fast its values change."
        )
    if model.guarantee == "calibrated":
        raise InputError("guarantee='calibrated' is statistical: no label is proven.")
    seen = seen_by(model, X)
    stretches = [ROUNDED_UP * scales(model, own) for own in seen]
    sizes = [own.expansion.n_centers * own.expansion.n_features for own in seen]
    out = np.zeros(len(seen[0].rows))
    norms: dict[Any, FloatArray] = {}
    with np.errstate(all="ignore"):  # what overflows has an infinite bound, so the radius is 0
        for block in row_blocks(len(out), max(1, DISTANCES_AT_ONCE // max(1, *sizes))):
            parts = [_part(own, block) for own in seen]
            out[block] = _of_block(model, parts, stretches, norm, norms)
    return out


def _part(own: SeenBy, block: slice) -> SeenBy:
    return SeenBy(own.model, own.outputs, own.rows[block], own.moves[block])


def _of_block(
    model: ModelFields,
    seen: list[SeenBy],
    stretches: list[FloatArray],
    norm: str,
    norms: dict[Any, FloatArray],
) -> FloatArray:
    m, k = len(seen[0].rows), model.head.n_scores
    scores, bounds = np.zeros((m, k)), np.zeros((m, k))
    changes: list[tuple[Any, Change]] = []
    largest = np.zeros(m)
    for own, scale in zip(seen, stretches):
        scores[:, own.outputs] += own.expansion.intercept
        bounds[:, own.outputs] += own.expansion.known.intercept
        bounds[:, own.outputs] += 8.0 * UNIT * np.abs(own.expansion.intercept)
        for change, value, error, reach in _terms(own, scale, norm, norms):
            scores[:, own.outputs] += value
            bounds[:, own.outputs] += error
            changes.append((own.outputs, change))
            largest = np.fmax(largest, reach)
    bounds += 8.0 * UNIT * np.abs(scores)

    known = np.isfinite(scores)
    scores[~known], bounds[~known] = 0.0, np.inf

    def holds(r: FloatArray) -> Any:
        total = bounds.copy()
        for outputs, change in changes:
            total[:, outputs] += ROUNDED_UP * change(r)
        total[np.isnan(total)] = np.inf
        return np.asarray(model.head.decided(scores, total))

    return _largest(holds, m, np.where(np.isfinite(largest), largest, 0.0))


def _largest(holds: Any, m: int, largest: FloatArray) -> FloatArray:
    """The largest radius that was seen to hold, by halving in logarithms; 0 where none does.

    `largest`, shape (m,), are those looked at first.
    """
    proven = np.zeros(m)
    low, high = np.full(m, math.log2(SMALLEST_SHARE)), np.zeros(m)
    for shares in (low, high):
        r = largest * np.exp2(shares)
        proven = np.where(holds(r), r, proven)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        r = largest * np.exp2(middle)
        sure = holds(r)
        proven = np.where(sure, np.maximum(proven, r), proven)
        low, high = np.where(sure, middle, low), np.where(sure, high, middle)
    return proven * (1.0 - 1e-9)


# What changes, term by term.


def _terms(own: SeenBy, scale: FloatArray, norm: str, norms: dict[Any, FloatArray]) -> Any:
    """(change, value, its error, radii of rows beyond which nothing is looked for) of each term."""
    for amplitude, factors in own.expansion.kernel.terms:
        kernel: Any = factors[0] if len(factors) == 1 else ProductKernel(factors)
        if type(kernel) in _BALLS:
            yield _ball(own, kernel, amplitude, scale, norm, norms)
        else:
            yield _plain(own, kernel, amplitude, scale, norm)


def _ball(
    own: SeenBy, kernel: Any, amplitude: float, scale: FloatArray, norm: str, norms: Any
) -> Any:
    """An RBF term, its rows divided by its length scales; the radius is in users' units."""
    gamma, factor = _BALLS[type(kernel)](kernel)
    inverse = np.broadcast_to(factor, scale.shape)
    moves = (own.moves + 2.0 * UNIT * np.abs(own.rows)) * inverse
    own = SeenBy(own.model, own.outputs, own.rows * inverse, moves)
    *made, reach = gaussian_change(own, gamma, amplitude, scale * inverse, norm, norms, inverse)
    return *made, reach * _inverse(scale * inverse)


_BALLS: dict[type, Callable[[Any], tuple[float, Any]]] = {
    Gaussian: lambda kernel: (kernel.gamma, 1.0),
    Rbf: lambda kernel: (0.5, 1.0 / np.array(kernel.length_scale)),
}
"""Kernels whose change `gaussian_change` bounds: gamma, and what rows are multiplied with."""


def _inverse(scale: FloatArray) -> float:
    """How far a row moves for a step of one of its features, at most."""
    least = float(scale.min(initial=np.inf, where=scale > 0.0))
    return 1.0 / least if np.isfinite(least) else 1.0


@dataclass(frozen=True, eq=False)
class _Sum:
    """sum_i A_i k(x_i, z) for rows Z, centers C and a kernel other than RBF."""

    kernel: Any
    found: Slope
    signed: FloatArray  # (n, k): A
    weights: FloatArray  # (n, k): |A|, and all that is lost of it
    Z: FloatArray
    C: FloatArray
    scale: FloatArray
    norm: str

    @property
    def ways(self) -> FloatArray:
        """What x_i.w is at most for |w| <= 1: shape (1, n)."""
        return dual_lengths(self.scale * self.C, self.norm)[None, :] * ROUNDED_UP


def _plain(own: SeenBy, kernel: Any, amplitude: float, scale: FloatArray, norm: str) -> Any:
    """Kernels other than RBF, by how fast they can change at most."""
    if type(kernel) not in _CHANGES or not has_slope(kernel):
        raise UnsupportedModelError(
            "how far a label holds is known for RBF, Laplacian, Matern (1/2, 3/2, 5/2), rational "
            "quadratic, linear, polynomial and sigmoid kernels and their sums; this model has: "
            f"{kernel.label}."
        )
    known, C, Z = own.expansion.known, own.expansion.dense_centers(), own.rows
    signed = amplitude * own.expansion.coefficients
    moved = own.moves + 1.01 * known.centers * np.abs(C).max(axis=0, initial=0.0)
    away = 1.01 * np.sqrt(np.square(moved).sum(axis=1, keepdims=True))
    found = slope_of(kernel, Z, C, away)
    lost = amplitude * known.coefficients
    largest = (np.abs(found.value) + found.value_error).max(axis=1, initial=0.0, keepdims=True)
    rounding = found.value_error + (len(C) + 8.0) * UNIT * np.abs(found.value)
    error = 1.05 * rounding @ np.abs(signed) + lost * largest
    change = _CHANGES[type(kernel)](
        _Sum(kernel, found, signed, np.abs(signed) + lost, Z, C, scale, norm)
    )
    size = np.maximum(np.abs(Z).max(axis=1, initial=0.0), np.abs(C).max(initial=1.0))
    return change, found.value @ signed, error, 1e3 * size * _inverse(scale)


def _polynomial(of: _Sum) -> Change:
    gamma, p, ways, A = of.kernel.gamma, of.kernel.degree, of.ways, of.weights
    if p == 1:
        slopes = gamma * dual_lengths((of.signed.T @ of.C) * of.scale, of.norm) * ROUNDED_UP
        lost = (A - np.abs(of.signed)).max(axis=0, initial=0.0)
        slack = gamma * (len(of.C) + 8.0) * UNIT * (ways @ A)[0]
        slack = slack + gamma * ways.max(initial=0.0) * lost
        return lambda r: r[:, None] * (slopes + slack)
    norms = (np.sqrt(np.square(rows).sum(axis=1)) for rows in (of.Z, of.C))
    terms = gamma * np.multiply.outer(*norms) + abs(of.kernel.coef0)
    size = np.abs(gamma * (of.Z @ of.C.T) + of.kernel.coef0) + 1e-9 * terms

    def grows(r: FloatArray) -> FloatArray:
        t = gamma * r[:, None] * ways
        # (s + t)^p - s^p <= p t (s + t)^(p - 1)
        return (p * t * (size + t) ** (p - 1)) @ A

    return grows


def _sigmoid(of: _Sum) -> Change:
    slopes = of.ways @ of.weights
    return lambda r: of.kernel.gamma * r[:, None] * slopes


def _laplacian(of: _Sum) -> Change:
    way = of.scale.sum() if of.norm == "linf" else np.sqrt(np.square(of.scale).sum())
    steep = of.kernel.gamma * float(way)
    sizes = (of.found.value + of.found.value_error) @ of.weights
    return lambda r: np.expm1(np.minimum(steep * r, 700.0))[:, None] * sizes


def _radial(of: _Sum) -> Change:
    inverse = of.scale / np.broadcast_to(np.array(of.kernel.length_scale), of.scale.shape)
    way = np.sqrt(np.square(inverse).sum()) if of.norm == "linf" else inverse.max()
    steep = float(np.asarray(of.kernel.slope(np.inf)).max()) * float(way)
    return lambda r: steep * r[:, None] * of.weights.sum(axis=0)


_CHANGES: dict[type, Callable[[_Sum], Change]] = {
    PolynomialKernel: _polynomial,
    SigmoidKernel: _sigmoid,
    Laplacian: _laplacian,
    Matern: _radial,
    RationalQuadratic: _radial,
}
"""How much a sum of each kernel changes at most."""


# How far RBF scores can change when a row moves by at most r, in a ball or a box.
#
# Write c_i = A_i k(x_i, z), q_i = 2 gamma (z - x_i) and S(w) = sum_i c_i exp(-w.q_i), so
# that f(z + w) - b = exp(-e) S(w) with e = gamma |w|^2. With g = sum c_i q_i, Q = sum c_i q_i q_i',
# R(r) = sum_i |c_i| psi(r |q_i|) and psi(t) = exp(t) - 1 - t - t^2/2,
#
#     |S(w) - S(0)| <= r |g| + r^2 |Q| / 2 + R(r) =: G(r),
#     D(r) <= r |g| + r^2 |Q - 2 gamma S(0)| / 2 + R(r) + e G(r) + e^2 (|S(0)| + G(r)) / 2.
#
# Without Q, which costs d^2 per center, psi(t) = exp(t) - 1 - t and (1 - exp(-e)) |S(0)| stand in
# its place. Far away, no kernel value changes by more than from the nearest to the farthest point
# of the ball, and no f by more than |f|_H sqrt(2 - 2 exp(-gamma r^2)), where |f|_H is its norm in
# the kernel's Hilbert space. Each of these holds, so the least counts.
#
# Boxes, |w_l| <= r: |w.q| <= r |q|_1, w'Qw <= r^2 sum |Q_jl|, |w|^2 <= d r^2. Rows that come
# through a scaler move by s_l w_l there, which goes into q, Q and e.


MOST_CURVATURE = 1e8  # multiply-adds per row for matrices Q; beyond, they are left out
LARGEST_NORM = 4000  # centers of which all pairs are taken for |f|_H
ROUNDED_UP = 1.0 + 1e-9  # what is multiplied with, so that it is not below the real number


def dual_lengths(vectors: FloatArray, norm: str) -> FloatArray:
    """The dual norm along the last axis: what w.q is at most, for |w| <= 1."""
    if norm == "linf":
        return np.abs(vectors).sum(axis=-1)
    return np.sqrt(np.square(vectors).sum(axis=-1))


@dataclass(frozen=True, eq=False)
class _Gaussian:
    """D(r) of RBF terms; m rows, n centers, k outputs."""

    gamma: float  # at most
    least_gamma: float
    stretch: float  # |scaled w| is at most this times r
    lengths: FloatArray  # (m, n): |q_i|
    distances: FloatArray  # (m, n): at most, of row and center
    moved: FloatArray  # (m, 1): how far a distance may be off
    values: FloatArray  # (m, n): k, rounded up
    weights: FloatArray  # (n, k): |A|
    slopes: FloatArray  # (m, k): |g|
    curvatures: FloatArray | None  # (m, k): |Q - 2 gamma S(0)|
    bends: FloatArray | None  # (m, k): |Q|
    sums: FloatArray  # (m, k): |S(0)|
    norm: FloatArray  # (k,): |f|_H, or infinite

    def __call__(self, r: FloatArray) -> FloatArray:
        """D(r), shape (m, k)."""
        r = r[:, None]
        t = r * self.lengths
        e = self.gamma * (self.stretch * r) ** 2
        grown = np.expm1(np.minimum(t, 700.0))
        first = (self.values * _above(grown - t, t, 2)) @ self.weights
        plain = r * self.slopes
        least = plain + first - np.expm1(-e) * self.sums
        if self.curvatures is not None and self.bends is not None:
            third = (self.values * _above(grown - t - 0.5 * t * t, t, 3)) @ self.weights
            G = plain + 0.5 * r * r * self.bends + third
            second = plain + 0.5 * r * r * self.curvatures + third
            second = second + e * G + 0.5 * e * e * (self.sums + G)
            least = np.fmin(least, second)
        least = np.fmin(least, self._apart(r))
        # Infinity times zero says nothing: whichever is a number counts.
        return np.fmin(least, self.norm * np.sqrt(-2.0 * np.expm1(-e)) * ROUNDED_UP)

    def _apart(self, r: FloatArray) -> FloatArray:
        """By how far kernel values move when the ball's nearest and farthest points count."""
        way = self.stretch * r + self.moved
        # Distances and gamma are rounded up, which a nearest point must not be.
        nearest = np.maximum(self.distances * (1.0 - 4e-9) - way, 0.0)
        near = np.exp(-self.least_gamma * np.square(nearest))
        far = np.exp(-self.gamma * np.square(self.distances + way))
        return (np.maximum(near - far, 0.0) * ROUNDED_UP + 1e-14) @ self.weights


def _above(value: FloatArray, t: FloatArray, order: int) -> FloatArray:
    """exp(t) less its first terms, not below the real: where they cancel, by a power times exp."""
    series = t**order / math.factorial(order) * np.exp(np.minimum(t, 700.0))
    found = np.where(t < 0.1, series, value * (1.0 + 1e-9)) * ROUNDED_UP
    return np.where(t < 700.0, found, np.inf)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Rows and centers of an RBF term: gaps, kernel values, and how far each may be off."""

    q: FloatArray  # (m, n, d): 2 gamma (z - x_i), stretched
    q_error: FloatArray  # (m, 1): of |q_i|
    lengths: FloatArray  # (m, n): |q_i|, at most
    distances: FloatArray  # (m, n): at most
    away: FloatArray  # (m, 1): how far a distance may be off
    values: FloatArray  # (m, n): k
    errors: FloatArray  # (m, n): of k, with what sums over centers round

    @classmethod
    def of(
        cls, own: SeenBy, centers: FloatArray, gamma: float, scale: FloatArray, norm: str
    ) -> _Pairs:
        (n, d), known = centers.shape, own.expansion.known
        moved = own.moves + 1.01 * known.centers * np.abs(centers).max(axis=0, initial=0.0)
        Z, C = _about_middle(own.rows, centers)
        moved = moved + 4.0 * UNIT * (np.abs(Z) + np.abs(C).max(axis=0, initial=0.0))
        gaps = Z[:, None, :] - C[None, :, :]
        distances = np.sqrt(np.square(gaps).sum(axis=2)) * ROUNDED_UP
        away = np.sqrt(np.square(moved).sum(axis=1, keepdims=True))
        farthest = distances.max(axis=1, initial=0.0, keepdims=True)
        away = 1.01 * (away + 0.5 * known.gamma * farthest)
        found = slope_of(Gaussian(gamma), Z, C, away)
        q = 2.0 * gamma * scale * gaps
        q_error = 2.02 * gamma * dual_lengths(scale * moved, norm)[:, None]
        return cls(
            q,
            q_error,
            dual_lengths(q, norm) * ROUNDED_UP + q_error,
            distances,
            away,
            found.value,
            found.value_error + (n + d + 16.0) * UNIT * found.value,
        )


def _about_middle(rows: FloatArray, centers: FloatArray) -> tuple[FloatArray, FloatArray]:
    point = centers.mean(axis=0) if len(centers) else np.zeros(centers.shape[1])
    return rows - point, centers - point


def gaussian_change(
    own: SeenBy,
    gamma: float,
    amplitude: float,
    scale: FloatArray,
    norm: str,
    norms: dict[Any, FloatArray],
    inverse: FloatArray,
) -> tuple[Change, FloatArray, FloatArray, float]:
    """D of an RBF term; its values and their errors, (m, k); a radius beyond which none is asked.

    Parameters
    ----------
    own : SeenBy
        Rows divided by the term's length scales.
    gamma, amplitude : float
    scale : ndarray of shape (d,)
        What a step of a row's column is multiplied with on its way to the term.
    norm : {"l2", "linf"}
    norms : dict
        Where |f|_H is kept from block to block.
    inverse : ndarray of shape (d,)
        What centers are multiplied with.
    """
    expansion, known = own.expansion, own.expansion.known
    A, centers = amplitude * expansion.coefficients, expansion.dense_centers() * inverse
    upper, lost = np.abs(A), amplitude * known.coefficients
    pairs = _Pairs.of(own, centers, gamma, scale, norm)
    value = pairs.values @ A
    error = 1.05 * (pairs.errors @ upper) + lost
    squared = np.square(scale)
    stretch = math.sqrt(squared.max(initial=0.0) if norm == "l2" else squared.sum()) * ROUNDED_UP
    key = id(expansion), amplitude, inverse.tobytes()
    if key not in norms:
        norms[key] = _norms(centers, A, gamma, known.centers, lost)
    bends, curvatures = _curvatures(pairs, A, value, error, lost, gamma, scale, stretch, norm)
    change = _Gaussian(
        gamma * (1.0 + known.gamma) * ROUNDED_UP,
        gamma * max(1.0 - known.gamma, 0.0) / ROUNDED_UP,
        stretch,
        pairs.lengths,
        pairs.distances,
        pairs.away,
        pairs.values + pairs.errors,
        upper * ROUNDED_UP,
        _slopes(pairs, A, lost, norm),
        curvatures,
        bends,
        np.abs(value) + error,
        norms[key],
    )
    reach = pairs.distances.max(axis=1, initial=0.0) + 6.0 / math.sqrt(gamma)
    return _with_lost(change, 2.0 * lost), value, error, reach


def _slopes(pairs: _Pairs, A: FloatArray, lost: FloatArray, norm: str) -> FloatArray:
    """|g| of each row and output, (m, k), at most."""
    sums = [np.matmul((pairs.values * a)[:, None, :], pairs.q)[:, 0] for a in A.T]
    found = np.stack([dual_lengths(g, norm) for g in sums], axis=1)
    errors = (pairs.errors * pairs.lengths + pairs.values * pairs.q_error) @ np.abs(A)
    return found * ROUNDED_UP + 1.05 * errors + lost * _largest_of(pairs.lengths)


def _largest_of(array: FloatArray) -> FloatArray:
    return array.max(axis=1, initial=0.0, keepdims=True) * 1.05


def _with_lost(change: Change, lost: FloatArray) -> Change:
    """Errors of the coefficients change a kernel value's share by at most themselves, twice."""
    if not lost.any():
        return change
    return lambda r: change(r) + lost


def _curvatures(
    pairs: _Pairs,
    A: FloatArray,
    value: FloatArray,
    error: FloatArray,
    lost: FloatArray,
    gamma: float,
    scale: FloatArray,
    stretch: float,
    norm: str,
) -> tuple[FloatArray | None, FloatArray | None]:
    """|Q| and |Q - 2 gamma S(0) scale^2| of each row and output, (m, k), at most."""
    n, d = pairs.q.shape[1:]
    if A.shape[1] * n * d * d > MOST_CURVATURE:
        return None, None
    squares, upper = pairs.lengths * pairs.lengths, np.abs(A)
    moved = 2.0 * pairs.values * pairs.q_error * pairs.lengths
    more = 1.05 * (pairs.errors * squares + moved) @ upper + lost * _largest_of(squares)
    more = more + 2.02 * gamma * stretch**2 * error
    found = [np.empty(value.shape), np.empty(value.shape)]
    for j, a in enumerate(A.T):
        Q = np.matmul((pairs.q * (pairs.values * a)[:, :, None]).transpose(0, 2, 1), pairs.q)
        H = Q - 2.0 * gamma * value[:, j, None, None] * np.diag(np.square(scale))
        for out, matrix in zip(found, (Q, H)):
            out[:, j] = _matrix_norm(matrix, norm)
    return found[0] + more, found[1] + more


def _matrix_norm(matrix: FloatArray, norm: str) -> FloatArray:
    """What |w'Mw| is at most for |w| <= 1, of matrices (m, d, d)."""
    if norm == "linf":
        return np.abs(matrix).sum(axis=(1, 2)) * ROUNDED_UP
    d, sizes = matrix.shape[1], np.sqrt(np.square(matrix).sum(axis=(1, 2)))
    if not (known := np.isfinite(sizes)).all():
        found = np.full(len(matrix), np.inf)
        found[known] = _matrix_norm(matrix[known], norm)
        return found
    values = np.abs(np.linalg.eigvalsh((matrix + matrix.transpose(0, 2, 1)) / 2.0))
    return values.max(axis=1, initial=0.0) + 8.0 * d * d * UNIT * sizes


def _norms(
    centers: FloatArray, A: FloatArray, gamma: float, moves: float, lost: FloatArray
) -> FloatArray:
    """|f|_H of each output, rounded up; infinite where there are too many centers.

    Coefficients that are off by `lost` in all change the norm by no more, since |k(x, .)|_H = 1.
    """
    n = len(centers)
    if n > LARGEST_NORM or not n:
        return np.full(A.shape[1], np.inf)
    C, _ = _about_middle(centers, centers)
    lengths = (np.sqrt(np.square(rows).sum(axis=1, keepdims=True)) for rows in (centers, C))
    farthest = (moves + 8.0 * UNIT) * next(lengths) + 8.0 * UNIT * next(lengths)
    found = slope_of(Gaussian(gamma), C, C, 1.01 * (farthest + farthest.max()))
    squares = np.einsum("ik,ij,jk->k", A, found.value, A, optimize=True)
    upper = np.abs(A)
    off = found.value_error + (2.0 * n + 16.0) * UNIT * found.value
    squares = squares + 1.05 * np.einsum("ik,ij,jk->k", upper, off, upper, optimize=True)
    return (np.sqrt(np.maximum(squares, 0.0)) + lost) * ROUNDED_UP
