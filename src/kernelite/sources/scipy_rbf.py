"""scipy.interpolate.RBFInterpolator with kernel 'gaussian': an RBF network with a polynomial.

    f(z) = sum_i c_i exp(-epsilon^2 |y_i - z|^2) + P(z)

The polynomial stays beside the expansion and is evaluated exactly; of degree 0 it is an intercept.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from kernelite.errors import UnsupportedModelError
from kernelite.machine.exactly import nearest, relative_gap
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import RegressorHead
from kernelite.machine.polynomial_term import PolynomialTail
from kernelite.sources.source import Source, describe

__all__ = ["read_rbf_interpolator"]


def read_rbf_interpolator(model: Any, type_name: str = "RBFInterpolator", /) -> Source:
    """Read an RBFInterpolator; `predict` of the compiled model is calling it.

    Parameters
    ----------
    model : scipy.interpolate.RBFInterpolator
        With kernel "gaussian", without `neighbors`.
    type_name : str
        What messages call it.

    Returns
    -------
    Source

    Examples
    --------
    >>> from scipy.interpolate import RBFInterpolator
    >>> x = np.linspace(0.0, 1.0, 20)[:, None]
    >>> f = RBFInterpolator(x, np.cos(5 * x[:, 0]), kernel="gaussian", epsilon=3.0, degree=1)
    >>> source = read_rbf_interpolator(f)
    >>> values = source.expansion.scores([[0.3]]) + source.tail.values(np.array([[0.3]]))[0]
    >>> bool(np.allclose(values[:, 0], f([[0.3]])))
    True
    """
    if model.neighbors is not None:
        raise UnsupportedModelError(
            f"this {type_name} has neighbors={model.neighbors}: it solves another system for every "
            "row, so it is not one expansion; leave `neighbors` out."
        )
    if model.kernel != "gaussian":
        raise UnsupportedModelError(
            f"this {type_name} has kernel {model.kernel!r}, which is not exp(-(epsilon r)^2); "
            "accepted is kernel 'gaussian'."
        )
    if np.issubdtype(model.d_dtype, np.complexfloating):
        raise UnsupportedModelError(f"this {type_name} has complex values; split them in two.")
    centers = np.asarray(model.y, dtype=np.float64)
    n, d = centers.shape
    coefficients = np.asarray(model._coeffs, dtype=np.float64)
    powers = np.asarray(model.powers, dtype=np.int64).reshape(-1, d)
    beta = coefficients[n:]
    constant = ~powers.any(axis=1)
    meant = Fraction(float(model.epsilon)) ** 2
    gamma = nearest(meant)
    intercept = beta[constant].sum(axis=0)  # of one monomial at most
    expansion = KernelExpansion(centers, coefficients[:n], intercept, gamma=gamma)
    expansion = expansion.rounded(gamma=relative_gap(gamma, meant))
    tail = None
    if not constant.all():
        tail = PolynomialTail(
            powers[~constant], beta[~constant], np.asarray(model._shift), np.asarray(model._scale)
        )
    return Source(
        expansion,
        RegressorHead(expansion.n_outputs, value_shape=tuple(int(n) for n in model.d_shape)),
        describe(f"SciPy {type_name}", expansion),
        "scipy",
        type_name,
        tail=tail,
    )
