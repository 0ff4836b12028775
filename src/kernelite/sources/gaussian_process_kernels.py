"""scikit-learn's Gaussian process kernels, reduced to one RBF and what can stand beside it.

    k(x, z) = amplitude exp(-1/2 sum_j precision_j (x_j - z_j)^2) + constant + noise [x is z]

In: a fitted kernel, a tree of sums, products and powers. Out: those four, or a refusal that names
what does not fit. Products of RBF kernels are RBF kernels, whose precisions add; a ConstantKernel
beside the RBF becomes part of the intercept; a WhiteKernel only counts in the variance, since it
is zero between two different sets of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelite.affine import AffineMap
from kernelite.errors import UnsupportedModelError
from kernelite.inputs import FloatArray

__all__ = ["Covariance", "covariance"]


@dataclass(frozen=True, eq=False)
class Covariance:
    """amplitude exp(-1/2 sum_j precision_j (x_j - z_j)^2) + constant + noise [x is z].

    Parameters
    ----------
    amplitude : float
    precision : ndarray of shape (d,)
        1 / length_scale^2, a feature each.
    constant, noise : float
    """

    amplitude: float
    precision: FloatArray
    constant: float
    noise: float

    @property
    def diagonal(self) -> float:
        """k(x, x)."""
        return self.amplitude + self.constant + self.noise

    def scaling(self) -> tuple[AffineMap | None, float]:
        """A map of the inputs and gamma; no map where all length scales are equal."""
        first = float(self.precision[0])
        if (self.precision == first).all():
            return None, 0.5 * first
        return AffineMap(np.sqrt(self.precision), np.zeros(len(self.precision))), 0.5


@dataclass(frozen=True, eq=False)
class _Term:
    """amplitude exp(-1/2 sum_j precision_j (x_j - z_j)^2); if white, of a row with itself only."""

    amplitude: float
    precision: FloatArray
    white: bool = False

    def __mul__(self, other: _Term) -> _Term:
        return _Term(
            self.amplitude * other.amplitude,
            self.precision + other.precision,
            self.white or other.white,
        )


def covariance(kernel: Any, n_features: int, type_name: str) -> Covariance:
    """Reduce a kernel of scikit-learn's Gaussian processes.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    n_features : int
    type_name : str
        What messages call the model.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    >>> found = covariance(ConstantKernel(4.0) * RBF(0.5) + WhiteKernel(0.1), 1, "model")
    >>> found.amplitude, found.precision, found.noise, found.diagonal
    (4.0, array([4.]), 0.1, 4.1)
    """
    terms = _Reader(kernel, n_features, type_name).terms(kernel)
    noise = sum(term.amplitude for term in terms if term.white)
    plain = [term for term in terms if not term.white]
    constant = sum(term.amplitude for term in plain if not term.precision.any())
    bumps = [term for term in plain if term.precision.any()]
    if not bumps:
        raise UnsupportedModelError(
            f"this {type_name} has the kernel {kernel}, which has no RBF in it to expand in."
        )
    first = bumps[0].precision
    if any((term.precision != first).any() for term in bumps):
        raise UnsupportedModelError(
            f"this {type_name} has the kernel {kernel}, a sum of RBF kernels with different length "
            "scales, and an expansion has one gamma; fit one RBF, with a length scale per feature "
            "if need be."
        )
    amplitude = sum(term.amplitude for term in bumps)
    return Covariance(float(amplitude), first, float(constant), float(noise))


class _Reader:
    """Walks down a kernel; one branch a class of scikit-learn's."""

    def __init__(self, whole: Any, n_features: int, type_name: str) -> None:
        self.whole, self.n_features, self.type_name = whole, n_features, type_name

    def terms(self, kernel: Any) -> list[_Term]:
        name = type(kernel).__name__
        if not type(kernel).__module__.startswith("sklearn.gaussian_process"):
            raise self.refusal(f"{name} is not one of scikit-learn's own kernels")
        if name == "Sum":
            return self.terms(kernel.k1) + self.terms(kernel.k2)
        if name == "Product":
            return [a * b for a in self.terms(kernel.k1) for b in self.terms(kernel.k2)]
        if name == "Exponentiation":
            return [self.power(kernel)]
        if name == "ConstantKernel":
            return [_Term(float(kernel.constant_value), np.zeros(self.n_features))]
        if name == "WhiteKernel":
            return [_Term(float(kernel.noise_level), np.zeros(self.n_features), white=True)]
        if name == "RBF" or (name == "Matern" and kernel.nu == np.inf):
            scales = np.asarray(kernel.length_scale, dtype=np.float64)
            return [_Term(1.0, np.broadcast_to(scales**-2.0, (self.n_features,)).copy())]
        raise self.refusal(f"{name} is not exp(-|x - z|^2 / (2 l^2)) or a constant")

    def power(self, kernel: Any) -> _Term:
        inner = self.terms(kernel.kernel)
        if len(inner) != 1 or inner[0].white:
            raise self.refusal("a power of a sum is not a sum of RBF kernels of one length scale")
        p = float(kernel.exponent)
        return _Term(inner[0].amplitude ** p, p * inner[0].precision)

    def refusal(self, reason: str) -> UnsupportedModelError:
        return UnsupportedModelError(
            f"this {self.type_name} has the kernel {self.whole}, in which {reason}; served are RBF "
            "kernels, their products with each other and with ConstantKernel, and beside one of "
            "them ConstantKernel and WhiteKernel."
        )
