"""The models of the board "values": as people fit them, on generated data.

In: a name. Out: a `Case`, the fitted estimator with rows, the method asked, the figures asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

__all__ = ["CASES", "Case", "make"]

Rows = np.ndarray


@dataclass(frozen=True, eq=False)
class Case:
    """A model and what is asked of it.

    Parameters
    ----------
    name : str
    model : estimator
        Fitted.
    method : str
        "predict", "decision_function", ...; "std" is `predict(X, return_std=True)`.
    train, rows : ndarray
        The sample for `compile`, and rows that nobody has seen.
    batch, one_row : float, optional
        How many times faster than scikit-learn is asked for; None where nothing is asked.
    most_us : float, optional
        Microseconds that one row may take.
    target : ndarray, optional
        What the model was fitted to: intelex's twin is fitted to the same.
    others : bool
        Whether nothing is asked of it: a model that no table names.
    """

    name: str
    model: Any
    method: str
    train: Rows
    rows: Rows
    batch: float | None = None
    one_row: float | None = None
    most_us: float | None = None
    target: Any = field(default=None, repr=False)
    others: bool = False

    def call(self, model: Any) -> Callable[[Any], Any]:
        """What answers rows."""
        if self.method == "std":
            return partial(model.predict, return_std=True)
        return getattr(model, self.method)  # type: ignore[no-any-return]


Made = Iterator[Case]


def _classes(n: int, d: int, k: int, rows: int) -> tuple[Rows, Rows, Rows]:
    """Training rows, their classes, other rows; standardised."""
    from sklearn.datasets import make_classification

    X, y = make_classification(
        *(n + rows, d),
        n_informative=min(d, 15),
        n_redundant=0,
        n_classes=k,
        n_clusters_per_class=1 if k > 2 else 2,
        flip_y=0.05,
        random_state=0,
    )
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X[:n], y[:n], np.ascontiguousarray(X[n:])


def _curve(n: int, d: int, rows: int, outputs: int = 1) -> tuple[Rows, Rows, Rows]:
    """Training rows, noisy values of a smooth function, other rows."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(n, d)), rng.normal(size=(rows, d))
    y = np.stack(
        [np.sin(X[:, k % d]) + 0.5 * np.cos(X[:, (k + 1) % d]) for k in range(outputs)], axis=1
    )
    y += 0.1 * rng.normal(size=y.shape)
    return X, y[:, 0] if outputs == 1 else y, Z


def svc_values(rows: int) -> Made:
    """Decision values of two classes and of seven, and labels of a sigmoid kernel."""
    from sklearn.svm import SVC

    X, y, Z = _classes(5_000, 20, 2, rows)
    model = SVC(gamma=0.005, C=3.0).fit(X, y)
    yield Case("SVC, gamma .005", model, "decision_function", X, Z, 120, 15, target=y)
    X, y, Z = _classes(3_500, 16, 7, rows)
    seven = SVC().fit(X, y)
    yield Case("SVC, 7 classes", seven, "decision_function", X, Z, 60, 9, target=y)
    X, y, Z = _classes(4_000, 12, 2, rows)
    sigmoid = SVC(kernel="sigmoid", gamma=0.02).fit(X, y)
    yield Case("SVC(sigmoid), labels", sigmoid, "predict", X, Z, 40, 6, target=y)


