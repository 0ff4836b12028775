"""scikit-learn's KernelPCA: projections of a centered kernel, as one expansion.

With A = eigenvectors / sqrt(eigenvalues) and the means of the training kernel matrix (of its rows
r_j, of all of it a), scikit-learn projects k_j - r_j - mean_i(k_i) + a. So

    y = sum_j (A_j - mean(A)) k(x_j, z) - r.A + a sum(A)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite.machine.exactly import accurate_product, exact_sum, two_words
from kernelite.machine.heads import TransformHead
from kernelite.machine.machine import Machine
from kernelite.rows.inputs import FloatArray
from kernelite.sources.sklearn_common import named_kernel, require_fitted, sklearn_source

__all__ = ["read_kernel_pca"]


def read_kernel_pca(model: Any, type_name: str = "KernelPCA", /) -> Machine:
    """Read a fitted KernelPCA with a kernel that has a name.

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
    values = _numbers(model.eigenvalues_)
    vectors = _numbers(model.eigenvectors_)
    kept = values != 0  # scikit-learn gives zeros along the null space
    vectors = np.where(kept, vectors, 0.0)
    roots = np.sqrt(np.where(kept, values, 1.0))
    n, k = vectors.shape
    # V - mean(V), whose mean has two words: off by 4u an entry, as `machine.affine` shows; then
    # the root and the quotient.
    means = np.array([two_words(exact_sum(column) / n) for column in vectors.T]).reshape(k, 2)
    coefficients = ((vectors - means[:, 0]) - means[:, 1]) / roots
    rows, whole = _numbers(model._centerer.K_fit_rows_), float(model._centerer.K_fit_all_)
    left = np.concatenate([np.full(n, whole), -rows])[None, :]
    constants, lost = accurate_product(left, np.vstack([vectors, vectors]))
    expansion = kernel.expansion(model.X_fit_, coefficients, constants[0] / roots)
    expansion = expansion.rounded(units=6.0, intercept=1.01 * lost[0] / roots)
    return sklearn_source(model, type_name, expansion, TransformHead(expansion.n_outputs))


def _numbers(array: Any) -> FloatArray:
    return np.asarray(array, dtype=np.float64)
