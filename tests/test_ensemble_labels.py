"""Labels that ensembles call decided, and bounds of probabilities, in real arithmetic.

The truths are written from scikit-learn's formulas, on balls of 400 bits: votes, squashed sums,
sigmoids, shares and means never saturate there, so that a tie of doubles is seen for what it is.
"""

from __future__ import annotations

import warnings
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import kernelite
from kernelite.support.errors import InputError
from tests.oracle import at_most, exponential, real
from tests.whole_models import true_outputs

Reals = list[list[Any]]


def largest(values: Reals) -> list[int | None]:
    """Where each row's largest value stands; None where balls overlap, so that nobody knows."""
    found: list[int | None] = []
    for row in values:
        ahead = [all(a > b for j, b in enumerate(row) if j != i) for i, a in enumerate(row)]
        found.append(ahead.index(True) if any(ahead) else None)
    return found


def sigmoid(t: Any) -> Any:
    return 1 / (1 + exponential(-t))


def pairs_truth(model: Any, rows: np.ndarray) -> Reals:
    """OneVsOneClassifier: votes plus s / (3 (|s| + 1))."""
    K = len(model.classes_)
    scores = [true_outputs(each, rows) for each in model.estimators_]
    table = []
    for i in range(len(rows)):
        votes, sums = [real(0.0)] * K, [real(0.0)] * K
        for machine, (a, b) in zip(scores, combinations(range(K), 2)):
            f = machine[i][0]
            won = b if f > 0 else a
            votes[won] = votes[won] + 1
            sums[a], sums[b] = sums[a] - f, sums[b] + f
        table.append([v + s / (3 * (abs(s) + 1)) for v, s in zip(votes, sums)])
    return table


def calibrated_truth(model: Any, rows: np.ndarray) -> Reals:
    """CalibratedClassifierCV with sigmoids, three classes: means of shares."""
    K = len(model.classes_)
    table = [[real(0.0)] * K for _ in rows]
    for one in model.calibrated_classifiers_:
        responses = [true_outputs(each, rows) for each in one.estimator.estimators_]
        for i in range(len(rows)):
            raw = [
                sigmoid(-(real(c.a_) * response[i][0] + real(c.b_)))
                for c, response in zip(one.calibrators, responses)
            ]
            total = sum(raw, real(0.0))
            table[i] = [p + r / total for p, r in zip(table[i], raw)]
    return table


def soft_truth(model: Any, rows: np.ndarray) -> Reals:
    """VotingClassifier of two classes, soft: sums of logistic probabilities."""
    table = [[real(0.0)] * 2 for _ in rows]
    for member in model.estimators_:
        for i, (f,) in enumerate(true_outputs(member, rows)):
            table[i] = [table[i][0] + sigmoid(-f), table[i][1] + sigmoid(f)]
    return table


def hard_truth(model: Any, rows: np.ndarray) -> Reals:
    """VotingClassifier of two classes, hard: weights of the labels."""
    table = [[real(0.0)] * 2 for _ in rows]
    for weight, member in zip(model.weights, model.estimators_):
        for i, (f,) in enumerate(true_outputs(member, rows)):
            table[i][int(f > 0)] = table[i][int(f > 0)] + real(weight)
    return table


def blobs(seed: int, offset: float, classes: int, n: int = 90) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return offset + rng.normal(size=(n, 2)) + 0.5 * y[:, None], y


def pairs_far_off() -> Any:
    rng = np.random.default_rng(2)
    X, y = 1e4 + rng.normal(size=(60, 5)), rng.integers(0, 4, 60)
    model = OneVsOneClassifier(SVC(kernel="poly", max_iter=300)).fit(X, y)
    return model, 1e4 + rng.normal(size=(60, 5)), pairs_truth


def calibrated_far_out() -> Any:
    X, y = blobs(2, 0.0, 3)
    model = CalibratedClassifierCV(OneVsRestClassifier(SVC(kernel="poly")), cv=3)
    return model.fit(X, y), X * 30.0, calibrated_truth


def soft_far_out() -> Any:
    X, y = blobs(1, 0.0, 2)
    logistic = [
        make_pipeline(
            Nystroem(kernel="poly", degree=i + 2, n_components=20, random_state=i),
            LogisticRegression(C=1e4, max_iter=1000),
        )
        for i in range(2)
    ]
    model = VotingClassifier(list(zip("ab", logistic)), voting="soft")
    rng = np.random.default_rng(1)
    return model.fit(X, y), rng.normal(size=(90, 2)) * 6.0, soft_truth


