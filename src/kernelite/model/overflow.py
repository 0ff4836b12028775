"""Whether a model's numbers can overflow: scores would be infinite, and their differences NaN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kernelite.errors import InputError
from kernelite.machine.expansion import squared_norms
from kernelite.machine.kernels import Reach
from kernelite.rows.inputs import FloatArray

if TYPE_CHECKING:
    from kernelite.machine.expansion import KernelExpansion
    from kernelite.model.fields import ModelFields

__all__ = ["check_overflow"]

LARGEST = 1e290  # leaves room for heads to add, scale and square a little


def check_overflow(model: ModelFields) -> None:
    """Refuse a model of which a score could overflow, and a density that could be negative.

    |f(z)| is at most sum_i |A_i| + |b| for an RBF kernel. Polynomial kernels grow with the row,
    whatever the coefficients: there it is for rows of norm 1, and a longer row whose scores
    overflow is undecidable.
    """
    expansion = model.expansion
    with np.errstate(over="ignore", invalid="ignore"):
        if expansion is not None:
            largest = 1.0 if expansion.kernel == "rbf" else _largest_values(expansion)
            total = (np.abs(expansion.coefficients) * largest).sum(axis=0)
            total += np.abs(expansion.intercept)
            _check(total, "coefficients and intercept of the expansion")
        for name, array in _of_forms(model):
            _check(np.abs(array).sum(), f"`{name}` of a form")
    if (
        expansion is not None
        and model.head.kind == "density"
        and (expansion.coefficients < 0).any()
    ):
        raise InputError("a density has no negative coefficients.")


def _largest_values(expansion: KernelExpansion) -> FloatArray:
    """(gamma |x_i| + |coef0|)^2 of a polynomial kernel, shape (n, 1): for rows of norm 1."""
    if not expansion.has_series:
        return _largest_of(expansion)
    # |x_i| by absolute values: their squares would overflow for centers that are served.
    norms = np.asarray(abs(expansion.centers).sum(axis=1)).reshape(-1, 1)
    return (expansion.gamma * norms + abs(expansion.coef0)) ** 2


def _largest_of(expansion: KernelExpansion) -> FloatArray:
    """Of any other kernel, for rows of norm 1: shape (1, 1)."""
    radius = float(np.sqrt(squared_norms(expansion.centers).max(initial=0.0)))
    reach = Reach(np.ones(1), radius, 0.0, expansion.n_features)
    return expansion.kernel.largest(reach)[:, None]  # type: ignore[union-attr]


def _of_forms(model: ModelFields) -> Iterator[tuple[str, FloatArray]]:
    """What forms sum up, beside the coordinates of rows."""
    cells = () if model.approximation is None else model.approximation.cells
    for cell in cells:
        yield from cell.form.terms.items()
        if cell.full is not None:
            yield from cell.full.terms.items()


def _check(total: FloatArray, what: str) -> None:
    if not (total <= LARGEST).all():
        raise InputError(f"the {what} are so large that scores overflow; scale the targets down.")
