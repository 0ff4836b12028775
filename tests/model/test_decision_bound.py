"""`error_bound` of decision values: whatever answers a row, alone or among others, is within it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

import kernelite as kl
from kernelite.machine.heads import ClassifierHead
from kernelite.machine.heads.ensembles import VotingHead
from kernelite.machine.heads.members import Member
from kernelite.machine.heads.multiclass import OneVsOneHead
from kernelite.program.criteria import decision_criterion


def test_a_tolerance_holds_for_rows_alone_and_among_others() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.digitize(X[:, 0] + 0.3 * X[:, 1] ** 2, [-0.3, 0.5])
    svc = SVC(gamma=0.02, C=100.0, decision_function_shape="ovo").fit(X, y)
    fast = kl.compile(svc, X, tolerance=1e-6)
    # Far rows in between keep the form from being tried where there are many.
    rows = np.concatenate([X * 0.05, rng.normal(size=(2000, 3)) * 6.0])
    bounds = fast.error_bound(rows)[:50]
    alone = np.concatenate([fast.decision_function(rows[i : i + 1]) for i in range(50)])
    assert (bounds >= 1e-6).all()
    assert (np.abs(alone - svc.decision_function(rows[:50])) <= bounds).all()


def exact_ovr(scores: list[float], n_classes: int) -> list[Fraction]:
    votes, sums = [0] * n_classes, [Fraction(0)] * n_classes
    pairs = [(i, j) for i in range(n_classes) for j in range(i + 1, n_classes)]
    for score, (i, j) in zip(scores, pairs):
        votes[i if score > 0 else j] += 1
        sums[i] += Fraction(score)
        sums[j] -= Fraction(score)
    return [v + s / (3 * (abs(s) + 1)) for v, s in zip(votes, sums)]


@pytest.mark.parametrize("size", [1.0, 1e6, 1e30])
def test_ends_of_votes_hold_the_rounding_of_votes(size: float) -> None:
    svm = ClassifierHead(np.array([0, 1]), first_positive=False)
    heads = [
        ClassifierHead(np.arange(4), shape="ovr"),
        OneVsOneHead(np.arange(4), tuple(Member(svm, [i]) for i in range(6))),
    ]
    scores = size * np.random.default_rng(1).normal(size=(40, 6))
    for head, sign in zip(heads, (1.0, -1.0)):
        low, high = head.decision_range(scores, np.zeros_like(scores))
        for i, row in enumerate(scores):
            exact = exact_ovr((sign * row).tolist(), 4)
            assert all(Fraction(a) <= e <= Fraction(b) for a, e, b in zip(low[i], exact, high[i]))


def test_ends_of_a_mean_hold_the_rounding_of_its_sum() -> None:
    svm = ClassifierHead(np.array([0, 1]), first_positive=False)
    members = tuple(Member(svm, [i]) for i in range(30))
    head = VotingHead(np.array([0, 1]), members, False, ("predict", "decision_function"))
    # Each of the others is lost where it is added, and not where they are added first.
    scores = np.array([[1.0] + [1e-16] * 29, [-3.0] + [-2e-16] * 29])
    low, high = head.decision_range(scores, np.zeros_like(scores))
    for i, row in enumerate(scores):
        exact = sum(map(Fraction, row.tolist()), start=Fraction(0)) / 30
        assert Fraction(low[i]) <= exact <= Fraction(high[i])


@pytest.mark.parametrize("n_classes", [3, 4, 6, 10])
def test_a_tolerance_of_votes_and_sums_is_kept_whatever_the_number_of_pairs(n_classes: int) -> None:
    head = ClassifierHead(np.arange(n_classes), shape="ovr")
    k, tolerance = head.n_scores, 1e-3
    criterion = decision_criterion(head, np.full(k, tolerance))
    rng = np.random.default_rng(n_classes)
    signs = np.where(rng.random((200, k)) < 0.5, -1.0, 1.0)
    scores, bounds = 2e-3 * signs, np.linspace(1e-5, 1e-3, 200)[:, None] * np.ones(k)
    accepted = criterion(scores, bounds)
    assert accepted.any()
    moved = head.decision(scores + bounds)
    off = np.abs(moved - head.decision(scores)).max(axis=1)
    assert (off[accepted] <= tolerance).all()


@pytest.mark.parametrize("steps", [(), (MinMaxScaler(),)])
def test_exact_values_of_every_head_are_off_by_rounding_only(steps: tuple[Any, ...]) -> None:
    """Large enough that single precision would serve values within a thousandth."""
    X, y = make_classification(1_200, 30, n_informative=10, random_state=0)
    features = Nystroem(gamma=0.02, n_components=700, random_state=0)
    model = make_pipeline(*steps, features, LogisticRegression()).fit(X, y)
    fast = kl.compile(model, X, guarantee="exact")
    for method in ("decision_function", "predict_proba"):
        for rows in (X, X[:1]):
            ours, theirs = getattr(fast, method)(rows), getattr(model, method)(rows)
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9, err_msg=method)
    assert fast.error_bound(X).max() < 1e-6
