"""Kernel k-means: the nearest center in feature space."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import scale

import kernelite
from kernelite.sources import read
from kernelite.sources.nearest_means import kernel_kmeans
from kernelite.support.errors import InputError, UnsupportedModelError


def kernel(X, Z, gamma):
    return np.exp(-gamma * ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=-1))


def nearest(X, labels, Z, gamma, weights):
    """Labels by the definition: distances to weighted means in feature space."""
    distances = []
    for c in np.unique(labels):
        w = np.where(labels == c, weights, 0.0)
        w = w / w.sum()
        distances.append(1.0 - 2.0 * kernel(Z, X, gamma) @ w + w @ kernel(X, X, gamma) @ w)
    return np.unique(labels)[np.argmin(distances, axis=0)]


@pytest.mark.parametrize("data", [load_iris, load_wine])
@pytest.mark.parametrize("gamma", [0.01, 0.5])
@pytest.mark.parametrize("weighted", [False, True])
def test_labels_are_those_of_the_nearest_center(data, gamma, weighted):
    X, y = data(return_X_y=True)
    X, labels = scale(X), np.array(["a", "b", "c"])[y]
    rng = np.random.default_rng(0)
    weights = rng.random(len(X)) if weighted else np.ones(len(X))
    Z = np.concatenate([X, X + rng.normal(size=X.shape)])
    source = kernel_kmeans(X, labels, gamma, weights=weights if weighted else None)
    truth = nearest(X, labels, Z, gamma, weights)
    for guarantee in ("exact", "certified"):
        np.testing.assert_array_equal(
            kernelite.compile(source, Z, guarantee=guarantee).predict(Z), truth
        )


def test_bad_clusterings_are_refused():
    X = np.arange(6.0).reshape(3, 2)
    for options, found in (
        ({"labels": [0, 1]}, "3 values"),
        ({"labels": [0, 1, 1], "weights": [1.0, 1.0]}, "3 values"),
        ({"labels": [0, 1, 1], "weights": [1.0, -1.0, 1.0]}, "not negative"),
        ({"labels": [0, 1, 1], "weights": [1.0, 0.0, 0.0]}, "no weight"),
    ):
        with pytest.raises(InputError, match=found):
            kernel_kmeans(X, gamma=1.0, **options)


class KernelKMeans:
    """What tslearn's estimator keeps, for machines without tslearn."""

    __module__ = "tslearn.clustering.kmeans"

    def __init__(self, X, labels, kernel="rbf", gamma=None, weights=None):
        self._X_fit, self.labels_, self.kernel = X, labels, kernel
        self.kernel_params = None if gamma is None else {"gamma": gamma}
        self.sample_weight_ = np.ones(len(X)) if weights is None else weights

    def predict(self, X):
        flat, rows = self._X_fit.reshape(len(self._X_fit), -1), X.reshape(len(X), -1)
        gamma = (self.kernel_params or {}).get("gamma", 1.0 / flat.shape[1])
        K, w = kernel(rows, flat, gamma), self.sample_weight_
        means = [
            K[:, self.labels_ == c] @ w[self.labels_ == c] / w[self.labels_ == c].sum()
            for c in range(self.labels_.max() + 1)
        ]
        return np.argmax(means, axis=0)


@pytest.mark.parametrize("gamma", [None, 0.3])
def test_tslearns_rule_leaves_the_centers_norms_out(gamma):
    rng = np.random.default_rng(0)
    series = rng.normal(size=(40, 6, 1)) + np.repeat([0.0, 1.5], 20)[:, None, None]
    labels = np.repeat([0, 1], 20)
    labels[3] = 1
    model = KernelKMeans(series, labels, gamma=gamma, weights=rng.random(40))
    compiled = kernelite.compile(model, guarantee="exact")
    rows = rng.normal(size=(60, 6, 1)) + 0.7
    np.testing.assert_array_equal(compiled.predict(rows.reshape(60, 6)), model.predict(rows))


def test_tslearn_itself():
    clustering = pytest.importorskip("tslearn.clustering", reason="tslearn is not installed")
    rng = np.random.default_rng(0)
    series = rng.normal(size=(40, 5, 1)) + np.repeat([0.0, 2.0], 20)[:, None, None]
    model = clustering.KernelKMeans(
        2, kernel="rbf", kernel_params={"gamma": 0.2}, random_state=0
    ).fit(series)
    compiled = kernelite.compile(model, guarantee="exact")
    np.testing.assert_array_equal(compiled.predict(series.reshape(40, 5)), model.predict(series))


def test_other_clusterings_are_refused():
    series = np.zeros((4, 3, 1))
    with pytest.raises(UnsupportedModelError, match="kernel 'gak'"):
        read(KernelKMeans(series, np.array([0, 0, 1, 1]), kernel="gak"))
    series[0, 2] = np.nan
    with pytest.raises(UnsupportedModelError, match="different lengths"):
        read(KernelKMeans(series, np.array([0, 0, 1, 1])))
