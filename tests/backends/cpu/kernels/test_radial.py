"""Profiles of kernels as compiled loops, against ball arithmetic; sums, far rows, new kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from kernelite.backends.cpu.fused_pointwise import FusedPointwise
from kernelite.backends.cpu.kernels.lanes import traceable
from kernelite.backends.cpu.kernels.radial import PANEL, _kinds, radial_kernel
from kernelite.machine import kernels as kl
from kernelite.machine.exactly import UNIT
from kernelite.machine.kernels import Kernel
from kernelite.machine.ops import ops
from kernelite.support.records import dataclass
from tests.real_kernels import real_kernel

KINDS = list(_kinds())
NAMES = [f"{kind.__name__} {variant}" for kind, variant in KINDS]


def made(kind: type[Kernel], variant: tuple[Any, ...], number: float) -> Any:
    """A kernel whose distances are multiplied with 1, but for a period that is a power of two."""
    fields: dict[str, Any] = dict(
        zip(kind.variants, variant), **dict.fromkeys(kind.numbers, number)
    )
    plain = {"gamma": 1.0} if kind in (kl.Gaussian, kl.Laplacian, kl.ChiSquared) else {}
    return kind(**plain, **fields)


@dataclass(frozen=True)
class Cauchy(kl.Radial):
    """A kernel that no file of the package knows: its profile is all that there is to write."""

    strength: float = 2.0
    numbers = ("strength",)
    isotropic = True
    scale = 0.5

    def profile(self, squares: Any) -> Any:
        xp = ops(squares)
        return xp.where(squares > 1e6, 0.0, self.strength / (squares + self.strength))

    def scaled(self, rows: Any) -> Any:
        return rows * self.scale

    def sensitivity(self, r: Any) -> float:
        return 1.0

    slope = sensitivity
    label = "Cauchy"


def distances() -> np.ndarray:
    """Numbers whose squares are exact: zero, tiny, near one, near powers of two, large."""
    rng = np.random.default_rng(0)
    spread = 10.0 ** rng.uniform(-12, 5, 300)
    near = 1.0 + np.concatenate([[0.0], rng.uniform(-1e-3, 1e-3, 100), 2.0 ** -np.arange(1.0, 24)])
    turns = np.sqrt(2.0 ** np.arange(-20.0, 21.0) * np.sqrt(0.5))
    found = np.concatenate([[0.0, 1e-140, 1e60], spread, near, turns])
    mantissas, exponents = np.frexp(found)
    return np.ldexp(np.round(mantissas * 2.0**24), exponents - 24)


def values(kernel: Any, z: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """The profile of scale z^2, or of scale |z| (chi-squared too), by way of a center at zero."""
    out, nothing = np.empty((len(z), PANEL)), np.zeros(PANEL)
    variant = tuple(getattr(kernel, name) for name in kernel.variants)
    numbers = (*(getattr(kernel, name) for name in kernel.numbers), 0.0)
    loop = radial_kernel(type(kernel), variant)
    loop(z[:, None], nothing, nothing, 0, 1, scale, numbers[0], False, out)
    assert (out == out[:, :1]).all()  # all lanes alike
    return out[:, 0]


def test_kernels_of_distances_are_compiled() -> None:
    """All that are here, but for Matern kernels of other smoothness, and bumps of densities."""
    radial = {getattr(kl, name) for name in kl.__all__ if name not in ("RBF", "POLY2")}
    found = {one for one in radial if one.__dict__.get("profile")}
    assert {kind for kind, _ in KINDS} == found - {kl.Radial, kl.Bump}


@pytest.mark.parametrize(("kind", "variant"), KINDS, ids=NAMES)
@pytest.mark.parametrize("number", [1.0, 3e-3, 2e4])
def test_profiles_are_within_their_roundings(kind: Any, variant: Any, number: float) -> None:
    kernel, z = made(kind, variant, number), distances()
    units = getattr(kernel, "own", 24.0)
    before, ctx.prec = ctx.prec, 400
    try:
        for at, found in zip(z.tolist(), values(kernel, z).tolist()):
            truth = real_kernel(kernel, [arb(0)], [arb(at)])
            size = max(1.0, abs(float(truth)))  # as `largest` has it: 1, or what grows
            # The argument may err by 4 units, as bounds count that errs with the distance.
            off = 4.0 * float(np.max(getattr(kernel, "sensitivity", lambda r: 0.4)(np.array(at))))
            assert abs(truth - arb(found)) <= arb((units * size + off) * UNIT), at
    finally:
        ctx.prec = before


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_city_distances(scale: float) -> None:
    z = distances()
    found = values(kl.Laplacian(1.0), z, scale)
    np.testing.assert_allclose(found, np.exp(-scale * z), rtol=0, atol=5e-16)


@pytest.mark.parametrize(
    "kernel",
    [
        *(kl.Rbf(), kl.Gaussian(1.0), kl.Laplacian(1.0), kl.RationalQuadratic(alpha=100.0)),
        *(kl.Matern(nu=nu) for nu in (0.5, 1.5, 2.5)),
    ],
    ids=str,
)
def test_far_rows_vanish(kernel: Any) -> None:
    """As scikit-learn's values do, on which labels may hang; overflowing squares among them."""
    z = np.array([1e5, 1e100, 1e154, 1e200, 1e308])
    np.testing.assert_array_equal(values(kernel, z), 0.0)


