"""How far a row may move before its label can change: a proven lower bound.

For each score f a function D(r) bounds |f(z + w) - f(z)| for all |w| <= r. The head then says, as
it does for bounds of any other kind, whether the label is the same for all scores within D(r). The
radius is the largest r for which it is, found by halving: the nearest point with another label is
at least that far away.

RBF terms. Write c_i = A_i k(x_i, z), q_i = 2 gamma (z - x_i) and S(w) = sum_i c_i exp(-w.q_i), so
that f(z + w) - b = exp(-e) S(w) with e = gamma |w|^2. With g = sum c_i q_i, Q = sum c_i q_i q_i',
R(r) = sum_i |c_i| psi(r |q_i|) and psi(t) = exp(t) - 1 - t - t^2/2,

    |S(w) - S(0)| <= r |g| + r^2 |Q| / 2 + R(r) =: G(r),
    D(r) <= r |g| + r^2 |Q - 2 gamma S(0)| / 2 + R(r) + e G(r) + e^2 (|S(0)| + G(r)) / 2.

Without Q, which costs d^2 per center, psi(t) = exp(t) - 1 - t and (1 - exp(-e)) |S(0)| stand in its
place. Far away, no kernel value changes by more than from the nearest to the farthest point of the
ball, and no f by more than |f|_H sqrt(2 - 2 exp(-gamma r^2)), where |f|_H is its norm in the
kernel's Hilbert space. Each of these holds, so the least counts.

Boxes, |w_l| <= r: |w.q| <= r |q|_1, w'Qw <= r^2 sum |Q_jl|, |w|^2 <= d r^2. Rows that come through
a scaler move by s_l w_l there, which goes into q, Q and e.

Other kernels: linear ones by |w.g|; polynomials by (|a_i| + t_i)^p - |a_i|^p, where t_i is what the
argument a_i can move by; Laplacian ones by exp(gamma |w|_1) - 1; Matern, rational quadratic and
sigmoid ones by their largest slope.

Everything is rounded up: errors of kernel values (`slopes`) enter each sum in absolute value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kernelite.errors import InputError, UnsupportedModelError
from kernelite.explain.slopes import slope_of
from kernelite.explain.terms import SeenBy, seen_by
from kernelite.machine.affine import AffineMap
from kernelite.machine.exactly import UNIT
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import (
    Kernel,
    Laplacian,
    Matern,
    PolynomialKernel,
    RationalQuadratic,
    Rbf,
    SigmoidKernel,
    SumKernel,
)
from kernelite.machine.preparation import Selection
from kernelite.machine.preparation.numeric import OwnScaling
from kernelite.model.fields import ModelFields
from kernelite.rows.inputs import FloatArray, row_blocks

__all__ = ["radius"]

NUMBERS_AT_ONCE = 1 << 21  # rows times centers times features of a block
MOST_CURVATURE = 1e8  # multiply-adds per row for matrices Q; beyond, they are left out
HALVINGS = 18  # of a range of 2^40: radii are within 2e-4 of the largest that is proven
SMALLEST_SHARE = 2.0**-40  # of the largest radius looked at
LARGEST_NORM = 4000  # centers of which all pairs are taken for |f|_H
ABOVE = 1.0 + 1e-9


class Change(Protocol):
    """What bounds the change of scores."""

    def __call__(self, r: FloatArray) -> FloatArray:
        """|f(z + w) - f(z)| at most, for |w| <= r: (m,) to (m, k)."""
        ...


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
    scales = [_scales(model, own) for own in seen]
    sizes = [own.expansion.n_centers * own.expansion.n_features for own in seen]
    out = np.zeros(len(seen[0].rows))
    norms: dict[Any, FloatArray] = {}
    for block in row_blocks(len(out), max(1, NUMBERS_AT_ONCE // max(1, *sizes))):
        out[block] = _of_block(model, [_part(own, block) for own in seen], scales, norm, norms)
    return out


def _part(own: SeenBy, block: slice) -> SeenBy:
    return SeenBy(own.model, own.outputs, own.rows[block], own.moves[block])


def _of_block(
    model: ModelFields,
    seen: list[SeenBy],
    scales: list[FloatArray],
    norm: str,
    norms: dict[Any, FloatArray],
) -> FloatArray:
    m, k = len(seen[0].rows), model.head.n_scores
    scores, bounds = np.zeros((m, k)), np.zeros((m, k))
    changes: list[tuple[Any, Change]] = []
    largest = 0.0
    for own, scale in zip(seen, scales):
        scores[:, own.outputs] += own.expansion.intercept
        bounds[:, own.outputs] += own.expansion.known.intercept
        bounds[:, own.outputs] += 8.0 * UNIT * np.abs(own.expansion.intercept)
        for change, value, error, reach in _terms(own, scale, norm, norms):
            scores[:, own.outputs] += value
            bounds[:, own.outputs] += error
            changes.append((own.outputs, change))
            largest = max(largest, reach)
    bounds += 8.0 * UNIT * np.abs(scores)

    def holds(r: FloatArray) -> Any:
        total = bounds.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            for outputs, change in changes:
                total[:, outputs] += ABOVE * change(r)
        total[np.isnan(total)] = np.inf
        return np.asarray(model.head.decided(scores, total))

    return _largest(holds, m, largest)


def _largest(holds: Any, m: int, largest: float) -> FloatArray:
    """The largest radius that was seen to hold, by halving in logarithms; 0 where none does."""
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


def _scales(model: ModelFields, own: SeenBy) -> FloatArray:
    """What each feature of a machine is multiplied with before: features move by that much."""
    steps = list(model.preparation.steps)
    if own.model is not model:
        steps += own.model.preparation.steps
    scale: Any = 1.0
    for step in steps:
        if isinstance(step, AffineMap):
            scale = scale * np.abs(step.scale)
        elif isinstance(step, OwnScaling):
            pairs: Any = zip(step.marks, step.by, strict=True)
            scale = scale * np.abs(AffineMap.of(*pairs).scale)
        elif isinstance(step, Selection) and len(set(step.columns.tolist())) == step.n_out:
            scale = np.broadcast_to(scale, (step.n_features,))[step.columns]
        else:
            raise UnsupportedModelError(
                f"rows go through a {type(step).__name__} step before this model, which distances "
                "are not measured through; compile the last step of the pipeline by itself, and "
                "pass transformed rows."
            )
    return np.broadcast_to(np.asarray(scale, dtype=np.float64), (own.rows.shape[1],)) * ABOVE


# What changes, term by term.


def _terms(own: SeenBy, scale: FloatArray, norm: str, norms: dict[Any, FloatArray]) -> Any:
    """(change, value, its error, a radius beyond which nothing is looked for) of each term."""
    expansion = own.expansion
    kernel: Any = expansion.kernel
    if kernel == "rbf":
        yield _gaussian(own, expansion, expansion.gamma, 1.0, scale, norm, norms)
        return
    if kernel == "poly2":
        kernel = PolynomialKernel(2, expansion.gamma, expansion.coef0)
    several = isinstance(kernel, SumKernel)
    for amplitude, one in zip(kernel.amplitudes, kernel.kernels) if several else [(1.0, kernel)]:
        if isinstance(one, Rbf):
            inverse = 1.0 / np.broadcast_to(np.array(one.length_scale), scale.shape)
            scaled = SeenBy(own.model, own.outputs, own.rows * inverse, _moved(own, inverse))
            stretched = scale * inverse
            yield _gaussian(scaled, expansion, 0.5, amplitude, stretched, norm, norms, inverse)
        else:
            yield _plain(own, expansion, one, amplitude, scale, norm)


def _moved(own: SeenBy, inverse: FloatArray) -> FloatArray:
    return (own.moves + 2.0 * UNIT * np.abs(own.rows)) * inverse


def _lengths(vectors: FloatArray, norm: str) -> FloatArray:
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
        return np.fmin(least, self.norm * np.sqrt(-2.0 * np.expm1(-e)) * ABOVE)

    def _apart(self, r: FloatArray) -> FloatArray:
        """By how far kernel values move when the ball's nearest and farthest points count."""
        way = self.stretch * r + self.moved
        # Distances and gamma are rounded up, which a nearest point must not be.
        nearest = np.maximum(self.distances * (1.0 - 4e-9) - way, 0.0)
        near = np.exp(-self.least_gamma * np.square(nearest))
        far = np.exp(-self.gamma * np.square(self.distances + way))
        return (np.maximum(near - far, 0.0) * ABOVE + 1e-14) @ self.weights


