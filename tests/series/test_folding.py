"""Every bound holds what an expansion's numbers are known to be off by: tried with large errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelite.backends.cpu.approximation import ApproximationEngine
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.local import LocalEngine
from kernelite.machine.exactly import Uncertainty
from kernelite.machine.expansion import KernelExpansion
from kernelite.series.approximation import Approximation, LocalSums, certify
from kernelite.series.cubic import cubic_form, cubic_tensor
from kernelite.series.series import quadratic_form
from kernelite.support.errors import InputError
from tests.helpers import random_expansion, scores_and_bounds

ERROR = 1e-6  # far above all rounding


def perturbed(rng, model, which):
    """A model whose numbers are off as far as may be, and what is known of that."""
    k, signs = model.n_outputs, rng.choice([-1.0, 1.0], size=model.coefficients.shape)
    exact, off = model, {"coefficients": np.zeros(k), "intercept": np.zeros(k)}
    if "gamma" in which:
        exact, off["gamma"] = (
            replace(exact, kernel=replace(model.kernel, gamma=model.gamma / (1.0 + ERROR))),
            ERROR,
        )
    if "centers" in which:
        moved = model.centers / (1.0 + ERROR * rng.choice([-1.0, 1.0], size=model.centers.shape))
        exact, off["centers"] = replace(exact, centers=moved), 1.01 * ERROR
    if "coefficients" in which:
        moved = model.coefficients + ERROR * signs
        exact = replace(exact, coefficients=moved)
        off["coefficients"] = np.full(k, ERROR * model.n_centers)
    if "intercept" in which:
        exact, off["intercept"] = replace(exact, intercept=model.intercept + ERROR), [ERROR] * k
    return replace(model, uncertainty=Uncertainty(**off)), exact


def answers(model, rows):
    """Scores and bounds of every engine that serves the model."""
    point = np.zeros(model.n_features)
    certificate, form = certify(model, point), quadratic_form(model, point)
    for fused in (True, False):
        engine = ApproximationEngine.prepare(Approximation(form, certificate), fused=fused)
        yield "form", *scores_and_bounds(engine.first.run(rows))
    yield "exact", *scores_and_bounds(ExactEngine.prepare(model).run(rows))
    if model.kernel.damps:
        tensors = [cubic_tensor(model, point, output) for output in range(model.n_outputs)]
        engine = ApproximationEngine.prepare(
            Approximation(form, certificate, cubic=cubic_form(tensors, 3)), fused=False
        )
        yield "cubic", *scores_and_bounds(engine.second(rows, engine.first.run(rows)))
        near = LocalEngine.prepare(model, LocalSums(np.full(model.n_outputs, 1e-9)))
        yield "local", *scores_and_bounds(near.run(rows))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    which=st.sets(st.sampled_from(["gamma", "centers", "coefficients", "intercept"]), min_size=1),
    gamma=st.sampled_from([1e-3, 0.1, 1.0]),
    kernel=st.sampled_from(["rbf", "poly2"]),
    away=st.sampled_from([0.0, 3.0]),
)
def test_bounds_hold_what_the_numbers_are_off_by(seed, which, gamma, kernel, away):
    rng = np.random.default_rng(seed)
    model = random_expansion(rng, n=12, d=3, k=2, gamma=gamma, kernel=kernel)
    model = replace(model, centers=model.centers + away)
    folded, exact = perturbed(rng, model, which)
    rows = np.concatenate([rng.normal(size=(20, 3)) + away, 5.0 * rng.normal(size=(5, 3))])
    truth = exact.scores(rows)
    for name, scores, bounds in answers(folded, rows):
        assert (np.abs(scores - truth) <= bounds).all(), name


def test_single_precision_holds_it_too():
    rng = np.random.default_rng(0)
    model = random_expansion(rng, n=400, d=60, gamma=0.01)
    model = replace(model, coefficients=np.abs(model.coefficients), intercept=[-1.0])
    plain = ExactEngine.prepare(model).single
    unsure = model.rounded(coefficients=ERROR, intercept=ERROR)
    folded = ExactEngine.prepare(unsure).single
    assert plain is not None
    assert folded is not None
    rows = rng.normal(size=(10, 60))
    np.testing.assert_allclose(folded.run(rows)[1] - plain.run(rows)[1], 2 * ERROR, rtol=1e-6)


def test_what_was_folded_can_only_grow():
    model = random_expansion(np.random.default_rng(1), k=2)
    assert model.known.coefficients.tolist() == [0.0, 0.0]
    once = model.rounded(units=3.0, gamma=1e-16)
    size = np.abs(model.coefficients).sum(axis=0)
    np.testing.assert_allclose(once.known.coefficients, 3.0 * 2.0**-53 * size, rtol=1e-5)
    twice = once.rounded(intercept=[1.0, 0.0], centers=2e-16)
    assert (twice.known.gamma, twice.known.centers) == (1e-16, 2e-16)
    assert twice.known.intercept[0] > 1.0 > twice.known.intercept[1]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"coefficients": [0.0], "intercept": [0.0, 0.0]}, "two numbers an output"),
        ({"coefficients": [-1.0], "intercept": [0.0]}, "`coefficients`"),
        ({"coefficients": [0.0], "intercept": [np.nan]}, "`intercept`"),
        ({"coefficients": [0.0], "intercept": [0.0], "gamma": -1.0}, "`gamma`"),
    ],
)
def test_errors_must_be_errors(fields, found):
    with pytest.raises(InputError, match=found):
        Uncertainty(**fields)


def test_an_uncertainty_of_other_outputs_is_refused():
    with pytest.raises(InputError, match="1 outputs"):
        KernelExpansion([[0.0]], [1.0], [0.0], gamma=1.0, uncertainty=Uncertainty.none(2))
