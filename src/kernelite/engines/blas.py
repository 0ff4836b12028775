"""Forms evaluated by matrix products, row block by row block.

In: a form and dense rows of shape (m, d). Out: scores of shape (m, k) and |u|^2 of shape (m,).
"""

from __future__ import annotations

import numpy as np

from kernelite.approximation.quadratic import QuadraticForm
from kernelite.inputs import FloatArray

__all__ = ["damp", "quadratic_scores"]


def quadratic_scores(form: QuadraticForm, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """f^ of each row, and |u|^2.

    Examples
    --------
    >>> from kernelite.approximation.quadratic import quadratic_form
    >>> from kernelite.expansion import KernelExpansion
    >>> one = KernelExpansion([[1.0]], [1.0], 0.0, gamma=0.5)
    >>> quadratic_scores(quadratic_form(one, np.array([1.0])), np.array([[1.0], [2.0]]))[0].round(4)
    array([[1.    ],
           [0.6065]])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        U = rows - form.point
        sq_norms = np.einsum("ij,ij->i", U, U)
        g = U @ form.linear
        g += form.constant
        for output in range(form.n_outputs):
            g[:, output] += np.einsum("ij,ij->i", U @ form.quadratic[output], U)
    if form.kernel == "rbf":
        damp(g, sq_norms, form.gamma)
    g += form.intercept
    return g, sq_norms


def damp(g: FloatArray, sq_norms: FloatArray, gamma: float) -> None:
    """g *= exp(-gamma |u|^2), in place; zero where the exponential is, even if g overflowed."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        E = np.exp(-gamma * sq_norms)
        g *= E[:, None]
    g[E == 0.0] = 0.0
