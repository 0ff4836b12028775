"""Sums of RBF kernels: one form for each, whose bounds add up; compared with scikit-learn's own."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer, StandardScaler

import kernelite
from kernelite.cli import main
from kernelite.sources import read
from kernelite.store.files import dumps, loads
from kernelite.support.errors import InputError
from tests.models import MACHINES, fitted

SUMS = [name for name in MACHINES if name.startswith("gpr") and " sum" in name]
EXACT = 1e-8

RNG = np.random.default_rng(1)
X, Z = RNG.normal(size=(60, 3)), RNG.normal(size=(25, 3))
Y = np.sin(X).sum(axis=1) + 0.1 * RNG.normal(size=60)
KERNEL = 2.0 * RBF(9.0) + 0.3 * RBF([2.0, 3.0, 4.0]) + ConstantKernel(0.2) + WhiteKernel(0.1)


def process(kernel=KERNEL, rows=X, y=Y, **options):
    return GaussianProcessRegressor(kernel, optimizer=None, alpha=0.1, **options).fit(rows, y)


def alone(model, sample, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer support vectors than features squared
        return kernelite.compile(model, sample, guarantee="none", on_invalid="ignore", **options)


def gap(ours, theirs):
    return np.abs(ours - theirs).reshape(len(ours), -1)


@pytest.mark.parametrize("share", [1e-2, 1e-5])
@pytest.mark.parametrize("name", SUMS)
def test_values_are_within_the_tolerance_that_is_asked_for(name, share):
    model, rows = fitted(name)
    rows = rows[:2000]
    theirs = model.predict(rows)
    limit = share * np.std(theirs.reshape(len(rows), -1), axis=0)
    for tolerance in (float(limit.min()), limit):
        compiled = kernelite.compile(model, rows, tolerance=tolerance)
        assert len(compiled.parts) == 2
        found = gap(compiled.predict(rows), theirs)
        assert (found <= tolerance + EXACT * np.abs(theirs).max()).all()


@pytest.mark.parametrize("name", SUMS)
def test_bounds_of_the_summands_add_up(name):
    model, rows = fitted(name)
    rows = rows[:2000]
    compiled = alone(model, rows, certificate=True)
    theirs = model.predict(rows)
    found, bound = gap(compiled.predict(rows), theirs), compiled.score_bound(rows)
    assert (found <= bound + EXACT * np.abs(theirs).max()).all()
    assert all(part.model.approximation is not None for part in compiled.parts)
    assert np.isfinite(bound).all()


@pytest.mark.parametrize("data", ["diabetes", "linnerud", "generated"])
def test_forms_serve_where_both_kernels_are_wide(data):
    _, rows = fitted(f"gpr {data} sum" + (", three targets" if data == "linnerud" else ""))
    y = np.tanh(rows @ np.linspace(-1.0, 1.0, rows.shape[1]) / 10.0)
    model = process(RBF(90.0) + 0.5 * RBF(200.0), rows[:100], y[:100], normalize_y=True)
    compiled = kernelite.compile(model, rows, tolerance=1e-3)
    found, stats = compiled.predict(rows, return_stats=True)
    assert (gap(found, model.predict(rows)) <= 1e-3).all()
    assert stats.open_share < 0.1


@st.composite
def kernels(draw):
    """Two or three RBF kernels with constants, one length scale or one a feature, and the rest."""
    constants, scales = st.floats(1e-3, 1e3), st.floats(0.3, 300.0)
    kernel = None
    for _ in range(draw(st.integers(2, 3))):
        length = draw(st.one_of(scales, st.lists(scales, min_size=3, max_size=3)))
        term = ConstantKernel(draw(constants)) * RBF(length)
        if draw(st.booleans()):
            term = term * RBF(draw(scales))
        kernel = term if kernel is None else kernel + term
    if draw(st.booleans()):
        kernel = kernel + ConstantKernel(draw(constants))
    return kernel + WhiteKernel(draw(st.floats(1e-2, 10.0)))


@settings(max_examples=40, deadline=None)
@given(kernels(), st.booleans(), st.integers(0, 2**32 - 1), st.sampled_from([1e-1, 1e-3, 1e-6]))
def test_no_certificate_is_violated(kernel, normalized, seed, tolerance):
    rng = np.random.default_rng(seed)
    rows, new = rng.normal(size=(30, 3)), 3.0 * rng.normal(size=(40, 3))
    model = process(kernel, rows, rng.normal(size=(30, 2)), normalize_y=normalized)
    theirs, deviations = model.predict(new, return_std=True)
    # Rounding of the library's own, whose terms may be far larger than their sum.
    size = kernel.diag(rows[:1])[0] * np.abs(model.alpha_).sum() * np.max(model._y_train_std)
    slack = 1e-12 * size + EXACT * np.abs(theirs).max()

    exact = kernelite.compile(model, guarantee="exact")
    certified = kernelite.compile(model, new, tolerance=tolerance)
    form = alone(model, new, certificate=True)
    assert (gap(exact.predict(new), theirs) <= slack).all()
    assert (gap(certified.predict(new), theirs) <= tolerance + slack).all()
    assert (gap(form.predict(new), theirs) <= form.score_bound(new) + slack).all()
    found = certified.predict(new, return_std=True)[1]
    assert found.shape == deviations.shape
    prior = np.max(exact.posterior.scaled(np.array(exact.posterior.diagonal)))
    np.testing.assert_allclose(found**2, deviations**2, rtol=1e-8, atol=1e-10 * prior)


@pytest.mark.parametrize("guarantee", ["certified", "exact", "none"])
def test_files_and_pickles_hold_sums(guarantee, tmp_path, capsys):
    model = process()
    compiled = kernelite.compile(model, X, guarantee=guarantee, on_invalid="ignore")
    compiled.save(tmp_path / "sum.kernelite")
    for again in (
        loads(dumps(compiled)),
        pickle.loads(pickle.dumps(compiled)),
        kernelite.load(tmp_path / "sum.kernelite"),
    ):
        np.testing.assert_array_equal(again.predict(Z), compiled.predict(Z))
        if guarantee != "none":
            for option in ("return_std", "return_cov"):
                ours = again.predict(Z, **{option: True})[1]
                np.testing.assert_allclose(ours, model.predict(Z, **{option: True})[1], atol=1e-9)
    if guarantee == "none":
        with pytest.raises(InputError, match="no variance"):
            compiled.predict(Z, return_std=True)
    assert main(["inspect", str(tmp_path / "sum.kernelite")]) == 0
    assert "sum of 2 RBF kernels, 60 support vectors" in capsys.readouterr().out


def test_a_file_with_a_posterior_of_other_kernels_is_refused():
    compiled = kernelite.compile(process(), guarantee="exact")
    posterior = compiled.posterior
    for amplitude in (1.0, np.ones(3), np.ones((2, 1))):
        with pytest.raises(InputError, match="2 kernels"):
            replace(compiled, posterior=replace(posterior, amplitude=amplitude))
    with pytest.raises(InputError, match="finite"):
        replace(posterior, amplitude=np.array([1.0, np.nan]))
    fewer = replace(posterior, factor=posterior.factor[:9, :9], weights=posterior.weights[:9])
    with pytest.raises(InputError, match="of 9 rows, but there are 60"):
        replace(compiled, posterior=fewer)


def test_the_constant_is_added_once_and_each_kernel_has_its_map():
    source = read(process())
    first, second = (part.machine for part in source.expansion.parts)
    assert first.preparation.input_map is None
    assert first.single.gamma == pytest.approx(0.5 / 81.0)
    np.testing.assert_allclose(second.preparation.input_map.scale, [1 / 2, 1 / 3, 1 / 4])
    assert second.single.intercept == 0.0
    np.testing.assert_allclose(
        second.single.coefficients / 0.3, first.single.coefficients / 2.0, rtol=1e-14
    )
    assert (first.posterior, second.posterior) == (None, None)
    np.testing.assert_allclose(source.posterior.amplitude, [2.0, 0.3])


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), process()),
        make_pipeline(PowerTransformer(), process()),
        BaggingRegressor(process(), 2, random_state=0, max_features=1.0),
        TransformedTargetRegressor(process(), transformer=StandardScaler()),
        GridSearchCV(process(), {"alpha": [0.1, 0.2]}, cv=2),
    ],
    ids=["scaler", "transformer", "bagging", "target", "search"],
)
def test_wrapped_sums(model):
    model.fit(X, Y)
    theirs = model.predict(Z)
    exact = kernelite.compile(model, X, guarantee="exact")
    np.testing.assert_allclose(exact.predict(Z), theirs, rtol=EXACT, atol=EXACT)
    certified = kernelite.compile(model, X, tolerance=1e-4)
    assert (gap(certified.predict(Z), theirs) <= 1e-4 + EXACT).all()
    if hasattr(model, "steps"):
        ours, deviations = (compiled.predict(Z, return_std=True)[1] for compiled in (exact, model))
        np.testing.assert_allclose(ours, deviations, rtol=EXACT)


def test_classifiers_of_two_classes_and_of_more():
    two = GaussianProcessClassifier(KERNEL, optimizer=None).fit(X, Y > 0)
    for guarantee in ("certified", "exact"):
        compiled = kernelite.compile(two, X, guarantee=guarantee)
        assert len(compiled.parts) == 2
        np.testing.assert_array_equal(compiled.predict(Z), two.predict(Z))
        np.testing.assert_allclose(compiled.predict_proba(Z), two.predict_proba(Z), atol=1e-9)
    three = GaussianProcessClassifier(KERNEL, optimizer=None).fit(X, np.digitize(Y, [-1, 1]))
    compiled = kernelite.compile(three, X)
    np.testing.assert_array_equal(compiled.predict(Z), three.predict(Z))
    np.testing.assert_allclose(compiled.predict_proba(Z), three.predict_proba(Z), atol=1e-9)


def test_ridges_take_these_kernels_too():
    for kernel, parts in ((RBF(2.0) * RBF(3.0), 0), (KERNEL, 2)):
        for y in (Y, Y[:, None], np.stack([Y, -Y], axis=1)):
            model = KernelRidge(kernel=kernel, alpha=0.1).fit(X, y)
            compiled = kernelite.compile(model, X)
            assert len(compiled.parts) == parts
            ours, theirs = compiled.predict(Z), model.predict(Z)
            assert ours.shape == theirs.shape
            assert (gap(ours, theirs) <= compiled.tolerance + EXACT).all()
    mixed = KernelRidge(kernel=RBF(2.0) + Matern(1.0), alpha=0.1).fit(X, Y)
    compiled = kernelite.compile(mixed, X)
    assert not compiled.parts  # one expansion, whose kernel is the sum
    np.testing.assert_allclose(compiled.predict(Z), mixed.predict(Z), rtol=1e-9, atol=1e-9)


def test_what_sums_cannot_have_is_refused_at_compile_time():
    with pytest.raises(InputError, match="guarantee='calibrated' serves one machine"):
        kernelite.compile(process(), X, guarantee="calibrated")


@pytest.mark.parametrize(("long_scale", "short_scale"), [(10.0, 0.05), (0.2, 0.02)])
def test_a_narrow_kernel_is_summed_over_near_centers(long_scale, short_scale):
    rng = np.random.default_rng(2)
    rows, new = rng.normal(size=(3000, 2)), 2.0 * rng.normal(size=(500, 2))
    y = np.sin(5.0 * rows).sum(axis=1)
    model = process(RBF(long_scale) + 0.1 * RBF(short_scale), rows, y)
    theirs = model.predict(new)
    compiled = kernelite.compile(model, new, plan="estimate")
    assert compiled.parts[1].model.local is not None
    ours, stats = compiled.predict(new, return_stats=True)
    assert (gap(ours, theirs) <= compiled.tolerance + EXACT).all()
    assert (gap(ours, theirs) <= compiled.score_bound(new) + EXACT).all()
    assert stats.open_share < 0.5
    # What near centers leave open for the whole is evaluated exactly, here nearly all rows.
    strict = replace(compiled, tolerance=1e-9 * compiled.tolerance)
    ours, stats = strict.predict(new, return_stats=True)
    assert gap(ours, theirs).max() < 1e-12 * np.abs(model.alpha_).sum()
    assert stats.exact > 400
