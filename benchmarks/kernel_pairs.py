"""Every kernel that an estimator takes: the models of the table in docs/machines.md, unfitted.

The test suite compares each of them with its own library on fewer rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

__all__ = ["PAIRS", "Pair", "answers", "data", "fitted", "table"]


@dataclass(frozen=True)
class Pair:
    """A kernel and an estimator.

    Parameters
    ----------
    kernel, estimator : str
        As the table calls them.
    make : callable
        Makes an unfitted estimator; of SciPy's, a fitted one from rows and values.
    method : str
        What is compared; "std" stands for `predict` with `return_std`.
    guarantee : str
        "certified", where the kernel's values are proven.
    """

    kernel: str
    estimator: str
    make: Callable[..., Any]
    method: str = "predict"
    guarantee: str = "certified"

    @property
    def name(self) -> str:
        """Both, for people."""
        return f"{self.estimator}, {self.kernel}"


def data(n: int, m: int) -> tuple[Any, Any, Any]:
    """Rows (n, 8) and values to train on, rows (m, 8) to predict."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(n, 8)), rng.normal(size=(m, 8))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 4 + 0.1 * rng.normal(size=n), Z


def fitted(pair: Pair, X: Any, y: Any) -> Any:
    """The pair's model, trained; classifiers get the signs of the values."""
    if pair.estimator == "RBFInterpolator":
        return pair.make(X, y)
    labels = pair.estimator in ("SVC", "NuSVC", "GaussianProcessClassifier")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pair.make().fit(X, (y > 0).astype(int) if labels else y)


def answers(model: Any, pair: Pair) -> Callable[[Any], Any]:
    """What the pair's model, or the one compiled from it, answers for rows."""
    if pair.method == "std":
        return lambda rows: model.predict(rows, return_std=True)[1]
    if pair.estimator == "RBFInterpolator":
        return lambda rows: model(rows)
    found: Callable[[Any], Any] = getattr(model, pair.method)
    return found


NAMED: dict[str, dict[str, Any]] = {
    "linear": {"kernel": "linear"},
    "polynomial 2": {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.1},
    "polynomial 3": {"kernel": "poly", "degree": 3, "coef0": 1.0, "gamma": 0.1},
    "polynomial 4": {"kernel": "poly", "degree": 4, "coef0": 1.0, "gamma": 0.1},
    "polynomial 5": {"kernel": "poly", "degree": 5, "coef0": 1.0, "gamma": 0.1},
    "RBF": {"kernel": "rbf", "gamma": 0.1},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.01, "coef0": 0.5},
    "Laplacian": {"kernel": "laplacian", "gamma": 0.1},
    "cosine": {"kernel": "cosine"},
}
SHAPES = {
    "RBF": "gaussian",
    "thin plate spline": "thin_plate_spline",
    "linear spline": "linear",
    "cubic spline": "cubic",
    "quintic spline": "quintic",
    "multiquadric": "multiquadric",
    "inverse multiquadric": "inverse_multiquadric",
    "inverse quadratic": "inverse_quadratic",
}


def _named() -> Iterator[Pair]:
    from sklearn import svm
    from sklearn.decomposition import KernelPCA
    from sklearn.kernel_approximation import Nystroem
    from sklearn.kernel_ridge import KernelRidge

    machines: dict[str, Callable[..., Any]] = {
        "SVC": svm.SVC,
        "NuSVC": partial(svm.NuSVC, nu=0.3),
        "SVR": svm.SVR,
        "NuSVR": svm.NuSVR,
        "OneClassSVM": partial(svm.OneClassSVM, nu=0.2),
    }
    for kernel, options in NAMED.items():
        if kernel not in ("Laplacian", "cosine"):
            for name, make in machines.items():
                yield Pair(kernel, name, partial(make, **options))
        yield Pair(kernel, "KernelRidge", partial(KernelRidge, **options))
        if kernel != "Laplacian":
            pca = partial(KernelPCA, n_components=3, random_state=0, **options)
            yield Pair(kernel, "KernelPCA", pca, "transform")
        # Of more components than the kernel has rank, the last ones are rounding alone.
        count = 5 if kernel in ("linear", "cosine") else 30
        nystroem = partial(Nystroem, n_components=count, random_state=0, **options)
        yield Pair(kernel, "Nystroem", nystroem, "transform")


def _covariances() -> Iterator[Pair]:
    from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
    from sklearn.gaussian_process import kernels as gp
    from sklearn.kernel_ridge import KernelRidge

    scales = np.linspace(2.0, 5.0, 8)
    covariances = {
        "RBF": gp.RBF(3.0),
        "RBF, a scale per feature": gp.RBF(scales),
        "Matern 1/2": gp.Matern(3.0, nu=0.5),
        "Matern 3/2": gp.Matern(3.0, nu=1.5),
        "Matern 5/2": gp.Matern(3.0, nu=2.5),
        "Matern 3/2, a scale per feature": gp.Matern(scales, nu=1.5),
        "Matern 7/10": gp.Matern(3.0, nu=0.7),
        "RationalQuadratic": gp.RationalQuadratic(3.0, 1.0),
        "DotProduct": gp.DotProduct(1.0),
        "DotProduct cubed": 0.01 * gp.DotProduct(1.0) ** 3,
        "ExpSineSquared": gp.ExpSineSquared(9.0, 60.0),
        "Matern + DotProduct": gp.Matern(3.0) + gp.DotProduct(1.0),
        "Matern x RBF": gp.Matern(3.0) * gp.RBF(9.0),
    }
    for kernel, covariance in covariances.items():
        # Bessel functions are SciPy's, whose accuracy is not proven.
        guarantee = "exact" if kernel == "Matern 7/10" else "certified"
        ridge = partial(KernelRidge, alpha=0.1, kernel=covariance)
        yield Pair(kernel, "KernelRidge", ridge, guarantee=guarantee)
        regressor = partial(GaussianProcessRegressor, covariance, alpha=0.1, optimizer=None)
        name = "GaussianProcessRegressor"
        yield Pair(kernel, name, regressor, guarantee=guarantee)
        yield Pair(kernel, f"{name}, std", regressor, "std", guarantee)
        classifier = partial(GaussianProcessClassifier, covariance, optimizer=None)
        yield Pair(kernel, "GaussianProcessClassifier", classifier, guarantee=guarantee)


def _shapes() -> Iterator[Pair]:
    from scipy.interpolate import RBFInterpolator

    for kernel, shape in SHAPES.items():
        make = partial(RBFInterpolator, kernel=shape, epsilon=0.5, smoothing=0.1)
        yield Pair(kernel, "RBFInterpolator", make)


PAIRS: tuple[Pair, ...] = tuple(
    {pair.name: pair for pair in (*_named(), *_covariances(), *_shapes())}.values()
)


def table(found: Sequence[dict[str, Any]]) -> str:
    """Kernels by estimators in Markdown: how many times faster than the original."""
    kernels = list(dict.fromkeys(entry["kernel"] for entry in found))
    estimators = list(dict.fromkeys(entry["estimator"] for entry in found))
    cells = {(entry["kernel"], entry["estimator"]): entry for entry in found}
    lines = ["| kernel | " + " | ".join(estimators) + " |", "|---|" + "--:|" * len(estimators)]
    for kernel in kernels:
        row = [cells.get((kernel, estimator)) for estimator in estimators]
        shown = ["" if entry is None else f"{entry['ratio']:.3g}x" for entry in row]
        lines.append(f"| {kernel} | " + " | ".join(shown) + " |")
    return "\n".join(lines)
