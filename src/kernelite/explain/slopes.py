"""Derivatives of kernels by their row, all pairs at once, and how far doubles are off.

A derivative has one of three shapes, with a number h per row z and center x:

    gap    h (z_l - x_l) / length_l^2     radial kernels: RBF, Matern, rational quadratic
    dot    h x_l                          kernels of x.z: linear, polynomial, sigmoid
    sign   h sign(z_l - x_l)              Laplacian

Rounding, with u = 2^-53. Squared distances s by differences err by (d + 3) u of themselves, and RBF
exponents by products, about a point amid the centers, by (d + 10) u gamma (|z| + |x|)^2. A row that
is off by eta moves a distance by eta at most. Exponentials of -e err relatively by the error of e
and by 8 u; powers likewise. The sums over centers are counted by `gradients`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.exactly import UNIT
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import (
    Gaussian,
    Kernel,
    Laplacian,
    Matern,
    PolynomialKernel,
    RationalQuadratic,
    Rbf,
    SigmoidKernel,
)
from kernelite.machine.kernels.exponential import CLOSED
from kernelite.support.errors import UnsupportedModelError

__all__ = ["Slope", "factors_of", "has_slope", "slope_of"]

SMALLEST_EXPONENTIAL = 1e-290  # what an exponential may lose to underflow


@dataclass(frozen=True, eq=False)
class Slope:
    """A kernel's values and derivatives for rows and centers; errors are absolute.

    Parameters
    ----------
    shape : {"gap", "dot", "sign"}
    value, slope : ndarray of shape (m, n)
        k and h.
    errors : callable
        Of nothing: both errors, of shape (m, n) each; computed when they are asked for.
    inverse : ndarray of shape (d,), or 1
        1 / length^2, of "gap".
    """

    shape: Literal["gap", "dot", "sign"]
    value: FloatArray
    slope: FloatArray
    errors: Callable[[], tuple[FloatArray, FloatArray]]
    inverse: FloatArray | float = 1.0

    @cached_property
    def _both(self) -> tuple[FloatArray, FloatArray]:
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            return self.errors()

    @property
    def value_error(self) -> FloatArray:
        """How far k may be off."""
        return self._both[0]

    @property
    def slope_error(self) -> FloatArray:
        """How far h may be off."""
        return self._both[1]

    def as_value(self) -> Slope:
        """A factor whose derivative stands in its place."""
        errors = lambda: (self.slope_error, self.slope_error)  # noqa: E731
        return Slope(self.shape, self.slope, self.slope, errors, self.inverse)


def factors_of(expansion: KernelExpansion) -> Iterator[tuple[float, tuple[Kernel, ...]]]:
    """The kernel as a sum of products: an amplitude and its factors, each differentiable."""
    for amplitude, factors in expansion.kernel.terms:
        for factor in factors:
            if not has_slope(factor):
                raise UnsupportedModelError(
                    "gradients are known for RBF, Matern (1/2, 3/2, 5/2), rational quadratic, "
                    "Laplacian, linear, polynomial and sigmoid kernels, their sums and products; "
                    f"this model has: {expansion.kernel_name}."
                )
        yield amplitude, factors


def has_slope(kernel: Kernel) -> bool:
    """Whether a kernel's derivative is known; those of Matern kernels are for some nu."""
    return type(kernel) in _SLOPES and getattr(kernel, "nu", CLOSED[0]) in CLOSED


