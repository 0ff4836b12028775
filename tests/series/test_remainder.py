"""P(m, x) and rho from above, against real arithmetic."""

from __future__ import annotations

import tracemalloc
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammainc

from kernelite.machine.expansion import KernelExpansion
from kernelite.series.approximation import certify
from kernelite.series.remainder import (
    BLOCK,
    ScaledCenters,
    lower_gamma,
    majorants,
    pair_norms,
    remainder_norms,
)
from kernelite.support.errors import UnsupportedModelError
from tests.oracle import at_most, exponential, more_digits, real


def true_remainder(order: int, t):
    """r_m(t) = e^t minus the first m terms."""
    total = exponential(t)
    power = real(1.0)
    for j in range(order):
        total -= power / real(float(factorial(j)))
        power *= t
    return total


def true_rho_squared(expansion: KernelExpansion, point: np.ndarray, order: int):
    """sum_ij w_i w_j r_m(2 gamma s_i.s_j) of the first output."""
    gamma = real(expansion.gamma)
    S = [[real(x) - real(p) for x, p in zip(row, point)] for row in expansion.dense_centers()]
    squares = [sum((s * s for s in row), real(0.0)) for row in S]
    w = [real(a) * exponential(-gamma * q) for a, q in zip(expansion.coefficients[:, 0], squares)]
    total = real(0.0)
    for i, left in enumerate(S):
        for j, right in enumerate(S):
            t = real(2.0) * gamma * sum((a * b for a, b in zip(left, right)), real(0.0))
            total += w[i] * w[j] * true_remainder(order, t)
    return total


@pytest.mark.parametrize("order", [3, 4, 5, 9, 12])
def test_lower_gamma_is_a_tight_upper_bound(order: int) -> None:
    x = np.concatenate(
        [np.logspace(-20, 3, 400), [0.999999, 1.0, 1.000001, 15.9, 16, 799.9, 800.0]]
    )
    got = lower_gamma(order, x)
    np.testing.assert_allclose(got, gammainc(order, x), rtol=2e-12, atol=1e-299)
    for value, bound in zip(x[::7], got[::7]):
        with more_digits():
            t = real(value)
            assert at_most(exponential(-t) * true_remainder(order, t) / real(bound)) <= 1.0 + 2e-15
    np.testing.assert_array_equal(lower_gamma(order, np.array([np.inf, 1e300])), [1.0, 1.0])
    assert (np.diff(lower_gamma(order, np.sort(x))) >= -1e-12).all()


def test_lower_gamma_where_powers_underflow() -> None:
    tiny = lower_gamma(3, np.array([0.0, 1e-320, 1e-200, 1e-110]))
    assert (tiny >= np.array([0.0, 1e-320, 1e-200, 1e-110]) ** 3 / 6).all()
    assert (tiny > 0).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-3, 1.2), st.booleans())
def test_rho_is_above_the_real_one_and_close(seed: int, power: float, twins: bool) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 12)), int(rng.integers(1, 5))
    centers, A = rng.normal(size=(n, d)), rng.normal(size=n)
    if twins:
        centers = np.concatenate([centers, centers * (1 + 1e-12)])
        A = np.concatenate([A, -A])
    expansion = KernelExpansion(centers, A, 0.0, gamma=10.0**power)
    point = rng.normal(size=d) * 0.3
    found = remainder_norms(expansion, point)
    for index, order in enumerate((3, 4)):
        true = true_rho_squared(expansion, point, order)
        rho = float(found[index, 0])
        assert at_most(true / (real(rho) * real(rho))) <= 1.0
        if not twins:
            # Not far above, unless cancellation left only rounding.
            size = np.abs(A).sum() ** 2
            assert rho**2 <= float(abs(true)) * (1 + 1e-6) + 1e-11 * size


