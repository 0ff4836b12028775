"""The fused third order against its twin on BLAS, bounds included, and against the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelite.backends.cpu.approximation import ApproximationEngine
from kernelite.backends.cpu.kernels import third_dense
from kernelite.backends.cpu.kernels.cubic import prepare_cubic
from kernelite.backends.cpu.threads import limit_threads
from kernelite.machine.expansion import KernelExpansion
from kernelite.program.bounded import OPEN
from kernelite.series.approximation import Approximation, certify
from kernelite.series.cubic import cubic_form, cubic_tensor
from kernelite.series.series import quadratic_form
from kernelite.support.errors import InputError
from tests.helpers import random_expansion, scores_and_bounds
from tests.oracle import error_ratios, true_scores


def make_cell(expansion: KernelExpansion, point: np.ndarray, rank: int) -> Approximation:
    tensors = [cubic_tensor(expansion, point, j) for j in range(expansion.n_outputs)]
    return Approximation(
        quadratic_form(expansion, point),
        certify(expansion, point),
        cubic=cubic_form(tensors, rank),
    )


def run(cell: Approximation, rows: np.ndarray, *, fused: bool) -> tuple[np.ndarray, np.ndarray]:
    engine = ApproximationEngine.prepare(cell, fused=fused)
    assert (engine.third is not None) == fused
    return scores_and_bounds(engine.second(rows))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 26),
    left_out=st.integers(0, 5),
    k=st.integers(1, 6),
    m=st.sampled_from([0, 1, 7, 64, 150]),
    gamma=st.sampled_from([1e-3, 0.05, 0.7]),
)
def test_scores_and_bounds_equal_the_twin(
    seed: int, d: int, left_out: int, k: int, m: int, gamma: float
) -> None:
    rng = np.random.default_rng(seed)
    expansion = random_expansion(rng, n=12, d=d, k=k, gamma=gamma)
    point = rng.normal(size=d)
    cell = make_cell(expansion, point, max(1, d - left_out))
    rows = rng.normal(size=(m, d)) * 2.0
    if m > 10:
        rows[3] *= 1e3
        rows[4] = 1e200
        rows[5] = 1e-310
        rows[6] = point
    got, got_bounds = run(cell, rows, fused=True)
    want, want_bounds = run(cell, rows, fused=False)
    assert (np.abs(got - want) <= np.minimum(got_bounds, 1e-10 * (1.0 + np.abs(want)))).all()
    # Nothing is loosened: not below the twin's (but for its own rounding), and hardly above.
    assert (got_bounds >= want_bounds * (1.0 - 1e-9)).all()
    assert (got_bounds <= want_bounds * (1.0 + 1e-4) + 1e-280).all()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 9),
    left_out=st.integers(0, 3),
    k=st.integers(1, 6),
    m=st.sampled_from([0, 1, 9, 64, 150]),
    share=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
)
def test_both_tiers_in_one_pass_equal_one_after_the_other(
    seed: int, d: int, left_out: int, k: int, m: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    expansion = random_expansion(rng, n=12, d=d, k=k, gamma=0.05)
    cell = make_cell(expansion, rng.normal(size=d), max(1, d - left_out))
    rows = rng.normal(size=(m, d)) * rng.uniform(0.1, 2.0, size=(m, 1))
    if m > 10:
        rows[4], rows[5], rows[6] = 1e200, np.nan, cell.form.point
    engine = ApproximationEngine.prepare(cell, fused=True)
    assert engine.third is not None
    first = engine.first.run(rows)
    bounds = first.bounds
    second, tighter = scores_and_bounds(engine.second(rows))
    usual = bounds[np.isfinite(bounds).all(axis=1)]
    tolerance = np.quantile(usual, share, axis=0) if len(usual) else np.ones(k)
    tolerance = tolerance * (1.0 + 1e-9)  # no bound is so near that its rounding decides
    at_first = (bounds <= tolerance).all(axis=1)
    at_second = (tighter <= tolerance).all(axis=1) & (tighter <= bounds).all(axis=1)
    found = third_dense.two_tiers(engine.third, rows, tolerance)
    np.testing.assert_array_equal(found.stage, np.where(at_first, 0, np.where(at_second, 1, OPEN)))
    served = (found.stage == 1)[:, None]
    alike = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(found.scores, np.where(served, second, first.scores), **alike)
    np.testing.assert_allclose(found.bounds, np.where(served, tighter, bounds), rtol=1e-6)
    np.testing.assert_allclose(found.sq_norms, first.sq_norms, rtol=1e-12)


@pytest.mark.parametrize(("d", "k"), [(100, 1), (97, 2)])
def test_many_features_go_in_smaller_tiles(d: int, k: int) -> None:
    rng = np.random.default_rng(d)
    expansion = random_expansion(rng, n=6, d=d, k=k, gamma=1e-3)
    cell, rows = make_cell(expansion, np.zeros(d), d), rng.normal(size=(37, d))
    got, got_bounds = run(cell, rows, fused=True)
    want, want_bounds = run(cell, rows, fused=False)
    assert (np.abs(got - want) <= got_bounds).all()
    np.testing.assert_allclose(got_bounds, want_bounds, rtol=1e-4)


@pytest.mark.parametrize("rank", [2, 4])
def test_the_bound_holds(rank: int) -> None:
    rng = np.random.default_rng(rank)
    expansion = random_expansion(rng, n=8, d=4, k=2, gamma=0.2)
    rows = rng.normal(size=(12, 4))
    got, bounds = run(make_cell(expansion, rng.normal(size=4), rank), rows, fused=True)
    assert (error_ratios(true_scores(expansion, rows), got, bounds) <= 1.0).all()


def test_threads_do_not_change_the_answers() -> None:
    rng = np.random.default_rng(1)
    expansion, point = random_expansion(rng, n=12, d=9, k=2), np.zeros(9)
    cell = make_cell(expansion, point, 9)
    third = third_dense.prepare(cell.form, cell.cubic, cell.certificate)
    rows = rng.normal(size=(20_000, 9))
    assert third.least_rows < len(rows) / 2
    with limit_threads(1):
        alone = scores_and_bounds(third_dense.scores(third, rows))
    with limit_threads(3):
        together = scores_and_bounds(third_dense.scores(third, rows))
    np.testing.assert_array_equal(together, alone)


def test_count_must_match_the_rank() -> None:
    with pytest.raises(InputError, match="`packed` has 3 coefficients"):
        prepare_cubic(np.zeros((1, 3)), 2)
