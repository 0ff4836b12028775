"""Certificates: invariants, moments, and what the rounding terms grow with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import gammainc
from sklearn.svm import SVC

import kernelite
from kernelite.machine.exactly import Uncertainty
from kernelite.machine.expansion import KernelExpansion
from kernelite.series.approximation import Certificate, certify, rounding_terms
from kernelite.series.rounding import (
    SAFETY,
    UNIT,
    RoundingTerms,
    folding,
    round_up,
    square_error,
)
from kernelite.support.errors import InputError, UnsupportedModelError
from tests.helpers import random_expansion


def test_moments_are_absolute_moments() -> None:
    rng = np.random.default_rng(0)
    model = random_expansion(rng, n=25, d=3, k=2, gamma=0.3)
    point = rng.normal(size=3)
    terms = rounding_terms(model, point)
    norms = np.linalg.norm(model.dense_centers() - point, axis=1)
    w = np.abs(model.coefficients) * np.exp(-0.3 * norms**2)[:, None]
    for m, factor in enumerate((1.0, 0.6, 0.6**2 / 2, 0.6**3 / 6)):
        wanted = factor * (w * norms[:, None] ** m).sum(axis=0)
        np.testing.assert_allclose(terms.moments[m], wanted, rtol=1e-8)
        assert (terms.moments[m] >= wanted).all()


def test_the_bound_grows_from_rounding_to_rho() -> None:
    model = random_expansion(np.random.default_rng(1), n=25, d=3, gamma=0.3)
    proof = certify(model, np.zeros(3))
    squares = np.array([0.0, 1e-4, 1e-2, 1.0, 10.0, 1e3, np.inf])
    bounds = proof.bound(squares, np.zeros((7, 1)))[:, 0]
    assert bounds[0] < 1e-12
    assert (np.diff(bounds[:-1]) >= 0).all()
    assert bounds[-1] == pytest.approx(proof.rho[0, 0], rel=1e-6)
    third = proof.bound(squares, np.zeros((7, 1)), degree=3)[:, 0]
    assert (third[2:5] < bounds[2:5]).all()


def test_a_map_adds_its_rounding() -> None:
    model = random_expansion(np.random.default_rng(2), n=25, d=3)
    plain, mapped = certify(model, np.zeros(3)), certify(model, np.zeros(3), mapped=True)
    extra = mapped.rounding.underflow - plain.rounding.underflow
    assert (extra > UNIT * np.abs(model.coefficients).sum()).all()
    assert (extra < 1e-10).all()
    poly = random_expansion(np.random.default_rng(2), n=25, d=3, kernel="poly2")
    assert certify(poly, np.zeros(3), mapped=True).rho.max() == 0.0


def test_polynomials_that_overflow_have_no_bound() -> None:
    model = KernelExpansion([[1.0, 2.0]], [1.0], 0.0, gamma=1.0, kernel="poly2")
    proof = certify(model, np.zeros(2))
    bounds = proof.bound(np.array([1.0, 1e308, np.inf]), np.array([[1.0], [np.nan], [np.inf]]))
    assert bounds[0, 0] < 1e-12
    assert np.isinf(bounds[1:]).all()


def test_unsound_constants_are_refused() -> None:
    proof = certify(random_expansion(np.random.default_rng(3)), np.zeros(5))
    none, infinite = np.full((2, 1), np.nan), np.full((2, 1), np.inf)
    for rho in (-proof.rho, proof.rho[0], none, infinite):
        with pytest.raises(InputError, match="rho"):
            Certificate(rho, proof.rounding)
    with pytest.raises(InputError, match="sums"):
        replace(proof.rounding, sums=-1.0)
    with pytest.raises(InputError, match="moments"):
        replace(proof.rounding, moments=np.zeros((3, 1)))


def test_rounding_up_is_up() -> None:
    values = np.array([0.0, 1e-320, 1.0, 1e300])
    assert (round_up(values) > values).all()


@pytest.mark.parametrize("gamma", [5e-324, 1e-31, 1e31, 5e113, 1.7e308])
def test_powers_of_gamma_that_overflow_have_no_certificate(gamma: float) -> None:
    model = KernelExpansion([[1.0, 2.0]], [1.0], 0.0, gamma=gamma)
    with pytest.raises(UnsupportedModelError, match="`gamma` must lie between 1e-30 and 1e"):
        certify(model, np.zeros(2))


@pytest.mark.parametrize("size", [1e-100, 1e-60, 1e60, 1e100])
def test_models_of_tiny_and_huge_features_are_compiled(size: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) * size
    y = (X[:, 0] > 0).astype(int)
    for model in (SVC(gamma=5e113), SVC(gamma=1e-300), SVC(), SVC(kernel="poly", degree=2)):
        model.fit(X, y)
        np.testing.assert_array_equal(kernelite.compile(model, X).predict(X), model.predict(X))


@pytest.mark.parametrize("gamma", [0.5, 0.0])
def test_the_rounding_bound_is_its_formula(gamma: float) -> None:
    """Each term by itself, on rows whose exponentials are large, small, and next to nothing."""
    exponents = np.array([0.0, 1.0, 80.0, 650.0, 705.0])
    squares = exponents / (gamma or 1.0)
    nothing = {
        "moments": np.zeros((4, 1)),
        "sums": 0.0,
        "per_square": 0.0,
        "radius_sq": 3.0,
        "gamma": gamma,
        "magnitude": np.zeros(1),
        "underflow": np.zeros(1),
    }

    def found(score: float = 0.0, **terms: object) -> np.ndarray:
        own = RoundingTerms(**{**nothing, **terms})  # type: ignore[arg-type]
        return own.bound(squares, np.full((5, 1), score), 3)[:, 0] / (SAFETY * UNIT)

    np.testing.assert_allclose(found(underflow=np.full(1, 1e-20)), 1e-20 / (SAFETY * UNIT))
    np.testing.assert_allclose(found(magnitude=np.full(1, 3.0)), 12.0)
    np.testing.assert_allclose(found(score=-5.0), 20.0)
    damped = np.exp(-gamma * squares) * (exponents < 700.0) if gamma else np.ones(5)
    moments = np.array([[2.0], [3.0], [5.0], [7.0]])
    powers = 2.0 + 3.0 * squares**0.5 + 5.0 * squares + 7.0 * squares**1.5
    np.testing.assert_allclose(found(moments=moments, sums=11.0), 11.0 * powers * damped)
    grown = 13.0 * (8.0 + 2.0 * gamma * (3.0 + squares))
    np.testing.assert_allclose(found(moments=moments, per_square=13.0), grown * powers * damped)


def test_the_remainder_takes_the_largest_square_that_rounding_leaves_possible() -> None:
    rounding = RoundingTerms(
        np.zeros((4, 1)), 0.0, 2.0**49, 0.0, 0.5, np.zeros(1), np.zeros(1)
    )  # of so many features that |u|^2 errs by a quarter
    proof = Certificate(np.array([[2.0], [3.0]]), rounding)
    assert square_error(rounding.per_square) == 0.25
    for degree, rho in ((2, 2.0), (3, 3.0)):
        wanted = rho * np.sqrt(gammainc(degree + 1, 0.8 * 1.25))
        found = proof.bound(np.array([0.8]), np.zeros((1, 1)), degree)
        np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_folding_is_its_formula() -> None:
    """Each error that reading a model leaves behind by itself; no kernel value moves beyond 1."""
    weight, reach, gamma = np.array([2.0, 5.0]), 3.0, 0.5
    steepness, far = np.sqrt(2.0 * gamma / np.e), np.sqrt(1600.0 / np.e)

    def found(**errors: Any) -> np.ndarray:
        zeros = {"intercept": np.zeros(2), "coefficients": np.zeros(2)}
        known = Uncertainty(**{**zeros, **errors})
        model = KernelExpansion(
            np.ones((1, 1)), np.ones((1, 2)), np.zeros(2), gamma=gamma, uncertainty=known
        )
        return folding(model, weight, reach, mapped=False)

    each = np.array([1e-9, 3e-9])
    np.testing.assert_allclose(found(intercept=each), each)
    np.testing.assert_allclose(found(coefficients=each), each)
    np.testing.assert_allclose(found(gamma=1e-9), SAFETY * weight * 1e-9 / np.e)
    np.testing.assert_allclose(found(centers=1e-9), SAFETY * weight * steepness * 3e-9)
    np.testing.assert_allclose(found(rows=1e-9), SAFETY * weight * steepness * 1e-9)
    relative = SAFETY * weight * 1e-9 * (3.0 * steepness + far)
    np.testing.assert_allclose(found(relative=1e-9), relative)
    np.testing.assert_allclose(found(centers=1e9), weight)
