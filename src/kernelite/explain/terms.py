"""A compiled model as a sum of terms over rows of numbers, and the players that features belong to.

    f(z) = b + sum over terms of  sum_i A_i prod_l exp(-a_l (z_l - s_il)^2 - c_l |z_l - s_il|)
                                or sum_i A_i (gamma s_i.z + coef0)^p,    p = 1 or 2

A player is a column of what users pass, or a group of them. Each feature of a term must belong to
one player: it may come through scalers, encoders and selections, but not through a projection or a
product of columns of several players.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, check_finite, is_sparse
from kernelite.machine.affine import AFFINE_UNITS, AffineMap
from kernelite.machine.exactly import UNIT
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import Kernel, Laplacian, Rbf, SumKernel
from kernelite.machine.preparation import Kept, Preparation, Selection
from kernelite.machine.preparation.numeric import OwnScaling
from kernelite.machine.preparation.projection import Projection
from kernelite.model.fields import ModelFields
from kernelite.model.serving import part_rows, rows_for
from kernelite.support.errors import InputError, UnsupportedModelError

__all__ = [
    "PolynomialTerm",
    "ProductTerm",
    "SeenBy",
    "back",
    "check_maps",
    "has_maps",
    "origins",
    "scales",
    "seen_by",
    "terms_of",
]

MOST_FILLED_FEATURES = 1 << 14  # of a row that is filled in
ROUNDED_SCALE = 4.0  # units of 1 / (2 l^2)


@dataclass(frozen=True, eq=False)
class ProductTerm:
    """sum_i A_i prod_l exp(-a_l (z_l - s_il)^2 - c_l |z_l - s_il|).

    Parameters
    ----------
    centers : ndarray of shape (n, d)
    coefficients : ndarray of shape (n, k)
    square, city : ndarray of shape (d,)
        a and c.
    relative : float
        Relative error of each exponent, besides what computing it rounds.
    lost : ndarray of shape (k,)
        Errors of all A_i, added up.
    """

    centers: FloatArray
    coefficients: FloatArray
    square: FloatArray
    city: FloatArray
    relative: float
    lost: FloatArray


@dataclass(frozen=True, eq=False)
class PolynomialTerm:
    """sum_i A_i (gamma s_i.z + coef0)^degree, of degree 1 or 2.

    Parameters
    ----------
    centers : ndarray of shape (n, d)
    coefficients : ndarray of shape (n, k)
    degree : int
    gamma, coef0 : float
    relative : float
        Relative error of gamma and the centers' coordinates.
    lost : ndarray of shape (k,)
        Errors of all A_i, added up.
    """

    centers: FloatArray
    coefficients: FloatArray
    degree: int
    gamma: float
    coef0: float
    relative: float
    lost: FloatArray


@dataclass(frozen=True, eq=False)
class SeenBy:
    """One machine of a model, and the rows as its expansion sees them.

    Parameters
    ----------
    model : CompiledModel
        The machine: the model itself, or a part of it.
    outputs : int array
        The scores of the whole that its own are added to.
    rows : ndarray of shape (m, d)
    moves : ndarray of shape (m, d)
        How far each coordinate may be from where it should be.
    """

    model: ModelFields
    outputs: NDArray[np.int64]
    rows: FloatArray
    moves: FloatArray

    @property
    def expansion(self) -> KernelExpansion:
        """The exact machine."""
        assert self.model.expansion is not None
        return self.model.expansion


def seen_by(model: ModelFields, X: Any, name: str = "X") -> list[SeenBy]:
    """Rows as users pass them, before each machine of a model: checked, prepared, filled in."""
    machines: list[ModelFields] = [part.model for part in model.parts] or [model]
    if any(one.expansion is None for one in machines):
        raise InputError(
            "this model holds no support vectors (guarantee='none'), so its exact scores cannot be "
            "explained; compile it with guarantee='certified' or 'exact'."
        )
    try:
        if model.parts:
            seen = part_rows(model, X).rows
            outputs = [part.outputs for part in model.parts]
        else:
            rows, beyond = rows_for(model, X)
            if beyond is not None and beyond.any():
                raise InputError(
                    f"`X` has features beyond the {model.n_features_in_} of this model, which no "
                    "player stands for; cut them off."
                )
            seen, outputs = (rows,), [np.arange(model.head.n_scores)]
    except InputError as error:
        raise InputError(str(error).replace("`X`", f"`{name}`")) from None
    return [_prepared(one, out, rows, name) for one, out, rows in zip(machines, outputs, seen)]


def _prepared(model: ModelFields, outputs: NDArray[np.int64], rows: Any, name: str) -> SeenBy:
    check_finite(rows, name=name)
    left = model.preparation
    if not left.rowwise:  # what stands before the map was done at once
        left = Preparation.of(left.input_map)
    if rows.shape[1] > MOST_FILLED_FEATURES:
        raise UnsupportedModelError(
            f"rows of {rows.shape[1]} features are too wide to be filled in; the most is "
            f"{MOST_FILLED_FEATURES}. Fit the model on selected features."
        )
    made = left.apply(rows)
    made = np.ascontiguousarray(made.toarray() if is_sparse(made) else made, dtype=np.float64)
    assert model.expansion is not None
    known = model.expansion.known
    units = AFFINE_UNITS * UNIT if model.preparation.input_map is not None else 0.0
    moves = 1.01 * (units * np.abs(made) + known.rows)
    if known.relative:
        with np.errstate(over="ignore"):
            norms = np.sqrt(np.square(made).sum(axis=1, keepdims=True)) * (1.0 + 1e-9)
        moves = moves + 1.01 * known.relative * norms
    return SeenBy(model, outputs, made, np.ascontiguousarray(moves))


# Terms.


def terms_of(expansion: KernelExpansion) -> Iterator[ProductTerm | PolynomialTerm]:
    """The terms of an expansion, or a refusal that says which kernels have them."""
    known, kernel = expansion.known, expansion.kernel
    d = expansion.n_features
    if kernel.damps:
        yield _product(expansion, np.full(d, expansion.gamma), np.zeros(d), known.gamma)
        return
    if not isinstance(kernel, SumKernel):
        yield _term(expansion, kernel)
        return
    for amplitude, own in zip(kernel.amplitudes, kernel.kernels):
        weighted = replace(
            expansion,
            coefficients=amplitude * expansion.coefficients,
            uncertainty=known.times(np.full(expansion.n_outputs, amplitude)),
        )
        yield _term(weighted.rounded(units=kernel.rounded + 1.0), own)


def _term(expansion: KernelExpansion, kernel: Kernel) -> ProductTerm | PolynomialTerm:
    polynomial = None if kernel.unit_rows else kernel.polynomial
    if polynomial is not None and polynomial.degree <= 2:
        known = expansion.known
        return PolynomialTerm(
            expansion.dense_centers(),
            expansion.coefficients,
            polynomial.degree,
            polynomial.gamma,
            polynomial.coef0,
            known.gamma + known.centers,
            known.coefficients,
        )
    d = expansion.n_features
    square, city = np.zeros(d), np.zeros(d)
    ((_, factors),) = kernel.terms
    for factor in factors:
        if isinstance(factor, Rbf):
            scales = np.broadcast_to(np.array(factor.length_scale), (d,))
            square += 0.5 / np.square(scales)
        elif isinstance(factor, Laplacian):
            city += factor.gamma
        else:
            raise UnsupportedModelError(
                f"exact Shapley values are known for RBF, Laplacian and linear kernels, for "
                f"polynomials of degree 2, and for their sums; this model has: {kernel.label}. "
                "shap.KernelExplainer(model.decision_function, background) estimates them."
            )
    return _product(expansion, square, city, expansion.known.gamma + ROUNDED_SCALE * UNIT)


def _product(
    expansion: KernelExpansion, square: FloatArray, city: FloatArray, relative: float
) -> ProductTerm:
    return ProductTerm(
        expansion.dense_centers(),
        expansion.coefficients,
        square,
        city,
        relative,
        expansion.known.coefficients,
    )


# Which column each feature comes from.


def origins(model: ModelFields, machine: ModelFields) -> list[frozenset[int]]:
    """For each feature of a machine, the columns of the user's rows that it is made of."""
    steps = list(model.preparation.steps)
    if machine is not model:
        steps += machine.preparation.steps
    width = model.n_features_in_
    assert machine.expansion is not None
    found = [frozenset((column,)) for column in range(width)]
    for step in steps:
        if isinstance(step, Kept):  # of which nobody knows
            return [frozenset(range(width))] * machine.expansion.n_features
        found = step.made_of(found)
    assert len(found) == machine.expansion.n_features
    return found


