"""Estimators that name their kernel: KernelRidge, KernelPCA, Nystroem, LabelSpreading."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.decomposition import KernelPCA
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.semi_supervised import LabelPropagation, LabelSpreading

import kernelite
from kernelite.sources import read
from kernelite.sources.common import fold_linear
from kernelite.sources.sklearn_machines import nystroem_expansion
from kernelite.support.errors import InputError, UnsupportedModelError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4))
Y = RNG.normal(size=30)
LABELS = np.where(np.arange(30) % 3, np.arange(30) % 2, -1)


@pytest.mark.parametrize("make", [KernelRidge, KernelPCA, Nystroem])
def test_functions_with_parameters_are_refused(make):
    size = {"n_components": 3} if make is not KernelRidge else {}
    own = {"kernel": lambda a, b, scale: scale * float(a @ b), "kernel_params": {"scale": 2.0}}
    model = make(**own, **size).fit(X, Y)
    found = "a callable as kernel, with parameters or rows that are not served"
    with pytest.raises(UnsupportedModelError, match=f"this {make.__name__} has {found}"):
        read(model)


def test_columns_of_a_matrix_that_nystroem_chose_are_refused():
    model = Nystroem(kernel="precomputed", n_components=len(X)).fit(X @ X.T)
    with pytest.raises(UnsupportedModelError, match="kernel 'precomputed', so it holds no vectors"):
        read(model)


@pytest.mark.parametrize("make", [KernelRidge, KernelPCA, Nystroem, LabelPropagation])
def test_unfitted_estimators_are_refused(make):
    with pytest.raises(UnsupportedModelError, match=f"this {make.__name__} is not fitted"):
        read(make())


def test_label_spreading_over_neighbours_is_refused():
    for kernel, found in (("knn", "kernel 'knn'"), (lambda a, b: np.exp(a @ b.T), "a callable")):
        model = LabelSpreading(kernel=kernel, n_neighbors=3).fit(X, LABELS)
        with pytest.raises(UnsupportedModelError, match=found):
            read(model)


def test_rows_out_of_reach_of_all_labels():
    model = LabelSpreading(gamma=20.0).fit(X, LABELS)
    compiled = kernelite.compile(model, X)
    far = np.full((2, 4), 1e3)
    with pytest.warns(RuntimeWarning, match="invalid value"):
        theirs = model.predict_proba(far)
    assert np.isnan(theirs).all()
    assert np.isnan(compiled.predict_proba(far)).all()
    with pytest.warns(RuntimeWarning, match="invalid value"):
        np.testing.assert_array_equal(compiled.predict(far), model.predict(far))


def test_the_null_space_of_kernel_pca_stays_zero():
    twice = np.concatenate([X[:5], X[:5]])
    model = KernelPCA(8, kernel="rbf", gamma=0.1, eigen_solver="dense").fit(twice)
    compiled = kernelite.compile(model, guarantee="exact")
    np.testing.assert_allclose(compiled.transform(X), model.transform(X), atol=1e-6)


def test_centering_is_folded():
    model = KernelPCA(3, kernel="rbf", gamma=0.1).fit(X)
    expansion = read(model).expansion
    np.testing.assert_allclose(expansion.coefficients.sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(expansion.scores(X), model.transform(X), atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_linear_model_on_features_is_one_expansion(sparse):
    rows = csr_array(X) if sparse else X
    features = Nystroem(gamma=0.2, n_components=10, random_state=0).fit(rows)
    for linear, target in (
        (LinearRegression(), Y),
        (LinearRegression(), np.stack([Y, -2 * Y], axis=1)),
        (LogisticRegression(), np.arange(30) % 3),
    ):
        linear.fit(features.transform(rows), target)
        folded = fold_linear(nystroem_expansion(features), linear.coef_, linear.intercept_)
        predict = getattr(linear, "decision_function", linear.predict)
        theirs = predict(features.transform(rows)).reshape(len(X), -1)
        np.testing.assert_allclose(folded.scores(rows), theirs, rtol=1e-9, atol=1e-9)


def test_folding_checks_the_width():
    expansion = nystroem_expansion(Nystroem(n_components=3, random_state=0).fit(X))
    with pytest.raises(InputError, match="`weights` must have 3 columns"):
        fold_linear(expansion, np.ones((2, 4)))
