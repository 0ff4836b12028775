"""Kernel k-means: the nearest of K centers that are means in feature space.

    |phi(z) - mean_c|^2 = k(z, z) - 2 sum_i w_i k(x_i, z) / W_c + sum_ij w_i w_j k(x_i, x_j) / W_c^2

over the members of cluster c, of weight W_c together. k(z, z) is the same for all clusters, so the
nearest has the largest 2 sum_i w_i k(x_i, z) / W_c - constant_c: an expansion with an output a
cluster.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite.errors import InputError, UnsupportedModelError
from kernelite.expansion import KernelExpansion, kernel_values
from kernelite.head import ArgmaxHead
from kernelite.inputs import FloatArray, check_rows, row_blocks
from kernelite.sources.sklearn_common import require_fitted
from kernelite.sources.source import Source, describe

__all__ = ["kernel_kmeans", "read_tslearn_kmeans"]


def kernel_kmeans(
    X: Any, labels: Any, gamma: float, *, weights: Any = None, centroid_norms: bool = True
) -> Source:
    """Labels of new rows, from a clustering of the training rows.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The rows that were clustered.
    labels : array-like of shape (n,)
        Their clusters.
    gamma : float
        Of exp(-gamma |x - z|^2).
    weights : array-like of shape (n,), optional
        Of the rows within their clusters.
    centroid_norms : bool
        Whether a center's own norm counts, as the distance has it. tslearn leaves it out.

    Returns
    -------
    Source
        For `kernelite.compile`; ties go to the first cluster, in the order of sorted labels.

    Examples
    --------
    Two rings, told apart by some iterations of kernel k-means:

    >>> import kernelite
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> X *= (np.where(np.arange(200) < 100, 0.3, 3.0) / np.linalg.norm(X, axis=1))[:, None]
    >>> labels = (np.arange(200) >= 100).astype(int)
    >>> model = kernelite.compile(kernel_kmeans(X, labels, gamma=2.0), X)
    >>> model.predict([[0.1, 0.1], [0.0, 2.8]])
    array([0, 1])
    """
    clusters, members = np.unique(np.asarray(labels), return_inverse=True)
    rows = check_rows(X)
    n, K = rows.shape[0], len(clusters)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if members.shape != (n,) or w.shape != (n,):
        raise InputError(f"`labels` and `weights` must hold {n} values, one a row of `X`.")
    if not (np.isfinite(w).all() and (w >= 0).all()):
        raise InputError("`weights` must be finite and not negative.")
    member = np.zeros((n, K))
    member[np.arange(n), members] = w
    totals = member.sum(axis=0)
    if not (totals > 0).all():
        raise InputError("a cluster has no weight, so it has no center.")
    member /= totals
    offsets = np.zeros(K)
    if centroid_norms:
        offsets = _centroid_norms(rows, member, gamma)
    expansion = KernelExpansion(rows, 2.0 * member, -offsets, gamma=gamma)
    return Source(
        expansion, ArgmaxHead(clusters), describe("kernel k-means", expansion), "arrays", "kmeans"
    )


def read_tslearn_kmeans(model: Any, type_name: str = "KernelKMeans", /) -> Source:
    """Read a fitted KernelKMeans of tslearn with kernel "rbf".

    It answers for rows of the flattened series, shape (m, length * dimensions).

    Parameters
    ----------
    model : tslearn.clustering.KernelKMeans
    type_name : str
        What messages call it.

    Returns
    -------
    Source
    """
    require_fitted(model, "_X_fit", type_name)
    if model.kernel != "rbf":
        raise UnsupportedModelError(
            f"this {type_name} has kernel {model.kernel!r}, which is not exp(-gamma |x - z|^2); "
            "accepted is kernel 'rbf'."
        )
    series = np.asarray(model._X_fit, dtype=np.float64)
    rows = series.reshape(len(series), -1)
    if not np.isfinite(rows).all():
        raise UnsupportedModelError(
            f"this {type_name} was fitted on series of different lengths; the rows of an expansion "
            "have one length."
        )
    gamma = (model.kernel_params or {}).get("gamma")
    source = kernel_kmeans(
        rows,
        model.labels_,
        1.0 / rows.shape[1] if gamma is None else float(gamma),
        weights=model.sample_weight_,
        centroid_norms=False,
    )
    description = describe(f"tslearn {type_name}", source.single)
    return Source(source.expansion, source.head, description, "tslearn", type_name)


def _centroid_norms(rows: Any, member: FloatArray, gamma: float) -> FloatArray:
    """sum_ij m_ic m_jc k(x_i, x_j) of each cluster, in blocks: shape (K,)."""
    kernel = KernelExpansion(rows, member, np.zeros(member.shape[1]), gamma=gamma)
    norms = np.zeros(member.shape[1])
    for block in row_blocks(len(member), max(16, (1 << 20) // max(len(member), 1))):
        means = kernel_values(kernel, rows[block]) @ member
        norms += np.einsum("ij,ij->j", member[block], means)
    return norms
