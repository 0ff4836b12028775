"""scikit-learn's LabelPropagation and LabelSpreading: weights of classes, by an RBF graph.

A new row takes the label distributions of the training rows, weighted by the kernel:
scores = sum_i k(x_i, z) distribution_i, probabilities their shares, the label the largest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite.errors import UnsupportedModelError
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ArgmaxHead
from kernelite.machine.machine import Machine
from kernelite.sources.sklearn_common import require_fitted, sklearn_source

__all__ = ["read_label_propagation"]


def read_label_propagation(model: Any, type_name: str, /) -> Machine:
    """Read a fitted LabelPropagation or LabelSpreading with kernel "rbf".

    Parameters
    ----------
    model : estimator
    type_name : {"LabelPropagation", "LabelSpreading"}

    Returns
    -------
    Machine

    Examples
    --------
    >>> from sklearn.semi_supervised import LabelSpreading
    >>> spread = LabelSpreading(gamma=2.0).fit([[0.0], [1.0], [5.0], [6.0]], [0, -1, 1, -1])
    >>> source = read_label_propagation(spread, "LabelSpreading")
    >>> source.head.predict(source.expansion.scores([[1.5], [4.0]]))
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
    return sklearn_source(model, type_name, expansion, head)
