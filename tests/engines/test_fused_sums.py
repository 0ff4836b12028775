"""Products in single precision: bounds that hold, and labels that are the exact model's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC, OneClassSVM

import kernelite as kl
from kernelite.engines import exact_single as module
from kernelite.engines.exact import ExactEngine
from kernelite.engines.exact_dense import DenseExact
from kernelite.engines.exact_single import SingleExact
from kernelite.expansion import KernelExpansion
from kernelite.heads.criteria import Proven, never
from tests.oracle import error_ratios, true_scores


def made(model: KernelExpansion) -> SingleExact:
    """Whether it pays or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LEAST_WORK", 0)
        patch.setattr(module, "WORTH", np.inf)
        patch.setattr(module, "MOST_OPEN", 1.0)
        patch.setattr(module, "MOST_SPREAD", np.inf)
        single = SingleExact.prepare(DenseExact.prepare(model))
    assert single is not None
    return single


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 12),
    d=st.integers(1, 9),
    k=st.integers(1, 3),
    scale=st.sampled_from([1e-9, 1e-3, 1.0, 10.0]),
    gamma=st.sampled_from([1e-6, 1e-3, 0.2, 5.0]),
)
@settings(deadline=None, max_examples=100)
def test_no_score_is_further_off_than_its_bound(
    seed: int, n: int, d: int, k: int, scale: float, gamma: float
) -> None:
    rng = np.random.default_rng(seed)
    coefficients = rng.normal(size=(n, k)) * 10.0 ** rng.integers(-3, 6, size=(n, 1))
    centers = scale * (rng.normal(size=(n, d)) + rng.normal(size=d))
    model = KernelExpansion(centers, coefficients, rng.normal(size=k), gamma=gamma)
    wild = rng.normal(size=(3, d)) * 10.0 ** rng.integers(-200, 200, size=(3, 1))
    rows = np.concatenate([scale * rng.normal(size=(4, d)), centers[:1] * (1 + 1e-9), wild])
    scores, bounds = made(model).run(rows)
    known = np.isfinite(bounds).all(axis=1)
    assert known[:5].all() or gamma * scale**2 > 1
    ratios = error_ratios(true_scores(model, rows[known]), scores[known], bounds[known])
    assert np.max(ratios, initial=0.0) <= 1.0


def test_a_worst_case_for_products() -> None:
    """Products of one sign, all rounded the same way, use most of what the bound allows."""
    d = 400
    x = np.full(d, 1.0 + 2.0**-24 * 0.999)  # rounds to 1
    centers = np.stack([x, -x, x / 2])
    model = KernelExpansion(centers, [1e6, 1.0, 1.0], 0.0, gamma=1.0 / d)
    rows = np.stack([x, 3 * x, -x])
    single = made(model)
    scores, bounds = single.run(rows)
    exact = ExactEngine.prepare(model).run(rows)[0]
    assert (np.abs(scores - exact) <= bounds).all()
    assert (bounds < 1e6 * 1e-3).all()


def test_rows_that_single_precision_cannot_hold_stay_open() -> None:
    model = KernelExpansion(np.eye(3), [1.0, 2.0, 3.0], 0.0, gamma=1.0)
    rows = np.array([[1e39, 0, 0], [np.nan, 0, 0], [1e200, 1e200, 0], [0.1, 0.2, 0.3]])
    bounds = made(model).run(rows)[1]
    assert (np.isfinite(bounds[:, 0]) == [False, False, False, True]).all()


