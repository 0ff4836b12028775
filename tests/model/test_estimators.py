"""The meta-estimators: scikit-learn's own checks, and agreement with compiling by hand."""

from __future__ import annotations

import inspect
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import sklearn
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_iris, make_regression
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

import kernelite as kl
from kernelite import CompiledClassifier, CompiledOutlierDetector, CompiledRegressor
from kernelite.model.compiler import GUARANTEES, compile
from kernelite.model.serving import OutsideValidityWarning
from kernelite.support.errors import InputError, UnsupportedModelError

pytestmark = [
    pytest.mark.filterwarnings("ignore::kernelite.model.serving.OutsideValidityWarning"),
    pytest.mark.filterwarnings("ignore:the model has only:UserWarning"),
]

CLASSES = (CompiledClassifier, CompiledRegressor, CompiledOutlierDetector)

# LIBSVM rescales C by the weights but stops at its own tolerance and drops zero weights late, so
# weights and repeated rows give slightly different machines. scikit-learn lists the same failures
# for its own SVC, SVR and OneClassSVM, which are what is fitted here.
INHERITED = "LIBSVM's weights are not equivalent to removing or repeating rows"
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": INHERITED,
    "check_sample_weight_equivalence_on_sparse_data": INHERITED,
}


def with_checks(estimators: list[Any]) -> Any:
    # scikit-learn 1.5 asks the estimator's tags instead.
    if "expected_failed_checks" not in inspect.signature(parametrize_with_checks).parameters:
        return parametrize_with_checks(estimators)
    return parametrize_with_checks(estimators, expected_failed_checks=lambda _: EXPECTED_FAILURES)


