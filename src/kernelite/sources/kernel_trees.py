"""scikit-learn's kernel algebra: a tree of sums, products and powers becomes a sum of products.

    k(x, z) = sum_p a_p prod_q k_pq(x, z) + constant + noise [x is z]

In: a fitted kernel. Out: a `KernelTree`, or a refusal that names what does not fit. Products and
powers of RBF kernels are RBF kernels, whose precisions 1 / l^2 add; where there are no others, the
sum is one of RBF kernels, each with a form of its own. A ConstantKernel beside them becomes part of
the intercept; a WhiteKernel only counts in the variance, since it is zero between two different
sets of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from itertools import product
from operator import mul
from typing import Any, TypeAlias

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.affine import AffineMap
from kernelite.machine.exactly import UNIT, fraction, nearest, nearest_all, relative_gap
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
from kernelite.support.errors import InputError, UnsupportedModelError

__all__ = ["KernelTree", "is_kernel", "kernel_tree"]

MOST_FACTORS = 8  # of a kernel or sum that is raised to a power
MOST_TERMS = 64
LEAF_UNITS = 2.0  # roundings of a kernel's own parameters
Scales: TypeAlias = "tuple[float, ...]"
Precision: TypeAlias = "tuple[Fraction, ...]"


@dataclass(frozen=True, eq=False)
class KernelTree:
    """sum_p amplitude_p kernel_p + constant + noise [x is z].

    Parameters
    ----------
    amplitudes : tuple of float
    kernels : tuple of Kernel
        Empty where all of them are RBF kernels that are summed one by one:
    precisions : tuple of tuples of fractions
        then 1 / length_scale^2 of each, one per feature; no two are equal.
    exact_constant : Fraction
    constant_error : float
        Of `exact_constant`, where powers were rounded.
    noise : float
    units : float
        Relative roundings of each amplitude.
    """

    amplitudes: tuple[float, ...]
    kernels: tuple[Kernel, ...]
    precisions: tuple[Precision, ...]
    exact_constant: Fraction
    constant_error: float
    noise: float
    units: float

    @cached_property
    def kernel(self) -> Kernel:
        """All of `kernels` as one, without constant and noise; one alone without its amplitude."""
        if len(self.kernels) == 1:
            return self.kernels[0]
        return SumKernel(self.amplitudes, self.kernels, self.units)

    @property
    def amplitude(self) -> float | FloatArray:
        """What stands before `kernel`, or before each RBF kernel where there are several."""
        if len(self.amplitudes) == 1:
            return self.amplitudes[0]
        return 1.0 if self.kernels else np.array(self.amplitudes)

    @property
    def constant(self) -> float:
        """The constant as a double."""
        return nearest(self.exact_constant)

    @property
    def diagonal(self) -> float:
        """k(z, z), as far as it is the same for all rows."""
        if not self.kernels:
            return float(np.sum(self.amplitudes)) + self.constant + self.noise
        fixed = self.constant + self.noise
        if not self.kernel.shifts:
            return fixed
        return fixed + float(self.amplitude * self.kernel.diagonal(np.zeros((1, 1)))[0])

    def scalings(self) -> Iterator[Scaling]:
        """For each RBF kernel a map of the inputs and gamma; no map if its length scales agree."""
        for precision in self.precisions:
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


@dataclass(frozen=True)
class _Term:
    """amplitude times kernels; if white, of a row with itself only.

    Parameters
    ----------
    amplitude : Fraction
    factors : tuple of Kernel or length scales
        Length scales stand for an RBF kernel.
    precision : tuple of fractions, optional
        Of the product, where all factors are RBF kernels.
    white : bool
    units : float
        Relative roundings of the amplitude.
    """

    amplitude: Fraction
    factors: tuple[Kernel | Scales, ...] = ()
    precision: Precision | None = None
    white: bool = False
    units: float = 0.0

    def __mul__(self, other: _Term) -> _Term:
        precision = None
        if self.precision is not None and other.precision is not None:
            precision = tuple(a + b for a, b in zip(self.precision, other.precision))
        return _Term(
            self.amplitude * other.amplitude,
            self.factors + other.factors,
            precision,
            self.white or other.white,
            self.units + other.units,
        )

    @property
    def constant(self) -> bool:
        """Whether there is no kernel in it, but for those of infinite length scales."""
        return self.precision is not None and not any(self.precision)

    @property
    def scales(self) -> list[Scales]:
        """Length scales of its RBF kernels."""
        return [factor for factor in self.factors if isinstance(factor, tuple)]


def is_kernel(candidate: Any) -> bool:
    """Whether this is a kernel of scikit-learn's Gaussian processes, which other models take too.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> is_kernel(RBF(2.0)), is_kernel("rbf")
    (True, False)
    """
    return type(candidate).__module__.startswith("sklearn.gaussian_process")


def kernel_tree(kernel: Any, n_features: int, type_name: str, *, whole: bool = False) -> KernelTree:
    """Write a kernel of scikit-learn's Gaussian processes as a sum of products.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    n_features : int
    type_name : str
        What messages call the model.
    whole : bool
        A sum of several RBF kernels as one kernel, not one by one.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
    >>> tree = kernel_tree(ConstantKernel(4.0) * Matern(0.5) + WhiteKernel(0.1), 1, "model")
    >>> tree.amplitude, tree.kernel.label, tree.diagonal
    (4.0, 'Matern 3/2, length scale 0.5', 4.1)
    >>> kernel_tree(RBF(1.0) + 3.0 * RBF(0.5) + RBF(1.0), 1, "model").amplitude
    array([2., 3.])
    """
    reader = _Reader(kernel, n_features, type_name)
    terms = reader.terms(kernel)
    plain = [term for term in terms if not (term.white or term.constant)]
    if not plain:
        raise UnsupportedModelError(
            f"this {type_name} has the kernel {kernel}, which has no RBF in it to expand in."
        )
    constants = [term for term in terms if term.constant and not term.white]
    fixed = (
        sum((term.amplitude for term in constants), Fraction(0)),
        nearest(sum((_error(term) for term in constants), Fraction(0))) * UNIT,
        nearest(reader.noise(terms)),
    )
    if all(term.precision is not None for term in terms):
        amplitudes, units, precisions = _merged(plain, lambda term: term.precision)
        if len(precisions) == 1 or not whole:
            return KernelTree(amplitudes, (), precisions, *fixed, units)
    # Length scales of an RBF kernel may be rounded, as other kernels' parameters may.
    plain = [replace(t, units=t.units + LEAF_UNITS * len(t.scales)) for t in plain]
    amplitudes, units, products = _merged(plain, lambda term: term.factors)
    if len(products) > MOST_TERMS:
        raise reader.refusal(f"{len(products)} products of kernels are more than {MOST_TERMS}")
    return KernelTree(amplitudes, tuple(map(reader.product, products)), (), *fixed, units)


def _merged(
    terms: list[_Term], key: Callable[[_Term], Any]
) -> tuple[tuple[float, ...], float, tuple[Any, ...]]:
    """Amplitudes of terms that differ in their key, relative roundings of each, and the keys."""
    amplitudes: dict[Any, Fraction] = {}
    errors: dict[Any, Fraction] = {}
    for term in terms:
        amplitudes[key(term)] = amplitudes.get(key(term), Fraction(0)) + term.amplitude
        errors[key(term)] = errors.get(key(term), Fraction(0)) + _error(term)
    # One that is multiplied by zero need not be evaluated, but one has to stay.
    kept = [one for one in amplitudes if amplitudes[one]] or list(amplitudes)[:1]
    shares = [nearest(errors[k] / abs(amplitudes[k])) if amplitudes[k] else 0.0 for k in kept]
    return tuple(nearest(amplitudes[one]) for one in kept), 1.0 + max(shares), tuple(kept)


def _error(term: _Term) -> Fraction:
    """How far an amplitude may be off, in units of 2^-53."""
    return abs(term.amplitude) * Fraction(term.units)


class _Reader:
    """Walks down a kernel; one branch per class of scikit-learn's."""

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
            return [_Term(fraction(kernel.constant_value, "constant_value"), (), self.flat)]
        if name == "WhiteKernel":
            return [_Term(fraction(kernel.noise_level, "noise_level"), (), self.flat, white=True)]
        if name == "RBF" or (name == "Matern" and kernel.nu == np.inf):
            return [self.rbf(kernel)]
        try:
            return [_Term(Fraction(1), (self.leaf(kernel, name),), units=LEAF_UNITS)]
        except InputError as error:
            raise self.refusal(f"{name} has parameters that are not served ({error})") from None

    def rbf(self, kernel: Any) -> _Term:
        scales = np.ravel(np.asarray(kernel.length_scale, dtype=np.float64))
        if not (scales > 0).all():
            raise self.refusal("a length scale is not positive")
        each = np.broadcast_to(scales, (self.n_features,)).tolist()
        precision = tuple(
            1 / Fraction(scale) ** 2 if math.isfinite(scale) else Fraction(0) for scale in each
        )
        return _Term(Fraction(1), (tuple(scales.tolist()),), precision)

    def leaf(self, kernel: Any, name: str) -> Kernel:
        if name == "Matern":
            return Matern(tuple(np.ravel(kernel.length_scale).astype(float)), float(kernel.nu))
        if name == "RationalQuadratic":
            return RationalQuadratic((float(kernel.length_scale),), float(kernel.alpha))
        if name == "ExpSineSquared":
            return ExpSineSquared(float(kernel.length_scale), float(kernel.periodicity))
        if name == "DotProduct":  # its square is rounded, which `units` counts
            return PolynomialKernel(1, 1.0, float(kernel.sigma_0) * float(kernel.sigma_0))
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

    def power(self, kernel: Any) -> list[_Term]:
        inner, p = self.terms(kernel.kernel), float(kernel.exponent)
        if len(inner) == 1 and (found := self.single_power(inner[0], p)) is not None:
            return [found]
        if p not in range(1, MOST_FACTORS + 1) or len(inner) ** p > MOST_TERMS:
            raise self.refusal(f"the power {p:g} is none that is written out as products")
        return [reduce(mul, factors) for factors in product(inner, repeat=int(p))]

    def single_power(self, term: _Term, p: float) -> _Term | None:
        """A power that stays one kernel; None where there is none."""
        if not 0 < p < math.inf:
            return None
        factors, precision = term.factors, term.precision
        if precision is not None:
            precision = tuple(Fraction(p) * q for q in precision)
            scales = tuple(1.0 / math.sqrt(q) if q else math.inf for q in nearest_all(precision))
            factors = (scales,) if factors else ()
        else:
            base = factors[0]
            linear = None if isinstance(base, tuple) or base.unit_rows else base.polynomial
            if linear is None or linear.degree != 1 or len(factors) > 1:
                return None
            if not (p.is_integer() and p <= 100):
                return None
            factors = (PolynomialKernel(int(p), linear.gamma, linear.coef0),)
        amplitude, units = term.amplitude, p * term.units
        if amplitude not in (0, 1) and p in range(1, MOST_FACTORS + 1):
            amplitude = amplitude ** int(p)
        elif amplitude not in (0, 1):
            # The base is rounded, which counts p times, and the power.
            with np.errstate(over="ignore", invalid="ignore"):
                power = float(np.power(nearest(amplitude), p))
            if not math.isfinite(power):
                raise self.refusal(f"the power {p:g} of a constant is no number")
            amplitude, units = Fraction(power), units + p + 4.0
        return _Term(amplitude, factors, precision, term.white, units)

    def noise(self, terms: list[_Term]) -> Fraction:
        """All white noise together; the kernels beside it are 1 of a row with itself."""
        white = [term for term in terms if term.white]
        for factor in (factor for term in white for factor in term.factors):
            if not (isinstance(factor, tuple) or factor.shifts):
                raise self.refusal("white noise is multiplied with a kernel that varies")
        return sum((term.amplitude for term in white), Fraction(0))

    def product(self, factors: tuple[Kernel | Scales, ...]) -> Kernel:
        try:
            kernels = tuple(Rbf(one) if isinstance(one, tuple) else one for one in factors)
        except InputError as error:
            raise self.refusal(f"RBF has parameters that are not served ({error})") from None
        return kernels[0] if len(kernels) == 1 else ProductKernel(kernels)

    def refusal(self, reason: str) -> UnsupportedModelError:
        return UnsupportedModelError(
            f"this {self.type_name} has the kernel {self.whole}, in which {reason}; served are "
            "RBF, Matern, RationalQuadratic, ExpSineSquared, DotProduct, ConstantKernel and "
            "WhiteKernel, their sums, products and whole powers."
        )
