"""`error_bound` of values: in the shape of what is predicted, so that they can be compared."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVR

import kernelite as kl

X = np.random.default_rng(0).normal(size=(60, 3))
Y = np.sin(X)


@pytest.mark.parametrize("columns", [0, [0], [0, 1]], ids=str)
def test_bounds_have_the_shape_of_values(columns: object) -> None:
    source = KernelRidge(kernel="rbf", gamma=0.05, alpha=0.1).fit(X, Y[:, columns])
    fast = kl.compile(source, X, guarantee="none", certificate=True, on_invalid="ignore")
    values, bounds = fast.predict(X), fast.error_bound(X)
    assert bounds.shape == values.shape == source.predict(X).shape
    assert (np.abs(values - source.predict(X)) <= bounds + 1e-12).all()
    np.testing.assert_array_equal(bounds.reshape(60, -1), fast.score_bound(X))


def test_bounds_of_what_is_transformed_afterwards_are_those_of_scores() -> None:
    source = TransformedTargetRegressor(SVR(), func=np.log, inverse_func=np.exp)
    fast = kl.compile(source.fit(X, np.exp(Y[:, 0])), X, guarantee="exact")
    assert fast.error_bound(X).shape == fast.scores(X).shape == (60, 1)
