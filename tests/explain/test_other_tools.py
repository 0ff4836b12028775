"""scikit-learn's inspection tools and shap's explainers run over a compiled model."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from sklearn.inspection import (
    DecisionBoundaryDisplay,
    PartialDependenceDisplay,
    partial_dependence,
    permutation_importance,
)
from sklearn.svm import SVC, SVR

import kernelite as kl
from kernelite.support.errors import InputError

pandas = pytest.importorskip("pandas")


def data(named: bool) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1]
    return (pandas.DataFrame(X, columns=["a", "b", "c"]) if named else X), y


@pytest.mark.parametrize("named", [True, False])
def test_permutation_importance_is_the_same(named: bool) -> None:
    X, y = data(named)
    for model, target in ((SVC().fit(X, y > 0), y > 0), (SVR().fit(X, y), y)):
        fast = kl.compile(model, X, guarantee="exact")
        ours, theirs = (
            permutation_importance(one, X, target, n_repeats=3, random_state=0)
            for one in (fast, model)
        )
        assert np.allclose(ours.importances, theirs.importances, atol=1e-10)


@pytest.mark.parametrize("named", [True, False])
def test_partial_dependence_is_the_same(named: bool) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    X, y = data(named)
    model = SVR().fit(X, y)
    fast = kl.compile(model, X, guarantee="exact")
    ours, theirs = (partial_dependence(one, X, [0, 1], grid_resolution=7) for one in (fast, model))
    assert np.allclose(ours["average"], theirs["average"], atol=1e-10)
    assert PartialDependenceDisplay.from_estimator(fast, X, [0, (0, 1)], grid_resolution=5)


def test_decision_boundaries_are_drawn() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    X, y = data(True)
    model = SVC().fit(X[["a", "b"]], y > 0)
    fast = kl.compile(model, X[["a", "b"]], guarantee="exact")
    for method in ("predict", "decision_function"):
        ours, theirs = (
            DecisionBoundaryDisplay.from_estimator(
                one, X[["a", "b"]], response_method=method, grid_resolution=9
            )
            for one in (fast, model)
        )
        assert np.allclose(ours.response, theirs.response, atol=1e-10)


@pytest.mark.campaign  # shap compiles for ten seconds when it is first used
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("named", [True, False])
def test_shap_explainers_agree_with_exact_values(named: bool) -> None:
    """KernelExplainer sets `feature_names_in_` of a copy to None; with 3 columns it is exact."""
    shap = pytest.importorskip("shap", reason="shap is not installed")
    X, y = data(named)
    fast = kl.compile(SVC().fit(X, y > 0), X, guarantee="exact")
    rows, background = X[:2], X[20:30]
    true = fast.shap_values(rows, background)
    sampled = shap.KernelExplainer(fast.decision_function, background)
    assert np.allclose(sampled.shap_values(rows, silent=True), true.values, atol=1e-6)
    exact = shap.explainers.Exact(fast.decision_function, shap.maskers.Independent(background))
    assert np.allclose(exact(rows).values, true.values, atol=1e-8)
    if named:  # the model itself has its names still
        assert list(fast.feature_names_in_) == ["a", "b", "c"]


def test_names_can_be_set_and_nothing_else() -> None:
    X, y = data(False)
    fast = kl.compile(SVR().fit(X, y), X)
    fast.feature_names_in_ = ["a", "b", "c"]
    assert list(fast.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(InputError, match="2 feature names for 3 features"):
        fast.feature_names_in_ = ["a", "b"]
    with pytest.raises(FrozenInstanceError):
        fast.guarantee = "none"
