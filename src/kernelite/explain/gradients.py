"""Derivatives of a model's scores by the columns that users pass, with proven error bounds.

    grad f(z) = sum_i A_i grad k(x_i, z)

Each kernel's derivative is a number h per center times z - x_i, x_i or sign(z - x_i) (`slopes`), so
that a block of rows is a product of matrices: sum_i W_i (z - x_i) = z sum W_i - W X. Rows and
centers are moved to the centers' middle first, so that little cancels. Such a sum of n terms errs
by (n + 8) u of its terms' sizes, and by the errors of W; behind it stand the maps that rows came
through, transposed. Of an RBF kernel the sums are those of another expansion, with the coefficients
A_i and A_i (x_i - p): the exact engine takes them in one pass, and bounds them (`centers`).
Those of standard deviations are below. A log-density has grad s / s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from kernelite.backends.cpu.factors import MARGIN, InverseFactor
from kernelite.backends.cpu.threads import for_each_chunk
from kernelite.data.rows.inputs import FloatArray
from kernelite.explain.centers import Derived, Placed
from kernelite.explain.terms import SeenBy, back, check_maps, has_maps, seen_by
from kernelite.machine.exactly import UNIT
from kernelite.model.fields import ModelFields
from kernelite.support.errors import InputError, UnsupportedModelError

__all__ = ["gradient"]


def gradient(
    model: ModelFields,
    X: Any,
    *,
    of: Literal["score", "std"] = "score",
    return_value: bool = False,
    return_bound: bool = False,
) -> Any:
    """Derivatives by the columns of `X`: see `CompiledModel.gradient`."""
    if of not in ("score", "std"):
        raise InputError(f"`of` must be 'score' or 'std', got {of!r}.")
    if of == "std":
        values, slopes, bounds = of_deviations(model, X, bounds=return_bound)
    else:
        check_maps(model)
        derived = derivatives(model, X, bounds=return_bound or model.head.kind == "density")
        if model.head.kind == "density":
            derived = _of_logarithm(derived, model.head.log_scale)  # type: ignore[attr-defined]
        values, slopes, bounds = derived.values, derived.gradients, derived.bounds
        if model.head.n_scores == 1:
            values, slopes, bounds = values[:, 0], slopes[:, 0], bounds[:, 0]
    answer = ((values,) if return_value else ()) + (slopes,)
    answer += (bounds,) if return_bound else ()
    return answer if len(answer) > 1 else answer[0]


def derivatives(model: ModelFields, X: Any, *, bounds: bool = True) -> Derived:
    """Scores and their derivatives by the columns of `X`, of all machines together.

    Without `bounds` neither of them is to be used.
    """
    seen = seen_by(model, X)
    if len(seen) == 1:
        return _of_machine(model, seen[0], bounds)
    m, k, width = len(seen[0].rows), model.head.n_scores, model.n_features_in_
    shapes = ((m, k), (m, k, width), (m, k), (m, k, width))
    total = [np.zeros(shape) for shape in shapes]
    for own in seen:
        found = _of_machine(model, own, bounds)
        each = (found.values, found.gradients, found.value_bounds, found.bounds)
        for array, more in zip(total, each[: 4 if bounds else 2]):
            array[:, own.outputs] += more
    total[2] += 4.0 * len(seen) * UNIT * np.abs(total[0])
    total[3] += 4.0 * len(seen) * UNIT * np.abs(total[1])
    return Derived(*total)


def _of_machine(model: ModelFields, own: SeenBy, bounds: bool) -> Derived:
    """Scores of one machine, and derivatives by the columns that users pass."""
    if own.model.tail is not None:
        raise UnsupportedModelError(
            "gradients of interpolators with a polynomial beside their kernel are not served; use "
            "degree=-1, or differences of `predict`."
        )
    found = own.model._centers.derived(own.rows, own.moves, bounds=bounds)
    values, lost = own.expansion.intercept, own.expansion.known.intercept
    found.values[...] += values
    if bounds:
        found.value_bounds[...] += 8.0 * UNIT * np.abs(values) + lost
    if not has_maps(model, own):
        return found
    slopes, off = back(model, own, found.gradients), found.bounds
    if bounds:
        # Maps round their scales, and sums of up to d products.
        off = off + UNIT * (own.rows.shape[1] + 8.0) * np.abs(found.gradients)
        off = back(model, own, off, sizes=True)
    return Derived(found.values, slopes, found.value_bounds, off)


def _of_logarithm(derived: Derived, log_scale: float) -> Derived:
    """grad log s = grad s / s, where sums did not underflow."""
    s, off = derived.values, derived.value_bounds
    with np.errstate(divide="ignore", invalid="ignore"):
        found = derived.gradients / s[..., None]
        least = (s - off)[..., None]
        bounds = (derived.bounds + np.abs(found) * off[..., None]) / least
        bounds = np.where(least > 0.0, 1.0001 * bounds + 4.0 * UNIT * np.abs(found), np.inf)
        values = np.log(s) + log_scale
        value_bounds = np.where(s > off, off / (s - off), np.inf) + 16.0 * UNIT
    lost = ~(s > 0.0)
    if lost.any():
        raise InputError(
            f"the density underflows at {int(lost.any(axis=1).sum())} rows, far from all data, so "
            "that its logarithm has no gradient in doubles; leave them out."
        )
    return Derived(values, found, value_bounds, bounds)


# Derivatives of a Gaussian process's standard deviation, with proven bounds.
#
#     grad sqrt(v) = grad v / (2 sqrt(v)),    grad v = -2 sum_i b_i w_i grad k(x_i, z),
#
# with b = (L L')^-1 x and x = w * k(X, z), for kernels whose k(z, z) does not depend on z. Answers
# come from solving with L. Bounds come from W, a computed inverse with |W L - I| <= e
# (`backends.cpu.factors`): with y = W x, which is off by s,
#
#     |W'y - b| <= |W| ((1 / (1 - e)^2 - 1) (|y| + s) + s + (n + 2) u |y|) =: t,
#
# since L^-1 = (I + E)^-1 W; so sum_i b_i w_i grad k is off by t max |w_i| times the root of
# sum_i |grad k|^2, and by what kernels' derivatives and sums err by (`centers`). An answer is as
# far off as the two ways differ, and what the second may be off.


TRAINING_PAIRS_AT_ONCE = 1 << 16  # rows times training rows of a block: half a megabyte an array
LAYOUT_ROWS = 64  # rows that variances are laid out by


def of_deviations(
    model: ModelFields, X: Any, *, bounds: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Standard deviations of shape (m,) or (m, k), their derivatives, and bounds of these."""
    check_maps(model)
    latent, seen = model._latent, seen_by(model, X)
    if not all(own.expansion.kernel.shifts for own in seen):
        raise UnsupportedModelError(
            "gradients of standard deviations are served for kernels of distances (RBF, Matern, "
            "rational quadratic); this one has a part of products x.z."
        )
    posterior = latent.posterior
    m, n = len(seen[0].rows), len(posterior.weights)
    inverse = _inverse(model, seen) if bounds else None
    placed = [Placed.of(own.model._centers, own.rows, own.moves) for own in seen]
    variances, slopes = np.empty(m), np.empty((m, model.n_features_in_))
    off = np.full_like(slopes, np.inf)

    def work(part: slice) -> None:
        rows = [own.rows[part] for own in seen]
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            V = latent._solved(rows)
            variances[part] = np.maximum(latent._left(rows, V), 0.0)
            weights = -2.0 * _solved_again(posterior.factor, V).T * posterior.weights
            found, _ = _summed(model, seen, placed, part, weights, None)
            slopes[part] = found / (2.0 * np.sqrt(variances[part]))[:, None]
            if inverse is not None:
                other, error = _proven(model, inverse, seen, placed, part)
                off[part] = (1.0 + 1e-9) * (error + np.abs(other - slopes[part]))

    for_each_chunk(work, m, max(8, TRAINING_PAIRS_AT_ONCE // max(n, 1)), blas=True)
    off[np.isnan(off)] = np.inf
    slopes[variances == 0.0] = 0.0
    values, scales = np.sqrt(posterior.scaled(variances)), posterior.output_scales
    if values.ndim == 1:
        return values, slopes * scales[0], off * scales[0] * MARGIN
    slopes, off = (one[:, None, :] * scales[None, :, None] for one in (slopes, off * MARGIN))
    return values, slopes, off


def _solved_again(factor: FloatArray, V: FloatArray) -> FloatArray:
    from scipy.linalg import solve_triangular

    return solve_triangular(factor, V, lower=True, trans="T", check_finite=False)


def _inverse(model: ModelFields, seen: Sequence[SeenBy]) -> InverseFactor | None:
    """W; None where there is none, or where kernel values have no bounds."""
    variances, m = model._variances, len(seen[0].rows)
    if variances.expects(m, proven=True):
        variances.expect(m, [own.rows[:LAYOUT_ROWS] for own in seen])
    return None if variances.covariances is None else variances.inverse


def _proven(
    model: ModelFields,
    inverse: InverseFactor,
    seen: Sequence[SeenBy],
    placed: Sequence[Placed],
    part: slice,
) -> tuple[FloatArray, FloatArray]:
    """Derivatives of sqrt(v) by the inverse, and how far they may be off: (m, width) each."""
    variances, posterior = model._variances, model._latent.posterior
    x, moved = variances._inputs([own.rows[part] for own in seen])
    W, wide = inverse.matrix, (len(inverse.matrix) + 2) * UNIT
    lengths = np.sqrt(np.einsum("ij,ij->i", x, x))
    y = x @ W.T
    squares = np.einsum("ij,ij->i", y, y)
    root, slack = np.sqrt(squares), inverse.size * MARGIN * (wide * lengths + moved)
    b = (y @ W)[:, : len(posterior.weights)]
    gap = 1.0 / (1.0 - inverse.off) ** 2 - 1.0
    lost = inverse.size * MARGIN * (gap * (root + slack) + slack + wide * root)
    largest = 2.0 * float(np.abs(posterior.weights).max(initial=0.0))
    weights = -2.0 * b * posterior.weights
    found, error = _summed(model, seen, placed, part, weights, MARGIN * largest * lost[:, None])
    v, off = variances._left(squares, inverse.error(squares, slack))
    v, least = v[:, None], (v - off)[:, None]
    slopes = found / (2.0 * np.sqrt(v))
    error = error / np.sqrt(least) + np.abs(found) * off[:, None] / (2.0 * least**1.5)
    return slopes, np.where(least > 0.0, 0.5 * error + 8.0 * UNIT * np.abs(slopes), np.inf)


def _summed(
    model: ModelFields,
    seen: Sequence[SeenBy],
    placed: Sequence[Placed],
    part: slice,
    weights: FloatArray,
    off: FloatArray | None,
) -> tuple[FloatArray, FloatArray]:
    """sum_i W_i grad k(x_i, z) by users' columns, of all kernels, and its error if asked for."""
    total = np.zeros((len(weights), model.n_features_in_))
    error = np.zeros_like(total)
    amplitudes = np.atleast_1d(model._latent.posterior.amplitude)
    for amplitude, own, one in zip(amplitudes, seen, placed):
        lost = None if off is None else abs(amplitude) * off
        found, grown = one.weighted(part, amplitude * weights, lost)
        total = total + back(model, own, found)
        grown = grown + UNIT * (own.rows.shape[1] + 8.0) * np.abs(found)
        error = error + back(model, own, grown, sizes=True)
    return total, error + 4.0 * len(seen) * UNIT * np.abs(total)
