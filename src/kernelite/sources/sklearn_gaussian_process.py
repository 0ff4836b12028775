"""scikit-learn's Gaussian processes: GaussianProcessRegressor and -Classifier.

The posterior mean is sum_i alpha_i k(x_i, z), an expansion; `normalize_y` is folded into
coefficients and intercept. Of RBF kernels, length scales per feature become a map of the inputs,
and a sum of them a sum of expansions; with any other kernel among them it is one expansion.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from kernelite.machine.exactly import exact_sum
from kernelite.machine.heads import (
    LatentClassesHead,
    LatentHead,
    Member,
    MomentsHead,
    OneVsOneHead,
    OneVsRestHead,
    RegressorHead,
)
from kernelite.machine.machine import Machine, Part, SumOfMachines
from kernelite.machine.variance import Posterior
from kernelite.rows.inputs import FloatArray
from kernelite.sources.ensembles import first_wins
from kernelite.sources.kernel_sums import DualWeights, kernel_source
from kernelite.sources.kernel_trees import KernelTree, kernel_tree
from kernelite.sources.sklearn_common import feature_names, require_fitted

__all__ = ["posterior_of", "read_binary_classifier", "read_classifier", "read_regressor"]


def read_regressor(model: Any, type_name: str = "GaussianProcessRegressor", /) -> Machine:
    """Read a fitted GaussianProcessRegressor.

    Parameters
    ----------
    model : estimator
        Its kernel: see `kernelite.sources.kernel_trees`.
    type_name : str
        What messages call it.

    Returns
    -------
    Machine

    Examples
    --------
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> gp = GaussianProcessRegressor(alpha=0.1).fit([[0.0], [1.0]], [1.0, 2.0])
    >>> source = read_regressor(gp)
    >>> bool(np.allclose(source.expansion.scores([[0.5]])[:, 0], gp.predict([[0.5]])))
    True
    """
    require_fitted(model, "X_train_", type_name)
    kernel = kernel_tree(model.kernel_, _width(model), type_name)
    alphas = np.asarray(model.alpha_, dtype=np.float64)
    alphas = alphas.reshape(len(alphas), -1)
    k = alphas.shape[1]
    scales = np.broadcast_to(np.ravel(model._y_train_std), (k,)).astype(np.float64)
    means = np.broadcast_to(np.ravel(model._y_train_mean), (k,)).astype(np.float64)
    return kernel_source(
        model,
        type_name,
        kernel,
        RegressorHead(k),
        rows=model.X_train_,
        weights=DualWeights(
            alphas,
            [exact_sum(column) for column in alphas.T],
            [Fraction(scale) for scale in scales],
            [Fraction(mean) for mean in means],
        ),
        posterior=posterior_of(model.L_, kernel, np.ones(len(alphas)), scales),
    )


def read_classifier(model: Any, type_name: str = "GaussianProcessClassifier", /) -> Machine:
    """Read a fitted GaussianProcessClassifier, of two classes or more.

    Parameters
    ----------
    model : estimator
    type_name : str
        What messages call it.

    Returns
    -------
    Machine

    Examples
    --------
    >>> from sklearn.gaussian_process import GaussianProcessClassifier
    >>> gp = GaussianProcessClassifier().fit([[0.0], [1.0], [2.0]], ["a", "a", "b"])
    >>> source = read_classifier(gp)
    >>> source.head.predict(source.expansion.scores([[0.0], [3.0]]))
    array(['a', 'b'], dtype='<U1')
    """
    require_fitted(model, "base_estimator_", type_name)
    names = feature_names(model)
    if len(model.classes_) == 2:
        return read_binary_classifier(model.base_estimator_, type_name, names=names)
    ensemble = model.base_estimator_  # OneVsRestClassifier or OneVsOneClassifier
    machines = [read_binary_classifier(one, type_name, whole=True) for one in ensemble.estimators_]
    parts = tuple(Part(machine, np.array([i])) for i, machine in enumerate(machines))
    count, width = len(machines), int(model.n_features_in_)
    members = tuple(
        Member(MomentsHead(machine.head), [i, count + i], "probability")  # type: ignore[arg-type]
        for i, machine in enumerate(machines)
    )
    classes = np.array(model.classes_)
    inner: OneVsRestHead | OneVsOneHead
    if model.multi_class == "one_vs_one":
        inner = OneVsOneHead(classes, members)
    else:
        methods = ("predict", "predict_proba")
        inner = OneVsRestHead(classes, members, methods, last_wins=not first_wins())
    vectors = sum(machine.single.n_centers for machine in machines)
    return Machine(
        SumOfMachines(parts, width, count),
        LatentClassesHead(inner),
        f"scikit-learn {type_name} of {count} machines, {vectors} support vectors",
        "scikit-learn",
        type_name,
        names,
    )


def read_binary_classifier(
    model: Any,
    type_name: str = "GaussianProcessClassifier",
    /,
    names: Any = None,
    *,
    whole: bool = False,
) -> Machine:
    """Read the Laplace approximation inside a GaussianProcessClassifier.

    Parameters
    ----------
    model : the estimator's `base_estimator_`, or one of its `estimators_`
    type_name : str
    names : tuple of str, optional
        Column names seen at fit time.
    whole : bool
        One expansion, even where the kernel is a sum of RBF kernels.
    """
    require_fitted(model, "X_train_", type_name)
    kernel = kernel_tree(model.kernel_, _width(model), type_name, whole=whole)
    labels = np.asarray(model.y_train_, dtype=np.float64)
    shares = np.asarray(model.pi_, dtype=np.float64)
    gradient = DualWeights(
        (labels - shares)[:, None], [exact_sum([*labels, *(-shares)])], units=1.0
    )
    weights = np.array(model.W_sr_, dtype=np.float64)
    return kernel_source(
        model,
        type_name,
        kernel,
        LatentHead(np.array(model.classes_)),
        rows=model.X_train_,
        weights=gradient,
        posterior=posterior_of(model.L_, kernel, weights, np.ones(1)),
        **({} if names is None else {"feature_names": names}),
    )


def _width(model: Any) -> int:
    """d; kernels on other things than vectors are refused by their name."""
    return int(np.shape(model.X_train_)[1]) if np.ndim(model.X_train_) == 2 else 1


def posterior_of(
    factor: Any, kernel: KernelTree, weights: FloatArray, scales: FloatArray
) -> Posterior:
    """What a variance is computed from: L, the kernel, and what stands beside them."""
    return Posterior(
        np.array(factor, dtype=np.float64),
        weights,
        kernel.amplitude,
        kernel.constant,
        kernel.diagonal,
        scales,
    )
