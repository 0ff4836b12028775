"""Kernel discriminant analysis from arrays: a projection, and the nearest class mean in it.

    y(z) = sum_i A_i k(x_i, z) + b                                 k directions at once
    |y - mu_c|^2 = |y|^2 - 2 mu_c.y + |mu_c|^2

|y|^2 is the same for all classes, so the nearest mean has the largest 2 mu_c.y - |mu_c|^2, which is
an expansion again, with an output a class. Prior probabilities add 2 log(prior) to that.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from kernelite.errors import InputError
from kernelite.machine.exactly import UNIT
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ArgmaxHead, TransformHead
from kernelite.machine.machine import Machine, describe
from kernelite.sources.folding import fold_linear

__all__ = ["discriminant_classifier", "discriminant_projection"]


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
    >>> source = discriminant_projection([[0.0], [1.0]], [[1.0], [-1.0]], gamma=0.5)
    >>> source.expansion.scores([[0.0]]).round(3)
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
    >>> source = discriminant_classifier(X, direction, 0.2, [0, 1], means)
    >>> model = kernelite.compile(source, X)
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
