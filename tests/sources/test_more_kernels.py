"""Kernels that are matrices, functions, chi-squared, bumps, and Matern ones of other smoothness."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import gamma as gamma_function
from scipy.special import kv
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import KernelPCA
from sklearn.ensemble import BaggingClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import chi2_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM

import kernelite as kl
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import AdditiveChiSquared, Bump, ChiSquared, Matern
from kernelite.program.criteria import never
from tests.real_kernels import real_kernel

X, Y = load_iris(return_X_y=True)
ROWS = X[::3] + 0.01
K, K_ROWS = rbf_kernel(X, X, 0.3), rbf_kernel(ROWS, X, 0.3)

PRECOMPUTED: dict[str, BaseEstimator] = {
    "classes": SVC(kernel="precomputed").fit(K, Y),
    "two classes": SVC(kernel="precomputed", C=2.0).fit(K, Y == 1),
    "values": SVR(kernel="precomputed").fit(K, X[:, 0]),
    "outliers": OneClassSVM(kernel="precomputed").fit(K),
    "ridge": KernelRidge(kernel="precomputed").fit(K, X[:, :2]),
    "coordinates": KernelPCA(3, kernel="precomputed").fit(K),
}


@pytest.mark.parametrize("guarantee", ["certified", "exact"])
@pytest.mark.parametrize("name", PRECOMPUTED)
def test_kernel_values_are_taken_as_rows(name: str, guarantee: Any, tmp_path: Path) -> None:
    model = PRECOMPUTED[name]
    fast = kl.compile(model, K_ROWS, guarantee=guarantee)
    fast.save(tmp_path / "m.kernelite")
    for one in (fast, kl.load(tmp_path / "m.kernelite")):
        for method in ("predict", "decision_function", "score_samples", "transform"):
            if not hasattr(model, method):
                continue
            wanted = getattr(model, method)(K_ROWS)
            found = getattr(one, method)(K_ROWS)
            np.testing.assert_allclose(found, wanted, atol=1e-9)
            np.testing.assert_allclose(getattr(one, method)(K_ROWS[:1]), found[:1], atol=1e-12)
            if hasattr(model, "support_"):
                np.testing.assert_allclose(
                    getattr(one, method)(K_ROWS[:, model.support_]), found, atol=1e-12
                )
    assert "precomputed kernel" in fast.origin.description


def test_rows_of_another_width_are_refused() -> None:
    fast = kl.compile(PRECOMPUTED["classes"], K_ROWS)
    count = len(PRECOMPUTED["classes"].support_)
    with pytest.raises(kl.InputError) as caught:
        fast.predict(K_ROWS[:, :7])
    assert str(caught.value) == (
        "`X` has 7 columns, but this model takes kernel values with all 150 training rows, or "
        f"with its {count} support vectors."
    )


@pytest.mark.parametrize("name", ["search", "pipeline", "calibrated", "one vs rest", "bag"])
def test_kernel_values_inside_of_other_estimators(name: str) -> None:
    inner = SVC(kernel="precomputed")
    model = {
        "search": lambda: GridSearchCV(inner, {"C": [1.0, 2.0]}, cv=3),
        "pipeline": lambda: make_pipeline(StandardScaler(), inner),
        "calibrated": lambda: CalibratedClassifierCV(inner, cv=3),
        "one vs rest": lambda: OneVsRestClassifier(inner),
        "bag": lambda: BaggingClassifier(inner, 3, bootstrap=False),
    }[name]()
    try:
        model.fit(K, Y)
    except (TypeError, ValueError):
        pytest.skip("scikit-learn refuses it")
    fast = kl.compile(model, K_ROWS)
    np.testing.assert_array_equal(fast.predict(K_ROWS), model.predict(K_ROWS))


def histogram_intersection(Z: Any, V: Any) -> Any:
    return np.minimum(Z[:, None, :], V[None, :, :]).sum(axis=2)


def test_a_function_is_called_on_the_support_vectors_alone(tmp_path: Path) -> None:
    seen: list[int] = []

    def kernel(Z: Any, V: Any) -> Any:
        seen.append(len(V))
        return histogram_intersection(Z, V)

    model = SVC(kernel=kernel).fit(X, Y)
    fast = kl.compile(model, guarantee="exact")
    seen.clear()
    labels = fast.predict(ROWS)
    assert set(seen) == {len(model.support_)} != {len(X)}
    np.testing.assert_array_equal(labels, model.predict(ROWS))
    np.testing.assert_allclose(
        fast.decision_function(ROWS), model.decision_function(ROWS), rtol=1e-9
    )
    assert "Nothing is proven: this kernel is a Python function" in str(fast.plan)
    assert not fast.decided(ROWS).any()
    with pytest.raises(kl.KerneliteError, match=r"is a Python function, and a \.kernelite file"):
        fast.save(tmp_path / "m.kernelite")
    for target in ("m.onnx", "m.h"):
        with pytest.raises(kl.UnsupportedModelError, match="Python function"):
            fast.export(tmp_path / target)


def test_rows_that_are_no_numbers_are_refused() -> None:
    def kernel(Z: Any, V: Any) -> Any:
        return np.array([[float(len(set(a) & set(b))) for b in V] for a in Z])

    model = SVC(kernel=kernel).fit(np.array(["cat", "act", "dog", "god"]), [0, 0, 1, 1])
    with pytest.raises(kl.UnsupportedModelError, match="rows that are not served"):
        kl.compile(model, guarantee="exact")


def test_functions_of_two_rows_are_called_for_each_pair() -> None:
    def kernel(z: Any, x: Any) -> float:
        return float(np.minimum(z, x).sum())

    ridge = KernelRidge(kernel=kernel).fit(X[:40], Y[:40])
    fast = kl.compile(ridge, guarantee="exact")
    np.testing.assert_allclose(fast.predict(ROWS), ridge.predict(ROWS), atol=1e-9)


def test_what_is_not_proven_is_refused_where_proofs_are_asked_for() -> None:
    model = SVC(kernel=histogram_intersection).fit(X, Y)
    with pytest.raises(kl.UnsupportedModelError) as caught:
        kl.compile(model, X)
    assert str(caught.value) == (
        "the kernel of this SVC (the function histogram_intersection) is a Python function, of "
        "whose values nothing is known; use guarantee='exact'."
    )


def test_a_function_of_another_shape_is_refused() -> None:
    model = SVC(kernel=histogram_intersection).fit(X, Y)
    fast = kl.compile(model, guarantee="exact")
    object.__setattr__(fast.expansion.kernel, "function", lambda Z, V: np.zeros(3))
    with pytest.raises(kl.InputError, match="it must be one number for each pair"):
        fast.predict(ROWS)


CHI = {
    "ridge": KernelRidge(kernel="chi2", gamma=0.2).fit(X, Y),
    "ridge, additive": KernelRidge(kernel="additive_chi2", alpha=5.0).fit(X, Y),
    "features": Nystroem(kernel="chi2", gamma=0.1, n_components=20, random_state=0).fit(X),
}


@pytest.mark.parametrize("guarantee", ["certified", "exact"])
@pytest.mark.parametrize("name", CHI)
def test_chi_squared_kernels(name: str, guarantee: Any, tmp_path: Path) -> None:
    model = CHI[name]
    fast = kl.compile(model, X, guarantee=guarantee)
    fast.save(tmp_path / "m.kernelite")
    method = "predict" if hasattr(model, "predict") else "transform"
    wanted = getattr(model, method)(ROWS)
    for one in (fast, kl.load(tmp_path / "m.kernelite")):
        np.testing.assert_allclose(getattr(one, method)(ROWS), wanted, rtol=1e-6, atol=1e-6)
    with pytest.raises(kl.InputError, match="`X` has negative numbers, which a chi-squared"):
        getattr(fast, method)(-ROWS)


def test_labels_by_scikit_learns_own_function() -> None:
    images, digits = load_digits(return_X_y=True)
    model = SVC(kernel=chi2_kernel).fit(images[:300], digits[:300])
    fast = kl.compile(model, guarantee="exact")
    np.testing.assert_array_equal(fast.predict(images[300:500]), model.predict(images[300:500]))


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", ["tophat", "epanechnikov", "exponential", "linear", "cosine"])
def test_densities_with_other_bumps(kernel: str, weighted: bool, d: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(d)
    rows = rng.normal(size=(80, d))
    weights = rng.uniform(0.5, 2.0, 80) if weighted else None
    density = KernelDensity(kernel=kernel, bandwidth=0.7).fit(rows, sample_weight=weights)
    asked = np.concatenate([rows[:20], rng.normal(size=(20, d)), np.full((1, d), 900.0)])
    wanted = density.score_samples(asked)
    for guarantee in ("certified", "exact"):
        fast = kl.compile(density, rows, guarantee=guarantee)
        fast.save(tmp_path / "m.kernelite")
        for one in (fast, kl.load(tmp_path / "m.kernelite")):
            np.testing.assert_allclose(one.score_samples(asked), wanted, rtol=1e-6, atol=1e-6)
    assert np.isneginf(wanted[-1]) == (kernel != "exponential")


def test_a_density_that_is_no_number_is_refused() -> None:
    density = KernelDensity(kernel="cosine").fit(np.zeros((3, 4)))
    with pytest.raises(kl.UnsupportedModelError, match="scikit-learn's own densities are no num"):
        kl.compile(density)


@pytest.mark.parametrize("nu", [3.5, 4.5, 8.5])
def test_matern_kernels_with_a_closed_form_are_certified(nu: float) -> None:
    process = GaussianProcessRegressor(2.0 * sk.Matern(1.5, nu=nu) + sk.WhiteKernel(0.1))
    process.set_params(optimizer=None).fit(X, Y)
    fast = kl.compile(process, X)
    np.testing.assert_allclose(fast.predict(ROWS), process.predict(ROWS), atol=1e-8)
    r = np.geomspace(1e-3, 20.0, 50)
    a = math.sqrt(2.0 * nu) * r
    wanted = 2.0 ** (1.0 - nu) / gamma_function(nu) * a**nu * kv(nu, a)
    np.testing.assert_allclose(Matern((1.0,), nu).profile(r * r), wanted, rtol=1e-9)


def test_other_matern_kernels_still_rest_on_bessel_functions() -> None:
    process = GaussianProcessRegressor(sk.Matern(1.5, nu=0.7), optimizer=None).fit(X, Y)
    with pytest.raises(kl.UnsupportedModelError, match="rests on SciPy's Bessel functions, whose"):
        kl.compile(process, X)


BOUNDED = [
    ChiSquared(0.3),
    AdditiveChiSquared(),
    Bump((0.8,), "epanechnikov"),
    Bump((0.8,), "linear"),
    Bump((0.8,), "cosine"),
    Bump((0.8,), "tophat"),
    Matern((0.7,), 3.5),
    Matern((0.7, 2.0, 0.1), 8.5),
]


@pytest.mark.parametrize("kernel", BOUNDED, ids=lambda kernel: kernel.label)
def test_bounds_hold_in_ball_arithmetic(kernel: Any) -> None:
    flint = pytest.importorskip("flint")
    flint.ctx.prec = 300
    rng = np.random.default_rng(7)
    centers, rows = rng.uniform(0, 2, (12, 3)), rng.uniform(0, 2, (30, 3))
    rows[:3], rows[3] = centers[:3], 0.0
    rows[4:8] = centers[4:8] * (1.0 + 1e-13)
    centers[8:10, 0], rows[8:12, 0], rows[12] = 0.0, [0.0, 5e-324, 1e-310, 1e-160], 1e-308
    A = rng.normal(size=(12, 1))
    fast = kl.compile(KernelExpansion(centers, A, [0.3], kernel=kernel), guarantee="exact")
    found = fast._runner.evaluate(rows, slice(0, len(rows)), never)
    bounds = np.broadcast_to(np.asarray(found.bounds), found.scores.shape)
    for z, score, bound in zip(rows, found.scores[:, 0], bounds[:, 0]):
        exact = flint.arb(0.3)
        for a, x in zip(A[:, 0], centers):
            exact += flint.arb(float(a)) * real_value(flint, kernel, x, z)
        assert abs(flint.arb(float(score)) - exact) <= flint.arb(float(bound))
        assert bound < (40.0 if getattr(kernel, "shape", "") == "tophat" else 1e-11)


@pytest.mark.parametrize("kernel", [ChiSquared(0.3), AdditiveChiSquared()])
def test_a_chi_squared_kernel_takes_no_negative_numbers(kernel: Any) -> None:
    """Of centers nor of rows, one or many, by compiled loops as by the definition."""
    with pytest.raises(kl.InputError, match="`centers` have negative numbers, which a chi-squared"):
        KernelExpansion(X - 9.0, np.ones((len(X), 1)), [0.0], kernel=kernel)
    model = KernelExpansion(np.abs(X), np.ones((len(X), 1)), [0.0], kernel=kernel)
    fast, rows = kl.compile(model, guarantee="exact"), np.abs(X)
    rows[-1, -1] = -1e-300
    for some in (rows, rows[-1:]):
        with pytest.raises(kl.InputError, match="`X` has negative numbers, which a chi-squared"):
            fast.scores(some)


def real_value(flint: Any, kernel: Any, x: np.ndarray, z: np.ndarray) -> Any:
    """k(x, z) from its textbook formula."""
    arb, pairs = flint.arb, [(flint.arb(float(a)), flint.arb(float(b))) for a, b in zip(x, z)]
    if isinstance(kernel, ChiSquared | AdditiveChiSquared):
        return real_kernel(kernel, *map(list, zip(*pairs)))
    scales = np.broadcast_to(kernel.length_scale, len(x))
    squares = sum((((a - b) / arb(float(s))) ** 2 for (a, b), s in zip(pairs, scales)), arb(0))
    r = squares.sqrt() if squares > 0 else arb(0)
    if isinstance(kernel, Matern):
        p, f = round(kernel.nu - 0.5), math.factorial
        a = (2 * arb(kernel.nu)).sqrt() * r
        terms = (arb(f(p + i)) / (f(i) * f(p - i)) * (2 * a) ** (p - i) for i in range(p + 1))
        return (-a).exp() * arb(f(p)) / f(2 * p) * sum(terms, arb(0))
    if not r < 1:
        return arb(0)
    shapes = {"tophat": arb(1), "epanechnikov": 1 - squares, "linear": 1 - r}
    return shapes.get(kernel.shape, (arb.pi() * r / 2).cos())
