"""scikit-learn's KernelRidge: f(z) = sum_i dual_coef_i k(x_i, z), one column a target."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite.machine.exactly import exact_sum
from kernelite.machine.heads import RegressorHead
from kernelite.machine.machine import Machine
from kernelite.sources.kernel_sums import DualWeights, kernel_source
from kernelite.sources.kernel_trees import is_kernel, kernel_tree
from kernelite.sources.sklearn_common import named_kernel, require_fitted, sklearn_source

__all__ = ["read_kernel_ridge"]


def read_kernel_ridge(model: Any, type_name: str = "KernelRidge", /) -> Machine:
    """Read a fitted KernelRidge with a kernel that has a name.

    Parameters
    ----------
    model : estimator
        Its kernel may be one of `sklearn.gaussian_process.kernels` too.
    type_name : str
        What messages call it.

    Returns
    -------
    Machine

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
        return kernel_source(model, type_name, summed, head, rows=model.X_fit_, weights=weights)
    kernel = named_kernel(model, type_name, d)
    expansion = kernel.expansion(model.X_fit_, coefficients, np.zeros(k))
    return sklearn_source(model, type_name, expansion, head)
