"""One table of fitted scikit-learn models that the suites share.

`MODELS` maps a name to a recipe (`SVMS`, `MACHINES` and `WRAPPED` are parts of it); `fitted(name)`
fits it once and returns the model with rows to predict: some it was trained on, some new, some far
away, in the form (dense, sparse, data frame) that the model was fitted on. `compiled(name)`
compiles it, once per guarantee; tests of one model run one after the other (`tests.conftest`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.neighbors import KernelDensity
from sklearn.semi_supervised import LabelPropagation, LabelSpreading
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

import kernelite
from tests.answers import answers
from tests.datasets import (
    Table,
    cancer,
    diabetes,
    digits,
    flat,
    friedman,
    generated,
    half_labelled,
    iris,
    linnerud,
    named_iris,
    raw_cancer,
    signs,
    wine,
    words,
)
from tests.wrappers import WRAPPERS

__all__ = [
    "CLASSIFIERS",
    "MACHINES",
    "MODELS",
    "SVMS",
    "WRAPPED",
    "Recipe",
    "compiled",
    "fitted",
    "library_answers",
]


@dataclass(frozen=True)
class Recipe:
    """An unfitted estimator and the data to fit it on."""

    estimator: Any
    data: Callable[[], Table]
    form: str = "dense"  # or "sparse", "frame"
    train: int | None = None  # fit on so many rows, predict all of them


def _column(table: Table) -> Table:
    X, y = table
    return X, y[:, None]


def _two_classes(table: Table) -> Table:
    X, y = table
    return X[y < 2], y[y < 2]


_NOISY = ConstantKernel(1.0) * RBF(3.0) + WhiteKernel(0.5)

COVARIANCES = {
    "matern 1/2": 2.0 * Matern(2.0, nu=0.5) + WhiteKernel(0.1),
    "matern 3/2": ConstantKernel(0.5) + 2.0 * Matern(3.0, nu=1.5),
    "matern 5/2": 3.0 * Matern(2.5, nu=2.5),
    "rational quadratic": RationalQuadratic(2.0, 0.7),
    "line": DotProduct(1.3) + WhiteKernel(0.5),
    "cubic line": 0.1 * DotProduct(0.7) ** 3 + WhiteKernel(0.5),
    "periodic": ExpSineSquared(9.0, 40.0),
    "mixture": 2.0 * Matern(2.0) + 0.1 * DotProduct(0.5) + ConstantKernel(0.3) + WhiteKernel(0.2),
    "product": RBF(3.0) * DotProduct(1.0) + RationalQuadratic(3.0) * Matern(4.0, nu=0.5),
}
"""Kernels without a form, as scikit-learn's algebra builds them."""

