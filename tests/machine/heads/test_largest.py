"""The largest score wins: labels, shares, and that decided rows really are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelite.machine.heads import ArgmaxHead, Head
from kernelite.support.errors import InputError

THREE = np.array(["a", "b", "c"])


def test_it_is_a_head():
    assert isinstance(ArgmaxHead(THREE), Head)
    assert ArgmaxHead(THREE).offers == {"predict"}
    assert ArgmaxHead(THREE, shares=True).offers == {"predict", "predict_proba"}


@pytest.mark.parametrize("shares", [False, True])
def test_ties_go_to_the_first(shares):
    head = ArgmaxHead(THREE, shares=shares)
    assert head.predict(np.array([[1.0, 2.0, 2.0], [1.0, 1.0, 1.0]])).tolist() == ["b", "a"]
    assert not head.decided(np.array([[1.0, 2.0, 2.0]]), np.zeros((1, 3)))[0]


def test_one_class_is_always_decided():
    head = ArgmaxHead(np.array([7]))
    assert head.decided(np.zeros((2, 1)), np.full((2, 1), np.inf)).all()
    assert np.isinf(head.margin(np.zeros((2, 1)))).all()


def test_labels_are_checked():
    for classes in ([], [[1]], [1, 1]):
        with pytest.raises(InputError, match="`classes`"):
            ArgmaxHead(np.array(classes))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), shares=st.booleans(), spread=st.floats(1e-17, 1.0))
def test_decided_rows_keep_their_label_and_shares_their_bound(seed, shares, spread):
    rng = np.random.default_rng(seed)
    head = ArgmaxHead(np.arange(4), shares=shares)
    scores = rng.random((50, 4)) if shares else rng.normal(size=(50, 4))
    scores[:10] = scores[:10, :1] * (1 + 1e-16 * rng.integers(0, 5, (10, 4)))
    bounds = spread * rng.random((50, 4))
    decided = head.decided(scores, bounds)
    within = head.probability_errors(scores, bounds) if shares else None
    for _ in range(10):
        true = scores + bounds * rng.uniform(-1, 1, scores.shape)
        assert (head.predict(true)[decided] == head.predict(scores)[decided]).all()
        if within is not None:
            true = np.maximum(true, 0.0)
            gap = np.abs(head.probabilities(true) - head.probabilities(scores)).max(axis=1)
            assert (gap[np.isfinite(within)] <= within[np.isfinite(within)]).all()
