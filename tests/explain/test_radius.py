"""How far labels hold: no attack inside the radius succeeds, and the radius is not far from one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kernelite as kl
from kernelite.machine.heads import LinearHead
from kernelite.support.errors import InputError, UnsupportedModelError

ATTACK_STEPS = 8
ROWS = 10_000


def projected(moves: np.ndarray, r: np.ndarray, norm: str) -> np.ndarray:
    """Moves inside the ball."""
    if norm == "linf":
        return np.clip(moves, -r[:, None], r[:, None])
    lengths = np.sqrt(np.square(moves).sum(axis=1))
    return moves * np.minimum(1.0, r / np.maximum(lengths, 1e-300))[:, None]


def steepest(gradients: np.ndarray, norm: str) -> np.ndarray:
    if norm == "linf":
        return np.sign(gradients)
    return gradients / np.maximum(np.sqrt(np.square(gradients).sum(axis=1)), 1e-300)[:, None]


def attacked(fast: Any, X: np.ndarray, r: np.ndarray, norm: str) -> np.ndarray:
    """Which rows a projected-gradient attack inside radius r takes to another label."""
    labels, rng = fast.predict(X), np.random.default_rng(0)
    scores = np.asarray(fast.gradient(X, return_value=True)[0]).reshape(len(X), -1)
    taken = np.zeros(len(X), dtype=bool)
    for output in range(scores.shape[1]):
        towards = -np.sign(scores[:, output])[:, None]
        moves = projected(steepest(rng.normal(size=X.shape), norm) * r[:, None], r, norm)
        for _ in range(ATTACK_STEPS):
            found = fast.gradient(X + moves).reshape(len(X), scores.shape[1], -1)[:, output]
            moves = projected(moves + r[:, None] * steepest(towards * found, norm), r, norm)
            taken |= fast.predict(X + moves) != labels
    return taken


def models() -> dict[str, Any]:
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, NuSVC, OneClassSVM

    return {
        "svc": (SVC(gamma=0.5, C=5.0), 2),
        "svc, scaled": (make_pipeline(StandardScaler(), SVC(C=5.0)), 2),
        "svc, pairs": (SVC(gamma=0.3, C=2.0), 4),
        "svc, ties": (SVC(gamma=0.3, break_ties=True), 3),
        "nusvc": (NuSVC(gamma=0.3, nu=0.3), 2),
        "one class": (OneClassSVM(gamma=0.5, nu=0.2), 2),
        "gp": (GaussianProcessClassifier(RBF(1.0), optimizer=None), 2),
        "linear": (SVC(kernel="linear"), 2),
        "quadratic": (SVC(kernel="poly", degree=2, coef0=1.0), 2),
        "cubic": (SVC(kernel="poly", degree=3, coef0=1.0), 3),
        "sigmoid": (SVC(kernel="sigmoid", gamma=0.1), 2),
    }


def fitted(name: str, rows: int = 150, d: int = 3) -> tuple[Any, np.ndarray]:
    estimator, classes = models()[name]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, d)) * [1.0, 3.0, 0.5][:d]
    signal = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 0] / 3.0 + 0.3 * rng.normal(size=rows)
    y = np.digitize(signal, np.quantile(signal, np.arange(1, classes) / classes))
    fast = kl.compile(estimator.fit(X, y), X)
    return fast, rng.normal(size=(ROWS, d)) * [1.0, 3.0, 0.5][:d]


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_no_attack_inside_the_radius_succeeds_on_many_rows(norm: str) -> None:
    fast, X = fitted("svc")
    r = fast.radius(X, norm=norm)
    assert (r > 0).mean() > 0.99
    assert not attacked(fast, X, r, norm).any()
    assert attacked(fast, X, 4.0 * r, norm).mean() > 0.5  # so the attack can win, and r is not tiny


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("name", models())
def test_no_attack_inside_the_radius_succeeds(name: str, norm: str) -> None:
    fast, X = fitted(name)
    X = X[:400]
    r = fast.radius(X, norm=norm)
    assert r.shape == (400,)
    assert (r[fast.decided(X)] > 0).all()
    assert not attacked(fast, X, r, norm).any()


def as_classifier(expansion: kl.KernelExpansion) -> Any:
    return replace(kl.compile(expansion, guarantee="exact"), head=LinearHead(np.array([-1, 1])))


def test_kernels_of_expansions_hold_too() -> None:
    from kernelite.machine.kernels import Laplacian, Matern, PolynomialKernel, Rbf, SumKernel

    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    y = np.sign(X[:, 0] * X[:, 1])
    kernels = (
        Laplacian(0.5),
        Matern((1.0, 2.0, 0.5), 2.5),
        SumKernel((1.0, 0.1), (Rbf((1.0, 2.0, 0.5)), PolynomialKernel(1))),
    )
    for kernel in kernels:
        K = kernel.values(X, X)
        expansion = kl.KernelExpansion(X, np.linalg.solve(K + np.eye(60), y), 0.01, kernel=kernel)
        fast = as_classifier(expansion)
        rows = rng.normal(size=(300, 3))
        for norm in ("l2", "linf"):
            r = fast.radius(rows, norm=norm)
            assert (r > 0).mean() > 0.95
            assert not attacked(fast, rows, r, norm).any()


def test_the_radius_of_a_line_is_its_distance() -> None:
    from sklearn.svm import SVC

    X = np.random.default_rng(0).normal(size=(80, 4))
    model = SVC(kernel="linear").fit(X, X @ [1.0, -1.0, 0.5, 0.0] > 0.1)
    fast = kl.compile(model, X)
    true = np.abs(model.decision_function(X))
    assert np.allclose(fast.radius(X), true / np.linalg.norm(model.coef_), rtol=1e-3)
    assert np.allclose(fast.radius(X, norm="linf"), true / np.abs(model.coef_).sum(), rtol=1e-3)


def test_it_is_better_than_the_global_bound() -> None:
    """|f(z) - f(z')| <= |f|_H sqrt(2 - 2 exp(-gamma r^2)) gives about a third of it here."""
    fast, X = fitted("svc")
    X, expansion = X[:300], fast.expansion
    K = np.exp(
        -expansion.gamma
        * np.square(expansion.centers[:, None] - expansion.centers[None]).sum(axis=2)
    )
    A = expansion.coefficients[:, 0]
    share = 1.0 - np.square(fast.decision_function(X)) / (A @ K @ A) / 2.0
    plain = np.sqrt(-np.log(np.maximum(share, 1e-300)) / expansion.gamma)
    r = fast.radius(X)
    assert (r >= plain * (1.0 - 1e-3)).all()
    assert np.median(r / plain) > 1.5


def test_open_labels_hold_nowhere() -> None:
    expansion = kl.KernelExpansion([[0.0], [2.0]], [1.0, -1.0], 0.0, gamma=1.0)
    fast = as_classifier(expansion)
    assert fast.radius([[1.0]])[0] == 0.0


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid"])
def test_a_row_far_away_changes_nothing_for_others(kernel: str, norm: str) -> None:
    from sklearn.svm import SVC

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    machine = SVC(kernel=kernel, degree=2, gamma=0.6).fit(X, X[:, 0] + X[:, 1] > 0)
    fast = kl.compile(machine, X)
    alone = fast.radius(X, norm=norm)
    assert (alone > 0).all()
    far = np.array([[1e9] * 4, [1e155] * 4, [1e300] * 4, [-1.7e308] * 4])
    with np.errstate(all="raise"):
        together = fast.radius(np.concatenate([X, far]), norm=norm)
    np.testing.assert_allclose(together[:60], alone, rtol=1e-3)
    assert np.isfinite(together).all()


def test_careless_calls_get_a_sentence() -> None:
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC, SVR

    X = np.random.default_rng(0).normal(size=(60, 3))
    fast = kl.compile(SVC().fit(X, X[:, 0] > 0), X)
    with pytest.raises(InputError, match="`norm` must be"):
        fast.radius(X, norm="l1")
    with pytest.raises(InputError, match="answers no labels"):
        kl.compile(SVR().fit(X, X[:, 0]), X).radius(X)
    with pytest.raises(UnsupportedModelError, match="Projection"):
        kl.compile(make_pipeline(PCA(2), SVC()).fit(X, X[:, 0] > 0), X).radius(X)
    with pytest.raises(InputError, match="NaN"):
        fast.radius(np.full((1, 3), np.nan))
