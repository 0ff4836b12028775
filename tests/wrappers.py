"""Wrapped models for the table of `tests.models`: pipelines, searches, ensembles."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import make_multilabel_classification
from sklearn.decomposition import PCA, KernelPCA
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import SelectKBest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC, OneClassSVM

from tests.datasets import (
    Table,
    cancer,
    diabetes,
    digits,
    friedman,
    generated,
    iris,
    linnerud,
    named_iris,
    raw_cancer,
    wine,
    words,
)

__all__ = ["WRAPPERS"]


def _labels() -> Table:
    X, Y = make_multilabel_classification(120, 8, n_classes=4, random_state=0)
    return X / 10.0, Y


def _two_labels() -> Table:
    X, y = wine()
    return X, np.stack([y, y % 2], axis=1)


def _positive() -> Table:
    X, y = diabetes()
    return X, y + 1.0


def _generated_values() -> Table:
    X, y = generated()
    return X, y + X[:, 0] - 0.1 * X[:, 1]


def _generated_labels() -> Table:
    X, y = generated()
    return X, np.stack([y, (X[:, 0] > 0).astype(int)], axis=1)


def _scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


_CALIBRATED = CalibratedClassifierCV(SVC(gamma=0.02), cv=3)
_THREE = [
    ("a", SVC(gamma=0.01)),
    ("b", SVC(gamma=0.02)),
    ("c", NuSVC(gamma=0.02, nu=0.3)),
]
_VALUES = [
    ("a", SVR(gamma=0.01, C=9.0)),
    ("b", KernelRidge(kernel="rbf", gamma=0.02)),
    ("c", make_pipeline(RobustScaler(), SVR(gamma=0.01))),
]
_SPLIT = ColumnTransformer([("a", StandardScaler(), [0, 1, 2]), ("b", "passthrough", [3])])

# name: (estimator, data, form, rows to fit on)
WRAPPERS: dict[str, tuple[Any, Any, str, int | None]] = {
    "pipeline standard frame": (_scaled(SVC(gamma=0.02)), raw_cancer, "frame", None),
    "pipeline minmax": (make_pipeline(MinMaxScaler((-1, 1)), SVC(gamma=0.1)), wine, "dense", None),
    "pipeline maxabs sparse": (make_pipeline(MaxAbsScaler(), SVC()), words, "sparse", None),
    "pipeline robust, minmax": (
        make_pipeline("passthrough", RobustScaler(), FunctionTransformer(), MinMaxScaler(), SVR()),
        friedman,
        "dense",
        None,
    ),
    "pipeline clipped": (
        make_pipeline(MinMaxScaler(clip=True), SVC()),
        iris,
        "dense",
        None,
    ),
    "pipeline normalizer": (make_pipeline(Normalizer(), SVC(gamma=0.5)), iris, "dense", None),
    "pipeline pca frame": (
        make_pipeline(StandardScaler(), PCA(3), StandardScaler(), SVC(gamma=0.1)),
        named_iris,
        "frame",
        None,
    ),
    "pipeline selected": (
        make_pipeline(SelectKBest(k=7), StandardScaler(), SVC(gamma=0.05)),
        raw_cancer,
        "dense",
        None,
    ),
    "pipeline imputer": (make_pipeline(SimpleImputer(), _scaled(SVR())), diabetes, "dense", None),
    "pipeline columns": (make_pipeline(_SPLIT, SVC(gamma=0.2)), iris, "frame", None),
    "pipeline oneclass": (_scaled(OneClassSVM(nu=0.2, gamma=0.02)), wine, "dense", None),
    "pipeline ridge": (
        _scaled(KernelRidge(kernel="rbf", gamma=0.05)),
        linnerud,
        "dense",
        None,
    ),
    "pipeline gpr length scales": (
        _scaled(GaussianProcessRegressor(RBF(np.arange(3.0, 9.0)), alpha=0.1, optimizer=None)),
        friedman,
        "dense",
        None,
    ),
    "pipeline generated": (_scaled(SVC(gamma=0.05)), generated, "dense", 300),
    "nystroem ridge": (
        _scaled(make_pipeline(Nystroem(gamma=0.05, n_components=30, random_state=0), Ridge(0.1))),
        diabetes,
        "frame",
        None,
    ),
    "nystroem scaled svc": (
        make_pipeline(
            Nystroem(gamma=0.1, n_components=20, random_state=0), StandardScaler(), LinearSVC()
        ),
        named_iris,
        "dense",
        None,
    ),
    "nystroem logistic": (
        make_pipeline(Nystroem(gamma=0.02, random_state=0, n_components=40), LogisticRegression()),
        cancer,
        "dense",
        None,
    ),
    "pca logistic": (
        make_pipeline(KernelPCA(6, kernel="rbf", gamma=0.02), LogisticRegression(max_iter=500)),
        wine,
        "dense",
        None,
    ),
    "nystroem outputs": (
        make_pipeline(Nystroem(gamma=0.1, n_components=8, random_state=0), Ridge(0.5)),
        linnerud,
        "dense",
        None,
    ),
    "nystroem svc generated": (
        make_pipeline(Nystroem(gamma=0.05, n_components=50, random_state=0), LinearSVC()),
        generated,
        "dense",
        300,
    ),
    "search svc": (GridSearchCV(SVC(gamma=0.05), {"C": [1, 10]}, cv=2), iris, "dense", None),
    "search pipeline frame": (
        RandomizedSearchCV(_scaled(SVR()), {"svr__C": [1, 9]}, n_iter=2, cv=2, random_state=0),
        diabetes,
        "frame",
        None,
    ),
    "search generated": (
        GridSearchCV(_scaled(SVC()), {"svc__gamma": [0.02, 0.1]}, cv=2),
        generated,
        "dense",
        200,
    ),
    "calibrated sigmoid": (_CALIBRATED, cancer, "dense", None),
    "calibrated isotonic": (
        CalibratedClassifierCV(SVC(gamma=0.02), method="isotonic", cv=3),
        cancer,
        "dense",
        None,
    ),
    "calibrated alone": (
        CalibratedClassifierCV(SVC(), ensemble=False, cv=3),
        raw_cancer,
        "dense",
        None,
    ),
    "calibrated scaled folds": (
        CalibratedClassifierCV(_scaled(SVC(gamma=0.02)), cv=3),
        wine,
        "frame",
        None,
    ),
    "calibrated pca": (
        CalibratedClassifierCV(make_pipeline(PCA(3), SVC(gamma=0.05)), cv=2),
        wine,
        "dense",
        None,
    ),
    "calibrated isotonic wine": (
        CalibratedClassifierCV(SVC(gamma=0.02), method="isotonic", cv=3, ensemble=False),
        wine,
        "dense",
        None,
    ),
    "calibrated scales sparse": (CalibratedClassifierCV(SVC(), cv=2), words, "sparse", None),
    "calibrated generated": (CalibratedClassifierCV(SVC(gamma=0.03)), generated, "dense", 300),
    "one vs rest digits": (OneVsRestClassifier(SVC(gamma=0.01)), digits, "dense", None),
    "one vs rest two": (OneVsRestClassifier(SVC()), raw_cancer, "frame", None),
    "one vs rest labels": (OneVsRestClassifier(SVC(gamma=0.05)), _labels, "dense", None),
    "one vs rest calibrated": (OneVsRestClassifier(_CALIBRATED), wine, "dense", None),
    "one vs rest ridge": (
        OneVsRestClassifier(KernelRidge(kernel="rbf", gamma=0.05)),
        iris,
        "dense",
        None,
    ),
    "one vs rest generated": (OneVsRestClassifier(SVC(gamma=0.03)), generated, "dense", 300),
    "one vs one wine": (OneVsOneClassifier(SVC(gamma=0.02)), wine, "dense", None),
    "one vs one scales": (OneVsOneClassifier(SVC()), named_iris, "dense", None),
    "one vs one calibrated": (OneVsOneClassifier(_CALIBRATED), wine, "dense", None),
    "one vs one generated": (OneVsOneClassifier(SVC(gamma=0.03)), generated, "dense", 300),
    "output code digits": (
        OutputCodeClassifier(SVC(gamma=0.01), random_state=0),
        digits,
        "dense",
        None,
    ),
    "output code iris": (
        OutputCodeClassifier(_scaled(SVC()), code_size=2, random_state=1),
        named_iris,
        "dense",
        None,
    ),
    "output code generated": (
        OutputCodeClassifier(SVC(gamma=0.03), code_size=3, random_state=0),
        generated,
        "dense",
        300,
    ),
    "outputs wine": (MultiOutputClassifier(SVC(gamma=0.02)), _two_labels, "dense", None),
    "outputs labels": (MultiOutputClassifier(_CALIBRATED), _labels, "dense", None),
    "outputs linnerud": (MultiOutputRegressor(SVR(C=9.0)), linnerud, "dense", None),
    "outputs generated": (
        MultiOutputClassifier(SVC(gamma=0.03)),
        _generated_labels,
        "dense",
        300,
    ),
    "bagging digits": (
        BaggingClassifier(SVC(gamma=0.02), 4, random_state=0),
        digits,
        "dense",
        None,
    ),
    "bagging features": (
        BaggingClassifier(SVC(gamma=0.02), 5, max_features=0.5, random_state=0),
        wine,
        "frame",
        None,
    ),
    "bagging calibrated": (BaggingClassifier(_CALIBRATED, 3, random_state=0), wine, "dense", None),
    "bagging scaled features": (
        BaggingClassifier(_scaled(SVC()), 3, max_features=0.4, random_state=0),
        raw_cancer,
        "dense",
        None,
    ),
    "bagging generated": (
        BaggingClassifier(SVC(gamma=0.03), 3, random_state=0),
        generated,
        "dense",
        300,
    ),
    "bagging values": (
        BaggingRegressor(SVR(gamma=0.02, C=9.0), 5, random_state=0),
        diabetes,
        "dense",
        None,
    ),
    "bagging values features": (
        BaggingRegressor(SVR(C=9.0), 3, max_features=0.5, random_state=0),
        friedman,
        "dense",
        None,
    ),
    "bagging values generated": (
        BaggingRegressor(SVR(gamma=0.03), 3, random_state=0),
        _generated_values,
        "dense",
        300,
    ),
    "voting hard": (VotingClassifier(_THREE), wine, "dense", None),
    "voting hard weights": (
        VotingClassifier(_THREE, weights=[1, 2, 1.5]),
        named_iris,
        "frame",
        None,
    ),
    "voting soft": (
        VotingClassifier(
            [("a", _CALIBRATED), ("b", CalibratedClassifierCV(SVC(), cv=2))],
            voting="soft",
            weights=[2, 1],
        ),
        wine,
        "dense",
        None,
    ),
    "voting generated": (VotingClassifier(_THREE), generated, "dense", 300),
    "voting values": (VotingRegressor(_VALUES, weights=[2, 1, 1]), diabetes, "dense", None),
    "voting values friedman": (VotingRegressor(_VALUES[:2]), friedman, "frame", None),
    "voting values generated": (VotingRegressor(_VALUES[:2]), _generated_values, "dense", 300),
    "target standard": (
        TransformedTargetRegressor(SVR(gamma=0.02), transformer=StandardScaler()),
        diabetes,
        "dense",
        None,
    ),
    "target logarithm": (
        TransformedTargetRegressor(SVR(gamma=0.02), func=np.log, inverse_func=np.exp),
        _positive,
        "dense",
        None,
    ),
    "target quantiles": (
        TransformedTargetRegressor(
            SVR(gamma=0.02), transformer=QuantileTransformer(n_quantiles=20)
        ),
        diabetes,
        "frame",
        None,
    ),
    "target outputs": (
        TransformedTargetRegressor(
            KernelRidge(kernel="rbf", gamma=0.05), transformer=MinMaxScaler()
        ),
        linnerud,
        "dense",
        None,
    ),
    "target bagging": (
        BaggingRegressor(
            TransformedTargetRegressor(SVR(gamma=0.02), func=np.log, inverse_func=np.exp),
            3,
            random_state=0,
        ),
        _positive,
        "dense",
        None,
    ),
    "target generated": (
        TransformedTargetRegressor(_scaled(SVR(gamma=0.02)), func=np.arcsinh, inverse_func=np.sinh),
        _generated_values,
        "dense",
        300,
    ),
}
