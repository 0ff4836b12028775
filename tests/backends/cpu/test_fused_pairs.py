"""One-vs-one in panels: winners that are surely the exact model's, sums of few coefficients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, make_blobs, make_classification
from sklearn.svm import SVC, NuSVC

import kernelite as kl
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.cpu.fused_pairs import FusedPairs
from kernelite.backends.cpu.fused_sums import FusedValues
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads.pairwise import count_votes
from kernelite.machine.pairs import classes_of_centers, columns_of_class
from tests.helpers import scores_and_bounds
from tests.oracle import true_scores


def one_vs_one(seed: int, K: int, n: int, d: int, gamma: float) -> tuple[KernelExpansion, list]:
    """A random model, and the classes of its centers."""
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, K, size=n)
    A = np.zeros((n, K * (K - 1) // 2))
    for i, c in enumerate(owner):
        columns = columns_of_class(K, c)
        signs = np.where(np.delete(np.arange(K), c) > c, 1.0, -1.0)
        A[i, columns] = signs * rng.exponential(size=K - 1) * (rng.random(K - 1) < 0.8)
    centers = rng.normal(size=(n, d)) + 0.8 * rng.normal(size=(K, d))[owner]
    b = 0.1 * rng.normal(size=A.shape[1])
    return KernelExpansion(centers, A, b, gamma=gamma), list(owner)


@given(
    seed=st.integers(0, 10_000),
    K=st.sampled_from([3, 4, 5, 6, 12, 18]),  # all pairs at once, or a walk from class to class
    n=st.integers(1, 60),
    d=st.integers(1, 12),
    gamma=st.sampled_from([1e-4, 0.05, 0.5, 4.0]),
)
@settings(deadline=None, max_examples=100)
def test_a_winner_wins_all_of_its_pairs_or_most_votes(
    seed: int, K: int, n: int, d: int, gamma: float
) -> None:
    model, _ = one_vs_one(seed, K, n, d, gamma)
    engine = ExactEngine.prepare(model)
    pairs = FusedPairs.prepare(engine.dense.rounding, engine.dense.layout)
    if pairs is None:  # no coefficient at all
        assert not model.coefficients.any()
        return
    rng = np.random.default_rng(seed + 1)
    wild = rng.normal(size=(2, d)) * 10.0 ** rng.integers(-200, 200, size=(2, 1))
    rows = np.concatenate([rng.normal(size=(6, d)), model.centers[:3], wild])
    ties_to_first = bool(seed % 2)
    winners, leads = pairs.winners(rows, ties_to_first=ties_to_first)
    scores = np.array([[float(v.mid()) for v in row] for row in true_scores(model, rows)])
    for row, c, lead in zip(scores, winners, leads):
        if c >= 0 and lead > 0:
            signs = np.where(np.delete(np.arange(K), c) > c, 1.0, -1.0)
            assert (signs * row[columns_of_class(K, int(c))] >= lead * (1 - 1e-12)).all()
        elif c >= 0:
            votes = count_votes(row[None] > 0, K)[0]
            assert votes.argmax() == c
            assert ties_to_first or (votes == votes[c]).sum() == 1


@pytest.mark.parametrize("sparse", [False, True])
def test_labels_are_the_sources(sparse: bool) -> None:
    X, y = load_digits(return_X_y=True)
    X = X * (X > 11) if sparse else (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9)
    model = SVC(C=10.0).fit(X[:1200], y[:1200])
    fast = kl.compile(model, guarantee="exact")
    pairs = fast._runner.exact.pairs
    assert pairs is not None
    rows = X[1200:]
    assert pairs.panels.layout.few_entries(rows) == sparse
    labels, stats = fast.predict(rows, return_stats=True)
    np.testing.assert_array_equal(labels, model.predict(rows))
    assert stats.rows == stats.exact == len(rows)
    assert (pairs.winners(rows)[0] >= 0).mean() > 0.9
    np.testing.assert_array_equal(
        [fast.predict(rows[i : i + 1])[0] for i in range(40)], labels[:40]
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: SVC(gamma=0.3, break_ties=True, decision_function_shape="ovr"),
        lambda: NuSVC(nu=0.2, gamma=0.3),
        lambda: SVC(gamma=50.0, C=0.1),  # many ties: kernel values vanish between centers
    ],
)
def test_other_rules_and_ties(make) -> None:
    X, y = make_blobs(900, centers=5, cluster_std=2.5, random_state=0)
    model = make().fit(X[:600], np.array(list("abcde"))[y[:600]])
    fast = kl.compile(model, guarantee="exact")
    rows = np.concatenate([X[600:], 1e3 * X[:50]])
    np.testing.assert_array_equal(fast.predict(rows), model.predict(rows))


def test_decision_values_come_from_few_coefficients() -> None:
    X, y = make_classification(
        900, 8, n_informative=6, n_redundant=0, n_classes=7, n_clusters_per_class=1, random_state=0
    )
    model = SVC(decision_function_shape="ovo").fit(X[:700], y[:700])
    fast = kl.compile(model, guarantee="exact")
    fused = fast._runner.exact.dense.fused
    assert isinstance(fused, FusedValues)
    assert np.count_nonzero(fused.weights) == np.count_nonzero(model.dual_coef_)
    assert fused.weights.shape == (len(model.support_), 8)  # of 7 classes, a center has 6
    np.testing.assert_allclose(
        fast.decision_function(X), model.decision_function(X), rtol=1e-9, atol=1e-11
    )


@pytest.mark.parametrize("size", [1e-17, 1e-6, 1.0, 1e6, 1e17])
@pytest.mark.parametrize("intercept", [0.0, 1e-30])
def test_values_cut_off_prove_nothing(size: float, intercept: float) -> None:
    """Far rows: the nearest class wins by a value that single precision cannot hold."""
    rng = np.random.default_rng(0)
    owner = np.arange(900) % 3
    centers = 0.1 * rng.normal(size=(900, 2)) + np.where(owner == 1, 3.0, 0.0)[:, None] * [1, 0]
    A = np.zeros((900, 3))
    for c, weight in ((0, 10.0), (1, 1.0), (2, 1.0)):
        signs = np.where(np.delete(np.arange(3), c) > c, 1.0, -1.0)
        A[np.ix_(owner == c, columns_of_class(3, c))] = size * weight * signs
    model = KernelExpansion(centers, A, np.full(3, intercept * size), gamma=1.0)
    engine = ExactEngine.prepare(model)
    rows = np.array([[r, 0.0] for r in np.linspace(4.0, 30.0, 27)])
    winners, leads = engine.pairs.winners(rows)
    for row, c, lead in zip(true_scores(model, rows), winners, leads):
        signs = np.where(np.delete(np.arange(3), c) > c, 1.0, -1.0)
        if c >= 0:
            assert all(s * row[j] > lead for s, j in zip(signs, columns_of_class(3, int(c))))
    assert (winners[:3] == 1).all()


@pytest.mark.parametrize("filled", [0.1, 1.0])
def test_no_rows_have_no_labels(filled: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20)) * (rng.random((300, 20)) < filled)
    fast = kl.compile(SVC().fit(X, rng.integers(0, 4, 300)), guarantee="exact")
    assert fast.predict(np.empty((0, 20))).shape == (0,)
    winners, leads = fast._runner.exact.pairs.winners(np.empty((0, 20)))
    assert winners.shape == leads.shape == (0,)


def test_classes_are_read_off_the_zeros() -> None:
    model, owner = one_vs_one(3, 4, 50, 2, 1.0)
    found = classes_of_centers(model.coefficients)
    for i, (c, mine) in enumerate(zip(found, owner)):
        used = np.flatnonzero(model.coefficients[i])
        assert set(used) <= set(columns_of_class(4, int(c)))
        assert c == mine or len(used) < 2  # one pair may be either class's
    assert classes_of_centers(np.ones((3, 2))) is None  # no number of classes has two pairs
    assert classes_of_centers(np.ones((3, 6))) is None


def test_a_last_class_without_centers_has_its_columns() -> None:
    A = np.array([[1.0, 0.5, 0.0], [-0.7, 0.0, 2.0]])  # centers of classes 0 and 1 of three
    model = KernelExpansion([[0.0], [1.0]], A, np.zeros(3), gamma=0.5)
    rows = np.linspace(-1, 2, 7)[:, None]
    np.testing.assert_allclose(
        ExactEngine.prepare(model).run(rows).scores, model.scores(rows), 1e-12
    )


def test_outputs_that_are_no_pairs_are_summed_as_they_are() -> None:
    rng = np.random.default_rng(0)
    model = KernelExpansion(
        rng.normal(size=(1100, 5)), rng.normal(size=(1100, 3)), np.ones(3), gamma=0.2
    )
    engine = ExactEngine.prepare(model)
    assert engine.pairs is None
    rows = rng.normal(size=(500, 5))
    scores, bounds = scores_and_bounds(engine.run(rows))
    assert (np.abs(scores - model.scores(rows)) <= 2 * bounds).all()


def test_a_file_holds_the_coefficients_of_own_pairs_only(tmp_path) -> None:
    X, y = make_classification(
        900, 8, n_informative=6, n_redundant=0, n_classes=12, n_clusters_per_class=1, random_state=0
    )
    model = SVC().fit(X, y)
    fast = kl.compile(model, X, guarantee="exact")
    fast.save(tmp_path / "m.kernelite")
    n, d = model.support_vectors_.shape
    assert (tmp_path / "m.kernelite").stat().st_size < 1.2 * 8 * n * (d + 11)
    again = kl.load(tmp_path / "m.kernelite")
    np.testing.assert_array_equal(again.expansion.coefficients, fast.expansion.coefficients)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_exponents_that_single_precision_cannot_hold_are_not_laid_out() -> None:
    A = np.array([[1.0, 0.5, 0.0], [-0.7, 0.0, 2.0], [0.0, -1.0, -1.0]])
    for size, gamma, laid_out in ((1e-8, 1e20, True), (1e-12, 1e28, False)):
        centers = size * np.random.default_rng(0).normal(size=(3, 2))
        exact = DenseExact.prepare(KernelExpansion(centers, A, np.zeros(3), gamma=gamma))
        assert (FusedPairs.prepare(exact.rounding, exact.layout) is not None) == laid_out
