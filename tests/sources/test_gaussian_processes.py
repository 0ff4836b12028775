"""Gaussian processes: which kernels are served, deviations and covariances, refusals."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

import kernelite
import kernelite.machine.variance
from kernelite.backends.cpu.variance import Covariances
from kernelite.sources import read
from kernelite.sources.kernel_trees import kernel_tree
from kernelite.support.errors import InputError, UnsupportedModelError
from tests.models import MACHINES, fitted

REGRESSORS = [name for name in MACHINES if name.startswith("gpr")]

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(40, 3)), RNG.normal(size=(9, 3))
Y = np.sin(X).sum(axis=1) + 0.1 * RNG.normal(size=40)


def process(kernel, **options):
    return GaussianProcessRegressor(kernel, optimizer=None, **{"alpha": 0.1, **options}).fit(X, Y)


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("guarantee", ["exact", "certified"])
def test_deviations_are_scikit_learns(name, guarantee):
    model, rows = fitted(name)
    rows = rows[:200]
    compiled = kernelite.compile(model, guarantee=guarantee)
    mean, deviation = compiled.predict(rows, return_std=True)
    their_mean, their_deviation = model.predict(rows, return_std=True)
    np.testing.assert_array_equal(mean, compiled.predict(rows))
    assert mean.shape == their_mean.shape
    assert deviation.shape == their_deviation.shape
    np.testing.assert_allclose(deviation, their_deviation, rtol=1e-8)


@pytest.mark.parametrize("name", REGRESSORS)
def test_covariances_are_scikit_learns(name):
    model, rows = fitted(name)
    rows = rows[:30]
    compiled = kernelite.compile(model, guarantee="exact")
    _, ours = compiled.predict(rows, return_cov=True)
    _, theirs = model.predict(rows, return_cov=True)
    # Both are differences of numbers as large as the prior's variance.
    prior = compiled.posterior.scaled(np.array(compiled.posterior.diagonal))
    np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-12 * np.max(prior))


def test_deviations_come_in_blocks(monkeypatch):
    model = process(2.0 * RBF(2.0))
    compiled = kernelite.compile(model, guarantee="exact")
    whole = compiled.predict(X, return_std=True)[1]
    monkeypatch.setattr("kernelite.data.rows.inputs.NUMBERS_PER_BLOCK", 1)
    assert compiled.posterior.block() == 16
    np.testing.assert_allclose(compiled.predict(X, return_std=True)[1], whole, rtol=1e-12)
    assert compiled.predict(X[:0], return_std=True)[1].shape == (0,)


@pytest.mark.parametrize("kernel", [RBF([1e-5, 1e-5, 9.0]), RBF(1e-5) + RBF(2.0)])
def test_deviations_at_the_shortest_length_scales(kernel):
    # Where optimisers end up; squared distances from norms would lose all digits there.
    model = process(kernel)
    compiled = kernelite.compile(model, guarantee="exact")
    for ours, theirs in zip(
        compiled.predict(X, return_std=True), model.predict(X, return_std=True)
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8)


def test_kernel_values_of_a_variance_are_computed_once(monkeypatch):
    """By several threads, in tiles: each row meets the centers once, as it does all at once."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(60, 3)), rng.normal(size=(1_500, 3))
    kernel = 2.0 * Matern(nu=1.5) + RBF(2.0) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, optimizer=None).fit(X, X.sum(axis=1))
    fast = kernelite.compile(process, X, guarantee="exact")
    seen = []
    values = Covariances.values_of

    def counted(self, p, rows):
        seen.append(len(rows))
        return values(self, p, rows)

    monkeypatch.setattr(Covariances, "values_of", counted)
    _, deviations = fast.predict(Z, return_std=True)
    assert sum(seen) == len(Z)  # the sum is one kernel
    assert len(seen) > 2
    expected = process.predict(Z, return_std=True)[1]
    np.testing.assert_allclose(deviations, expected, rtol=1e-9)


def test_variances_that_round_below_zero_become_zero():
    posterior = kernelite.compile(process(RBF(2.0)), guarantee="exact").posterior
    with pytest.warns(UserWarning, match="variances smaller than 0"):
        deviations = posterior.deviations(np.array([-1e-17, 0.25]))
    np.testing.assert_array_equal(deviations, [0.0, 0.5])


