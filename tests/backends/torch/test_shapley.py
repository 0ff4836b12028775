"""Shapley values on a device: against processors, both kernels against torch operations, bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from flint import ctx

import kernelite as kl
from kernelite.backends.torch.shapley import DeviceProducts, Quadrature, players, products
from kernelite.explain.quadrature import rules
from kernelite.machine.kernels import Laplacian, PolynomialKernel, ProductKernel, Rbf, SumKernel
from kernelite.support.errors import InputError
from tests.backends.torch.devices import DEVICE, kernels_run, there
from tests.explain.coalitions import check_bounds, far_twins, random_expansion, shap_values


def model_of(kind: str, d: int, rng: np.random.Generator, k: int = 2) -> Any:
    n = int(rng.integers(1, 40))
    scales = tuple(rng.uniform(0.5, 3.0, d).tolist())
    kernels: dict[str, Any] = {
        "rbf": "rbf",
        "laplacian": Laplacian(0.3),
        "product": ProductKernel((Rbf(scales), Laplacian(0.1))),
        "sum": SumKernel((2.0, 0.5), (Rbf(scales), PolynomialKernel(1))),
    }
    expansion = kl.KernelExpansion(
        rng.normal(size=(n, d)),
        rng.normal(size=(n, k)),
        rng.normal(size=k),
        gamma=2.0 / d,
        kernel=kernels[kind],
    )
    return kl.compile(expansion, guarantee="exact")


@pytest.mark.parametrize("tolerance", [None, 1e-3])
@pytest.mark.parametrize("d", [1, 5, 40])
@pytest.mark.parametrize("kind", ["rbf", "laplacian", "product", "sum"])
def test_a_device_gives_what_processors_give(kind: str, d: int, tolerance: float | None) -> None:
    rng = np.random.default_rng(d)
    fast = model_of(kind, d, rng)
    rows, background = rng.normal(size=(5, d)), rng.normal(size=(7, d))
    groups = {"two": [0, 1]} if d == 5 else None
    here, away = (
        shap_values(fast, rows, background, groups=groups, tolerance=tolerance, device=device)
        for device in (None, DEVICE)
    )
    assert (np.abs(here.values - away.values) <= here.bounds + away.bounds).all()
    assert (
        np.abs(here.base_values - away.base_values) <= here.base_bounds + away.base_bounds
    ).all()
    assert away.bounds.max() <= (tolerance or 1e-11)
    exact = shap_values(fast, rows, background, groups=groups)
    assert (np.abs(exact.values - away.values) <= exact.bounds + away.bounds).all()


@pytest.mark.parametrize("d", [1, 3, 8, 40])
@pytest.mark.parametrize("kind", ["rbf", "laplacian", "product"])
def test_bounds_hold_in_ball_arithmetic(kind: str, d: int) -> None:
    before, ctx.prec = ctx.prec, 300
    try:
        for seed in range(4 if d < 40 else 2):
            rng = np.random.default_rng(seed)
            expansion = random_expansion(kind, rng, d)
            expansion = far_twins(expansion) if seed == 1 else expansion
            check_bounds(kind, expansion, rng, None if seed % 2 else 1e-4, DEVICE)
    finally:
        ctx.prec = before


def test_memory_is_bounded_by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for one row at a time changes nothing but roundings."""
    rng = np.random.default_rng(1)
    fast = model_of("rbf", 30, rng)
    rows, background = rng.normal(size=(3, 30)), rng.normal(size=(5, 30))
    whole = shap_values(fast, rows, background, device=DEVICE)
    monkeypatch.setattr(DeviceProducts, "room", 1)
    pieces = shap_values(fast, rows, background, device=DEVICE)
    assert (np.abs(whole.values - pieces.values) <= whole.bounds + pieces.bounds).all()


def test_far_rows_keep_their_bounds() -> None:
    """Factors end at exp(-230) there and at exp(-690) here."""
    rng = np.random.default_rng(2)
    fast = model_of("rbf", 6, rng)
    rows, background = 30.0 * rng.normal(size=(20, 6)), 20.0 * rng.normal(size=(4, 6))
    here, away = (shap_values(fast, rows, background, device=one) for one in (None, DEVICE))
    assert (np.abs(here.values - away.values) <= here.bounds + away.bounds).all()


def test_tensors_are_taken_and_their_device_is_used() -> None:
    rng = np.random.default_rng(3)
    fast = model_of("rbf", 4, rng)
    rows, background = rng.normal(size=(3, 4)), rng.normal(size=(6, 4))
    plain = fast.shap_values(rows, background)
    found = fast.shap_values(there(rows).requires_grad_(), there(background))
    assert np.allclose(found.values, plain.values, atol=1e-12)


@pytest.mark.parametrize("device", ["nowhere", "meta2", 3.5])
def test_other_devices_get_a_sentence(device: Any) -> None:
    fast = model_of("rbf", 2, np.random.default_rng(0))
    with pytest.raises(InputError, match="is not there, or has no doubles"):
        fast.shap_values(np.zeros((1, 2)), np.ones((2, 2)), device=device)


def drawn(p: int, n: int, choosing: bool) -> tuple[Any, Any, Quadrature, Any, Any]:
    rng = np.random.default_rng(p)
    spread = 0.3 if choosing else 4.0
    u, v = (there(np.exp(-spread * rng.random((m, p, n)))) for m in (2, 3))
    made = rules(p, 2.0**-52, choosing)
    arrays = (made.nodes, made.weights, made.starts, made.choice)
    slots = int(np.diff(made.starts).max())
    quadrature = Quadrature(*map(there, arrays), made.side, made.steps, slots)
    errors = (there(1.0 + 1e-9 * rng.random((m, n))) for m in (2, 3))
    return u, v, quadrature, *errors


@kernels_run
@pytest.mark.parametrize(("p", "n"), [(1, 5), (9, 130), (40, 20)])
def test_kernels_are_those_of_torch_operations(p: int, n: int) -> None:
    from kernelite.backends.torch.kernels.shapley import run_players, run_products

    u, v, quadrature, mine, others = drawn(p, n, p > 24)
    kept, want = run_products(u, v, quadrature), products(u, v, quadrature)
    assert torch.allclose(kept.middles, want.middles, rtol=1e-13)
    if p <= 24:
        assert torch.allclose(kept.products, want.products, rtol=1e-13)
    else:
        assert int(kept.rules.max()) < len(quadrature.starts) - 2  # fewer nodes than the exact rule
    found = run_players(u, v, kept, quadrature, mine, others)
    real = players(u, v, want, quadrature, mine, others)
    for one, other in zip(found, real):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-14)


def test_shares_are_those_of_all_coalitions() -> None:
    """Both passes in torch operations, against the integral multiplied out."""
    from numpy.polynomial import polynomial

    u, v, quadrature, mine, others = drawn(5, 3, False)
    value, size = players(u, v, products(u, v, quadrature), quadrature, mine, others)
    up, low = u.cpu().numpy(), v.cpu().numpy()
    for row, j, center in np.ndindex(2, 5, 3):
        total = 0.0
        for b in range(3):
            product = np.ones(1)
            for player in set(range(5)) - {j}:
                a, z = up[row, player, center], low[b, player, center]
                product = polynomial.polymul(product, [z, a - z])
            integral = polynomial.polyval(1.0, polynomial.polyint(product))
            total += (up[row, j, center] - low[b, j, center]) * integral
        assert abs(float(value[row, j, center]) - total) < 1e-13
    assert (size > 0).all()
