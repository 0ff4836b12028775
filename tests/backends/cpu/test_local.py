"""Sums over near centers: within their own bounds, whatever is left out."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_moons
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.neighbors import KernelDensity
from sklearn.svm import SVC

import kernelite
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.fused_sums import PanelSums
from kernelite.backends.cpu.local import LEAF, LocalEngine, sort_into_leaves
from kernelite.backends.cpu.staging import stage_model
from kernelite.machine.expansion import KernelExpansion
from kernelite.program.criteria import predict_criterion
from kernelite.series.approximation import LocalSums
from kernelite.store.files import dumps, loads
from kernelite.support.errors import InputError
from tests.helpers import scores_and_bounds


def clustered(rng, n, d):
    """Centers in clusters of very different widths."""
    widths = 10.0 ** rng.uniform(-3, 1, 5)
    which = rng.integers(0, 5, n)
    return rng.normal(size=(5, d))[which] * 5 + rng.normal(size=(n, d)) * widths[which, None]


@pytest.mark.parametrize("n", [1, 31, 32, 33, 1024, 1025, 3000])
@pytest.mark.parametrize("d", [1, 3])
def test_leaves_hold_every_center_once_inside_their_boxes(n, d):
    rng = np.random.default_rng(n)
    X, A = clustered(rng, n, d), rng.normal(size=(n, 2))
    leaves = sort_into_leaves(X, A, 4)
    assert leaves.centers.shape[0] == LEAF * leaves.low.shape[0]
    flat = leaves.centers.transpose(0, 2, 1).reshape(-1, 4)[:n, :d]
    weights = leaves.coefficients.transpose(0, 2, 1).reshape(-1, 2)
    assert not weights[n:].any()
    both = [np.column_stack([X, A]), np.column_stack([flat, weights[:n]])]
    both = [table[np.lexsort(table.T)] for table in both]
    np.testing.assert_array_equal(*both)
    for leaf in range(-(-n // LEAF)):
        g, lane = divmod(leaf, LEAF)
        inside = flat[leaf * LEAF : (leaf + 1) * LEAF]
        np.testing.assert_array_equal(leaves.low[g, :d, lane], inside.min(axis=0))
        np.testing.assert_array_equal(leaves.high[g, :d, lane], inside.max(axis=0))
        assert (leaves.group_low[:d, g] <= inside.min(axis=0)).all()
        assert (leaves.group_high[:d, g] >= inside.max(axis=0)).all()
    np.testing.assert_allclose(leaves.group_weight.sum(axis=1), np.abs(A).sum(axis=0))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 8),
    k=st.integers(1, 3),
    gamma=st.sampled_from([1e-3, 0.3, 30.0, 3e4]),
    budget=st.sampled_from([0.0, 1e-9, 1e-3, 10.0]),
    start=st.sampled_from([0.0, 3.0, 50.0]),
    mapped=st.booleans(),
)
def test_bounds_hold_and_budgets_are_kept(seed, d, k, gamma, budget, start, mapped):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 2500))
    expansion = KernelExpansion(
        clustered(rng, n, d), rng.normal(size=(n, k)), rng.normal(size=k), gamma=gamma
    )
    rows = np.concatenate([clustered(rng, 20, d), 1e3 * rng.normal(size=(3, d)), np.zeros((1, d))])
    absolute = np.full(k, budget)
    engine = LocalEngine.prepare(expansion, LocalSums(absolute, start=start), mapped=mapped)
    scores, bounds = scores_and_bounds(engine.run(rows))
    exact, rounding = scores_and_bounds(ExactEngine.prepare(expansion, mapped=mapped).run(rows))
    assert (np.abs(scores - exact) <= bounds + rounding).all()
    slack = 1e-11 * (1.0 + np.abs(expansion.coefficients).sum(axis=0)) + engine.absolute
    assert (bounds <= budget * (1 + 1e-8) + slack).all()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), relative=st.sampled_from([1e-6, 1e-3, 0.2]))
def test_relative_budgets_are_kept(seed, relative):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 2500)), int(rng.integers(1, 4))
    X = clustered(rng, n, d)
    expansion = KernelExpansion(X, rng.random(n), [0.0], gamma=20.0)
    engine = LocalEngine.prepare(expansion, LocalSums(np.zeros(1), relative))
    rows = X[rng.integers(0, n, 30)] + 0.3 * rng.normal(size=(30, d))
    scores, bounds = scores_and_bounds(engine.run(rows))
    squares = ((rows[:, None, :] - X[None]) ** 2).sum(axis=-1)
    exact = np.exp(-20.0 * squares) @ expansion.coefficients
    assert (np.abs(scores - exact) <= bounds + 1e-12 * exact).all()
    assert (bounds <= relative * scores * (1 + 1e-8) + 1e-11 * scores + 1e-280).all()


def test_rows_beyond_all_numbers():
    expansion = KernelExpansion(np.zeros((600, 2)), np.ones(600), [0.5], gamma=1.0)
    engine = LocalEngine.prepare(expansion, LocalSums(np.zeros(1)))
    rows = np.array([[1e200, 0.0], [1e308, -1e308], [0.0, 0.0]])
    scores, bounds = scores_and_bounds(engine.run(rows))
    np.testing.assert_allclose(scores[:, 0], [0.5, 0.5, 600.5], rtol=1e-12)
    assert np.isfinite(bounds).all()


def test_few_rows_answer_as_many_do():
    rng = np.random.default_rng(0)
    expansion = KernelExpansion(rng.normal(size=(900, 2)), rng.normal(size=900), [0.0], gamma=9.0)
    engine = LocalEngine.prepare(expansion, LocalSums(np.array([1e-3])))
    rows = rng.normal(size=(300, 2))
    whole = engine.run(rows).scores
    alone = np.concatenate([engine.run(row[None]).scores for row in rows])
    np.testing.assert_array_equal(alone, whole)
    assert engine.run(rows[:0]).scores.shape == (0, 1)
    assert engine.visits(rows[:0]).leaves == 0.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: LocalSums(np.array([-1.0])),
        lambda: LocalSums(np.array([[1.0]])),
        lambda: LocalSums(np.array([1.0]), 1.5),
        lambda: LocalSums(np.array([1.0, 1.0]), 0.5),
        lambda: LocalSums(np.array([1.0]), 0.0, -1.0),
    ],
)
def test_settings_are_checked(make):
    with pytest.raises(InputError):
        make()


def bumpy(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, 2))
    return X, np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1]), rng.uniform(-1, 1, size=(2000, 2))


def test_a_narrow_process_is_planned_locally_and_keeps_its_tolerance():
    X, y, Z = bumpy(1500)
    model = GaussianProcessRegressor(RBF(0.01), alpha=1e-2, optimizer=None).fit(X, y)
    compiled = kernelite.compile(model, Z)
    assert compiled.local is not None
    assert compiled.plan.chosen.name == "sums over near centers"
    values, stats = compiled.predict(Z, return_stats=True)
    gap = np.abs(values - model.predict(Z)).max()
    assert gap <= compiled.tolerance[0]
    assert stats.stages["near centers"] == len(Z)
    assert (compiled.error_bound(Z) <= compiled.tolerance[0]).all()
    assert gap <= compiled.error_bound(Z).max()
    np.testing.assert_array_equal(loads(dumps(compiled)).predict(Z), values)
    measured = kernelite.compile(model, Z, plan="measure")
    np.testing.assert_allclose(measured.predict(Z), values, atol=2 * compiled.tolerance[0])


def test_boxes_and_the_exact_engine_are_not_held_at_the_same_time(monkeypatch):
    """Of a million centers in 3 features each takes more than these do."""
    beside, own = [], LocalEngine.prepare

    def prepare(*given, **how):
        gc.collect()
        beside.extend(one for one in gc.get_objects() if type(one) is PanelSums)
        return own(*given, **how)

    rows = np.random.default_rng(0).normal(size=(3000, 3))
    density = KernelDensity(bandwidth=0.02, rtol=1e-2).fit(rows)
    before = kernelite.compile(density, rows)
    gc.collect()
    alive = [one for one in gc.get_objects() if type(one) is PanelSums]
    monkeypatch.setattr(LocalEngine, "prepare", prepare)
    after = kernelite.compile(density, rows)
    assert all(any(one is other for other in alive) for one in beside)
    assert before.plan.chosen.name == after.plan.chosen.name == "sums over near centers"


def test_labels_are_proven_locally():
    X, y = make_moons(4000, noise=0.35, random_state=0)
    model = SVC(gamma=200.0, C=5.0).fit(X[:2500], y[:2500])
    exact = kernelite.compile(model, X, guarantee="exact")
    near = LocalSums(np.array([0.1 * exact.scores(X).std()]))
    compiled = replace(exact, guarantee="certified", local=near)
    labels, stats = compiled.predict(X, return_stats=True)
    np.testing.assert_array_equal(labels, model.predict(X))
    assert stats.stages["near centers"] > 0.8 * len(X)
    assert stats.stages["near centers"] + stats.exact == len(X)


def test_without_numba_the_exact_engine_answers(monkeypatch):
    X, y, Z = bumpy(2500)
    model = GaussianProcessRegressor(RBF(0.01), alpha=1e-2, optimizer=None).fit(X, y)
    stored = dumps(kernelite.compile(model, Z))
    monkeypatch.setattr("kernelite.backends.cpu.local.jit_available", lambda: False)
    assert kernelite.compile(model, Z).local is None
    again = loads(stored)
    assert again.local is not None
    within = float(again.tolerance[0])
    assert np.abs(again.predict(Z) - model.predict(Z)).max() <= within


@pytest.mark.parametrize("classes", [2, 3])
def test_undecidable_rows_get_the_same_label_alone_and_among_others(classes):
    """Rows on a plane of symmetry between two classes: rounding is their label."""
    rng = np.random.default_rng(0)
    X, a = rng.normal(size=(1500, 3)), rng.exponential(size=1500)
    far, nothing = rng.normal([0.0, 9.0, 0.0], size=(50, 3)), np.zeros(50)
    centers = np.concatenate([X, X * [-1, 1, 1], far])
    A = np.concatenate([a, -a, nothing])[:, None]
    if classes == 3:
        A = np.column_stack([A, np.r_[a, 0 * a, nothing - 1], np.r_[0 * a, a, nothing - 1]])
    model = KernelExpansion(centers, A, np.zeros(A.shape[1]), gamma=0.3)
    runner = stage_model(None, model, local=LocalSums(np.full(A.shape[1], 1e-6), start=3.0))
    head = kernelite.ClassifierHead(np.arange(classes))
    criterion, rows = predict_criterion(head, None), rng.normal(size=(200, 3)) * [0, 1, 1]
    together, stats = runner.run(rows, head.predict, criterion)
    assert stats.undecidable == 200
    alone = [runner.run(row[None], head.predict, criterion)[0][0] for row in rows]
    np.testing.assert_array_equal(together, alone)
