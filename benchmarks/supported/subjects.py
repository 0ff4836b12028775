"""Every supported estimator, with two data sets that scikit-learn ships and one of 20,000 rows.

`SUBJECTS` maps the name of an estimator to a `Subject`; `fitted(name, data)` fits it once.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import KernelPCA
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    RandomizedSearchCV,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

from benchmarks.supported import twins
from tests import datasets
from tests.datasets import Table, half_labelled

__all__ = ["GENERATED", "SUBJECTS", "Subject", "absent", "fitted"]

GENERATED = "generated"
_SVC, _SVR = SVC(gamma=0.02), SVR(gamma=0.003, C=3.0)
_C = {"C": [1.0, 3.0]}
_SEARCH: dict[str, Any] = {"cv": 2, "random_state": 0}


def _values(table: Table) -> Table:
    """One number a row: a target, or something smooth of a generated row."""
    X, y = table
    return X, y[:, 0] if y.ndim == 2 else y + 0.3 * X[:, 0] - 0.1 * X[:, 1]


def _several_values(table: Table) -> Table:
    X, y = table
    return X, y if y.ndim == 2 else np.stack([y, X[:, 0] - X[:, 1]], axis=1)


def _several_labels(table: Table) -> Table:
    X, y = table
    return X, np.stack([y, (X[:, 0] > 0).astype(int)], axis=1)


def _two_classes(table: Table) -> Table:
    X, y = table
    return X, (y > 0).astype(int)


@dataclass(frozen=True)
class Subject:
    """An unfitted estimator, the data it is tried on, and what is made of their targets."""

    estimator: Any
    data: tuple[str, str] = ("wine", "breast cancer")
    task: Callable[[Table], Table] = lambda table: table
    wrap: Callable[[Any], Any] | None = None  # what the fitted model is put into


_VALUES = ("diabetes", "linnerud")
DATA: dict[str, Callable[[], Table]] = {
    "breast cancer": datasets.cancer,
    "diabetes": datasets.diabetes,
    "digits": datasets.digits,
    "iris": datasets.iris,
    "linnerud": datasets.linnerud,
    "wine": datasets.wine,
    GENERATED: cache(datasets.generated),
}

SUBJECTS: dict[str, Subject] = {
    "SVC": Subject(_SVC, ("wine", "digits")),
    "NuSVC": Subject(NuSVC(gamma=0.02, nu=0.3)),
    "SVR": Subject(_SVR, _VALUES, _values),
    "NuSVR": Subject(NuSVR(gamma=0.003), _VALUES, _values),
    "OneClassSVM": Subject(OneClassSVM(gamma=0.02, nu=0.2)),
    "KernelRidge": Subject(KernelRidge(kernel="rbf", gamma=0.003), _VALUES, _several_values),
    "GaussianProcessRegressor": Subject(
        GaussianProcessRegressor(2.0 * RBF(12.0) + WhiteKernel(0.1), optimizer=None),
        _VALUES,
        _values,
    ),
    "GaussianProcessRegressor (sum of RBFs)": Subject(
        GaussianProcessRegressor(
            2.0 * RBF(40.0) + 0.5 * RBF(12.0) + WhiteKernel(0.1), optimizer=None
        ),
        _VALUES,
        _values,
    ),
    "GaussianProcessClassifier": Subject(
        GaussianProcessClassifier(2.0 * RBF(5.0), optimizer=None), ("iris", "breast cancer")
    ),
    "KernelDensity": Subject(KernelDensity(bandwidth=1.0), ("iris", "wine")),
    "KernelPCA": Subject(KernelPCA(3, kernel="rbf", gamma=0.003), ("digits", "wine")),
    "Nystroem": Subject(
        Nystroem(gamma=0.003, n_components=50, random_state=0), ("iris", "breast cancer")
    ),
    "LabelPropagation": Subject(LabelPropagation(gamma=0.5), ("iris", "wine"), half_labelled),
    "LabelSpreading": Subject(LabelSpreading(gamma=0.5), ("iris", "digits"), half_labelled),
    "Pipeline (scaler, SVC)": Subject(make_pipeline(StandardScaler(), SVC(gamma=0.02))),
    "Pipeline (Nystroem, linear)": Subject(
        make_pipeline(
            Nystroem(gamma=0.02, n_components=40, random_state=0), LogisticRegression(max_iter=500)
        )
    ),
    "GridSearchCV": Subject(GridSearchCV(_SVC, _C, cv=2)),
    "RandomizedSearchCV": Subject(
        RandomizedSearchCV(_SVR, _C, n_iter=2, **_SEARCH), _VALUES, _values
    ),
    "HalvingGridSearchCV": Subject(HalvingGridSearchCV(_SVC, _C, **_SEARCH)),
    "HalvingRandomSearchCV": Subject(
        HalvingRandomSearchCV(_SVC, _C, n_candidates=2, **_SEARCH), ("iris", "breast cancer")
    ),
    "CalibratedClassifierCV": Subject(CalibratedClassifierCV(_SVC, cv=3)),
    "OneVsRestClassifier": Subject(OneVsRestClassifier(_SVC), ("wine", "iris")),
    "OneVsOneClassifier": Subject(OneVsOneClassifier(_SVC), ("wine", "iris")),
    "OutputCodeClassifier": Subject(
        OutputCodeClassifier(_SVC, code_size=3, random_state=0), ("wine", "iris")
    ),
    "MultiOutputClassifier": Subject(
        MultiOutputClassifier(_SVC), ("wine", "breast cancer"), _several_labels
    ),
    "MultiOutputRegressor": Subject(MultiOutputRegressor(_SVR), _VALUES, _several_values),
    "BaggingClassifier": Subject(BaggingClassifier(_SVC, 3, random_state=0)),
    "BaggingRegressor": Subject(BaggingRegressor(_SVR, 3, random_state=0), _VALUES, _values),
    "VotingClassifier": Subject(
        VotingClassifier([("a", _SVC), ("b", SVC(gamma=0.05)), ("c", NuSVC(gamma=0.02, nu=0.3))])
    ),
    "VotingRegressor": Subject(
        VotingRegressor([("a", _SVR), ("b", KernelRidge(kernel="rbf", gamma=0.002))]),
        _VALUES,
        _values,
    ),
    "TransformedTargetRegressor": Subject(
        TransformedTargetRegressor(_SVR, func=np.arcsinh, inverse_func=np.sinh), _VALUES, _values
    ),
    "Least-squares SVM (arrays)": Subject(
        twins.LeastSquaresTwin(), ("breast cancer", "wine"), _two_classes
    ),
    "Kernel k-means (arrays)": Subject(twins.KernelMeansTwin(), ("iris", "wine")),
    "Kernel discriminant (arrays)": Subject(twins.DiscriminantTwin(), ("iris", "wine")),
    "RBFInterpolator (SciPy)": Subject(twins.InterpolatorTwin(), _VALUES, _values),
    "gaussian_kde (SciPy)": Subject(twins.DensityTwin(), ("iris", "wine")),
    "ExactGP (GPyTorch)": Subject(twins.ProcessTwin(), _VALUES, _values),
    "KernelKMeans (tslearn)": Subject(twins.SeriesMeansTwin(), ("iris", "wine")),
}


def _frozen(model: Any) -> Any:
    from sklearn.frozen import FrozenEstimator

    return FrozenEstimator(model)


SUBJECTS["FrozenEstimator"] = Subject(_SVC, ("iris", "breast cancer"), wrap=_frozen)
NEEDS = {
    "FrozenEstimator": "sklearn.frozen",
    "KernelKMeans (tslearn)": "tslearn",
    "ExactGP (GPyTorch)": "gpytorch",
}


def absent(name: str) -> str | None:
    """The library that an estimator needs and that is not here; None where nothing lacks.

    Frozen estimators came with scikit-learn 1.6.
    """
    library = NEEDS.get(name)
    missing = library is not None and importlib.util.find_spec(library) is None
    return library if missing else None


@cache
def fitted(name: str, data: str, train: int = 200) -> tuple[Any, np.ndarray]:
    """The model fitted on the first rows of its data, and all of them."""
    subject = SUBJECTS[name]
    X, y = subject.task(DATA[data]())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence, mostly: any fit will do
        model = clone(subject.estimator).fit(X[:train], y[:train])
    return (model if subject.wrap is None else subject.wrap(model)), X
