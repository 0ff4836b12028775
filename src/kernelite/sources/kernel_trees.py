"""scikit-learn's kernel algebra with any of its kernels: a tree becomes a sum of products.

    k(x, z) = sum_p a_p prod_q k_pq(x, z) + constant + noise [x is z]

In: a fitted kernel. Out: a `KernelTree`, or a refusal that names what does not fit. Trees of RBF
kernels alone have a form, and are read by `gaussian_process_kernels` instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from itertools import product
from operator import mul
from typing import Any

import numpy as np

from kernelite.errors import InputError, UnsupportedModelError
from kernelite.machine.exactly import UNIT, nearest
from kernelite.machine.kernels import (
    CosineKernel,
    ExpSineSquared,
    Kernel,
    Laplacian,
    Matern,
    PolynomialKernel,
    ProductKernel,
    RationalQuadratic,
    Rbf,
    SigmoidKernel,
    SumKernel,
)

__all__ = ["KernelTree", "kernel_tree", "of_rbf_alone"]

MOST_FACTORS = 8  # of a kernel or sum that is raised to a power
MOST_TERMS = 64
_INNER = ("Sum", "Product", "Exponentiation", "ConstantKernel", "WhiteKernel", "RBF")


@dataclass(frozen=True, eq=False)
class KernelTree:
    """sum_p amplitude_p kernel_p + constant + noise [x is z].

    Parameters
    ----------
    amplitudes : tuple of float
    kernels : tuple of Kernel
    exact_constant : Fraction
    constant_error : float
        Of `exact_constant`, where powers were rounded.
    noise : float
    units : float
        Relative roundings of each amplitude.
    """

    amplitudes: tuple[float, ...]
    kernels: tuple[Kernel, ...]
    exact_constant: Fraction
    constant_error: float
    noise: float
    units: float

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel without constant and noise; one alone without its amplitude."""
        if len(self.kernels) == 1:
            return self.kernels[0]
        return SumKernel(self.amplitudes, self.kernels, self.units)

    @property
    def amplitude(self) -> float:
        """What stands before `kernel`."""
        return self.amplitudes[0] if len(self.kernels) == 1 else 1.0

    @property
    def constant(self) -> float:
        """As a double."""
        return nearest(self.exact_constant)

    @property
    def diagonal(self) -> float:
        """k(z, z), as far as it is the same for all rows."""
        fixed = self.constant + self.noise
        if not self.kernel.shifts:
            return fixed
        return fixed + self.amplitude * float(self.kernel.diagonal(np.zeros((1, 1)))[0])


@dataclass(frozen=True)
class _Term:
    """amplitude times kernels; if white, of a row with itself only."""

    amplitude: Fraction
    kernels: tuple[Kernel, ...] = ()
    white: bool = False
    units: float = 0.0

    def __mul__(self, other: _Term) -> _Term:
        return _Term(
            self.amplitude * other.amplitude,
            self.kernels + other.kernels,
            self.white or other.white,
            self.units + other.units,
        )


def of_rbf_alone(kernel: Any) -> bool:
    """Whether a tree holds RBF kernels, constants and noise only.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF, Matern
    >>> of_rbf_alone(2.0 * RBF(1.0)), of_rbf_alone(RBF(1.0) + Matern(1.0))
    (True, False)
    """
    name = type(kernel).__name__
    if name in ("Sum", "Product"):
        return of_rbf_alone(kernel.k1) and of_rbf_alone(kernel.k2)
    if name == "Exponentiation":
        return of_rbf_alone(kernel.kernel)
    return name in _INNER or (name == "Matern" and kernel.nu == np.inf)


def kernel_tree(kernel: Any, n_features: int, type_name: str) -> KernelTree:
    """Write a kernel of scikit-learn's Gaussian processes as a sum of products.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    n_features : int
    type_name : str
        What messages call the model.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
    >>> tree = kernel_tree(ConstantKernel(4.0) * Matern(0.5) + WhiteKernel(0.1), 1, "model")
    >>> tree.amplitude, tree.kernel.label, tree.diagonal
    (4.0, 'Matern 3/2, length scale 0.5', 4.1)
    """
    reader = _Reader(kernel, n_features, type_name)
    terms = reader.terms(kernel)
    if len(terms) > MOST_TERMS:
        raise reader.refusal(f"there are {len(terms)} products of kernels, more than {MOST_TERMS}")
    noise, constant, rounded = Fraction(0), Fraction(0), Fraction(0)
    found: dict[tuple[Kernel, ...], _Term] = {}
    for term in terms:
        if term.white:
            if not all(one.shifts for one in term.kernels):
                raise reader.refusal("white noise is multiplied with a kernel that varies")
            noise += term.amplitude  # the kernels beside it are 1 of a row with itself
        elif not term.kernels:
            constant += term.amplitude
            rounded += abs(term.amplitude) * Fraction(term.units)
        else:
            seen = found.get(term.kernels, _Term(Fraction(0)))
            units = max(seen.units, term.units)
            found[term.kernels] = _Term(seen.amplitude + term.amplitude, term.kernels, units=units)
    if not found:
        raise UnsupportedModelError(
            f"this {type_name} has the kernel {kernel}, which has no RBF in it to expand in."
        )
    kept = [term for term in found.values() if term.amplitude] or list(found.values())[:1]
    return KernelTree(
        tuple(nearest(term.amplitude) for term in kept),
        tuple(t.kernels[0] if len(t.kernels) == 1 else ProductKernel(t.kernels) for t in kept),
        constant,
        nearest(rounded) * UNIT,
        nearest(noise),
        1.0 + max(term.units for term in kept),
    )


