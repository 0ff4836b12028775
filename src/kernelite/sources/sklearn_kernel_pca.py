"""scikit-learn's KernelPCA: projections of a centered kernel, as one expansion.

With A = eigenvectors / sqrt(eigenvalues) and the means of the training kernel matrix (of its rows
r_j, of all of it a), scikit-learn projects k_j - r_j - mean_i(k_i) + a. So

    y = sum_j (A_j - mean(A)) k(x_j, z) - r.A + a sum(A)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite.expansion import KernelExpansion
from kernelite.head import TransformHead
from kernelite.sources.sklearn_common import named_kernel, require_fitted, sklearn_source
from kernelite.sources.source import Source

__all__ = ["read_kernel_pca"]


def read_kernel_pca(model: Any, type_name: str = "KernelPCA", /) -> Source:
    """Read a fitted KernelPCA with kernel "rbf", or "poly" of degree 2.

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
    >>> import numpy as np
    >>> from sklearn.decomposition import KernelPCA
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> pca = KernelPCA(2, kernel="rbf", gamma=0.1).fit(X)
    >>> source = read_kernel_pca(pca)
    >>> bool(np.allclose(source.expansion.scores(X), pca.transform(X)))
    True
    """
    require_fitted(model, "eigenvectors_", type_name)
    kernel = named_kernel(model, type_name, int(model.n_features_in_))
    values = np.asarray(model.eigenvalues_, dtype=np.float64)
    vectors = np.asarray(model.eigenvectors_, dtype=np.float64)
    kept = values != 0  # scikit-learn gives zeros along the null space
    A = np.zeros_like(vectors)
    A[:, kept] = vectors[:, kept] / np.sqrt(values[kept])
    means, mean = model._centerer.K_fit_rows_, float(model._centerer.K_fit_all_)
    expansion = KernelExpansion(
        model.X_fit_,
        A - A.mean(axis=0),
        mean * A.sum(axis=0) - np.asarray(means, dtype=np.float64) @ A,
        **kernel.fields(),
    )
    return sklearn_source(model, type_name, expansion, TransformHead(expansion.n_outputs))
