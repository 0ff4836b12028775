"""Every wrapped model of the table, compiled, against scikit-learn's answers."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.svm import SVC

import kernelite as kl
from kernelite.sources import read
from kernelite.store.files import dumps, loads
from kernelite.support.errors import InputError
from tests.answers import deviation, is_label
from tests.models import WRAPPED, compiled, fitted, library_answers

EXACT = 1e-8
PROBABILITY = 1e-3
UNSTORABLE = {  # they keep a transformer as it is
    "pipeline clipped",
    "target quantiles",
}


def skipped(method: str, model: Any) -> bool:
    # A mean of regressors is folded into one output; what each says alone is gone.
    return method == "transform" and not hasattr(model, "transform")


@pytest.mark.parametrize("name", WRAPPED)
def test_exact_answers_are_the_librarys(name: str) -> None:
    model, X = fitted(name)
    exact = compiled(name, "exact")
    for method, theirs in library_answers(name).items():
        if skipped(method, exact):
            continue
        ours = np.asarray(getattr(exact, method)(X))
        assert ours.dtype == theirs.dtype, method
        if is_label(model, method):
            np.testing.assert_array_equal(ours, theirs)
        else:
            assert deviation(ours, theirs) < EXACT, method


@pytest.mark.parametrize("name", WRAPPED)
def test_certified_answers_are_proven_or_within_the_tolerance(name: str) -> None:
    model, X = fitted(name)
    fast = compiled(name)
    limit = PROBABILITY if fast.tolerance is None else fast.tolerance
    for method, theirs in library_answers(name).items():
        if skipped(method, fast):
            continue
        ours = np.asarray(getattr(fast, method)(X))
        assert ours.shape == theirs.shape
        if is_label(model, method):
            np.testing.assert_array_equal(ours, theirs)
        elif method in ("predict_proba", "transform"):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=PROBABILITY + EXACT)
        elif method == "predict":
            gap = np.abs(ours - theirs).reshape(len(ours), -1).max(axis=0)
            assert (gap <= limit + EXACT * np.abs(theirs).max()).all()
        elif hasattr(fast.head, "members"):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=PROBABILITY + EXACT)
    assert np.array_equal(_flat(fast), _flat(model))
    # A pipeline that begins with "passthrough" cannot say.
    assert getattr(model, "n_features_in_", fast.n_features_in_) == fast.n_features_in_
    names = getattr(model, "feature_names_in_", None)
    assert list(getattr(fast, "feature_names_in_", [])) == list([] if names is None else names)


@pytest.mark.parametrize("name", WRAPPED)
def test_files_and_pickles_answer_the_same(name: str) -> None:
    _, X = fitted(name)
    fast = compiled(name)
    expected = fast.predict(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fast)).predict(X), expected)
    if name in UNSTORABLE:
        with pytest.raises(InputError, match=r"keeps a \w+ (in front of|behind) it.*joblib.dump"):
            dumps(fast)
        return
    data = dumps(fast)
    np.testing.assert_array_equal(loads(data).predict(X), expected)
    assert dumps(loads(data)) == data


@pytest.mark.parametrize("name", WRAPPED)
def test_forms_alone_answer_too(name: str) -> None:
    model, X = fitted(name)
    form = compiled(name, "none")
    ours, theirs = form.predict(X), library_answers(name)["predict"]
    assert ours.shape == theirs.shape
    assert form.expansion is None
    assert all(part.model.expansion is None for part in form.parts)
    # Where the paper's bound holds, each term is within 3%.
    valid = form.valid(X)
    if is_label(model, "predict") and valid.any():
        assert np.mean(ours[valid] == theirs[valid]) > 0.9


@pytest.mark.parametrize("name", WRAPPED)
def test_ranges_contain_every_answer_within_the_bounds(name: str) -> None:
    """The interval arithmetic of each head, tried on random scores and bounds."""
    head: Any = read(fitted(name)[0]).head
    rng = np.random.default_rng(7)
    scores = rng.normal(size=(400, head.n_scores)) * rng.choice([0.1, 1.0, 3.0], (400, 1))
    bounds = rng.exponential(0.3, scores.shape) * rng.choice([0.0, 0.1, 1.0], (400, 1))
    for _ in range(10):
        shift = rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], scores.shape)
        moved = scores + shift * bounds
        decided = head.decided(scores, bounds)
        np.testing.assert_array_equal(head.predict(scores[decided]), head.predict(moved[decided]))
        if "predict_proba" in head.offers:
            _contains(head.probability_range(scores, bounds), head.probabilities(moved))
        if "decision_function" in head.offers:
            _contains(head.decision_range(scores, bounds), head.decision(moved))
        if head.kind == "regressor":
            _contains(head.value_range(scores, bounds), head.predict(moved))
    if head.kind == "classifier":
        assert head.decided(scores, np.zeros_like(bounds)).mean() > 0.9
        assert not head.decided(scores, np.full_like(bounds, 50.0)).any()


@pytest.mark.parametrize("text", [object, str])
def test_a_temperature_may_have_texts_as_labels(text: type) -> None:
    """scikit-learn fits the machines behind it on the numbers of the labels then."""
    pytest.importorskip("sklearn", "1.8", "scikit-learn has temperatures since 1.8")
    X, y = load_iris(return_X_y=True)
    y = np.array(["one", "two", "six"], dtype=text)[y]
    model = CalibratedClassifierCV(SVC(), method="temperature", cv=3).fit(X, y)
    fast = kl.compile(model, X)
    np.testing.assert_array_equal(fast.predict(X), model.predict(X))
    gap = np.abs(fast.predict_proba(X) - model.predict_proba(X))
    assert (gap <= fast.proba_bound(X) + EXACT).all()


def _flat(model: Any) -> np.ndarray:
    """All labels; with several outputs, those of each."""
    labels = getattr(model, "classes_", [])
    return np.concatenate(labels) if isinstance(labels, list) and labels else np.asarray(labels)


def _contains(ends: tuple[np.ndarray, np.ndarray], values: np.ndarray) -> None:
    low, high = ends
    slack = 1e-9 * (1.0 + np.abs(values))
    assert (low <= values + slack).all()
    assert (values <= high + slack).all()
