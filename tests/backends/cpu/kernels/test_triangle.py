"""Rows meet triangles: as products of NumPy do, and off by no more than is said, in exact sums."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from kernelite.backends.cpu.factors import LEAST_SHARED_WIDTH, InverseFactor
from kernelite.backends.cpu.kernels.exp2 import DOUBLE, SINGLE
from kernelite.backends.cpu.kernels.triangle import (
    DOUBLES_AT_ONCE,
    SINGLES_AT_ONCE,
    TRIANGLE_COLUMNS,
    double_squares,
    in_panels,
    panel_across,
    panel_places,
    panel_squares,
    rest_of_row,
    short_panel_squares,
    single_squares,
    triangle_panels,
)
from kernelite.backends.cpu.limits import limit_here
from kernelite.backends.cpu.short_rest import LEAST_SHARED_SINGLES, ShortRest, leading_columns
from kernelite.series.rounding import SINGLE_UNIT, UNIT

SIZES = [1, 5, DOUBLE.panel, DOUBLE.panel + 1, SINGLE.panel, SINGLE.panel + 1, 150]


def doubles(W: np.ndarray, X: np.ndarray) -> np.ndarray:
    """|W x|^2 by the kernel."""
    found = np.full(len(X), np.nan)
    double_squares(X, triangle_panels(W, DOUBLE, X.shape[1]), found)
    return found


def singles(
    W: np.ndarray, B: np.ndarray, G: np.ndarray, X: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """|G c + W y|^2, |y|^2 and |c|^2 by the kernel."""
    width = X.shape[1]
    found = np.full((3, len(X)), np.nan)
    single_squares(
        *(X, B.shape[1], panel_across(B, width), in_panels(B, DOUBLE, width)),
        *(in_panels(G, SINGLE, width), triangle_panels(W, SINGLE, width), *found),
    )
    return tuple(found)  # type: ignore[return-value]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("m", [1, 2, 7, DOUBLES_AT_ONCE + 1, SINGLES_AT_ONCE + 13])
@pytest.mark.parametrize("beyond", [0, 3])
def test_squares_are_those_of_numpy(n: int, m: int, beyond: int) -> None:
    rng = np.random.default_rng([n, m])
    W, X = np.tril(rng.normal(size=(n, n))), np.zeros((m, n + beyond))
    X[:, :n] = rng.normal(size=(m, n))
    np.testing.assert_allclose(doubles(W, X), ((X[:, :n] @ W.T) ** 2).sum(axis=1), rtol=1e-12)
    for few in (0, 1, 6, DOUBLE.panel):
        B, G = rng.normal(size=(n, few)) / n, rng.normal(size=(n, few))
        C = X[:, :n] @ B
        Y = X[:, :n] - C @ B.T
        found, rests, shares = singles(W, B, G, X)
        np.testing.assert_allclose(found, ((C @ G.T + Y @ W.T) ** 2).sum(axis=1), rtol=1e-3)
        np.testing.assert_allclose(rests, (Y**2).sum(axis=1), rtol=1e-11)
        np.testing.assert_allclose(shares, (C**2).sum(axis=1), rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("beyond", [0, 3])
def test_panels_of_one_row_add_up(n: int, beyond: int) -> None:
    rng = np.random.default_rng(n)
    W, x = np.tril(rng.normal(size=(n, n))), np.zeros(n + beyond)
    x[:n] = rng.normal(size=n)
    places = panel_places(len(x))
    parts = np.full(len(places[0]), np.nan)
    panel_squares(x, triangle_panels(W, DOUBLE, len(x)), *places, parts)
    np.testing.assert_allclose(parts.sum(), doubles(W, x[None])[0], rtol=1e-14)


def of_one_row(
    W: np.ndarray, B: np.ndarray, G: np.ndarray, x: np.ndarray
) -> tuple[float, float, float]:
    """As `singles`, of one row that meets W of singles in doubles."""
    width, few = len(x), B.shape[1]
    rest, c, sums = np.full(width, np.nan), np.full(few, np.nan), np.full(2, np.nan)
    rest_of_row(x, panel_across(B, width), in_panels(B, DOUBLE, width), rest, c, sums)
    places = panel_places(width, SINGLE)
    parts = np.full(len(places[0]), np.nan)
    triangle = triangle_panels(W, SINGLE, width)
    short_panel_squares(rest, c, in_panels(G, SINGLE, width), triangle, *places, parts)
    return float(parts.sum()), float(sums[0]), float(sums[1])


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("beyond", [0, 3])
def test_one_row_meets_singles_in_doubles(n: int, beyond: int) -> None:
    rng = np.random.default_rng(n)
    W = np.tril(rng.normal(size=(n, n))).astype(np.float32).astype(np.float64)
    x = np.zeros(n + beyond)
    x[:n] = rng.normal(size=n)
    for few in (0, 1, 6, DOUBLE.panel):
        B, G = rng.normal(size=(n, few)) / n, rng.normal(size=(n, few))
        c = x[:n] @ B
        y = x[:n] - B @ c
        found = of_one_row(W, B, G, x)
        np.testing.assert_allclose(found[0], ((G @ c + W @ y) ** 2).sum(), rtol=1e-12)
        np.testing.assert_allclose(found[1:], [y @ y, c @ c], rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("n", [LEAST_SHARED_SINGLES - 1, LEAST_SHARED_SINGLES + 3])
def test_threads_share_singles(threads: int, n: int) -> None:
    rng = np.random.default_rng(2)
    L = np.tril(rng.normal(size=(n, n)) / n) + np.eye(n)
    inverse = InverseFactor.of(L)
    assert inverse is not None
    short, x = ShortRest.of(inverse, leading_columns(L)), rng.normal(size=n)
    assert short is not None
    expected, off = inverse.square(x.copy(), 0.0)
    with limit_here(threads):
        found, error = short.square(x, 0.0)
    assert abs(found - expected) <= off + error <= 1e-4 * expected


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_one_row_meets_a_large_triangle_as_several_do(threads: int) -> None:
    rng = np.random.default_rng(1)
    n = LEAST_SHARED_WIDTH + 3
    inverse = InverseFactor.of(np.tril(rng.normal(size=(n, n)) / n) + np.eye(n))
    assert inverse is not None
    X, moved = rng.normal(size=(2, n)), np.zeros(2)
    found, errors = inverse.squares(X.copy(), moved)
    with limit_here(threads):
        one, error = inverse.squares(X[1:].copy(), moved[1:])
    assert abs(one[0] - found[1]) <= error[0] + errors[1]
    np.testing.assert_allclose([one[0], error[0]], [found[1], errors[1]], rtol=1e-12)


def test_what_is_above_the_diagonal_is_not_seen() -> None:
    W = np.random.default_rng(0).normal(size=(40, 40))
    X = np.random.default_rng(1).normal(size=(3, 40))
    np.testing.assert_array_equal(doubles(W, X), doubles(np.tril(W), X))


@pytest.mark.parametrize("seed", range(4))
def test_products_err_by_no_more_than_is_said(seed: int) -> None:
    """Terms of all sizes that cancel: each line of W x has its own |W| |x|; in exact arithmetic."""
    rng = np.random.default_rng(seed)
    n = 200
    W = np.tril(rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-3, 3, (n, n)))
    x = rng.normal(size=n) * 10.0 ** rng.uniform(-2, 2, n)
    W, x = W.astype(np.float32).astype(np.float64), x.astype(np.float32).astype(np.float64)
    W[:, 1::2] = -(x[::2] * W[:, ::2] / x[1::2]).astype(np.float32)
    W = np.tril(W)
    nothing = np.zeros((n, 0))
    for i in (0, 3, 63, 64, 130, 199):
        line = np.zeros((n, n))
        line[i] = W[i]
        terms = [Fraction(w) * Fraction(z) for w, z in zip(W[i].tolist(), x.tolist())]
        truth, size = abs(float(sum(terms))), float(sum(map(abs, terms)))
        off = abs(math.sqrt(doubles(line, x[None])[0]) - truth)
        assert off <= (TRIANGLE_COLUMNS + n / TRIANGLE_COLUMNS + 6) * UNIT * size
        off = abs(math.sqrt(singles(line, nothing, nothing, x[None])[0][0]) - truth)
        assert off <= (TRIANGLE_COLUMNS + 2) * SINGLE_UNIT * size
        off = abs(math.sqrt(of_one_row(line, nothing, nothing, x)[0]) - truth)
        assert off <= (n + 4) * UNIT * size
