"""What readers share: is a model fitted, which kernel, what comes out; coefficients folded.

In: an estimator whose kernel is named by `kernel`, `gamma`, `degree` and `coef0`. Out: the kernel
in an expansion's terms, or a refusal that says why; and the `Machine` of an expansion and a head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from kernelite.data.rows.inputs import FloatArray, is_sparse
from kernelite.machine.exactly import (
    accurate_product,
    fraction,
    gap,
    nearest,
    nearest_all,
    relative_gap,
    two_words,
)
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import Head
from kernelite.machine.heads.pairwise import pairs
from kernelite.machine.kernels import (
    AdditiveChiSquared,
    ChiSquared,
    CosineKernel,
    FunctionKernel,
    Gaussian,
    Kernel,
    Laplacian,
    PolynomialKernel,
    SigmoidKernel,
)
from kernelite.machine.machine import Machine, SumOfMachines, describe
from kernelite.machine.preparation import Preparation, Selection
from kernelite.support.errors import InputError, UnsupportedModelError

__all__ = [
    "NamedKernel",
    "feature_names",
    "fold_linear",
    "named_kernel",
    "numbers",
    "other_kernel",
    "pairwise_coefficients",
    "polynomial",
    "precomputed_machine",
    "require_fitted",
    "scaled_machine",
    "scaled_outputs",
    "sklearn_machine",
]

ACCEPTED = "'linear', 'poly', 'rbf', 'sigmoid', 'laplacian', 'cosine', 'chi2', 'additive_chi2'"


@dataclass(frozen=True)
class NamedKernel:
    """The kernel of a `KernelExpansion`, and how far its gamma is off."""

    kernel: Kernel
    gamma_error: float = 0.0
    """Relative, where gamma is no double, as the default 1 / d of most d is none."""

    @classmethod
    def gaussian(cls, meant: Fraction) -> NamedKernel:
        """exp(-meant |x - z|^2)."""
        gamma = nearest(meant)
        return cls(Gaussian(gamma), relative_gap(gamma, meant))

    def expansion(self, centers: Any, coefficients: Any, intercept: Any) -> KernelExpansion:
        """The expansion with this kernel."""
        made = KernelExpansion(centers, coefficients, intercept, kernel=self.kernel)
        return made if not self.gamma_error else made.rounded(gamma=self.gamma_error)


def require_fitted(model: Any, attribute: str, type_name: str) -> None:
    """Refuse an estimator that lacks what `fit` leaves behind."""
    if not hasattr(model, attribute):
        raise UnsupportedModelError(f"this {type_name} is not fitted; call `fit` first.")


def numbers(array: Any) -> FloatArray:
    """An estimator's array as doubles; some keep sparse ones."""
    return np.asarray(array.toarray() if is_sparse(array) else array, dtype=np.float64)


def named_kernel(model: Any, type_name: str, n_features: int) -> NamedKernel:
    """The kernel of an estimator that names it, with scikit-learn's defaults filled in.

    Parameters
    ----------
    model : estimator
        With `kernel`, `gamma`, `degree` and `coef0`; None stands for the default of
        `sklearn.metrics.pairwise`: 1 / d, 3 and 1. Some keep what gamma came to when they were
        fitted: SVMs as `_gamma`, others as `gamma_`.
    type_name : str
        What messages call it.
    n_features : int

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> named_kernel(SimpleNamespace(kernel="rbf", gamma=None), "model", 4).kernel.gamma
    0.25
    >>> named_kernel(SimpleNamespace(kernel="linear", gamma=None), "model", 4).kernel.label
    'linear'
    """
    name = model.kernel
    if callable(name) and not getattr(model, "kernel_params", None):
        return NamedKernel(FunctionKernel(name, of_pairs=True))
    if not isinstance(name, str):
        raise other_kernel(model, type_name)
    if name == "linear":
        return NamedKernel(PolynomialKernel(1))
    if name == "cosine":
        return NamedKernel(CosineKernel())
    if name == "additive_chi2":
        return NamedKernel(AdditiveChiSquared())
    gamma = getattr(model, "_gamma", getattr(model, "gamma_", model.gamma))
    if name == "chi2":  # whose own default is 1
        return NamedKernel(ChiSquared(1.0 if gamma is None else float(gamma)))
    error = relative_gap(1.0 / n_features, Fraction(1, n_features)) if gamma is None else 0.0
    gamma = 1.0 / n_features if gamma is None else float(gamma)
    if name == "rbf":
        return NamedKernel(Gaussian(gamma), error)
    if name == "laplacian":
        return NamedKernel(Laplacian(gamma), error)
    if name not in ("poly", "polynomial", "sigmoid"):
        raise other_kernel(model, type_name)
    coef0 = 1.0 if model.coef0 is None else float(model.coef0)
    if name == "sigmoid":
        return NamedKernel(SigmoidKernel(gamma, coef0), error)
    degree = 3 if model.degree is None else model.degree
    return polynomial(degree, gamma, coef0, type_name, error)