def svc_probabilities(rows: int) -> Made:
    """Platt's probabilities of two classes, and coupled ones of seven."""
    from sklearn.svm import SVC

    for k, n, batch, one in ((2, 3_000, 50, 8), (7, 2_100, 40, 5)):
        X, y, Z = _classes(n, 16, k, rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            model = SVC(probability=True, random_state=0).fit(X, y)
        name = f"SVC(probability), {k} classes"
        yield Case(name, model, "predict_proba", X, Z, batch, one, target=y)


def ensembles(rows: int) -> Made:
    """Several machines on the same training rows."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import BaggingClassifier
    from sklearn.multiclass import OneVsOneClassifier
    from sklearn.svm import SVC

    X, y, Z = _classes(3_000, 16, 2, rows)
    folds = CalibratedClassifierCV(SVC(), cv=3, ensemble=True).fit(X, y)
    yield Case("CalibratedClassifierCV, 3 folds", folds, "predict_proba", X, Z, 60, 10)
    bagged = BaggingClassifier(SVC(), 10, max_samples=0.5, random_state=0).fit(X, y)
    yield Case("Bagging of 10 SVCs, labels", bagged, "predict", X, Z, 100, 15)
    X, y, Z = _classes(3_500, 16, 7, rows)
    pairs = OneVsOneClassifier(SVC()).fit(X, y)
    yield Case("OneVsOne, 21 machines, labels", pairs, "predict", X, Z, 80, 20)


def gp_classifier(rows: int) -> Made:
    """Probabilities of seven Laplace approximations."""
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF

    X, y, Z = _classes(700, 8, 7, rows)
    model = GaussianProcessClassifier(1.0 * RBF(2.0), optimizer=None).fit(X, y)
    yield Case("GPC, 7 classes", model, "predict_proba", X, Z, 8, 20)


def gp_regressors(rows: int) -> Made:
    """Means, and means with standard deviations, n = 1,500."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel

    for d, length in ((8, 3.0), (60, 8.0)):
        X, y, Z = _curve(1_500, d, rows)
        for word, kernel in (("RBF", RBF(length)), ("Matern", Matern(length, nu=2.5))):
            noisy = 1.0 * kernel + WhiteKernel(0.1)
            model = GaussianProcessRegressor(noisy, optimizer=None).fit(X, y)
            yield Case(f"GPR mean, {word}, {d} features", model, "predict", X, Z, 30, 5)
            yield Case(f"GPR std, {word}, {d} features", model, "std", X, Z, 4, 2)
    X, y, Z = _curve(1_500, 8, rows)
    little = GaussianProcessRegressor(1.0 * RBF(3.0) + WhiteKernel(1e-4), optimizer=None)
    yield Case("GPR std, RBF, noise 1e-4", little.fit(X, y), "std", X, Z, 2, 2)
    X, y, Z = _curve(1_500, 2, rows)
    plane = GaussianProcessRegressor(1.0 * RBF(1.0) + WhiteKernel(0.1), optimizer=None)
    yield Case("GPR std, RBF, 2 features", plane.fit(X, y), "std", X, Z, 8, 2)


def ridges(rows: int) -> Made:
    """KernelRidge of 8, 60 and 300 features, and of five outputs."""
    from sklearn.kernel_ridge import KernelRidge

    for d, batch, one in ((8, 20, 14), (60, 10, 9), (300, 2, 6)):
        X, y, Z = _curve(1_500, d, rows)
        model = KernelRidge(kernel="rbf", gamma=0.5 / d, alpha=0.1).fit(X, y)
        yield Case(f"KernelRidge, {d} features", model, "predict", X, Z, batch, one)
    X, y, Z = _curve(1_500, 16, rows, outputs=5)
    model = KernelRidge(kernel="rbf", gamma=0.03, alpha=0.1).fit(X, y)
    yield Case("KernelRidge, 5 outputs", model, "predict", X, Z, 12, 10)


def features(rows: int) -> Made:
    """Coordinates of kernel PCA; Nystroem's under a linear model; one-class scores."""
    from sklearn.decomposition import KernelPCA
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import OneClassSVM

    X, y, Z = _classes(1_500, 16, 2, rows)
    pca = KernelPCA(32, kernel="rbf", gamma=0.05, eigen_solver="randomized", random_state=0)
    yield Case("KernelPCA, 32 coordinates", pca.fit(X), "transform", X, Z, 6, 10)
    mapped = Nystroem(gamma=0.05, n_components=300, random_state=0)
    line = make_pipeline(mapped, LogisticRegression(max_iter=1_000)).fit(X, y)
    yield Case("Nystroem + LogisticRegression", line, "predict_proba", X, Z, 5, 8)
    outlier = OneClassSVM(nu=0.15).fit(X)
    yield Case("OneClassSVM.score_samples", outlier, "score_samples", X, Z, 25, 5)


def paper(rows: int) -> Made:
    """Decision values of the paper's models, where its data sets are at hand."""
    from benchmarks.workloads import available, load

    for name, most in (("a9a 0.01", 60.0), ("ijcnn1", 25.0), ("mnist1", 80.0)):
        if name in available():
            work = load(name, sample_rows=10_000)
            few = np.ascontiguousarray(_dense(work.rows)[:rows])
            sample = _dense(work.sample)
            yield Case(name, work.svc, "decision_function", sample, few, most_us=most)


def others(rows: int) -> Made:
    """Models that nobody asked for: nothing was tuned for them."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RationalQuadratic, WhiteKernel
    from sklearn.kernel_approximation import Nystroem
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, SVR, NuSVC

    X, y, Z = _curve(2_000, 10, rows)
    svr = make_pipeline(StandardScaler(), SVR()).fit(X, y)
    yield Case("StandardScaler + SVR", svr, "predict", X, Z, others=True)
    ridge = KernelRidge(kernel="laplacian", gamma=0.1, alpha=0.1).fit(X, y)
    yield Case("KernelRidge, laplacian", ridge, "predict", X, Z, others=True)
    X, y, Z = _curve(800, 5, rows)
    quadratic = 1.0 * RationalQuadratic(2.0) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(quadratic, optimizer=None).fit(X, y)
    yield Case("GPR std, RationalQuadratic", process, "std", X, Z, others=True)
    X, y, Z = _classes(2_000, 12, 3, rows)
    nu = NuSVC(nu=0.3).fit(X, y)
    yield Case("NuSVC, 3 classes", nu, "decision_function", X, Z, others=True)
    rest = OneVsRestClassifier(SVC()).fit(X, y)
    yield Case("OneVsRest(SVC), 3 classes", rest, "decision_function", X, Z, others=True)
    X, y, Z = _classes(1_500, 10, 4, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        four = SVC(probability=True, random_state=0).fit(X, y)
    yield Case("SVC(probability), 4 classes", four, "predict_proba", X, Z, others=True)
    mapped = Nystroem(gamma=0.05, n_components=100, random_state=0)
    line = make_pipeline(mapped, LogisticRegression(max_iter=1_000)).fit(X, y)
    yield Case("Nystroem (100), 4 classes", line, "predict_proba", X, Z, others=True)


def _dense(rows: Any) -> Rows:
    return rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)


CASES: dict[str, Callable[[int], Made]] = {
    "svc": svc_values,
    "proba": svc_probabilities,
    "ensembles": ensembles,
    "gpc": gp_classifier,
    "gpr": gp_regressors,
    "ridge": ridges,
    "features": features,
    "paper": paper,
    "others": others,
}
"""Name of a group -> its cases, one after the other."""


def make(rows: int, groups: list[str], only: str | None) -> Made:
    """The cases asked for; `only` is a part of their names."""
    for group in groups:
        for case in CASES[group](rows):
            if only is None or only.lower() in case.name.lower():
                yield case
