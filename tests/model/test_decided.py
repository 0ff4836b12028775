"""`decided`: rows whose answer is proven, as the statistics of each row by itself say."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_iris
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM

import kernelite as kl
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ClassifierHead
from kernelite.sources import Machine
from kernelite.support.errors import InputError


def mirrored(classes: int) -> tuple[Machine, np.ndarray]:
    """A classifier, and rows half of which lie where rounding is their label."""
    rng = np.random.default_rng(0)
    X, a = rng.normal(size=(300, 3)), rng.exponential(size=300)
    far, nothing = rng.normal([0.0, 9.0, 0.0], size=(50, 3)), np.zeros(50)
    centers = np.concatenate([X, X * [-1, 1, 1], far])
    A = np.concatenate([a, -a, nothing])[:, None]
    if classes == 3:
        A = np.column_stack([A, np.r_[a, 0 * a, nothing - 1], np.r_[0 * a, a, nothing - 1]])
    expansion = KernelExpansion(centers, A, np.zeros(A.shape[1]), gamma=0.3)
    head = ClassifierHead(np.arange(classes))
    rows = rng.normal(size=(60, 3)) * np.where(np.arange(60) % 2, 0.0, 1.0)[:, None] ** [1, 0, 0]
    return Machine(expansion, head, "a test model", "arrays", "KernelExpansion"), rows


def row_by_row(fast: kl.CompiledModel, rows: Any) -> list[bool]:
    m = rows.shape[0]
    each = [fast.predict(rows[i : i + 1], return_stats=True)[1] for i in range(m)]
    return [stats.undecidable == 0 for stats in each]


@pytest.mark.parametrize("guarantee", ["certified", "exact"])
@pytest.mark.parametrize("classes", [2, 3])
def test_rounding_decides_on_a_plane_of_symmetry(classes: int, guarantee: str) -> None:
    source, rows = mirrored(classes)
    fast = kl.compile(source, rows, guarantee=guarantee)
    decided = fast.decided(rows)
    assert decided.tolist() == row_by_row(fast, rows)
    assert not decided[1::2].any()
    assert decided[::2].all()
    assert np.count_nonzero(~decided) == fast.predict(rows, return_stats=True)[1].undecidable


@cache
def models() -> dict[str, tuple[Any, np.ndarray]]:
    X, y = load_iris(return_X_y=True)
    return {
        "two classes": (SVC(gamma=0.05).fit(X[:100], y[:100]), X),
        "one-vs-one": (SVC(gamma=0.1, C=5.0).fit(X, y), X),
        "mapped": (make_pipeline(StandardScaler(), SVC(gamma=0.05)).fit(X, y), X),
        "outliers": (OneClassSVM(gamma=0.1, nu=0.2).fit(X), X),
        "values": (SVR(gamma=0.1).fit(X, X[:, 0] * X[:, 1]), X),
    }


@pytest.mark.parametrize("guarantee", ["certified", "exact"])
@pytest.mark.parametrize("name", ["two classes", "one-vs-one", "mapped", "outliers", "values"])
def test_it_says_what_each_row_by_itself_says(name: str, guarantee: str) -> None:
    model, X = models()[name]
    options = {"tolerance": 1e-3} if name == "values" else {}
    fast = kl.compile(model, X, guarantee=guarantee, **options)
    rows = X[::3] + np.random.default_rng(0).normal(0.0, 0.1, size=(50, 4))
    decided = fast.decided(rows)
    assert (decided.dtype, decided.shape) == (np.dtype(bool), (50,))
    assert decided.tolist() == row_by_row(fast, rows)
    sparse = fast.decided(csr_array(rows))
    np.testing.assert_array_equal(sparse, decided)
    if fast.head.kind != "regressor" or guarantee == "certified":
        assert decided.all()
    assert fast.decided(rows[:0]).shape == (0,)


def test_a_form_alone_has_decided_what_its_certificate_says() -> None:
    X, y = load_iris(return_X_y=True)
    svc = SVC(gamma=0.02).fit(X, y)
    fast = kl.compile(svc, X, guarantee="none", certificate=True, on_invalid="ignore")
    decided = fast.decided(X)
    head = fast.head
    wanted = head.decided(fast.scores(X), fast.score_bound(X))
    np.testing.assert_array_equal(decided, wanted)
    assert decided.sum() > 0
    np.testing.assert_array_equal(fast.predict(X)[decided], svc.predict(X)[decided])


def test_statistics_prove_no_row() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 5))
    svc = SVC(gamma=0.2).fit(X[:500], X[:500, 0] * X[:500, 1] > 0)
    fast = kl.compile(svc, X, guarantee="calibrated", max_disagreement=0.01)
    with pytest.raises(InputError, match="statistical"):
        fast.decided(X[:3])


@cache
def several() -> dict[str, kl.CompiledModel]:
    """Models whose rows go different ways."""
    X, y = load_iris(return_X_y=True)
    sums = GaussianProcessRegressor(RBF(1.0) + RBF(4.0), optimizer=None, alpha=0.1)
    svc = SVC(gamma=0.05).fit(X, y)
    return {
        "pairs": kl.compile(SVC(gamma=3.0).fit(X, y), X, guarantee="exact"),
        "parts": kl.compile(sums.fit(X, y), X),
        "form": kl.compile(svc, X),
        "form alone": kl.compile(svc, X, guarantee="none", certificate=True),
    }


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("method", ["decided", "score_bound", "error_bound"])
@pytest.mark.parametrize("name", ["pairs", "parts", "form", "form alone"])
def test_nothing_is_proven_of_rows_that_are_no_numbers(name: str, method: str, bad: float) -> None:
    rows, fast = load_iris().data.copy(), several()[name]
    rows[7, 1] = bad
    with pytest.raises(InputError, match="NaN or infinity"):
        getattr(fast, method)(rows)


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
@pytest.mark.parametrize("plan", ["form", "exact", "estimate"])
@pytest.mark.parametrize("gamma", [0.02, 3.0])
def test_an_infinite_row_is_refused_beside_one_that_nothing_settles(
    gamma: float, plan: str, bad: float
) -> None:
    """Stages may settle an infinite row, which is far away; the last one sees others alone."""
    rng = np.random.default_rng(0)
    centers, a = rng.normal(size=(200, 3)), rng.normal(size=200)
    values = a @ np.exp(-gamma * ((centers - 0.25) ** 2).sum(axis=1))
    expansion = KernelExpansion(centers, a[:, None], [-values], gamma=gamma)
    head = ClassifierHead(np.arange(2))
    machine = Machine(expansion, head, "a test model", "arrays", "KernelExpansion")
    fast = kl.compile(machine, centers, plan=plan)
    rows = np.concatenate([centers, np.full((1, 3), 0.25)])
    assert not fast.decided(rows)[-1]
    rows[7, 1] = bad
    for method in (fast.predict, fast.decision_function, fast.decided):
        with pytest.raises(InputError, match="NaN or infinity"):
            method(rows)