def polynomial(
    degree: float, gamma: float, coef0: float, type_name: str, error: float = 0.0
) -> NamedKernel:
    """(gamma x.z + coef0)^degree.

    Examples
    --------
    >>> polynomial(2, 0.5, 1.0, "model").kernel
    PolynomialKernel(degree=2, gamma=0.5, coef0=1.0)
    """
    if degree not in range(1, 101):
        raise UnsupportedModelError(
            f"this {type_name} has a polynomial kernel of degree {degree:g}; served are whole "
            "degrees from 1 to 100."
        )
    return NamedKernel(PolynomialKernel(int(degree), gamma, coef0), error)


def other_kernel(model: Any, type_name: str) -> UnsupportedModelError:
    """The refusal of an estimator with a kernel that is not served."""
    if callable(model.kernel):
        found = "a callable as kernel, with parameters or rows that are not served"
        cure = "fit it on dense rows, with a function that has no parameters, or with a name"
    elif model.kernel == "precomputed":
        found = "kernel 'precomputed', so it holds no vectors to expand in"
        cure = "fit it on the rows themselves with a kernel that has a name"
    else:
        found, cure = f"kernel {model.kernel!r}", "fit it with another kernel"
    return UnsupportedModelError(f"this {type_name} has {found}; {cure}: {ACCEPTED}.")


def precomputed_machine(
    model: Any,
    type_name: str,
    coefficients: FloatArray,
    intercept: Any,
    head: Head,
    columns: Any = None,
    *,
    rounded: Mapping[str, Any] | None = None,
) -> Machine:
    """The machine of an estimator whose rows are kernel values: linear in the columns it needs.

    Parameters
    ----------
    model : estimator
    type_name : str
    coefficients : ndarray of shape (n, k)
        One row a needed column.
    intercept : array of shape (k,)
    head : Head
    columns : int array of shape (n,), optional
        Training rows that the needed columns belong to; all of them by default.
    rounded : mapping, optional
        Arguments of `KernelExpansion.rounded`.
    """
    n, k = coefficients.shape
    expansion = KernelExpansion(coefficients.T, np.eye(k), intercept, kernel=PolynomialKernel(1))
    if rounded:
        expansion = expansion.rounded(**rounded)
    described = f"scikit-learn {type_name}, {n} support vectors, precomputed kernel"
    more: dict[str, Any] = {"feature_names": feature_names(model)}
    if columns is not None:
        chosen = Selection(np.asarray(columns), int(model.n_features_in_), either=True)
        more["preparation"] = Preparation.of(chosen)
    return Machine(expansion, head, described, "scikit-learn", type_name, **more)


