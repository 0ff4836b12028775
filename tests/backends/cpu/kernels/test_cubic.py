"""Linear rows in one pass, against NumPy; cubic ones in single precision, against their bounds."""

from __future__ import annotations

import numpy as np
import pytest

from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.exact_packed import LinearExact, PackedExact, SinglePacked
from kernelite.backends.cpu.kernels.cubic import LANES, linear_rows, linear_weights
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import PolynomialKernel
from kernelite.program.bounded import spelled_out
from tests.oracle import error_ratios, true_scores


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


@pytest.mark.parametrize("seed", range(12))
def test_cubic_polynomials_in_single_precision_are_within_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 14)), int(rng.integers(200, 600))
    kernel = PolynomialKernel(3, 10.0 ** rng.uniform(-3, 1), rng.choice([0.0, 1.0, -0.3, 50.0]))
    centers = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 2)
    A = rng.normal(size=(n, 1)) * 10.0 ** rng.uniform(-6, 6)
    if seed % 3 == 0:  # nearly all of it cancels
        centers[1::2], A[1::2] = centers[::2][: n // 2] * (1.0 + 1e-9), -A[::2][: n // 2]
    model = KernelExpansion(centers, A, [0.1], kernel=kernel)
    rows = np.concatenate([centers[:20], rng.normal(size=(50, d)) * 10.0 ** rng.uniform(-3, 3)])
    rows[-3:] = np.array([[0.0], [1e-30], [1e8]])
    single = ExactEngine.prepare(model).single
    assert isinstance(single, SinglePacked)
    scores, bounds = single.run(rows)
    assert error_ratios(true_scores(model, rows), scores, bounds).max() <= 1.0
    assert not np.isfinite(single.run(np.full((1, d), 1e12))[1]).any()


def test_bounds_of_single_precision_are_of_use() -> None:
    rng = np.random.default_rng(0)
    X, A = rng.normal(size=(3000, 20)), rng.choice([-1.0, 1.0], (3000, 1))
    model = KernelExpansion(X, A, [0.0], kernel=PolynomialKernel(3, 0.05, 1.0))
    rows = rng.normal(size=(200, 20))
    single = ExactEngine.prepare(model).single
    assert single is not None
    scores, bounds = single.run(rows)
    assert (bounds < 1e-4 * scores.std()).all()


def test_several_outputs_and_other_degrees_have_no_single_precision() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    for degree, k in ((3, 2), (4, 1)):
        model = KernelExpansion(
            X, rng.normal(size=(300, k)), [0.0] * k, kernel=PolynomialKernel(degree, 0.1, 1.0)
        )
        engine = ExactEngine.prepare(model)
        assert isinstance(engine.dense, PackedExact)
        assert engine.single is None


def test_centers_whose_powers_overflow_have_bounds_that_hold() -> None:
    """Such as (gamma |x|)^4 above all doubles, although coefficients make the sums small."""
    centers = np.array([[-1.5e72, -2.7e72], [5e-3, -5e-3], [9e-3, -1e-2]])
    expansion = KernelExpansion(
        centers, [2.2e-4, -1.4e-5, -1.5e-5], 0.0, kernel=PolynomialKernel(4, 38675.0, -0.3)
    )
    rows = np.array([[1e-75, 2e-75], [0.0, 0.0], [3e-76, -1e-76]])
    found = ExactEngine.prepare(expansion).run(rows)
    bounds = np.broadcast_to(np.asarray(spelled_out(found.bounds)), (3, 1))
    assert (error_ratios(true_scores(expansion, rows), found.scores, bounds) <= 1.0).all()