class _Reader:
    """Walks down a kernel; one branch per class of scikit-learn's."""

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
            return self.power(kernel)
        if name == "ConstantKernel":
            return [_Term(Fraction(float(kernel.constant_value)))]
        if name == "WhiteKernel":
            return [_Term(Fraction(float(kernel.noise_level)), white=True)]
        try:
            return [_Term(Fraction(1), (self.leaf(kernel, name),), units=2.0)]
        except InputError as error:
            raise self.refusal(f"{name} has parameters that are not served ({error})") from None

    def leaf(self, kernel: Any, name: str) -> Kernel:
        if name == "RBF" or (name == "Matern" and kernel.nu == np.inf):
            return Rbf(self.scales(kernel))
        if name == "Matern":
            return Matern(self.scales(kernel), float(kernel.nu))
        if name == "RationalQuadratic":
            return RationalQuadratic((float(kernel.length_scale),), float(kernel.alpha))
        if name == "ExpSineSquared":
            return ExpSineSquared(float(kernel.length_scale), float(kernel.periodicity))
        if name == "DotProduct":  # its square is rounded, which `units` counts
            return PolynomialKernel(1, 1.0, float(kernel.sigma_0) ** 2)
        if name == "PairwiseKernel":
            return self.pairwise(kernel)
        raise self.refusal(f"{name} is not served")

    def pairwise(self, kernel: Any) -> Kernel:
        """A kernel by the name that `sklearn.metrics.pairwise` has for it."""
        metric, gamma = kernel.metric, float(kernel.gamma)
        given = kernel.pairwise_kernels_kwargs or {}
        coef0 = float(given.get("coef0", 1.0))
        found: dict[Any, Callable[[], Kernel]] = {
            "linear": lambda: PolynomialKernel(1),
            "cosine": CosineKernel,
            "laplacian": lambda: Laplacian(gamma),
            "sigmoid": lambda: SigmoidKernel(gamma, coef0),
            "poly": lambda: PolynomialKernel(int(given.get("degree", 3)), gamma, coef0),
            "rbf": lambda: Rbf((1.0 / math.sqrt(2.0 * gamma),)),  # off by 2 u, of 2 units
        }
        found["polynomial"] = found["poly"]
        if not isinstance(metric, str) or metric not in found:
            raise self.refusal(f"PairwiseKernel with metric {metric!r} is not served")
        return found[metric]()

    def scales(self, kernel: Any) -> tuple[float, ...]:
        scales = np.asarray(kernel.length_scale, dtype=np.float64).reshape(-1)
        return tuple(float(scale) for scale in scales)

    def power(self, kernel: Any) -> list[_Term]:
        inner, p = self.terms(kernel.kernel), float(kernel.exponent)
        if len(inner) == 1 and (found := self.single_power(inner[0], p)) is not None:
            return [found]
        if p not in range(1, MOST_FACTORS + 1) or len(inner) ** p > MOST_TERMS:
            raise self.refusal(f"the power {p:g} is none that is written out as products")
        return [reduce(mul, factors) for factors in product(inner, repeat=int(p))]

    def single_power(self, term: _Term, p: float) -> _Term | None:
        """A power that stays one kernel; None where there is none."""
        if len(term.kernels) > 1 or not 0 < p < math.inf:
            return None
        kernel = term.kernels[0] if term.kernels else None
        if (
            isinstance(kernel, PolynomialKernel)
            and kernel.degree == 1
            and p.is_integer()
            and p <= 100
        ):
            kernel = PolynomialKernel(int(p), kernel.gamma, kernel.coef0)
        elif isinstance(kernel, Rbf | RationalQuadratic | Matern | ExpSineSquared):
            return None
        amplitude, units = term.amplitude, p * (term.units + 2.0)
        if amplitude not in (0, 1) and not (p.is_integer() and p <= MOST_FACTORS):
            with np.errstate(over="ignore", invalid="ignore"):
                power = float(np.power(nearest(amplitude), p))
            if not math.isfinite(power):
                raise self.refusal(f"the power {p:g} of a constant is no number")
            amplitude, units = Fraction(power), units + p + 4.0
        elif amplitude not in (0, 1):
            amplitude = amplitude ** int(p)
        return _Term(amplitude, () if kernel is None else (kernel,), term.white, units)

    def refusal(self, reason: str) -> UnsupportedModelError:
        return UnsupportedModelError(
            f"this {self.type_name} has the kernel {self.whole}, in which {reason}; served are "
            "RBF, Matern, RationalQuadratic, ExpSineSquared, DotProduct, ConstantKernel and "
            "WhiteKernel, their sums, products and whole powers."
        )
