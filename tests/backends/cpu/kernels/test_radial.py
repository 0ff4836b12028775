"""Functions of distances against ball arithmetic, sums against values, far and near rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from kernelite.backends.cpu.kernels.radial import FUNCTIONS, PANEL, radial_kernel

LN2 = float(np.log(2.0))
UNIT = 2.0**-53


def _log2(v: Any) -> Any:
    return v.log() / arb(2).log()


def _power(p: int) -> Callable[..., Any]:
    return lambda s, a, b: (-1) ** ((p + 1) // 2) * (a * s).sqrt() ** p


# Of s and two numbers, the value, and how many units of the largest value it may be off by.
REAL: dict[str, tuple[Callable[..., Any], float]] = {
    "exponential": (lambda s, a, b: (-a * s).exp(), 24.0),
    "matern_1": (lambda s, a, b: (-a * s.sqrt()).exp(), 24.0),
    "matern_3": (lambda s, a, b: (1 + a * s.sqrt()) * (-a * s.sqrt()).exp(), 24.0),
    "matern_5": (
        lambda s, a, b: (1 + a * s.sqrt() + a * a * s / 3) * (-a * s.sqrt()).exp(),
        24.0,
    ),
    "rational": (lambda s, a, b: (-b * (1 + a * s).log()).exp(), 40.0),
    "periodic": (lambda s, a, b: 2 ** (-b * (arb.pi() * a * s.sqrt()).sin() ** 2), 40.0),
    "multiquadric": (lambda s, a, b: -(1 + a * s).sqrt(), 24.0),
    "inverse_multiquadric": (lambda s, a, b: 1 / (1 + a * s).sqrt(), 24.0),
    "inverse_quadratic": (lambda s, a, b: 1 / (1 + a * s), 24.0),
    "power_1": (_power(1), 24.0),
    "power_3": (_power(3), 24.0),
    "power_5": (_power(5), 24.0),
    "thin_plate": (lambda s, a, b: arb(0) if s == 0 else a * s * _log2(a * s), 12.0),
}


def distances() -> np.ndarray:
    """Numbers whose squares are exact: zero, tiny, near one, near powers of two, large."""
    rng = np.random.default_rng(0)
    spread = 10.0 ** rng.uniform(-12, 5, 300)
    near = 1.0 + np.concatenate([[0.0], rng.uniform(-1e-3, 1e-3, 100), 2.0 ** -np.arange(1.0, 24)])
    turns = np.sqrt(2.0 ** np.arange(-20.0, 21.0) * np.sqrt(0.5))
    found = np.concatenate([[0.0, 1e-140, 1e60], spread, near, turns])
    mantissas, exponents = np.frexp(found)
    return np.ldexp(np.round(mantissas * 2.0**24), exponents - 24)


def values(name: str, z: np.ndarray, a: float, b: float, *, city: bool = False) -> np.ndarray:
    """The function of z^2, or of |z|, by way of a center at zero."""
    out = np.empty((len(z), PANEL))
    nothing = np.zeros(PANEL)
    radial_kernel(name, city, False)(z[:, None], nothing, nothing, 0, 1, a, b, out)
    assert (out == out[:, :1]).all()  # all lanes alike
    return out[:, 0]


def test_every_function_is_compared() -> None:
    assert set(REAL) == set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.37, 3e-3), (1234.5, 2e4)])
def test_functions_are_within_their_roundings(name: str, a: float, b: float) -> None:
    real, units = REAL[name]
    z = distances()
    if name == "periodic":  # so that angles are exact: what they err by is the distance's error
        a = 2.0 ** round(float(np.log2(a)))
    before, ctx.prec = ctx.prec, 400
    try:
        for at, found in zip(z.tolist(), values(name, z, a, b).tolist()):
            truth = real(arb(at) ** 2, arb(a), arb(b))
            size = max(1.0, abs(float(truth)))  # as `largest` has it: 1, or what grows
            assert abs(truth - arb(found)) <= arb(units * UNIT * size), at
    finally:
        ctx.prec = before


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_city_distances(scale: float) -> None:
    z = distances()
    np.testing.assert_allclose(
        values("exponential", z, scale, 0.0, city=True), np.exp(-scale * z), rtol=0, atol=5e-16
    )


@pytest.mark.parametrize("name", ["exponential", "matern_1", "matern_3", "matern_5", "rational"])
def test_far_rows_vanish(name: str) -> None:
    """As scikit-learn's values do, on which labels may hang; overflowing squares among them."""
    z = np.array([1e5, 1e100, 1e154, 1e200, 1e308])
    np.testing.assert_array_equal(values(name, z, 1.0, 100.0), 0.0)


@pytest.mark.parametrize("m", [1, 3, 4, 9])
@pytest.mark.parametrize("panels", [1, 2, 37])
@pytest.mark.parametrize("city", [False, True])
def test_sums_are_of_the_values(m: int, panels: int, city: bool) -> None:
    rng = np.random.default_rng(m)
    d, n = 5, panels * PANEL
    centers, rows, weights = rng.normal(size=(n, d)), rng.normal(size=(m, d)), rng.normal(size=n)
    lines = centers.reshape(panels, PANEL, d).transpose(0, 2, 1).ravel()
    found, sums = np.empty((m, n)), np.full((m, 1), 0.5)
    radial_kernel("exponential", city, False)(rows, lines, weights, 0, panels, 0.3, 0.0, found)
    radial_kernel("exponential", city, True)(rows, lines, weights, 0, panels, 0.3, 0.0, sums)
    gaps = rows[:, None] - centers
    s = np.abs(gaps).sum(axis=2) if city else np.square(gaps).sum(axis=2)
    np.testing.assert_allclose(found, np.exp(-0.3 * s), rtol=0, atol=1e-15)
    np.testing.assert_allclose(sums[:, 0], 0.5 + found @ weights, rtol=0, atol=1e-12)


def test_some_panels_alone() -> None:
    rng = np.random.default_rng(0)
    lines, weights = rng.normal(size=4 * PANEL), rng.normal(size=4 * PANEL)
    rows, sums = rng.normal(size=(6, 1)), np.zeros((6, 1))
    radial_kernel("matern_1", False, True)(rows, lines, weights, 1, 2, 1.0, 0.0, sums)
    middle = slice(PANEL, 3 * PANEL)
    expected = np.exp(-np.abs(rows - lines[middle])) @ weights[middle]
    np.testing.assert_allclose(sums[:, 0], expected, rtol=0, atol=1e-13)
