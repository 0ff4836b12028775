"""scikit-learn's Nystroem features, alone or under a linear model, as one expansion.

features(z) = N k(components, z)         linear(z) = W features(z) + b = (N'W')' k + b
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite.errors import InputError
from kernelite.expansion import KernelExpansion
from kernelite.head import TransformHead
from kernelite.sources.sklearn_common import named_kernel, require_fitted, sklearn_source
from kernelite.sources.source import Source

__all__ = ["fold_linear", "nystroem_expansion", "read_nystroem"]


def nystroem_expansion(model: Any, type_name: str = "Nystroem", /) -> KernelExpansion:
    """The features of a fitted Nystroem as an expansion in its components.

    Parameters
    ----------
    model : estimator
        With kernel "rbf", or "poly" of degree 2.
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
    return KernelExpansion(
        model.components_, coefficients, np.zeros(coefficients.shape[1]), **kernel.fields()
    )


def fold_linear(expansion: KernelExpansion, weights: Any, intercept: Any = 0.0) -> KernelExpansion:
    """The expansion of W f(z) + b: a linear model on the outputs of another expansion.

    Parameters
    ----------
    expansion : KernelExpansion
        With k outputs.
    weights : array-like of shape (q, k) or (k,)
        W; scikit-learn's `coef_`.
    intercept : array-like of shape (q,) or a number
        b; scikit-learn's `intercept_`.

    Examples
    --------
    >>> bump = KernelExpansion([[0.0]], [[2.0, 1.0]], [0.5, 0.0], gamma=1.0)
    >>> fold_linear(bump, [[1.0, 10.0]], 3.0).scores([[0.0]])
    array([[15.5]])
    """
    W = np.atleast_2d(np.asarray(weights, dtype=np.float64))
    if W.ndim != 2 or W.shape[1] != expansion.n_outputs:
        raise InputError(
            f"`weights` must have {expansion.n_outputs} columns, one an output of the expansion, "
            f"got shape {np.shape(weights)}."
        )
    b = np.broadcast_to(np.asarray(intercept, dtype=np.float64).reshape(-1), (len(W),))
    return KernelExpansion(
        expansion.centers,
        expansion.coefficients @ W.T,
        W @ expansion.intercept + b,
        gamma=expansion.gamma,
        kernel=expansion.kernel,
        coef0=expansion.coef0,
    )


def read_nystroem(model: Any, type_name: str = "Nystroem", /) -> Source:
    """Read a fitted Nystroem with kernel "rbf", or "poly" of degree 2.

    Parameters
    ----------
    model : estimator
    type_name : str
        What messages call it.

    Returns
    -------
    Source

    Examples
    --------
    >>> from sklearn.kernel_approximation import Nystroem
    >>> features = Nystroem(gamma=0.5, n_components=2).fit([[0.0], [1.0], [2.0]])
    >>> read_nystroem(features).description
    'scikit-learn Nystroem, 2 support vectors, gamma 0.5'
    """
    expansion = nystroem_expansion(model, type_name)
    return sklearn_source(model, type_name, expansion, TransformHead(expansion.n_outputs))
