"""What scikit-learn's own functions ask of a compiled model."""

from __future__ import annotations

import io
import pickle
from html.parser import HTMLParser
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import KernelPCA
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.metrics import get_scorer
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, OneClassSVM
from sklearn.utils.validation import check_is_fitted

import kernelite as kl
from kernelite.support.errors import InputError
from tests.datasets import cancer, iris
from tests.models import MODELS, compiled, fitted

SCORED = [name for name in MODELS if "generated" not in name]


@pytest.fixture(scope="module")
def fast() -> Any:
    X, y = cancer()
    return kl.compile(SVC(gamma=0.02).fit(X, y), X)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # 0 / 0 far from all labels
@pytest.mark.parametrize("name", SCORED)
def test_score_and_kind_are_the_sources(name: str) -> None:
    model, X = fitted(name)
    exact = compiled(name, "exact")
    assert is_classifier(exact) == is_classifier(model)
    assert is_regressor(exact) == is_regressor(model)
    assert clone(exact) is exact
    if is_classifier(model) or is_regressor(model):
        y = np.array(model.predict(X))
        y[::3] = y[0]
        assert exact.score(X, y) == pytest.approx(model.score(X, y), rel=1e-9, abs=1e-9)


def test_weights_count_in_the_score(fast: Any) -> None:
    X, y = cancer()
    weights = np.random.default_rng(0).random(len(y))
    model = SVC(gamma=0.02).fit(X, y)
    assert fast.score(X, y[::-1], weights) == pytest.approx(model.score(X, y[::-1], weights))


def test_a_model_without_labels_has_no_score() -> None:
    X, _ = iris()
    assert not hasattr(kl.compile(OneClassSVM(gamma=0.1).fit(X), X), "score")


def test_it_is_frozen(fast: Any) -> None:
    X, y = cancer()
    assert fast.fit(X, y) is fast
    check_is_fitted(fast)
    assert fast.get_params() == {}
    assert fast.set_params() is fast
    with pytest.raises(InputError, match="no parameters to set, got C"):
        fast.set_params(C=1)
    with pytest.raises(AttributeError):
        fast.guarantee = "none"


def test_scorers_and_inspection_take_it(fast: Any) -> None:
    X, y = cancer()
    model = SVC(gamma=0.02).fit(X, y)
    for name in ("accuracy", "f1"):
        assert get_scorer(name)(fast, X, y) == get_scorer(name)(model, X, y)
    assert get_scorer("roc_auc")(fast, X, y) == pytest.approx(
        get_scorer("roc_auc")(model, X, y), abs=0.02
    )
    ours = permutation_importance(fast, X[:60], y[:60], n_repeats=2, random_state=0)
    theirs = permutation_importance(model, X[:60], y[:60], n_repeats=2, random_state=0)
    np.testing.assert_array_equal(ours.importances, theirs.importances)
    assert partial_dependence(fast, X[:30], [0], grid_resolution=5)["average"].shape == (1, 5)


def test_it_can_be_calibrated_as_a_frozen_estimator(fast: Any) -> None:
    frozen = pytest.importorskip("sklearn.frozen")
    X, y = cancer()
    exact = kl.compile(SVC(gamma=0.02).fit(X, y), X, guarantee="exact")
    ours = CalibratedClassifierCV(frozen.FrozenEstimator(exact)).fit(X, y)
    theirs = CalibratedClassifierCV(frozen.FrozenEstimator(SVC(gamma=0.02).fit(X, y))).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-9)


def test_pickle_and_joblib_bring_it_back(fast: Any) -> None:
    X, _ = cancer()
    expected = fast.decision_function(X)  # engines exist by now
    for again in (pickle.loads(pickle.dumps(fast)), _through_joblib(fast)):
        np.testing.assert_array_equal(again.decision_function(X), expected)
        assert again.plan == fast.plan


def _through_joblib(model: Any) -> Any:
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


