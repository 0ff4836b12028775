"""Exact scores and heads against scikit-learn's own answers, on the whole table of models."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, OneClassSVM

import kernelite as kl
from kernelite.machine.heads import ClassifierHead, OutlierHead
from kernelite.sources import read
from kernelite.support.errors import UnsupportedModelError
from tests.models import CLASSIFIERS, SVMS, fitted

RELATIVE = 1e-9


def largest_gap(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, relative to the largest value."""
    assert ours.shape == theirs.shape
    return float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-300))


def test_the_table_is_large_enough():
    assert len(SVMS) >= 20
    assert {type(recipe.estimator).__name__ for recipe in SVMS.values()} == {
        *("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")
    }


@pytest.mark.parametrize("name", SVMS)
def test_labels_and_values_are_scikit_learns(name):
    model, X = fitted(name)
    source = read(model)
    ours = source.head.predict(source.expansion.scores(X))
    theirs = model.predict(X)
    assert ours.dtype == theirs.dtype
    if source.head.kind == "regressor":
        assert largest_gap(ours, theirs) < RELATIVE
    else:
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", [n for n in SVMS if "svr" not in n])
def test_decision_values_are_scikit_learns(name):
    model, X = fitted(name)
    source = read(model)
    ours = source.head.decision(source.expansion.scores(X))
    assert largest_gap(ours, model.decision_function(X)) < RELATIVE


@pytest.mark.parametrize("name", [n for n in SVMS if "probability" in n])
def test_probabilities_are_scikit_learns(name):
    model, X = fitted(name)
    source = read(model)
    assert isinstance(source.head, ClassifierHead)
    ours = source.head.probabilities(source.expansion.scores(X))
    np.testing.assert_allclose(ours, model.predict_proba(X), rtol=0, atol=RELATIVE)


def test_score_samples_of_a_one_class_model():
    model, X = fitted("oneclass cancer")
    source = read(model)
    assert isinstance(source.head, OutlierHead)
    ours = source.expansion.scores(X)[:, 0] + source.head.offset
    assert largest_gap(ours, model.score_samples(X)) < RELATIVE


@pytest.mark.parametrize("name", ["svc iris ovr", "svc words sparse", "svr diabetes"])
def test_the_arrays_are_copies(name):
    model, X = fitted(name)
    expansion = read(model).expansion
    before = expansion.scores(X)
    vectors = model.support_vectors_
    values = vectors.data if hasattr(vectors, "tocsr") else vectors
    kept = values.copy()
    try:
        values += 1.0
        np.testing.assert_array_equal(expansion.scores(X), before)
    finally:
        values[...] = kept


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_reading_changes_nothing_and_warns_of_nothing(name):
    model, X = fitted(name)
    before = model.decision_function(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(model)
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_feature_names_are_kept():
    assert read(fitted("svc iris strings, frame")[0]).feature_names == tuple(
        f"feature {i}" for i in range(4)
    )
    assert read(fitted("svc iris ovr")[0]).feature_names is None


def test_descriptions():
    source = read(fitted("svc binary gamma number")[0])
    n = source.expansion.n_centers
    assert source.description == f"scikit-learn SVC, {n} support vectors, gamma 0.02"
    assert (source.family, source.type_name) == ("scikit-learn", "SVC")
    assert not source.width_is_open


@pytest.mark.parametrize("name", ["intercept_", "dual_coef_"])
@pytest.mark.parametrize("classes", [2, 3])
def test_coefficients_that_predict_does_not_see_are_refused(name, classes):
    """scikit-learn predicts by `_intercept_`, and leaves `intercept_` for show."""
    X = np.arange(12.0)[:, None]
    svc = SVC().fit(X, np.arange(12) % classes)
    shifted = getattr(svc, name) + 0.5
    setattr(svc, name, shifted)
    with pytest.raises(UnsupportedModelError, match=f"`{name}` of this SVC was changed, but it"):
        kl.compile(svc, X)
    setattr(svc, f"_{name}", -shifted if classes == 2 else shifted)
    assert (kl.compile(svc, X).predict(X) == svc.predict(X)).all()


def test_a_subclass_is_read_as_what_it_extends():
    class Mine(SVC):
        pass

    X, y = SVMS["svc iris ovr"].data()
    assert read(Mine().fit(X, y)).type_name == "SVC"


def test_a_subclass_that_answers_in_its_own_way_is_refused():
    class Shifted(SVC):
        def _decision_function(self, X):
            return super()._decision_function(X) + 1.0

    class Told:
        def predict(self, X):
            return 1 - super().predict(X)

    class Turned(Told, SVC):
        def fit(self, X, y):
            return super().fit(X, y)

    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    turned, instance = Turned().fit(X, y), SVC().fit(X, y)
    with pytest.raises(UnsupportedModelError, match=r"Turned has a `predict` of its own"):
        kl.compile(turned, X)
    with pytest.raises(UnsupportedModelError, match=r"Shifted has a `_decision_function` of its"):
        kl.compile(make_pipeline(StandardScaler(), Shifted()).fit(X, y), X)
    twin = copy.copy(turned)
    twin.__class__ = SVC
    assert (kl.compile(twin, X).predict(X) == twin.predict(X)).all()
    instance.predict = lambda X: np.zeros(len(X))
    with pytest.raises(UnsupportedModelError, match=r"SVC has a `predict` among its attributes"):
        kl.compile(instance, X)


X3, Y3 = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda: SVC(), "SVC is not fitted; call `fit` first"),
        (lambda: OneClassSVM(), "OneClassSVM is not fitted"),
        (lambda: SVC(kernel="poly", degree=0).fit(X3, Y3), "polynomial kernel of degree 0; served"),
        (
            lambda: SVC(kernel=lambda a, b: (a @ b.T).toarray()).fit(csr_array(np.eye(4)), Y3),
            "a callable as kernel, with parameters or rows that are not served",
        ),
        (lambda: LinearSVC().fit(X3, Y3), "a LinearSVC cannot be compiled: it is linear"),
        (
            lambda: SVC(break_ties=True, decision_function_shape="ovo").fit(X3, Y3),
            "break_ties=True with decision_function_shape='ovo'",
        ),
    ],
)
def test_refusals_name_what_was_found(make, found):
    with pytest.raises(UnsupportedModelError) as caught:
        read(make())
    assert found in str(caught.value)