# "calibrated" needs thousands of check rows, more than scikit-learn's checks have.
@with_checks([kind() for kind in CLASSES])
def test_passes_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@with_checks([kind(guarantee="none") for kind in CLASSES])
def test_passes_scikit_learns_checks_without_guarantee(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def iris() -> tuple[np.ndarray, np.ndarray]:
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def values() -> tuple[np.ndarray, np.ndarray]:
    return make_regression(80, 4, noise=1.0, random_state=0)


def test_the_defaults_are_those_of_compile() -> None:
    expected = inspect.signature(compile).parameters
    for kind in CLASSES:
        parameters = kind().get_params(deep=False)
        for name in ("guarantee", "expansion_point", "on_invalid"):
            assert parameters[name] == expected[name].default


@pytest.mark.parametrize("guarantee", ["none", "exact"])
@pytest.mark.parametrize("inner", [SVC(gamma=0.05, C=5), NuSVC(gamma=0.05, nu=0.3)])
def test_a_classifier_is_its_svm_compiled_with_the_training_rows(iris, inner, guarantee) -> None:
    X, y = iris
    meta = CompiledClassifier(inner, guarantee=guarantee, on_invalid="ignore").fit(X, y)
    by_hand = kl.compile(clone(inner).fit(X, y), X, guarantee=guarantee, on_invalid="ignore")
    np.testing.assert_array_equal(meta.predict(X), by_hand.predict(X))
    np.testing.assert_array_equal(meta.decision_function(X), by_hand.decision_function(X))
    np.testing.assert_array_equal(meta.classes_, [0, 1, 2])
    assert meta.n_features_in_ == 4
    assert meta.score(X, y) > 0.9
    assert not hasattr(inner, "support_"), "the estimator that was given must stay unfitted"


@pytest.mark.parametrize("inner", [None, SVR(gamma=0.02, C=50), NuSVR(gamma=0.02, C=50)])
def test_a_regressor_follows_its_svm(values, inner) -> None:
    X, y = values
    meta = CompiledRegressor(inner, guarantee="exact").fit(X, y)
    np.testing.assert_allclose(meta.predict(X), meta.estimator_.predict(X), rtol=1e-9)
    assert not hasattr(meta, "decision_function")
    assert not hasattr(meta, "classes_")


def test_an_outlier_detector_follows_its_svm(iris) -> None:
    X, _ = iris
    meta = CompiledOutlierDetector(OneClassSVM(gamma=0.1, nu=0.2), guarantee="exact").fit(X)
    inner = meta.estimator_
    np.testing.assert_array_equal(meta.predict(X), inner.predict(X))
    np.testing.assert_allclose(meta.score_samples(X), inner.score_samples(X), rtol=1e-9)
    np.testing.assert_allclose(
        meta.decision_function(X), meta.score_samples(X) - meta.offset_, atol=1e-12
    )
    np.testing.assert_array_equal(meta.fit_predict(X), meta.predict(X))


def test_probabilities_appear_only_where_the_svm_learns_them(iris) -> None:
    X, y = iris
    assert not hasattr(CompiledClassifier(SVC()), "predict_proba")
    assert not hasattr(CompiledClassifier(SVC()), "predict_log_proba")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # scikit-learn 1.8 deprecates the switch
        inner = SVC(gamma=0.05, probability=True, random_state=0)
        meta = CompiledClassifier(inner, guarantee="exact").fit(X, y)
        expected = meta.estimator_.predict_proba(X)
    np.testing.assert_allclose(meta.predict_proba(X), expected, atol=1e-6)
    np.testing.assert_allclose(np.exp(meta.predict_log_proba(X)), expected, atol=1e-6)


def test_sparse_rows_give_what_dense_rows_give(iris) -> None:
    X, y = iris
    sparse = CompiledClassifier(SVC(gamma=0.05), guarantee="none").fit(csr_matrix(X), y)
    dense = CompiledClassifier(SVC(gamma=0.05), guarantee="none").fit(X, y)
    np.testing.assert_allclose(
        sparse.decision_function(csr_matrix(X)), dense.decision_function(X), atol=1e-6
    )


def test_string_labels_and_data_frames(iris) -> None:
    pandas = pytest.importorskip("pandas")
    X, y = iris
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    meta = CompiledClassifier(SVC(gamma=0.05), guarantee="exact").fit(frame, names)
    assert list(meta.feature_names_in_) == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(meta.predict(frame), meta.estimator_.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        meta.predict(frame[["b", "a", "c", "d"]])
    meta.fit(X, names)
    assert not hasattr(meta, "feature_names_in_")


def test_cross_validation_grids_and_pipelines(iris) -> None:
    X, y = iris
    meta = CompiledClassifier(SVC(gamma=0.02), on_invalid="ignore")
    assert cross_val_score(meta, X, y, cv=3).mean() > 0.9
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), meta),
        {"compiledclassifier__estimator__C": [0.1, 10], "compiledclassifier__guarantee": ["none"]},
        cv=3,
    ).fit(X, y)
    assert grid.best_params_["compiledclassifier__estimator__C"] == 10
    assert grid.best_score_ > 0.9


def test_a_fitted_one_survives_pickling(iris) -> None:
    X, y = iris
    meta = CompiledClassifier(SVC(gamma=0.05)).fit(X, y)
    again = pickle.loads(pickle.dumps(meta))
    np.testing.assert_array_equal(again.predict(X), meta.predict(X))


def test_sample_weights_reach_the_svm(iris) -> None:
    X, y = iris
    weights = np.where(y == 0, 1.0, 1e-3)
    meta = CompiledClassifier(SVC(gamma=0.05)).fit(X, y, sample_weight=weights)
    alone = SVC(gamma=0.05).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(meta.estimator_.dual_coef_, alone.dual_coef_)


def test_weights_and_other_parameters_reach_a_pipeline(iris) -> None:
    X, y = iris
    weights = np.where(y == 2, 50.0, 1.0)
    plain = make_pipeline(StandardScaler(), SVC(gamma=0.05, C=0.1))
    fast = CompiledClassifier(plain).fit(X, y, svc__sample_weight=weights)
    expected = clone(plain).fit(X, y, svc__sample_weight=weights)
    np.testing.assert_array_equal(fast.predict(X), expected.predict(X))
    assert (fast.predict(X) != clone(plain).fit(X, y).predict(X)).any()


