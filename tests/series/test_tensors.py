"""Certificates of many centers: above the real rho, close to it, and never all pairs at once."""

from __future__ import annotations

import tracemalloc
from math import factorial, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelite.backends.cpu import forms
from kernelite.machine.expansion import KernelExpansion
from kernelite.series import remainder, tensors
from kernelite.series.approximation import certify
from kernelite.series.remainder import ScaledCenters, double_sums, remainder_norms
from kernelite.series.tensors import many_norms, monomials, tensor_norms
from tests.oracle import at_most, exponential, real
from tests.series.test_remainder import true_rho_squared


def true_power(expansion: KernelExpansion, point: np.ndarray, order: int):
    """|T_j|^2 / j! of the first output: sum_ij w_i w_j (2 gamma s_i.s_j)^j / j!."""
    gamma = real(expansion.gamma)
    S = [[real(x) - real(p) for x, p in zip(row, point)] for row in expansion.dense_centers()]
    squares = [sum((s * s for s in row), real(0.0)) for row in S]
    w = [real(a) * exponential(-gamma * q) for a, q in zip(expansion.coefficients[:, 0], squares)]
    total = real(0.0)
    for i, left in enumerate(S):
        for j, right in enumerate(S):
            t = real(2.0) * gamma * sum((a * b for a, b in zip(left, right)), real(0.0))
            total += w[i] * w[j] * t**order
    return total / real(float(factorial(order)))


def random_model(seed: int, power: float, twins: bool) -> tuple[KernelExpansion, np.ndarray]:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 14)), int(rng.integers(1, 5))
    centers, A = rng.normal(size=(n, d)), rng.normal(size=n)
    if twins:
        centers = np.concatenate([centers, centers * (1 + 1e-12)])
        A = np.concatenate([A, -A])
    return KernelExpansion(centers, A, 0.0, gamma=10.0**power), rng.normal(size=d) * 0.3


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-3, -0.5), st.booleans(), st.integers(3, 8))
def test_a_power_is_above_the_real_one_and_close(seed, power, twins, order) -> None:
    expansion, point = random_model(seed, power, twins)
    centers, scale = ScaledCenters.about(expansion, point)
    centers = centers.only(centers.exponents <= tensors.NEAR_EXPONENT)
    expansion = KernelExpansion(
        expansion.dense_centers()[centers.used], centers.A * scale, 0.0, gamma=expansion.gamma
    )
    found = float(tensor_norms(centers, order)[0] * scale[0])
    true = true_power(expansion, point, order)
    assert at_most(true / (real(found) * real(found))) <= 1.0
    if not twins:
        size = np.abs(expansion.coefficients).sum()
        assert found <= sqrt(abs(float(true))) * (1 + 1e-6) + 1e-7 * size


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-3, 1.2), st.booleans(), st.booleans())
def test_rho_of_groups_and_powers_is_above_the_real_one(seed, power, twins, few_powers) -> None:
    expansion, point = random_model(seed, power, twins)
    centers, scale = ScaledCenters.about(expansion, point)
    centers = centers.only(centers.exponents <= remainder.LARGEST_SQUARE)
    near = KernelExpansion(
        expansion.dense_centers()[centers.used], centers.A * scale, 0.0, gamma=expansion.gamma
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensors, "FEWEST_IN_A_GROUP", 3)
        patch.setattr(tensors, "LARGEST_TENSOR", 12 if few_powers else 2.5e6)
        found = many_norms(centers, double_sums, None, 0.0) * scale
    for index, order in enumerate((3, 4)):
        rho = float(found[index, 0])
        assert at_most(true_rho_squared(near, point, order) / (real(rho) * real(rho))) <= 1.0


def test_products_are_those_of_inner_products() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 5, 1))
    for degree in range(1, 5):
        repeats = tensors._repeats(5, degree)
        found = (repeats * monomials(x, degree)[:, 0]) @ monomials(y, degree)[:, 0]
        assert found == pytest.approx(float(x[:, 0] @ y[:, 0]) ** degree)


@pytest.mark.parametrize("d", [3, 12, 25])
@pytest.mark.parametrize("gamma", [0.02, 0.2, 1.0])
def test_hardly_looser_than_all_pairs_and_in_groups_only(d, gamma, monkeypatch) -> None:
    rng = np.random.default_rng(d)
    n = 2500
    centers = rng.random((n, d)) / sqrt(d)
    A = rng.choice([-1.0, 1.0], size=(n, 2))
    A[:, 1] = np.where(centers[:, 0] > 0.5 / sqrt(d), 1.0, -1.0)
    expansion = KernelExpansion(centers, A, np.zeros(2), gamma=gamma)
    point = centers.mean(axis=0)
    whole = forms.certify(expansion, point).rho
    budget, sizes = 0.1 * n * n / 2 * (d + 33), []

    def counted(S, A, exponents, progress, *, order):
        sizes.append(len(A))
        return double_sums(S, A, exponents, progress, order=order)

    monkeypatch.setattr(remainder, "PAIRS_BUDGET", budget)
    told: list[float] = []
    found = remainder_norms(expansion, point, sums=counted, progress=told.append)
    assert (found >= whole * (1 - 1e-9)).all()
    assert (found[0] <= 1.1 * whole[0]).all()
    assert (found[1] <= 2.0 * whole[1]).all()
    assert max(sizes, default=0) <= tensors.FEWEST_IN_A_GROUP
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_memory_is_that_of_a_part_of_the_centers(monkeypatch) -> None:
    rng = np.random.default_rng(1)
    n, d = 100_000, 8
    expansion = KernelExpansion(rng.random((n, d)), rng.random(n), 0.0, gamma=0.02)
    monkeypatch.setattr(remainder, "PAIRS_BUDGET", 1e9)
    tracemalloc.start()
    forms.certify(expansion, np.full(d, 0.5))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * n * (d + 6) + 48 * 2**20


@pytest.mark.parametrize("jit", [False, True])
def test_centers_at_the_end_of_what_counts_as_near(jit: bool) -> None:
    rng = np.random.default_rng(3)
    centers = rng.normal(size=(12, 3))
    centers *= np.sqrt(tensors.NEAR_EXPONENT / np.square(centers).sum(axis=1))[:, None] * (
        1 - 1e-12
    )
    expansion = KernelExpansion(centers, rng.normal(size=12), 0.0, gamma=1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensors, "FEWEST_IN_A_GROUP", 3)
        patch.setattr(tensors, "LARGEST_BEYOND_FOURTH", 0)
        patch.setattr(remainder, "PAIRS_BUDGET", 0.0)
        found = (forms.certify if jit else certify)(expansion, np.zeros(3)).rho
    for index, order in enumerate((3, 4)):
        rho = float(found[index, 0])
        true = true_rho_squared(expansion, np.zeros(3), order)
        assert at_most(true / (real(rho) * real(rho))) <= 1.0
