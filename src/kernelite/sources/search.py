"""scikit-learn's searches and other shells around one fitted model.

GridSearchCV, RandomizedSearchCV, Halving searches: `best_estimator_`. FrozenEstimator and
kernelite's own meta-estimators: the model inside.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kernelite.errors import UnsupportedModelError
from kernelite.machine.machine import Machine
from kernelite.sources.sklearn_common import feature_names, require_fitted

__all__ = ["read_search", "read_shell"]


def read_search(model: Any, type_name: str, /) -> Machine:
    """Read the best model of a fitted search.

    Parameters
    ----------
    model : BaseSearchCV
    type_name : str
        What messages call it.

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

    Parameters
    ----------
    model : estimator
    type_name : str
        What messages call it.

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

    source = read(model)
    names = feature_names(shell)
    return replace(
        source,
        feature_names=source.feature_names if names is None else names,
        description=f"{type_name} of {source.description}",
    )
