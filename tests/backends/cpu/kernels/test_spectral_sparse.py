"""The truncated form of sparse rows against dense ones, and the bound on what folding costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from kernelite.backends.cpu.kernels import spectral_dense, spectral_sparse
from kernelite.backends.cpu.kernels.bounds import prepare_certificate
from kernelite.backends.cpu.threads import limit_threads
from kernelite.machine.expansion import KernelExpansion
from kernelite.series.approximation import Certificate, certify
from kernelite.series.rounding import folded_hidden_square, folded_square
from kernelite.series.series import quadratic_form
from kernelite.series.spectral import SpectralForm, spectrum, truncate
from kernelite.support.errors import InputError
from tests.helpers import random_expansion


def folded(form: SpectralForm) -> spectral_sparse.JitSparseSpectralForm:
    return spectral_sparse.prepare(spectral_dense.prepare(form))


def sparse_rows(rng: np.random.Generator, m: int, d: int, share: float) -> np.ndarray:
    return rng.normal(size=(m, d)) * (rng.random((m, d)) < share)


def cut(expansion: KernelExpansion, point: np.ndarray, rank: int) -> SpectralForm:
    return truncate(spectrum(quadratic_form(expansion, point)), rank)


def careful_scores(form: SpectralForm, rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """f^, |u|^2 and |y|^2 in extended precision."""
    wide = np.longdouble
    U = rows.astype(wide) - form.point.astype(wide)
    Y = U @ form.basis.astype(wide)
    sq_norms, kept = (U * U).sum(axis=1), (Y * Y).sum(axis=1)
    g = U @ form.linear.astype(wide) + form.constant
    for j, core in enumerate(form.cores.astype(wide)):
        g[:, j] += ((Y @ core) * Y).sum(axis=1) + form.mid[j] * sq_norms
    return g * np.exp(-wide(form.gamma) * sq_norms)[:, None] + form.intercept, sq_norms, kept


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 60),
    k=st.integers(1, 4),
    m=st.integers(0, 150),
    rank=st.integers(1, 40),
    share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_equal_to_dense_rows(seed: int, d: int, k: int, m: int, rank: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    expansion = random_expansion(rng, d=d, k=k, gamma=0.3 / d)
    form = cut(expansion, rng.normal(size=d), min(rank, d))
    rows = sparse_rows(rng, m, d, share)
    got = spectral_sparse.scores(folded(form), csr_array(rows))
    scores, sq_norms, kept = form.evaluate(rows)
    size = 1.0 + np.abs(expansion.coefficients).sum() * (1.0 + (rows**2).sum() + d) ** 2
    np.testing.assert_allclose(got.scores, scores, rtol=0, atol=1e-14 * size)
    np.testing.assert_allclose(got.sq_norms, sq_norms, rtol=0, atol=1e-13 * size)
    np.testing.assert_allclose(got.kept, kept, rtol=0, atol=1e-12 * size)
    assert got.bounds is None


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 30),
    rank=st.integers(1, 30),
    offset=st.sampled_from([0.0, 1.0, 30.0, 300.0, 3000.0]),
    gamma=st.sampled_from([1e-3, 0.1, 2.0]),
)
def test_rounding_stays_inside_the_bound(
    seed: int, d: int, rank: int, offset: float, gamma: float
) -> None:
    rng = np.random.default_rng(seed)
    place = offset * rng.normal(size=d)
    expansion = random_expansion(rng, d=d, k=2, gamma=gamma)
    expansion = type(expansion)(
        expansion.centers + place, expansion.coefficients, expansion.intercept, gamma=gamma
    )
    form = cut(expansion, place, min(rank, d))
    rows = place + rng.normal(size=(60, d)) / np.sqrt(d * gamma)
    rows[0] = place
    # Nothing but rounding is left: no remainder, and as if nothing had been cut off.
    zero = np.zeros(2)
    form = SpectralForm(**{**vars(form), "spread": zero, "cross": zero, "leftover": zero})
    certificate = Certificate(np.zeros((2, 2)), certify(expansion, place).rounding)
    prepared = folded(form)
    got = spectral_sparse.scores(prepared, csr_array(rows), prepare_certificate(certificate))
    real, real_norms, real_kept = careful_scores(form, rows)
    reach = (np.sqrt((rows**2).sum(axis=1)) + np.sqrt(place @ place)) ** 2 * (1 + 1e-7)
    assert got.bounds is not None
    assert (np.abs(got.scores - real) <= got.bounds).all()
    assert (np.abs(got.sq_norms - real_norms) <= folded_square(d) * reach).all()
    assert (
        np.abs((got.sq_norms - got.kept) - (real_norms - real_kept))
        <= folded_hidden_square(d, form.rank) * reach
    ).all()


@pytest.mark.parametrize("rank", [3, 11, 12])
def test_bounds_hold_against_the_exact_model(rank: int) -> None:
    rng = np.random.default_rng(rank)
    expansion = random_expansion(rng, d=12, k=3, gamma=0.05)
    point = rng.normal(size=12)
    rows = sparse_rows(rng, 400, 12, 0.4)
    packed = prepare_certificate(certify(expansion, point))
    prepared = folded(cut(expansion, point, rank))
    got = spectral_sparse.scores(prepared, csr_array(rows), packed)
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
    form = cut(expansion, place, 3)
    rows = place + rng.normal(size=(2000, 6))
    rows[7] = 0.0  # far away, and known to be
    packed = prepare_certificate(certify(expansion, place))
    got = spectral_sparse.scores(folded(form), csr_array(rows), packed)
    np.testing.assert_allclose(got.scores, form.evaluate(rows)[0], atol=1e-12)
    assert got.scores[7] == form.intercept
    assert (np.abs(got.scores - expansion.scores(rows)) <= got.bounds).all()


def test_wide_indices_and_threads() -> None:
    rng = np.random.default_rng(7)
    form = cut(random_expansion(rng, d=20, k=2), rng.normal(size=20), 9)
    rows = csr_array(sparse_rows(rng, 20_000, 20, 0.3))
    prepared = folded(form)
    with limit_threads(1):
        alone = spectral_sparse.scores(prepared, rows)
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    with limit_threads(3):
        together = spectral_sparse.scores(prepared, rows)
    np.testing.assert_array_equal(alone.scores, together.scores)
    np.testing.assert_array_equal(alone.kept, together.kept)


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        ([0, 1, 2], [0, 3]),
        ([0, 1, 2], [0, -1]),
        ([0, 0, 2], [1, 1]),
        ([0, 0, 9], [0, 1]),
        ([0, 3, 2], [0, 1]),
    ],
    ids=["beyond", "negative", "repeated", "too many", "backwards"],
)
def test_malformed_matrices_are_refused(indptr: list[int], indices: list[int]) -> None:
    form = cut(random_expansion(np.random.default_rng(8), d=3), np.zeros(3), 2)
    rows = csr_array((2, 3))
    rows.indptr, rows.indices = np.array(indptr, dtype=np.int32), np.array(indices, dtype=np.int32)
    rows.data = np.ones(2)
    with pytest.raises(InputError, match=r"not a canonical CSR matrix"):
        spectral_sparse.scores(folded(form), rows)
