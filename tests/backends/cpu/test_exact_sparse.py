"""Sparse rows on the exact engine: its dense twin's answers, its own bounds, its memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.svm import SVC, SVR

import kernelite as kl
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.cpu.threads import limit_threads
from kernelite.machine.expansion import KernelExpansion
from kernelite.program.bounded import spelled_out
from kernelite.support.errors import InputError
from tests.helpers import scores_and_bounds
from tests.oracle import error_ratios, true_scores


def words(rng: np.random.Generator, n: int, d: int, per_row: int = 4) -> sparse.csr_array:
    """Rows with a few entries each."""
    columns = np.concatenate([np.sort(rng.choice(d, per_row, replace=False)) for _ in range(n)])
    starts = per_row * np.arange(n + 1)
    arrays = rng.normal(size=n * per_row), columns.astype(np.int32), starts.astype(np.int32)
    return sparse.csr_array(arrays, shape=(n, d))


def model_of(centers: sparse.csr_array, k: int = 1, gamma: float = 0.2) -> KernelExpansion:
    rng = np.random.default_rng(1)
    coefficients = rng.normal(size=(centers.shape[0], k))
    return KernelExpansion(centers, coefficients, rng.normal(size=k), gamma=gamma)


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 12),
    k=st.integers(1, 3),
    scale=st.sampled_from([1e-3, 1.0, 30.0]),
    gamma=st.sampled_from([1e-3, 0.2, 5.0]),
)
@settings(deadline=None, max_examples=60)
def test_no_score_is_further_off_than_its_bound(
    seed: int, n: int, k: int, scale: float, gamma: float
) -> None:
    rng = np.random.default_rng(seed)
    model = model_of(scale * words(rng, n, 500), k, gamma)
    engine = ExactEngine.prepare(model)
    near = sparse.csr_array(model.centers[[0]] * (1.0 + 1e-9))
    rows = sparse.vstack([scale * words(rng, 6, 500), near, sparse.csr_array((1, 500))]).tocsr()
    rows = sparse.csr_array(rows)
    scores, bounds = scores_and_bounds(engine.run(rows))
    assert engine.sparse is not None or gamma * scale**2 > 10
    assert error_ratios(true_scores(model, rows.toarray()), scores, bounds).max() <= 1.0
    np.testing.assert_allclose(engine.bound(rows), bounds, rtol=1e-12)
    twin = DenseExact.prepare(model)
    expected, squares = twin.scores(rows.toarray())
    rounding = spelled_out(twin.rounding.bounds(squares, 500))
    assert (np.abs(scores - expected) <= bounds + rounding).all()


def test_dense_rows_have_the_same_scores() -> None:
    rng = np.random.default_rng(0)
    engine = ExactEngine.prepare(model_of(words(rng, 50, 1000), 2))
    rows = words(rng, 20, 1000)
    assert engine.sparse is not None
    np.testing.assert_array_equal(engine.run(rows.toarray()).scores, engine.run(rows).scores)
    assert "dense" not in vars(engine)  # it was never laid out


def test_rows_without_zeros_go_by_dense_products_where_those_are_cheaper() -> None:
    """Features that one center alone has: rows like the centers meet few entries."""
    d = 400
    centers = sparse.block_diag([np.ones((1, 40))] * 10).tocsr()
    engine = ExactEngine.prepare(model_of(sparse.csr_array(centers), gamma=0.01))
    assert engine.sparse is not None
    rows = np.random.default_rng(0).normal(size=(5, d))
    scores, bounds = scores_and_bounds(engine.run(rows))
    assert "dense" in vars(engine)
    assert (np.abs(scores - engine.run(sparse.csr_array(rows)).scores) <= 2 * bounds + 1e-13).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_many_rows_on_several_threads(threads: int) -> None:
    rng = np.random.default_rng(2)
    model = model_of(words(rng, 300, 5000), 2)
    rows = words(rng, 2000, 5000)
    with limit_threads(threads):
        scores, bounds = scores_and_bounds(ExactEngine.prepare(model).run(rows))
    assert (np.abs(scores - model.scores(rows)) <= 3 * bounds).all()
    assert bounds.max() < 1e-10


def test_rows_far_away_get_the_intercept() -> None:
    model = model_of(words(np.random.default_rng(3), 5, 200))
    rows = sparse.csr_array(([1e200, -1e200, 90.0], [3, 5, 7], [0, 2, 3]), shape=(2, 200))
    scores, bounds = scores_and_bounds(ExactEngine.prepare(model).run(rows))
    np.testing.assert_array_equal(scores, np.broadcast_to(model.intercept, (2, 1)))
    assert (bounds < 1e-14).all()


def test_norms_that_would_cancel_are_left_to_differences() -> None:
    model = model_of(1e8 * words(np.random.default_rng(4), 5, 200))
    engine = ExactEngine.prepare(model)
    assert engine.sparse is None
    assert engine.dense.rounding.by_differences


def test_a_row_with_indices_out_of_order_is_refused() -> None:
    engine = ExactEngine.prepare(model_of(words(np.random.default_rng(5), 5, 200)))
    rows = sparse.csr_array(([1.0, 2.0], [7, 3], [0, 0, 2]), shape=(2, 200))
    with pytest.raises(InputError, match="row 1"):
        engine.run(rows)


def test_wide_centers_are_never_made_dense() -> None:
    """2,000 rows and centers of 200,000 features would be 3 GB each."""
    rng = np.random.default_rng(6)
    model, rows = model_of(words(rng, 2000, 200_000)), words(rng, 2000, 200_000)
    kl.compile(model, guarantee="exact").predict(rows[:1])  # loads what it needs
    tracemalloc.start()
    compiled = kl.compile(model, guarantee="exact")
    scores = compiled.predict(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(scores, model.scores(rows)[:, 0], atol=1e-12)
    assert peak < 64 * 2**20


@pytest.mark.parametrize("guarantee", ["exact", "certified"])
def test_models_fitted_on_text_like_data(guarantee: str) -> None:
    rng = np.random.default_rng(7)
    X, Z = words(rng, 300, 20_000, 30), words(rng, 200, 20_000, 30)
    y = rng.integers(0, 3, 300)
    svc = SVC(gamma=0.05).fit(X, y)
    compiled = kl.compile(svc, X, guarantee=guarantee)
    np.testing.assert_array_equal(compiled.predict(Z), svc.predict(Z))
    svr = SVR(gamma=0.05).fit(X, rng.normal(size=300))
    values, stats = kl.compile(svr, X, guarantee=guarantee).predict(Z, return_stats=True)
    np.testing.assert_allclose(values, svr.predict(Z), atol=1e-10)
    assert stats.exact == 200


def test_norms_that_overflow_are_no_news(recwarn: pytest.WarningsRecorder) -> None:
    centers = words(np.random.default_rng(4), 30, 3000) * 1e150
    engine = ExactEngine.prepare(model_of(centers, gamma=1e20))
    assert engine.sparse is None
    assert not [w for w in recwarn if w.category is RuntimeWarning]


def test_no_centers_and_no_features() -> None:
    model = KernelExpansion(sparse.csr_array((0, 0)), np.zeros((0, 2)), [0.5, -1.0], gamma=1.0)
    scores = ExactEngine.prepare(model).run(sparse.csr_array((3, 0))).scores
    np.testing.assert_array_equal(scores, [[0.5, -1.0]] * 3)