def hard_weighted() -> Any:
    X, y = blobs(4, 0.0, 2)
    members = [SVC(gamma=g) for g in (0.05, 2.0, 50.0)]
    model = VotingClassifier(list(zip("abc", members)), weights=[0.1, 0.9, 1.0])
    rng = np.random.default_rng(0)
    return model.fit(X, y), rng.normal(size=(200, 2)) * 2, hard_truth


CASES = [pairs_far_off, calibrated_far_out, soft_far_out, hard_weighted]


@pytest.mark.parametrize("case", CASES, ids=[case.__name__ for case in CASES])
@pytest.mark.parametrize("guarantee", ["certified", "exact"])
def test_decided_labels_are_those_of_real_arithmetic(case: Any, guarantee: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, rows, truth = case()
        fast = kernelite.compile(model, rows, guarantee=guarantee)
    labels, decided, best = fast.predict(rows), fast.decided(rows), largest(truth(model, rows))
    known = decided & np.array([b is not None for b in best])
    right = model.classes_[[0 if b is None else b for b in best]]
    assert known.mean() > 0.4
    np.testing.assert_array_equal(labels[known], right[known])


# Bounds of probabilities --------------------------------------------------------------------------


def mean(truth: Any, count: int) -> Any:
    return lambda model, rows: [[p / count for p in row] for row in truth(model, rows)]


def softmax_truth(model: Any, rows: np.ndarray) -> Reals:
    """LogisticRegression behind kernel features."""
    table = []
    for scores in true_outputs(model, rows):
        logits = [-scores[0] / 2, scores[0] / 2] if len(scores) == 1 else scores
        powers = [exponential(value) for value in logits]
        table.append([power / sum(powers, real(0.0)) for power in powers])
    return table


def logistic_near(classes: int) -> Any:
    X, y = blobs(5, 0.0, classes, 120)
    features = Nystroem(gamma=0.05, n_components=20, random_state=0)
    return make_pipeline(features, LogisticRegression()).fit(X, y), X[:30], softmax_truth


def calibrated_near() -> Any:
    X, y = blobs(6, 0.0, 3)
    model = CalibratedClassifierCV(OneVsRestClassifier(SVC(gamma=0.05)), cv=3)
    return model.fit(X, y), X[:30], mean(calibrated_truth, 3)


def soft_near() -> Any:
    model, rows, _ = soft_far_out()
    return model, rows[:30] / 6.0, mean(soft_truth, 2)


LIKELY = {
    "two classes": lambda: logistic_near(2),
    "three classes": lambda: logistic_near(3),
    "calibrated": calibrated_near,
    "soft votes": soft_near,
}


@pytest.mark.parametrize("name", LIKELY)
def test_probabilities_are_within_their_bounds(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, rows, truth = LIKELY[name]()
        rows = np.concatenate([rows, 5.0 * rows[:5]])
        ways = [
            kernelite.compile(model, rows, guarantee="certified"),
            kernelite.compile(model, rows, guarantee="exact"),
            kernelite.compile(model, rows, guarantee="none", certificate=True, on_invalid="ignore"),
        ]
    expected = truth(model, rows)
    for way in ways:
        found, bounds = way.predict_proba(rows), way.proba_bound(rows)
        assert bounds.shape == found.shape
        for got, bound, true in zip(found.ravel(), bounds.ravel(), chain(*expected)):
            assert at_most(abs(real(got) - true)) <= bound
        limit = {"certified": 1e-3, "exact": 1e-9, "none": np.inf}[way.guarantee]
        assert np.median(bounds) <= limit


def test_probabilities_without_a_bound() -> None:
    X, y = blobs(7, 0.0, 3)
    process = kernelite.compile(GaussianProcessClassifier(optimizer=None).fit(X, y), X)
    with pytest.raises(InputError, match="depend on variances"):
        process.proba_bound(X)
    with pytest.raises(InputError, match="no probabilities"):
        kernelite.compile(SVC().fit(X, y), X).proba_bound(X)


def test_a_member_without_weight_has_no_say() -> None:
    X, y = blobs(4, 0.0, 2)
    model = VotingClassifier(
        [("heard", SVC(gamma=0.05)), ("unheard", SVC(gamma=50.0))], weights=[1.0, 0.0]
    ).fit(X, y)
    fast = kernelite.compile(model, X)
    np.testing.assert_array_equal(fast.predict(X), model.predict(X))
    np.testing.assert_array_equal(fast.predict(X), model.estimators_[0].predict(X))