def test_a_factor_that_overflows_leaves_the_prior():
    model = kernelite.compile(process(RBF(2.0)), guarantee="exact")
    factor = model.posterior.factor.copy()
    factor[0, 0] = 1e-320
    singular = replace(model.posterior, factor=factor)
    found = singular.laid_out((model.expansion,)).variance((Z,))
    np.testing.assert_array_equal(found, np.full(len(Z), singular.diagonal))
    joint = singular.laid_out((model.expansion,)).covariance((Z,))
    assert np.isfinite(joint).all()
    np.testing.assert_array_equal(np.diagonal(joint), found)


@pytest.mark.parametrize("noise", [1.0, 1e-13])
def test_a_row_alone_has_the_variance_that_it_has_among_others(noise):
    """By solving, or by an inverse where the factor is well-conditioned."""
    rng = np.random.default_rng(1)
    X, rows = rng.normal(size=(50, 3)), rng.normal(size=(100, 3))
    kernel = RBF(9.0)
    model = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(X, X.sum(axis=1))
    latent = kernelite.compile(model, guarantee="exact")._latent
    assert (latent._inverse is not None) == (noise == 1.0)
    together, alone = latent.variance([rows]), [latent.variance([row[None]])[0] for row in rows]
    np.testing.assert_allclose(together, alone, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(together, model.predict(rows, return_std=True)[1] ** 2, atol=1e-7)
    transposed = replace(latent.posterior, factor=np.asfortranarray(latent.posterior.factor))
    again = [transposed.laid_out(latent.expansions).variance([row[None]])[0] for row in rows]
    np.testing.assert_allclose(again, alone, rtol=1e-9, atol=1e-9)


def test_several_classes_far_rows_and_rows_that_are_no_numbers():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 3))
    model = GaussianProcessClassifier(1.5 * RBF(1.0), optimizer=None).fit(X, np.arange(60) % 3)
    fast = kernelite.compile(model, X)
    rows = np.concatenate([X, 1e3 * X, rng.normal(size=(1_200, 3))])
    expected = model.predict_proba(rows)
    np.testing.assert_allclose(fast.predict_proba(rows), expected, rtol=1e-9, atol=1e-12)
    alone = np.concatenate([fast.predict_proba(row[None]) for row in rows[:50]])
    np.testing.assert_allclose(alone, expected[:50], rtol=1e-9, atol=1e-12)
    with pytest.raises(InputError, match="NaN"):
        fast.predict(np.full((1, 3), np.nan))


def test_what_cannot_be_had_is_refused():
    model = process(RBF(2.0))
    compiled = kernelite.compile(model, guarantee="exact")
    with pytest.raises(InputError, match="one of `return_std`"):
        compiled.predict(Z, return_std=True, return_cov=True)
    for other in (
        kernelite.compile(fitted("svr diabetes")[0], guarantee="exact"),
        kernelite.compile(fitted("gpr diabetes")[0], guarantee="none"),
    ):
        for option in ("return_std", "return_cov"):
            with pytest.raises(InputError, match="no variance"):
                other.predict(np.zeros((1, 10)), **{option: True})