def test_metadata_go_to_whatever_requests_them(iris) -> None:
    X, y = iris
    weights = np.where(y == 0, 50.0, 1.0)
    inner = SVC(gamma=0.05, C=0.001)
    expected = clone(inner).fit(X, y, sample_weight=weights).predict(X)
    assert (expected != clone(inner).fit(X, y).predict(X)).any()
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        asks = clone(inner).set_fit_request(sample_weight=True)
        fast = CompiledClassifier(asks).fit(X, y, sample_weight=weights)
        np.testing.assert_array_equal(fast.predict(X), expected)
        # Through pipelines inside and outside, and a search whose scorer takes the weights too.
        for one in (
            CompiledClassifier(make_pipeline(scaler, asks)),
            make_pipeline(scaler, CompiledClassifier(asks)),
        ):
            twin = make_pipeline(scaler, asks).fit(X, y, sample_weight=weights)
            one.fit(X, y, sample_weight=weights)
            np.testing.assert_array_equal(one.predict(X), twin.predict(X))
        searched = CompiledClassifier(asks).set_score_request(sample_weight=True)
        grid = GridSearchCV(searched, {"estimator__C": [0.001, 1.0]}, cv=3)
        twin = GridSearchCV(
            clone(asks).set_score_request(sample_weight=True), {"C": [0.001, 1.0]}, cv=3
        )
        scores = [
            search.fit(X, y, sample_weight=weights).cv_results_["mean_test_score"]
            for search in (grid, twin)
        ]
        np.testing.assert_allclose(*scores)


def test_metadata_that_nobody_requests_are_refused(iris) -> None:
    X, y = iris
    ones = np.ones(len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            CompiledClassifier(SVC()).fit(X, y, sample_weight=ones)
        refuses = SVC().set_fit_request(sample_weight=False)
        with pytest.raises(TypeError, match="unexpected"):
            CompiledClassifier(refuses).fit(X, y, sample_weight=ones)
        assert not hasattr(CompiledClassifier(), "set_fit_request")
        assert CompiledClassifier(SVC()).fit(X, y).predict(X).shape == y.shape


def test_rows_outside_the_bound_are_reported_as_asked(iris) -> None:
    X, y = iris
    meta = CompiledClassifier(SVC(gamma=5.0), guarantee="none").fit(X, y)
    with pytest.warns(OutsideValidityWarning, match="outside the validity bound") as caught:
        meta.predict(X)
    assert caught[0].message.total == len(X)
    strict = clone(meta).set_params(on_invalid="raise").fit(X, y)
    with pytest.raises(ValueError, match="outside the validity bound"):
        strict.predict(X)


def test_mistakes_are_named(iris) -> None:
    X, y = iris
    with pytest.raises(NotFittedError):
        CompiledClassifier().predict(X)
    with pytest.raises(UnsupportedModelError, match="polynomial kernel of degree 0"):
        CompiledClassifier(SVC(kernel="poly", degree=0)).fit(X, y)
    with pytest.raises(InputError, match=GUARANTEES[0]):
        CompiledClassifier(guarantee="sure").fit(X, y)
    fitted = CompiledClassifier(SVC(gamma=0.05)).fit(X, y)
    with pytest.raises(ValueError, match="3 features"):
        fitted.predict(X[:, :3])


def test_the_wrapped_class_is_the_one_the_name_says() -> None:
    assert [kind()._inner().__class__ for kind in CLASSES] == [SVC, SVR, OneClassSVM]
    assert sklearn.base.is_classifier(CompiledClassifier())
    assert sklearn.base.is_regressor(CompiledRegressor())


@parametrize_with_checks([CompiledRegressor(KernelRidge(kernel="rbf", gamma=0.1))])
def test_kernel_ridge_passes_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_several_outputs_are_told_as_the_inner_estimator_tells_them() -> None:
    tags = sklearn.utils.get_tags(CompiledRegressor(KernelRidge(kernel="rbf"))).target_tags
    assert tags.multi_output
    assert not sklearn.utils.get_tags(CompiledRegressor()).target_tags.multi_output
