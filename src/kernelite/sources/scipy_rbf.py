"""scipy.interpolate.RBFInterpolator: a sum of radial functions, and a polynomial.

    f(z) = sum_i c_i phi(epsilon |y_i - z|) + P(z)

The polynomial stays beside the expansion and is evaluated exactly; of degree 0 it is an intercept.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from kernelite.errors import UnsupportedModelError
from kernelite.machine.exactly import nearest, relative_gap
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import RegressorHead
from kernelite.machine.kernels import (
    InverseMultiquadric,
    InverseQuadratic,
    Kernel,
    Multiquadric,
    PowerSpline,
    ThinPlateSpline,
)
from kernelite.machine.machine import Machine, describe
from kernelite.machine.polynomial_term import PolynomialTail

__all__ = ["read_rbf_interpolator"]

SHAPES: dict[str, Callable[[float], Kernel]] = {
    "thin_plate_spline": ThinPlateSpline,
    "linear": lambda epsilon: PowerSpline(epsilon, 1),
    "cubic": lambda epsilon: PowerSpline(epsilon, 3),
    "quintic": lambda epsilon: PowerSpline(epsilon, 5),
    "multiquadric": Multiquadric,
    "inverse_multiquadric": InverseMultiquadric,
    "inverse_quadratic": InverseQuadratic,
}


def read_rbf_interpolator(model: Any, type_name: str = "RBFInterpolator", /) -> Machine:
    """Read an RBFInterpolator; `predict` of the compiled model is calling it.

    Parameters
    ----------
    model : scipy.interpolate.RBFInterpolator
        Without `neighbors`.
    type_name : str
        What messages call it.

    Returns
    -------
    Machine

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
    if np.issubdtype(model.d_dtype, np.complexfloating):
        raise UnsupportedModelError(f"this {type_name} has complex values; split them in two.")
    centers = np.asarray(model.y, dtype=np.float64)
    n, d = centers.shape
    coefficients = np.asarray(model._coeffs, dtype=np.float64)
    powers = np.asarray(model.powers, dtype=np.int64).reshape(-1, d)
    beta = coefficients[n:]
    constant = ~powers.any(axis=1)
    intercept = beta[constant].sum(axis=0)  # of one monomial at most
    expansion = _expansion(model, centers, coefficients[:n], intercept)
    tail = None
    if not constant.all():
        tail = PolynomialTail(
            powers[~constant], beta[~constant], np.asarray(model._shift), np.asarray(model._scale)
        )
    return Machine(
        expansion,
        RegressorHead(expansion.n_outputs, value_shape=tuple(int(n) for n in model.d_shape)),
        describe(f"SciPy {type_name}", expansion),
        "scipy",
        type_name,
        tail=tail,
    )


def _expansion(model: Any, centers: Any, coefficients: Any, intercept: Any) -> KernelExpansion:
    epsilon = float(model.epsilon)
    if model.kernel != "gaussian":
        return KernelExpansion(
            centers, coefficients, intercept, kernel=SHAPES[model.kernel](epsilon)
        )
    meant = Fraction(epsilon) ** 2
    gamma = nearest(meant)
    expansion = KernelExpansion(centers, coefficients, intercept, gamma=gamma)
    return expansion.rounded(gamma=relative_gap(gamma, meant))
