"""The third order: tensors against their definition, packed against dense, tails as bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernelite.machine.expansion import KernelExpansion
from kernelite.series.approximation import certify
from kernelite.series.cubic import cubic_form, cubic_tensor, cubic_values, pack, project
from kernelite.series.directional import cubic_gram, directional_bound, gram_slack
from kernelite.series.work import packed_size
from kernelite.support.errors import InputError
from tests.helpers import random_expansion


@pytest.fixture(scope="module")
def model() -> KernelExpansion:
    return random_expansion(np.random.default_rng(0), n=40, d=6, k=2, gamma=0.15)


def test_the_tensor_is_its_definition(model: KernelExpansion) -> None:
    point = np.full(6, 0.1)
    S = model.dense_centers() - point
    for output in range(2):
        w = model.coefficients[:, output] * np.exp(-0.15 * (S**2).sum(axis=1))
        dense = 0.3**3 / 6 * np.einsum("i,ia,ib,ic->abc", w, S, S, S)
        T = cubic_tensor(model, point, output)
        np.testing.assert_allclose(T, dense, atol=1e-14)
        for order in ((0, 2, 1), (1, 0, 2), (2, 1, 0)):
            np.testing.assert_array_equal(T, T.transpose(order))


def test_packed_values_are_the_dense_ones(model: KernelExpansion) -> None:
    tensors = [cubic_tensor(model, np.zeros(6), output) for output in range(2)]
    packed = pack(tensors)
    assert packed.shape == (2, packed_size(6)) == (2, 56)
    U = np.random.default_rng(1).normal(size=(30, 6))
    dense = np.stack([np.einsum("abc,ma,mb,mc->m", T, U, U, U) for T in tensors], axis=1)
    np.testing.assert_allclose(cubic_values(packed, U), dense, rtol=1e-10, atol=1e-13)


def test_projection_is_the_tensor_on_the_basis(model: KernelExpansion) -> None:
    T = cubic_tensor(model, np.zeros(6), 0)
    Q, _ = np.linalg.qr(np.random.default_rng(2).normal(size=(6, 3)))
    dense = np.einsum("abc,ax,by,cz->xyz", T, Q, Q, Q)
    np.testing.assert_allclose(project(T, Q), dense, atol=1e-14)


@pytest.mark.parametrize("rank", [1, 3, 5, 6, 9])
def test_the_tail_bounds_what_is_left_out(model: KernelExpansion, rank: int) -> None:
    tensors = [cubic_tensor(model, np.zeros(6), output) for output in range(2)]
    form = cubic_form(tensors, rank)
    U = np.random.default_rng(3).normal(size=(400, 6)) * 3
    if form.basis is not None:
        U = np.concatenate([U, U[:50] @ form.basis @ form.basis.T])
    Y = U if form.basis is None else U @ form.basis
    dense = np.stack([np.einsum("abc,ma,mb,mc->m", T, U, U, U) for T in tensors], axis=1)
    missing = np.abs(dense - cubic_values(form.packed, Y))
    squares, kept = (U**2).sum(axis=1), (Y**2).sum(axis=1)
    bound = 0.0
    if form.basis is not None:
        bound = form.tail_bound(squares, kept, np.ones((len(U), 1)))
    assert (missing <= bound + 1e-13 * squares[:, None] ** 1.5).all()
    if rank >= 6:
        assert form.basis is None
        assert form.term(U, squares, 0.1)[1] == 0.0


def test_both_ways_to_the_gram_matrix_agree(model: KernelExpansion) -> None:
    point = np.full(6, -0.2)
    for output in range(2):
        T = cubic_tensor(model, point, output).reshape(6, 36)
        np.testing.assert_allclose(cubic_gram(model, point, output), T @ T.T, atol=1e-14)


@pytest.mark.parametrize("rank", [1, 4, 6])
def test_the_directional_bound_holds(model: KernelExpansion, rank: int) -> None:
    tensors = [cubic_tensor(model, np.zeros(6), output) for output in range(2)]
    grams = [cubic_gram(model, np.zeros(6), output) for output in range(2)]
    slack = gram_slack(model, certify(model, np.zeros(6)).rounding)
    found = directional_bound(grams, rank, slack)
    U = np.random.default_rng(4).normal(size=(400, 6)) * 2
    U = np.concatenate([U, 5 * np.eye(6)])
    squares = (U**2).sum(axis=1)
    bound = found.bound(U, squares, np.ones((len(U), 1)))
    dense = np.stack([np.einsum("abc,ma,mb,mc->m", T, U, U, U) for T in tensors], axis=1)
    assert (np.abs(dense) <= bound).all()
    tight = squares[:, None] * np.sqrt(
        np.stack([np.einsum("ma,ab,mb->m", U, G, U) for G in grams], axis=1)
    )
    if rank == 6:
        np.testing.assert_allclose(bound, tight, rtol=1e-5)
    assert (bound >= tight * (1 - 1e-12)).all()


def test_zero_models_have_zero_tails() -> None:
    nothing = KernelExpansion(np.ones((3, 4)), np.zeros((3, 1)), [0.0], gamma=0.1)
    tensors = [cubic_tensor(nothing, np.zeros(4), 0)]
    assert not cubic_form(tensors, 2).packed.any()
    grams = [cubic_gram(nothing, np.zeros(4), 0)]
    found = directional_bound(grams, 2, np.zeros(1))
    assert found.bound(np.ones((2, 4)), np.full(2, 4.0), np.ones(2)).max() < 1e-100


def test_tiny_tensors_keep_their_tails() -> None:
    """Squares of 1e-200 underflow; the tails do not."""
    T = np.random.default_rng(5).normal(size=(4, 4, 4))
    T = sum(T.transpose(order) for order in ((0, 1, 2), (1, 2, 0), (2, 0, 1)))
    T = T + T.transpose(0, 2, 1)
    ordinary, tiny = cubic_form([T], 2), cubic_form([T * 2.0**-700], 2)
    np.testing.assert_allclose(np.ldexp(tiny.tail, 700), ordinary.tail, rtol=1e-9)


def test_wrong_parts_are_refused(model: KernelExpansion) -> None:
    form = cubic_form([cubic_tensor(model, np.zeros(6), 0)], 3)
    for change in (
        {"packed": np.zeros((1, 9))},
        {"basis": np.zeros((6, 2))},
        {"tail": np.array([-1.0])},
        {"slack": np.array([np.nan])},
    ):
        with pytest.raises(InputError):
            replace(form, **change)
    bound = directional_bound([cubic_gram(model, np.zeros(6), 0)], 3, np.zeros(1))
    for change in ({"cores": np.zeros((1, 2, 2))}, {"tail": np.array([-1.0])}):
        with pytest.raises(InputError):
            replace(bound, **change)