def test_an_infinite_entry_of_a_row_is_not_multiplied_with_tiny_centers() -> None:
    rng = np.random.default_rng(0)
    model = KernelExpansion(1e-40 * rng.normal(size=(9, 4)), np.ones(9), -2.0, gamma=1.0)
    rows = np.zeros((2, 4))
    rows[:, 0] = 1e38, 1e39  # the second has no place in 32 bits; both are infinitely far
    scores, bounds = made(model).run(rows)
    assert scores[0, 0] == -2.0
    assert np.isfinite(bounds[0, 0])
    assert bounds[1, 0] == np.inf
    assert (error_ratios(true_scores(model, rows), scores, bounds) <= 1.0).all()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"gamma": 1e-7}, "a gamma out of range"),
        ({"kernel": "poly2"}, "another kernel"),
        ({"centers": 1e6}, "norms that cancel"),
        ({"centers": 40.0, "gamma": 20.0}, "exponents beyond single precision"),
        ({"weights": 1e9}, "sums so large that too few labels are proven"),
        ({"n": 10}, "few centers"),
        ({"d": 4}, "few features"),
    ],
)
def test_where_it_is_not_used(change: dict, why: str) -> None:
    given = {"n": 500, "d": 60, "gamma": 0.01, "centers": 1.0, "weights": 1.0, "kernel": "rbf"}
    assert single_of(**given) is not None
    assert single_of(**given | change) is None, why


def single_of(n: int, d: int, gamma: float, centers: float, weights: float, kernel: str):
    rng = np.random.default_rng(0)
    some = centers * rng.normal(size=(n // 2, d))
    return ExactEngine.prepare(
        KernelExpansion(
            np.concatenate([some, some]),  # whose terms cancel
            np.repeat([weights, -weights], n // 2),
            0.75,
            gamma=gamma,
            **({"coef0": 1.0, "kernel": kernel} if kernel == "poly2" else {}),
        )
    ).single


def test_only_labels_are_taken_from_it() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 40))
    svc = SVC(gamma=0.05).fit(X, np.sin(X[:, 0]) + X[:, 1] > 0.2)
    fast = kl.compile(svc, guarantee="exact")
    rows = rng.normal(size=(3000, 40))
    exact = fast._runner.exact
    assert exact.single is not None
    np.testing.assert_array_equal(fast.predict(rows), svc.predict(rows))
    np.testing.assert_allclose(
        fast.decision_function(rows), svc.decision_function(rows), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_array_equal(fast.scores(rows), exact.run(rows)[0])
    labels = exact.run_for(rows, Proven(fast.head.decided))
    for settles in (None, never, fast.head.decided):
        np.testing.assert_array_equal(exact.run_for(rows, settles)[1], exact.run(rows)[1])
    assert (labels[1] >= exact.run(rows)[1]).all()
    assert (np.abs(labels[0] - exact.run(rows)[0]) <= labels[1]).all()


def test_rows_left_open_are_summed_in_doubles() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(800, 60))
    svm = OneClassSVM(gamma=0.01, nu=0.5).fit(X)
    fast = kl.compile(svm, guarantee="certified")
    # Between a row inside and a row outside, where the score is zero to ten digits.
    inside, outside = X[svm.predict(X) == 1][0], np.full(60, 3.0)
    for _ in range(50):
        middle = (inside + outside) / 2
        if svm.decision_function([middle])[0] > 0:
            inside = middle
        else:
            outside = middle
    rows = np.stack([inside, outside])
    engine = ExactEngine.prepare(fast.expansion)
    assert engine.single is not None
    settles = Proven(fast.head.decided)
    assert not settles(*engine.single.run(rows)).any()
    np.testing.assert_array_equal(engine.run_for(rows, settles)[0], engine.run(rows)[0])
    np.testing.assert_array_equal(fast.predict(rows), svm.predict(rows))


def test_far_rows_keep_their_labels_by_probability() -> None:
    """Whose head would find a label in NaN."""
    rng = np.random.default_rng(5)
    model = KernelExpansion(rng.normal(size=(400, 60)), np.ones(400), -3.0, gamma=0.01)
    head = kl.ClassifierHead(
        np.array([1, 2]), platt_a=np.array([-1.0]), platt_b=np.zeros(1), labels_by_probability=True
    )
    engine = ExactEngine.prepare(model)
    assert engine.single is not None
    rows = rng.normal(size=(3, 60)) * 1e39
    scores, _ = engine.run_for(rows, Proven(head.decided))
    np.testing.assert_array_equal(scores, np.full((3, 1), -3.0))
