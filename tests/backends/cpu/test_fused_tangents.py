"""Values by what exponentials add to their tangents: bounds hold, and they serve values."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import factorial

import numpy as np
import pytest
from hypothesis import example, given, settings
from scipy.sparse import csr_array
from sklearn.datasets import make_classification
from sklearn.svm import SVC, SVR

import kernelite as kl
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.fused_sums import PanelSums
from kernelite.backends.cpu.fused_tangents import HORNER_UNITS, POLYNOMIAL_ERRORS
from kernelite.backends.cpu.kernels.tangents import POLYNOMIALS, REACHES
from kernelite.machine.expansion import KernelExpansion
from kernelite.support.errors import InputError
from tests.backends.cpu.test_fused_sums import models, random_model
from tests.oracle import error_ratios, true_scores
from tests.random_models import HOW_MANY, Case, cases


def made(model: KernelExpansion) -> PanelSums | None:
    return ExactEngine.prepare(model).tangent


def hold(model: KernelExpansion, rows: np.ndarray) -> np.ndarray:
    """Which rows have a bound, after it was seen to hold."""
    sums = made(model)
    if sums is None:
        return np.zeros(len(rows), np.bool_)
    scores, bounds = sums.run(rows)
    known = np.isfinite(bounds).all(axis=1)
    some = [row for row, found in zip(true_scores(model, rows), known) if found]
    assert np.max(error_ratios(some, scores[known], bounds[known]), initial=0.0) <= 1.0
    return known


@given(**models)
@example(seed=391, n=32, d=1, scale=10.0, gamma=5.0, sparse=True)  # a center far from the others
@settings(deadline=None, max_examples=150)
def test_no_score_is_further_off_than_its_bound(**given: object) -> None:
    model, rows = random_model(**given)
    known = hold(model, rows)
    near = given["gamma"] * given["scale"] ** 2 <= 1e-3
    assert known[:5].all() or not near or not model.coefficients.any()


@given(case=cases())
@settings(deadline=None, max_examples=HOW_MANY)
def test_hard_models_hold_their_bounds(case: Case) -> None:
    for column in range(min(case.expansion.n_outputs, 2)):
        model = replace(
            case.expansion,
            coefficients=case.expansion.coefficients[:, [column]],
            intercept=case.expansion.intercept[[column]],
        )
        hold(model, case.rows)


@pytest.mark.parametrize("gamma", [1e-4, 0.01, 0.04])
def test_models_that_cancel_have_a_tight_bound_that_holds(gamma: float) -> None:
    rng = np.random.default_rng(0)
    signs = np.where(np.arange(400) % 2, 1.0, -1.0)
    model = KernelExpansion(rng.normal(size=(400, 12)), 50.0 * signs, 0.25, gamma=gamma)
    rows = rng.normal(size=(12, 12))
    assert hold(model, rows).all()
    tangent, single = made(model), ExactEngine.prepare(model).single
    assert (tangent.run(rows)[1] < 0.5 * single.run(rows)[1]).all()


def test_centers_far_from_the_others_are_beyond_polynomials() -> None:
    rng = np.random.default_rng(3)
    centers = rng.normal(size=(200, 6))
    centers[:20] *= 8.0
    model = KernelExpansion(centers, rng.normal(size=200), 0.1, gamma=0.1)
    rows = np.concatenate([rng.normal(size=(8, 6)), centers[:4], 1.5 * centers[:4]])
    assert hold(model, rows)[:8].all()
    sums = made(model)
    reach = sums.terms[:, 2].max() * np.sqrt(np.square(rows[:8]).sum(axis=1))
    assert (reach > REACHES[1]).any()


@pytest.mark.parametrize("number", [0, 1])
def test_polynomials_err_by_no_more_than_is_said(number: int) -> None:
    """|p - q| at points, and between them by the largest slope that it can have."""
    reach, coefficients = REACHES[number], np.float32(POLYNOMIALS[number])
    differences = [
        (Fraction(float(coefficients[k])) if k < len(coefficients) else 0)
        - Fraction(1, factorial(k + 2))
        for k in range(45)
    ]
    slope = sum(k * abs(float(e)) * reach ** (k - 1) for k, e in enumerate(differences) if k)
    points, step = np.linspace(-reach, reach, 400_001, retstep=True)
    off = np.abs(np.polynomial.polynomial.polyval(points, [float(e) for e in differences]))
    q = np.polynomial.polynomial.polyval(points, [1.0 / factorial(k + 2) for k in range(45)])
    assert ((off + 0.5 * slope * step + 1e-14) / q).max() <= POLYNOMIAL_ERRORS[number]
    powers = reach ** np.arange(len(coefficients))
    steps = (np.arange(len(coefficients)) + 2.0) * np.abs(coefficients) * powers
    assert steps.sum() / q[0] <= HORNER_UNITS[number]


def test_rows_by_entries_answer_as_rows_do() -> None:
    rng = np.random.default_rng(1)
    X = (rng.random((700, 50)) < 0.15) * rng.integers(1, 4, size=(700, 50)) + 0.5
    model = KernelExpansion(X[:600], rng.normal(size=600), 0.1, gamma=0.01)
    sums, rows = made(model), X[600:]
    assert sums.panels.layout.few_entries(rows)
    for some in (rows, csr_array(rows), rows + 1e-3):
        scores, bounds = sums.run(some)
        wanted = model.scores(some)
        assert (np.abs(scores - wanted) <= bounds).all()
        assert bounds.max() < 1e-3


X, y = make_classification(3000, 20, n_informative=10, flip_y=0.2, random_state=0)
X = (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.mark.parametrize("gamma", [0.005, 0.05])
def test_decision_values_are_served_and_agree_alone_and_in_a_block(gamma: float) -> None:
    fitted = SVC(gamma=gamma).fit(X[:2000], y[:2000])
    fast = kl.compile(fitted, X[:2000])
    rows = X[2000:]
    found, wanted = fast.decision_function(rows), fitted.decision_function(rows)
    bound = fast.error_bound(rows)
    assert (np.abs(found - wanted) <= bound).all()
    assert (bound <= fast.score_tolerance[0] * (1.0 + 1e-9)).all()
    assert np.array_equal(found > 0, wanted > 0)
    alone = np.array([fast.decision_function(row[None])[0] for row in rows[:50]])
    assert (np.abs(alone - found[:50]) <= 2.0 * bound[:50]).all()
    _, bounds = fast._runner.exact.tangent.run(rows)
    assert (bounds[:, 0] <= fast.score_tolerance[0]).mean() > 0.9


def test_values_of_regressors_too() -> None:
    values = np.sin(X[:, 0]) + 0.1 * X[:, 1]
    fitted = SVR(gamma=0.01, C=10.0).fit(X[:2000], values[:2000])
    fast = kl.compile(fitted, X[:2000])
    error = np.abs(fast.predict(X[2000:]) - fitted.predict(X[2000:]))
    assert (error <= fast.tolerance[0]).all()


def test_labels_that_a_form_left_open_need_no_doubles() -> None:
    """Coefficients nearly cancel at a small gamma: plain sums leave open what the form does."""
    X, y = make_classification(900, 8, n_informative=6, n_redundant=0, random_state=5)
    source = SVC(gamma=0.002, C=100.0).fit(X[:500], y[:500])
    model = kl.compile(source, X)
    engine, values = model._runner.exact, source.decision_function(X)
    assert engine is not None
    assert engine.single is not None
    low, high = X[values < 0.0][:200], X[values > 0.0][:200]
    for _ in range(7):  # towards the boundary, from both sides
        middle = 0.5 * (low + high)
        above = source.decision_function(middle)[:, None] > 0.0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    near = np.concatenate([low, high])
    exact = source.decision_function(near)
    stages = {stage.name: stage for stage in model._runner.cascade.stages}
    criterion = model._for_predict
    found = stages["exact, single precision"].run(near, criterion)
    assert found is not None
    assert (np.abs(found.scores[:, 0] - exact) <= np.asarray(found.bounds)[:, 0] + 1e-9).all()
    settled, plain = criterion(found.scores, found.bounds), criterion(*engine.single.run(near))
    assert settled.mean() > 0.9
    assert settled.mean() > plain.mean() + 0.2
    np.testing.assert_array_equal(model.predict(near), source.predict(near))
    for row in near[::9]:
        assert model.predict(row[None]) == source.predict(row[None])


def test_rows_that_are_no_numbers_or_far_are_left_to_others() -> None:
    fitted = SVC(gamma=0.005).fit(X[:2000], y[:2000])
    fast = kl.compile(fitted, X[:2000])
    bad = X[2000:2100].copy()
    bad[40, 3] = np.nan
    for rows in (bad, bad[40:41]):
        with pytest.raises(InputError, match="NaN"):
            fast.decision_function(rows)
    far = X[2000:2003] * np.array([[1e3], [1e160], [30.0]])
    np.testing.assert_allclose(
        fast.decision_function(far), fitted.decision_function(far), atol=fast.score_tolerance[0]
    )
    sums = fast._runner.exact.tangent
    assert np.isinf(sums.run(far)[1][:2]).all()


def test_rows_beside_wild_ones_keep_their_bounds() -> None:
    rng = np.random.default_rng(4)
    model = KernelExpansion(rng.normal(size=(150, 5)), rng.normal(size=150), 0.2, gamma=0.1)
    plain = rng.normal(size=(36, 5)) * rng.choice([0.1, 1.0, 4.0], size=(36, 1))
    rows = plain.copy()
    rows[::6] *= 1e30
    rows[1::7] = np.nan
    scores, bounds = made(model).run(rows)
    same = (rows == plain).all(axis=1)
    assert np.isinf(bounds[~same]).all()
    true = [row for row, kept in zip(true_scores(model, plain), same) if kept]
    assert np.max(error_ratios(true, scores[same], bounds[same])) <= 1.0


def test_wide_kernels_have_no_tangents() -> None:
    rng = np.random.default_rng(2)
    assert made(KernelExpansion(rng.normal(size=(50, 8)), np.ones(50), 0.0, gamma=3.0)) is None
    assert made(KernelExpansion(np.ones((5, 3)), np.zeros(5), 0.0, gamma=0.1)) is None
