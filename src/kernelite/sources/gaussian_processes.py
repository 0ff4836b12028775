"""Gaussian processes: scikit-learn's regressor and classifier, then GPyTorch's ExactGP.

The posterior mean is sum_i alpha_i k(x_i, z), an expansion; `normalize_y` is folded into
coefficients and intercept. Of RBF kernels, length scales per feature become a map of the inputs,
and a sum of them a sum of expansions; with any other kernel among them it is one expansion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import add, mul
from typing import Any

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.exactly import exact_sum, fraction
from kernelite.machine.heads import (
    LatentClassesHead,
    LatentHead,
    Member,
    MomentsHead,
    OneVsOneHead,
    OneVsRestHead,
    RegressorHead,
)
from kernelite.machine.machine import Machine, MachinePart, SumOfMachines
from kernelite.machine.variance import Posterior
from kernelite.sources.common import feature_names, require_fitted
from kernelite.sources.ensembles import first_wins
from kernelite.sources.kernel_sums import DualWeights, kernel_machine
from kernelite.sources.kernel_trees import KernelTree, kernel_tree
from kernelite.support.errors import UnsupportedModelError, require_scikit_learn

__all__ = ["read_classifier", "read_exact_gp", "read_regressor"]


def read_regressor(model: Any, type_name: str = "GaussianProcessRegressor", /) -> Machine:
    """Read a fitted GaussianProcessRegressor.

    `kernelite.sources.kernel_trees` says which kernels it may have.

    Examples
    --------
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> gp = GaussianProcessRegressor(alpha=0.1).fit([[0.0], [1.0]], [1.0, 2.0])
    >>> machine = read_regressor(gp)
    >>> bool(np.allclose(machine.expansion.scores([[0.5]])[:, 0], gp.predict([[0.5]])))
    True
    """
    require_fitted(model, "X_train_", type_name)
    kernel = kernel_tree(model.kernel_, _width(model), type_name)
    alphas = np.asarray(model.alpha_, dtype=np.float64)
    alphas = alphas.reshape(len(alphas), -1)
    k = alphas.shape[1]
    scales = np.broadcast_to(np.ravel(model._y_train_std), (k,)).astype(np.float64)
    means = np.broadcast_to(np.ravel(model._y_train_mean), (k,)).astype(np.float64)
    return kernel_machine(
        model,
        type_name,
        kernel,
        RegressorHead(k),
        rows=model.X_train_,
        weights=DualWeights(
            alphas,
            [exact_sum(column) for column in alphas.T],
            [fraction(scale, "_y_train_std") for scale in scales],
            [fraction(mean, "_y_train_mean") for mean in means],
        ),
        posterior=posterior_of(model.L_, kernel, np.ones(len(alphas)), scales),
    )


def read_classifier(model: Any, type_name: str = "GaussianProcessClassifier", /) -> Machine:
    """Read a fitted GaussianProcessClassifier, of two classes or more.

    Examples
    --------
    >>> from sklearn.gaussian_process import GaussianProcessClassifier
    >>> gp = GaussianProcessClassifier().fit([[0.0], [1.0], [2.0]], ["a", "a", "b"])
    >>> machine = read_classifier(gp)
    >>> machine.head.predict(machine.expansion.scores([[0.0], [3.0]]))
    array(['a', 'b'], dtype='<U1')
    """
    require_fitted(model, "base_estimator_", type_name)
    names = feature_names(model)
    if len(model.classes_) == 2:
        return read_binary_classifier(model.base_estimator_, type_name, names=names)
    ensemble = model.base_estimator_  # OneVsRestClassifier or OneVsOneClassifier
    machines = [read_binary_classifier(one, type_name, whole=True) for one in ensemble.estimators_]
    parts = tuple(MachinePart(machine, np.array([i])) for i, machine in enumerate(machines))
    count, width = len(machines), int(model.n_features_in_)
    members = tuple(
        Member(MomentsHead(machine.head), [i, count + i], "probability")  # type: ignore[arg-type]
        for i, machine in enumerate(machines)
    )
    classes = np.array(model.classes_)
    inner: OneVsRestHead | OneVsOneHead
    if type(ensemble).__name__ == "OneVsOneClassifier":
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
    return kernel_machine(
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
    """d; 1 for things that are no vectors, whose kernels are refused by name later."""
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


# GPyTorch's ExactGP, through its state: training rows and targets, hyperparameters, noise.
#
#     mean(z) = m + sum_i alpha_i k(x_i, z),    alpha = (K + noise)^-1 (y - m)
#
# Its kernels are written as scikit-learn's, which have the same formulas; all that follows is
# shared. GPyTorch keeps no alpha: it is solved for here, in doubles, and the exact model begins
# with it. As `model(x)` does, the variance leaves the likelihood's noise out.


PRIOR_ROWS = 20  # training rows on which the model's own prior is compared
CLOSE = 1e-3  # of the prior's size: models may be in single precision


def read_exact_gp(model: Any, type_name: str = "ExactGP", /) -> Machine:
    """Read a trained ExactGP with one output.

    Its mean must be a ZeroMean or ConstantMean, its kernel made of sums and products of
    ScaleKernel, RBFKernel, MaternKernel, RQKernel and LinearKernel.
    """
    inputs, targets = model.train_inputs, model.train_targets
    if inputs is None or targets is None:
        raise UnsupportedModelError(f"this {type_name} has no training data; give it some first.")
    rows, y = _numbers(inputs[0]), _numbers(targets)
    if len(inputs) != 1 or y.ndim != 1 or rows.ndim > 2:
        raise UnsupportedModelError(
            f"this {type_name} has several inputs, outputs or batches; one of each is served."
        )
    rows = rows.reshape(len(y), -1)
    d = rows.shape[1]
    mean, kernel = _mean(model, type_name), _kernel(model.covar_module, d, type_name)
    _check_prior(model, rows, mean, kernel, type_name)
    factor = _factor(kernel(rows), _noise(model, type_name), type_name)
    from scipy.linalg import cho_solve

    alphas = cho_solve((factor, True), y - mean)[:, None]
    weights = DualWeights(
        alphas, [exact_sum(alphas[:, 0])], [Fraction(1)], [fraction(mean, "mean")]
    )
    found = kernel_tree(kernel, d, type_name)
    posterior = posterior_of(factor, found, np.ones(len(y)), np.ones(1))
    machine = kernel_machine(
        model, type_name, found, RegressorHead(), rows=rows, weights=weights, posterior=posterior
    )
    description = machine.description.replace("scikit-learn", "GPyTorch", 1)
    return replace(machine, family="gpytorch", description=description, feature_names=None)


def _numbers(tensor: Any) -> FloatArray:
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float64)


def _number(tensor: Any) -> float:
    return float(_numbers(tensor).reshape(-1)[0])


def _mean(model: Any, type_name: str) -> float:
    name = type(model.mean_module).__name__
    if name == "ZeroMean":
        return 0.0
    if name == "ConstantMean":
        return _number(model.mean_module.constant)
    raise UnsupportedModelError(
        f"this {type_name} has a {name} as mean; served are ZeroMean and ConstantMean."
    )


def _kernel(kernel: Any, d: int, type_name: str) -> Any:
    """A kernel of GPyTorch's as one of scikit-learn's."""
    require_scikit_learn(f"compiling this {type_name} needs")
    from sklearn.gaussian_process import kernels as sk

    name = type(kernel).__name__
    if getattr(kernel, "active_dims", None) is not None or tuple(kernel.batch_shape):
        raise UnsupportedModelError(
            f"this {type_name} has a {name} with `active_dims` or batches, which is not served."
        )
    if name == "ScaleKernel":
        inner = _kernel(kernel.base_kernel, d, type_name)
        return sk.ConstantKernel(_number(kernel.outputscale)) * inner
    if name in ("AdditiveKernel", "ProductKernel"):
        parts: Sequence[Any] = [_kernel(part, d, type_name) for part in kernel.kernels]
        return reduce(add if name == "AdditiveKernel" else mul, parts)
    if name == "LinearKernel":
        return sk.ConstantKernel(_number(kernel.variance)) * sk.DotProduct(0.0)
    if name not in ("RBFKernel", "MaternKernel", "RQKernel"):
        raise UnsupportedModelError(
            f"this {type_name} has a {name}; served are ScaleKernel, RBFKernel, MaternKernel, "
            "RQKernel and LinearKernel, their sums and products."
        )
    scales = _numbers(kernel.lengthscale).reshape(-1)
    length: Any = float(scales[0]) if len(scales) == 1 else scales
    if name == "RBFKernel":
        return sk.RBF(length)
    if name == "MaternKernel":
        return sk.Matern(length, nu=float(kernel.nu))
    if len(scales) > 1:
        raise UnsupportedModelError(
            f"this {type_name} has a RQKernel with a length scale per feature; one is served."
        )
    return sk.RationalQuadratic(length, _number(kernel.alpha))


def _noise(model: Any, type_name: str) -> FloatArray:
    noise = getattr(model.likelihood, "noise", None)
    if noise is None:
        name = type(model.likelihood).__name__
        raise UnsupportedModelError(
            f"this {type_name} has a {name}; served are likelihoods with `noise`."
        )
    return _numbers(noise).reshape(-1)


def _factor(covariance: FloatArray, noise: FloatArray, type_name: str) -> FloatArray:
    from scipy.linalg import LinAlgError, cholesky

    covariance[np.diag_indices_from(covariance)] += noise
    try:
        return np.asarray(cholesky(covariance, lower=True))
    except LinAlgError:
        raise UnsupportedModelError(
            f"the covariance of this {type_name}'s training rows is not positive definite in "
            "doubles; train it with more noise."
        ) from None


def _check_prior(model: Any, rows: FloatArray, mean: float, kernel: Any, type_name: str) -> None:
    """Refuse a `forward` that does more than its mean and its kernel, as some rows show."""
    prior = model.forward(model.train_inputs[0][:PRIOR_ROWS])
    ours, size = kernel(rows[:PRIOR_ROWS]), float(np.abs(kernel.diag(rows[:PRIOR_ROWS])).max())
    off = np.abs(_numbers(prior.covariance_matrix) - ours).max(initial=0.0)
    moved = np.abs(_numbers(prior.mean) - mean).max(initial=0.0)
    if not (off <= CLOSE * size and moved <= CLOSE * (abs(mean) + np.sqrt(size))):
        raise UnsupportedModelError(
            f"the `forward` of this {type_name} does more than its `mean_module` and its "
            "`covar_module` say, so its prior is not known."
        )
