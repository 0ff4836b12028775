"""Fused certificates against the formula they implement."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelite.backends.cpu.kernels import quadratic_dense
from kernelite.backends.cpu.kernels.bounds import prepare_certificate
from kernelite.series.approximation import Certificate, certify
from kernelite.series.rounding import RoundingTerms
from kernelite.series.series import QuadraticForm, quadratic_form
from tests.helpers import random_expansion, scores_and_bounds


def random_certificate(
    rng: np.random.Generator, form: QuadraticForm, rho_size: float
) -> Certificate:
    k, d = form.n_outputs, form.n_features
    terms = RoundingTerms(
        moments=rng.random((4, k)) * 10.0 ** rng.integers(-3, 4, size=(4, 1)),
        sums=500.0 + d,
        per_square=d + 5.0,
        radius_sq=float(form.max_sq_norm),
        gamma=form.gamma,
        magnitude=np.abs(form.intercept),
        underflow=np.full(k, 1e-290),
    )
    return Certificate(rho_size * rng.random((2, k)), terms)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 30),
    k=st.integers(1, 4),
    spread=st.sampled_from([1e-60, 1e-6, 0.1, 1.0, 10.0, 1e3, 1e200]),
    rho_size=st.sampled_from([0.0, 1e-18, 1e-3, 10.0]),
)
def test_bounds_are_just_above_the_formula(
    seed: int, d: int, k: int, spread: float, rho_size: float
) -> None:
    rng = np.random.default_rng(seed)
    form = quadratic_form(random_expansion(rng, d=d, k=k, gamma=1.0 / d), rng.normal(size=d))
    certificate = random_certificate(rng, form, rho_size)
    rows = form.point + spread * rng.normal(size=(200, d))
    rows[0] = form.point
    prepared, packed = quadratic_dense.prepare(form), prepare_certificate(certificate)
    found = quadratic_dense.scores(prepared, rows, packed)
    (scores, bounds), sq_norms = scores_and_bounds(found), found.sq_norms
    slow = certificate.bound(sq_norms, scores)
    assert (bounds >= slow).all()
    assert (bounds <= slow * 1.0001).all()
    plain = quadratic_dense.scores(prepared, rows)
    assert plain.bounds is None
    np.testing.assert_array_equal(scores, plain.scores)
    np.testing.assert_array_equal(sq_norms, plain.sq_norms)


@pytest.mark.parametrize("t", [0.999999, 1.0, 1.000001, 700.0, 1420.0])
def test_both_sides_of_the_branches(t: float) -> None:
    rng = np.random.default_rng(1)
    form = quadratic_form(random_expansion(rng, d=3, gamma=0.5), np.zeros(3))
    certificate = random_certificate(rng, form, 1.0)
    rows = np.zeros((5, 3))
    rows[:, 0] = np.sqrt(t)  # 2 gamma |u|^2 = t
    got = quadratic_dense.scores(
        quadratic_dense.prepare(form), rows, prepare_certificate(certificate)
    )
    slow = certificate.bound(got.sq_norms, got.scores)
    assert (got.bounds >= slow).all()
    assert (got.bounds <= slow * 1.0001).all()


@pytest.mark.parametrize("far", [1e155, 1e200, 1.7e308])
def test_rows_whose_squares_overflow_have_a_bound(far: float) -> None:
    rng = np.random.default_rng(4)
    form = quadratic_form(random_expansion(rng, d=3, gamma=0.5), np.zeros(3))
    certificate = random_certificate(rng, form, 1.0)
    rows = np.array([[far, 0.0, 0.0], [0.0, -far, far]])
    packed = prepare_certificate(certificate)
    bounds = quadratic_dense.scores(quadratic_dense.prepare(form), rows, packed).bounds
    slow = certificate.bound(np.full(2, np.inf), np.zeros((2, form.n_outputs)))
    assert (bounds < np.inf).all()
    assert (bounds >= slow).all()


def test_a_row_with_nan_stays_open() -> None:
    rng = np.random.default_rng(2)
    form = quadratic_form(random_expansion(rng, d=3, gamma=0.5), np.zeros(3))
    certificate = prepare_certificate(random_certificate(rng, form, 0.0))
    rows = np.array([[0.1, 0.2, 0.3], [0.1, np.nan, 0.3]])
    found = quadratic_dense.scores(quadratic_dense.prepare(form), rows, certificate)
    scores, bounds = scores_and_bounds(found)
    assert (np.abs(scores) > bounds).tolist() == [[True], [False]]


@pytest.mark.parametrize("kernel", ["rbf", "poly2"])
def test_certificates_of_models(kernel: str) -> None:
    rng = np.random.default_rng(3)
    expansion = random_expansion(rng, d=7, k=3, gamma=0.05, kernel=kernel)
    point = np.zeros(7) if kernel == "poly2" else rng.normal(size=7)
    form, certificate = quadratic_form(expansion, point), certify(expansion, point)
    rows = rng.normal(size=(300, 7))
    packed = prepare_certificate(certificate)
    found = quadratic_dense.scores(quadratic_dense.prepare(form), rows, packed)
    scores, bounds = scores_and_bounds(found)
    slow = certificate.bound(found.sq_norms, scores)
    assert (bounds >= slow).all()
    assert (bounds <= slow * 1.0001).all()
    assert (np.abs(scores - expansion.scores(rows)) <= bounds).all()
