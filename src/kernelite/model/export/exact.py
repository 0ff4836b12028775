"""The exact model over the operations of `kernelite.machine.ops`, for all targets of exports.

In: an expansion, and rows of shape (m, d). Out: scores (m, k), kernel values (m, n), the logarithms
of sums (m,), or variances (m, 1). Distances are taken by differences, or, where a target says
`by_products` and enough digits are left, by one product about the centers' mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import CosineKernel
from kernelite.machine.ops import ops
from kernelite.machine.variance import WELL_CONDITIONED, Posterior
from kernelite.model import CompiledModel
from kernelite.model.export.selection import (
    ExportSelection,
    about_their_mean,
    packed,
    plain_reach,
)
from kernelite.series.packed import linear_map, packed_degree, pair_places
from kernelite.series.rounding import UNIT
from kernelite.support.errors import UnsupportedModelError

__all__ = [
    "deviations",
    "exact_scores",
    "has_logarithms",
    "kernel_values",
    "latent_variances",
    "log_sums",
    "prepared",
]

FARTHEST_EXPORTED = {"float64": 1e150, "float32": 1e17}  # beyond it, squares would overflow
LOST_DIGITS = 1e-9  # the relative error of a kernel value from which products are not taken


def exact_scores(expansion: KernelExpansion, rows: Any, *, fold: bool = True) -> Any:
    """f of each row: one product, a packed polynomial, or all kernel values.

    Parameters
    ----------
    expansion : KernelExpansion
    rows : array of shape (m, d)
    fold : bool
        Whether a polynomial is taken as a tensor, where that has fewer numbers than the centers.
    """
    xp, b = ops(rows), expansion.intercept
    if packed_degree(expansion) == 1:
        found = linear_map(expansion)
        if expansion.kernel.unit_rows:
            rows = CosineKernel.normalized(rows)
        seen = rows if found.columns is None else rows[:, found.columns]
        return seen @ found.weights.T + found.intercept
    tensor = packed(expansion) if fold else None
    if tensor is None:
        return kernel_values(expansion, rows) @ expansion.coefficients + b
    Y = xp.concat([rows, xp.full((rows.shape[0], 1), 1.0)], axis=1)
    if tensor.ndim == 2:
        return xp.contract_cubic(Y, tensor) + b
    first, second = pair_places(expansion.n_features + 1)
    return xp.contract(Y[:, first] * Y[:, second], tensor) + b


def kernel_values(expansion: KernelExpansion, rows: Any) -> Any:
    """k(x_i, z) for every row and center: shape (m, n)."""
    if expansion.kernel.damps:
        return ops(rows).exp(_exponents(expansion, rows))
    return expansion.kernel.values(rows, expansion.dense_centers())


def has_logarithms(expansion: KernelExpansion) -> bool:
    """Whether kernel values are known by their logarithms, which do not underflow."""
    return expansion.kernel.exponents(np.zeros(1)) is not None


def log_sums(expansion: KernelExpansion, rows: Any) -> Any:
    """The logarithm of a sum of positive bumps, where the sum would underflow: shape (m,)."""
    xp = ops(rows)
    if expansion.kernel.damps:
        logarithms = _exponents(expansion, rows)
    else:
        squares = xp.squared_distances(rows, expansion.dense_centers())
        logarithms = expansion.kernel.exponents(squares)
    with np.errstate(divide="ignore"):
        exponents = logarithms + np.log(expansion.coefficients[:, 0])
    top = xp.max(exponents, axis=1, keepdims=True)
    top = xp.where(xp.isinf(top), 0.0, top)
    return xp.log(xp.sum(xp.exp(exponents - top), axis=1)) + top[:, 0]


def latent_variance(
    posterior: Posterior, expansions: Sequence[KernelExpansion], rows: Sequence[Any]
) -> Any:
    """The variance of a Gaussian process, as `Posterior` has it: shape (m, 1).

    There is no triangular solve in most targets. The inverse of the factor loses digits as its
    condition grows; one correction by what is left over gives them back.

    Parameters
    ----------
    posterior : Posterior
    expansions : sequence of KernelExpansion
        One for each kernel.
    rows : sequence of arrays of shape (m, d)
        As each expansion sees them.
    """
    xp, factor = ops(rows[0]), np.tril(posterior.factor)
    K: Any = posterior.constant
    prior: Any = posterior.diagonal
    for amplitude, expansion, seen in zip(np.atleast_1d(posterior.amplitude), expansions, rows):
        kernel = expansion.kernel
        K = kernel.values(seen, expansion.dense_centers()) * float(amplitude) + K
        if not kernel.shifts:
            prior = kernel.diagonal(seen) * float(amplitude) + prior
    inverse = np.linalg.inv(factor)
    K = K * posterior.weights
    V = K @ inverse.T
    if np.linalg.norm(factor) * np.linalg.norm(inverse) > WELL_CONDITIONED:
        V = V + (K - V @ factor.T) @ inverse.T
    return (prior - xp.squared_norms(V))[:, None]


def latent_variances(selection: ExportSelection, X: Any) -> Any:
    """Of a Gaussian process, or of each of its machines: shape (m, machines)."""
    model, pieces = selection.model, selection.pieces
    if model.parts:
        X = prepared(model, X)
    rows = [prepared(piece.model, X) for piece in pieces]
    expansions = [piece.expansion for piece in pieces if piece.expansion is not None]
    if model.posterior is not None:
        return latent_variance(model.posterior, expansions, rows)
    found = [
        latent_variance(piece.model.posterior, [expansion], [own])
        for piece, expansion, own in zip(pieces, expansions, rows, strict=True)
        if piece.model.posterior is not None
    ]
    return ops(rows[0]).concat(found, axis=1)


def prepared(model: CompiledModel, X: Any, far: list[Any] | None = None) -> Any:
    """Rows after the steps of a machine.

    Parameters
    ----------
    model : CompiledModel
    X : array of shape (m, d)
        As they come; a table of columns where texts are among them.
    far : list, optional
        To which truth values (m, 1) are added: rows that no bound is known of.
    """
    steps: tuple[Any, ...] = model.preparation.steps
    for step in steps:
        reach = plain_reach(step)
        if reach is not None and far is not None:
            xp = ops(X)
            far.append(~(xp.sqrt(xp.squared_norms(step.gaps(X))[:, None]) <= reach))
        try:
            X = step.formula(X)
        except UnsupportedModelError as error:
            said = str(error).rstrip(".")
            raise UnsupportedModelError(
                f"what rows go through before this model is not exported: {said}."
            ) from None
    return X


def deviations(posterior: Posterior, variance: Any) -> Any:
    """Standard deviations of all outputs, shape (m, k): the square root, in output units."""
    xp = ops(variance)
    return xp.sqrt(xp.maximum(variance, 0.0)) * np.abs(posterior.output_scales)[None, :]


def _exponents(expansion: KernelExpansion, rows: Any) -> Any:
    """-gamma |x_i - z|^2, shape (m, n): by products, where the target takes these and may."""
    xp, gamma, farthest = ops(rows), expansion.gamma, None
    if getattr(type(xp), "by_products", False):
        farthest = FARTHEST_EXPORTED[np.dtype(xp.dtype).name]
        point, shifted, own = about_their_mean(expansion)
        if (shifted.shape[1] + 8) * 4.0 * own.max(initial=0.0) * UNIT > LOST_DIGITS:
            farthest = None
    if farthest is None:
        return xp.squared_distances(rows, expansion.dense_centers()) * -gamma
    U = xp.clip(rows - point, -farthest, farthest)
    products = U @ (2.0 * gamma * shifted.T) - own
    return xp.minimum(products - xp.squared_norms(U)[:, None] * gamma, 0.0)
