"""scikit-learn's BaggingClassifier, BaggingRegressor, VotingClassifier and VotingRegressor.

A mean of regressors is linear, so its weights go into the coefficients: machines whose kernels
agree become a single expansion with a single output, however many they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.machine.front import Selection
from kernelite.machine.heads import MeanHead, RegressorHead, VotingHead
from kernelite.machine.machine import Machine
from kernelite.sources.combine import (
    assembled,
    members_of,
    offered_methods,
    places_of,
    read_members,
    weighted,
)
from kernelite.sources.pipeline import with_step
from kernelite.sources.sklearn_common import require_fitted

__all__ = ["read_bagging", "read_voting"]


def read_bagging(model: Any, type_name: str, /) -> Machine:
    """Read a fitted BaggingClassifier or BaggingRegressor, feature subsets included.

    Parameters
    ----------
    model : estimator
    type_name : str

    Returns
    -------
    Machine

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import BaggingClassifier
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> fitted = BaggingClassifier(SVC(gamma=0.1), 4, random_state=0).fit(X, y)
    >>> read_bagging(fitted, "BaggingClassifier").description
    'scikit-learn BaggingClassifier of 4 machines, ... support vectors, gamma 0.1'
    """
    require_fitted(model, "estimators_", type_name)
    estimators = list(model.estimators_)
    width = int(model.n_features_in_)
    sources = [
        _on_features(source, features, width)
        for source, features in zip(read_members(estimators, type_name), model.estimators_features_)
    ]
    if sources[0].head.kind == "regressor":
        return _mean(model, type_name, estimators, sources, None)
    soft = all(hasattr(estimator, "predict_proba") for estimator in estimators)
    numbers = np.arange(len(model.classes_))  # machines are fitted on the indices of labels
    places = [places_of(estimator, numbers) for estimator in estimators]
    # Machines that miss a class have decision values of another shape; scikit-learn then fails.
    without = () if all(place is None for place in places) else ("decision_function",)
    members, methods = members_of(estimators, sources, places), offered_methods(model, *without)
    head = VotingHead(np.asarray(model.classes_), members, soft, methods)
    return assembled(model, type_name, sources, head)


def read_voting(model: Any, type_name: str, /) -> Machine:
    """Read a fitted VotingClassifier (hard or soft) or VotingRegressor.

    Parameters
    ----------
    model : estimator
    type_name : str

    Returns
    -------
    Machine

    Examples
    --------
    >>> from sklearn.ensemble import VotingRegressor
    >>> from sklearn.svm import SVR
    >>> two = [("a", SVR(gamma=0.5)), ("b", SVR(gamma=0.5, C=9.0))]
    >>> fitted = VotingRegressor(two).fit([[0.0], [1.0], [2.0]], [0, 1, 4])
    >>> read_voting(fitted, "VotingRegressor").expansion.coefficients.shape
    (3, 1)
    """
    require_fitted(model, "estimators_", type_name)
    estimators = list(model.estimators_)
    sources = read_members(estimators, type_name)
    given = model._weights_not_none
    weights = None if given is None else np.asarray(given, dtype=np.float64)
    if sources[0].head.kind == "regressor":
        return _mean(model, type_name, estimators, sources, weights)
    numbers = np.arange(len(model.classes_))
    places = [places_of(estimator, numbers) for estimator in estimators]
    soft = model.voting == "soft"
    without = ("transform",) if soft and not model.flatten_transform else ()
    members, methods = members_of(estimators, sources, places), offered_methods(model, *without)
    head = VotingHead(np.asarray(model.classes_), members, soft, methods, weights)
    return assembled(model, type_name, sources, head)


def _on_features(source: Machine, features: Any, width: int) -> Machine:
    """A machine that sees some features only."""
    chosen = np.asarray(features)
    if len(chosen) == width and (chosen == np.arange(width)).all():
        return source
    return with_step(Selection(chosen, width), source)


def _mean(
    model: Any,
    type_name: str,
    estimators: Sequence[Any],
    sources: list[Machine],
    weights: NDArray[np.float64] | None,
) -> Machine:
    outputs = sources[0].expansion.n_outputs
    if all(source.head.scores_are_values for source in sources):
        parts = [Fraction(1)] * len(sources) if weights is None else list(map(Fraction, weights))
        scaled = [weighted(source, part / sum(parts)) for source, part in zip(sources, parts)]
        same = [np.arange(outputs) for _ in sources]
        head = RegressorHead(outputs, value_shape=sources[0].head.value_shape)
        return assembled(model, type_name, scaled, head, same)
    return assembled(model, type_name, sources, MeanHead(members_of(estimators, sources), weights))
