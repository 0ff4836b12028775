"""Kernel discriminant analysis: projections and nearest class means."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import scale

import kernelite
from kernelite.sources.nearest_means import (
    discriminant_classifier,
    discriminant_projection,
)
from kernelite.support.errors import InputError

GAMMA = 0.05


def fitted(data):
    """Directions that separate class means, and the projected training rows."""
    X, y = data(return_X_y=True)
    X = scale(X)
    K = np.exp(-GAMMA * ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=-1))
    M = np.stack([K[:, y == c].mean(axis=1) for c in np.unique(y)])
    within = sum(np.cov(K[:, y == c], bias=True) for c in np.unique(y))
    A = np.linalg.solve(within + 1e-2 * np.eye(len(X)), (M - M.mean(axis=0)).T)
    return X, y, A, K @ A


@pytest.mark.parametrize("data", [load_iris, load_wine])
def test_projections(data):
    X, _, A, projected = fitted(data)
    source = discriminant_projection(X, A, GAMMA, intercept=[1.0, 0.0, -1.0])
    exact = kernelite.compile(source, guarantee="exact").transform(X)
    shifted = projected + np.array([1.0, 0.0, -1.0])
    np.testing.assert_allclose(exact, shifted, rtol=1e-8, atol=1e-8)
    certified = kernelite.compile(source, X)
    gap = np.abs(certified.transform(X) - exact).max(axis=0)
    assert (gap <= certified.tolerance).all()


@pytest.mark.parametrize("data", [load_iris, load_wine])
def test_labels_are_those_of_the_nearest_mean(data):
    X, y, A, projected = fitted(data)
    judge = NearestCentroid().fit(projected, y)
    source = discriminant_classifier(X, A, GAMMA, judge.classes_, judge.centroids_)
    for guarantee in ("exact", "certified"):
        labels = kernelite.compile(source, X, guarantee=guarantee).predict(X)
        np.testing.assert_array_equal(labels, judge.predict(projected))


def test_priors_move_the_border():
    X, y, A, projected = fitted(load_iris)
    means = np.stack([projected[y == c].mean(axis=0) for c in range(3)])
    priors = np.array([0.1, 0.8, 0.1])
    source = discriminant_classifier(X, A, GAMMA, [0, 1, 2], means, priors=priors)
    squares = ((projected[:, None, :] - means[None]) ** 2).sum(axis=-1)
    truth = np.argmax(-0.5 * squares + np.log(priors), axis=1)
    np.testing.assert_array_equal(source.head.predict(source.scores(X)), truth)


def test_bad_arguments_are_named():
    for options, found in (
        ({"means": [[0.0, 1.0]]}, "`means`"),
        ({"means": [[0.0], [np.inf]]}, "`means`"),
        ({"means": [[0.0], [1.0]], "priors": [0.5, 0.0]}, "`priors`"),
    ):
        with pytest.raises(InputError, match=found):
            discriminant_classifier([[0.0]], [1.0], 1.0, [0, 1], **options)