@pytest.mark.parametrize(
    ("kernel", "parts"),
    [
        (RBF(2.0), (1.0, 0.25, 0.0, 0.0)),
        (3.0 * RBF(0.5) * ConstantKernel(2.0), (6.0, 4.0, 0.0, 0.0)),
        (RBF(1.0) * RBF(0.5), (1.0, 5.0, 0.0, 0.0)),
        ((2.0 * RBF(1.0)) ** 3, (8.0, 3.0, 0.0, 0.0)),
        (RBF(2.0) + RBF(2.0) + ConstantKernel(0.5), (2.0, 0.25, 0.5, 0.0)),
        ((RBF(2.0) + WhiteKernel(0.1)) * ConstantKernel(3.0), (3.0, 0.25, 0.0, 0.1 * 3.0)),
        ((1.0 + RBF(2.0)) * (2.0 + WhiteKernel(0.5)), (2.0, 0.25, 2.0, 1.0)),
        (Matern(2.0, nu=np.inf), (1.0, 0.25, 0.0, 0.0)),
        (RBF(2.0) + 3.0 * RBF(1.0) + RBF(2.0), ([2.0, 3.0], [0.25, 1.0], 0.0, 0.0)),
        ((RBF(1.0) + 2.0) * (RBF(2.0) + 0.0), ([1.0, 2.0], [1.25, 0.25], 0.0, 0.0)),
        ((RBF(1.0) + 1.0) ** 2, ([1.0, 2.0], [2.0, 1.0], 1.0, 0.0)),
        ((RBF(1.0) + WhiteKernel(0.5)) ** 2, (1.0, 2.0, 0.0, 1.25)),
        (WhiteKernel(0.5) ** 2 + RBF(1.0), (1.0, 1.0, 0.0, 0.25)),
        (0.0 * RBF(1.0) + RBF(2.0), (1.0, 0.25, 0.0, 0.0)),
    ],
)
def test_kernels_are_reduced(kernel, parts):
    found = kernel_tree(kernel, 3, "model")
    amplitudes, precisions, constant, noise = parts
    given = np.array(found.precisions, dtype=float)
    np.testing.assert_allclose(found.amplitudes, np.ravel(amplitudes))
    np.testing.assert_allclose(given.T, np.tile(precisions, (3, 1)))
    assert (found.constant, found.noise) == pytest.approx((constant, noise))
    assert found.diagonal == pytest.approx(kernel.diag(X)[0])
    values = found.amplitudes @ np.exp(-0.5 * (given @ (X[0] - Z[0]) ** 2))
    assert values + found.constant == pytest.approx(kernel(X[:1], Z[:1])[0, 0])


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (Matern(1.0, nu=1.5) ** 0.5, "the power 0.5 is none"),
        ((DotProduct() + RationalQuadratic()) ** 9, "the power 9 is none"),
        (DotProduct() * WhiteKernel(1.0) + ExpSineSquared(), "white noise is multiplied"),
        ((RBF(1.0) + 1.0) ** 0.5, "power 0.5 is none"),
        ((RBF(1.0) + RBF(2.0)) ** 7, "power 7 is none"),
        (ConstantKernel(2.0) + WhiteKernel(0.1), "no RBF in it"),
    ],
)
def test_other_kernels_are_refused_by_name(kernel, reason):
    labels = (Y > 0).astype(int)
    for model in (
        process(kernel, alpha=5000.0),  # some are not positive definite otherwise
        GaussianProcessClassifier(kernel, optimizer=None).fit(X, labels),
    ):
        with pytest.raises(UnsupportedModelError, match=reason):
            read(model)


def test_other_pairwise_kernels_are_refused():
    with pytest.raises(UnsupportedModelError, match="metric 'chi2' is not served"):
        kernel_tree(PairwiseKernel(metric="chi2"), 3, "model")


@pytest.mark.parametrize("metric", ["linear", "poly", "rbf", "laplacian", "sigmoid", "cosine"])
def test_pairwise_kernels(metric):
    model = process(PairwiseKernel(gamma=0.05, metric=metric), alpha=50.0)
    compiled = kernelite.compile(model, X)
    ours, theirs = compiled.predict(Z, return_std=True), model.predict(Z, return_std=True)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6)


@pytest.mark.parametrize("metric", ["rbf", "poly", "laplacian", "sigmoid", "cosine"])
def test_powers_of_pairwise_kernels(metric):
    """A power that is no kernel of the same kind is a product, not the kernel itself."""
    model = process((2.0 * PairwiseKernel(gamma=0.05, metric=metric)) ** 2, alpha=50.0)
    compiled = kernelite.compile(model, X)
    np.testing.assert_allclose(compiled.predict(Z), model.predict(Z), rtol=1e-9, atol=1e-9)


def test_powers_of_rbf_kernels_stand_beside_others():
    model = process((3.0 * RBF(1.5) * RBF([1.0, 2.0, np.inf])) ** 0.7 * Matern(2.0), alpha=0.5)
    compiled = kernelite.compile(model, X)
    ours, theirs = compiled.predict(Z, return_std=True), model.predict(Z, return_std=True)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6)


