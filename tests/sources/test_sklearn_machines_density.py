"""Kernel densities: tolerances as users know them, weights, far rows, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KernelDensity

import kernelite
from kernelite.machine.heads import DensityHead
from kernelite.sources import read
from kernelite.support.errors import InputError, UnsupportedModelError
from tests.answers import log_density

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2000, 3))
Z = np.concatenate([RNG.normal(size=(150, 3)), 4.0 * RNG.normal(size=(20, 3))])


def test_exact_log_densities_far_and_near():
    model = KernelDensity(bandwidth=0.2).fit(X)
    compiled = kernelite.compile(model, guarantee="exact")
    rows = np.concatenate([Z, 1e3 * Z[:5], 1e155 * Z[:2], 1e160 * Z[:1]])
    with np.errstate(over="ignore"):
        truth = log_density(model, rows)
    ours = compiled.score_samples(rows)
    np.testing.assert_allclose(ours, truth, rtol=1e-9)
    np.testing.assert_allclose(ours[:150], model.score_samples(Z[:150]), rtol=1e-9)
    assert ours[-1] == -np.inf
    assert ours[len(Z)] < -1e5


@pytest.mark.parametrize("bandwidth", [0.05, 0.3, "silverman", 20.0])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-5])
def test_certified_log_densities_are_within_the_tolerance(bandwidth, tolerance):
    model = KernelDensity(bandwidth=bandwidth).fit(X)
    compiled = kernelite.compile(model, Z, tolerance=tolerance)
    gap = np.abs(compiled.score_samples(Z) - log_density(model, Z)).max()
    assert gap <= tolerance * (1 + 1e-9)
    if bandwidth == 20.0:
        assert compiled.approximation is not None  # so wide that a form serves
    if bandwidth == 0.05:
        assert compiled.local is not None  # so narrow that near centers do


def test_the_tolerance_is_the_estimators_own():
    for rtol, expected in ((0.0, 1e-3), (0.05, 0.05)):
        compiled = kernelite.compile(KernelDensity(rtol=rtol, bandwidth=0.3).fit(X), Z)
        assert compiled.tolerance[0] == expected


def test_an_absolute_tolerance_serves_rows_of_small_density():
    atol = 1e-4
    model = KernelDensity(bandwidth=0.1, atol=atol).fit(X)
    compiled = kernelite.compile(model, Z, tolerance=1e-9)
    ours, truth = np.exp(compiled.score_samples(Z)), np.exp(log_density(model, Z))
    gap = np.abs(ours - truth)
    assert (gap <= atol + 1e-9 * truth).all()
    strict = kernelite.compile(KernelDensity(bandwidth=0.1).fit(X), Z, tolerance=1e-9)
    assert compiled.plan.chosen.nanoseconds < strict.plan.chosen.nanoseconds


def test_weights_count():
    weights = RNG.random(len(X)) * (RNG.random(len(X)) < 0.8)
    model = KernelDensity(bandwidth=0.3).fit(X, sample_weight=weights)
    for guarantee in ("exact", "certified"):
        compiled = kernelite.compile(model, Z, guarantee=guarantee)
        gap = np.abs(compiled.score_samples(Z) - log_density(model, Z)).max()
        assert gap <= 1e-3


def test_a_form_below_zero_has_no_logarithm():
    head = DensityHead(1.0)
    scores = np.array([[-0.1], [0.0], [1.0]])
    np.testing.assert_array_equal(head.score_samples(scores), [-np.inf, -np.inf, 1.0])
    assert not head.within("score_samples", scores[:2], np.full((2, 1), 1e-300), 0.5).any()


def test_within_is_about_the_logarithm():
    head = DensityHead(0.0)
    score, tolerance = 2.0, 0.25
    for share, expected in ((0.999, True), (1.001, False)):
        bound = score * -np.expm1(-tolerance) * share
        assert (
            head.within("score_samples", np.array([[score]]), np.array([[bound]]), tolerance)[0]
            == expected
        )
        worst = max(abs(np.log((score + side * bound) / score)) for side in (-1, 1))
        assert (worst <= tolerance) == expected


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"metric": "manhattan"}, "metric 'manhattan'"),
        ({"metric": "minkowski", "metric_params": {"p": 3}}, "metric 'minkowski'"),
    ],
)
def test_other_densities_are_refused(options, found):
    with pytest.raises(UnsupportedModelError, match=found):
        read(KernelDensity(**options).fit(X[:50]))


def test_unfitted_and_unsound_densities_are_refused():
    with pytest.raises(UnsupportedModelError, match="not fitted"):
        read(KernelDensity())
    for options in ({"log_scale": np.nan}, {"log_scale": 0.0, "atol": -1.0}):
        with pytest.raises(InputError):
            DensityHead(**options)


def test_metrics_that_are_euclidean_are_read():
    for metric in ("euclidean", "minkowski", "l2", "p"):
        model = KernelDensity(metric=metric, bandwidth=0.5).fit(X[:50])
        assert read(model).expansion.n_centers == 50