def _above(value: FloatArray, t: FloatArray, order: int) -> FloatArray:
    """exp(t) less its first terms, not below the real: where they cancel, by a power times exp."""
    series = t**order / math.factorial(order) * np.exp(np.minimum(t, 700.0))
    found = np.where(t < 0.1, series, value * (1.0 + 1e-9)) * ABOVE
    return np.where(t < 700.0, found, np.inf)


def _gaussian(
    own: SeenBy,
    expansion: KernelExpansion,
    gamma: float,
    amplitude: float,
    scale: FloatArray,
    norm: str,
    norms: dict[Any, FloatArray],
    inverse: FloatArray | float = 1.0,
) -> Any:
    A = amplitude * expansion.coefficients
    centers = expansion.dense_centers() * inverse
    n, d = centers.shape
    known = expansion.known
    moved = own.moves + 1.01 * known.centers * np.abs(centers).max(axis=0, initial=0.0)
    point = centers.mean(axis=0) if n else np.zeros(d)
    Z, C = own.rows - point, centers - point
    moved = moved + 4.0 * UNIT * (np.abs(Z) + np.abs(C).max(axis=0, initial=0.0))
    gaps = Z[:, None, :] - C[None, :, :]
    distances = np.sqrt(np.square(gaps).sum(axis=2)) * ABOVE
    away = np.sqrt(np.square(moved).sum(axis=1, keepdims=True))
    away = 1.01 * (away + 0.5 * known.gamma * distances.max(axis=1, initial=0.0, keepdims=True))
    found = slope_of("rbf", gamma, Z, C, away)
    off = found.value_error + (n + d + 16.0) * UNIT * found.value
    q = 2.0 * gamma * scale * gaps
    q_off = 2.0 * gamma * _lengths(scale * moved, norm)[:, None] * 1.01
    lengths = _lengths(q, norm) * ABOVE + q_off
    upper = np.abs(A)
    value = found.value @ A
    lost = amplitude * known.coefficients
    error = 1.05 * (off @ upper) + lost
    sums = np.abs(value) + error
    # Errors of c_i q_i, and of c_i q_i q_i'.
    errors = (off * lengths + found.value * q_off) @ upper + lost * lengths.max(
        axis=1, initial=0.0, keepdims=True
    )
    weighted = [np.matmul((found.value * a)[:, None, :], q)[:, 0] for a in A.T]
    slopes = np.stack([_lengths(g, norm) for g in weighted], axis=1) * ABOVE + 1.05 * errors
    squared = np.square(scale)
    stretch = math.sqrt(squared.max(initial=0.0) if norm == "l2" else squared.sum()) * ABOVE
    curvatures = bends = None
    if A.shape[1] * n * d * d <= MOST_CURVATURE:
        squares = lengths * lengths
        more = 1.05 * (off * squares + 2.0 * found.value * q_off * lengths) @ upper
        more = more + lost * squares.max(axis=1, initial=0.0, keepdims=True)
        more = more + 2.0 * gamma * stretch**2 * error
        bends, curvatures = _curvatures(found.value, A, q, value, gamma, scale, norm)
        bends, curvatures = bends + more, curvatures + more
    key = id(expansion), amplitude, np.asarray(inverse).tobytes()
    if key not in norms:
        spread = (known.centers + 8.0 * UNIT) * np.sqrt(np.square(centers).sum(axis=1)) + (
            8.0 * UNIT * np.sqrt(np.square(C).sum(axis=1))
        )
        norms[key] = _norms(C, A, gamma, 2.02 * spread[:, None], lost)
    change = _Gaussian(
        gamma * (1.0 + known.gamma) * ABOVE,
        gamma * max(1.0 - known.gamma, 0.0) / ABOVE,
        stretch,
        lengths,
        distances,
        away,
        found.value + off,
        upper * ABOVE,
        slopes,
        curvatures,
        bends,
        sums,
        norms[key],
    )
    reach = (float(distances.max(initial=0.0)) + 6.0 / math.sqrt(gamma)) * _inverse(scale)
    return _with_lost(change, 2.0 * lost), value, error, reach


