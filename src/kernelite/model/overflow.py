"""Whether a model's numbers can overflow: scores would be infinite, and their differences NaN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kernelite.errors import InputError
from kernelite.inputs import FloatArray

if TYPE_CHECKING:
    from kernelite.model.fields import ModelFields

__all__ = ["check_overflow"]

LARGEST = 1e290  # leaves room for heads to add, scale and square a little


def check_overflow(model: ModelFields) -> None:
    """Refuse an RBF model of which a score could overflow, and a density that could be negative.

    |f(z)| is at most sum_i |A_i| + |b|. (Polynomial kernels grow with the row, whatever the
    coefficients: there a row whose scores overflow is undecidable.)
    """
    if model._served.kernel != "rbf":
        return
    expansion = model.expansion
    with np.errstate(over="ignore"):
        if expansion is not None:
            total = np.abs(expansion.coefficients).sum(axis=0) + np.abs(expansion.intercept)
            _check(total, "coefficients and intercept of the expansion")
        for name, array in _of_forms(model):
            _check(np.abs(array).sum(), f"`{name}` of a form")
    if (
        expansion is not None
        and model.head.kind == "density"
        and (expansion.coefficients < 0).any()
    ):
        raise InputError("a density has no negative coefficients.")


def _of_forms(model: ModelFields) -> Iterator[tuple[str, FloatArray]]:
    """What forms sum up, beside the coordinates of rows."""
    cells = () if model.approximation is None else model.approximation.cells
    for cell in cells:
        for form in (cell.form, cell.full):
            for name in ("constant", "linear", "intercept", "quadratic", "cores", "mid"):
                if hasattr(form, name):
                    yield name, getattr(form, name)


def _check(total: FloatArray, what: str) -> None:
    if not (total <= LARGEST).all():
        raise InputError(f"the {what} are so large that scores overflow; scale the targets down.")
