"""scikit-learn's KernelDensity with the gaussian kernel: a weighted mean of bumps, in logarithms.

log density(z) = log(sum_i w_i exp(-|x_i - z|^2 / (2 h^2)) / sum_i w_i) - d log(h sqrt(2 pi))
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from kernelite.errors import UnsupportedModelError
from kernelite.machine.exactly import nearest, relative_gap
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import DensityHead
from kernelite.machine.machine import Machine
from kernelite.sources.sklearn_common import require_fitted, sklearn_source

__all__ = ["read_kernel_density"]

EUCLIDEAN = ("euclidean", "l2", "minkowski", "p")


def read_kernel_density(model: Any, type_name: str = "KernelDensity", /) -> Machine:
    """Read a fitted KernelDensity with kernel "gaussian" and Euclidean distances.

    Its `atol` and `rtol` become the tolerance that a certified model keeps.

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
    >>> from sklearn.neighbors import KernelDensity
    >>> density = KernelDensity(bandwidth=0.5).fit([[0.0], [1.0]])
    >>> source = read_kernel_density(density)
    >>> source.expansion.gamma
    2.0
    >>> ours = source.head.score_samples(source.expansion.scores([[0.3]]))
    >>> bool(np.allclose(ours, density.score_samples([[0.3]])))
    True
    """
    require_fitted(model, "tree_", type_name)
    if model.kernel != "gaussian":
        raise UnsupportedModelError(
            f"this {type_name} has kernel {model.kernel!r}, which is not exp(-|x - z|^2 / (2 h^2));"
            " accepted is kernel 'gaussian'."
        )
    power = (model.metric_params or {}).get("p", 2)
    if model.metric not in EUCLIDEAN or power != 2:
        raise UnsupportedModelError(
            f"this {type_name} has metric {model.metric!r}, but the expansion's distances are "
            "Euclidean; accepted is metric 'euclidean'."
        )
    rows = np.asarray(model.tree_.data, dtype=np.float64)
    weights = model.tree_.sample_weight
    weights = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
    h, d = float(model.bandwidth_), rows.shape[1]
    meant = Fraction(1, 2) / Fraction(h) ** 2
    gamma = nearest(meant)
    expansion = KernelExpansion(rows, weights / math.fsum(weights), np.zeros(1), gamma=gamma)
    expansion = expansion.rounded(units=2.0, gamma=relative_gap(gamma, meant))  # total, quotient
    log_scale = -d * math.log(h * math.sqrt(2.0 * math.pi))
    head = DensityHead(log_scale, float(model.atol), float(model.rtol))
    return sklearn_source(model, type_name, expansion, head)
