"""Votes against LIBSVM's loop and scikit-learn's function; decided rows against brute force."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.utils.multiclass import _ovr_decision_function

from kernelite.machine.heads.base import LabelHead
from kernelite.machine.heads.pairwise import (
    count_votes,
    ovr_scores,
    pair_sums,
    pairs,
    summed_scores,
    winner_decided,
    winner_decided_by_sums,
    winner_margin,
)
from kernelite.machine.heads.svm import ClassifierHead


def n_pairs(K: int) -> int:
    return K * (K - 1) // 2


def most_voted(scores: np.ndarray, K: int) -> int:
    """LIBSVM's loop for one row."""
    votes = [0] * K
    for score, (i, j) in zip(scores, pairs(K)):
        votes[i if score > 0 else j] += 1
    return votes.index(max(votes))


def by_sums(scores: np.ndarray, K: int) -> int:
    """scikit-learn's `break_ties` for one row."""
    row = np.asarray(scores)[None]
    return int(np.argmax(_ovr_decision_function(row < 0, -row, K), axis=1)[0])


@pytest.mark.parametrize("K", [1, 2, 3, 4, 7])
def test_votes_are_libsvms(K):
    rng = np.random.default_rng(K)
    scores = rng.integers(-2, 3, (200, n_pairs(K))).astype(float)  # zeros among them
    votes = count_votes(scores > 0, K)
    assert (votes.sum(axis=1) == n_pairs(K)).all()
    assert np.argmax(votes, axis=1).tolist() == [most_voted(row, K) for row in scores]


@pytest.mark.parametrize("K", [3, 4, 7])
def test_ovr_scores_are_scikit_learns_to_the_last_bit(K):
    rng = np.random.default_rng(K)
    scores = rng.normal(size=(300, n_pairs(K)))
    scores[rng.random(scores.shape) < 0.2] = 0.0
    ours, theirs = ovr_scores(scores, K), _ovr_decision_function(scores < 0, -scores, K)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("K", [2, 3, 7, 40])
def test_sums_of_few_rows_are_those_of_many(K):
    rng = np.random.default_rng(K)
    scores = rng.normal(size=(100, n_pairs(K)))
    bounds = np.where(rng.random(scores.shape) < 0.02, np.inf, np.abs(scores))
    few = [summed_scores(row[None], K) for row in scores]
    np.testing.assert_array_equal(np.concatenate(few), summed_scores(scores, K))
    few = [pair_sums(row[None], K) for row in bounds]
    np.testing.assert_allclose(np.concatenate(few), pair_sums(bounds, K), rtol=1e-13)


def test_summed_scores():
    np.testing.assert_array_equal(summed_scores(np.array([[1.0, 2.0, 4.0]]), 3), [[3.0, 3.0, -6.0]])


# Soundness: no true scores within the bounds may give another label than one that was decided.

grid = st.sampled_from([-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0])
slack = st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0])


@st.composite
def rows_with_bounds(draw, most_classes: int = 4):
    K = draw(st.integers(2, most_classes))
    k = n_pairs(K)
    scores = draw(arrays(np.float64, (1, k), elements=grid))
    bounds = draw(arrays(np.float64, (1, k), elements=slack))
    return K, scores, bounds


def corners(scores: np.ndarray, bounds: np.ndarray):
    """Every combination of the ends and of zero, where each lies within the bounds."""
    choices = []
    for score, bound in zip(scores[0], bounds[0]):
        ends = {score, score - bound, score + bound}
        choices.append(sorted(ends | ({0.0} if abs(score) <= bound else set())))
    return itertools.product(*choices)


@settings(deadline=None, max_examples=120)
@given(rows_with_bounds())
def test_decided_by_votes_is_sound_and_complete(case):
    """Complete where no bound ends at zero from below: there a score of zero, too, votes second."""
    K, scores, bounds = case
    winners = {most_voted(true, K) for true in corners(scores, bounds)}
    decided = bool(winner_decided(scores, bounds, K)[0])
    if decided:
        assert len(winners) == 1
    elif not (scores == -bounds).any():
        assert len(winners) > 1


@settings(deadline=None, max_examples=120)
@given(rows_with_bounds())
def test_decided_by_sums_is_sound(case):
    K, scores, bounds = case
    if winner_decided_by_sums(scores, bounds, K)[0]:
        assert len({by_sums(true, K) for true in corners(scores, bounds)}) == 1


