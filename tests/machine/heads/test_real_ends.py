"""Ends and decided labels against real arithmetic: where doubles saturate, cancel or tie.

The oracle knows the formulas alone: balls of 400 bits for sigmoids and softmax, fractions for sums.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from kernelite.machine.heads import (
    Calibrated,
    CalibratedHead,
    ClassifierHead,
    IsotonicCalibrator,
    LinearHead,
    Member,
    OneVsOneHead,
    OneVsRestHead,
    OutlierHead,
    OutputCodeHead,
    SigmoidCalibrator,
    VotingHead,
)
from kernelite.machine.heads.calibrated import softmax_range
from kernelite.machine.heads.intervals import best_decided, share_range
from tests.machine.heads.table import HEADS
from tests.oracle import exponential, more_digits, real

TWO, THREE = np.array([0, 1]), np.arange(3)
svm = ClassifierHead(TWO, first_positive=False)
logistic = LinearHead(TWO, logistic=True)
platt = ClassifierHead(
    TWO,
    platt_a=np.array([-1e-20]),
    platt_b=np.array([0.0]),
    labels_by_probability=True,
    first_positive=False,
)


def sigmoids(a: float, b: float, count: int) -> Any:
    return tuple(SigmoidCalibrator(a, b) for _ in range(count))


def plateau(y: float) -> Calibrated:
    return Calibrated(Member(svm, [0]), (IsotonicCalibrator([-1.0, 1.0], [y, y]),))


def each(head: Any, count: int, response: Any = "decision") -> tuple[Member, ...]:
    return tuple(Member(head, [i], response) for i in range(count))


# Scores whose label in real arithmetic is not the first of those that tie in doubles.
TIES: dict[str, tuple[Any, list[float]]] = {
    "soft votes saturate": (VotingHead(TWO, each(logistic, 2), True, ()), [50.0, -40.0]),
    "weights of votes round": (
        VotingHead(TWO, each(svm, 3), False, (), np.array([0.1, 0.9, 1.0])),
        [1.0, 1.0, -1.0],
    ),
    "plateaus add up to one": (CalibratedHead(TWO, (plateau(0.1), plateau(0.9))), [0.0]),
    "sigmoids saturate": (
        CalibratedHead(
            THREE, (Calibrated(Member(LinearHead(THREE), [0, 1, 2]), sigmoids(-1.0, 0.0, 3)),)
        ),
        [40.0, 50.0, 0.0],
    ),
    "responses saturate": (
        OneVsRestHead(THREE, each(logistic, 3, "probability"), ()),
        [40.0, 50.0, 0.0],
    ),
    "a flat sigmoid": (platt, [-1.0]),
}


@pytest.mark.parametrize("name", TIES)
def test_equal_doubles_are_no_tie(name: str) -> None:
    head, scores = TIES[name]
    assert not head.decided(np.array([scores]), np.full((1, head.n_scores), 1e-13)).any()


def test_whole_weights_tie_as_counts_do() -> None:
    head, scores = TIES["weights of votes round"]
    whole = replace(head, weights=np.array([1.0, 1.0, 2.0]))
    row = np.array([scores])
    assert whole.decided(row, np.zeros((1, 3))).all()
    assert whole.predict(row).tolist() == [0]


def test_plateaus_of_one_machine_tie_as_constants_do() -> None:
    """All three below their first steps: zero each, hence uniform, hence the first class."""
    steps = tuple(IsotonicCalibrator([0.0, 1.0], [0.0, 1.0 - 0.1 * i]) for i in range(3))
    head = CalibratedHead(THREE, (Calibrated(Member(LinearHead(THREE), [0, 1, 2]), steps),))
    scores = np.array([[-1.0, -2.0, -3.0], [2.0, 3.0, 2.0], [-1.0, 0.5, 0.4]])
    decided = head.decided(scores, np.full((3, 3), 0.01))
    assert decided.tolist() == [True, True, True]
    assert head.predict(scores).tolist() == [0, 0, 1]
    # Not where a value may rise off its plateau.
    assert not head.decided(scores[:1], np.full((1, 3), 1.5)).any()
    half = CalibratedHead(TWO, (plateau(0.5),))
    assert half.decided(np.array([[0.0]]), np.array([[9.0]])).all()
    assert half.predict(np.array([[0.0]])).tolist() == [0]


def test_a_slope_too_small_for_doubles_is_no_plateau() -> None:
    """From 1/2 to the double above it: a tie of doubles on the way, and none in reals."""
    slope = IsotonicCalibrator([-1.0, 1.0], [0.5, np.nextafter(0.5, 1.0)])
    head = CalibratedHead(TWO, (Calibrated(Member(svm, [0]), (slope,)),))
    assert not head.decided(np.array([[-0.5]]), np.array([[0.01]])).any()


def test_squashed_sums_that_round_to_one_number_are_no_tie() -> None:
    head = OneVsOneHead(np.arange(3), each(svm, 3))
    # Pairs 01, 02, 12: a cycle. Sums: class 0: -a + b, 1: a - c, 2: -b + c, all huge and apart.
    a, b, c = 1e17, 3e17, 4e17
    for row in ([a, -b, c], [-a, b, -c], [a, -c, b], [-c, a, -b]):
        scores = np.array([row])
        sums = [-row[0] - row[1], row[0] - row[2], row[1] + row[2]]
        if head.decided(scores, np.full((1, 3), 1.0))[0]:
            assert head.predict(scores)[0] == int(np.argmax(sums))


def test_a_share_is_not_certain_because_a_sum_cancels() -> None:
    low, high = np.array([[1e-20, 1e-20, 1e-20]]), np.array([[1.0, 1e-20, 1e-20]])
    least, most = share_range(low, high, 3)
    assert least[0, 0] <= 1 / 3
    assert most[0, 1] >= 1 / 3
    least, most = softmax_range(np.full((1, 3), -46.0), np.array([[0.0, -46.0, -46.0]]), 3)
    assert least[0, 0] <= 1 / 3
    assert most[0, 1] >= 1 / 3


@pytest.mark.parametrize("a", [-1.0, 2.5, -1e10, 1e-12, 0.0])
def test_sigmoids_lie_between_their_ends(a: float) -> None:
    rng = np.random.default_rng(0)
    t = np.concatenate([rng.normal(size=40), 50 * rng.normal(size=40), [0.0, 1.0, -1e4, 1e300]])
    for b in (0.0, -0.3, -a, 1e6):
        low, high = SigmoidCalibrator(a, b).range(t, t)
        assert (low < high).all()
        for value, least, most in zip(t, low, high):
            exponent = real(a) * real(value) + real(b)
            if abs(float(exponent)) > 1e5:  # below all doubles, or as near to one
                continue
            with more_digits():
                true = 1 / (1 + exponential(exponent))
                assert real(least) < true < real(most), (a, b, value)


def test_codes_that_share_a_large_response() -> None:
    rng = np.random.default_rng(1)
    book = np.concatenate([np.ones((4, 1)), rng.choice([-1.0, 1.0], (4, 5))], axis=1)
    head = OutputCodeHead(np.arange(4), book, each(svm, 6))
    scores = np.concatenate([np.full((500, 1), 1e8), 1e-8 * rng.normal(size=(500, 5))], axis=1)
    decided, labels = head.decided(scores, np.zeros_like(scores)), head.predict(scores)
    for row, label in zip(scores[decided], labels[decided]):
        gaps = [sum((Fraction(y) - Fraction(c)) ** 2 for y, c in zip(row, code)) for code in book]
        assert gaps[label] == min(gaps)


def test_marks_between_a_score_and_its_bound() -> None:
    """0.1 - 2^-60 is below the mark in reals, and the mark in doubles."""
    head = OutlierHead(density_marks=np.arange(1.0, 11.0) / 10.0)
    assert not head.same_answer("predict_proba", np.array([[0.1]]), np.array([[2.0**-60]])).any()


def true_softmax(logits: list[Any]) -> list[Any]:
    powers = [exponential(value) for value in logits]
    return [power / sum(powers, real(0.0)) for power in powers]


@pytest.mark.parametrize("size", [1.0, 30.0, 1e9])
def test_probabilities_lie_between_their_ends(size: float) -> None:
    """Of logistic regression and of a temperature, at scores that are doubles."""
    rng = np.random.default_rng(2)
    shift = size * rng.normal(size=(40, 1))
    scores = shift + 5.0 * rng.normal(size=(40, 3))
    zero = np.zeros_like(scores)
    linear = LinearHead(THREE, logistic=True)
    warm = HEADS["calibrated, temperature"]
    for head, beta in ((linear, 1.0), (warm, 0.7)):
        low, high = head.probability_range(scores, zero)
        for row, least, most in zip(scores, low, high):
            true = true_softmax([real(beta) * (real(s) - real(row[0])) for s in row])
            assert all(real(a) < p < real(b) for a, p, b in zip(least, true, most))


def test_shares_are_least_where_the_others_are_most() -> None:
    least, most = share_range(np.array([[1.0, 1.0, 1.0]]), np.array([[2.0, 3.0, 4.0]]), 3)
    np.testing.assert_allclose(least, [[1 / 8, 1 / 7, 1 / 6]], rtol=1e-11)
    np.testing.assert_allclose(most, [[2 / 4, 3 / 5, 4 / 6]], rtol=1e-11)


def test_an_end_that_is_no_constant_is_no_tie() -> None:
    low, high = np.array([[0.5, 0.2], [0.5, 0.5]]), np.array([[0.6, 0.5], [0.5, 0.5]])
    assert best_decided(low, high, 2, constants=True).tolist() == [False, True]
    assert best_decided(low, high, 2).tolist() == [False, False]
    assert best_decided(low, high, 2, counts=True).tolist() == [True, True]
    turned = best_decided(low[:, ::-1], high[:, ::-1], 2, counts=True)
    assert turned.tolist() == [False, True]


@pytest.mark.parametrize("spread", [100.0, 350.0, 800.0, 3000.0])
def test_ends_of_shares_hold_where_their_exponentials_underflow(spread: float) -> None:
    """A share is at most 1 / (1 + sum_j exp(low_j - high_c)): nothing underflows in that."""
    rng = np.random.default_rng(0)
    scores, bounds = spread * rng.normal(size=(4000, 3)), spread * rng.random((4000, 3))
    low, high = scores - bounds, scores + bounds
    least, most = softmax_range(low, high, 3)
    for c in range(3):
        others = [j for j in range(3) if j != c]
        with np.errstate(over="ignore"):
            largest = 1.0 / (1.0 + np.exp(low[:, others] - high[:, [c]]).sum(axis=1))
            smallest = 1.0 / (1.0 + np.exp(high[:, others] - low[:, [c]]).sum(axis=1))
        assert (most[:, c] >= largest * (1.0 - 1e-11)).all()
        assert (least[:, c] <= smallest * (1.0 + 1e-11)).all()
