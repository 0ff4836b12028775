"""scikit-learn's feature maps (Nystroem, KernelPCA), alone or under a linear model: one expansion.

Nystroem's features are N k(components, z). KernelPCA: with
A = eigenvectors / sqrt(eigenvalues) and the means of the training kernel matrix (of its rows r_j,
of all of it a), scikit-learn projects k_j - r_j - mean_i(k_i) + a. So

    y = sum_j (A_j - mean(A)) k(x_j, z) - r.A + a sum(A)
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from kernelite.machine.affine import AffineMap
from kernelite.machine.exactly import UNIT, accurate_product, exact_sum, two_words
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import Head, LinearHead, RegressorHead, TransformHead
from kernelite.machine.machine import Machine, describe
from kernelite.sources.common import (
    fold_linear,
    named_kernel,
    numbers,
    precomputed_machine,
    require_fitted,
    sklearn_machine,
)
from kernelite.support.errors import UnsupportedModelError

__all__ = [
    "FEATURES",
    "is_linear",
    "linear_on",
    "nystroem_expansion",
    "read_kernel_pca",
    "read_nystroem",
]


def nystroem_expansion(model: Any, type_name: str = "Nystroem", /) -> KernelExpansion:
    """The features of a fitted Nystroem as an expansion in its components.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.kernel_approximation import Nystroem
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> features = Nystroem(gamma=0.1, n_components=5, random_state=0).fit(X)
    >>> bool(np.allclose(nystroem_expansion(features).scores(X), features.transform(X)))
    True
    """
    require_fitted(model, "components_", type_name)
    kernel = named_kernel(model, type_name, int(model.n_features_in_))
    coefficients = numbers(model.normalization_).T
    return kernel.expansion(model.components_, coefficients, np.zeros(coefficients.shape[1]))


def read_nystroem(model: Any, type_name: str = "Nystroem", /) -> Machine:
    """Read a fitted Nystroem with a kernel that has a name.

    Examples
    --------
    >>> from sklearn.kernel_approximation import Nystroem
    >>> features = Nystroem(gamma=0.5, n_components=2).fit([[0.0], [1.0], [2.0]])
    >>> read_nystroem(features).description
    'scikit-learn Nystroem, 2 support vectors, gamma 0.5'
    """
    expansion = nystroem_expansion(model, type_name)
    return sklearn_machine(model, type_name, expansion, TransformHead(expansion.n_outputs))


def read_kernel_pca(model: Any, type_name: str = "KernelPCA", /) -> Machine:
    """Read a fitted KernelPCA with a kernel that has a name.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import KernelPCA
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> pca = KernelPCA(2, kernel="rbf", gamma=0.1).fit(X)
    >>> machine = read_kernel_pca(pca)
    >>> bool(np.allclose(machine.expansion.scores(X), pca.transform(X)))
    True
    """
    require_fitted(model, "eigenvectors_", type_name)
    values, vectors = numbers(model.eigenvalues_), numbers(model.eigenvectors_)
    kept = values != 0  # scikit-learn gives zeros along the null space
    vectors = np.where(kept, vectors, 0.0)
    roots = np.sqrt(np.where(kept, values, 1.0))
    n, k = vectors.shape
    # V - mean(V), whose mean has two words: off by 4u an entry, as `machine.affine` shows; then
    # the root and the quotient.
    means = np.array([two_words(exact_sum(column) / n) for column in vectors.T]).reshape(k, 2)
    coefficients = ((vectors - means[:, 0]) - means[:, 1]) / roots
    rows, whole = numbers(model._centerer.K_fit_rows_), float(model._centerer.K_fit_all_)
    left = np.concatenate([np.full(n, whole), -rows])[None, :]
    constants, lost = accurate_product(left, np.vstack([vectors, vectors]))
    error = 1.01 * lost[0] / roots
    if model.kernel == "precomputed":  # each entry of the linear map errs by 6u
        places = coefficients, constants[0] / roots, TransformHead(k)
        rounded = {"centers": 6.1 * UNIT, "intercept": error}
        return precomputed_machine(model, type_name, *places, rounded=rounded)
    kernel = named_kernel(model, type_name, int(model.n_features_in_))
    expansion = kernel.expansion(model.X_fit_, coefficients, constants[0] / roots)
    expansion = expansion.rounded(units=6.0, intercept=error)
    return sklearn_machine(model, type_name, expansion, TransformHead(expansion.n_outputs))


# A linear model on the features of Nystroem or kernel PCA: the whole is one expansion.
#
#     W (N k(z) - m) s + b = (N' diag(s) W')' k(z) + b - W (m s)
#
# A linear model by itself needs no support vectors, and is not served.


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
    >>> machine = linear_on(read(both[0]), [], both[1])
    >>> bool(np.allclose(machine.scores(X)[:, 0], both.predict(X)))
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
    weights = np.atleast_2d(numbers(model.coef_))
    intercept = numbers(model.intercept_).reshape(-1)
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
        shape = np.shape(model.coef_)[:-1]  # () of one output
        return RegressorHead(shape[0], value_shape=shape) if shape else RegressorHead()
    if len(np.atleast_2d(numbers(model.coef_))) != (1 if len(classes) == 2 else len(classes)):
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
