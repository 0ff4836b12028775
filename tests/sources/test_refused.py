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
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge, SGDOneClassSVM
from sklearn.manifold import SpectralEmbedding
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, RegressorChain
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, OneClassSVM

import kernelite as kl
from kernelite.support.errors import UnsupportedModelError
from tests.datasets import iris, linnerud

X, y = iris()
TWO = y < 2
XR, YR = linnerud()


def refused(model: Any, says: str) -> None:
    with pytest.raises(UnsupportedModelError, match=says) as caught:
        kl.compile(model)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


TURNED = make_pipeline(Nystroem(n_components=5), LogisticRegression()).fit(X, y)
TURNED[-1].predict = lambda rows: np.zeros(len(rows))

CASES: dict[str, tuple[Any, str]] = {
    "a linear layer with a method of its own": (TURNED, "LogisticRegression. is not a model"),
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
    "bag behind a scaler": (
        make_pipeline(StandardScaler(), BaggingClassifier(RandomForestClassifier(2), 2)).fit(X, y),
        "holds a RandomForestClassifier",
    ),
    "bag of fewer than it has": (
        BaggingClassifier(SVC(), 3).fit(X, y).set_params(n_estimators=2),
        "has 3 machines, but `n_estimators` was set to 2",
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


def _gpr(kernel: Any) -> Any:
    return GaussianProcessRegressor(kernel, optimizer=None, alpha=0.1).fit(X[:20], X[:20, 0])


FAILED: dict[str, tuple[Any, str, float, str]] = {
    "weights": (_gpr(Matern()), "alpha_", np.nan, "do not add up to a finite number"),
    "spread": (_gpr(Matern()), "_y_train_std", np.inf, "`_y_train_std` of this model is inf"),
    "mean": (_gpr(Matern()), "_y_train_mean", np.nan, "`_y_train_mean` of this model is nan"),
    "noise": (_gpr(WhiteKernel()), "kernel_.noise_level", np.inf, "`noise_level` of this model"),
    "constant": (_gpr(ConstantKernel()), "kernel_.constant_value", np.nan, "`constant_value` of"),
    "product": (_gpr(DotProduct()), "kernel_.sigma_0", 1e200, "parameters that are not served"),
    "width": (
        KernelDensity().fit(X),
        "bandwidth_",
        0.0,
        "`bandwidth_` of this model is 0.0, not a",
    ),
    "thin": (KernelDensity().fit(X), "bandwidth_", np.nan, "`bandwidth_` of this model is nan"),
    "start": (
        make_pipeline(Nystroem(n_components=3), Ridge()).fit(X, y),
        "steps.1.1.intercept_",
        np.nan,
        "`intercept_` of this model is nan",
    ),
    "slopes": (
        make_pipeline(Nystroem(n_components=3), StandardScaler(), Ridge()).fit(X, y),
        "steps.2.1.coef_",
        np.inf,
        r"\(`coef_`\) are NaN or infinite",
    ),
}


@pytest.mark.parametrize("case", FAILED)
def test_numbers_that_a_failed_fit_leaves(case: str) -> None:
    model, place, value, says = FAILED[case]
    *above, name = place.split(".")
    owner = model
    for step in above:
        owner = owner[int(step)] if step.isdecimal() else getattr(owner, step)
    setattr(owner, name, np.asarray(getattr(owner, name)) * 0.0 + value)
    refused(model, says)
