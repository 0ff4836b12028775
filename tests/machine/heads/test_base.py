"""The contract of `Head`, on one head of every kind: intervals, what is decided, criteria."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelite.backends.cpu.heads import judge
from kernelite.machine.heads import ClassifierHead, ConstantHead, Head, RegressorHead
from kernelite.machine.heads.base import ANSWERS
from kernelite.program.bounded import Bounded
from kernelite.program.cascade import holds
from kernelite.program.criteria import (
    And,
    Close,
    LabelMargin,
    Margin,
    SameAnswer,
    Within,
    decision_criterion,
    label_criterion,
    never,
    predict_criterion,
    probability_criterion,
)
from tests.machine.heads.table import HEADS

RANGED = ("predict_proba", "decision_function", "predict")


def scores_and_bounds(head: Head, m: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Random scores, of all sizes; positive ones where they are weights or sums."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(m, head.n_scores)) * rng.choice([0.1, 1.0, 3.0], (m, 1))
    bounds = rng.exponential(0.3, scores.shape) * rng.choice([0.0, 0.1, 1.0], (m, 1))
    if head in (HEADS["density"], HEADS["largest share"]):
        scores = np.abs(scores) + 0.1
        bounds = np.minimum(bounds, 0.9 * scores)
    return scores, bounds


def ranged(head: Head) -> list[str]:
    """Methods whose interval function is worth trying."""
    known = head.offers - head.needs_posterior
    methods = [n for n in RANGED if n in known and head.judged_by(n) in ("bounds", "range")]
    return methods if head.kind == "regressor" else [name for name in methods if name != "predict"]


@pytest.mark.parametrize("name", HEADS)
def test_answers_stay_between_their_ends_and_decided_ones_stay(name: str) -> None:
    head = HEADS[name]
    scores, bounds = scores_and_bounds(head)
    rng = np.random.default_rng(5)
    decided = head.decided(scores, bounds)
    assert decided.shape == (len(scores),)
    for _ in range(8):
        moved = scores + rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], scores.shape) * bounds
        np.testing.assert_array_equal(head.predict(moved)[decided], head.predict(scores)[decided])
        for method in ranged(head):
            low, high = head.answer_range(method, scores, bounds)
            there = head.answer(method, moved)
            room = 1e-12 * (1.0 + np.abs(there))
            assert ((low - room <= there) & (there <= high + room)).all(), method
            close = head.within(method, scores, bounds, 0.05)
            gap = np.abs(there - head.answer(method, scores))
            assert (gap.reshape(len(gap), -1)[close] <= 0.05 + 1e-9).all(), method


@pytest.mark.parametrize("name", [name for name in HEADS if HEADS[name].proves_labels])
def test_labels_are_decided_without_errors_and_never_with_large_ones(name: str) -> None:
    head = HEADS[name]
    scores, _ = scores_and_bounds(head)
    assert head.decided(scores, np.zeros_like(scores)).mean() > 0.9
    assert not head.decided(scores, np.full_like(scores, 50.0)).any()
    assert not head.decided(scores, np.full_like(scores, np.nan)).any()
    assert (head.margin(scores) > -50.0).all()


@pytest.mark.parametrize("name", HEADS)
def test_every_method_has_an_answer_and_a_criterion(name: str) -> None:
    head = HEADS[name]
    scores, bounds = scores_and_bounds(head)
    tolerance = None if head.proves_labels else np.full(head.n_values, 0.05)
    for method in ANSWERS:
        if method in head.offers and method not in head.needs_posterior:
            assert len(head.answer(method, scores)) == len(scores)
    rules = [predict_criterion(head, tolerance), label_criterion(head, tolerance)]
    if "decision_function" in head.offers:
        rules += [decision_criterion(head, tolerance), decision_criterion(head, np.full(1, 0.05))]
    if "predict_proba" in head.offers:
        rules.append(probability_criterion(head, 0.05))
    for rule in rules:
        settled = rule(scores, bounds)
        assert settled.dtype == bool
        assert settled.shape == (len(scores),)


def test_criteria_can_be_looked_into() -> None:
    two, tolerance = ClassifierHead(np.array([0, 1])), np.array([0.5])
    assert isinstance(label_criterion(two, None), SameAnswer)
    votes = ClassifierHead(np.array([3, 1, 2]))
    proven: Any = predict_criterion(votes, None)
    assert proven.labels_alone
    np.testing.assert_array_equal(proven.voting_classes, votes.classes)
    assert predict_criterion(two, None).voting_classes is None
    both: Any = decision_criterion(two, tolerance)
    assert isinstance(both, And)
    assert both.labels_and_values
    assert (both.sufficient_bounds, both.value_bounds) == (None, tolerance)
    within: Any = label_criterion(RegressorHead(), tolerance)
    assert isinstance(within, Within)
    assert within.sufficient_bounds is within.value_bounds is tolerance
    assert not within.labels_alone
    margin = Margin(two, 0.25)
    assert margin.sufficient_bounds is margin.value_bounds is None
    assert isinstance(probability_criterion(HEADS["voting, soft"], 0.1), Close)
    assert label_criterion(RegressorHead(), None) is never


def test_a_sigmoids_slope_tells_how_close_scores_must_be() -> None:
    rule: Any = probability_criterion(HEADS["two classes, sigmoid"], 1e-3)
    np.testing.assert_allclose(rule.tolerance, 4e-3 / 1.5)


def test_coupled_probabilities_are_summed_exactly_but_have_errors() -> None:
    two = ClassifierHead(
        np.arange(2), platt_a=-np.ones(1), platt_b=np.zeros(1), couple_two_classes=True
    )
    assert probability_criterion(two, 1e-3) is never
    scores, bounds = np.array([[1.0], [0.02], [1.0]]), np.array([[1e-4], [1e-4], [1e-1]])
    # The stopping rule makes a jump of 0.005 where chances leave 0.495 to 0.505.
    assert two.within("predict_proba", scores, bounds, 1e-3).tolist() == [True, False, False]


def test_a_constant_looks_at_no_score() -> None:
    head, none = ConstantHead(1), np.empty((4, 0))
    assert head.predict(none).tolist() == [1] * 4
    assert head.decided(none, none).all()
    np.testing.assert_array_equal(head.probabilities(none), [[0.0, 1.0]] * 4)


def test_a_margin_must_be_above_its_threshold() -> None:
    rule = Margin(ClassifierHead(np.array([0, 1])), 0.25)
    scores = np.array([[0.25], [-0.25], [0.2501], [-0.2501], [0.0], [np.nan]])
    for bounds in (np.zeros((6, 1)), np.full((6, 1), 9.0)):
        assert rule(scores, bounds).tolist() == [False, False, True, True, False, False]


def test_calibrated_labels_are_settled_by_margins_or_by_proofs() -> None:
    rule = LabelMargin(ClassifierHead(np.array([0, 1])), 0.25)
    scores = np.array([[0.3], [0.3], [0.1], [0.1]])
    bounds = np.array([[0.2], [np.inf], [0.05], [0.2]])
    for judges in (holds, lambda *two: judge(*two, np.inf).rows):
        assert judges(rule, Bounded(scores, None)).tolist() == [True, True, False, False]
        assert judges(rule, Bounded(scores, bounds)).tolist() == [True, False, True, False]


def test_criteria_accept_what_they_say() -> None:
    scores, bounds = np.array([[1.0], [1.0], [0.1], [0.1]]), np.array([[0.5], [0.51], [0.2], [0.6]])
    two, half = ClassifierHead(np.array([0, 1])), Within(np.array([0.5]))
    assert half(scores, bounds).tolist() == [True, False, True, False]
    assert label_criterion(two, None)(scores, bounds).tolist() == [True, True, False, False]
    for both in (
        And(SameAnswer(two), half),
        decision_criterion(two, half.tolerance),
        decision_criterion(two, None, half.tolerance),
    ):
        assert both(scores, bounds).tolist() == [True, False, False, False]
    assert not never(scores, 0.0 * bounds).any()
