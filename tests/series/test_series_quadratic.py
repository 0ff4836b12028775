"""The paper's form, against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from kernelite.machine.expansion import KernelExpansion
from kernelite.series.series import QuadraticForm, quadratic_form
from kernelite.support.errors import InputError, UnsupportedModelError
from tests.helpers import random_expansion


def test_the_form_is_its_definition() -> None:
    rng = np.random.default_rng(0)
    model = random_expansion(rng, n=40, d=5, k=3, gamma=0.2)
    point = rng.normal(size=5)
    form = quadratic_form(model, point)
    S = model.dense_centers() - point
    w = model.coefficients * np.exp(-0.2 * (S**2).sum(axis=1))[:, None]
    np.testing.assert_allclose(form.constant, w.sum(axis=0))
    np.testing.assert_allclose(form.linear, 0.4 * S.T @ w)
    np.testing.assert_allclose(form.quadratic, 0.08 * np.einsum("ia,ik,ib->kab", S, w, S))
    assert form.max_sq_norm == pytest.approx((S**2).sum(axis=1).max())


def test_blocks_and_sparse_centers_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    model = random_expansion(rng, n=50, d=4, k=2)
    whole = quadratic_form(model, np.zeros(4))
    monkeypatch.setattr("kernelite.data.rows.inputs.NUMBERS_PER_BLOCK", 28)
    parts = quadratic_form(model, np.zeros(4))
    np.testing.assert_allclose(parts.quadratic, whole.quadratic, rtol=1e-12)
    sparse = KernelExpansion(
        csr_array(model.centers), model.coefficients, model.intercept, model.gamma
    )
    np.testing.assert_allclose(quadratic_form(sparse, np.zeros(4)).linear, whole.linear)


def test_a_polynomial_is_exact() -> None:
    rng = np.random.default_rng(2)
    model = random_expansion(rng, n=30, d=4, k=2, kernel="poly2")
    form = quadratic_form(model, np.zeros(4))
    Z = rng.normal(size=(20, 4))
    values = form.constant + Z @ form.linear + np.einsum("ma,kab,mb->mk", Z, form.quadratic, Z)
    np.testing.assert_allclose(values + form.intercept, model.scores(Z), rtol=1e-10)
    with pytest.raises(InputError, match="origin"):
        quadratic_form(model, np.ones(4))


def test_matrices_are_symmetric_to_the_last_bit() -> None:
    model = random_expansion(np.random.default_rng(3), n=200, d=30, k=2)
    M = quadratic_form(model, np.ones(30)).quadratic
    np.testing.assert_array_equal(M, M.transpose(0, 2, 1))


def test_packing_keeps_one_triangle() -> None:
    form = quadratic_form(random_expansion(np.random.default_rng(4), d=6, k=2), np.zeros(6))
    stored = form.__pack__()
    assert stored["triangle"].shape == (2, 21)
    back = QuadraticForm.__unpack__(QuadraticForm.__stored__(dict(stored)))
    np.testing.assert_array_equal(back.quadratic, form.quadratic)
    with pytest.raises(InputError, match="triangle"):
        QuadraticForm.__unpack__({**form.__pack__(), "triangle": np.zeros((2, 20))})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 1e-40}, "gamma"),
        ({"gamma": 1e40}, "gamma"),
        ({"gamma": 1.0, "kernel": "poly2", "coef0": 1e40}, "coef0"),
    ],
)
def test_what_would_underflow_unseen_is_refused(options: dict, message: str) -> None:
    with pytest.raises(UnsupportedModelError, match=message):
        quadratic_form(KernelExpansion([[1.0]], [1.0], 0.0, **options), np.zeros(1))


def test_what_overflows_is_refused() -> None:
    for model in (
        KernelExpansion([[1e200]], [1.0], 0.0, gamma=1.0, kernel="poly2"),
        KernelExpansion([[1.0], [1.0]], [1.7e308, 1.7e308], 0.0, gamma=1e-3),
    ):
        with pytest.raises(UnsupportedModelError, match="overflows"):
            quadratic_form(model, np.zeros(1))
