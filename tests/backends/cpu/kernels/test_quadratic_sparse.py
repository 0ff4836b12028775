"""Sparse rows against dense ones, and the bound on what folding the shift costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from kernelite.backends.cpu.kernels import quadratic_dense, quadratic_sparse
from kernelite.backends.cpu.kernels.bounds import prepare_certificate
from kernelite.backends.cpu.threads import limit_threads
from kernelite.series.approximation import Certificate, certify
from kernelite.series.rounding import folded_square
from kernelite.series.series import QuadraticForm, quadratic_form
from kernelite.support.errors import InputError
from tests.helpers import random_expansion


def folded(form: QuadraticForm) -> quadratic_sparse.JitSparseForm:
    return quadratic_sparse.prepare(quadratic_dense.prepare(form))


def sparse_rows(rng: np.random.Generator, m: int, d: int, share: float) -> np.ndarray:
    return rng.normal(size=(m, d)) * (rng.random((m, d)) < share)


def careful_scores(form: QuadraticForm, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f^ and |u|^2 in extended precision."""
    wide = np.longdouble
    U = rows.astype(wide) - form.point.astype(wide)
    sq_norms = (U * U).sum(axis=1)
    g = U @ form.linear.astype(wide) + form.constant
    for j, M in enumerate(form.quadratic.astype(wide)):
        g[:, j] += ((U @ M) * U).sum(axis=1)
    if form.damped:
        g *= np.exp(-wide(form.gamma) * sq_norms)[:, None]
    return g + form.intercept, sq_norms


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 40),
    k=st.integers(1, 4),
    m=st.integers(0, 150),
    share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    kernel=st.sampled_from(["rbf", "poly2"]),
)
def test_equal_to_dense_rows(seed: int, d: int, k: int, m: int, share: float, kernel: str) -> None:
    rng = np.random.default_rng(seed)
    expansion = random_expansion(rng, d=d, k=k, gamma=0.3 / d, kernel=kernel)
    form = quadratic_form(expansion, np.zeros(d) if kernel == "poly2" else rng.normal(size=d))
    rows = sparse_rows(rng, m, d, share)
    got, reach = quadratic_sparse.scores_and_reach(folded(form), csr_array(rows))
    expected, sq_norms, _ = form.evaluate(rows)
    size = 1.0 + np.abs(expansion.coefficients).sum() * (1.0 + reach.max(initial=0.0)) ** 2
    np.testing.assert_allclose(got.scores, expected, rtol=0, atol=1e-14 * size)
    np.testing.assert_allclose(got.sq_norms, sq_norms, rtol=0, atol=1e-13 * size)
    assert got.bounds is None


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 30),
    offset=st.sampled_from([0.0, 1.0, 30.0, 300.0, 3000.0]),
    gamma=st.sampled_from([1e-3, 0.1, 2.0]),
)
def test_rounding_stays_inside_the_bound(seed: int, d: int, offset: float, gamma: float) -> None:
    rng = np.random.default_rng(seed)
    place = offset * rng.normal(size=d)
    expansion = random_expansion(rng, d=d, k=2, gamma=gamma)
    expansion = type(expansion)(
        expansion.centers + place, expansion.coefficients, expansion.intercept, gamma=gamma
    )
    form = quadratic_form(expansion, place)
    rounding = certify(expansion, place).rounding
    rows = place + rng.normal(size=(60, d)) / np.sqrt(d * gamma)
    rows[0] = place
    certificate = Certificate(np.zeros((2, 2)), rounding)
    got, reach = quadratic_sparse.scores_and_reach(
        folded(form),
        csr_array(rows),
        prepare_certificate(certificate),
    )
    real, real_norms = careful_scores(form, rows)
    assert got.bounds is not None
    assert (np.abs(got.scores - real) <= got.bounds).all()
    assert (np.abs(got.sq_norms - real_norms) <= folded_square(d) * reach).all()


def test_bounds_hold_against_the_exact_model() -> None:
    rng = np.random.default_rng(4)
    expansion = random_expansion(rng, d=12, k=3, gamma=0.05)
    point = rng.normal(size=12)
    rows = sparse_rows(rng, 400, 12, 0.4)
    packed = prepare_certificate(certify(expansion, point))
    got = quadratic_sparse.scores(
        folded(quadratic_form(expansion, point)),
        csr_array(rows),
        packed,
    )
    assert got.bounds is not None
    error = np.abs(got.scores - expansion.scores(rows))
    assert (error <= got.bounds).all()
    assert (error > 0.01 * got.bounds).any()


def test_rows_that_would_cancel_are_shifted_first() -> None:
    rng = np.random.default_rng(5)
    place = np.full(6, 1e7)
    expansion = random_expansion(rng, d=6, gamma=0.5)
    expansion = type(expansion)(
        expansion.centers + place, expansion.coefficients, expansion.intercept, gamma=0.5
    )
    form = quadratic_form(expansion, place)
    rows = place + rng.normal(size=(2000, 6))
    rows[7] = 0.0  # far away, and known to be
    got, reach = quadratic_sparse.scores_and_reach(folded(form), csr_array(rows))
    np.testing.assert_allclose(got.scores, form.evaluate(rows)[0], atol=1e-12)
    near = np.arange(2000) != 7
    np.testing.assert_array_equal(reach[near], got.sq_norms[near])
    assert got.scores[7] == form.intercept


def test_huge_rows_get_the_intercept() -> None:
    form = quadratic_form(random_expansion(np.random.default_rng(6), d=3), np.ones(3))
    rows = csr_array([[1e200, 0.0, -1e200], [0.0, 1.7e308, 0.0], [0.0, 0.0, 1e6]])
    got = quadratic_sparse.scores(folded(form), rows)
    np.testing.assert_array_equal(got.scores[:, 0], np.repeat(form.intercept, 3))


def test_wide_indices_and_threads() -> None:
    rng = np.random.default_rng(7)
    form = quadratic_form(random_expansion(rng, d=20, k=2), rng.normal(size=20))
    rows = csr_array(sparse_rows(rng, 20_000, 20, 0.3))
    prepared = folded(form)
    with limit_threads(1):
        alone, alone_reach = quadratic_sparse.scores_and_reach(prepared, rows)
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    with limit_threads(3):
        together, together_reach = quadratic_sparse.scores_and_reach(prepared, rows)
    np.testing.assert_array_equal(alone.scores, together.scores)
    np.testing.assert_array_equal(alone_reach, together_reach)


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        ([0, 1, 2], [0, 3]),
        ([0, 1, 2], [0, -1]),
        ([0, 0, 2], [1, 1]),
        ([0, 0, 2], [2, 1]),
        ([0, 0, 9], [0, 1]),
        ([0, 3, 2], [0, 1]),
    ],
    ids=["beyond", "negative", "repeated", "unsorted", "too many", "backwards"],
)
def test_malformed_matrices_are_refused(indptr: list[int], indices: list[int]) -> None:
    form = quadratic_form(random_expansion(np.random.default_rng(8), d=3), np.zeros(3))
    rows = csr_array((2, 3))
    rows.indptr, rows.indices = np.array(indptr, dtype=np.int32), np.array(indices, dtype=np.int32)
    rows.data = np.ones(2)
    with pytest.raises(InputError, match=r"not a canonical CSR matrix"):
        quadratic_sparse.scores(folded(form), rows)
