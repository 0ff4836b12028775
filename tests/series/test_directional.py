"""Products that stand for the third order: found where they are, the rest bounded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelite.series.approximation import certify
from kernelite.series.cubic import CubicForm, cubic_form, cubic_tensor, pack, unpack
from kernelite.series.directional import paired_cubic
from tests.helpers import random_expansion


def symmetric(rng: np.random.Generator, d: int) -> np.ndarray:
    T = rng.normal(size=(d, d, d))
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    return sum(T.transpose(order) for order in orders) / 6.0


def product(a: np.ndarray, B: np.ndarray) -> np.ndarray:
    """sym(a (x) B), entry by entry: the slow twin."""
    d = len(a)
    T = np.empty((d, d, d))
    for i, j, k in np.ndindex(d, d, d):
        T[i, j, k] = (a[i] * B[j, k] + a[j] * B[i, k] + a[k] * B[i, j]) / 3.0
    return T


def held(tensors: list[np.ndarray]) -> CubicForm:
    return cubic_form(tensors, len(tensors[0]))


@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_unpacked_tensors_are_those_that_were_packed(d: int) -> None:
    rng = np.random.default_rng(d)
    tensors = [symmetric(rng, d), symmetric(rng, d)]
    np.testing.assert_allclose(unpack(pack(tensors), d), tensors, rtol=1e-14, atol=1e-15)


def test_a_product_is_found() -> None:
    rng = np.random.default_rng(0)
    B = rng.normal(size=(5, 5))
    B = B @ B.T
    vectors = rng.normal(size=(3, 5)) * np.array([[1.0], [1e3], [1e-3]])
    tensors = [product(a, B) for a in vectors]
    paired = paired_cubic(held(tensors))
    sizes = np.array([np.linalg.norm(T) for T in tensors])
    assert (paired.rest <= 1e-4 * sizes).all()
    U = rng.normal(size=(20, 5))
    want = np.stack([np.einsum("abc,ia,ib,ic->i", T, U, U, U) for T in tensors], axis=1)
    np.testing.assert_allclose(paired.values(U), want, atol=1e-4 * sizes.max(), rtol=1e-3)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 8),
    k=st.integers(1, 4),
    power=st.sampled_from([-90, -3, 0, 3, 90]),
)
def test_the_rest_bounds_what_is_left(seed: int, d: int, k: int, power: int) -> None:
    rng = np.random.default_rng(seed)
    tensors = [symmetric(rng, d) * 10.0**power for _ in range(k)]
    if k > 1:
        tensors[0] = np.zeros((d, d, d))
    paired = paired_cubic(held(tensors))
    U = rng.normal(size=(50, d))
    for j, T in enumerate(tensors):
        left = T - product(paired.vectors[j], paired.matrix)
        for _ in range(20):  # towards rows that the rest is large along
            U = np.concatenate([U, np.einsum("abc,ib,ic->ia", left, U[-5:], U[-5:])])
            U /= np.maximum(np.linalg.norm(U, axis=1, keepdims=True), 1e-300)
        error = np.abs(np.einsum("abc,ia,ib,ic->i", T, U, U, U) - paired.values(U)[:, j])
        assert (error <= paired.rest[j] * np.linalg.norm(U, axis=1) ** 3 * (1 + 1e-9)).all()
    assert (paired.sizes >= 0.99 * np.linalg.norm(paired.vectors, axis=1)).all()


def test_fitting_leaves_no_more_than_there_was() -> None:
    rng = np.random.default_rng(2)
    model = random_expansion(rng, n=40, d=6, k=3, gamma=0.02)
    tensors = [cubic_tensor(model, np.zeros(6), j) for j in range(3)]
    paired = paired_cubic(held(tensors))
    for j, T in enumerate(tensors):
        whole = np.linalg.norm(T.reshape(6, -1), 2)
        left = np.linalg.norm((T - product(paired.vectors[j], paired.matrix)).reshape(6, -1), 2)
        assert left <= paired.rest[j] <= left * (1 + 1e-3) + 1e-5 * np.linalg.norm(T)
        assert np.linalg.norm(T - product(paired.vectors[j], paired.matrix)) <= np.linalg.norm(T)
        assert whole > 0
    certificate = certify(model, np.zeros(6))
    wider = paired.widened(certificate).rounding.moments
    np.testing.assert_array_equal(wider[:3], certificate.rounding.moments[:3])
    assert (wider[3] >= certificate.rounding.moments[3] + paired.sizes).all()
