"""Derivatives of a model's scores by the columns that users pass, with proven error bounds.

    grad f(z) = sum_i A_i grad k(x_i, z)

Each kernel's derivative is a number h per center times z - x_i, x_i or sign(z - x_i) (`slopes`), so
that a block of rows is a product of matrices: sum_i W_i (z - x_i) = z sum W_i - W X. Rows and
centers are moved to the centers' middle first, so that little cancels. Such a sum of n terms errs
by (n + 8) u of its terms' sizes, and by the errors of W; behind it stand the maps that rows came
through, transposed. Of an RBF kernel the sums are those of another expansion, with the coefficients
A_i and A_i (x_i - p): the exact engine takes them in one pass, and bounds them (`centers`).
`deviations` has those of standard deviations. A log-density has grad s / s.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from kernelite.explain.centers import Derived
from kernelite.explain.deviations import of_deviations
from kernelite.explain.maps import back, check_maps, has_maps
from kernelite.explain.terms import SeenBy, seen_by
from kernelite.machine.exactly import UNIT
from kernelite.model.fields import ModelFields
from kernelite.support.errors import InputError, UnsupportedModelError

__all__ = ["derivatives", "gradient"]


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
    """By the columns that users pass."""
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
