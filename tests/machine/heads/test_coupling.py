"""Vectorised probabilities against a scalar twin, and what must hold of any of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kernelite.machine.heads.coupling import (
    class_probabilities,
    couple,
    logit_errors,
    pair_probabilities,
)
from kernelite.machine.heads.pairwise import density_probabilities


def sigmoid(score: float, a: float, b: float) -> float:
    t = score * a + b
    p = math.exp(-t) / (1 + math.exp(-t)) if t >= 0 else 1 / (1 + math.exp(t))
    return min(max(p, 1e-7), 1 - 1e-7)


def coupled(r: list[list[float]]) -> list[float]:
    """The paper's Algorithm 2 for one row, in plain Python, with LIBSVM's stopping rule."""
    K = len(r)
    Q = [[-r[j][t] * r[t][j] for j in range(K)] for t in range(K)]
    for t in range(K):
        Q[t][t] = sum(r[j][t] ** 2 for j in range(K) if j != t)
    p = [1 / K] * K
    for _ in range(max(100, K)):
        Qp = [sum(Q[t][j] * p[j] for j in range(K)) for t in range(K)]
        pQp = sum(p[t] * Qp[t] for t in range(K))
        if max(abs(value - pQp) for value in Qp) < 0.005 / K:
            break
        for t in range(K):
            delta = (pQp - Qp[t]) / Q[t][t]
            p[t] += delta
            pQp = (pQp + delta * (delta * Q[t][t] + 2 * Qp[t])) / (1 + delta) ** 2
            Qp = [(Qp[j] + delta * Q[t][j]) / (1 + delta) for j in range(K)]
            p = [value / (1 + delta) for value in p]
    return p


def one_row(scores, a, b, K: int, couple_two: bool) -> list[float]:
    r = [[0.0] * K for _ in range(K)]
    column = 0
    for i in range(K):
        for j in range(i + 1, K):
            r[i][j] = sigmoid(scores[column], a[column], b[column])
            r[j][i] = 1 - r[i][j]
            column += 1
    return [r[0][1], r[1][0]] if K == 2 and not couple_two else coupled(r)


@pytest.mark.parametrize("couple_two", [False, True])
@pytest.mark.parametrize("K", [2, 3, 5, 12])
def test_rows_are_those_of_the_scalar_twin(K, couple_two):
    rng = np.random.default_rng(K)
    k = K * (K - 1) // 2
    scores = rng.normal(scale=[[0.1], [1.0], [30.0]], size=(3, k)).repeat(20, axis=0)
    scores += rng.normal(size=scores.shape)
    a, b = rng.normal(-2, 1, k), rng.normal(size=k)
    ours = class_probabilities(scores, a, b, K, couple_two_classes=couple_two)
    twin = [one_row(row, a, b, K, couple_two) for row in scores]
    np.testing.assert_allclose(ours, twin, rtol=1e-9, atol=1e-12)
    few = [class_probabilities(row[None], a, b, K, couple_two_classes=couple_two) for row in scores]
    np.testing.assert_allclose(np.concatenate(few), twin, rtol=1e-9, atol=1e-12)


def test_coupling_two_classes_can_be_seen():
    """The stopping rule leaves the third digit open; this is why both ways exist."""
    scores = np.linspace(-3, 3, 101)[:, None]
    one = np.ones(1)
    direct = class_probabilities(scores, -one, 0 * one, 2)
    iterated = class_probabilities(scores, -one, 0 * one, 2, couple_two_classes=True)
    assert 1e-4 < np.abs(direct - iterated).max() < 1e-2


def test_coupling_is_near_the_minimum_that_the_paper_defines():
    """The iteration solves [Q 1; 1' 0] [p; m] = [0; 1] up to its tolerance."""
    rng = np.random.default_rng(1)
    first = rng.uniform(0.05, 0.95, (50, 6))
    i, j = np.triu_indices(4, 1)
    for chances, p in zip(first, couple(first, 4, None)[0]):
        row = np.zeros((4, 4))
        row[i, j], row[j, i] = chances, 1 - chances
        Q = -row * row.T + np.diag((row**2).sum(axis=0))
        system = np.block([[Q, np.ones((4, 1))], [np.ones((1, 4)), np.zeros((1, 1))]])
        exact = np.linalg.solve(system, [0, 0, 0, 0, 1])[:4]
        np.testing.assert_allclose(p, exact, atol=0.02)


@settings(deadline=None, max_examples=60)
@given(
    arrays(np.float64, (4, 6), elements=st.floats(-1e300, 1e300)),
    arrays(np.float64, (6,), elements=st.floats(-1e10, 1e10)),
    arrays(np.float64, (6,), elements=st.floats(-1e10, 1e10)),
)
def test_any_scores_give_probabilities(scores, a, b):
    p = class_probabilities(scores, a, b, 4)
    assert np.isfinite(p).all()
    assert (p > -1e-9).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-6)