SVMS: dict[str, Recipe] = {
    "svc binary": Recipe(SVC(), cancer),
    "svc binary gamma number": Recipe(SVC(gamma=0.02, C=10.0), cancer),
    "svc binary strings, raw scale": Recipe(SVC(gamma="scale"), raw_cancer),
    "svc binary booleans": Recipe(SVC(gamma=0.05), signs),
    "svc binary sparse": Recipe(SVC(gamma=0.02), cancer, "sparse"),
    "svc binary probability": Recipe(SVC(probability=True, random_state=0), cancer),
    "svc binary poly": Recipe(SVC(kernel="poly", degree=2, coef0=1.0), cancer),
    "svc iris ovr": Recipe(SVC(gamma="auto"), iris),
    "svc iris ovo": Recipe(SVC(decision_function_shape="ovo"), iris),
    "svc iris break ties": Recipe(SVC(gamma=0.01, C=0.05, break_ties=True), iris),
    "svc iris strings, frame": Recipe(SVC(C=3.0), named_iris, "frame"),
    "svc iris poly ovo": Recipe(
        SVC(kernel="poly", degree=2, gamma=0.1, decision_function_shape="ovo"), iris
    ),
    "svc wine sparse ovo": Recipe(SVC(decision_function_shape="ovo"), wine, "sparse"),
    "svc wine sparse poly": Recipe(SVC(kernel="poly", degree=2, coef0=0.5), wine, "sparse"),
    "svc wine probability": Recipe(SVC(probability=True, random_state=0), wine),
    "svc wine balanced": Recipe(SVC(class_weight="balanced", gamma=0.1), wine),
    "svc digits": Recipe(SVC(gamma=0.05), digits),
    "svc digits break ties": Recipe(SVC(gamma=0.5, C=0.3, break_ties=True), digits),
    "svc digits probability": Recipe(SVC(gamma=0.05, probability=True, random_state=0), digits),
    "svc words sparse": Recipe(SVC(gamma=0.5), words, "sparse"),
    "svc words sparse probability": Recipe(
        SVC(gamma=0.5, probability=True, random_state=0), words, "sparse"
    ),
    "nusvc binary": Recipe(NuSVC(nu=0.2), cancer),
    "nusvc wine ovo": Recipe(NuSVC(nu=0.3, decision_function_shape="ovo"), wine),
    "nusvc words probability": Recipe(NuSVC(nu=0.4, probability=True, random_state=0), words),
    "svr diabetes": Recipe(SVR(C=10.0), diabetes),
    "svr friedman sparse": Recipe(SVR(gamma=0.2, C=10.0), friedman, "sparse"),
    "svr diabetes poly": Recipe(SVR(kernel="poly", degree=2, coef0=1.0, gamma=0.1), diabetes),
    "svr flat": Recipe(SVR(epsilon=0.5), flat),
    "svr flat sparse": Recipe(SVR(epsilon=0.5), flat, "sparse"),
    "nusvr friedman": Recipe(NuSVR(nu=0.4, C=5.0), friedman),
    "nusvr diabetes sparse": Recipe(NuSVR(gamma="auto"), diabetes, "sparse"),
    "oneclass cancer": Recipe(OneClassSVM(nu=0.1), cancer),
    "oneclass friedman sparse": Recipe(OneClassSVM(nu=0.3, gamma=0.5), friedman, "sparse"),
    "oneclass iris poly": Recipe(OneClassSVM(kernel="poly", degree=2, nu=0.2), iris),
    "svc binary linear": Recipe(SVC(kernel="linear"), cancer),
    "svc iris linear ovo": Recipe(SVC(kernel="linear", decision_function_shape="ovo"), iris),
    "svc words linear sparse": Recipe(SVC(kernel="linear"), words, "sparse"),
    "svc wine linear probability": Recipe(
        SVC(kernel="linear", probability=True, random_state=0), wine
    ),
    "svc binary cubic": Recipe(SVC(kernel="poly", coef0=0.5), cancer),
    "svc iris cubic": Recipe(SVC(kernel="poly", coef0=1.0), iris),
    "svc iris quartic": Recipe(SVC(kernel="poly", degree=4), iris),
    "svc wine degree 5": Recipe(SVC(kernel="poly", degree=5, coef0=1.0), wine),
    "svc binary sigmoid": Recipe(SVC(kernel="sigmoid", gamma=0.01, coef0=-0.5), cancer),
    "svc wine sigmoid": Recipe(SVC(kernel="sigmoid"), wine, "frame"),
    "nusvc binary linear": Recipe(NuSVC(kernel="linear", nu=0.2), cancer),
    "nusvc iris cubic": Recipe(NuSVC(kernel="poly", nu=0.3), iris),
    "nusvc binary sigmoid": Recipe(NuSVC(kernel="sigmoid", nu=0.2, gamma=0.01), cancer),
    "svr diabetes linear": Recipe(SVR(kernel="linear"), diabetes),
    "svr diabetes cubic": Recipe(SVR(kernel="poly", gamma=0.1, coef0=1.0), diabetes),
    "svr diabetes sigmoid": Recipe(SVR(kernel="sigmoid", gamma=0.02), diabetes),
    "nusvr friedman linear sparse": Recipe(NuSVR(kernel="linear"), friedman, "sparse"),
    "nusvr friedman cubic": Recipe(NuSVR(kernel="poly", coef0=1.0), friedman),
    "nusvr friedman sigmoid": Recipe(NuSVR(kernel="sigmoid", gamma=0.02), friedman),
    "oneclass cancer linear": Recipe(OneClassSVM(kernel="linear", nu=0.1), cancer),
    "oneclass iris cubic": Recipe(OneClassSVM(kernel="poly", nu=0.2), iris),
    "oneclass cancer sigmoid": Recipe(OneClassSVM(kernel="sigmoid", nu=0.1, gamma=0.01), cancer),
}

