"""Pipelines and searches: what is folded, what is kept, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import PoissonRegressor, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, LinearSVC

import kernelite as kl
from kernelite.machine.affine import AffineMap
from kernelite.machine.preparation import Kept, Selection
from kernelite.sources import read
from kernelite.sources.pipeline import scaler_map
from kernelite.support.errors import UnsupportedModelError
from tests.datasets import cancer, iris, raw_cancer

SCALERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    StandardScaler(with_mean=False, with_std=False),
    MinMaxScaler(),
    MinMaxScaler(feature_range=(-3, 7)),
    MaxAbsScaler(),
    RobustScaler(),
    RobustScaler(with_centering=False),
    RobustScaler(with_scaling=False, quantile_range=(10, 90)),
    RobustScaler(unit_variance=True),
]


@pytest.mark.parametrize("scaler", SCALERS, ids=repr)
def test_a_scaler_is_its_affine_map(scaler: Any) -> None:
    X, _ = raw_cancer()
    X = np.column_stack([X, np.full(len(X), 3.0)])  # a constant feature has no scale
    folded = scaler_map(scaler.fit(X))
    assert folded is not None
    np.testing.assert_allclose(folded(X), scaler.transform(X), rtol=1e-12, atol=1e-12)


def test_clipping_is_not_affine_and_other_things_are_no_scalers() -> None:
    X, _ = iris()
    assert scaler_map(MinMaxScaler(clip=True).fit(X)) is None
    assert scaler_map(FunctionTransformer()) is None

    class StandardScaler:  # of another library
        n_features_in_ = 4

    assert scaler_map(StandardScaler()) is None
    with pytest.raises(UnsupportedModelError, match="not fitted"):
        scaler_map(RobustScaler())


def test_scalers_in_a_row_become_one_map() -> None:
    X, y = raw_cancer()
    model = make_pipeline(StandardScaler(), MinMaxScaler(), RobustScaler(), SVC()).fit(X, y)
    source = read(model)
    assert not source.preparation.before_map.steps
    assert source.preparation.input_map is not None
    np.testing.assert_allclose(
        source.preparation.input_map(X), model[:-1].transform(X), rtol=1e-9, atol=1e-9
    )


def test_sparse_rows_stay_sparse_without_a_shift() -> None:
    X, y = cancer()
    model = make_pipeline(MaxAbsScaler(), SVC(gamma=0.5)).fit(csr_array(X), y)
    source = read(model)
    assert source.preparation.input_map is not None
    assert not source.preparation.input_map.shift.any()
    assert not isinstance(source.preparation.input_map(csr_array(X)), np.ndarray)


def test_what_is_not_affine_is_kept_with_all_that_stands_before_it() -> None:
    X, y = iris()
    log = FunctionTransformer(np.log1p)
    source = read(make_pipeline(MaxAbsScaler(), log, StandardScaler(), SVC()).fit(X, y))
    assert [type(step) for step in source.preparation.before_map.steps] == [Kept, Kept]
    assert isinstance(source.preparation.input_map, AffineMap)


@pytest.mark.parametrize("selector", [SelectKBest(k=2), VarianceThreshold(0.2)])
def test_selectors_become_selections(selector: Any) -> None:
    X, y = iris()
    source = read(make_pipeline(selector, SVC()).fit(X, y))
    (step,) = source.preparation.before_map.steps
    assert isinstance(step, Selection)
    np.testing.assert_array_equal(step(X), selector.fit(X, y).transform(X))


def test_steps_that_do_nothing_leave_no_trace() -> None:
    X, y = iris()
    steps = [("a", "passthrough"), ("b", FunctionTransformer()), ("c", None), ("d", SVC())]
    source = read(Pipeline(steps).fit(X, y))
    assert not source.preparation.before_map.steps
    assert source.preparation.input_map is None


def test_nested_pipelines_are_flattened() -> None:
    X, y = raw_cancer()
    inner = make_pipeline(StandardScaler(), make_pipeline(MinMaxScaler(), "passthrough"))
    model = make_pipeline(inner, make_pipeline(RobustScaler(), SVC())).fit(X, y)
    source = read(model)
    assert not source.preparation.before_map.steps
    fast = kl.compile(model, X)
    np.testing.assert_array_equal(fast.predict(X), model.predict(X))


def test_text_is_served_too() -> None:
    words = ["red green", "green blue", "blue red red", "yellow", "yellow red", "blue"] * 4
    y = [0, 0, 1, 1, 1, 0] * 4
    model = make_pipeline(TfidfVectorizer(), SVC(gamma=0.5)).fit(words, y)
    fast = kl.compile(model, words)
    np.testing.assert_array_equal(fast.predict(words), model.predict(words))
    assert not hasattr(fast, "n_features_in_")
    assert "text" in fast._repr_html_()


def test_a_given_expansion_point_is_in_the_rows_own_units() -> None:
    X, y = raw_cancer()
    model = make_pipeline(StandardScaler(), SVC(gamma=0.01)).fit(X, y)
    fast = kl.compile(model, X, guarantee="none", expansion_point=X.mean(axis=0), rank="full")
    assert fast.form is not None
    np.testing.assert_allclose(fast.form.point, 0.0, atol=1e-12)


class Forgetful(TransformerMixin, BaseEstimator):
    def fit(self, X: Any, y: Any = None) -> Any:
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        return X


def test_pipelines_that_cannot_be_served_say_why() -> None:
    X, y = iris()
    ends = make_pipeline(StandardScaler(), "passthrough").fit(X, y)
    with pytest.raises(UnsupportedModelError, match="does nothing, not a model"):
        read(ends)
    with pytest.raises(UnsupportedModelError, match="not fitted"):
        read(make_pipeline(StandardScaler(), SVC()))
    model = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    model.steps.insert(0, ("forgetful", Forgetful()))
    with pytest.raises(UnsupportedModelError, match=r"Forgetful .* cannot transform new rows"):
        read(model)


def test_a_search_is_its_best_model() -> None:
    X, y = iris()
    search = GridSearchCV(SVC(), {"gamma": [0.01, 0.1]}, cv=2).fit(X, y)
    source = read(search)
    assert source.type_name == "SVC"
    assert source.description.startswith("GridSearchCV of scikit-learn SVC")
    with pytest.raises(UnsupportedModelError, match=r"refit=False.*no fitted model"):
        read(GridSearchCV(SVC(), {"gamma": [0.1]}, cv=2, refit=False).fit(X, y))
    with pytest.raises(UnsupportedModelError, match="not fitted"):
        read(GridSearchCV(SVC(), {"gamma": [0.1]}))


def test_kernelites_own_estimators_can_be_read() -> None:
    X, y = iris()
    meta = kl.CompiledRegressor(SVR(gamma=0.1)).fit(X, y)
    fast = kl.compile(meta, X, guarantee="exact")
    np.testing.assert_allclose(fast.predict(X), meta.estimator_.predict(X), rtol=1e-9)
    with pytest.raises(UnsupportedModelError, match="not fitted"):
        read(kl.CompiledRegressor())
    with pytest.raises(UnsupportedModelError, match="compiled already"):
        read(fast)


def test_only_scalers_stand_between_features_and_a_linear_model() -> None:
    X, y = iris()
    features = Nystroem(gamma=0.1, n_components=9, random_state=0)
    with pytest.raises(
        UnsupportedModelError, match=r"has a PCA between its Nystroem and its Linea"
    ):
        read(make_pipeline(features, PCA(3), LinearSVC()).fit(X, y))
    with pytest.raises(UnsupportedModelError, match="linear behind a logarithm"):
        read(make_pipeline(features, PoissonRegressor()).fit(X, y))
    with pytest.raises(UnsupportedModelError, match="not those of a plain logistic regression"):
        read(make_pipeline(features, SGDClassifier(loss="log_loss")).fit(X, y))
    with pytest.raises(UnsupportedModelError, match="it is linear"):
        read(make_pipeline(StandardScaler(), LinearSVC()).fit(X, y))
