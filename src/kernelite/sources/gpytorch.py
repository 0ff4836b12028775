"""GPyTorch's ExactGP, through its state: training rows and targets, hyperparameters, noise.

    mean(z) = m + sum_i alpha_i k(x_i, z),    alpha = (K + noise)^-1 (y - m)

Its kernels are written as scikit-learn's, which have the same formulas; all that follows is shared.
GPyTorch keeps no alpha: it is solved for here, in doubles, and the exact model begins with it. As
`model(x)` does, the variance leaves the likelihood's noise out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import add, mul
from typing import Any

import numpy as np

from kernelite.errors import UnsupportedModelError
from kernelite.machine.exactly import exact_sum
from kernelite.machine.heads import RegressorHead
from kernelite.machine.machine import Machine
from kernelite.rows.inputs import FloatArray
from kernelite.sources.kernel_sums import DualWeights, kernel_source
from kernelite.sources.kernel_trees import kernel_tree
from kernelite.sources.sklearn_gaussian_process import posterior_of

__all__ = ["read_exact_gp"]

PROBED = 20  # training rows on which the model's own prior is compared
CLOSE = 1e-3  # of the prior's size: models may be in single precision


def read_exact_gp(model: Any, type_name: str = "ExactGP", /) -> Machine:
    """Read a trained ExactGP with one output.

    Parameters
    ----------
    model : gpytorch.models.ExactGP
        With a ZeroMean or ConstantMean, and sums and products of ScaleKernel, RBFKernel,
        MaternKernel, RQKernel and LinearKernel.
    type_name : str
        What messages call it.

    Returns
    -------
    Machine
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
    weights = DualWeights(alphas, [exact_sum(alphas[:, 0])], [Fraction(1)], [Fraction(mean)])
    found = kernel_tree(kernel, d, type_name)
    posterior = posterior_of(factor, found, np.ones(len(y)), np.ones(1))
    source = kernel_source(
        model, type_name, found, RegressorHead(), rows=rows, weights=weights, posterior=posterior
    )
    description = source.description.replace("scikit-learn", "GPyTorch", 1)
    return replace(source, family="gpytorch", description=description, feature_names=None)


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
    """A `forward` of one's own may do more than its mean and its kernel: compare on some rows."""
    prior = model.forward(model.train_inputs[0][:PROBED])
    ours, size = kernel(rows[:PROBED]), float(np.abs(kernel.diag(rows[:PROBED])).max())
    off = np.abs(_numbers(prior.covariance_matrix) - ours).max(initial=0.0)
    moved = np.abs(_numbers(prior.mean) - mean).max(initial=0.0)
    if not (off <= CLOSE * size and moved <= CLOSE * (abs(mean) + np.sqrt(size))):
        raise UnsupportedModelError(
            f"the `forward` of this {type_name} does more than its `mean_module` and its "
            "`covar_module` say, so its prior is not known."
        )
