"""Bounds, decided rows and standard deviations, answered where the rows are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.svm import SVC, SVR

import kernelite as kl
from kernelite.backends.torch import interchange
from kernelite.support.errors import InputError
from tests.backends.torch.devices import kernels_run, there
from tests.oracle import true_scores

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def data() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(120, 4))
    return X, X[:, 0] + X[:, 1] ** 2


@pytest.fixture(autouse=True)
def as_if_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interchange, "CPU", -1)


@kernels_run
@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("guarantee", ["certified", "exact"])
@pytest.mark.parametrize("kind", ["two classes", "three classes", "regressor"])
def test_values_are_within_the_bound_and_rows_are_decided(
    kind: str, guarantee: str, kernels: bool
) -> None:
    X, y = data()
    cuts = [0.0, 1.0] if kind == "three classes" else [0.5]
    model = SVR(gamma=0.1) if kind == "regressor" else SVC(gamma=0.1, decision_function_shape="ovo")
    target = y if kind == "regressor" else np.digitize(y, cuts)
    fast = kl.compile(model.fit(X, target), X, guarantee=guarantee)
    interchange.program_on(fast, there(X).device).kernels = kernels
    bound = fast.error_bound(there(X[:40]))
    values = (fast.predict if kind == "regressor" else fast.decision_function)(there(X[:40]))
    assert isinstance(bound, torch.Tensor)
    assert bound.shape == values.shape == np.shape(fast.error_bound(X[:40]))
    truth = true_scores(fast.expansion, X[:40])
    error = np.abs(values.cpu().numpy().reshape(40, -1) - truth)
    assert (error <= bound.cpu().numpy().reshape(40, -1)).all()
    assert fast.decided(there(X)).all()


@pytest.mark.parametrize("outputs", [1, 2])
def test_deviations_are_the_cpus(outputs: int) -> None:
    X, y = data()
    kernel = ConstantKernel(2.0) * RBF(1.5) + WhiteKernel(0.3)
    targets = y if outputs == 1 else np.column_stack([y, 3.0 * y])
    process = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True).fit(X, targets)
    fast = kl.compile(process, X)
    rows = np.vstack([X[:30], X[:5] * 30.0])
    means, found = fast.predict(there(rows), return_std=True)
    wanted = process.predict(rows, return_std=True)[1]
    assert isinstance(means, torch.Tensor)
    np.testing.assert_allclose(found.cpu().numpy(), wanted, rtol=1e-8)


def test_what_has_no_variance_and_what_is_not_proven() -> None:
    X, y = data()
    plain = kl.compile(SVR().fit(X, y), X)
    with pytest.raises(InputError, match="has no variance"):
        plain.predict(there(X), return_std=True)
    certified = kl.compile(SVC(gamma=0.01).fit(X, y > 0), X)
    tested = replace(certified, guarantee="calibrated", threshold=0.1)
    with pytest.raises(InputError, match="statistical"):
        tested.decided(there(X))
