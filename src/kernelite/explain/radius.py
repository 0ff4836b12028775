"""How far a row may move before its label can change: a proven lower bound.

For each score f a function D(r) bounds |f(z + w) - f(z)| for all |w| <= r. The head then says, as
it does for bounds of any other kind, whether the label is the same for all scores within D(r). The
radius is the largest r for which it is, found by halving: the nearest point with another label is
at least that far away.

RBF terms: `balls` has the proof.

Other kernels: linear ones by |w.g|; polynomials by (|a_i| + t_i)^p - |a_i|^p, where t_i is what the
argument a_i can move by; Laplacian ones by exp(gamma |w|_1) - 1; Matern, rational quadratic and
sigmoid ones by their largest slope.

Everything is rounded up: errors of kernel values (`slopes`) enter each sum in absolute value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelite.data.rows.inputs import FloatArray, row_blocks
from kernelite.explain.balls import ROUNDED_UP, Change, dual_lengths, gaussian_change
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
    for block in row_blocks(len(out), max(1, DISTANCES_AT_ONCE // max(1, *sizes))):
        out[block] = _of_block(model, [_part(own, block) for own in seen], stretches, norm, norms)
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
    largest = 0.0
    for own, scale in zip(seen, stretches):
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
                total[:, outputs] += ROUNDED_UP * change(r)
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


# What changes, term by term.


def _terms(own: SeenBy, scale: FloatArray, norm: str, norms: dict[Any, FloatArray]) -> Any:
    """(change, value, its error, a radius beyond which nothing is looked for) of each term."""
    for amplitude, factors in own.expansion.kernel.terms:
        kernel: Any = factors[0] if len(factors) == 1 else ProductKernel(factors)
        if type(kernel) in _BALLS:
            yield _BALLS[type(kernel)](own, kernel, amplitude, scale, norm, norms)
        else:
            yield _plain(own, kernel, amplitude, scale, norm)


def _gaussian(
    own: SeenBy, kernel: Any, amplitude: float, scale: FloatArray, norm: str, norms: Any
) -> Any:
    made = gaussian_change(own, kernel.gamma, amplitude, scale, norm, norms)
    return _reaching(made, scale)


def _rbf(
    own: SeenBy, kernel: Any, amplitude: float, scale: FloatArray, norm: str, norms: Any
) -> Any:
    inverse = 1.0 / np.broadcast_to(np.array(kernel.length_scale), scale.shape)
    scaled = SeenBy(own.model, own.outputs, own.rows * inverse, _moved(own, inverse))
    made = gaussian_change(scaled, 0.5, amplitude, scale * inverse, norm, norms, inverse)
    return _reaching(made, scale * inverse)


_BALLS: dict[type, Callable[..., Any]] = {Gaussian: _gaussian, Rbf: _rbf}
"""Kernels whose change `balls` bounds."""


def _moved(own: SeenBy, inverse: FloatArray) -> FloatArray:
    return (own.moves + 2.0 * UNIT * np.abs(own.rows)) * inverse


def _reaching(made: Any, scale: FloatArray) -> Any:
    """The same, with its last radius in the units of users' columns."""
    return *made[:3], made[3] * _inverse(scale)


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
    size = max(float(np.abs(Z).max(initial=0.0)), float(np.abs(C).max(initial=0.0)), 1.0)
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
