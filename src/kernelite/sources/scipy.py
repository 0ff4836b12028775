"""SciPy's kernel machines: gaussian_kde and RBFInterpolator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.exactly import UNIT, fraction
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import DensityHead, RegressorHead
from kernelite.machine.kernels import (
    InverseMultiquadric,
    InverseQuadratic,
    Kernel,
    Multiquadric,
    PowerSpline,
    ThinPlateSpline,
)
from kernelite.machine.machine import Machine, PolynomialTail, describe
from kernelite.machine.preparation import Preparation
from kernelite.machine.preparation.projection import Projection
from kernelite.sources.common import NamedKernel
from kernelite.support.errors import UnsupportedModelError

__all__ = ["read_gaussian_kde", "read_rbf_interpolator"]

# scipy.stats.gaussian_kde: a weighted sum of Gaussian bumps of one covariance L L'.
#
#     density(z) = sum_i w_i exp(-|M (x_i - z)|^2 / 2) / ((2 pi)^(d/2) det L),    M L = 1
#
# Rows are whitened, z' = M (z - t), so that it is an RBF expansion; its logarithm is what the head
# answers. Computed z' is off by at most u (d + 3) |M| |z - t| in each entry, and M, found by
# solving with the triangle L, by u d |M| |L| |M|. Since z - t = L z', both are a share of |z'|.


def read_gaussian_kde(model: Any, type_name: str = "gaussian_kde", /) -> Machine:
    """Read a gaussian_kde; the compiled model has its `pdf` and `logpdf`, and `score_samples`.

    Examples
    --------
    >>> from scipy.stats import gaussian_kde
    >>> kde = gaussian_kde([[0.0, 1.0, 2.0, 4.0]])
    >>> machine = read_gaussian_kde(kde)
    >>> ours = machine.head.score_samples(machine.scores([[0.3]]))
    >>> bool(np.allclose(ours, kde.logpdf([[0.3]])))
    True
    """
    lower = np.asarray(model.cho_cov, dtype=np.float64)
    if np.iscomplexobj(model.dataset):
        raise UnsupportedModelError(f"this {type_name} has complex values; split them in two.")
    rows = np.ascontiguousarray(np.asarray(model.dataset, dtype=np.float64).T)
    n, d = rows.shape
    step = Projection(_inverse(lower), rows.mean(axis=0))
    centers = step(rows)
    weights = np.asarray(model.weights, dtype=np.float64)
    # Rows and centers are off by a share of their length. As `rounding.folding` has it for rows
    # that are mapped, a kernel value moves by sqrt(2 gamma / e) of that, and |z| counts up to where
    # all kernel values vanish.
    share = _error(step.matrix, lower)
    reach = float(np.sqrt(np.square(centers).sum(axis=1).max()))
    steepness = math.sqrt(1.0 / math.e)
    moved = 1.1 * share * (2.0 * steepness * reach + math.sqrt(1600.0 / math.e))
    expansion = KernelExpansion(centers, weights, np.zeros(1), gamma=0.5)
    expansion = expansion.rounded(coefficients=min(moved, 1.0) * float(weights.sum()))
    log_scale = -float(np.log(np.diagonal(lower)).sum()) - 0.5 * d * math.log(2.0 * math.pi)
    return Machine(
        expansion,
        DensityHead(log_scale),
        f"SciPy {type_name}, {n} points in {d} dimensions",
        "scipy",
        type_name,
        preparation=Preparation.of(step),
    )


def _inverse(lower: FloatArray) -> FloatArray:
    """M that undoes a lower triangle L: shape (d, d)."""
    from scipy.linalg import solve_triangular

    return np.ascontiguousarray(solve_triangular(lower, np.eye(len(lower)), lower=True))


def _error(matrix: FloatArray, lower: FloatArray) -> float:
    """How far z' may be off, as a share of |z'|, where M should undo L."""
    d = len(lower)
    # |M| |z - t| <= |M| |L| |z'|, which no scale of a feature changes.
    meets = float(np.linalg.norm(np.abs(matrix) @ np.abs(lower)))
    return 1.1 * UNIT * (d + 3.0 + d * meets) * meets


# scipy.interpolate.RBFInterpolator: a sum of radial functions, and a polynomial.
#
#     f(z) = sum_i c_i phi(epsilon |y_i - z|) + P(z)
#
# The polynomial stays beside the expansion and is evaluated exactly; of degree 0 it is an
# intercept.


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

    One with `neighbors` is refused.

    Examples
    --------
    >>> from scipy.interpolate import RBFInterpolator
    >>> x = np.linspace(0.0, 1.0, 20)[:, None]
    >>> f = RBFInterpolator(x, np.cos(5 * x[:, 0]), kernel="gaussian", epsilon=3.0, degree=1)
    >>> machine = read_rbf_interpolator(f)
    >>> values = machine.expansion.scores([[0.3]]) + machine.tail.values(np.array([[0.3]]))[0]
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
    if model.kernel == "gaussian":
        kernel = NamedKernel.gaussian(fraction(epsilon, "epsilon") ** 2)
    else:
        kernel = NamedKernel(SHAPES[model.kernel](epsilon))
    return kernel.expansion(centers, coefficients, intercept)
