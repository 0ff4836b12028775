"""The fused kernel against its twin, the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelite.backends.cpu.kernels import quadratic_dense
from kernelite.backends.cpu.kernels.tiles import TILE_HEIGHT
from kernelite.backends.cpu.threads import limit_threads
from kernelite.series.series import QuadraticForm, quadratic_form
from tests.helpers import random_expansion


def form_and_rows(
    seed: int, *, d: int, k: int, m: int, kernel: str = "rbf", scale: float = 1.0
) -> tuple[QuadraticForm, np.ndarray]:
    rng = np.random.default_rng(seed)
    expansion = random_expansion(rng, d=d, k=k, gamma=0.3 / d, kernel=kernel)
    point = np.zeros(d) if kernel == "poly2" else rng.normal(size=d)
    return quadratic_form(expansion, point), scale * rng.normal(size=(m, d))


def assert_twins(form: QuadraticForm, rows: np.ndarray) -> None:
    """Equal up to the rounding of sums whose terms may cancel."""
    found = quadratic_dense.scores(quadratic_dense.prepare(form), rows)
    got, sq_norms = found.scores, found.sq_norms
    expected, expected_norms, _ = form.evaluate(rows)
    np.testing.assert_allclose(sq_norms, expected_norms, rtol=1e-13)
    size = np.abs(form.constant) + np.abs(form.intercept) + np.abs(expected)
    norms = np.sqrt(expected_norms)[:, None]
    size = size + norms * np.linalg.norm(form.linear, axis=0)
    size += norms**2 * np.linalg.norm(form.quadratic, axis=(1, 2))
    assert (np.abs(got - expected) <= 1e-14 * (form.n_features + 10) * size).all()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 70),
    k=st.integers(1, 6),
    m=st.integers(0, 3 * TILE_HEIGHT),
    kernel=st.sampled_from(["rbf", "poly2"]),
    scale=st.sampled_from([1e-200, 1e-3, 1.0, 5.0]),
)
def test_random_models(seed: int, d: int, k: int, m: int, kernel: str, scale: float) -> None:
    assert_twins(*form_and_rows(seed, d=d, k=k, m=m, kernel=kernel, scale=scale))


@pytest.mark.parametrize(
    "m",
    [
        0,
        1,
        7,
        8,
        9,
        TILE_HEIGHT - 1,
        TILE_HEIGHT,
        TILE_HEIGHT + 1,
        3 * TILE_HEIGHT,
        3 * TILE_HEIGHT + 5,
    ],
)
@pytest.mark.parametrize("d", [1, 3, 4, 8, 11, 12, 22])
def test_tile_boundaries(d: int, m: int) -> None:
    assert_twins(*form_and_rows(d * 1000 + m, d=d, k=2, m=m))


def test_threads_do_not_change_the_answers() -> None:
    form, rows = form_and_rows(1, d=9, k=2, m=40_000)
    prepared = quadratic_dense.prepare(form)
    assert prepared.least_rows < len(rows) / 2
    answers = []
    for threads in (1, 2, 3):
        with limit_threads(threads):
            answers.append(quadratic_dense.scores(prepared, rows))
    for found in answers[1:]:
        np.testing.assert_array_equal(found.scores, answers[0].scores)
        np.testing.assert_array_equal(found.sq_norms, answers[0].sq_norms)
    assert_twins(form, rows)


def test_far_rows_get_the_intercept_exactly() -> None:
    form, _ = form_and_rows(2, d=5, k=3, m=0)
    far = np.full((4, 5), 1e3)
    far[1:] = [[1e154] * 5, [-1e200] * 5, [1.7e308, -1.7e308, 0, 0, 1e300]]
    got = quadratic_dense.scores(quadratic_dense.prepare(form), far)
    np.testing.assert_array_equal(got.scores, np.broadcast_to(form.intercept, (4, 3)))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(np.isinf(got.sq_norms), [False, True, True, True])


def test_exponentials_near_the_underflow() -> None:
    form, rows = form_and_rows(3, d=4, k=1, m=400)
    lengths = np.sqrt(np.linspace(690.0, 750.0, 400) / form.gamma)
    rows = form.point + lengths[:, None] * rows / np.linalg.norm(rows, axis=1, keepdims=True)
    got = quadratic_dense.scores(quadratic_dense.prepare(form), rows).scores
    expected = form.evaluate(rows)[0]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-290)


def test_denormal_rows() -> None:
    form, _ = form_and_rows(4, d=6, k=1, m=0)
    assert_twins(form, np.full((9, 6), 5e-324))


def test_nan_is_not_hidden() -> None:
    form, rows = form_and_rows(5, d=6, k=1, m=20)
    rows[11, 3] = np.nan
    got = quadratic_dense.scores(quadratic_dense.prepare(form), rows).scores
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(got)), [11])


def test_read_only_rows() -> None:
    form, rows = form_and_rows(6, d=6, k=2, m=20)
    prepared = quadratic_dense.prepare(form)
    expected = quadratic_dense.scores(prepared, rows)
    rows.flags.writeable = False
    got = quadratic_dense.scores(prepared, rows)
    np.testing.assert_array_equal(got.scores, expected.scores)
    np.testing.assert_array_equal(got.sq_norms, expected.sq_norms)