CLASSIFIERS = tuple(name for name in SVMS if "svc" in name)

MACHINES: dict[str, Recipe] = {
    "ridge diabetes": Recipe(KernelRidge(kernel="rbf", gamma=0.01), diabetes),
    "ridge friedman sparse": Recipe(KernelRidge(kernel="rbf", alpha=0.1), friedman, "sparse"),
    "ridge linnerud three targets": Recipe(KernelRidge(kernel="rbf", gamma=0.05), linnerud),
    "ridge diabetes one column": Recipe(
        KernelRidge(kernel="rbf", gamma=0.02), lambda: _column(diabetes())
    ),
    "ridge diabetes poly": Recipe(KernelRidge(kernel="poly", degree=2, gamma=0.1), diabetes),
    "ridge generated": Recipe(KernelRidge(kernel="rbf", gamma=0.02), generated, train=300),
    "gpr diabetes": Recipe(GaussianProcessRegressor(_NOISY, normalize_y=True), diabetes),
    "gpr friedman length scales": Recipe(
        GaussianProcessRegressor(
            ConstantKernel(2.0) * RBF([1.0, 2.0, 1.5, 3.0, 4.0, 9.0]) + WhiteKernel(0.1),
            normalize_y=True,
        ),
        friedman,
        "frame",
    ),
    "gpr linnerud three targets": Recipe(
        GaussianProcessRegressor(RBF(3.0), alpha=0.5, normalize_y=True, optimizer=None), linnerud
    ),
    "gpr diabetes default kernel": Recipe(GaussianProcessRegressor(alpha=0.5), diabetes),
    "gpr diabetes constant beside": Recipe(
        GaussianProcessRegressor(
            ConstantKernel(0.5) + ConstantKernel(2.0) * RBF(4.0) + WhiteKernel(0.3), optimizer=None
        ),
        diabetes,
    ),
    "gpr friedman product": Recipe(
        GaussianProcessRegressor(
            RBF([1.0, 2.0, 1.0, 1.0, 3.0, 3.0]) * RBF(2.0) ** 2 * Matern(3.0, nu=np.inf),
            alpha=0.1,
            optimizer=None,
        ),
        friedman,
    ),
    "gpr generated": Recipe(
        GaussianProcessRegressor(2.0 * RBF(3.0) + WhiteKernel(0.1), optimizer=None),
        generated,
        train=300,
    ),
    "gpr diabetes sum": Recipe(
        GaussianProcessRegressor(
            ConstantKernel(0.5) + 2.0 * RBF(20.0) + 0.1 * RBF(3.0) + WhiteKernel(0.3),
            normalize_y=True,
            optimizer=None,
        ),
        diabetes,
    ),
    "gpr friedman sum of length scales": Recipe(
        GaussianProcessRegressor(
            RBF([1.0, 2.0, 1.5, 3.0, 4.0, 9.0]) + 0.5 * RBF([6.0, 5.0, 4.0, 3.0, 2.0, 1.0]),
            alpha=0.1,
            optimizer=None,
        ),
        friedman,
        "frame",
    ),
    "gpr friedman matern length scales": Recipe(
        GaussianProcessRegressor(
            2.0 * Matern([1.0, 2.0, 1.5, 3.0, 4.0, 9.0], nu=2.5) + WhiteKernel(0.1),
            normalize_y=True,
            optimizer=None,
        ),
        friedman,
        "frame",
    ),
    "gpr linnerud matern, three targets": Recipe(
        GaussianProcessRegressor(Matern(3.0), alpha=0.5, normalize_y=True, optimizer=None), linnerud
    ),
    "gpr linnerud sum, three targets": Recipe(
        GaussianProcessRegressor(RBF(3.0) + RBF(30.0), alpha=0.5, normalize_y=True, optimizer=None),
        linnerud,
    ),
    "gpr generated sum": Recipe(
        GaussianProcessRegressor(
            2.0 * RBF(30.0) + 0.5 * RBF(9.0) + WhiteKernel(0.1), optimizer=None
        ),
        generated,
        train=300,
    ),
    "ridge diabetes sum": Recipe(KernelRidge(kernel=2.0 * RBF(4.0) + RBF(20.0)), diabetes),
    "gpc cancer sum": Recipe(
        GaussianProcessClassifier(3.0 * RBF(20.0) + RBF(5.0), optimizer=None), cancer
    ),
    "gpc cancer": Recipe(GaussianProcessClassifier(3.0 * RBF(5.0), optimizer=None), signs),
    "gpc cancer length scales": Recipe(
        GaussianProcessClassifier(
            ConstantKernel(2.0) + RBF(np.linspace(2.0, 9.0, 30)), optimizer=None
        ),
        cancer,
    ),
    "gpc two wines": Recipe(
        GaussianProcessClassifier(1.0 * RBF(4.0)), lambda: _two_classes(wine())
    ),
    "gpc iris one vs rest": Recipe(GaussianProcessClassifier(1.0 * RBF(2.0)), named_iris, "frame"),
    "gpc wine one vs rest": Recipe(
        GaussianProcessClassifier(RBF(np.linspace(2.0, 6.0, 13)), optimizer=None), wine
    ),
    "gpc iris one vs one": Recipe(
        GaussianProcessClassifier(2.0 * RBF(1.0), multi_class="one_vs_one"), iris
    ),
    "gpc generated": Recipe(
        GaussianProcessClassifier(3.0 * RBF(2.0), optimizer=None), generated, train=200
    ),
    "density iris": Recipe(KernelDensity(bandwidth=0.4), iris),
    "density wine": Recipe(KernelDensity(bandwidth=1.5, rtol=1e-4), wine),
    "density cancer ball tree": Recipe(
        KernelDensity(bandwidth="scott", algorithm="ball_tree"), cancer, "frame"
    ),
    "density generated": Recipe(KernelDensity(bandwidth=0.8), generated, train=2000),
    "pca iris": Recipe(KernelPCA(3, kernel="rbf", gamma=0.05), iris),
    "pca wine all": Recipe(KernelPCA(kernel="rbf", gamma=0.01), wine, "frame"),
    "pca digits sparse": Recipe(KernelPCA(5, kernel="rbf", gamma=0.01), digits, "sparse"),
    "pca iris poly": Recipe(KernelPCA(2, kernel="poly", degree=2), iris),
    "pca generated": Recipe(KernelPCA(4, kernel="rbf", gamma=0.01), generated, train=300),
    "nystroem iris": Recipe(Nystroem(gamma=0.1, n_components=20, random_state=0), iris),
    "nystroem wine sparse": Recipe(Nystroem(n_components=30, random_state=0), wine, "sparse"),
    "nystroem digits poly": Recipe(
        Nystroem(kernel="poly", degree=2, n_components=15, random_state=0), digits
    ),
    "nystroem generated": Recipe(
        Nystroem(gamma=0.01, n_components=10, random_state=0), generated, train=300
    ),
    "ridge diabetes linear": Recipe(KernelRidge(kernel="linear"), diabetes),
    "ridge diabetes cubic": Recipe(KernelRidge(kernel="poly"), diabetes),
    "ridge friedman quartic": Recipe(KernelRidge(kernel="poly", degree=4, gamma=0.1), friedman),
    "ridge diabetes sigmoid": Recipe(KernelRidge(kernel="sigmoid", gamma=0.02), diabetes),
    "ridge diabetes laplacian": Recipe(KernelRidge(kernel="laplacian"), diabetes),
    "ridge linnerud laplacian sparse": Recipe(
        KernelRidge(kernel="laplacian", gamma=0.2), linnerud, "sparse"
    ),
    "ridge diabetes cosine": Recipe(KernelRidge(kernel="cosine"), diabetes, "frame"),
    "ridge friedman matern": Recipe(KernelRidge(kernel=Matern(2.0, nu=1.5)), friedman),
    "pca iris linear": Recipe(KernelPCA(3), iris),
    "pca iris cubic": Recipe(KernelPCA(3, kernel="poly", gamma=0.1), iris),
    "pca wine sigmoid": Recipe(KernelPCA(3, kernel="sigmoid", gamma=0.001), wine),
    "pca wine cosine": Recipe(KernelPCA(3, kernel="cosine"), wine),
    "nystroem iris linear": Recipe(Nystroem(kernel="linear", n_components=3, random_state=0), iris),
    "nystroem wine cubic": Recipe(
        Nystroem(kernel="polynomial", degree=3, n_components=15, random_state=0), wine
    ),
    "nystroem wine sigmoid": Recipe(
        Nystroem(kernel="sigmoid", gamma=0.001, n_components=5, random_state=0), wine
    ),
    "nystroem wine laplacian": Recipe(
        Nystroem(kernel="laplacian", n_components=20, random_state=0), wine, "sparse"
    ),
    "nystroem iris cosine": Recipe(Nystroem(kernel="cosine", n_components=3, random_state=0), iris),
    **{
        f"gpr {name}": Recipe(
            GaussianProcessRegressor(kernel, alpha=0.1, normalize_y=True, optimizer=None), friedman
        )
        for name, kernel in COVARIANCES.items()
    },
    **{
        f"gpc {name}": Recipe(
            GaussianProcessClassifier(kernel, optimizer=None), lambda: _two_classes(iris())
        )
        for name, kernel in COVARIANCES.items()
    },
    "gpc iris matern one vs rest": Recipe(
        GaussianProcessClassifier(2.0 * Matern(2.0, nu=2.5), optimizer=None), named_iris, "frame"
    ),
    "gpc iris one vs one, matern and line": Recipe(
        GaussianProcessClassifier(
            Matern(2.0) + DotProduct(), multi_class="one_vs_one", optimizer=None
        ),
        iris,
    ),
    "spreading iris": Recipe(LabelSpreading(gamma=2.0), lambda: half_labelled(iris())),
    "spreading wine": Recipe(LabelSpreading(gamma=0.1), lambda: half_labelled(wine()), "frame"),
    "spreading digits": Recipe(LabelSpreading(gamma=0.2), lambda: half_labelled(digits())),
    "propagation iris": Recipe(LabelPropagation(gamma=5.0), lambda: half_labelled(iris())),
    "propagation cancer": Recipe(LabelPropagation(gamma=0.05), lambda: half_labelled(cancer())),
    "spreading generated": Recipe(
        LabelSpreading(gamma=0.5), lambda: half_labelled(generated()), train=300
    ),
}

