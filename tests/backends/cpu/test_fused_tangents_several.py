"""Values of several outputs by tangents in single precision: bounds hold, and they serve values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.decomposition import KernelPCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

import kernelite as kl
from kernelite.backends.cpu import panels
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.fused_tangents import BEYOND, SHALLOW, SeveralTangents
from kernelite.backends.cpu.kernels.providers import jit_available
from kernelite.backends.cpu.kernels.tangents import REACHES
from kernelite.backends.cpu.staging import stage_engine
from kernelite.backends.cpu.threads import limit_threads
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.pairs import columns_of_class
from kernelite.program.bounded import EXACT, EXACT_SINGLE
from kernelite.program.criteria import Within
from tests.backends.cpu.test_fused_sums import models, random_model
from tests.helpers import scores_and_bounds
from tests.oracle import error_ratios, true_scores
from tests.random_models import HOW_MANY, Case, cases

pytestmark = pytest.mark.skipif(not jit_available(), reason="no kernels here")

X, y = make_classification(
    2600, 16, n_informative=12, n_redundant=0, n_classes=5, n_clusters_per_class=1, random_state=0
)
X = (X - X.mean(axis=0)) / X.std(axis=0)
TRAIN, ROWS = X[:1500], X[1500:]


def made(model: KernelExpansion) -> SeveralTangents | None:
    return ExactEngine.prepare(model).several


def hold(model: KernelExpansion, rows: np.ndarray) -> np.ndarray:
    """Which rows have bounds, after they were seen to hold."""
    sums = made(model)
    if sums is None:
        return np.zeros(len(rows), np.bool_)
    scores, bounds = sums.run(rows)
    known = np.isfinite(bounds).all(axis=1)
    some = [row for row, found in zip(true_scores(model, rows), known) if found]
    assert np.max(error_ratios(some, scores[known], bounds[known]), initial=0.0) <= 1.0
    return known


def several(model: KernelExpansion, outputs: int, seed: int) -> KernelExpansion:
    """The same centers with so many outputs, some of which are zero somewhere, or everywhere."""
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.integers(-3, 4, size=(1, outputs))
    A = model.coefficients * rng.normal(size=(model.n_centers, outputs)) * sizes
    A[rng.random(A.shape) < 0.2] = 0.0
    A[:, 0] *= rng.integers(0, 2)
    return replace(model, coefficients=A, intercept=rng.normal(size=outputs))


def of_pairs(model: KernelExpansion, classes: int, seed: int) -> KernelExpansion:
    """The same centers as those of one-vs-one machines; a class may be left without any."""
    rng = np.random.default_rng(seed)
    A = np.zeros((model.n_centers, classes * (classes - 1) // 2))
    for i, c in enumerate(rng.integers(0, classes, size=len(A))):
        A[i, columns_of_class(classes, c)] = model.coefficients[i, 0] * rng.normal(size=classes - 1)
    return replace(model, coefficients=A, intercept=rng.normal(size=A.shape[1]))


@given(outputs=st.integers(2, 9), **models)
@example(outputs=3, seed=391, n=32, d=1, scale=10.0, gamma=5.0, sparse=True)
@settings(deadline=None, max_examples=150)
def test_no_score_is_further_off_than_its_bound(outputs: int, **given: object) -> None:
    model, rows = random_model(**given)
    near = given["gamma"] * given["scale"] ** 2 <= 1e-3
    for own in (
        several(model, outputs, given["seed"]),
        of_pairs(model, min(outputs + 1, 6), given["seed"]),
    ):
        known = hold(own, rows)
        assert known[:5].all() or not near or not own.coefficients.any()


@given(case=cases())
@settings(deadline=None, max_examples=HOW_MANY)
def test_hard_models_hold_their_bounds(case: Case) -> None:
    model = case.expansion
    hold(model if model.n_outputs > 1 else several(model, 4, 0), case.rows)
    hold(of_pairs(model, 4, 1), case.rows)


@pytest.mark.parametrize("factor", [1.0, 2.5, 5.0])
def test_rows_beyond_the_polynomial_have_bounds_too(factor: float) -> None:
    rng = np.random.default_rng(3)
    centers = rng.normal(size=(200, 6))
    centers[:20] *= factor
    model = KernelExpansion(centers, rng.normal(size=(200, 3)), np.zeros(3), gamma=0.1)
    rows = np.concatenate([rng.normal(size=(8, 6)), centers[:4], -centers[:4], 1.5 * centers[:4]])
    layout = ExactEngine.prepare(model).dense.layout
    reach = 2.0 * layout.gamma * np.abs((rows - layout.point) @ (centers - layout.point).T)
    assert reach.max() > REACHES[1]
    assert hold(model, rows)[reach.max(axis=1) <= 0.99 * REACHES[2]].all()


def test_what_bounds_say_of_the_function_is_so() -> None:
    """h / t^2 grows from 1 / SHALLOW at -3.5 on, and h + 1 + |t| <= BEYOND h beyond 3.5."""
    t = np.linspace(-REACHES[1], REACHES[2], 100_001)
    q = np.where(t == 0.0, 0.5, (np.expm1(t) - t) / np.where(t == 0.0, 1.0, t) ** 2)
    assert q.min() >= 1.0 / SHALLOW
    assert (np.diff(q[np.abs(t) > 1e-3]) > 0.0).all()
    far = np.concatenate([np.linspace(-REACHES[2], -REACHES[1], 9999), t[t >= REACHES[1]]])
    h = np.expm1(far) - far
    assert ((h + 1.0 + np.abs(far)) / h).max() <= BEYOND
    below = far[far < 0.0]
    assert (below**2 / (np.expm1(below) - below) <= below**2 / (-below - 1.0)).all()


@pytest.mark.parametrize("outputs", [2, 3, 5, 8, 13, 32])
@pytest.mark.parametrize("rows", [0, 1, 5, 24, 101])
def test_scores_are_those_of_doubles(outputs: int, rows: int) -> None:
    rng = np.random.default_rng(outputs)
    centers, A = rng.normal(size=(700, 9)), rng.normal(size=(700, outputs))
    model = KernelExpansion(centers, A, rng.normal(size=outputs), gamma=0.04)
    given = rng.normal(size=(rows, 9))
    scores, bounds = made(model).run(given)
    wanted, rounding = scores_and_bounds(ExactEngine.prepare(model).run(given))
    assert (np.abs(scores - wanted) <= bounds + rounding).all()
    assert (bounds <= 2e-5 * np.abs(A).sum(axis=0)).all()
    for i in range(min(rows, 8)):
        alone, bound = made(model).run(given[i : i + 1])
        assert (np.abs(alone - scores[i]) <= bound + bounds[i]).all()


def test_threads_give_the_same_scores() -> None:
    rng = np.random.default_rng(0)
    model = KernelExpansion(
        rng.normal(size=(900, 7)), rng.normal(size=(900, 4)), np.zeros(4), gamma=0.1
    )
    rows = rng.normal(size=(3001, 7))
    with limit_threads(1):
        one = made(model).run(rows)
    with limit_threads(2):
        two = made(model).run(rows)
    assert (np.abs(one[0] - two[0]) <= one[1] + two[1]).all()


def test_rows_that_are_not_finite_have_no_bound() -> None:
    rng = np.random.default_rng(0)
    model = KernelExpansion(
        rng.normal(size=(300, 4)), rng.normal(size=(300, 3)), np.ones(3), gamma=0.1
    )
    rows = rng.normal(size=(30, 4))
    rows[3, 1], rows[8, 0], rows[9, 3], rows[20] = np.nan, np.inf, -np.inf, 1e200
    scores, bounds = made(model).run(rows)
    lost = [3, 8, 9, 20]
    assert np.isinf(bounds[lost]).all()
    assert (scores[lost] == 1.0).all()
    assert np.isfinite(np.delete(bounds, lost, axis=0)).all()


REGRESSION = KernelRidge(kernel="rbf", gamma=0.03, alpha=0.1).fit(
    TRAIN, np.sin(TRAIN[:, :3]) + 0.1 * TRAIN[:, 3:6]
)
MODELS = {
    "one-vs-one": (SVC().fit(TRAIN, y[:1500]), "decision_function"),
    "pairs": (SVC(decision_function_shape="ovo").fit(TRAIN, y[:1500]), "decision_function"),
    "one-vs-rest": (OneVsRestClassifier(SVC()).fit(TRAIN, y[:1500]), "decision_function"),
    "ridge": (REGRESSION, "predict"),
    "coordinates": (
        KernelPCA(9, kernel="rbf", gamma=0.05, random_state=0).fit(TRAIN),
        "transform",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_values_are_served_and_agree_alone_and_in_a_block(name: str) -> None:
    model, method = MODELS[name]
    fast = kl.compile(model, TRAIN)
    found, wanted = getattr(fast, method)(ROWS), getattr(model, method)(ROWS)
    tolerance = fast.tolerance if fast.tolerance is not None else fast.score_tolerance
    assert (np.abs(found - wanted) <= tolerance).all()
    assert EXACT_SINGLE in fast._runner.cascade.names
    assert np.isfinite(fast._runner.exact.several.run(ROWS)[1]).mean() > 0.9
    if method == "decision_function":
        bound = fast.error_bound(ROWS)
        assert (np.abs(found - wanted) <= bound).all()
        assert (bound <= tolerance * (1.0 + 1e-9)).all()
        assert np.array_equal(found.argmax(axis=1), wanted.argmax(axis=1))
    alone = np.concatenate([getattr(fast, method)(row[None]) for row in ROWS[:40]])
    assert (np.abs(alone - found[:40]) <= 2.0 * tolerance).all()
    exact = kl.compile(model, TRAIN, guarantee="exact")
    np.testing.assert_allclose(getattr(exact, method)(ROWS), wanted, rtol=1e-6, atol=1e-8)


def test_labels_of_one_vs_rest_are_proven_by_it() -> None:
    model, _ = MODELS["one-vs-rest"]
    labels, counted = kl.compile(model, TRAIN).predict(ROWS, return_stats=True)
    assert np.array_equal(labels, model.predict(ROWS))
    assert counted.stages[EXACT_SINGLE] > 0.9 * len(ROWS)


def test_a_stage_that_would_be_in_vain_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    model = KernelExpansion(
        rng.normal(size=(400, 8)), rng.normal(size=(400, 3)), np.zeros(3), gamma=0.1
    )
    runner = stage_engine(ExactEngine.prepare(model))
    rows, calls = rng.normal(size=(40, 8)), []
    run = SeveralTangents.run
    monkeypatch.setattr(
        SeveralTangents, "run", lambda self, rows: calls.append(len(rows)) or run(self, rows)
    )
    for tolerance, stage in ((1e-2, EXACT_SINGLE), (1e-9, EXACT)):
        criterion = Within(np.full(3, tolerance))
        for some in (rows, rows[:1], rows):
            _, counted = runner.run(some, lambda scores: scores, criterion)
            assert counted.stages[stage] == len(some)
    assert sum(calls[-3:]) < len(rows) + 3 * panels.SHOWN_CENTERS
    assert calls.count(1) == 1
    assert calls[-1] == panels.SHOWN_CENTERS


def test_models_out_of_reach_are_left_to_doubles() -> None:
    rng = np.random.default_rng(0)
    centers, A = rng.normal(size=(300, 8)), rng.normal(size=(300, 3))
    assert made(KernelExpansion(centers, A, np.zeros(3), gamma=2.0)) is None
    assert made(KernelExpansion(centers, A[:, :1], np.zeros(1), gamma=0.01)) is None
    assert made(KernelExpansion(centers, 0.0 * A, np.zeros(3), gamma=0.01)) is None
    assert made(KernelExpansion(centers, 1e30 * A, np.zeros(3), gamma=0.01)) is None