def test_near_duplicates_of_opposite_sign_do_not_give_a_false_proof() -> None:
    """The double sum comes out negative or zero; the rounding term keeps rho above the truth."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20, 3))
    expansion = KernelExpansion(
        np.concatenate([X, X + 1e-15]), np.repeat([1e6, -1e6], 20), 0.0, gamma=0.3
    )
    found = remainder_norms(expansion, np.zeros(3))
    assert (found > 0).all()
    true = true_rho_squared(expansion, np.zeros(3), 3)
    assert at_most(true / (real(found[0, 0]) * real(found[0, 0]))) <= 1.0


def test_blocks_do_not_show() -> None:
    """More centers than a block, several outputs: as one dense double sum."""
    rng = np.random.default_rng(3)
    n = 2 * BLOCK + 17
    expansion = KernelExpansion(
        rng.normal(size=(n, 4)), rng.normal(size=(n, 3)), np.zeros(3), gamma=0.2
    )
    S = expansion.dense_centers()
    t = 2 * 0.2 * S @ S.T
    a = 0.2 * np.einsum("ij,ij->i", S, S)
    damping = np.exp(-a[:, None] - a[None, :])
    closed = np.exp(t - a[:, None] - a[None, :]) - damping * (1 + t + t * t / 2)
    series = np.zeros_like(t)
    for j in range(60, 2, -1):
        series = series * t / (j + 1) + 1
    small = damping * t**3 / 6 * series
    R = np.where(np.abs(t) > 1, closed, small)
    A = expansion.coefficients
    dense = np.sqrt(np.einsum("ik,ij,jk->k", A, R, A))
    np.testing.assert_allclose(remainder_norms(expansion, np.zeros(4))[0], dense, rtol=1e-6)


def test_zero_columns_and_no_centers() -> None:
    A = np.zeros((5, 2))
    A[:, 0] = 1.0
    expansion = KernelExpansion(np.eye(5), A, np.zeros(2), gamma=1.0)
    found = remainder_norms(expansion, np.zeros(5))
    assert found[0, 0] > 0.1
    assert (found[:, 1] < 1e-200).all()
    nothing = KernelExpansion(np.zeros((0, 2)), np.zeros((0, 1)), [0.0], gamma=1.0)
    assert (remainder_norms(nothing, np.zeros(2)) < 1e-200).all()


def test_a_far_center_adds_its_own_norm_only() -> None:
    rng = np.random.default_rng(4)
    X, A = rng.normal(size=(30, 3)) * 0.2, rng.normal(size=30)
    near = remainder_norms(KernelExpansion(X, A, 0.0, gamma=0.5), np.zeros(3))
    far = KernelExpansion(
        np.concatenate([X, [[1e30, 0.0, 0.0]]]), np.append(A, 0.25), 0.0, gamma=0.5
    )
    both = remainder_norms(far, np.zeros(3))
    np.testing.assert_allclose(both, near + 0.25, rtol=1e-6)


def test_coefficients_of_any_size() -> None:
    rng = np.random.default_rng(5)
    X, A = rng.normal(size=(10, 2)), rng.normal(size=10)
    ordinary = remainder_norms(KernelExpansion(X, A, 0.0, gamma=0.5), np.zeros(2))
    for power in (-900, 900):
        scaled = remainder_norms(
            KernelExpansion(X, np.ldexp(A, power), 0.0, gamma=0.5), np.zeros(2)
        )
        np.testing.assert_allclose(scaled, np.ldexp(ordinary, power), rtol=1e-12)
    huge = KernelExpansion(X, np.full(10, 1.7e308), 0.0, gamma=0.5)
    with pytest.raises(UnsupportedModelError, match="coefficients are too large"):
        certify(huge, np.zeros(2))


def test_progress_is_told() -> None:
    rng = np.random.default_rng(6)
    told: list[float] = []
    expansion = KernelExpansion(rng.normal(size=(900, 2)), rng.normal(size=900), 0.0, gamma=0.1)
    remainder_norms(expansion, np.zeros(2), progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_memory_is_that_of_the_centers_and_a_few_blocks() -> None:
    """50,000 centers with 45 outputs must stay far below 1 GB (measured: benchmarks/promises)."""
    rng = np.random.default_rng(7)
    n, d, k = 3000, 20, 45
    expansion = KernelExpansion(
        rng.normal(size=(n, d)), rng.normal(size=(n, k)), np.zeros(k), gamma=0.01
    )
    tracemalloc.start()
    remainder_norms(expansion, np.zeros(d))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    arrays = 8 * n * (d + 2 * k)
    assert peak < arrays + 16 * 8 * BLOCK**2 + 2_000_000


@pytest.mark.parametrize("exponent", [0.5, 30.0])
def test_what_sums_of_pairs_may_have_lost_grows_with_the_exponents(
    exponent: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums that came out as nothing are still what (d + 6) (m + 4e) roundings may hide."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(12, 5))
    X *= np.sqrt(exponent / np.square(X).sum(axis=1).max())
    centers, _ = ScaledCenters.about(KernelExpansion(X, np.ones(12), 0.0, gamma=1.0), np.zeros(5))
    nothing = np.zeros((2, 1))
    for index, norm in enumerate(
        pair_norms(centers, slice(None), 3, lambda *_args, **_options: nothing.copy())
    ):
        hidden = 2.0**-53 * (5 + 6) * (3 + index + 4.0 * exponent) * majorants(centers)[index] ** 2
        assert norm.item() ** 2 >= hidden.item()
