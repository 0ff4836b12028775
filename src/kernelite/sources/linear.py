"""A linear model on the features of Nystroem or kernel PCA: the whole is one expansion.

    W (N k(z) - m) s + b = (N' diag(s) W')' k(z) + b - W (m s)

A linear model by itself needs no support vectors, and is not served.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from kernelite.errors import UnsupportedModelError
from kernelite.machine.affine import AffineMap
from kernelite.machine.heads import Head, LinearHead, RegressorHead
from kernelite.machine.machine import Machine, describe
from kernelite.sources.folding import fold_linear

__all__ = ["FEATURES", "is_linear", "linear_on"]

FEATURES = ("KernelPCA", "Nystroem")
"""Transformers whose coordinates are expansions."""
LINKED = ("GammaRegressor", "PoissonRegressor", "TweedieRegressor")
LOGISTIC = ("LogisticRegression", "LogisticRegressionCV")


def is_linear(model: Any, /) -> bool:
    """Whether it is one of scikit-learn's linear models.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.svm import SVC
    >>> is_linear(Ridge()), is_linear(SVC())
    (True, False)
    """
    kind = type(model)
    listed = kind.__module__.startswith("sklearn.linear_model.")
    return listed or (kind.__name__ in ("LinearSVC", "LinearSVR") and "sklearn" in kind.__module__)


def linear_on(features: Machine, maps: list[AffineMap], model: Any, /) -> Machine:
    """A fitted linear model on kernel features.

    Parameters
    ----------
    features : Machine
        Of Nystroem or KernelPCA.
    maps : list of AffineMap
        Scalers between the two, in their order.
    model : estimator
        With `coef_` and `intercept_`.

    Returns
    -------
    Machine

    Examples
    --------
    >>> from sklearn.kernel_approximation import Nystroem
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from kernelite.sources import read
    >>> X, y = np.arange(6.0).reshape(-1, 1), np.arange(6.0)
    >>> both = make_pipeline(Nystroem(gamma=0.1, n_components=4), Ridge(0.1)).fit(X, y)
    >>> source = linear_on(read(both[0]), [], both[1])
    >>> bool(np.allclose(source.scores(X)[:, 0], both.predict(X)))
    True
    """
    name = type(model).__name__
    if not (hasattr(model, "coef_") and hasattr(model, "intercept_")):
        raise UnsupportedModelError(
            f"this {name} is not fitted, or keeps no `coef_` and `intercept_`."
        )
    if name in LINKED:
        raise UnsupportedModelError(
            f"a {name} is linear behind a logarithm, so that it is not one expansion."
        )
    weights = np.atleast_2d(np.asarray(_dense(model.coef_), dtype=np.float64))
    intercept = np.asarray(model.intercept_, dtype=np.float64).reshape(-1)
    between = list(reduce(AffineMap.then, maps).real()) if maps else None
    expansion = fold_linear(features.single, weights, intercept, between)
    described = describe(f"scikit-learn {features.type_name} and {name}", expansion)
    return replace(
        features,
        expansion=expansion,
        head=_head(model, name),
        description=described,
        type_name=name,
    )


def _head(model: Any, name: str) -> Head:
    classes = getattr(model, "classes_", None)
    if classes is None:
        shape = np.shape(model.coef_)
        return (
            RegressorHead(1) if len(shape) == 1 else RegressorHead(shape[0], value_shape=shape[:1])
        )
    if len(np.atleast_2d(_dense(model.coef_))) != (1 if len(classes) == 2 else len(classes)):
        raise UnsupportedModelError(f"this {name} has several outputs, which are not served.")
    if not hasattr(model, "predict_proba"):
        return LinearHead(np.asarray(classes))
    # Older versions could be told to fit a machine a class, or two for two classes.
    told = getattr(model, "multi_class", "auto")
    apart = told == "ovr" or model.get_params().get("solver") == "liblinear"
    if name not in LOGISTIC or (apart and len(classes) > 2) or told == "multinomial":
        raise UnsupportedModelError(
            f"the probabilities of this {name} are not those of a plain logistic regression."
        )
    return LinearHead(np.asarray(classes), logistic=True)


def _dense(coefficients: Any) -> Any:
    return coefficients.toarray() if hasattr(coefficients, "toarray") else coefficients
