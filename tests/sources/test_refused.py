"""What cannot be served is refused when compiling, by a sentence that says why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    BaggingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, SGDOneClassSVM
from sklearn.manifold import SpectralEmbedding
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, RegressorChain
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, OneClassSVM

import kernelite as kl
from kernelite.errors import UnsupportedModelError
from tests.datasets import iris, linnerud

X, y = iris()
TWO = y < 2
XR, YR = linnerud()


def refused(model: Any, says: str) -> None:
    with pytest.raises(UnsupportedModelError, match=says) as caught:
        kl.compile(model)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


CASES: dict[str, tuple[Any, str]] = {
    "stack": (StackingClassifier([("a", SVC())]), "second model is fitted on the answers"),
    "chain": (ClassifierChain(SVC()), "answers of those before it as features"),
    "union": (FeatureUnion([("a", StandardScaler())]), "joins transformers"),
    "columns": (ColumnTransformer([("a", StandardScaler(), [0])]), "joins transformers"),
    "spectral": (SpectralEmbedding(), "no answer for rows that it was not fitted on"),
    "linear": (LinearSVC(), "linear and needs no support vectors"),
    "unknown": (RandomForestClassifier(), "not a model that can be read"),
    "calibrated forest": (
        CalibratedClassifierCV(RandomForestClassifier(2), cv=2).fit(X, y),
        "holds a RandomForestClassifier that cannot be served: .* not a model that can be read",
    ),
    "vote of others": (
        VotingClassifier([("a", SVC()), ("b", LogisticRegression(max_iter=500))]).fit(X, y),
        "holds a LogisticRegression",
    ),
    "bag of callables": (
        BaggingClassifier(SVC(kernel=lambda a, b: a @ b.T), 2).fit(X, y),
        "holds a SVC that cannot be served: this SVC has a callable as kernel",
    ),
    "bag behind a scaler": (
        make_pipeline(StandardScaler(), BaggingClassifier(RandomForestClassifier(2), 2)).fit(X, y),
        "holds a RandomForestClassifier",
    ),
    "regressors in pairs": (
        OneVsOneClassifier(SVR()).fit(X, y),
        "holds regressors, whose values are no votes",
    ),
    "gaussian process asked for probabilities": (
        OneVsRestClassifier(GaussianProcessClassifier(optimizer=None)).fit(X, y),
        "probabilities, which need its variance",
    ),
    "linear outliers on kernel features": (
        make_pipeline(Nystroem(n_components=5), SGDOneClassSVM()).fit(X),
        "keeps no `coef_` and `intercept_`",
    ),
    "unfitted calibration": (CalibratedClassifierCV(SVC()), "not fitted"),
    "unfitted bag": (BaggingClassifier(SVC()), "not fitted"),
    "unfitted rest": (OneVsRestClassifier(SVC()), "not fitted"),
    "unfitted outputs": (MultiOutputClassifier(SVC()), "not fitted"),
    "zero weights": (
        SVC().fit(X, y, sample_weight=np.where(y == 1, 0.0, 1.0)),
        "all rows of 1 of them had weight zero",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refusals(name: str) -> None:
    model, says = CASES[name]
    refused(model, says)


def test_fitted_ones_are_refused_the_same() -> None:
    refused(StackingClassifier([("a", SVC())], cv=2).fit(X, y), "second model")
    refused(StackingRegressor([("a", SVR())], cv=2).fit(XR, YR[:, 0]), "second model")
    refused(RegressorChain(SVR()).fit(XR, YR), "answers of those before it")


def test_outlier_detectors_are_no_members() -> None:
    vote = VotingClassifier([("a", SVC()), ("b", SVC())]).fit(X, y)
    vote.estimators_[1] = OneClassSVM().fit(X)
    refused(vote, "neither a classifier nor a regressor")