@pytest.mark.parametrize("nu", [0.3, 0.7, 3.0])
def test_other_matern_kernels_are_served_exactly_only(nu):
    model = process(2.0 * Matern(2.0, nu=nu), alpha=0.1)
    with pytest.raises(UnsupportedModelError, match="rests on SciPy's Bessel functions"):
        kernelite.compile(model, X)
    compiled = kernelite.compile(model, guarantee="exact")
    ours, theirs = compiled.predict(Z, return_std=True), model.predict(Z, return_std=True)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6)


def test_a_kernel_of_ones_own_is_refused():
    class Mine(RBF):
        pass

    with pytest.raises(UnsupportedModelError, match="Mine is not one of scikit-learn's own"):
        read(process(Mine(1.0)))


def test_unfitted_processes_are_refused():
    for model in (GaussianProcessRegressor(), GaussianProcessClassifier()):
        with pytest.raises(UnsupportedModelError, match="not fitted"):
            read(model)


def test_length_scales_per_feature_become_a_map():
    source = read(process(RBF([1.0, 2.0, 4.0])))
    assert source.expansion.gamma == 0.5
    np.testing.assert_allclose(source.preparation.input_map.scale, [1.0, 0.5, 0.25])
    assert read(process(RBF([2.0, 2.0, 2.0]))).preparation.input_map is None


def test_a_latent_mean_of_zero_is_the_first_class():
    # With a kernel so narrow that a far row meets nothing, the latent mean is 0.
    model = GaussianProcessClassifier(RBF(0.01), optimizer=None).fit([[0.0], [1.0]], ["b", "a"])
    compiled = kernelite.compile(model, guarantee="exact")
    np.testing.assert_array_equal(compiled.predict([[9.0]]), model.predict([[9.0]]))
    np.testing.assert_allclose(compiled.predict_proba([[9.0]]), model.predict_proba([[9.0]]))


@pytest.mark.parametrize("kind", ["deviations", "two classes", "three classes"])
def test_variances_that_have_lost_all_digits_are_told(kind):
    """(x.z + 1)^2 at an offset of thousands is 1e15, and leaves no digit of a variance of 1."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(40, 2))
    for offset, told in ((1e3 if kind == "deviations" else 4e3, True), (100.0, False)):
        X = offset + Z
        if kind == "deviations":
            model = GaussianProcessRegressor(DotProduct(1.0) ** 2, alpha=1e-2, optimizer=None)
            model.fit(X, np.sin(Z[:, 0]))
        else:
            classes = 2 if kind == "two classes" else 3
            y = np.digitize(Z[:, 0], np.linspace(-0.5, 0.5, classes - 1))
            model = GaussianProcessClassifier(DotProduct(1.0) ** 2, optimizer=None).fit(X, y)
        fast = kernelite.compile(model, X, guarantee="exact")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            rows = offset + rng.normal(size=(30, 2))
            if kind == "deviations":
                fast.predict(rows, return_std=True)
            else:
                fast.predict_proba(rows)
        assert any("lost all digits" in str(w.message) for w in said) == told
        if kind == "three classes":  # which are not proven in any case
            assert fast.decided(rows).tolist() == [False] * 30
            with pytest.raises(InputError, match="NaN"):
                fast.decided(np.full((1, 2), np.nan))


@pytest.mark.parametrize("outputs", [1, 2])
def test_samples_are_drawn_as_scikit_learn_draws_them(outputs):
    targets = Y if outputs == 1 else np.column_stack([Y, 2.0 * Y])
    model = GaussianProcessRegressor(RBF(2.0), optimizer=None, alpha=0.1, normalize_y=True)
    model.fit(X, targets)
    compiled = kernelite.compile(model, X, tolerance=1e-9)
    ours, theirs = (one.sample_y(Z, n_samples=4, random_state=7) for one in (compiled, model))
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, atol=1e-4)  # a singular vector's last digits may turn
    assert not hasattr(kernelite.compile(model, X, guarantee="none"), "sample_y")


def test_how_classes_were_coupled_counts_not_what_was_set_since():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.digitize(X[:, 0], [-0.4, 0.4])
    model = GaussianProcessClassifier(RBF(1.0), optimizer=None).fit(X, y)
    model.multi_class = "one_vs_one"
    fast = kernelite.compile(model, guarantee="exact")
    np.testing.assert_array_equal(fast.predict(X), model.predict(X))
