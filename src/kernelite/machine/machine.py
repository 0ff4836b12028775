"""What every reader returns: an expansion, its head, and where they came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernelite.errors import InputError, UnsupportedModelError
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.front import NO_STEPS, Preparation
from kernelite.machine.heads import Head
from kernelite.machine.parts import SumOfMachines
from kernelite.machine.polynomial_term import PolynomialTail
from kernelite.machine.variance import Posterior
from kernelite.rows.inputs import FloatArray, check_rows

__all__ = ["Machine", "describe"]


@dataclass(frozen=True, eq=False)
class Machine:
    """A fitted model in kernelite's terms.

    Parameters
    ----------
    expansion : KernelExpansion or SumOfMachines
        Centers, coefficients, intercept and kernel; or several such.
    head : Head
        What turns the expansion's scores into the source's own answers.
    description : str
        One line for people, e.g. "LIBSVM c_svc, 11877 support vectors, gamma 0.01".
    family : str
        "libsvm", "scikit-learn" or "arrays".
    type_name : str
        The model's type in its family's words: "c_svc", "SVC", ...
    feature_names : tuple of str, optional
        Column names seen at fit time.
    width_is_open : bool
        Whether rows may carry features beyond the model's width; they then count in |z|^2, as in
        LIBSVM, where every vector is zero in the features that it does not name.

    ignores_beyond : bool
        Whether such features are dropped instead (behind svm-scale).
    preparation : Preparation
        What rows go through before: steps of data, transformers kept as they are, and at last an
        affine map to the coordinates of the expansion (length scales, scalers).
    posterior : Posterior, optional
        Of a Gaussian process: what its variance is computed from.
    tail : PolynomialTail, optional
        A polynomial of the rows that is added to the scores.
    notes : tuple of str
        Sentences that a plan should say about what was read.

    Examples
    --------
    >>> from kernelite.machine.heads import RegressorHead
    >>> bump = KernelExpansion([[0.0, 0.0]], [2.0], 0.5, gamma=1.0)
    >>> Machine(bump, RegressorHead(), "a bump", "arrays", "KernelExpansion").expansion.n_features
    2
    """

    expansion: KernelExpansion | SumOfMachines
    head: Head
    description: str
    family: str
    type_name: str
    feature_names: tuple[str, ...] | None = None
    width_is_open: bool = False
    preparation: Preparation = NO_STEPS
    posterior: Posterior | None = None
    tail: PolynomialTail | None = None
    ignores_beyond: bool = False
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.head.n_scores != self.expansion.n_outputs:
            raise InputError(
                f"`head` expects {self.head.n_scores} scores a row, but `expansion` has "
                f"{self.expansion.n_outputs} outputs."
            )
        width, d = self.preparation.n_out, self.expansion.n_features
        if width is not None and width != d and not isinstance(self.expansion, SumOfMachines):
            raise InputError(f"`preparation` makes {width} features, but `expansion` has {d}.")

    @property
    def n_features(self) -> int:
        """The width of the rows that come in; an AttributeError where that is text."""
        if self.preparation.steps:
            return self.preparation.width
        if self.expansion.n_features is None:
            raise AttributeError("this model takes no rows of numbers")
        return self.expansion.n_features

    @property
    def single(self) -> KernelExpansion:
        """The expansion of a model that is one machine, or several merged into one."""
        if isinstance(self.expansion, SumOfMachines):
            raise UnsupportedModelError(
                f"this {self.type_name} is made of {len(self.expansion.parts)} machines whose "
                "kernels or inputs differ, so that it has no single expansion."
            )
        return self.expansion

    def scores(self, X: Any, /) -> FloatArray:
        """The expansion's outputs for rows as they come, evaluated exactly; shape (m, k).

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
        """
        before, input_map = self.preparation.before_map, self.preparation.input_map
        if before.steps:
            X = before(X, self.feature_names)
        elif not isinstance(self.expansion, SumOfMachines):
            X = check_rows(X, n_features=self.n_features, feature_names=self.feature_names)
        scores = self.expansion.scores(X if input_map is None else input_map(X))
        return scores if self.tail is None else scores + self.tail.values(X)[0]


def describe(name: str, expansion: KernelExpansion) -> str:
    """One line about a model, e.g. "LIBSVM c_svc, 11877 support vectors, gamma 0.01".

    Examples
    --------
    >>> describe("SVR", KernelExpansion([[0.0]], [2.0], 0.5, gamma=0.5, kernel="poly2"))
    'SVR, 1 support vector, polynomial kernel of degree 2, gamma 0.5, coef0 0'
    """
    n = expansion.n_centers
    vectors = f"{n} support vector" if n == 1 else f"{n} support vectors"
    return f"{name}, {vectors}, {expansion.kernel_name}"
