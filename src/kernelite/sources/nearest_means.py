"""The nearest of several means in feature space: kernel discriminant analysis, kernel k-means.

Discriminant analysis comes from arrays: a projection, and the nearest class mean in it.

    y(z) = sum_i A_i k(x_i, z) + b                                 k directions at once
    |y - mu_c|^2 = |y|^2 - 2 mu_c.y + |mu_c|^2

|y|^2 is the same for all classes, so the nearest mean has the largest 2 mu_c.y - |mu_c|^2, which is
an expansion again, with an output per class. Prior probabilities add 2 log(prior) to that.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from kernelite.data.rows.inputs import FloatArray, check_rows, is_sparse, row_blocks, rows_within
from kernelite.machine.exactly import UNIT
from kernelite.machine.expansion import KernelExpansion, kernel_values, squared_norms
from kernelite.machine.heads import ArgmaxHead, TransformHead
from kernelite.machine.machine import Machine, describe
from kernelite.sources.common import fold_linear, require_fitted
from kernelite.support.errors import InputError, UnsupportedModelError

__all__ = [
    "discriminant_classifier",
    "discriminant_projection",
    "kernel_kmeans",
    "read_tslearn_kmeans",
]


def discriminant_projection(
    centers: Any, coefficients: Any, gamma: float, *, intercept: Any = None
) -> Machine:
    """The discriminant directions as a transformer.

    Parameters
    ----------
    centers : array-like of shape (n, d)
    coefficients : array-like of shape (n, k) or (n,)
        Dual coefficients of each direction.
    gamma : float
        Of exp(-gamma |x - z|^2).
    intercept : array-like of shape (k,), optional

    Returns
    -------
    Machine
        For `kernelite.compile`, whose model then has `transform`.

    Examples
    --------
    >>> machine = discriminant_projection([[0.0], [1.0]], [[1.0], [-1.0]], gamma=0.5)
    >>> machine.expansion.scores([[0.0]]).round(3)
    array([[0.393]])
    """
    expansion = _projection(centers, coefficients, gamma, intercept)
    head = TransformHead(expansion.n_outputs)
    name = describe("kernel discriminant projection", expansion)
    return Machine(expansion, head, name, "arrays", "discriminant")


def discriminant_classifier(
    centers: Any,
    coefficients: Any,
    gamma: float,
    classes: Any,
    means: Any,
    *,
    intercept: Any = None,
    priors: Any = None,
) -> Machine:
    """The nearest class mean among the projected rows.

    Parameters
    ----------
    centers, coefficients, gamma, intercept
        As for `discriminant_projection`.
    classes : array-like of shape (K,)
        Labels; ties go to the first.
    means : array-like of shape (K, k)
        The mean of each class's projected training rows.
    priors : array-like of shape (K,), optional
        With them, and directions scaled so that rows vary by 1 within a class, the label is that
        of the largest posterior probability.

    Returns
    -------
    Machine
        For `kernelite.compile`.

    Examples
    --------
    Mika's kernel Fisher discriminant of two classes, then its labels compiled:

    >>> import kernelite
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 2.5])
    >>> y = np.repeat([0, 1], 40)
    >>> K = np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(axis=-1))
    >>> M = np.stack([K[:, y == c].mean(axis=1) for c in (0, 1)])
    >>> within = sum(np.cov(K[:, y == c], bias=True) for c in (0, 1)) + 1e-3 * np.eye(80)
    >>> direction = np.linalg.solve(within, M[1] - M[0])
    >>> means = [[(K @ direction)[y == c].mean()] for c in (0, 1)]
    >>> machine = discriminant_classifier(X, direction, 0.2, [0, 1], means)
    >>> model = kernelite.compile(machine, X)
    >>> model.predict([[0.0, 0.0], [2.5, 2.5]])
    array([0, 1])
    """
    projection = _projection(centers, coefficients, gamma, intercept)
    mu, labels = np.asarray(means, dtype=np.float64), np.asarray(classes)
    if mu.shape != (len(labels), projection.n_outputs) or not np.isfinite(mu).all():
        raise InputError(
            f"`means` must be finite and of shape ({len(labels)}, {projection.n_outputs}), a row "
            f"a class and a column a direction, got {mu.shape}."
        )
    # |mu|^2 exactly: far from the origin it cancels with 2 mu.y.
    constants = [-sum((Fraction(m) ** 2 for m in row), Fraction(0)) for row in mu]
    lost = np.zeros(len(labels))
    if priors is not None:
        p = np.asarray(priors, dtype=np.float64)
        if p.shape != labels.shape or not (p > 0).all():
            raise InputError("`priors` must be positive, one per class.")
        logarithms = 2.0 * np.log(p)
        constants = [c + Fraction(log) for c, log in zip(constants, logarithms)]
        lost = 8.0 * UNIT * np.abs(logarithms)
    expansion = fold_linear(projection, 2.0 * mu, np.array(constants, dtype=object))
    expansion = expansion.rounded(intercept=lost)
    name = describe("kernel discriminant classifier", expansion)
    return Machine(expansion, ArgmaxHead(labels), name, "arrays", "discriminant")


def _projection(centers: Any, coefficients: Any, gamma: float, intercept: Any) -> KernelExpansion:
    A = np.asarray(coefficients, dtype=np.float64)
    A = A.reshape(len(A), -1)
    b = np.zeros(A.shape[1]) if intercept is None else intercept
    return KernelExpansion(centers, A, b, gamma=gamma)


# Kernel k-means: the nearest of K centers that are means in feature space.
#
#   |phi(z) - mean_c|^2 = k(z, z) - 2 sum_i w_i k(x_i, z) / W_c + sum_ij w_i w_j k(x_i, x_j) / W_c^2
#
# over the members of cluster c, of weight W_c together. k(z, z) is the same for all clusters, so
# the nearest has the largest 2 sum_i w_i k(x_i, z) / W_c - constant_c: an expansion with an output
# per cluster.


def kernel_kmeans(
    X: Any, labels: Any, gamma: float, *, weights: Any = None, centroid_norms: bool = True
) -> Machine:
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
    Machine
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
        raise InputError(f"`labels` and `weights` must hold {n} values, one per row of `X`.")
    if not (np.isfinite(w).all() and (w >= 0).all()):
        raise InputError("`weights` must be finite and not negative.")
    member = np.zeros((n, K))
    member[np.arange(n), members] = w
    totals = np.array([math.fsum(column) for column in member.T])
    if not (totals > 0).all():
        raise InputError("a cluster has no weight, so it has no center.")
    member /= totals
    offsets, lost = np.zeros(K), np.zeros(K)
    if centroid_norms:
        offsets, lost = _centroid_norms(rows, member, gamma)
    expansion = KernelExpansion(rows, 2.0 * member, -offsets, gamma=gamma)
    # A total and a quotient: two roundings of every coefficient, and of both factors of a norm.
    expansion = expansion.rounded(units=4.0, intercept=lost)
    return Machine(
        expansion, ArgmaxHead(clusters), describe("kernel k-means", expansion), "arrays", "kmeans"
    )


def read_tslearn_kmeans(model: Any, type_name: str = "KernelKMeans", /) -> Machine:
    """Read a fitted KernelKMeans of tslearn with kernel "rbf".

    It answers for rows of the flattened series, shape (m, length * dimensions).
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
    machine = kernel_kmeans(
        rows,
        model.labels_,
        1.0 / rows.shape[1] if gamma is None else float(gamma),
        weights=model.sample_weight_,
        centroid_norms=False,
    )
    description = describe(f"tslearn {type_name}", machine.single)
    return Machine(machine.expansion, machine.head, description, "tslearn", type_name)


