"""Before any kernel is compiled, the twins give the same labels, and values within their bounds."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_iris
from sklearn.kernel_ridge import KernelRidge
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernelite
from kernelite.cpu.kernels import densify
from kernelite.errors import InputError

X, y = load_iris(return_X_y=True)


@pytest.fixture
def nothing_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every kernel were still being compiled."""
    kernelite.warm_up()  # loads the modules
    for name, module in list(sys.modules.items()):
        if name.startswith("kernelite.") and callable(getattr(module, "ready", None)):
            monkeypatch.setattr(module, "ready", lambda kernel: False)


MODELS: dict[str, Any] = {
    "form": SVC(gamma=0.01).fit(X, y),
    "mapped": make_pipeline(StandardScaler(), SVC(gamma=0.02, C=5)).fit(X, y),
    "wide gamma": SVC(gamma=1.0).fit(X, y),
    "values": KernelRidge(kernel="rbf", gamma=0.02).fit(X, X[:, 0] ** 2),
    "density": KernelDensity(bandwidth=0.3).fit(X[:, :2]),
}


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_the_same(name: str, request: pytest.FixtureRequest) -> None:
    model = MODELS[name]
    rows = X[:, : model.n_features_in_] + np.random.default_rng(0).normal(0, 0.3, (150, 1))
    fast = kernelite.compile(model, X[:, : model.n_features_in_])
    method = "score_samples" if name == "density" else "predict"
    expected = getattr(fast, method)(rows)
    request.getfixturevalue("nothing_is_ready")
    given = getattr(kernelite.compile(model, X[:, : model.n_features_in_]), method)(rows)
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(given, expected, atol=1e-2)  # each within its tolerance
        np.testing.assert_allclose(getattr(model, method)(rows), given, atol=1e-2)
    else:
        assert given.tolist() == expected.tolist() == model.predict(rows).tolist()


@pytest.mark.usefixtures("nothing_is_ready")
def test_sparse_rows() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(200, 30)) * (rng.random((200, 30)) < 0.1)
    model = SVC(gamma=0.05).fit(csr_array(rows), rows[:, 0] > 0)
    fast = kernelite.compile(model, csr_array(rows))
    assert (fast.predict(csr_array(rows)) == model.predict(csr_array(rows))).all()


@pytest.mark.usefixtures("nothing_is_ready")
def test_scattering() -> None:
    rng = np.random.default_rng(2)
    rows = csr_array(rng.normal(size=(20, 7)) * (rng.random((20, 7)) < 0.3))
    assert (densify.dense_rows(rows) == rows.toarray()).all()
    later = densify.scattered(rows.indptr[3:], rows.indices, rows.data, 7)
    assert (later == rows.toarray()[3:]).all()
    for indices in ([1, 0], [0, 0], [0, 7], [-1, 1]):
        starts = np.array([0, 0, 2])
        with pytest.raises(InputError, match="row 1 are not increasing or not below 7"):
            densify.scattered(starts, np.array(indices), np.ones(2), 7)
