"""Forms by their definition, in matrix products, against plain sums."""

from __future__ import annotations

import numpy as np
import pytest

from kernelite.series.cubic import cubic_values
from kernelite.series.rounding import damped, damping
from kernelite.series.series import quadratic_form
from kernelite.series.spectral import spectrum, truncate
from tests.helpers import random_expansion


@pytest.mark.parametrize("kernel", ["rbf", "poly2"])
def test_the_form_is_the_series(kernel: str) -> None:
    rng = np.random.default_rng(0)
    model = random_expansion(rng, n=20, d=4, k=3, kernel=kernel)
    point = np.zeros(4) if kernel == "poly2" else rng.normal(size=4)
    form = quadratic_form(model, point)
    rows = rng.normal(size=(10, 4))
    scores, squares, kept = form.evaluate(rows)
    assert kept is None
    for i, row in enumerate(rows):
        u = row - point
        E = np.exp(-model.gamma * u @ u) if kernel == "rbf" else 1.0
        for j in range(3):
            g = form.constant[j] + form.linear[:, j] @ u + u @ form.quadratic[j] @ u
            assert scores[i, j] == pytest.approx(E * g + form.intercept[j], abs=1e-12)
        assert squares[i] == pytest.approx(u @ u)


def test_the_truncated_form_is_its_definition() -> None:
    rng = np.random.default_rng(1)
    form = quadratic_form(random_expansion(rng, n=20, d=5, k=2), np.zeros(5))
    cut = truncate(spectrum(form), 2)
    rows = rng.normal(size=(10, 5))
    scores, _, kept = cut.evaluate(rows)
    Y = rows @ cut.basis
    squares = (rows**2).sum(axis=1)
    for j in range(2):
        quadratic = np.einsum("ma,ab,mb->m", Y, cut.cores[j], Y) + cut.mid[j] * squares
        g = form.constant[j] + rows @ form.linear[:, j] + quadratic
        wanted = np.exp(-form.gamma * squares) * g + form.intercept[j]
        np.testing.assert_allclose(scores[:, j], wanted, rtol=1e-12)
    np.testing.assert_allclose(kept, (Y**2).sum(axis=1))


def test_cubic_values_are_the_sum_over_triples() -> None:
    rng = np.random.default_rng(2)
    packed = rng.normal(size=(2, 20))
    U = rng.normal(size=(7, 4))
    triples = [(a, b, c) for a in range(4) for b in range(a, 4) for c in range(b, 4)]
    wanted = np.zeros((7, 2))
    for t, (a, b, c) in zip(packed.T, triples):
        wanted += (U[:, a] * U[:, b] * U[:, c])[:, None] * t
    np.testing.assert_allclose(cubic_values(packed, U), wanted)


def test_rows_that_overflow_give_the_intercept() -> None:
    form = quadratic_form(random_expansion(np.random.default_rng(3), d=2), np.zeros(2))
    rows = np.array([[1e200, 1e200], [1.7e308, -1.7e308], [1e160, 0.0]])
    scores, squares, _ = form.evaluate(rows)
    np.testing.assert_array_equal(scores, np.broadcast_to(form.intercept, (3, 1)))
    assert np.isinf(squares).all()
    np.testing.assert_array_equal(truncate(spectrum(form), 1).evaluate(rows)[0], scores)


def test_damping_wins_over_overflow() -> None:
    g = np.array([[np.inf], [np.nan], [2.0]])
    factor = damping(np.array([1e9, np.inf, 0.0]), 1.0)
    np.testing.assert_array_equal(damped(g, factor), [[0.0], [0.0], [2.0]])
