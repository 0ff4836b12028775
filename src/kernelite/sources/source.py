"""What every reader returns: an expansion, its head, and where they came from."""

from __future__ import annotations

from dataclasses import dataclass

from kernelite.affine import AffineMap
from kernelite.errors import InputError
from kernelite.expansion import KernelExpansion
from kernelite.head import Head
from kernelite.posterior import Posterior

__all__ = ["Source", "describe"]


@dataclass(frozen=True, eq=False)
class Source:
    """A fitted model in kernelite's terms.

    Parameters
    ----------
    expansion : KernelExpansion
        Centers, coefficients, intercept and kernel.
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

    input_map : AffineMap, optional
        Takes rows to the coordinates of the expansion: length scales, scalers.
    posterior : Posterior, optional
        Of a Gaussian process: what its variance is computed from.

    Examples
    --------
    >>> from kernelite.head import RegressorHead
    >>> bump = KernelExpansion([[0.0, 0.0]], [2.0], 0.5, gamma=1.0)
    >>> Source(bump, RegressorHead(), "a bump", "arrays", "KernelExpansion").expansion.n_features
    2
    """

    expansion: KernelExpansion
    head: Head
    description: str
    family: str
    type_name: str
    feature_names: tuple[str, ...] | None = None
    width_is_open: bool = False
    input_map: AffineMap | None = None
    posterior: Posterior | None = None

    def __post_init__(self) -> None:
        if self.head.n_scores != self.expansion.n_outputs:
            raise InputError(
                f"`head` expects {self.head.n_scores} scores a row, but `expansion` has "
                f"{self.expansion.n_outputs} outputs."
            )
        if self.input_map is not None and self.input_map.n_features != self.expansion.n_features:
            raise InputError(
                f"`input_map` has {self.input_map.n_features} features, but `expansion` has "
                f"{self.expansion.n_features}."
            )


def describe(name: str, expansion: KernelExpansion) -> str:
    """One line about a model, e.g. "LIBSVM c_svc, 11877 support vectors, gamma 0.01".

    Examples
    --------
    >>> describe("SVR", KernelExpansion([[0.0]], [2.0], 0.5, gamma=0.5, kernel="poly2"))
    'SVR, 1 support vector, polynomial kernel of degree 2, gamma 0.5, coef0 0'
    """
    n = expansion.n_centers
    vectors = f"{n} support vector" if n == 1 else f"{n} support vectors"
    if expansion.kernel == "rbf":
        return f"{name}, {vectors}, gamma {expansion.gamma:.6g}"
    kernel = f"polynomial kernel of degree 2, gamma {expansion.gamma:.6g}"
    return f"{name}, {vectors}, {kernel}, coef0 {expansion.coef0:.6g}"
