"""Gradients: against balls and differences, behind maps, of deviations and densities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

import kernelite as kl
from kernelite.machine.kernels import (
    ExpSineSquared,
    Gaussian,
    Laplacian,
    Matern,
    PolynomialKernel,
    ProductKernel,
    RationalQuadratic,
    Rbf,
    SigmoidKernel,
    SumKernel,
)
from kernelite.support.errors import InputError, UnsupportedModelError
from tests.real_kernels import real_kernel

SCALES = (0.7, 1.3, 2.0)
KERNELS: dict[str, Any] = {
    "rbf": Gaussian(0.3),
    "poly2": PolynomialKernel(2, 0.3, 0.5),
    "ard": Rbf(SCALES),
    "matern 1/2": Matern(SCALES, 0.5),
    "matern 3/2": Matern((1.5,), 1.5),
    "matern 5/2": Matern(SCALES, 2.5),
    "rational": RationalQuadratic((2.0,), 0.7),
    "laplacian": Laplacian(0.4),
    "linear": PolynomialKernel(1, 0.5, 1.0),
    "cubic": PolynomialKernel(3, 0.2, 1.0),
    "sigmoid": SigmoidKernel(0.3, -0.2),
    "sum": SumKernel((2.0, 0.5), (Matern((1.0,), 2.5), PolynomialKernel(2, 0.1, 1.0))),
    "product": ProductKernel((Rbf((2.0,)), PolynomialKernel(1), Laplacian(0.1))),
}


def expansion_of(name: str, rng: np.random.Generator, offset: float = 0.0) -> kl.KernelExpansion:
    n = int(rng.integers(1, 12))
    return kl.KernelExpansion(
        offset + rng.normal(size=(n, 3)),
        rng.normal(size=(n, 2)) * 10.0 ** rng.uniform(-2, 3),
        rng.normal(size=2),
        kernel=KERNELS[name],
    )


def real_value(expansion: kl.KernelExpansion, z: list[Any], output: int) -> Any:
    total = arb(float(expansion.intercept[output]))
    for center, weight in zip(expansion.dense_centers(), expansion.coefficients[:, output]):
        x = [arb(float(value)) for value in center]
        total += arb(float(weight)) * real_kernel(expansion.kernel, x, z)
    return total


@pytest.mark.parametrize("name", KERNELS)
def test_bounds_hold_in_ball_arithmetic(name: str) -> None:
    """Central differences of 2^-200 in 1200 bits: what they leave out is below every bound."""
    before, ctx.prec = ctx.prec, 1200
    step = arb(2) ** -200
    try:
        for seed in range(4):
            rng = np.random.default_rng(seed)
            expansion = expansion_of(name, rng, 100.0 if seed == 3 and name != "product" else 0.0)
            fast = kl.compile(expansion, guarantee="exact")
            row = expansion.dense_centers()[:1] + rng.normal(size=(1, 3))
            values, found, bounds = fast.gradient(row, return_value=True, return_bound=True)
            assert np.allclose(values, expansion.scores(row), rtol=1e-9, atol=1e-9)
            for output in range(2):
                for place in range(3):
                    up, down = ([arb(float(value)) for value in row[0]] for _ in range(2))
                    up[place] += step
                    down[place] -= step
                    real = real_value(expansion, up, output) - real_value(expansion, down, output)
                    real /= 2 * step
                    off = abs(arb(float(found[0, output, place])) - real)
                    assert off <= arb(float(bounds[0, output, place])) + arb(2) ** -100
            if seed < 3:  # far from zero, polynomials are huge
                assert bounds.max() < 1e-9 * (1.0 + np.abs(expansion.coefficients).sum())
    finally:
        ctx.prec = before


def differences(function: Any, row: np.ndarray, step: float = 1e-5) -> np.ndarray:
    found = []
    for place in range(row.shape[1]):
        up, down = row.copy(), row.copy()
        up[0, place] += step
        down[0, place] -= step
        found.append((np.asarray(function(up))[0] - np.asarray(function(down))[0]) / (2 * step))
    return np.stack(found, axis=-1)


def test_gradients_go_through_scalers_selections_and_projections() -> None:
    from sklearn.decomposition import PCA
    from sklearn.feature_selection import SelectKBest
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, SVR

    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5)) * [1.0, 10.0, 0.1, 2.0, 3.0] + 5.0
    y = np.sin(X[:, 0]) + X[:, 1] / 10
    models = [
        make_pipeline(StandardScaler(), SVR()).fit(X, y),
        make_pipeline(SelectKBest(k=3), StandardScaler(), SVR()).fit(X, y > y.mean()),
        make_pipeline(StandardScaler(), PCA(3), SVR()).fit(X, y),
        make_pipeline(StandardScaler(), SVC()).fit(X, np.digitize(y, [0.3, 1.0])),
    ]
    for model in models:
        fast = kl.compile(model, X, guarantee="exact")
        found, bounds = fast.gradient(X[:1], return_bound=True)
        true = differences(fast.scores, X[:1])
        assert np.allclose(found, true.reshape(found.shape), atol=1e-6)
        assert found.shape == bounds.shape
        assert (bounds < 1e-9).all()
        assert np.array_equal(fast.gradient(X[:1]), found)


def test_gaussian_processes_have_gradients_of_mean_and_deviation() -> None:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel

    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    kernels = (
        2.0 * Matern([1.0, 2.0], nu=2.5) + WhiteKernel(0.01),
        RBF(1.0) + 0.5 * RBF([2.0, 0.5]) + WhiteKernel(0.01),
    )
    for kernel in kernels:
        model = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True)
        model.fit(X, np.sin(X).sum(axis=1))
        fast = kl.compile(model, X, guarantee="exact")
        row = np.array([[0.3, -0.4]])
        assert np.allclose(fast.gradient(row), differences(model.predict, row)[None], atol=1e-7)
        values, found = fast.gradient(row, of="std", return_value=True)
        assert np.allclose(values, model.predict(row, return_std=True)[1], rtol=1e-8)
        true = differences(lambda rows, m=model: m.predict(rows, return_std=True)[1], row)
        assert np.allclose(found, true[None], atol=1e-7)


def deviation_gradient(
    posterior: Any, X: np.ndarray, terms: list[tuple[float, Any]], row: np.ndarray
) -> list[Any]:
    """Central differences of the standard deviation, in balls: the stored factor is exact."""
    L = [[arb(float(value)) for value in line] for line in posterior.factor]
    centers = [[arb(float(value)) for value in line] for line in X]
    step = arb(2) ** -200

    def deviation(z: list[Any]) -> Any:
        solved: list[Any] = []
        for i, weight in enumerate(posterior.weights):
            total = arb(float(posterior.constant))
            for amplitude, kernel in terms:
                total += arb(amplitude) * real_kernel(kernel, centers[i], z)
            total *= arb(float(weight))
            total -= sum((L[i][j] * solved[j] for j in range(i)), arb(0))
            solved.append(total / L[i][i])
        left = arb(float(posterior.diagonal)) - sum((one * one for one in solved), arb(0))
        return arb(float(posterior.output_scales[0])) * left.sqrt()

    found = []
    for place in range(len(row)):
        up, down = ([arb(float(value)) for value in row] for _ in range(2))
        up[place] += step
        down[place] -= step
        found.append((deviation(up) - deviation(down)) / (2 * step))
    return found


@pytest.mark.parametrize("noise", [0.1, 1e-6, 1e-10])
@pytest.mark.parametrize("name", ["rbf", "ard", "matern", "rational", "two", "product"])
def test_bounds_of_deviations_hold_in_ball_arithmetic(name: str, noise: float) -> None:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process import kernels as gp

    made: dict[str, tuple[Any, list[tuple[float, Any]]]] = {
        "rbf": (1.5 * gp.RBF(0.8), [(1.5, Rbf((0.8,)))]),
        "ard": (gp.RBF([0.7, 2.0]), [(1.0, Rbf((0.7, 2.0)))]),
        "matern": (2.0 * gp.Matern([1.0, 0.5], nu=2.5), [(2.0, Matern((1.0, 0.5), 2.5))]),
        "rational": (gp.RationalQuadratic(1.2, 0.7), [(1.0, RationalQuadratic((1.2,), 0.7))]),
        "two": (
            gp.RBF(1.0) + 0.5 * gp.Matern([2.0, 0.5], nu=1.5),
            [(1.0, Rbf((1.0,))), (0.5, Matern((2.0, 0.5), 1.5))],
        ),
        "product": (
            gp.RBF(1.0) * gp.Matern(2.0, nu=2.5) + gp.ConstantKernel(0.3),
            [(1.0, ProductKernel((Rbf((1.0,)), Matern((2.0,), 2.5))))],
        ),
    }
    kernel, terms = made[name]
    before, ctx.prec = ctx.prec, 1200
    try:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(9, 2))
        model = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None, normalize_y=True).fit(
            X, rng.normal(size=9)
        )
        fast = kl.compile(model, X, guarantee="exact")
        rows = np.concatenate(
            [rng.normal(size=(3, 2)), X[:1] + 1e-3, 5.0 * rng.normal(size=(1, 2))]
        )
        values, found, bounds = fast.gradient(rows, of="std", return_value=True, return_bound=True)
        assert np.allclose(values, model.predict(rows, return_std=True)[1], rtol=1e-6)
        for place, row in enumerate(rows):
            for j, real in enumerate(deviation_gradient(fast.posterior, X, terms, row)):
                off = abs(arb(float(found[place, j])) - real)
                assert off <= arb(float(bounds[place, j])) + arb(2) ** -100
        assert np.isfinite(bounds).all() or noise < 1e-6
        assert bounds[:3].max() < 1e-11 / noise
    finally:
        ctx.prec = before


def test_deviations_whose_factor_is_all_but_singular_have_infinite_bounds() -> None:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    X = np.linspace(0.0, 1e-3, 12)[:, None]
    model = GaussianProcessRegressor(RBF(1.0), alpha=1e-15, optimizer=None).fit(X, X[:, 0])
    fast = kl.compile(model, X, guarantee="exact")
    _, bounds = fast.gradient(X[:2], of="std", return_bound=True)
    assert np.isinf(bounds).all()


def test_log_densities_have_gradients() -> None:
    from sklearn.neighbors import KernelDensity

    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    model = KernelDensity(bandwidth=0.7).fit(X)
    fast = kl.compile(model, X)
    values, found, bounds = fast.gradient(X[:1], return_value=True, return_bound=True)
    assert np.allclose(values, model.score_samples(X[:1]))
    assert np.allclose(found, differences(model.score_samples, X[:1])[None], atol=1e-6)
    assert (bounds < 1e-10).all()
    with pytest.raises(InputError, match="underflows"):
        fast.gradient(X[:1] + 1e6)


def test_a_model_without_support_vectors_is_flat() -> None:
    from sklearn.svm import SVR

    X = np.random.default_rng(0).normal(size=(20, 2))
    fast = kl.compile(SVR(epsilon=10.0).fit(X, X[:, 0]), X, guarantee="exact")
    values, found, bounds = fast.gradient(X[:3], return_value=True, return_bound=True)
    assert np.allclose(values, fast.predict(X[:3]))
    assert (found == 0.0).all()
    assert (bounds < 1e-200).all()
    assert (fast.shap_values(X[:3], X).values == 0.0).all()


def test_kinks_have_infinite_bounds() -> None:
    for name in ("laplacian", "matern 1/2"):
        expansion = expansion_of(name, np.random.default_rng(0))
        fast = kl.compile(expansion, guarantee="exact")
        _, bounds = fast.gradient(expansion.dense_centers()[:1], return_bound=True)
        assert np.isinf(bounds).all()


def test_what_has_no_gradient_gets_a_sentence() -> None:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import QuantileTransformer
    from sklearn.svm import SVC

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    periodic = kl.KernelExpansion(X, X[:, 0], 0.0, kernel=ExpSineSquared(1.0, 2.0))
    with pytest.raises(UnsupportedModelError, match="ExpSineSquared"):
        kl.compile(periodic, guarantee="exact").gradient(X[:1])
    steps = make_pipeline(QuantileTransformer(n_quantiles=10), SVC()).fit(X, X[:, 0] > 0)
    with pytest.raises(UnsupportedModelError, match="derivatives are not taken"):
        kl.compile(steps, X).gradient(X[:1])
    fast = kl.compile(SVC().fit(X, X[:, 0] > 0), X)
    with pytest.raises(InputError, match="`of` must be"):
        fast.gradient(X[:1], of="label")
    with pytest.raises(InputError, match="NaN"):
        fast.gradient(np.full((1, 2), np.nan))
    with pytest.raises(InputError, match="no variance"):
        fast.gradient(X[:1], of="std")
