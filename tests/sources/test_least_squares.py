"""Least-squares SVMs from arrays, in three programs' conventions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

import kernelite
from kernelite.sources.least_squares import from_lssvmlab, from_shogun, least_squares_svm
from kernelite.support.errors import InputError

GAM = 10.0


def kernel(X, Z, gamma, amplitude=1.0):
    return amplitude * np.exp(-gamma * ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=-1))


def trained(X, y, gamma, amplitude=1.0):
    """alpha and b of the dual system, as LS-SVMlab solves it."""
    n = len(X)
    H = kernel(X, X, gamma, amplitude) + np.eye(n) / GAM
    v, nu = np.linalg.solve(H, y), np.linalg.solve(H, np.ones(n))
    b = (nu @ y) / nu.sum()
    return v - nu * b, b


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return (X[:120] - X.mean(axis=0)) / X.std(axis=0), y[:120] / 100.0


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return ((X - X.mean(axis=0)) / X.std(axis=0))[:150], np.where(y[:150], 1.0, -1.0)


@pytest.mark.parametrize(
    ("version", "times", "amplitude"),
    [("guide", 1.0, 1.0), ("1.7", 2.0, 1.0 / np.sqrt(2.0 * np.pi)), ("1.8", 2.0, 1.0)],
)
def test_lssvmlab_regression_in_every_version(version, times, amplitude):
    X, y = diabetes()
    sig2 = 40.0
    alpha, b = trained(X, y, 1.0 / (times * sig2), amplitude)
    source = from_lssvmlab(X, alpha, b, sig2, version=version, ytrain=y, gam=GAM)
    truth = kernel(X, X, 1.0 / (times * sig2), amplitude) @ alpha + b
    np.testing.assert_allclose(source.scores(X)[:, 0], truth, rtol=1e-10)
    compiled = kernelite.compile(source, X)
    assert np.abs(compiled.predict(X) - truth).max() <= compiled.tolerance[0]
    for other in {"guide", "1.7", "1.8"} - {version}:
        with pytest.raises(InputError, match=f"version='{version}'"):
            from_lssvmlab(X, alpha, b, sig2, version=other, ytrain=y, gam=GAM)


def test_lssvmlab_classification():
    X, y = cancer()
    alpha, b = trained(X, y, 1.0 / 60.0)
    source = from_lssvmlab(X, alpha, b, 60.0, type="c", ytrain=y, gam=GAM)
    truth = 2 * (kernel(X, X, 1.0 / 60.0) @ alpha + b > 0) - 1
    for guarantee in ("exact", "certified"):
        labels = kernelite.compile(source, X, guarantee=guarantee).predict(X)
        np.testing.assert_array_equal(labels, truth)
    assert source.head.predict(np.zeros((1, 1))).tolist() == [-1]  # 2 (0 > 0) - 1


def test_lssvmlab_preprocessing():
    rng = np.random.default_rng(0)
    raw, y = rng.normal(size=(50, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, -1.0], rng.normal(size=50)
    mean, std, y_mean, y_std = raw.mean(axis=0), raw.std(axis=0), 3.0, 2.0
    X = (raw - mean) / std
    alpha, b = trained(X, y, 0.2)
    source = from_lssvmlab(
        X, alpha, b, 5.0, x_mean=mean, x_std=std, y_mean=y_mean, y_std=y_std, ytrain=y, gam=GAM
    )
    truth = y_std * (kernel(X, X, 0.2) @ alpha + b) + y_mean
    ours = kernelite.compile(source, guarantee="exact").predict(raw)
    np.testing.assert_allclose(ours, truth, rtol=1e-10)


def test_shogun():
    X, y = cancer()
    alpha, b = trained(X, y, 1.0 / 50.0)
    f = kernel(X, X, 1.0 / 50.0) @ alpha + b
    source = from_shogun(X, alpha, b, 50.0)
    np.testing.assert_array_equal(kernelite.compile(source, X).predict(X), np.where(f >= 0, 1, -1))
    assert source.head.predict(np.zeros((1, 1))).tolist() == [1]
    values = from_shogun(X, alpha, b, 50.0, kind="regression").scores(X)[:, 0]
    np.testing.assert_allclose(values, f, rtol=1e-9)


def test_alphas_without_their_signs():
    X, y = cancer()
    alpha, b = trained(X, y, 0.02)
    given = least_squares_svm(X, alpha * y, b, 0.02, kind="classification", targets=y)
    np.testing.assert_allclose(given.expansion.coefficients[:, 0], alpha, rtol=1e-15)
    named = least_squares_svm(X, alpha, b, 0.02, kind="classification", classes=("bad", "good"))
    assert set(named.head.predict(named.scores(X))) == {"bad", "good"}


def test_several_outputs():
    X, y = diabetes()
    both = [trained(X, target, 0.02) for target in (y, -2.0 * y)]
    alphas, bias = np.stack([a for a, _ in both], axis=1), [b for _, b in both]
    source = least_squares_svm(X, alphas, bias, 0.02)
    np.testing.assert_allclose(source.scores(X)[:, 1], -2.0 * source.scores(X)[:, 0], rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda: least_squares_svm([[0.0]], [1.0], 0.0, 1.0, kind="ranking"), "`kind`"),
        (lambda: least_squares_svm([[0.0]], [1.0], 0.0, 1.0, targets=[2.0]), "`targets`"),
        (lambda: least_squares_svm([[0.0]], [np.nan], 0.0, 1.0), "`alphas`"),
        (lambda: least_squares_svm([[0.0]], ["x"], 0.0, 1.0), "`alphas`"),
        (
            lambda: least_squares_svm(
                [[0.0]], [[1.0, 2.0]], [0.0, 0.0], 1.0, kind="classification"
            ),
            "one output",
        ),
        (lambda: from_lssvmlab([[0.0]], [1.0], 0.0, 1.0, version="2.0"), "`version`"),
        (lambda: from_lssvmlab([[0.0]], [1.0], 0.0, 1.0, type="x"), "`type`"),
        (lambda: from_lssvmlab([[0.0]], [1.0], 0.0, 1.0, x_std=[0.0]), "`x_std`"),
    ],
)
def test_bad_arguments_are_named(call, found):
    with pytest.raises(InputError, match=found):
        call()
