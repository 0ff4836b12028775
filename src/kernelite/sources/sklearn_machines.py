"""scikit-learn's plain kernel machines, and its feature maps, alone or under a linear model.

SVMs, KernelRidge, label propagation, KernelDensity; Nystroem, KernelPCA.

In: a fitted estimator, dense or sparse. Out: a `Machine` with copies of its arrays. scikit-learn
itself is not imported; signs are those of its public `decision_function`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from kernelite.data.rows.inputs import is_sparse
from kernelite.machine.affine import AffineMap
from kernelite.machine.exactly import UNIT, accurate_product, exact_sum, fraction, two_words
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import (
    ArgmaxHead,
    ClassifierHead,
    DensityHead,
    Head,
    LinearHead,
    OutlierHead,
    RegressorHead,
    TransformHead,
)
from kernelite.machine.kernels import Bump, FunctionKernel, Matern
from kernelite.machine.kernels.powers import log_volume
from kernelite.machine.machine import Machine, describe
from kernelite.sources.common import (
    NamedKernel,
    fold_linear,
    named_kernel,
    numbers,
    other_kernel,
    pairwise_coefficients,
    precomputed_machine,
    require_fitted,
    sklearn_machine,
)
from kernelite.sources.kernel_sums import DualWeights, kernel_machine
from kernelite.sources.kernel_trees import is_kernel, kernel_tree
from kernelite.support.errors import UnsupportedModelError

__all__ = [
    "FEATURES",
    "is_linear",
    "linear_on",
    "nystroem_expansion",
    "read_kernel_density",
    "read_kernel_pca",
    "read_kernel_ridge",
    "read_label_propagation",
    "read_nystroem",
    "read_svm",
]


def read_svm(model: Any, type_name: str, /) -> Machine:
    """Read a fitted scikit-learn SVM.

    Its kernel must be "linear", "poly", "rbf", "sigmoid", "precomputed", or a function.

    Examples
    --------
    >>> from sklearn.svm import SVR
    >>> machine = read_svm(SVR(gamma=0.5, C=2.0).fit([[0.0], [1.0], [2.0]], [0, 1, 4]), "SVR")
    >>> machine.description
    'scikit-learn SVR, 3 support vectors, gamma 0.5'
    """
    require_fitted(model, "support_vectors_", type_name)
    classifier = type_name in ("SVC", "NuSVC")
    if classifier and len(model.n_support_) != len(model.classes_):
        raise UnsupportedModelError(
            f"this {type_name} knows {len(model.classes_)} classes, but all rows of "
            f"{len(model.classes_) - len(model.n_support_)} of them had weight zero when it was "
            "fitted, and it does not say which; fit it on rows of every class."
        )
    _check_as_fitted(model, type_name)
    coefficients = numbers(model.dual_coef_).T
    if classifier and len(model.classes_) > 2:
        coefficients = pairwise_coefficients(coefficients, [int(n) for n in model.n_support_])
    coefficients = coefficients.reshape(-1, len(model.intercept_))
    head = _head(model, type_name)
    if model.kernel == "precomputed":
        places = coefficients, model.intercept_, head, model.support_
        return precomputed_machine(model, type_name, *places)
    expansion = _kernel(model, type_name).expansion(_vectors(model), coefficients, model.intercept_)
    return sklearn_machine(model, type_name, expansion, head)


def _check_as_fitted(model: Any, type_name: str) -> None:
    """Refuse an SVM whose private coefficients, by which it predicts, are not the public ones.

    With two classes these have the other sign. Intel's classes predict by the public ones.
    """
    if type(model).__module__.partition(".")[0] in ("sklearnex", "daal4py", "onedal"):
        return
    sign = -1.0 if len(getattr(model, "classes_", ())) == 2 else 1.0
    for name in ("dual_coef_", "intercept_"):
        private, public = getattr(model, f"_{name}", None), getattr(model, name)
        if private is not None and not np.array_equal(numbers(private), sign * numbers(public)):
            raise UnsupportedModelError(
                f"`{name}` of this {type_name} was changed, but it predicts by `_{name}`; "
                f"change both ({'with opposite signs' if sign < 0 else 'to the same numbers'})."
            )


def _kernel(model: Any, type_name: str) -> NamedKernel:
    if not callable(model.kernel):
        return named_kernel(model, type_name, int(model.n_features_in_))
    rows = _trained_on(model)
    if not is_sparse(rows) and np.ndim(rows) == 2 and np.asarray(rows).dtype.kind in "fiub":
        return NamedKernel(FunctionKernel(model.kernel))
    raise other_kernel(model, type_name)


def _trained_on(model: Any) -> Any:
    """The training rows of an SVM whose kernel is a function; other SVMs do not keep them."""
    return getattr(model, "_BaseLibSVM__Xfit", None)


def _vectors(model: Any) -> Any:
    vectors = model.support_vectors_
    if callable(model.kernel):
        vectors = np.asarray(_trained_on(model))[model.support_]
    if vectors.shape[0] == 0:  # a flat SVR; scikit-learn may then leave the width out
        return np.zeros((0, int(model.n_features_in_)))
    return vectors


def _head(model: Any, type_name: str) -> Head:
    if type_name == "OneClassSVM":
        return OutlierHead(offset=float(np.ravel(model.offset_)[0]))
    if type_name in ("SVR", "NuSVR"):
        return RegressorHead()
    if model.break_ties and model.decision_function_shape == "ovo":
        raise UnsupportedModelError(
            f"this {type_name} has break_ties=True with decision_function_shape='ovo', for which "
            "scikit-learn itself does not predict; set one of them otherwise."
        )
    binary = len(model.classes_) == 2
    # The attributes probA_ and probB_ warn, and are to go; these are what predict_proba reads.
    a, b = getattr(model, "_probA", None), getattr(model, "_probB", None)
    fitted = a is not None and b is not None and len(a) > 0
    return ClassifierHead(
        np.array(model.classes_),
        first_positive=not binary,
        shape=model.decision_function_shape,
        break_ties=bool(model.break_ties),
        platt_a=np.array(a) if fitted else None,
        platt_b=np.array(b) if fitted else None,
        couple_two_classes=True,
    )


# scikit-learn's KernelRidge: f(z) = sum_i dual_coef_i k(x_i, z), one column a target.


def read_kernel_ridge(model: Any, type_name: str = "KernelRidge", /) -> Machine:
    """Read a fitted KernelRidge with a kernel that has a name.

    Its kernel may also be one of `sklearn.gaussian_process.kernels`.

    Examples
    --------
    >>> from sklearn.kernel_ridge import KernelRidge
    >>> ridge = KernelRidge(kernel="rbf", gamma=0.5).fit([[0.0], [1.0]], [1.0, 3.0])
    >>> read_kernel_ridge(ridge).description
    'scikit-learn KernelRidge, 2 support vectors, gamma 0.5'
    """
    require_fitted(model, "dual_coef_", type_name)
    duals = np.asarray(model.dual_coef_, dtype=np.float64)
    targets = duals.shape[1:]  # () for a list of values, (k,) for a table
    coefficients = duals.reshape(len(duals), -1)
    k, d = coefficients.shape[1], int(model.n_features_in_)
    head = RegressorHead(k, value_shape=targets)
    if is_kernel(model.kernel):
        summed = kernel_tree(model.kernel, d, type_name)
        weights = DualWeights(coefficients, [exact_sum(column) for column in coefficients.T])
        return kernel_machine(model, type_name, summed, head, rows=model.X_fit_, weights=weights)
    if model.kernel == "precomputed":
        return precomputed_machine(model, type_name, coefficients, np.zeros(k), head)
    kernel = named_kernel(model, type_name, d)
    expansion = kernel.expansion(model.X_fit_, coefficients, np.zeros(k))
    return sklearn_machine(model, type_name, expansion, head)


# scikit-learn's LabelPropagation and LabelSpreading: weights of classes, by an RBF graph.
#
# A new row takes the label distributions of the training rows, weighted by the kernel:
# scores = sum_i k(x_i, z) distribution_i, probabilities their shares, the label the largest.


def read_label_propagation(model: Any, type_name: str, /) -> Machine:
    """Read a fitted LabelPropagation or LabelSpreading with kernel "rbf".

    Examples
    --------
    >>> from sklearn.semi_supervised import LabelSpreading
    >>> spread = LabelSpreading(gamma=2.0).fit([[0.0], [1.0], [5.0], [6.0]], [0, -1, 1, -1])
    >>> machine = read_label_propagation(spread, "LabelSpreading")
    >>> machine.head.predict(machine.expansion.scores([[1.5], [4.0]]))
    array([0, 1])
    """
    require_fitted(model, "label_distributions_", type_name)
    if model.kernel != "rbf":
        found = "a callable as kernel" if callable(model.kernel) else f"kernel {model.kernel!r}"
        raise UnsupportedModelError(
            f"this {type_name} has {found}, which is not exp(-gamma |x - z|^2); accepted is "
            "kernel 'rbf'."
        )
    distributions = np.asarray(model.label_distributions_, dtype=np.float64)
    k = distributions.shape[1]
    expansion = KernelExpansion(model.X_, distributions, np.zeros(k), gamma=float(model.gamma))
    head = ArgmaxHead(np.array(model.classes_), shares=True)
    return sklearn_machine(model, type_name, expansion, head)


# scikit-learn's KernelDensity: a weighted mean of bumps, in logarithms; with the gaussian kernel
#
# log density(z) = log(sum_i w_i exp(-|x_i - z|^2 / (2 h^2)) / sum_i w_i) - d log(h sqrt(2 pi))


EUCLIDEAN = ("euclidean", "l2", "minkowski", "p")


def read_kernel_density(model: Any, type_name: str = "KernelDensity", /) -> Machine:
    """Read a fitted KernelDensity with Euclidean distances.

    Its `atol` and `rtol` become the tolerance that a certified model keeps.

    Examples
    --------
    >>> from sklearn.neighbors import KernelDensity
    >>> density = KernelDensity(bandwidth=0.5).fit([[0.0], [1.0]])
    >>> machine = read_kernel_density(density)
    >>> machine.expansion.gamma
    2.0
    >>> ours = machine.head.score_samples(machine.expansion.scores([[0.3]]))
    >>> bool(np.allclose(ours, density.score_samples([[0.3]])))
    True
    """
    require_fitted(model, "tree_", type_name)
    power = (model.metric_params or {}).get("p", 2)
    if model.metric not in EUCLIDEAN or power != 2:
        raise UnsupportedModelError(
            f"this {type_name} has metric {model.metric!r}, but the expansion's distances are "
            "Euclidean; accepted is metric 'euclidean'."
        )
    rows = np.asarray(model.tree_.data, dtype=np.float64)
    weights = model.tree_.sample_weight
    weights = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
    weights = weights / math.fsum(weights)
    h, d = float(model.bandwidth_), rows.shape[1]
    if model.kernel == "gaussian":
        meant = Fraction(1, 2) / fraction(h, "bandwidth_", positive=True) ** 2
        kernel = NamedKernel.gaussian(meant)
        log_scale = -d * math.log(h * math.sqrt(2.0 * math.pi))
    else:
        kernel = NamedKernel(
            Matern((h,), 0.5) if model.kernel == "exponential" else Bump((h,), model.kernel)
        )
        volume = log_volume(model.kernel, d)
        if not math.isfinite(volume):
            raise UnsupportedModelError(
                f"this {type_name} has kernel {model.kernel!r} on {d} features, for which "
                "scikit-learn's own densities are no numbers; choose another kernel."
            )
        log_scale = -volume - d * math.log(h)
    expansion = kernel.expansion(rows, weights, np.zeros(1))
    expansion = expansion.rounded(units=2.0)  # total, quotient
    head = DensityHead(log_scale, float(model.atol), float(model.rtol))
    return sklearn_machine(model, type_name, expansion, head)


# Feature maps (Nystroem, KernelPCA), alone or under a linear model: one expansion.
#
# Nystroem's features are N k(components, z). KernelPCA: with
# A = eigenvectors / sqrt(eigenvalues) and the means of the training kernel matrix (of its rows r_j,
# of all of it a), scikit-learn projects k_j - r_j - mean_i(k_i) + a. So
#
#     y = sum_j (A_j - mean(A)) k(x_j, z) - r.A + a sum(A)


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
    """Whether it is one of scikit-learn's linear models, and answers as its class does.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.svm import SVC
    >>> is_linear(Ridge()), is_linear(SVC())
    (True, False)
    """
    kind = type(model)
    own = getattr(model, "__dict__", {}).keys()
    if not own.isdisjoint(("predict", "decision_function", "predict_proba")):
        return False
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
        head=_linear_head(model, name),
        description=described,
        type_name=name,
    )


def _linear_head(model: Any, name: str) -> Head:
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
