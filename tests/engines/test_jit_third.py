"""The fused third order against its twin on BLAS, bounds included, and against the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelite.approximation.cells import Cell
from kernelite.approximation.certificate import certify
from kernelite.approximation.cubic import cubic_form, cubic_tensor
from kernelite.approximation.quadratic import quadratic_form
from kernelite.engines import jit_third
from kernelite.engines.jit_cubic import prepare_cubic
from kernelite.engines.threads import limit_threads
from kernelite.engines.tiers import CellEngine
from kernelite.errors import InputError
from kernelite.expansion import KernelExpansion
from tests.helpers import random_expansion
from tests.oracle import error_ratios, true_scores


def make_cell(expansion: KernelExpansion, point: np.ndarray, rank: int) -> Cell:
    tensors = [cubic_tensor(expansion, point, j) for j in range(expansion.n_outputs)]
    return Cell(
        quadratic_form(expansion, point),
        certify(expansion, point),
        cubic=cubic_form(tensors, rank),
    )


def run(cell: Cell, rows: np.ndarray, *, fused: bool) -> tuple[np.ndarray, np.ndarray]:
    engine = CellEngine.prepare(cell, fused=fused)
    assert (engine.third is not None) == fused
    return engine.second(rows)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 26),
    left_out=st.integers(0, 5),
    k=st.integers(1, 3),
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
    third = jit_third.prepare(cell.form, cell.cubic, cell.certificate)
    rows = rng.normal(size=(20_000, 9))
    assert third.chunk < len(rows) / 2
    with limit_threads(1):
        alone = jit_third.scores(third, rows)
    with limit_threads(3):
        np.testing.assert_array_equal(jit_third.scores(third, rows), alone)


def test_count_must_match_the_rank() -> None:
    with pytest.raises(InputError, match="`packed` has 3 coefficients"):
        prepare_cubic(np.zeros((1, 3)), 2)