WRAPPED = {name: Recipe(*entry) for name, entry in WRAPPERS.items()}
MODELS: dict[str, Recipe] = SVMS | MACHINES | WRAPPED


@cache
def fitted(name: str) -> tuple[Any, Any]:
    """The fitted model, and rows of shape (m, d) to predict."""
    recipe = MODELS[name]
    X, y = recipe.data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # `probability` is to go in 1.11
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = clone(recipe.estimator).fit(
            _formed(X[: recipe.train], recipe.form), y[: recipe.train]
        )
    return model, _formed(X if recipe.train else _rows_around(X), recipe.form)


@cache
def library_answers(name: str) -> dict[str, np.ndarray]:
    """What the fitted model itself answers to its rows, by method; tests share it."""
    return dict(answers(*fitted(name)))


@cache
def compiled(name: str, guarantee: str = "certified", *, sample: bool = True) -> Any:
    """The compiled model, planned by estimates; tests share it, so none may change it."""
    model, rows = fitted(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows, rows outside
        return kernelite.compile(
            model,
            rows if sample else None,
            guarantee=guarantee,
            plan="estimate",
            on_invalid="ignore",
        )


def _rows_around(X: np.ndarray) -> np.ndarray:
    """Training rows, rows between them, noisy ones, far ones and the origin."""
    rng = np.random.default_rng(0)
    some = X[rng.integers(0, len(X), (2, 30))]
    noisy = some[0] + rng.normal(size=some[0].shape) * X.std(axis=0)
    far = 20.0 * noisy[:5]
    return np.concatenate([X[:40], some.mean(axis=0), noisy, far, np.zeros((1, X.shape[1]))])


def _formed(X: np.ndarray, form: str) -> Any:
    if form == "sparse":
        from scipy.sparse import csr_array

        return csr_array(X)
    if form == "frame":
        import pandas as pd

        return pd.DataFrame(X, columns=[f"feature {i}" for i in range(X.shape[1])])
    return X
