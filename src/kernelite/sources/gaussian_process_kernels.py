"""scikit-learn's Gaussian process kernels, reduced to RBF kernels and what can stand beside them.

    k(x, z) = sum_p a_p exp(-1/2 sum_j precision_pj (x_j - z_j)^2) + constant + noise [x is z]

In: a fitted kernel, a tree of sums, products and powers. Out: those four, or a refusal that names
what does not fit. Products of RBF kernels are RBF kernels, whose precisions add; a ConstantKernel
beside them becomes part of the intercept; a WhiteKernel only counts in the variance, since it is
zero between two different sets of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import product
from operator import mul
from typing import Any

import numpy as np

from kernelite.errors import UnsupportedModelError
from kernelite.machine.affine import AffineMap
from kernelite.machine.exactly import UNIT, nearest, nearest_all, relative_gap
from kernelite.rows.inputs import FloatArray

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
    exact_constant : Fraction
        What `constant` is the nearest double to,
    constant_error : float
        but for this much, where powers were rounded.
    exact_precisions : list of tuples of fractions
        What `precisions` are the nearest doubles to.
    units : float
        Relative roundings of each amplitude.
    """

    amplitudes: FloatArray
    precisions: FloatArray
    constant: float
    noise: float
    exact_constant: Fraction
    constant_error: float
    exact_precisions: list[tuple[Fraction, ...]]
    units: float

    @property
    def diagonal(self) -> float:
        """k(x, x)."""
        return float(self.amplitudes.sum()) + self.constant + self.noise

    def scalings(self) -> Iterator[Scaling]:
        """For each kernel a map of the inputs and gamma; no map where its length scales agree."""
        for precision in self.exact_precisions:
            if all(p == precision[0] for p in precision):
                meant = precision[0] / 2
                yield Scaling(None, nearest(meant), relative_gap(nearest(meant), meant))
                continue
            scale = np.sqrt(nearest_all(precision))
            # Rows and centers are multiplied alike, so that an error of the scale is one of their
            # squared distance.
            gaps = (_squared_gap(s, p) for s, p in zip(scale, precision))
            yield Scaling(AffineMap(scale, np.zeros(len(scale))), 0.5, max(gaps))


@dataclass(frozen=True, eq=False)
class Scaling:
    """exp(-gamma |x - z|^2) in the coordinates that `input_map` takes rows to.

    Parameters
    ----------
    input_map : AffineMap, optional
    gamma : float
    error : float
        Relative, of gamma |x - z|^2 by what was rounded in the two.
    """

    input_map: AffineMap | None
    gamma: float
    error: float


def _squared_gap(scale: float, precision: Fraction) -> float:
    if not math.isfinite(scale):
        return math.inf
    gap = abs(Fraction(scale) ** 2 - precision)
    return nearest(gap / precision) * (1.0 + 1e-9) if gap else 0.0