def test_output_containers() -> None:
    X, _ = iris()
    frame = pd.DataFrame(X, columns=list("abcd"), index=np.arange(len(X)) * 2)
    model = KernelPCA(2, kernel="rbf", gamma=0.1).fit(frame)
    fast = kl.compile(model, frame)
    values = fast.transform(frame)
    assert isinstance(values, np.ndarray)
    assert fast.set_output(transform="pandas") is fast
    theirs = model.set_output(transform="pandas").transform(frame)
    pd.testing.assert_index_equal(fast.transform(frame).columns, theirs.columns)
    pd.testing.assert_index_equal(fast.transform(frame).index, theirs.index)
    np.testing.assert_array_equal(fast.transform(frame).to_numpy(), values)
    assert isinstance(fast.transform(X), pd.DataFrame)
    assert isinstance(pickle.loads(pickle.dumps(fast)).transform(X), pd.DataFrame)
    assert list(fast.get_feature_names_out()) == list(model.get_feature_names_out())
    assert isinstance(fast.set_output(transform="default").transform(X), np.ndarray)
    with pytest.raises(InputError, match="one of default, pandas, polars, got 'xarray'"):
        fast.set_output(transform="xarray")


def test_the_container_that_was_asked_of_the_source() -> None:
    X, _ = iris()
    pca = KernelPCA(2, kernel="rbf", gamma=0.1).set_output(transform="pandas").fit(X)
    fast = kl.compile(pca, X)
    pd.testing.assert_index_equal(fast.transform(X).columns, pca.transform(X).columns)
    whole = make_pipeline(StandardScaler(), KernelPCA(2, kernel="rbf")).fit(X)
    assert isinstance(kl.compile(whole, X).transform(X), np.ndarray)
    assert isinstance(
        kl.compile(whole.set_output(transform="pandas"), X).transform(X), pd.DataFrame
    )


def test_polars_is_a_container_too() -> None:
    polars = pytest.importorskip("polars")
    X, _ = iris()
    fast = kl.compile(KernelPCA(2, kernel="rbf", gamma=0.1).fit(X), X)
    frame = fast.set_output(transform="polars").transform(X)
    assert isinstance(frame, polars.DataFrame)
    assert frame.columns == ["kernelpca0", "kernelpca1"]


def test_only_transformers_have_containers(fast: Any) -> None:
    assert not hasattr(fast, "set_output")
    assert not hasattr(fast, "get_feature_names_out")


def test_the_representation_is_one_short_line(fast: Any) -> None:
    assert repr(fast).startswith("<CompiledModel of scikit-learn SVC, ")
    assert "certified: " in repr(fast)
    assert "\n" not in repr(fast)
    assert len(repr(fast)) < 200


class Tags(HTMLParser):
    """Checks that tags are closed in order, and collects them with the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("guarantee", ["certified", "none", "exact"])
def test_notebooks_show_the_plan(guarantee: str) -> None:
    X, y = cancer()
    model = make_pipeline(StandardScaler(), SVC(gamma=0.02)).fit(X, y)
    compiled = kl.compile(model, X, guarantee=guarantee)
    page = Tags(compiled._repr_html_())
    assert not page.open
    assert page.seen <= {"div", "b", "table", "tr", "td", "th", "details", "summary", "p"}
    assert compiled.plan.chosen.name in page.text
    assert guarantee in page.text
    assert "decision_function" in page.text


def test_notebooks_show_texts_escaped() -> None:
    from dataclasses import replace

    X, y = cancer()
    compiled = kl.compile(SVC().fit(X, y), X)
    origin = replace(compiled.origin, description="<script>alert('x')</script> & co")
    plan = compiled.plan.noting("<img src=x onerror=alert(1)>")
    page = replace(compiled, origin=origin, plan=plan)._repr_html_()
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert "&amp; co" in page


@pytest.mark.parametrize("guarantee", ["none", "certified", "exact"])
@pytest.mark.parametrize("several", [False, True])
def test_sparse_rows_that_claim_too_much_are_refused(guarantee: str, several: bool) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 6))
    machine = SVC(gamma=0.01, C=10).fit(rows, rows[:, 0] > 0)
    if several:
        machine = OneVsRestClassifier(SVC(gamma="scale")).fit(rows, np.arange(40) % 3)
    fast = kl.compile(machine, rows, guarantee=guarantee, on_invalid="ignore")
    for columns in ([0, 0, 2], [2, 0, 1], [0, 1, 6]):
        claims = csr_array((np.ones(6), [0, 1, 2, *columns], [0, 3, 6]), shape=(2, 6))
        claims.has_canonical_format = True
        with pytest.raises(InputError, match="the column indices of row 1 are not"):
            fast.predict(claims)
