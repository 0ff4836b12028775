"""Heads: shapes, the zero rules, probabilities, and that decided rows really are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelite.machine.heads import (
    ClassifierHead,
    Head,
    Member,
    OneVsRestHead,
    OutlierHead,
    RegressorHead,
)
from kernelite.support.errors import InputError

TWO = np.array(["no", "yes"])
THREE = np.array([30, 10, 20])  # LIBSVM's order is that of the file, not sorted


def test_heads_share_a_protocol():
    for head in (ClassifierHead(TWO), RegressorHead(), OutlierHead()):
        assert isinstance(head, Head)


@pytest.mark.parametrize(
    ("first_positive", "labels"), [(True, ["yes", "yes", "no"]), (False, ["no", "yes", "yes"])]
)
def test_two_classes_give_zero_to_the_second(first_positive, labels):
    head = ClassifierHead(TWO, first_positive=first_positive)
    scores = np.array([[-1.0], [0.0], [1.0]])
    assert head.predict(scores).tolist() == labels
    np.testing.assert_array_equal(head.decision(scores), scores[:, 0])


def test_three_classes_vote_in_the_order_given():
    head = ClassifierHead(THREE)
    scores = np.array([[1.0, 1.0, 0.0], [-1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, -1.0, 1.0]])
    assert head.predict(scores).tolist() == [30, 10, 20, 30]
    np.testing.assert_array_equal(head.decision(scores), scores)
    assert replace(head, shape="ovr").decision(scores).shape == (4, 3)


def test_ties_are_broken_by_the_sums():
    scores = np.array([[1.0, -3.0, 2.5]])  # a vote each; the sums are -2, 1.5 and 0.5
    assert ClassifierHead(THREE).predict(scores).tolist() == [30]
    assert ClassifierHead(THREE, shape="ovr", break_ties=True).predict(scores).tolist() == [10]


def test_one_class_only_is_its_label():
    head = ClassifierHead(np.array([7]))
    assert head.n_scores == 0
    assert head.predict(np.empty((3, 0))).tolist() == [7, 7, 7]
    assert head.decided(np.empty((3, 0)), np.empty((3, 0))).all()


@pytest.mark.parametrize("classes", [TWO, THREE, np.array([True, False])])
def test_no_rows_give_empty_typed_results(classes):
    head = ClassifierHead(classes, shape="ovr")
    none = np.empty((0, head.n_scores))
    assert head.predict(none).shape == (0,)
    assert head.predict(none).dtype == classes.dtype
    assert head.decided(none, none).shape == (0,)
    assert len(head.decision(none)) == 0


def test_regressors():
    assert RegressorHead().predict(np.ones((4, 1))).shape == (4,)
    assert RegressorHead(2).predict(np.ones((4, 2))).shape == (4, 2)
    assert not RegressorHead().decided(np.ones((4, 1)), np.zeros((4, 1))).any()


def test_outliers_give_zero_to_the_outside():
    scores = np.array([[-1.0], [0.0], [1.0]])
    assert OutlierHead().predict(scores).tolist() == [-1, -1, 1]
    assert OutlierHead(zero_is_inlier=True).predict(scores).tolist() == [-1, 1, 1]
    bounds = np.array([[1.0], [0.0], [0.5]])
    assert OutlierHead().decided(scores, bounds).tolist() == [False, False, True]


def test_outlier_probabilities():
    head = OutlierHead(density_marks=np.arange(10.0))
    np.testing.assert_allclose(head.probabilities(np.array([[2.5]])), [[0.3, 0.7]])
    with pytest.raises(InputError, match="trained without probabilities"):
        OutlierHead().probabilities(np.array([[2.5]]))


def test_labels_by_probability_can_differ_from_votes():
    head = ClassifierHead(TWO, platt_a=np.array([-1.0]), platt_b=np.array([2.0]))
    scores = np.array([[0.5], [2.0], [3.0]])
    assert head.predict(scores).tolist() == ["no", "no", "no"]
    by_probability = replace(head, labels_by_probability=True)
    # At 2 the two are equally probable: the first class, as in LIBSVM.
    assert by_probability.predict(scores).tolist() == ["yes", "no", "no"]


@settings(deadline=None)
@given(
    a=st.floats(-5, 5),
    b=st.floats(-5, 5),
    score=st.floats(-10, 10),
    bound=st.one_of(st.floats(0, 20), st.just(np.inf)),
    where=st.lists(st.floats(-1, 1), min_size=5, max_size=5),
    first_positive=st.booleans(),
)
def test_decided_by_probability_is_sound(a, b, score, bound, where, first_positive):
    head = ClassifierHead(
        TWO,
        first_positive=first_positive,
        platt_a=np.array([a]),
        platt_b=np.array([b]),
        labels_by_probability=True,
    )
    if head.decided(np.array([[score]]), np.array([[bound]]))[0]:
        reach = min(bound, 1e9)
        true = np.array([[score + reach * t] for t in (-1.0, 1.0, *where)])
        assert len(set(head.predict(true))) == 1


def test_coupled_probabilities_decide_where_their_errors_allow():
    scores = np.array([[5.0, 5.0, 5.0], [1.0, -1.0, 1.0]])
    coupled = ClassifierHead(
        THREE, platt_a=-np.ones(3), platt_b=np.zeros(3), labels_by_probability=True
    )
    assert coupled.decided(scores, np.full((2, 3), 1e-6)).tolist() == [True, False]
    assert not coupled.decided(scores, np.full((2, 3), 1.0)).any()
    two = ClassifierHead(
        TWO,
        platt_a=-np.ones(1),
        platt_b=np.zeros(1),
        labels_by_probability=True,
        couple_two_classes=True,
    )
    bounds = np.full((3, 1), 1e-6)
    assert two.decided(np.array([[5.0], [0.0], [-5.0]]), bounds).tolist() == [True, False, True]


@settings(deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_decided_rows_keep_their_label(seed, first_positive, break_ties):
    rng = np.random.default_rng(seed)
    head = ClassifierHead(
        np.arange(4), first_positive=first_positive, shape="ovr", break_ties=break_ties
    )
    scores, bounds = rng.normal(size=(30, 6)), 0.4 * rng.random((30, 6))
    decided = head.decided(scores, bounds)
    if not break_ties:  # sums move even where no sign does
        assert (decided >= head.pairs_decided(scores, bounds)).all()
    for _ in range(10):
        true = scores + bounds * rng.uniform(-1, 1, scores.shape)
        np.testing.assert_array_equal(head.predict(true)[decided], head.predict(scores)[decided])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            {"classes": np.array([[1, 2]])},
            r"`classes` must be a list of labels, got shape \(1, 2\)",
        ),
        ({"classes": np.array([])}, "`classes` must be a list of labels"),
        ({"classes": np.array([1, 2, 1])}, "`classes` contains a label twice"),
        ({"classes": TWO, "shape": "ova"}, "`shape` must be 'ovo' or 'ovr', got 'ova'"),
        ({"classes": TWO, "platt_a": np.ones(1)}, "`platt_a` and `platt_b` go together"),
        (
            {"classes": THREE, "platt_a": np.ones(1), "platt_b": np.ones(3)},
            "`platt_a` must hold 3 finite numbers",
        ),
        (
            {"classes": TWO, "platt_a": np.ones(1), "platt_b": np.array([np.nan])},
            "`platt_b` must hold 1 finite numbers",
        ),
        ({"classes": TWO, "labels_by_probability": True}, "need `platt_a` and `platt_b`"),
    ],
)
def test_bad_classifiers_are_refused(arguments, says):
    with pytest.raises(InputError, match=says):
        ClassifierHead(**arguments)


def test_probabilities_need_platt():
    with pytest.raises(InputError, match="trained without probabilities"):
        ClassifierHead(TWO).probabilities(np.zeros((1, 1)))


@pytest.mark.parametrize("marks", [np.ones(9), np.full(10, np.nan), np.ones((2, 5))])
def test_bad_density_marks_are_refused(marks):
    with pytest.raises(InputError, match="`density_marks` must hold ten finite numbers"):
        OutlierHead(density_marks=marks)


def test_scores_that_are_no_numbers_decide_nothing():
    platt = {"platt_a": np.array([-1.0]), "platt_b": np.zeros(1)}
    two = ClassifierHead(np.array([0, 1]), first_positive=False)
    by_probability = ClassifierHead(np.array([0, 1]), labels_by_probability=True, **platt)
    several = OneVsRestHead(
        np.array([0, 1]), (Member(two, [0]), Member(two, [1])), ("predict",), multilabel=True
    )
    outlier = OutlierHead(density_marks=np.linspace(-1, 1, 10))
    for decided, k in (
        (two.decided, 1),
        (by_probability.decided, 1),
        (several.decided, 2),
        (outlier.decided, 1),
        (partial(outlier.same_answer, "predict_proba"), 1),
    ):
        for bound in (np.inf, np.nan):
            scores = np.array([[np.nan], [1.0]]).repeat(k, axis=1)
            assert not decided(scores, np.full((2, k), bound)).any()


def test_a_score_as_large_as_its_bound_is_open() -> None:
    """It may be zero, which is the other class's."""
    one, score = np.ones((2, 1)), np.array([[1.0], [-1.0]])
    for head in (ClassifierHead(TWO), ClassifierHead(TWO, first_positive=False)):
        assert head.decided(score, 0.999 * one).all()
        assert not head.decided(score, one).any()
    shifted = ClassifierHead(TWO, threshold=0.5)
    assert shifted.decided(np.array([[1.5]]), np.array([[0.999]])).all()
    assert not shifted.decided(np.array([[1.5]]), np.array([[1.0]])).any()
    votes = ClassifierHead(THREE, shape="ovr")
    scores = np.array([[1.0, 2.0, -3.0]])
    bounds = np.array([[0.5, 0.5, 2.0], [0.5, 0.5, 3.0], [1.0, 0.5, 0.5]])
    rows = np.repeat(scores, 3, axis=0)
    assert votes.pairs_decided(rows, bounds).tolist() == [True, False, False]
    assert votes.same_answer("decision_function", rows, bounds).tolist() == [True, False, False]
    assert votes.decided(rows, bounds).all()  # a tie at worst, which is the first class's


def test_a_probability_on_both_sides_of_a_half_decides_nothing() -> None:
    head = ClassifierHead(
        TWO, platt_a=np.array([-1.0]), platt_b=np.zeros(1), labels_by_probability=True
    )
    scores, bounds = np.array([[2.0], [-2.0], [0.1], [-0.1], [1e-14]]), np.full((5, 1), 0.5)
    bounds[4] = 0.0  # two probabilities of doubles do not tell
    assert head.decided(scores, bounds).tolist() == [True, True, False, False, False]
