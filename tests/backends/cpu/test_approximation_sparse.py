"""Sparse rows through all stages give what dense rows give."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.svm import SVC

import kernelite as kl


@pytest.mark.parametrize("guarantee", ["certified", "none", "exact"])
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_sparse_rows_answer_as_dense_rows(guarantee: str, share: float) -> None:
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 40)) < share, rng.normal(size=(300, 40)), 0.0)
    svc = SVC(gamma=0.02, C=10).fit(X, X[:, 0] + X[:, 1] > 0.05)
    fast = kl.compile(svc, X, guarantee=guarantee, on_invalid="ignore")
    rows = np.where(rng.random((500, 40)) < share, rng.normal(size=(500, 40)), 0.0)
    sparse = csr_array(rows)
    np.testing.assert_array_equal(fast.predict(sparse), fast.predict(rows))
    np.testing.assert_allclose(fast.valid(sparse), fast.valid(rows))
    np.testing.assert_allclose(
        fast.decision_function(sparse), fast.decision_function(rows), rtol=1e-9, atol=1e-9
    )
    if guarantee == "certified":
        exact = svc.decision_function(rows)
        np.testing.assert_array_equal(fast.predict(sparse), svc.predict(rows))
        errors = np.abs(fast.decision_function(sparse) - exact)
        assert (errors <= fast.error_bound(sparse) + 1e-9).all()


def test_no_sparse_rows_have_no_bounds() -> None:
    X = np.random.default_rng(0).normal(size=(400, 5))
    fast = kl.compile(SVC(gamma=0.02).fit(X, np.digitize(X[:, 0] + X[:, 1] ** 2, [0, 1.5])), X)
    none = csr_array((0, 5))
    assert fast.error_bound(none).shape == fast.decision_function(none).shape == (0, 3)
    assert fast.score_bound(none).shape == (0, 3)
