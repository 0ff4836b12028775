"""scikit-learn's Gaussian process kernels, reduced to RBF kernels and what can stand beside them.

    k(x, z) = sum_p a_p exp(-1/2 sum_j precision_pj (x_j - z_j)^2) + constant + noise [x is z]

In: a fitted kernel, a tree of sums, products and powers. Out: those four, or a refusal that names
what does not fit. Products of RBF kernels are RBF kernels, whose precisions add; a ConstantKernel
beside them becomes part of the intercept; a WhiteKernel only counts in the variance, since it is
zero between two different sets of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import mul
from typing import Any

import numpy as np

from kernelite.affine import AffineMap
from kernelite.errors import UnsupportedModelError
from kernelite.inputs import FloatArray

__all__ = ["Covariance", "covariance", "is_kernel"]

MOST_FACTORS = 4  # of a sum that is raised to a power: all products of its terms are written out


@dataclass(frozen=True, eq=False)
class Covariance:
    """sum_p amplitude_p exp(-1/2 sum_j precision_pj (x_j - z_j)^2) + constant + noise [x is z].

    Parameters
    ----------
    amplitudes : ndarray of shape (p,)
        One for each RBF kernel; their length scales differ.
    precisions : ndarray of shape (p, d)
        1 / length_scale^2, a feature each.
    constant, noise : float
    """

    amplitudes: FloatArray
    precisions: FloatArray
    constant: float
    noise: float

    @property
    def diagonal(self) -> float:
        """k(x, x)."""
        return float(self.amplitudes.sum()) + self.constant + self.noise

    def scalings(self) -> Iterator[tuple[AffineMap | None, float]]:
        """For each kernel a map of the inputs and gamma; no map where its length scales agree."""
        for precision in self.precisions:
            first = float(precision[0])
            if (precision == first).all():
                yield None, 0.5 * first
            else:
                yield AffineMap(np.sqrt(precision), np.zeros(len(precision))), 0.5


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


def is_kernel(candidate: Any) -> bool:
    """Whether this is a kernel of scikit-learn's Gaussian processes, which other models take too.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> is_kernel(RBF(2.0)), is_kernel("rbf")
    (True, False)
    """
    return type(candidate).__module__.startswith("sklearn.gaussian_process")


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
    >>> found.amplitudes, found.precisions, found.noise, found.diagonal
    (array([4.]), array([[4.]]), 0.1, 4.1)
    >>> covariance(RBF(1.0) + 3.0 * RBF(0.5) + RBF(1.0), 1, "model").amplitudes
    array([2., 3.])
    """
    terms = _Reader(kernel, n_features, type_name).terms(kernel)
    noise = sum(term.amplitude for term in terms if term.white)
    plain = [term for term in terms if not term.white]
    constant = sum(term.amplitude for term in plain if not term.precision.any())
    bumps: dict[bytes, float] = {}
    for term in plain:
        if term.precision.any():
            key = term.precision.tobytes()
            bumps[key] = bumps.get(key, 0.0) + term.amplitude
    if not bumps:
        raise UnsupportedModelError(
            f"this {type_name} has the kernel {kernel}, which has no RBF in it to expand in."
        )
    # One that is multiplied by zero need not be evaluated, but one has to stay.
    kept = [key for key in bumps if bumps[key]] or list(bumps)[:1]
    amplitudes = np.array([bumps[key] for key in kept], dtype=np.float64)
    precisions = np.stack([np.frombuffer(key) for key in kept])
    return Covariance(amplitudes, precisions, float(constant), float(noise))


class _Reader:
    """Walks down a kernel; one branch a class of scikit-learn's."""

    def __init__(self, whole: Any, n_features: int, type_name: str) -> None:
        self.whole, self.n_features, self.type_name = whole, n_features, type_name

    def terms(self, kernel: Any) -> list[_Term]:
        name = type(kernel).__name__
        if not is_kernel(kernel):
            raise self.refusal(f"{name} is not one of scikit-learn's own kernels")
        if name == "Sum":
            return self.terms(kernel.k1) + self.terms(kernel.k2)
        if name == "Product":
            return [a * b for a in self.terms(kernel.k1) for b in self.terms(kernel.k2)]
        if name == "Exponentiation":
            return self.power(kernel)
        if name == "ConstantKernel":
            return [_Term(float(kernel.constant_value), np.zeros(self.n_features))]
        if name == "WhiteKernel":
            return [_Term(float(kernel.noise_level), np.zeros(self.n_features), white=True)]
        if name == "RBF" or (name == "Matern" and kernel.nu == np.inf):
            scales = np.asarray(kernel.length_scale, dtype=np.float64)
            return [_Term(1.0, np.broadcast_to(scales**-2.0, (self.n_features,)).copy())]
        raise self.refusal(f"{name} is not exp(-|x - z|^2 / (2 l^2)) or a constant")

    def power(self, kernel: Any) -> list[_Term]:
        inner, p = self.terms(kernel.kernel), float(kernel.exponent)
        if len(inner) == 1 and p > 0:
            return [_Term(inner[0].amplitude ** p, p * inner[0].precision, inner[0].white)]
        if p not in range(1, MOST_FACTORS + 1):
            raise self.refusal(
                f"the power {p:g} is none that is written out: positive ones of a single kernel, "
                f"and of sums those from 1 to {MOST_FACTORS}"
            )
        return [reduce(mul, factors) for factors in product(inner, repeat=int(p))]

    def refusal(self, reason: str) -> UnsupportedModelError:
        return UnsupportedModelError(
            f"this {self.type_name} has the kernel {self.whole}, in which {reason}; served are RBF "
            "kernels, their products with each other and with ConstantKernel, sums of these, and "
            "beside them ConstantKernel and WhiteKernel."
        )
