"""scikit-learn's plain kernel machines: SVMs, KernelRidge, label propagation, KernelDensity.

In: a fitted estimator, dense or sparse. Out: a `Machine` with copies of its arrays. scikit-learn
itself is not imported; signs are those of its public `decision_function`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from kernelite.data.rows.inputs import is_sparse
from kernelite.machine.exactly import exact_sum, fraction
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import (
    ArgmaxHead,
    ClassifierHead,
    DensityHead,
    Head,
    OutlierHead,
    RegressorHead,
)
from kernelite.machine.kernels import Bump, FunctionKernel, Matern
from kernelite.machine.kernels.powers import log_volume
from kernelite.machine.machine import Machine
from kernelite.sources.common import (
    NamedKernel,
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

__all__ = ["read_kernel_density", "read_kernel_ridge", "read_label_propagation", "read_svm"]


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
