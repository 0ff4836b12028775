"""Derivatives of a model's scores by the columns that users pass, with proven error bounds.

    grad f(z) = sum_i A_i grad k(x_i, z)

Each kernel's derivative is a number h per center times z - x_i, x_i or sign(z - x_i) (`slopes`), so
that a block of rows is a product of matrices: sum_i W_i (z - x_i) = z sum W_i - W X. Rows and
centers are moved to the centers' middle first, so that little cancels. Such a sum of n terms errs
by (n + 8) u of its terms' sizes, and by the errors of W; behind it stand the maps that rows came
through, transposed. Of an RBF kernel the sums are those of another expansion, with the coefficients
A_i and A_i (x_i - p): the exact engine takes them in one pass, and bounds them (`_by_engine`).
Standard deviations of a Gaussian process have

    grad sqrt(v) = grad v / (2 sqrt(v)),    grad v = grad k(z, z) - 2 sum_i a_i grad k(x_i, z),

with a = K^-1 k(X, z): the same sums, with coefficients of each row's own. A log-density has
grad s / s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from kernelite.backends.cpu.runner import Runner
from kernelite.backends.cpu.threads import for_each_chunk
from kernelite.data.rows.inputs import FloatArray, row_blocks
from kernelite.explain.maps import back, check_maps
from kernelite.explain.slopes import Slope, factors_of, slope_of
from kernelite.explain.terms import SeenBy, seen_by
from kernelite.machine.exactly import UNIT
from kernelite.machine.expansion import KernelExpansion
from kernelite.model.fields import ModelFields
from kernelite.program.bounded import spelled_out
from kernelite.program.criteria import never
from kernelite.support.errors import InputError, UnsupportedModelError

__all__ = ["Derived", "derivatives", "gradient"]

MOST_COLUMNS = 256  # outputs that the engine's kernel sums in one pass
NUMBERS_AT_ONCE = 1 << 18  # sums of a block of rows: 2 MB
PAIRS_AT_ONCE = 1 << 16  # rows times centers of a block: half a megabyte an array
LOST = 1e-280


@dataclass(frozen=True, eq=False)
class Derived:
    """Scores and their derivatives: (m, k) and (m, k, d), and how far each may be off."""

    values: FloatArray
    gradients: FloatArray
    value_bounds: FloatArray
    bounds: FloatArray


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
        if return_bound:
            raise InputError(
                "standard deviations rest on a factor of a matrix: their gradients are computed "
                "in doubles, without a proven bound; ask for those of='score'."
            )
        values, found = _of_deviations(model, X)
        return (values, found) if return_value else found
    check_maps(model)
    derived = derivatives(model, X, bounds=return_bound or model.head.kind == "density")
    if model.head.kind == "density":
        derived = _of_logarithm(derived, model.head.log_scale)  # type: ignore[attr-defined]
    parts = [derived.gradients, derived.bounds]
    values = derived.values
    if model.head.n_scores == 1:
        parts, values = [part[:, 0] for part in parts], values[:, 0]
    answer = ((values,) if return_value else ()) + (parts[0],)
    answer += (parts[1],) if return_bound else ()
    return answer if len(answer) > 1 else answer[0]


def derivatives(model: ModelFields, X: Any, *, bounds: bool = True) -> Derived:
    """Scores and their derivatives by the columns of `X`, of all machines together.

    Without `bounds` those of derivatives are not to be used.
    """
    seen = seen_by(model, X)
    m, k, width = len(seen[0].rows), model.head.n_scores, model.n_features_in_
    shapes = ((m, k), (m, k, width), (m, k), (m, k, width))
    total = [np.zeros(shape) for shape in shapes]
    for own in seen:
        found = _of_machine(own, bounds)
        # Maps round their scales, and sums of up to d products.
        units = UNIT * (own.rows.shape[1] + 8.0)
        off = found.bounds + units * np.abs(found.gradients)
        slopes, off = back(model, own, found.gradients), back(model, own, off, sizes=True)
        for array, more in zip(total, (found.values, slopes, found.value_bounds, off)):
            array[:, own.outputs] += more
    if len(seen) > 1:
        total[2] += 4.0 * len(seen) * UNIT * np.abs(total[0])
        total[3] += 4.0 * len(seen) * UNIT * np.abs(total[1])
    return Derived(*total)


def _of_machine(own: SeenBy, bounds: bool) -> Derived:
    """In the coordinates of its expansion."""
    (m, d), k = own.rows.shape, own.expansion.n_outputs
    shapes = ((m, k), (m, k, d), (m, k), (m, k, d))
    out = Derived(*(np.zeros(shape) for shape in shapes))
    place = _Placed.of(own)
    by_engine = own.expansion.kernel.damps and 0 < k * (d + 1) <= MOST_COLUMNS

    def work(part: slice) -> None:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            place.add(part, out)

    if by_engine:
        _by_engine(own, place, out, bounds)
    else:
        step = max(8, PAIRS_AT_ONCE // max(own.expansion.n_centers, 1))
        for_each_chunk(work, m, step, blas=True)
    out.bounds[np.isnan(out.bounds) | np.isnan(out.gradients)] = np.inf
    out.value_bounds[np.isnan(out.value_bounds) | np.isnan(out.values)] = np.inf
    out.values[...] += own.expansion.intercept
    intercept = 8.0 * UNIT * np.abs(own.expansion.intercept) + own.expansion.known.intercept
    out.value_bounds[...] += intercept
    if own.model.tail is not None:
        raise UnsupportedModelError(
            "gradients of interpolators with a polynomial beside their kernel are not served; use "
            "degree=-1, or differences of `predict`."
        )
    return out


def _by_engine(own: SeenBy, place: _Placed, out: Derived, bounds: bool) -> None:
    """Sums of an RBF kernel by the exact engine: values and derivatives in one pass.

    With s_i = x_i - p, T_0 = sum_i A_i K_i and T_l = sum_i A_i s_il K_i,

        grad_l f(z) = -2 gamma ((z - p)_l T_0 - T_l).

    The engine bounds both sums for the centers and rows that it is given, the errors of the new
    coefficients included: two roundings each, and what is not known of A_i and x_i. A row that is
    off by eta moves K by at most eta sqrt(2 gamma / e), the steepest slope there is.
    """
    expansion, known, gamma = own.expansion, own.expansion.known, own.expansion.gamma
    centers, A = expansion.dense_centers(), expansion.coefficients
    (m, d), k = own.rows.shape, A.shape[1]
    columns = np.concatenate([A[:, :, None], A[:, :, None] * place.centers[:, None, :]], axis=2)
    sizes = np.abs(columns).sum(axis=0)
    far = np.abs(place.centers).max(axis=0, initial=0.0)
    lost = np.empty((k, d + 1))
    lost[:, :1] = known.coefficients[:, None]
    lost[:, 1:] = 4.0 * UNIT * sizes[:, 1:] + 1.01 * known.coefficients[:, None] * far
    lost[:, 1:] += 1.01 * known.centers * (np.abs(A).T @ np.abs(centers))
    moved = replace(
        expansion,
        coefficients=columns.reshape(len(centers), -1),
        intercept=np.zeros(k * (d + 1)),
        uncertainty=replace(known, coefficients=lost.ravel(), intercept=np.zeros(k * (d + 1))),
    )
    runner = Runner.prepare(None, moved)
    step = max(64, NUMBERS_AT_ONCE // (k * (d + 1)))
    steep = math.sqrt(2.0 * gamma / math.e) * 1.001
    for kept in row_blocks(m, step):
        found = runner.evaluate(own.rows, kept, never)
        assert found.bounds is not None
        shape = (kept.stop - kept.start, k, d + 1)
        T, off = found.scores.reshape(shape), spelled_out(found.bounds).reshape(shape)
        z, T0 = place.rows[kept][:, None, :], T[:, :, :1]
        out.values[kept] = T[:, :, 0]
        np.multiply(z, T0, out=out.gradients[kept])
        out.gradients[kept] -= T[:, :, 1:]
        out.gradients[kept] *= -2.0 * gamma
        off = off + (steep * place.moved[kept])[:, :, None] * sizes
        out.value_bounds[kept] = off[:, :, 0] + LOST
        if bounds:
            terms = np.abs(z) * (np.abs(T0) + off[:, :, :1]) + np.abs(T[:, :, 1:])
            wide = np.abs(z) * off[:, :, :1] + place.moves[kept][:, None, :] * np.abs(T0)
            wide += off[:, :, 1:] + (8.0 * UNIT + 1.01 * known.gamma) * terms
            out.bounds[kept] = 2.1 * gamma * wide + LOST


@dataclass(frozen=True, eq=False)
class _Placed:
    """Rows and centers of a machine about the centers' middle, where that changes no kernel."""

    rows: FloatArray
    centers: FloatArray
    moved: FloatArray  # (m, 1): how far a row and a center may be off, together
    moves: FloatArray  # (m, d): likewise, of each coordinate
    expansion: KernelExpansion

    @classmethod
    def of(cls, own: SeenBy) -> _Placed:
        """Of one machine and its rows."""
        expansion = own.expansion
        centers, rows = expansion.dense_centers(), own.rows
        kernel, known = expansion.kernel, expansion.known
        farthest = np.abs(centers).max(axis=0, initial=0.0)
        moves = own.moves + 1.01 * known.centers * farthest
        if kernel.damps and len(centers):
            point = centers.mean(axis=0)
            centers, rows = centers - point, rows - point
            moves = moves + UNIT * (np.abs(rows) + np.abs(centers).max(axis=0))
        moved = 1.01 * np.sqrt(np.square(moves).sum(axis=1, keepdims=True))
        if known.gamma:  # moves a row away from each center by half of it
            with np.errstate(over="ignore"):
                norms = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
            spread = np.abs(centers).max(initial=0.0) * np.sqrt(rows.shape[1])
            moved = moved + 0.505 * known.gamma * (norms + spread)
        return cls(rows, centers, moved, moves, expansion)

    def add(self, part: slice, out: Derived) -> None:
        """Add values, derivatives and bounds of some rows."""
        Z = self.rows[part]
        for amplitude, kernels in factors_of(self.expansion):
            each = [slope_of(one, Z, self.centers, self.moved[part]) for one in kernels]
            for output in range(out.values.shape[1]):
                self._add_output(part, out, output, amplitude, each)

    def _add_output(
        self, part: slice, out: Derived, output: int, amplitude: float, each: list[Slope]
    ) -> None:
        A = amplitude * self.expansion.coefficients[:, output]
        lost = 1.01 * amplitude * float(self.expansion.known.coefficients[output])
        units = UNIT * (len(self.centers) + 10.0) + self.expansion.known.gamma
        value, error = _product(each)
        out.values[part, output] += value @ A
        sizes = (error + units * np.abs(value)) @ np.abs(A)
        farthest = (np.abs(value) + error).max(axis=1, initial=0.0)
        out.value_bounds[part, output] += 1.05 * sizes + lost * farthest + LOST
        for place, one in enumerate(each):
            slope, off = _product([_as_value(one), *each[:place], *each[place + 1 :]])
            size = np.abs(slope) + off
            found, grown = self._sum(part, one, slope * A, (off + units * size) * np.abs(A))
            out.gradients[part, output] += found
            out.bounds[part, output] += 1.05 * grown + LOST
            if lost:
                most = lost * size.max(axis=1, initial=0.0)
                out.bounds[part, output] += most[:, None] * self._reach(part, one)

    def _reach(self, part: slice, one: Slope) -> FloatArray:
        """The most that a derivative's vector is, coordinate by coordinate."""
        far = np.abs(self.centers).max(axis=0, initial=0.0)
        if one.shape == "dot":
            return far[None, :]
        if one.shape == "sign":
            return np.ones((1, len(far)))
        return (np.abs(self.rows[part]) + far) * one.inverse

    def _sum(
        self, part: slice, one: Slope, weights: FloatArray, bound: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """sum_i W_i times z - x_i, x_i or sign(z - x_i), and its error: each (m, d)."""
        Z, C, moves = self.rows[part], self.centers, self.moves[part]
        sizes = np.abs(weights).sum(axis=1, keepdims=True)
        if one.shape == "dot":
            return weights @ C, bound @ np.abs(C) + sizes * moves
        if one.shape == "gap":
            total = weights.sum(axis=1, keepdims=True)
            found = (Z * total - weights @ C) * one.inverse
            grown = np.abs(Z) * bound.sum(axis=1, keepdims=True) + bound @ np.abs(C)
            return found, (grown + sizes * moves) * one.inverse
        found, grown = np.empty_like(Z), np.empty_like(Z)
        for row in range(len(Z)):
            gaps = Z[row] - C
            found[row] = weights[row] @ np.sign(gaps)
            grown[row] = bound[row].sum()
            kinks = (np.abs(gaps) <= moves[row]) & (weights[row] != 0.0)[:, None]
            grown[row][kinks.any(axis=0)] = np.inf
        return found, grown


def _as_value(one: Slope) -> Slope:
    """A factor whose derivative stands in its place."""
    return Slope(one.shape, one.slope, one.slope, one.slope_error, one.slope_error, one.inverse)


def _product(each: list[Slope]) -> tuple[FloatArray, FloatArray]:
    """The product of values, and its error."""
    value, error = each[0].value, each[0].value_error
    for one in each[1:]:
        grown = error * (np.abs(one.value) + one.value_error) + np.abs(value) * one.value_error
        value = value * one.value
        error = grown + UNIT * np.abs(value)
    return value, error


# Standard deviations and log-densities.


def _of_deviations(model: ModelFields, X: Any) -> tuple[FloatArray, FloatArray]:
    """Standard deviations of shape (m,) or (m, k), and their derivatives."""
    check_maps(model)
    latent = model._latent
    seen = seen_by(model, X)
    posterior = latent.posterior
    rows = [own.rows for own in seen]
    m = len(rows[0])
    V = np.concatenate(
        [latent._solved([one[i : i + 512] for one in rows]) for i in range(0, m, 512)], axis=1
    )
    variances = np.maximum(latent._left(rows, V), 0.0)
    from scipy.linalg import solve_triangular

    solved = solve_triangular(posterior.factor, V, lower=True, trans="T", check_finite=False)
    weights = (solved * posterior.weights[:, None]).T
    amplitudes = np.atleast_1d(posterior.amplitude)
    width = model.n_features_in_
    slopes = np.zeros((m, width))
    for amplitude, own in zip(amplitudes, seen):
        kernel = own.expansion.kernel
        if not kernel.shifts:
            raise UnsupportedModelError(
                "gradients of standard deviations are served for kernels of distances (RBF, "
                "Matern, rational quadratic); this one has a part of products x.z."
            )
        found = _with_weights(own, -2.0 * amplitude * weights)
        slopes += back(model, own, found)
    values = np.sqrt(posterior.scaled(variances))
    with np.errstate(divide="ignore", invalid="ignore"):
        each = slopes / (2.0 * np.sqrt(variances))[:, None]
    each[variances == 0.0] = 0.0
    if values.ndim == 1:
        return values, each * posterior.output_scales[0]
    return values, each[:, None, :] * posterior.output_scales[None, :, None]


def _with_weights(own: SeenBy, weights: FloatArray) -> FloatArray:
    """sum_i W_i grad k(x_i, z) for weights of each row's own, (m, n): shape (m, d)."""
    placed = _Placed.of(own)
    found = np.zeros_like(own.rows)
    step = max(8, PAIRS_AT_ONCE // max(own.expansion.n_centers, 1))
    for start in range(0, len(found), step):
        part = slice(start, start + step)
        Z = placed.rows[part]
        for amplitude, kernels in factors_of(own.expansion):
            each = [slope_of(k, Z, placed.centers, placed.moved[part]) for k in kernels]
            for place, one in enumerate(each):
                value, off = _product([_as_value(one), *each[:place], *each[place + 1 :]])
                found[part] += placed._sum(part, one, amplitude * weights[part] * value, off)[0]
    return found


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