@settings(deadline=None, max_examples=120)
@given(
    K=st.integers(3, 5),
    seed=st.integers(0, 2**32),
    scale=st.sampled_from([1e-12, 1e-3, 1.0, 1e3, 1e9, 1e17]),
    gap=st.floats(-18, 0),
)
def test_decided_by_sums_survives_rounding_near_ties(K, seed, scale, gap):
    """Nearly equal sums, where scikit-learn's squashing rounds distinct sums to equal ones."""
    rng = np.random.default_rng(seed)
    scores = np.zeros((1, n_pairs(K)))
    # A circle: 0 beats 1, 1 beats 2, 2 beats 0 by nearly the same margin; the rest lose to all.
    for column, (i, j) in enumerate(pairs(K)):
        scores[0, column] = scale * (-1.0 if (i, j) == (0, 2) else 1.0)
    scores *= 1.0 + 10.0**gap * rng.choice([-1.0, 0.0, 1.0], scores.shape)
    bounds = np.abs(scores) * 10.0**gap * rng.choice([0.0, 0.3, 1.0], scores.shape)
    if winner_decided_by_sums(scores, bounds, K)[0]:
        winners = {by_sums(scores[0], K)}
        for _ in range(200):
            signs = rng.choice([-1.0, 0.0, 1.0], scores.shape)
            true = np.clip(scores + signs * bounds, *_within(scores, bounds))
            winners.add(by_sums(true[0], K))
        for winner in range(K):  # the adversary: against every class in turn
            true = scores.copy()
            for column, pair in enumerate(pairs(K)):
                if winner in pair:
                    towards = -1.0 if pair[0] == winner else 1.0
                    true[0, column] += towards * bounds[0, column]
            true = np.clip(true, *_within(scores, bounds))
            winners.add(by_sums(true[0], K))
        assert len(winners) == 1


