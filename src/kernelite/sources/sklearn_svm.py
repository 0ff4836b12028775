"""scikit-learn's LIBSVM estimators: SVC, NuSVC, SVR, NuSVR and OneClassSVM.

In: a fitted estimator, dense or sparse. Out: a `Machine` with copies of its arrays. scikit-learn
itself is not imported; signs are those of its public `decision_function`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite.errors import UnsupportedModelError
from kernelite.machine.heads import ClassifierHead, Head, OutlierHead, RegressorHead
from kernelite.machine.kernels import PolynomialKernel, SigmoidKernel
from kernelite.machine.machine import Machine
from kernelite.rows.inputs import FloatArray, is_sparse
from kernelite.sources.folding import pairwise_coefficients
from kernelite.sources.sklearn_common import (
    NamedKernel,
    other_kernel,
    polynomial,
    require_fitted,
    sklearn_source,
)

__all__ = ["read_svm"]


def read_svm(model: Any, type_name: str, /) -> Machine:
    """Read a fitted scikit-learn SVM.

    Parameters
    ----------
    model : estimator
        Fitted, with any kernel that has a name: "linear", "poly", "rbf" or "sigmoid".
    type_name : {"SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM"}
        Which of them it is; the class itself may be a subclass.

    Returns
    -------
    Machine

    Raises
    ------
    UnsupportedModelError
        If it is unfitted, or its kernel another one.

    Examples
    --------
    >>> from sklearn.svm import SVR
    >>> source = read_svm(SVR(gamma=0.5, C=2.0).fit([[0.0], [1.0], [2.0]], [0, 1, 4]), "SVR")
    >>> source.description
    'scikit-learn SVR, 3 support vectors, gamma 0.5'
    """
    require_fitted(model, "support_vectors_", type_name)
    kernel = _kernel(model, type_name)
    classifier = type_name in ("SVC", "NuSVC")
    if classifier and len(model.n_support_) != len(model.classes_):
        raise UnsupportedModelError(
            f"this {type_name} knows {len(model.classes_)} classes, but all rows of "
            f"{len(model.classes_) - len(model.n_support_)} of them had weight zero when it was "
            "fitted, and it does not say which; fit it on rows of every class."
        )
    coefficients = _dense(model.dual_coef_).T
    if classifier and len(model.classes_) > 2:
        coefficients = pairwise_coefficients(coefficients, [int(n) for n in model.n_support_])
    expansion = kernel.expansion(
        _vectors(model), coefficients.reshape(-1, len(model.intercept_)), model.intercept_
    )
    return sklearn_source(model, type_name, expansion, _head(model, type_name))


def _kernel(model: Any, type_name: str) -> NamedKernel:
    gamma = float(model._gamma)  # what "scale" or "auto" came to
    if model.kernel == "linear":
        return NamedKernel(PolynomialKernel(1))
    if model.kernel == "rbf":
        return NamedKernel("rbf", gamma)
    if model.kernel == "poly":
        return polynomial(model.degree, gamma, float(model.coef0), type_name)
    if model.kernel == "sigmoid":
        return NamedKernel(SigmoidKernel(gamma, float(model.coef0)))
    raise other_kernel(model, type_name)


def _vectors(model: Any) -> Any:
    vectors = model.support_vectors_
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


def _dense(array: Any) -> FloatArray:
    return np.asarray(array.toarray() if is_sparse(array) else array, dtype=np.float64)