def _inverse(scale: FloatArray) -> float:
    """How far a row moves for a step of one of its features, at most."""
    least = float(scale.min(initial=np.inf, where=scale > 0.0))
    return 1.0 / least if np.isfinite(least) else 1.0


def _with_lost(change: Change, lost: FloatArray) -> Change:
    """Errors of the coefficients change a kernel value's share by at most themselves, twice."""
    if not lost.any():
        return change
    return lambda r: change(r) + lost


def _curvatures(
    K: FloatArray,
    A: FloatArray,
    q: FloatArray,
    value: FloatArray,
    gamma: float,
    scale: FloatArray,
    norm: str,
) -> tuple[FloatArray, FloatArray]:
    """|Q| and |Q - 2 gamma S(0) scale^2| of each row and output, (m, k) each."""
    d = q.shape[2]
    found = [np.empty(value.shape), np.empty(value.shape)]
    for j in range(A.shape[1]):
        Q = np.matmul((q * (K * A[:, j])[:, :, None]).transpose(0, 2, 1), q)
        H = Q - 2.0 * gamma * value[:, j, None, None] * np.diag(np.square(scale))
        for out, matrix in zip(found, (Q, H)):
            sizes = np.sqrt(np.square(matrix).sum(axis=(1, 2)))
            if norm == "linf":
                out[:, j] = np.abs(matrix).sum(axis=(1, 2)) * ABOVE
            else:
                most = np.abs(np.linalg.eigvalsh((matrix + matrix.transpose(0, 2, 1)) / 2.0))
                out[:, j] = most.max(axis=1, initial=0.0) + 8.0 * d * d * UNIT * sizes
    return found[0], found[1]


