"""scikit-learn's shells around one fitted model: searches, frozen ones, transformed targets.

GridSearchCV, RandomizedSearchCV, Halving searches: `best_estimator_`. FrozenEstimator and
kernelite's own meta-estimators: the model inside.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads.values import (
    DECREASING,
    INCREASING,
    KeptInverse,
    NamedInverse,
    TargetHead,
)
from kernelite.machine.machine import Machine, SumOfMachines
from kernelite.sources.common import feature_names, require_fitted, scaled_outputs
from kernelite.sources.pipeline import scaler_map
from kernelite.support.errors import UnsupportedModelError

__all__ = ["read_search", "read_shell", "read_transformed_target"]


def read_search(model: Any, type_name: str, /) -> Machine:
    """Read the best model of a fitted search.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> search = GridSearchCV(SVC(gamma=0.1), {"C": [1, 10]}, cv=2).fit(X, y)
    >>> read_search(search, "GridSearchCV").type_name
    'SVC'
    """
    if hasattr(model, "cv_results_") and not hasattr(model, "best_estimator_"):
        raise UnsupportedModelError(
            f"this {type_name} has refit={model.refit!r}, so it holds no fitted model; set "
            "refit=True, or fit the best parameters and compile that."
        )
    require_fitted(model, "best_estimator_", type_name)
    return _inside(model, model.best_estimator_, type_name)


def read_shell(model: Any, type_name: str, /) -> Machine:
    """Read the model inside a FrozenEstimator or one of kernelite's meta-estimators.

    Examples
    --------
    >>> from kernelite import CompiledRegressor
    >>> fitted = CompiledRegressor().fit([[0.0], [1.0], [2.0]], [0, 1, 4])
    >>> read_shell(fitted, "CompiledRegressor").type_name
    'SVR'
    """
    if type_name == "FrozenEstimator":
        return _inside(model, model.estimator, type_name)
    require_fitted(model, "estimator_", type_name)
    return _inside(model, model.estimator_, type_name)


def _inside(shell: Any, model: Any, type_name: str) -> Machine:
    from kernelite.sources import read

    machine = read(model)
    names = feature_names(shell)
    return replace(
        machine,
        feature_names=machine.feature_names if names is None else names,
        description=f"{type_name} of {machine.description}",
    )


# scikit-learn's TransformedTargetRegressor: the inverse transform of a regressor's values.
#
# Affine inverses (scalers) go into coefficients and intercept; monotone functions of NumPy are
# known by name; other transformers are kept as they are.


MONOTONE = ("PowerTransformer", "QuantileTransformer")


def read_transformed_target(
    model: Any, type_name: str = "TransformedTargetRegressor", /
) -> Machine:
    """Read a fitted TransformedTargetRegressor.

    Examples
    --------
    >>> from sklearn.compose import TransformedTargetRegressor
    >>> from sklearn.svm import SVR
    >>> logs = TransformedTargetRegressor(SVR(gamma=0.5), func=np.log, inverse_func=np.exp)
    >>> machine = read_transformed_target(logs.fit([[0.0], [1.0]], [1.0, 2.0]))
    >>> machine.head.inverse
    NamedInverse(name='exp')
    """
    from kernelite.sources import read

    require_fitted(model, "regressor_", type_name)
    machine = read(model.regressor_)
    if machine.head.kind != "regressor":
        raise UnsupportedModelError(f"this {type_name} holds a {machine.type_name}, no regressor.")
    described = replace(
        machine, description=f"{type_name} of {machine.description}", posterior=None
    )
    transformer = model.transformer_
    affine = _affine(transformer, machine)
    if affine is not None:
        scale, shift = affine
        return replace(described, expansion=_scaled(machine.expansion, scale, shift))
    flat = bool(model._training_dim == 1)
    return replace(described, head=TargetHead(machine.head, _inverse(transformer), flat))


def _affine(transformer: Any, machine: Machine) -> tuple[list[Fraction], list[Fraction]] | None:
    """(scale, shift) of y = score * scale + shift, where the values are the scores."""
    if not machine.head.scores_are_values:
        return None
    k = machine.head.n_scores
    if type(transformer).__name__ == "FunctionTransformer" and transformer.inverse_func is None:
        return [Fraction(1)] * k, [Fraction(0)] * k
    folded = scaler_map(transformer)
    if folded is None:
        return None
    real = list(folded.real())
    return [1 / s for s, _ in real], [-c / s for s, c in real]


def _scaled(
    expansion: KernelExpansion | SumOfMachines, scale: list[Fraction], shift: list[Fraction]
) -> KernelExpansion | SumOfMachines:
    if isinstance(expansion, SumOfMachines):
        parts, moved = [], set[int]()
        for part in expansion.parts:
            # The shift is added once, by the first part that reaches an output.
            outputs = [int(output) for output in part.outputs]
            own = [Fraction(0) if output in moved else shift[output] for output in outputs]
            moved |= set(outputs)
            inner = _scaled(part.machine.expansion, [scale[output] for output in outputs], own)
            parts.append(replace(part, machine=replace(part.machine, expansion=inner)))
        return replace(expansion, parts=tuple(parts))
    return scaled_outputs(expansion, scale, shift)


def _inverse(transformer: Any) -> NamedInverse | KeptInverse:
    if type(transformer).__name__ == "FunctionTransformer":
        function = transformer.inverse_func
        name = getattr(function, "__name__", "")
        plain = not transformer.inv_kw_args
        if plain and name in INCREASING | DECREASING and getattr(np, name) is function:
            return NamedInverse(name)
    kind = type(transformer)
    known = kind.__name__ in MONOTONE and kind.__module__.startswith("sklearn.")
    return KeptInverse(transformer, increasing=known)