def _centroid_norms(rows: Any, member: FloatArray, gamma: float) -> tuple[FloatArray, FloatArray]:
    """sum_ij m_ic m_jc k(x_i, x_j) of each cluster, in blocks, and error bounds: shapes (K,).

    Weights add up to 1. Exponents of distances by products err by (3 d + 16) u gamma times four
    squared norms; distances by differences by (d + 7) u relatively, which changes a kernel value by
    less than that. Sums of n terms err by n u each.
    """
    n, d = member.shape[0], rows.shape[1]
    kernel = KernelExpansion(rows, member, np.zeros(member.shape[1]), gamma=gamma)
    norms = np.zeros(member.shape[1])
    for block in row_blocks(n, rows_within(n, 16)):
        means = kernel_values(kernel, rows[block]) @ member
        norms += np.einsum("ij,ij->j", member[block], means)
    with np.errstate(over="ignore"):
        about = rows if is_sparse(rows) else rows - rows.mean(axis=0)  # as `kernel_values` has it
        farthest = float(squared_norms(about).max(initial=0.0))
        exponents = min((3.0 * d + 16.0) * 4.0 * gamma * farthest, 1.0 / UNIT)
    error = 1.05 * UNIT * (2.0 * n + d + 32.0 + exponents)
    return norms, np.full_like(norms, error)