def slope_of(kernel: Kernel, Z: FloatArray, C: FloatArray, moved: FloatArray) -> Slope:
    """Values and derivatives for rows (m, d), which are off by `moved`, and centers (n, d)."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        found: Slope = _SLOPES[type(kernel)](kernel, Z, C, moved)
        return found


def gaussian(gamma: float, Z: FloatArray, C: FloatArray) -> FloatArray:
    """exp(-gamma s), with s by products: the caller has moved rows and centers to their middle."""
    z, c = (np.einsum("ij,ij->i", rows, rows) for rows in (Z, C))
    exponents = Z @ ((2.0 * gamma) * C.T)
    exponents -= (gamma * z)[:, None]
    exponents -= (gamma * c)[None, :]
    np.minimum(exponents, 0.0, out=exponents)
    return np.exp(exponents, out=exponents)


def _gaussian(kernel: Gaussian, Z: FloatArray, C: FloatArray, moved: FloatArray) -> Slope:
    gamma = kernel.gamma
    value = gaussian(gamma, Z, C)

    def errors() -> tuple[FloatArray, FloatArray]:
        z, c = (np.sqrt(np.einsum("ij,ij->i", rows, rows)) for rows in (Z, C))
        reach = z[:, None] + c[None, :]
        error = (1.05 * (Z.shape[1] + 10.0) * UNIT * gamma) * np.square(reach)
        error += gamma * moved * (2.0 * reach + moved) + 16.0 * UNIT
        off = value * np.expm1(np.minimum(error, 700.0)) + SMALLEST_EXPONENTIAL
        return off, 2.0 * gamma * off

    return Slope("gap", value, -2.0 * gamma * value, errors)


def _distances(
    kernel: Any, Z: FloatArray, C: FloatArray, moved: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """s, 1 / length^2, and how far a scaled distance may be off because rows are, (m, 1)."""
    from scipy.spatial.distance import cdist

    inverse = 1.0 / np.asarray(kernel.length_scale, dtype=np.float64)
    z, c = Z * inverse, C * inverse
    norms = np.sqrt(np.square(z).sum(axis=1, keepdims=True))
    farthest = float(np.sqrt(np.square(c).sum(axis=1)).max(initial=0.0))
    mu = inverse.max() * moved + 2.0 * UNIT * (norms + farthest)
    return cdist(z, c, "sqeuclidean"), np.square(inverse), mu


def _of_radial(
    value: FloatArray, slope: FloatArray, relative: Callable[[], FloatArray], inverse: FloatArray
) -> Slope:
    def errors() -> tuple[FloatArray, FloatArray]:
        grown = np.expm1(np.minimum(1.05 * relative(), 700.0))
        return np.abs(value) * grown + SMALLEST_EXPONENTIAL, np.abs(
            slope
        ) * grown + SMALLEST_EXPONENTIAL

    return Slope("gap", value, slope, errors, inverse)


def _rbf(kernel: Rbf, Z: FloatArray, C: FloatArray, moved: FloatArray) -> Slope:
    s, inverse, mu = _distances(kernel, Z, C, moved)
    value = np.exp(-0.5 * s)

    def relative() -> FloatArray:
        return UNIT * ((Z.shape[1] + 8.0) * s + 24.0) + mu * (np.sqrt(s) + mu)

    return _of_radial(value, -value, relative, inverse)


def _matern(kernel: Matern, Z: FloatArray, C: FloatArray, moved: FloatArray) -> Slope:
    s, inverse, mu = _distances(kernel, Z, C, moved)
    root = math.sqrt(2.0 * kernel.nu)
    a, mu = root * np.sqrt(s), root * mu
    decay = np.exp(-a)

    def relative() -> FloatArray:
        return UNIT * ((Z.shape[1] + 8.0) * a + 32.0) + mu

    if kernel.nu == 0.5:  # a kink where the row is a center
        apart = a > 0.0
        slope = np.where(apart, -decay / np.where(apart, a, 1.0), 0.0)
        plain = _of_radial(decay, slope, lambda: relative() + UNIT * Z.shape[1] + mu / a, inverse)

        def errors() -> tuple[FloatArray, FloatArray]:
            return plain.value_error, np.where(apart, plain.slope_error, np.inf)

        return replace(plain, errors=errors)
    if kernel.nu == 1.5:
        return _of_radial((1.0 + a) * decay, -3.0 * decay, relative, inverse)
    value, slope = (1.0 + a + a * a / 3.0) * decay, (-5.0 / 3.0) * (1.0 + a) * decay
    return _of_radial(value, slope, relative, inverse)


def _rational(kernel: RationalQuadratic, Z: FloatArray, C: FloatArray, moved: FloatArray) -> Slope:
    s, inverse, mu = _distances(kernel, Z, C, moved)
    alpha = kernel.alpha
    base = 1.0 + s / (2.0 * alpha)
    value = base**-alpha
    mu = mu / math.sqrt(2.0 * alpha)

    def relative() -> FloatArray:
        found = (alpha + 1.0) * (UNIT * (Z.shape[1] + 16.0) + 2.0 * mu) + 64.0 * UNIT
        return np.asarray(found + UNIT * (alpha + 1.0) * np.log(base))

    return _of_radial(value, -value / base, relative, inverse)


def _laplacian(kernel: Laplacian, Z: FloatArray, C: FloatArray, moved: FloatArray) -> Slope:
    from scipy.spatial.distance import cdist

    exponents = kernel.gamma * cdist(Z, C, "cityblock")
    value, d = np.exp(-exponents), Z.shape[1]

    def errors() -> tuple[FloatArray, FloatArray]:
        relative = UNIT * ((d + 8.0) * exponents + 24.0) + kernel.gamma * math.sqrt(d) * moved
        off = value * np.expm1(np.minimum(relative, 700.0)) + SMALLEST_EXPONENTIAL
        return off, kernel.gamma * off

    return Slope("sign", value, -kernel.gamma * value, errors)


def _argument_error(
    kernel: Any, Z: FloatArray, C: FloatArray, moved: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The size of the terms of gamma x.z + coef0, and its error."""
    norms = (np.sqrt(np.einsum("ij,ij->i", rows, rows)) for rows in (Z, C))
    z, c = next(norms)[:, None], next(norms)[None, :]
    size = kernel.gamma * z * c + abs(kernel.coef0)
    return size, 1.05 * UNIT * (Z.shape[1] + 8.0) * size + 1.05 * kernel.gamma * c * moved


def _polynomial(kernel: PolynomialKernel, Z: FloatArray, C: FloatArray, moved: FloatArray) -> Slope:
    argument = kernel.gamma * (Z @ C.T) + kernel.coef0
    p, gamma = kernel.degree, kernel.gamma

    def errors() -> tuple[FloatArray, FloatArray]:
        size, off = _argument_error(kernel, Z, C, moved)
        powers = [(size + off) ** max(p - i, 0) for i in range(3)]
        return (
            p * powers[1] * off + 2.0 * p * UNIT * powers[0],
            p * gamma * ((p - 1) * powers[2] * off + 2.0 * (p + 4) * UNIT * powers[1]),
        )

    return Slope("dot", argument**p, p * gamma * argument ** (p - 1), errors)


def _sigmoid(kernel: SigmoidKernel, Z: FloatArray, C: FloatArray, moved: FloatArray) -> Slope:
    value = np.tanh(kernel.gamma * (Z @ C.T) + kernel.coef0)

    def errors() -> tuple[FloatArray, FloatArray]:
        _, off = _argument_error(kernel, Z, C, moved)
        return off + 16.0 * UNIT, kernel.gamma * (0.8 * off + 64.0 * UNIT)

    return Slope("dot", value, kernel.gamma * (1.0 - value) * (1.0 + value), errors)


_SLOPES: dict[type, Any] = {
    Gaussian: _gaussian,
    Rbf: _rbf,
    Matern: _matern,
    RationalQuadratic: _rational,
    Laplacian: _laplacian,
    PolynomialKernel: _polynomial,
    SigmoidKernel: _sigmoid,
}
