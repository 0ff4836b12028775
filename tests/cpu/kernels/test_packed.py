"""Products and norms in one pass, against NumPy; rows that are not finite show."""

from __future__ import annotations

import numpy as np
import pytest

from kernelite.cpu.exact_packed import LinearExact
from kernelite.cpu.kernels.packed import LANES, linear_rows, linear_weights
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import PolynomialKernel


def one_pass(rows: np.ndarray, w: np.ndarray, b: float) -> tuple[np.ndarray, np.ndarray]:
    scores, squares = np.empty(len(rows)), np.empty(len(rows))
    linear_rows(rows, linear_weights(w), b, scores, squares)
    return scores, squares


@pytest.mark.parametrize("d", [LANES, LANES + 1, 2 * LANES - 1, 2 * LANES, 50])
@pytest.mark.parametrize("m", [0, 1, 3, 4, 11])
def test_every_width_and_number_of_rows(d: int, m: int) -> None:
    rng = np.random.default_rng(d)
    rows, w = rng.normal(size=(m, d)), rng.normal(size=d)
    scores, squares = one_pass(rows, w, 0.25)
    np.testing.assert_allclose(scores, rows @ w + 0.25, rtol=0, atol=1e-13)
    np.testing.assert_allclose(squares, np.square(rows).sum(axis=1), rtol=1e-14)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, LANES - 1, LANES, LANES + 2])
def test_rows_that_are_not_finite_show(bad: float, place: int) -> None:
    rows = np.ones((6, LANES + 3))
    rows[4, place] = bad
    _, squares = one_pass(rows, np.ones(LANES + 3), 0.0)
    np.testing.assert_array_equal(np.isfinite(squares), np.arange(6) != 4)


def test_a_row_alone_has_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    rows, w = rng.normal(size=(9, 21)), rng.normal(size=21)
    together, _ = one_pass(rows, w, 0.1)
    alone = [one_pass(row[None], w, 0.1)[0][0] for row in rows]
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("d", [3, 20])
@pytest.mark.parametrize("k", [1, 3])
def test_narrow_and_several_outputs_go_by_blas(d: int, k: int) -> None:
    rng = np.random.default_rng(0)
    model = KernelExpansion(
        rng.normal(size=(40, d)), rng.normal(size=(40, k)), [0.5] * k, kernel=PolynomialKernel(1)
    )
    exact = LinearExact.prepare(model)
    assert (exact._one_pass is not None) == (d == 20 and k == 1)
    rows = np.ascontiguousarray(rng.normal(size=(2000, d)))
    scores, squares = exact.scores(rows)
    truth = rows @ (model.dense_centers().T @ model.coefficients) + 0.5
    np.testing.assert_allclose(scores, truth, rtol=0, atol=1e-11)
    np.testing.assert_allclose(squares, np.square(rows).sum(axis=1), rtol=1e-13)
