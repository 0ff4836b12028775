"""Ensembles of the same binary machine: formulas of all scores at once, against one by one."""

import numpy as np
import pytest

from kernelite.machine.heads import (
    Calibrated,
    CalibratedHead,
    ClassifierHead,
    Member,
    OneVsOneHead,
    OneVsRestHead,
    SigmoidCalibrator,
    VotingHead,
)

SVM = ClassifierHead(np.array([0, 1]), first_positive=False)
METHODS = ("predict", "decision_function", "predict_proba")


def members(count):
    return tuple(Member(SVM, [i]) for i in range(count))


def calibrated(count):
    return tuple(
        Calibrated(member, (SigmoidCalibrator(1.5 - i, 0.3 * i),))
        for i, member in enumerate(members(count))
    )


HEADS = {
    "votes": lambda: VotingHead(np.array([3, 4]), members(10), False, METHODS),
    "votes-even": lambda: VotingHead(np.array([3, 4]), members(4), False, METHODS),
    "rest": lambda: OneVsRestHead(np.arange(5), members(5), METHODS),
    "rest-two": lambda: OneVsRestHead(np.arange(2), members(1), METHODS),
    "rest-last": lambda: OneVsRestHead(np.arange(5), members(5), METHODS, last_wins=True),
    "multilabel": lambda: OneVsRestHead(np.arange(5), members(5), METHODS, multilabel=True),
    "pairs": lambda: OneVsOneHead(np.arange(5), members(10)),
    "pairs-two": lambda: OneVsOneHead(np.arange(2), members(1)),
    "calibrated": lambda: CalibratedHead(np.arange(2), calibrated(3)),
    "calibrated-one": lambda: CalibratedHead(np.arange(2), calibrated(1)),
}


def one_by_one(head):
    """The same head, which asks each machine by itself."""
    twin = HEADS[head]()
    twin.__dict__["alike"] = False
    return twin


def scores_and_bounds(count, rows, seed):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(rows, count))
    scores[rng.random(scores.shape) < 0.1] = 0.0
    bounds = np.abs(rng.normal(size=scores.shape)) * 10.0 ** rng.integers(-9, 1, (rows, 1))
    bounds[rng.random(rows) < 0.05] = np.inf
    some = rng.random(rows) < 0.1
    bounds[some] = np.abs(scores[some])
    return scores, bounds


@pytest.mark.parametrize("rows", [1, 400])
@pytest.mark.parametrize("name", HEADS)
def test_all_at_once_answers_as_one_by_one(name, rows):
    head, twin = HEADS[name](), one_by_one(name)
    assert head.alike
    assert not twin.alike
    for seed in range(20 if rows == 1 else 2):
        scores, bounds = scores_and_bounds(head.n_scores, rows, seed)
        assert np.array_equal(head.predict(scores), twin.predict(scores))
        assert np.array_equal(head.decided(scores, bounds), twin.decided(scores, bounds))
        np.testing.assert_array_equal(head.decision(scores), twin.decision(scores))
        if name.startswith(("votes", "calibrated")):
            np.testing.assert_array_equal(head.probabilities(scores), twin.probabilities(scores))


@pytest.mark.parametrize("name", HEADS)
def test_ends_are_those_of_one_by_one(name):
    head, twin = HEADS[name](), one_by_one(name)
    scores, bounds = scores_and_bounds(head.n_scores, 300, 7)
    ranges = ["decision_range"] if not name.startswith("calibrated") else []
    if name.startswith(("votes", "calibrated")):
        ranges.append("probability_range")
    for kind in ranges:
        for ours, theirs in zip(
            getattr(head, kind)(scores, bounds), getattr(twin, kind)(scores, bounds)
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", HEADS)
def test_ends_hold_all_scores_within_the_bounds(name):
    head = HEADS[name]()
    scores, bounds = scores_and_bounds(head.n_scores, 200, 3)
    bounds = np.minimum(bounds, 1.0)
    rng, decided, labels = (
        np.random.default_rng(0),
        head.decided(scores, bounds),
        head.predict(scores),
    )
    for _ in range(20):
        moved = scores + bounds * rng.choice([-1.0, -0.5, 0.0, 0.999], size=scores.shape)
        assert np.array_equal(head.predict(moved)[decided], labels[decided])
        if not name.startswith("calibrated"):
            low, high = head.decision_range(scores, bounds)
            found = head.decision(moved)
            assert (low <= found).all()
            assert (found <= high).all()


def test_other_members_are_asked_one_by_one():
    other = ClassifierHead(np.array([0, 1]), first_positive=True)
    shifted = ClassifierHead(np.array([0, 1]), first_positive=False, threshold=0.5)
    for head in (other, shifted):
        mixed = (*members(2), Member(head, [2]))
        assert not VotingHead(np.arange(2), mixed, False, METHODS).alike
    swapped = (Member(SVM, [1]), Member(SVM, [0]))
    assert not VotingHead(np.arange(2), swapped, False, METHODS).alike
    placed = (Member(SVM, [0], places=[1, 0]),)
    assert not VotingHead(np.arange(2), placed, False, METHODS).alike