@dataclass(frozen=True, eq=False)
class _Term:
    """amplitude exp(-1/2 sum_j precision_j (x_j - z_j)^2); if white, of a row with itself only.

    `units` are the roundings of the amplitude: only powers that are not whole have some.
    """

    amplitude: Fraction
    precision: tuple[Fraction, ...]
    white: bool = False
    units: float = 0.0

    @property
    def error(self) -> Fraction:
        """Of the amplitude, in units of 2^-53."""
        return abs(self.amplitude) * Fraction(self.units)

    def __mul__(self, other: _Term) -> _Term:
        return _Term(
            self.amplitude * other.amplitude,
            tuple(a + b for a, b in zip(self.precision, other.precision)),
            self.white or other.white,
            self.units + other.units,
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
    noise = sum((term.amplitude for term in terms if term.white), Fraction(0))
    plain = [term for term in terms if not term.white]
    constant = sum((term.amplitude for term in plain if not any(term.precision)), Fraction(0))
    rounded = sum((term.error for term in plain if not any(term.precision)), Fraction(0))
    bumps: dict[tuple[Fraction, ...], Fraction] = {}
    errors: dict[tuple[Fraction, ...], Fraction] = {}
    for term in plain:
        key = term.precision
        if any(key):
            bumps[key] = bumps.get(key, Fraction(0)) + term.amplitude
            errors[key] = errors.get(key, Fraction(0)) + term.error
    if not bumps:
        raise UnsupportedModelError(
            f"this {type_name} has the kernel {kernel}, which has no RBF in it to expand in."
        )
    # One that is multiplied by zero need not be evaluated, but one has to stay.
    kept = [key for key in bumps if bumps[key]] or list(bumps)[:1]
    return Covariance(
        nearest_all(bumps[key] for key in kept),
        np.stack([nearest_all(key) for key in kept]),
        nearest(constant),
        nearest(noise),
        constant,
        nearest(rounded) * UNIT,
        kept,
        1.0 + max(nearest(errors[key] / abs(bumps[key])) if bumps[key] else 0.0 for key in kept),
    )


class _Reader:
    """Walks down a kernel; one branch a class of scikit-learn's."""

    def __init__(self, whole: Any, n_features: int, type_name: str) -> None:
        self.whole, self.n_features, self.type_name = whole, n_features, type_name
        self.flat = (Fraction(0),) * n_features

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
            return [_Term(_exactly(kernel.constant_value), self.flat)]
        if name == "WhiteKernel":
            return [_Term(_exactly(kernel.noise_level), self.flat, white=True)]
        if name == "RBF" or (name == "Matern" and kernel.nu == np.inf):
            scales = np.asarray(kernel.length_scale, dtype=np.float64)
            scales = np.broadcast_to(scales, (self.n_features,))
            if not (scales > 0).all():
                raise self.refusal("a length scale is not positive")
            return [_Term(Fraction(1), tuple(_precision(scale) for scale in scales.tolist()))]
        raise self.refusal(f"{name} is not exp(-|x - z|^2 / (2 l^2)) or a constant")

    def power(self, kernel: Any) -> list[_Term]:
        inner, p = self.terms(kernel.kernel), float(kernel.exponent)
        if len(inner) == 1 and 0 < p < np.inf:
            return [self.single_power(inner[0], p)]
        if p not in range(1, MOST_FACTORS + 1):
            raise self.refusal(
                f"the power {p:g} is none that is written out: positive ones of a single kernel, "
                f"and of sums those from 1 to {MOST_FACTORS}"
            )
        return [reduce(mul, factors) for factors in product(inner, repeat=int(p))]

    def single_power(self, term: _Term, p: float) -> _Term:
        precision, units = tuple(Fraction(p) * q for q in term.precision), p * term.units
        if term.amplitude in (0, 1):
            return _Term(term.amplitude, precision, term.white, units)
        if p in range(1, MOST_FACTORS + 1):
            return _Term(term.amplitude ** int(p), precision, term.white, units)
        # The base is rounded, which counts p times, and the power.
        with np.errstate(over="ignore", invalid="ignore"):
            amplitude = float(np.power(nearest(term.amplitude), p))
        if not math.isfinite(amplitude):
            raise self.refusal(f"the power {p:g} of a constant is no number")
        return _Term(Fraction(amplitude), precision, term.white, units + p + 4.0)

    def refusal(self, reason: str) -> UnsupportedModelError:
        return UnsupportedModelError(
            f"this {self.type_name} has the kernel {self.whole}, in which {reason}; served are RBF "
            "kernels, their products with each other and with ConstantKernel, sums of these, and "
            "beside them ConstantKernel and WhiteKernel."
        )


def _exactly(number: Any) -> Fraction:
    return Fraction(float(number))


def _precision(length_scale: float) -> Fraction:
    """1 / l^2; zero where l is infinite."""
    return 1 / Fraction(length_scale) ** 2 if math.isfinite(length_scale) else Fraction(0)