def _norms(
    C: FloatArray, A: FloatArray, gamma: float, moved: FloatArray, lost: FloatArray
) -> FloatArray:
    """|f|_H of each output, rounded up; infinite where there are too many centers.

    Coefficients that are off by `lost` in all change the norm by no more, since |k(x, .)|_H = 1.
    """
    n = len(C)
    if n > LARGEST_NORM or not n:
        return np.full(A.shape[1], np.inf)
    found = slope_of("rbf", gamma, C, C, moved)
    squares = np.einsum("ik,ij,jk->k", A, found.value, A, optimize=True)
    upper = np.abs(A)
    off = found.value_error + (2.0 * n + 16.0) * UNIT * found.value
    squares = squares + 1.05 * np.einsum("ik,ij,jk->k", upper, off, upper, optimize=True)
    return (np.sqrt(np.maximum(squares, 0.0)) + lost) * ABOVE


def _plain(
    own: SeenBy,
    expansion: KernelExpansion,
    kernel: Kernel,
    amplitude: float,
    scale: FloatArray,
    norm: str,
) -> Any:
    """Kernels other than RBF, by how fast they can change at most."""
    A = np.abs(amplitude * expansion.coefficients)
    C, Z = expansion.dense_centers(), own.rows
    n = len(C)
    moved = own.moves + 1.01 * expansion.known.centers * np.abs(C).max(axis=0, initial=0.0)
    away = 1.01 * np.sqrt(np.square(moved).sum(axis=1, keepdims=True))
    if not isinstance(
        kernel, PolynomialKernel | SigmoidKernel | Laplacian | Matern | RationalQuadratic
    ) or (isinstance(kernel, Matern) and kernel.nu not in (0.5, 1.5, 2.5)):
        raise UnsupportedModelError(
            "how far a label holds is known for RBF, Laplacian, Matern (1/2, 3/2, 5/2), rational "
            "quadratic, linear, polynomial and sigmoid kernels and their sums; this model has: "
            f"{kernel.label}."
        )
    found = slope_of(kernel, 1.0, Z, C, away)
    lost = amplitude * expansion.known.coefficients
    largest = (np.abs(found.value) + found.value_error).max(axis=1, initial=0.0, keepdims=True)
    value = found.value @ (amplitude * expansion.coefficients)
    error = 1.05 * (found.value_error + (n + 8.0) * UNIT * np.abs(found.value)) @ A
    error = error + lost * largest
    signed = amplitude * expansion.coefficients
    change = _change_of(kernel, found, A + lost, Z, C, signed, scale, norm)
    size = max(float(np.abs(Z).max(initial=0.0)), float(np.abs(C).max(initial=0.0)), 1.0)
    return change, value, error, 1e3 * size * _inverse(scale)


def _change_of(
    kernel: Any,
    found: Any,
    A: FloatArray,
    Z: FloatArray,
    C: FloatArray,
    signed: FloatArray,
    scale: FloatArray,
    norm: str,
) -> Change:
    ways = _lengths(scale * C, norm)[None, :] * ABOVE  # of x.w
    if isinstance(kernel, PolynomialKernel) and kernel.degree == 1:
        slopes = kernel.gamma * _lengths((signed.T @ C) * scale, norm) * ABOVE
        slack = kernel.gamma * (len(C) + 8.0) * UNIT * (ways @ A)[0] + kernel.gamma * ways.max(
            initial=0.0
        ) * (A - np.abs(signed)).max(axis=0, initial=0.0)
        return lambda r: r[:, None] * (slopes + slack)
    if isinstance(kernel, PolynomialKernel):
        p = kernel.degree
        norms = (np.sqrt(np.square(rows).sum(axis=1)) for rows in (Z, C))
        terms = kernel.gamma * np.multiply.outer(*norms) + abs(kernel.coef0)
        size = np.abs(kernel.gamma * (Z @ C.T) + kernel.coef0) + 1e-9 * terms

        def grows(r: FloatArray) -> FloatArray:
            t = kernel.gamma * r[:, None] * ways
            # (s + t)^p - s^p <= p t (s + t)^(p - 1)
            return (p * t * (size + t) ** (p - 1)) @ A

        return grows
    if isinstance(kernel, SigmoidKernel):
        return lambda r: kernel.gamma * r[:, None] * (ways @ A)
    if isinstance(kernel, Laplacian):
        way = float(np.sqrt(np.square(scale).sum()) if norm == "l2" else scale.sum())
        sizes = (found.value + found.value_error) @ A
        return lambda r: np.expm1(np.minimum(kernel.gamma * way * r, 700.0))[:, None] * sizes
    inverse = scale / np.broadcast_to(np.array(kernel.length_scale), scale.shape)
    steep = float(np.asarray(kernel.slope(np.inf)).max())
    way = float(inverse.max() if norm == "l2" else np.sqrt(np.square(inverse).sum()))
    return lambda r: steep * way * r[:, None] * A.sum(axis=0)
