"""What readers of scikit-learn estimators share: is it fitted, which kernel, what comes out.

In: an estimator whose kernel is named by `kernel`, `gamma`, `degree` and `coef0`. Out: the kernel
in an expansion's terms, or a refusal that says why; and the `Machine` of an expansion and a head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from kernelite.errors import UnsupportedModelError
from kernelite.machine.exactly import relative_gap
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import Head
from kernelite.machine.kernels import (
    CosineKernel,
    Kernel,
    Laplacian,
    PolynomialKernel,
    SigmoidKernel,
)
from kernelite.machine.machine import Machine, describe

__all__ = [
    "NamedKernel",
    "feature_names",
    "named_kernel",
    "other_kernel",
    "polynomial",
    "require_fitted",
    "sklearn_source",
]

ACCEPTED = "'linear', 'poly', 'rbf', 'sigmoid', 'laplacian' or 'cosine'"


@dataclass(frozen=True)
class NamedKernel:
    """The kernel fields of a `KernelExpansion`."""

    kernel: Literal["rbf", "poly2"] | Kernel
    gamma: float = math.nan
    coef0: float = 0.0
    gamma_error: float = 0.0
    """Relative, where gamma is the default, 1 / d."""

    def expansion(self, centers: Any, coefficients: Any, intercept: Any) -> KernelExpansion:
        """The expansion with this kernel."""
        fields: dict[str, Any] = {"kernel": self.kernel, "gamma": self.gamma, "coef0": self.coef0}
        made = KernelExpansion(centers, coefficients, intercept, **fields)
        return made if not self.gamma_error else made.rounded(gamma=self.gamma_error)


def require_fitted(model: Any, attribute: str, type_name: str) -> None:
    """Refuse an estimator that lacks what `fit` leaves behind."""
    if not hasattr(model, attribute):
        raise UnsupportedModelError(f"this {type_name} is not fitted; call `fit` first.")


def named_kernel(model: Any, type_name: str, n_features: int) -> NamedKernel:
    """The kernel of an estimator that names it, with scikit-learn's defaults filled in.

    Parameters
    ----------
    model : estimator
        With `kernel`, `gamma`, `degree` and `coef0`; None stands for the default of
        `sklearn.metrics.pairwise`: 1 / d, 3 and 1.
    type_name : str
        What messages call it.
    n_features : int

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> named_kernel(SimpleNamespace(kernel="rbf", gamma=None), "model", 4).gamma
    0.25
    >>> named_kernel(SimpleNamespace(kernel="linear", gamma=None), "model", 4).kernel.label
    'linear'
    """
    name = model.kernel
    if not isinstance(name, str):
        raise other_kernel(model, type_name)
    if name == "linear":
        return NamedKernel(PolynomialKernel(1))
    if name == "cosine":
        return NamedKernel(CosineKernel())
    gamma = getattr(model, "gamma_", model.gamma)
    error = relative_gap(1.0 / n_features, Fraction(1, n_features)) if gamma is None else 0.0
    gamma = 1.0 / n_features if gamma is None else float(gamma)
    if name == "rbf":
        return NamedKernel("rbf", gamma, gamma_error=error)
    if name == "laplacian":
        return NamedKernel(Laplacian(gamma), gamma_error=error)
    if name not in ("poly", "polynomial", "sigmoid"):
        raise other_kernel(model, type_name)
    coef0 = 1.0 if model.coef0 is None else float(model.coef0)
    if name == "sigmoid":
        return NamedKernel(SigmoidKernel(gamma, coef0), gamma_error=error)
    degree = 3 if model.degree is None else model.degree
    return polynomial(degree, gamma, coef0, type_name, error)


def polynomial(
    degree: float, gamma: float, coef0: float, type_name: str, error: float = 0.0
) -> NamedKernel:
    """(gamma x.z + coef0)^degree; of degree 2 by the name that has a form.

    Examples
    --------
    >>> polynomial(2, 0.5, 1.0, "model").kernel, polynomial(3, 0.5, 1.0, "model").kernel.degree
    ('poly2', 3)
    """
    if degree == 2:
        return NamedKernel("poly2", gamma, coef0, error)
    if degree not in range(1, 101):
        raise UnsupportedModelError(
            f"this {type_name} has a polynomial kernel of degree {degree:g}; served are whole "
            "degrees from 1 to 100."
        )
    return NamedKernel(PolynomialKernel(int(degree), gamma, coef0), gamma_error=error)


def other_kernel(model: Any, type_name: str) -> UnsupportedModelError:
    """The refusal of an estimator with a kernel that is not served."""
    if callable(model.kernel):
        found = "a callable as kernel, whose values nothing is known about"
        cure = "fit it with a kernel that has a name"
    elif model.kernel == "precomputed":
        found = "kernel 'precomputed', so it holds no vectors to expand in"
        cure = "fit it on the rows themselves with a kernel that has a name"
    else:
        found, cure = f"kernel {model.kernel!r}", "fit it with another kernel"
    return UnsupportedModelError(f"this {type_name} has {found}; {cure}: {ACCEPTED}.")


def feature_names(model: Any) -> tuple[str, ...] | None:
    """Column names seen at fit time."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(str(name) for name in names)


def sklearn_source(
    model: Any, type_name: str, expansion: KernelExpansion, head: Head, **more: Any
) -> Machine:
    """The source of an estimator that is one expansion.

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