def test_no_rows_and_one_class():
    assert class_probabilities(np.empty((0, 3)), np.ones(3), np.ones(3), 3).shape == (0, 3)
    alone = class_probabilities(np.empty((2, 0)), np.ones(0), np.ones(0), 1)
    np.testing.assert_array_equal(alone, [[1.0], [1.0]])


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(2)
    scores, a, b = rng.normal(size=(50, 6)), rng.normal(size=6), rng.normal(size=6)
    whole = class_probabilities(scores, a, b, 4)
    monkeypatch.setattr("kernelite.machine.heads.coupling.BLOCK_NUMBERS", 16 * 7)
    np.testing.assert_allclose(class_probabilities(scores, a, b, 4), whole, rtol=1e-12)


def density_twin(score: float, marks: list[float]) -> float:
    if score < marks[0]:
        return 0.001
    if score > marks[9]:
        return 0.999
    for i in range(1, 10):
        if score < marks[i]:
            return i / 10
    return 0.0


@given(
    st.lists(st.floats(-5, 5), min_size=10, max_size=10).map(sorted),
    st.lists(st.floats(-6, 6), max_size=20),
)
def test_density_steps_are_those_of_the_scalar_twin(marks, scores):
    scores = [*scores, *marks]  # ties included
    ours = density_probabilities(np.array(scores), np.array(marks))
    assert ours[:, 0].tolist() == [density_twin(score, marks) for score in scores]
    np.testing.assert_array_equal(ours.sum(axis=1), 1.0)


@pytest.mark.parametrize("K", [2, 3, 4, 7, 12])
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_errors_of_coupled_probabilities_hold_while_scores_move(K: int, scale: float) -> None:
    rng = np.random.default_rng([K, int(10 * scale)])
    first, second = np.triu_indices(K, 1)
    own = rng.integers(0, K, 200)[:, None]
    scores = scale * (0.4 * rng.normal(size=(200, len(first))) + (own == first) - (own == second))
    a, b = -rng.uniform(0.5, 2.0, len(first)), 0.2 * rng.normal(size=len(first))
    bounds = 10.0 ** rng.uniform(-12, -3, (200, 1)) * rng.uniform(0, 1, scores.shape)
    chances = pair_probabilities(scores, a, b)
    p, errors = couple(chances, K, logit_errors(scores, bounds, a, b, chances))
    assert errors is not None
    np.testing.assert_allclose(p, couple(chances, K, None)[0], rtol=1e-9, atol=1e-13)
    for _ in range(4):
        there = scores + bounds * rng.choice([-1.0, 0.0, 1.0], scores.shape)
        moved, _ = couple(pair_probabilities(there, a, b), K, None)
        assert (np.abs(moved - p) <= errors).all()
    small = bounds.max(axis=1) < 1e-8
    assert np.median(errors[small].max(axis=1)) < 1e-6
    # Of rows whose scores may be anywhere, nothing is known.
    far = couple(chances, K, np.full_like(chances, np.inf))[1]
    assert far is not None
    assert (far == 1.0).all()