def feature_names(model: Any) -> tuple[str, ...] | None:
    """Column names seen at fit time."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(str(name) for name in names)


def sklearn_machine(
    model: Any, type_name: str, expansion: KernelExpansion, head: Head, **more: Any
) -> Machine:
    """The machine of an estimator that is one expansion.

    Parameters
    ----------
    model : estimator
        Fitted; its column names are kept.
    type_name : str
    expansion : KernelExpansion
    head : Head
    more
        Further fields of the `Machine`.
    """
    description = describe(f"scikit-learn {type_name}", expansion)
    fields = {"feature_names": feature_names(model), **more}
    return Machine(expansion, head, description, "scikit-learn", type_name, **fields)


# Coefficients as readers need them: layers and scales folded in, pairs of classes unfolded.
#
#     W (f(z) - m) s + b                    y = scale f(z) + shift
#
# In: an expansion, and numbers that are known exactly. Out: an expansion whose `uncertainty` bounds
# how far its numbers are from the composition in real arithmetic.


def scaled_outputs(
    expansion: KernelExpansion, scales: Sequence[Fraction], shifts: Sequence[Any]
) -> KernelExpansion:
    """The expansion of scale f(z) + shift, output by output.

    Parameters
    ----------
    expansion : KernelExpansion
        With k outputs.
    scales, shifts : k fractions each

    Examples
    --------
    >>> bump = KernelExpansion([[0.0]], [2.0], [0.5], gamma=1.0)
    >>> scaled_outputs(bump, [Fraction(1, 2)], [Fraction(3)]).scores([[0.0]])
    array([[4.25]])
    """
    factors = nearest_all(scales)
    constants = [s * Fraction(b) + t for s, b, t in zip(scales, expansion.intercept, shifts)]
    intercept = nearest_all(constants)
    lost = list(map(gap, intercept, constants))
    coefficients = factors * expansion.coefficients
    units = 0.0 if all(map(_is_power_of_two, scales)) else 2.0  # the factor and the product
    made = replace(
        expansion,
        coefficients=coefficients,
        intercept=np.zeros_like(intercept),
        uncertainty=expansion.known.times(factors * (1.0 + 1e-9)),
    )
    return replace(made.rounded(units=units, intercept=lost), intercept=intercept)


def scaled_machine(
    expansion: KernelExpansion | SumOfMachines, scale: Sequence[Fraction], shift: Sequence[Fraction]
) -> KernelExpansion | SumOfMachines:
    """`scaled_outputs` of an expansion, or of a sum of machines, part by part."""
    if isinstance(expansion, SumOfMachines):
        parts, moved = [], set[int]()
        for part in expansion.parts:
            # The shift is added once, by the first part that reaches an output.
            outputs = [int(output) for output in part.outputs]
            own = [Fraction(0) if output in moved else shift[output] for output in outputs]
            moved |= set(outputs)
            inner = scaled_machine(
                part.machine.expansion, [scale[output] for output in outputs], own
            )
            parts.append(replace(part, machine=replace(part.machine, expansion=inner)))
        return replace(expansion, parts=tuple(parts))
    return scaled_outputs(expansion, scale, shift)


def fold_linear(
    expansion: KernelExpansion,
    weights: Any,
    intercept: Any = 0.0,
    between: Sequence[tuple[Fraction, Fraction]] | None = None,
) -> KernelExpansion:
    """The expansion of W f(z) + b: a linear model on the outputs of another expansion.

    Parameters
    ----------
    expansion : KernelExpansion
        With k outputs.
    weights : array-like of shape (q, k) or (k,)
        W; scikit-learn's `coef_`.
    intercept : array-like of shape (q,) or a number, of floats or fractions
        b; scikit-learn's `intercept_`.
    between : k pairs of fractions, optional
        s and c of scalers in between, which make s f + c of each output f.

    Examples
    --------
    >>> bump = KernelExpansion([[0.0]], [[2.0, 1.0]], [0.5, 0.0], gamma=1.0)
    >>> fold_linear(bump, [[1.0, 10.0]], 3.0).scores([[0.0]])
    array([[15.5]])
    """
    W = np.atleast_2d(np.asarray(weights, dtype=np.float64))
    k = expansion.n_outputs
    if W.ndim != 2 or W.shape[1] != k:
        raise InputError(
            f"`weights` must have {k} columns, one an output of the expansion, "
            f"got shape {np.shape(weights)}."
        )
    b = np.broadcast_to(np.asarray(intercept).reshape(-1), (len(W),))
    if not np.isfinite(W).all():
        raise UnsupportedModelError("weights of this model (`coef_`) are NaN or infinite.")
    scalers = [(Fraction(1), Fraction(0))] * k if between is None else between
    high, low = _products(W, [s for s, _ in scalers])
    left, right = expansion.coefficients, high.T
    if low.any():
        left, right = np.hstack([left, left]), np.hstack([high, low]).T
    coefficients, errors = accurate_product(left, right)
    after = [s * Fraction(c) + t for (s, t), c in zip(scalers, expansion.intercept)]
    constants = [
        fraction(start, "intercept_")
        + sum((Fraction(w) * c for w, c in zip(row, after) if c), Fraction(0))
        for row, start in zip(W, b)
    ]
    rounded = nearest_all(constants)
    lost = list(map(gap, rounded, constants))
    # What low itself lost is u of u of W s, and meets the coefficients once.
    sizes = np.abs(expansion.coefficients) @ (np.abs(high) * 2.0**-105).T
    made = replace(
        expansion,
        coefficients=coefficients,
        intercept=rounded,
        uncertainty=expansion.known.behind(high * (1.0 + 1e-9)),
    )
    return made.rounded(coefficients=(errors + sizes).sum(axis=0) * (1.0 + 1e-6), intercept=lost)


def _products(W: FloatArray, factors: list[Fraction]) -> tuple[FloatArray, FloatArray]:
    """W s as two words: one would lose digits that the sum over features may need."""
    if all(factor == 1 for factor in factors):
        return W, np.zeros_like(W)
    words = [[two_words(Fraction(w) * s) for w, s in zip(row, factors)] for row in W]
    high, low = np.moveaxis(np.array(words).reshape(*W.shape, 2), 2, 0)
    return high, low


def _is_power_of_two(value: Fraction) -> bool:
    parts = value.numerator, value.denominator
    return value > 0 and all(part & (part - 1) == 0 for part in parts)


# LIBSVM's coefficients of one-vs-one classifiers, unfolded into a column per pair.
#
# LIBSVM stores K - 1 coefficients per support vector, the vectors sorted by class. A vector of
# class i takes part only in the pairs (i, j), and column j (less one if j > i) is its coefficient
# there.

MAX_COEFFICIENT_BYTES = 2 * 2**30
"""Most memory that the unfolded coefficients may take: n K (K - 1) / 2 numbers, where the model
holds n (K - 1), so that a small file with very many classes could ask for all there is."""


def pairwise_coefficients(folded: FloatArray, counts: Sequence[int]) -> FloatArray:
    """Coefficients of shape (n, K (K - 1) / 2) from LIBSVM's (n, K - 1).

    Parameters
    ----------
    folded : ndarray of shape (n, K - 1)
        A row a support vector, rows sorted by class (the transpose of `dual_coef_`).
    counts : sequence of K ints
        Support vectors of each class; their sum is n.

    Returns
    -------
    ndarray of shape (n, K (K - 1) / 2)
        Columns in the order (0,1), (0,2), ..., zero where a vector takes no part.

    Examples
    --------
    >>> pairwise_coefficients(np.array([[1.0, 2.0], [-1.0, 3.0], [-2.0, -3.0]]), [1, 1, 1])
    array([[ 1.,  2.,  0.],
           [-1.,  0.,  3.],
           [ 0., -2., -3.]])
    """
    K = len(counts)
    n, columns = len(folded), K * (K - 1) // 2
    if 8 * n * columns > MAX_COEFFICIENT_BYTES:
        raise UnsupportedModelError(
            f"{K} classes make {columns} pairs, whose coefficients for {n} support vectors need "
            f"{8 * n * columns / 2**30:,.1f} GB, more than the {MAX_COEFFICIENT_BYTES >> 30} GB "
            "accepted."
        )
    unfolded = np.zeros((n, columns))
    ends = np.cumsum([0, *counts])
    for column, (i, j) in enumerate(pairs(K)):
        of_i, of_j = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
        unfolded[of_i, column] = folded[of_i, j - 1]
        unfolded[of_j, column] = folded[of_j, i]
    return unfolded