def test_angles_keep_their_sign() -> None:
    """A sine is squared in the only profile that has one; of others the sign counts."""

    class Wave(Cauchy):
        numbers = ()

        def profile(self, squares: Any) -> Any:
            xp = ops(squares)
            return xp.function("sin", xp.sqrt(squares))

    turns = np.linspace(0.0, 40.0, 400)
    loop, out, nothing = radial_kernel(Wave, ()), np.empty((400, PANEL)), np.zeros(PANEL)
    loop(turns[:, None], nothing, nothing, 0, 1, 1.0, 0.0, False, out)
    np.testing.assert_allclose(out[:, 0], np.sin(turns), rtol=0, atol=40 * 8 * UNIT)


@pytest.mark.parametrize("m", [1, 3, 4, 9])
@pytest.mark.parametrize("panels", [1, 2, 37])
@pytest.mark.parametrize("kind", [kl.Gaussian, kl.Laplacian, kl.ChiSquared])
def test_sums_are_of_the_values(m: int, panels: int, kind: type[Kernel]) -> None:
    rng = np.random.default_rng(m)
    d, n = 5, panels * PANEL
    centers, rows, weights = rng.random((n, d)), rng.random((m, d)), rng.normal(size=n)
    centers[centers < 0.2], rows[rows < 0.2] = 0.0, 0.0
    lines = centers.reshape(panels, PANEL, d).transpose(0, 2, 1).ravel()
    found, sums = np.empty((m, n)), np.full((m, 1), 0.5)
    radial_kernel(kind, ())(rows, lines, weights, 0, panels, 0.3, 0.0, False, found)
    radial_kernel(kind, ())(rows, lines, weights, 0, panels, 0.3, 0.0, True, sums)
    gaps, both = rows[:, None] - centers, rows[:, None] + centers
    terms: dict[str, np.ndarray] = {
        "squares": np.square(gaps),
        "city": np.abs(gaps),
        "chi-squared": np.square(gaps) / np.where(both == 0.0, 1.0, both),
    }
    s = terms[kind.statistic].sum(axis=2)
    np.testing.assert_allclose(found, np.exp(-0.3 * s), rtol=0, atol=1e-15)
    np.testing.assert_allclose(sums[:, 0], 0.5 + found @ weights, rtol=0, atol=1e-12)


def test_some_panels_alone() -> None:
    rng = np.random.default_rng(0)
    lines, weights = rng.normal(size=4 * PANEL), rng.normal(size=4 * PANEL)
    rows, sums = rng.normal(size=(6, 1)), np.zeros((6, 1))
    radial_kernel(kl.Matern, (0.5,))(rows, lines, weights, 1, 2, 1.0, 0.0, True, sums)
    middle = slice(PANEL, 3 * PANEL)
    expected = np.exp(-np.abs(rows - lines[middle])) @ weights[middle]
    np.testing.assert_allclose(sums[:, 0], expected, rtol=0, atol=1e-13)


def test_a_new_kernel_is_compiled_from_its_profile() -> None:
    rng = np.random.default_rng(3)
    centers, weights, rows = (rng.normal(size=shape) for shape in ((70, 4), (70, 1), (9, 4)))
    kernel = Cauchy(3.0)
    fused = FusedPointwise.prepare(kernel, centers, weights)
    assert fused is not None
    sums = np.zeros((9, 1))
    fused.add(rows, sums)
    np.testing.assert_allclose(sums, kernel.values(rows, centers) @ weights, rtol=0, atol=1e-13)


def test_a_profile_beyond_the_lanes_is_left_to_numpy() -> None:
    class Error(Cauchy):
        def profile(self, squares: Any) -> Any:
            return ops(squares).erf(squares)

    assert not traceable(Error().profile)
    assert FusedPointwise.prepare(Error(), np.zeros((2, 1)), np.ones((2, 1))) is None
    assert not traceable(lambda s: math.exp(s))
