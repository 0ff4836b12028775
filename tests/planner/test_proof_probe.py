"""Hope is only given up where a certificate would settle next to nothing."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVC

import kernelite
import kernelite.planner.proof_probe
import kernelite.planner.search
from kernelite.backends.cpu.approximation import forms_alone
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.planner.proof_probe import ProofProbe
from kernelite.program.bounded import OPEN
from kernelite.program.criteria import Within
from kernelite.series.approximation import Approximation, certify
from kernelite.series.series import quadratic_form
from tests.helpers import random_expansion


@pytest.fixture
def _small_models_too(monkeypatch):
    monkeypatch.setattr(kernelite.planner.proof_probe, "CHEAP_PAIRS", 0)


@pytest.mark.usefixtures("_small_models_too")
@pytest.mark.parametrize("gamma", [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("tolerance", [1e-6, 1e-2, 1.0])
def test_given_up_only_where_the_certificate_settles_nothing(gamma, tolerance):
    rng = np.random.default_rng(0)
    expansion = random_expansion(rng, n=200, d=3, k=2, gamma=gamma)
    sample = rng.normal(size=(300, 3))
    criterion = Within(np.full(2, tolerance))
    point = sample.mean(axis=0)
    form = quadratic_form(expansion, point)
    left = ProofProbe(expansion, sample, criterion, ExactEngine.prepare(expansion)).left(point, 0.0)
    forms = forms_alone(Approximation(form, certify(expansion, point)), fused=False)
    open_share = float((forms.run(sample, criterion).stage == OPEN).mean())
    assert left or open_share > 0.8
    if open_share < 0.4:
        assert ProofProbe(expansion, sample, criterion, ExactEngine.prepare(expansion)).left(
            point, 0.0
        )


@pytest.mark.parametrize("gamma", [1e-3, 0.03, 1.0])
def test_shares_left_open_are_those_of_the_form(gamma):
    rng = np.random.default_rng(1)
    expansion = random_expansion(rng, n=200, d=3, k=2, gamma=gamma)
    sample, criterion = rng.normal(size=(200, 3)), Within(np.full(2, 0.05))
    certificate = certify(expansion, np.zeros(3))
    probe = ProofProbe(expansion, sample, criterion, ExactEngine.prepare(expansion))
    second, third = probe.left_open(np.zeros(3), certificate)
    cell = Approximation(quadratic_form(expansion, np.zeros(3)), certificate)
    forms = forms_alone(cell, fused=False)
    found = float((forms.run(probe.rows, criterion).stage == OPEN).mean())
    assert second == pytest.approx(found, abs=0.02)
    assert third <= second


@pytest.mark.usefixtures("_small_models_too")
def test_no_matrix_is_built_where_the_certificate_says_that_it_cannot_win(monkeypatch):
    rng = np.random.default_rng(0)
    centers, labels = rng.normal(size=(2500, 12)), rng.integers(0, 3, 2500)
    model = SVC(gamma=0.05).fit(centers, labels)
    monkeypatch.setattr(kernelite.planner.search.ProofProbe, "left", lambda *_: True)
    monkeypatch.setattr(kernelite.planner.proof_probe, "quadratic_form", None)
    plan = kernelite.compile(model, centers, plan="estimate").plan
    assert plan.chosen.is_exact
    assert any("would leave too many rows open" in note for note in plan.notes)


def test_cheap_models_and_polynomials_are_always_tried():
    rng = np.random.default_rng(0)
    for n, kernel in ((50, "rbf"), (2500, "poly2")):
        expansion = random_expansion(rng, n=n, d=2, gamma=50.0, kernel=kernel)
        sample = rng.normal(size=(40, 2))
        probe = ProofProbe(
            expansion, sample, Within(np.array([1e-12])), ExactEngine.prepare(expansion)
        )
        assert probe.left(np.zeros(2), 0.0)