# The maps that rows come through before a machine: derivatives and distances behind them.


def check_maps(model: ModelFields) -> None:
    """Refuse what stands before a model and has no derivative, or none that is served."""
    machines: list[ModelFields] = [part.model for part in model.parts]
    for one in (model, *machines):
        for step in one.preparation.steps:
            if not isinstance(step, AffineMap | Selection | OwnScaling | Projection):
                raise UnsupportedModelError(
                    f"rows go through a {type(step).__name__} step before this model, through "
                    "which derivatives are not taken; compile the last step of the pipeline by "
                    "itself, and pass transformed rows."
                )


def _steps(model: ModelFields, own: SeenBy) -> list[Any]:
    """What rows go through before a machine: the steps of the whole, then its own."""
    several = () if own.model is model else own.model.preparation.steps
    return [*model.preparation.steps, *several]


def has_maps(model: ModelFields, own: SeenBy) -> bool:
    """Whether a machine sees other numbers than users pass."""
    return bool(_steps(model, own))


def _scale(step: AffineMap | OwnScaling) -> FloatArray:
    if isinstance(step, AffineMap):
        return step.scale
    pairs: Any = zip(step.marks, step.by, strict=True)
    return AffineMap.of(*pairs).scale


def back(model: ModelFields, own: SeenBy, found: FloatArray, *, sizes: bool = False) -> FloatArray:
    """Derivatives by users' columns, from those by a machine's features: (..., d) to (..., width).

    Parameters
    ----------
    model : CompiledModel
    own : SeenBy
    found : ndarray
    sizes : bool
        Whether these are bounds, which maps multiply by absolute values.
    """
    for step in reversed(_steps(model, own)):
        if isinstance(step, AffineMap | OwnScaling):
            found = found * (np.abs(_scale(step)) if sizes else _scale(step))
        elif isinstance(step, Selection):
            wide = np.zeros((*found.shape[:-1], step.n_features))
            for place, column in enumerate(step.columns):  # which may be named twice
                wide[..., column] += found[..., place]
            found = wide
        else:
            matrix = step._words[0]
            found = found @ (np.abs(matrix) if sizes else matrix)
    return found


def scales(model: ModelFields, own: SeenBy) -> FloatArray:
    """What each feature of a machine is multiplied with before: features move by that much."""
    scale: Any = 1.0
    for step in _steps(model, own):
        if isinstance(step, AffineMap | OwnScaling):
            scale = scale * np.abs(_scale(step))
        elif isinstance(step, Selection) and len(set(step.columns.tolist())) == step.n_out:
            scale = np.broadcast_to(scale, (step.n_features,))[step.columns]
        else:
            raise UnsupportedModelError(
                f"rows go through a {type(step).__name__} step before this model, which distances "
                "are not measured through; compile the last step of the pipeline by itself, and "
                "pass transformed rows."
            )
    return np.broadcast_to(np.asarray(scale, dtype=np.float64), (own.rows.shape[1],))
