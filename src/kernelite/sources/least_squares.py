"""Least-squares SVMs from arrays: support vectors, support values (alphas), bias, kernel width.

    f(z) = sum_i alpha_i K(x_i, z) + b            values, or the sign of f for two classes

Conventions differ in the width. LS-SVMlab calls it sig2: its guide and its code up to 1.6 have
K = exp(-|x - z|^2 / sig2), so gamma = 1 / sig2; the code of 1.8 divides by 2 sig2, and that of 1.7
also scales K by 1 / sqrt(2 pi). SHOGUN calls it width, and gamma = 1 / width.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.affine import AffineMap
from kernelite.machine.exactly import UNIT, fraction
from kernelite.machine.heads import ClassifierHead, Head, RegressorHead
from kernelite.machine.kernels import Gaussian
from kernelite.machine.machine import Machine, describe
from kernelite.machine.preparation import Preparation
from kernelite.sources.common import NamedKernel, scaled_outputs
from kernelite.support.errors import InputError

__all__ = ["from_lssvmlab", "from_shogun", "least_squares_svm"]

Kind: TypeAlias = Literal["regression", "classification"]
LSSVMLAB = {"guide": (1.0, 1.0), "1.7": (2.0, 1.0 / math.sqrt(2.0 * math.pi)), "1.8": (2.0, 1.0)}
"""What sig2 and the kernel are multiplied with, by version of LS-SVMlab."""
MOST_EQUATIONS = 500  # of training, that are checked


def least_squares_svm(
    centers: Any,
    alphas: Any,
    bias: Any,
    gamma: float | Fraction,
    *,
    kind: Kind = "regression",
    targets: Any = None,
    classes: Any = (-1, 1),
    zero_is_first: bool = False,
    input_map: AffineMap | None = None,
    name: str = "least-squares SVM",
) -> Machine:
    """A least-squares SVM with the kernel exp(-gamma |x - z|^2).

    Parameters
    ----------
    centers : array-like of shape (n, d)
        x_i: all training rows, as a rule.
    alphas : array-like of shape (n,) or (n, k)
        Support values; columns for several regression outputs.
    bias : float or array-like of shape (k,)
    gamma : float or Fraction
        A fraction is rounded, and what that loses is told.
    kind : {"regression", "classification"}
    targets : array-like of shape (n,), optional
        For support values as in Suykens and Vandewalle's classifier, f = sum_i alpha_i y_i K + b:
        the y_i, -1 or 1. Most programs, LS-SVMlab among them, have y_i in alpha_i already.
    classes : (negative, positive)
        Labels by the sign of f.
    zero_is_first : bool
        Whether f = 0 means the negative class.
    input_map : AffineMap, optional
        Takes rows to the centers' coordinates, where training standardised them.
    name : str
        What descriptions call it.

    Returns
    -------
    Machine
        For `kernelite.compile`.

    Examples
    --------
    Train one by its linear system, then compile it:

    >>> import kernelite
    >>> X = np.linspace(-2.0, 2.0, 30)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> K = np.exp(-0.5 * (X - X.T) ** 2)
    >>> ones = np.ones(30)
    >>> system = np.block([[np.zeros((1, 1)), ones[None]], [ones[:, None], K + np.eye(30) / 100]])
    >>> b, *alphas = np.linalg.solve(system, np.append(0.0, y))
    >>> model = kernelite.compile(least_squares_svm(X, alphas, b, gamma=0.5), X)
    >>> bool(np.abs(model.predict(X) - (K @ alphas + b)).max() <= model.tolerance[0])
    True
    """
    if kind not in ("regression", "classification"):
        raise InputError(f"`kind` must be 'regression' or 'classification', got {kind!r}.")
    coefficients = _numbers("alphas", alphas)
    if targets is not None:
        y = _numbers("targets", targets)
        if y.shape != coefficients.shape[:1] or not np.isin(y, (-1.0, 1.0)).all():
            raise InputError("`targets` must hold -1 or 1, one to each of `alphas`.")
        coefficients = (coefficients.T * y).T
    if isinstance(gamma, Fraction):
        kernel = NamedKernel.gaussian(gamma)
    else:
        kernel = NamedKernel(Gaussian(gamma))
    expansion = kernel.expansion(centers, coefficients, np.atleast_1d(bias))
    k = expansion.n_outputs
    if kind == "regression":
        head: Head = RegressorHead(k)
    elif k != 1 or len(classes) != 2:
        raise InputError(f"a classifier has one output and two classes, got {k} and {classes!r}.")
    else:
        head = ClassifierHead(np.array(classes), first_positive=False, zero_is_first=zero_is_first)
    description, before = describe(name, expansion), Preparation.of(input_map)
    return Machine(expansion, head, description, "arrays", kind, preparation=before)


def from_lssvmlab(
    xtrain: Any,
    alpha: Any,
    b: Any,
    sig2: float,
    *,
    type: str = "function estimation",
    version: str = "guide",
    ytrain: Any = None,
    gam: float | None = None,
    x_mean: Any = None,
    x_std: Any = None,
    y_mean: float = 0.0,
    y_std: float = 1.0,
) -> Machine:
    """A model of LS-SVMlab (MATLAB) with its 'RBF_kernel', field by field.

    Parameters
    ----------
    xtrain, alpha, b : model.xtrain (n, d), model.alpha (n,), model.b
    sig2 : model.kernel_pars
    type : {"function estimation", "classification"}
        Or their first letters, as LS-SVMlab itself takes them.
    version : {"guide", "1.7", "1.8"}
        Which kernel: "guide" is exp(-|x - z|^2 / sig2), gamma = 1 / sig2, as the user's guide says
        and versions up to 1.6 compute; 1.8 computes exp(-|x - z|^2 / (2 sig2)).
    ytrain, gam : model.ytrain (n,) and model.gam, optional
        With both, the equations of training, y = K alpha + b + alpha / gam, are checked, so that a
        wrong `version` is refused with the name of the right one.
    x_mean, x_std : array-like of shape (d,), optional
        With preprocessing, which is LS-SVMlab's default: model.pre_xmean and model.pre_xstd.
    y_mean, y_std : float
        Likewise model.pre_ymean and model.pre_ystd, of a regressor.

    Returns
    -------
    Machine
        For `kernelite.compile`.

    Examples
    --------
    >>> machine = from_lssvmlab([[0.0], [1.0]], [0.5, -0.5], 0.1, sig2=4.0)
    >>> machine.expansion.gamma
    0.25
    >>> from_lssvmlab([[0.0], [1.0]], [0.5, -0.5], 0.1, sig2=4.0, version="1.8").expansion.gamma
    0.125
    """
    if version not in LSSVMLAB:
        raise InputError(f"`version` must be one of {', '.join(LSSVMLAB)}, got {version!r}.")
    if type[:1] not in ("f", "c"):
        raise InputError(f"`type` must be 'function estimation' or 'classification', got {type!r}.")
    X, alphas = _numbers("xtrain", xtrain), _numbers("alpha", alpha).reshape(-1)
    if ytrain is not None and gam is not None:
        _check_equations(X, alphas, b, sig2, version, _numbers("ytrain", ytrain).reshape(-1), gam)
    times, amplitude = LSSVMLAB[version]
    classifier = type[:1] == "c"
    scale, shift = (1.0, 0.0) if classifier else (float(y_std), float(y_mean))
    meant = 1 / (Fraction(times) * fraction(sig2, "sig2", positive=True))
    machine = least_squares_svm(
        X,
        amplitude * alphas,
        float(np.ravel(b)[0]),
        meant,
        kind="classification" if classifier else "regression",
        zero_is_first=True,  # LS-SVMlab: 2 (Y > 0) - 1
        input_map=_standardised(x_mean, x_std, X.shape[1]),
        name=f"LS-SVMlab {'classifier' if classifier else 'function estimation'}",
    )
    expansion = machine.single
    if amplitude != 1.0:  # pi, its root, the quotient and the product are rounded
        lost = 5.0 * UNIT * np.abs(expansion.coefficients).sum(axis=0)
        expansion = expansion.rounded(coefficients=lost)
    expansion = scaled_outputs(expansion, [fraction(scale, "y_std")], [fraction(shift, "y_mean")])
    return replace(machine, expansion=expansion)


def from_shogun(
    vectors: Any, alphas: Any, bias: float, width: float, *, kind: Kind = "classification"
) -> Machine:
    """A kernel machine of SHOGUN with its GaussianKernel.

    Parameters
    ----------
    vectors : array-like of shape (n, d)
        The support vectors as rows; SHOGUN's feature matrices hold them as columns.
    alphas : array-like of shape (n,)
        `machine.get_alphas()`, signs of the labels included.
    bias : float
    width : float
        `kernel.get_width()`, of exp(-|x - z|^2 / width): gamma = 1 / width.
    kind : {"regression", "classification"}
        Labels are -1 and 1; f = 0 means 1.

    Returns
    -------
    Machine
        For `kernelite.compile`.

    Examples
    --------
    >>> machine = from_shogun([[0.0], [1.0]], [0.5, -0.5], 0.1, width=4.0)
    >>> machine.expansion.gamma, machine.head.predict(machine.expansion.scores([[0.0]]))
    (0.25, array([1]))
    """
    gamma = 1 / fraction(width, "width", positive=True)
    return least_squares_svm(vectors, alphas, bias, gamma, kind=kind, name=f"SHOGUN {kind}")


def _check_equations(
    X: FloatArray, alphas: FloatArray, b: Any, sig2: float, version: str, y: FloatArray, gam: float
) -> None:
    """Refuse a version whose kernel does not satisfy the equations of training."""
    squares = ((X[:MOST_EQUATIONS, None, :] - X[None, :, :]) ** 2).sum(axis=-1)
    rows = len(squares)
    residuals = {}
    for name, (times, amplitude) in LSSVMLAB.items():
        K = amplitude * np.exp(-squares / (times * float(sig2)))
        left = K @ alphas + float(np.ravel(b)[0]) + alphas[:rows] / float(gam)
        residuals[name] = float(np.abs(left - y[:rows]).max())
    best = min(residuals, key=lambda name: residuals[name])
    if residuals[version] > 1e-6 * (1.0 + float(np.abs(y).max())):
        raise InputError(
            f"the equations of training do not hold with version={version!r} (off by "
            f"{residuals[version]:.2g}); the closest is version={best!r} (off by "
            f"{residuals[best]:.2g})."
        )


def _standardised(mean: Any, std: Any, d: int) -> AffineMap | None:
    if mean is None and std is None:
        return None
    mean = np.zeros(d) if mean is None else _numbers("x_mean", mean).reshape(-1)
    std = np.ones(d) if std is None else _numbers("x_std", std).reshape(-1)
    if not (std > 0).all():
        raise InputError("`x_std` must be positive.")
    return AffineMap.of(("-", mean), ("/", std))


def _numbers(name: str, value: Any) -> FloatArray:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"`{name}` must hold numbers.") from None
    if not np.isfinite(array).all():
        raise InputError(f"`{name}` contains NaN or infinity.")
    return array
