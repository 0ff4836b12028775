"""scikit-learn's Nystroem features, alone or under a linear model, as one expansion.

features(z) = N k(components, z)         linear(z) = W features(z) + b = (N'W')' k + b
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import TransformHead
from kernelite.machine.machine import Machine
from kernelite.sources.sklearn_common import named_kernel, require_fitted, sklearn_source

__all__ = ["nystroem_expansion", "read_nystroem"]


def nystroem_expansion(model: Any, type_name: str = "Nystroem", /) -> KernelExpansion:
    """The features of a fitted Nystroem as an expansion in its components.

    Parameters
    ----------
    model : estimator
        With a kernel that has a name.
    type_name : str
        What messages call it.

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
    coefficients = np.asarray(model.normalization_, dtype=np.float64).T
    intercept = np.zeros(coefficients.shape[1])
    return kernel.expansion(model.components_, coefficients, intercept)


def read_nystroem(model: Any, type_name: str = "Nystroem", /) -> Machine:
    """Read a fitted Nystroem with a kernel that has a name.

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
    >>> from sklearn.kernel_approximation import Nystroem
    >>> features = Nystroem(gamma=0.5, n_components=2).fit([[0.0], [1.0], [2.0]])
    >>> read_nystroem(features).description
    'scikit-learn Nystroem, 2 support vectors, gamma 0.5'
    """
    expansion = nystroem_expansion(model, type_name)
    return sklearn_source(model, type_name, expansion, TransformHead(expansion.n_outputs))