def _within(scores: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The interval that a rounded sum must not leave."""
    return scores - bounds, scores + bounds


@settings(deadline=None, max_examples=50)
@given(st.integers(3, 10), st.integers(0, 2**32), st.floats(-3, 1))
def test_random_rows_are_never_wrongly_decided(K, seed, size):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(20, n_pairs(K)))
    bounds = 10.0**size * rng.random(scores.shape)
    votes, sums = winner_decided(scores, bounds, K), winner_decided_by_sums(scores, bounds, K)
    for _ in range(20):
        true = scores + bounds * rng.uniform(-1, 1, scores.shape)
        for row in range(20):
            if votes[row]:
                assert most_voted(true[row], K) == most_voted(scores[row], K)
            if sums[row]:
                assert by_sums(true[row], K) == by_sums(scores[row], K)


def test_certain_scores_are_decided_and_unbounded_ones_are_not():
    rng = np.random.default_rng(8)
    scores = rng.normal(size=(500, 10))
    nothing, everything = np.zeros_like(scores), np.full_like(scores, np.inf)
    for decide in (winner_decided, winner_decided_by_sums):
        assert decide(scores, nothing, 5).all()
        assert not decide(scores, everything, 5).any()


def test_ties_go_to_the_earlier_class_only_when_both_sides_are_sure():
    # 0 beats 1, 1 beats 2, 2 beats 0: a vote each, the earliest class wins.
    scores = np.array([[1.0, -1.0, 1.0]])
    assert most_voted(scores[0], 3) == 0
    assert winner_decided(scores, np.full((1, 3), 0.5), 3)[0]
    assert not winner_decided(scores, np.array([[0.5, 0.5, 1.0]]), 3)[0]
    assert not winner_decided_by_sums(scores, np.full((1, 3), 0.5), 3)[0]


def test_small_bounds_settle_ovr_values_where_their_ranges_do():
    """The short way asks for no more than the ranges, and for no less than they prove."""
    head, tolerance = ClassifierHead(np.arange(5), shape="ovr"), np.linspace(0.01, 0.02, 5)
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(400, 10))
    bounds = rng.choice([1e-3, 0.99, 1.01], (400, 1)) * head.bounds_for("decision_function", 0.01)
    bounds = np.broadcast_to(bounds, scores.shape)
    rows = [slice(i, i + 1) for i in range(len(scores))]
    alone = [head.within("decision_function", scores[i], bounds[i], tolerance)[0] for i in rows]
    by_range = LabelHead.within(head, "decision_function", scores, bounds, tolerance)
    np.testing.assert_array_equal(alone, by_range)
    assert 0.5 < np.mean(alone) < 1.0


@pytest.mark.parametrize("K", [3, 6])
def test_rows_with_open_pairs_are_judged_among_others_as_they_are_alone(K):
    head, rng = ClassifierHead(np.arange(K)), np.random.default_rng(K)
    scores = rng.integers(-3, 4, (300, n_pairs(K))).astype(float)
    bounds = np.where(rng.random(scores.shape) < 0.2, 1.0, 0.0)
    alone = [head.decided(scores[i : i + 1], bounds[i : i + 1])[0] for i in range(len(scores))]
    np.testing.assert_array_equal(head.decided(scores, bounds), alone)
    assert 0.1 < np.mean(alone) < 0.9
    sets = [head.label_sets(scores[i : i + 1], bounds[i : i + 1])[0] for i in range(len(scores))]
    np.testing.assert_array_equal(head.label_sets(scores, bounds), sets)
    sure = np.flatnonzero(alone)
    assert (head.label_sets(scores[sure], bounds[sure]).sum(axis=1) == 1).all()


def exact_sums(scores: np.ndarray, K: int) -> list[list[Fraction]]:
    """S_c of each row, without rounding."""
    found = []
    for row in scores:
        sums = [Fraction(0)] * K
        for score, (i, j) in zip(row.tolist(), pairs(K)):
            sums[i] += Fraction(score)
            sums[j] -= Fraction(score)
        found.append(sums)
    return found


@pytest.mark.parametrize("size", [1e-5, 1.0, 1e16])
def test_ranges_of_ovr_values_hold_the_real_ones(size: float) -> None:
    """Of scores without any error: sums round, and so does adding them to votes."""
    rng, K = np.random.default_rng(0), 4
    scores = rng.normal(size=(300, 6)) * size
    scores[:100, 2] = -scores[:100, 0]  # what cancels leaves the rounding of the rest
    scores[:100, 1] = 1.0
    low, high = ClassifierHead(np.arange(K), shape="ovr").decision_range(scores, 0.0 * scores)
    votes = count_votes(scores > 0, K)
    for row, sums in enumerate(exact_sums(scores, K)):
        for c, total in enumerate(sums):
            real = int(votes[row, c]) + total / (3 * (abs(total) + 1))
            assert Fraction(low[row, c]) < real < Fraction(high[row, c])


def test_ties_that_rounded_sums_break_are_open() -> None:
    """Scores of any size without any error: the class with most votes and the largest real sum."""
    rng, K = np.random.default_rng(1), 4
    scores = rng.choice([1e16, 3e16, 1.0, 2.0, 0.5], (3000, 6)) * rng.choice([-1.0, 1.0], (3000, 6))
    decided = winner_decided_by_sums(scores, 0.0 * scores, K)
    votes, winners = count_votes(scores > 0, K), np.argmax(ovr_scores(scores, K), axis=1)
    assert 0.3 < decided.mean() < 1.0
    for row in np.flatnonzero(decided):
        (sums,) = exact_sums(scores[row : row + 1], K)
        best = max(range(K), key=lambda c: (votes[row, c], sums[c]))
        assert best == winners[row]


@pytest.mark.parametrize("K", [2, 3, 4, 7])
def test_margins_are_the_smallest_leads_of_winners(K: int) -> None:
    """Of its own pairs alone: ties of votes, scores of zero and infinite ones among them."""
    rng = np.random.default_rng(K)
    scores = rng.choice([-2.0, -1.0, 0.0, 0.5, 3.0, np.inf], size=(300, K * (K - 1) // 2))
    found = winner_margin(scores, K)
    winners = np.argmax(count_votes(scores > 0, K), axis=1)
    for row, winner, margin in zip(scores, winners, found, strict=True):
        leads = [
            value if first == winner else -value
            for value, (first, second) in zip(row, pairs(K), strict=True)
            if winner in (first, second)
        ]
        assert margin == min(leads)


def test_a_tie_that_an_open_pair_may_bring_goes_to_the_first_class() -> None:
    """Class 0 has two votes for sure; 2 or 3 may get as many, by the pair that is open."""
    scores = np.array([[1.0, 1.0, -1.0, -1.0, 1.0, 0.1]])
    assert winner_decided(scores, np.full((1, 6), 0.5), 4).all()
    turned = -scores[:, [5, 4, 2, 3, 1, 0]]  # the classes the other way round: it is the last one
    assert not winner_decided(turned, np.full((1, 6), 0.5), 4).any()
