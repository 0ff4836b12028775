"""One table of fitted scikit-learn models that the suites share.

`MODELS` maps a name to a recipe; `fitted(name)` fits it once and returns the model with rows to
predict: some it was trained on, some new, some far away, in the form (dense, sparse, data frame)
that the model was fitted on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.base import clone
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

__all__ = ["CLASSIFIERS", "MODELS", "Recipe", "fitted"]

Table = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Recipe:
    """An unfitted estimator and the data to fit it on."""

    estimator: Any
    data: Callable[[], Table]
    form: str = "dense"  # or "sparse", "frame"


def _standard(X: np.ndarray) -> np.ndarray:
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)


def _iris() -> Table:
    X, y = datasets.load_iris(return_X_y=True)
    return X[::2], y[::2]


def _named_iris() -> Table:
    X, y = _iris()
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


def _wine() -> Table:
    X, y = datasets.load_wine(return_X_y=True)
    return _standard(X)[::2], y[::2]


def _cancer() -> Table:
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return _standard(X)[:200], y[:200]


def _raw_cancer() -> Table:
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return X[:150], np.where(y[:150] == 1, "benign", "malignant")


def _digits() -> Table:
    X, y = datasets.load_digits(return_X_y=True)
    return X[:400] / 16.0, y[:400]


def _diabetes() -> Table:
    X, y = datasets.load_diabetes(return_X_y=True)
    return _standard(X)[:150], y[:150] / 100.0


def _friedman() -> Table:
    return datasets.make_friedman1(120, n_features=6, noise=0.1, random_state=0)


def _words() -> Table:
    """Non-negative, mostly zero, five classes with negative integer labels among them."""
    rng = np.random.default_rng(5)
    y = rng.integers(-2, 3, 150)
    X = rng.poisson(0.15, (150, 40)) * rng.random((150, 40))
    X[np.arange(150), y + 2] += 1.0
    return X, y


def _flat() -> Table:
    """Values that never leave the tube, so that no support vector is needed."""
    return np.arange(12.0).reshape(4, 3), np.array([1.0, 1.05, 0.95, 1.0])


def _signs() -> Table:
    X, y = _cancer()
    return X, y.astype(bool)


MODELS: dict[str, Recipe] = {
    "svc binary": Recipe(SVC(), _cancer),
    "svc binary gamma number": Recipe(SVC(gamma=0.02, C=10.0), _cancer),
    "svc binary strings, raw scale": Recipe(SVC(gamma="scale"), _raw_cancer),
    "svc binary booleans": Recipe(SVC(gamma=0.05), _signs),
    "svc binary sparse": Recipe(SVC(gamma=0.02), _cancer, "sparse"),
    "svc binary probability": Recipe(SVC(probability=True, random_state=0), _cancer),
    "svc binary poly": Recipe(SVC(kernel="poly", degree=2, coef0=1.0), _cancer),
    "svc iris ovr": Recipe(SVC(gamma="auto"), _iris),
    "svc iris ovo": Recipe(SVC(decision_function_shape="ovo"), _iris),
    "svc iris break ties": Recipe(SVC(gamma=0.01, C=0.05, break_ties=True), _iris),
    "svc iris strings, frame": Recipe(SVC(C=3.0), _named_iris, "frame"),
    "svc iris poly ovo": Recipe(
        SVC(kernel="poly", degree=2, gamma=0.1, decision_function_shape="ovo"), _iris
    ),
    "svc wine sparse ovo": Recipe(SVC(decision_function_shape="ovo"), _wine, "sparse"),
    "svc wine sparse poly": Recipe(SVC(kernel="poly", degree=2, coef0=0.5), _wine, "sparse"),
    "svc wine probability": Recipe(SVC(probability=True, random_state=0), _wine),
    "svc wine balanced": Recipe(SVC(class_weight="balanced", gamma=0.1), _wine),
    "svc digits": Recipe(SVC(gamma=0.05), _digits),
    "svc digits break ties": Recipe(SVC(gamma=0.5, C=0.3, break_ties=True), _digits),
    "svc digits probability": Recipe(SVC(gamma=0.05, probability=True, random_state=0), _digits),
    "svc words sparse": Recipe(SVC(gamma=0.5), _words, "sparse"),
    "svc words sparse probability": Recipe(
        SVC(gamma=0.5, probability=True, random_state=0), _words, "sparse"
    ),
    "nusvc binary": Recipe(NuSVC(nu=0.2), _cancer),
    "nusvc wine ovo": Recipe(NuSVC(nu=0.3, decision_function_shape="ovo"), _wine),
    "nusvc words probability": Recipe(NuSVC(nu=0.4, probability=True, random_state=0), _words),
    "svr diabetes": Recipe(SVR(C=10.0), _diabetes),
    "svr friedman sparse": Recipe(SVR(gamma=0.2, C=10.0), _friedman, "sparse"),
    "svr diabetes poly": Recipe(SVR(kernel="poly", degree=2, coef0=1.0, gamma=0.1), _diabetes),
    "svr flat": Recipe(SVR(epsilon=0.5), _flat),
    "svr flat sparse": Recipe(SVR(epsilon=0.5), _flat, "sparse"),
    "nusvr friedman": Recipe(NuSVR(nu=0.4, C=5.0), _friedman),
    "nusvr diabetes sparse": Recipe(NuSVR(gamma="auto"), _diabetes, "sparse"),
    "oneclass cancer": Recipe(OneClassSVM(nu=0.1), _cancer),
    "oneclass friedman sparse": Recipe(OneClassSVM(nu=0.3, gamma=0.5), _friedman, "sparse"),
    "oneclass iris poly": Recipe(OneClassSVM(kernel="poly", degree=2, nu=0.2), _iris),
}

CLASSIFIERS = tuple(name for name in MODELS if "svc" in name)


@cache
def fitted(name: str) -> tuple[Any, Any]:
    """The fitted model, and rows of shape (m, d) to predict."""
    recipe = MODELS[name]
    X, y = recipe.data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # `probability` is to go in 1.11
        model = clone(recipe.estimator).fit(_formed(X, recipe.form), y)
    return model, _formed(_rows_around(X), recipe.form)


def _rows_around(X: np.ndarray) -> np.ndarray:
    """Training rows, rows between them, noisy ones, far ones and the origin."""
    rng = np.random.default_rng(0)
    some = X[rng.integers(0, len(X), (2, 30))]
    noisy = some[0] + rng.normal(size=some[0].shape) * X.std(axis=0)
    far = 20.0 * noisy[:5]
    return np.concatenate([X[:40], some.mean(axis=0), noisy, far, np.zeros((1, X.shape[1]))])


def _formed(X: np.ndarray, form: str) -> Any:
    if form == "sparse":
        from scipy.sparse import csr_array

        return csr_array(X)
    if form == "frame":
        import pandas as pd

        return pd.DataFrame(X, columns=[f"feature {i}" for i in range(X.shape[1])])
    return X
