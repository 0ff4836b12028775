"""Forms evaluated by matrix products, row block by row block.

In: a form and dense rows of shape (m, d). Out: scores of shape (m, k) and what the bounds need.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelite.rows.inputs import FloatArray
from kernelite.series.quadratic import QuadraticForm
from kernelite.series.spectral import SpectralForm

__all__ = ["Evaluated", "cubic_values", "damp", "form_scores", "quadratic_scores"]


class Evaluated(NamedTuple):
    """Scores (m, k), |u|^2 (m,), and |V'u|^2 (m,) for a truncated form."""

    scores: FloatArray
    sq_norms: FloatArray
    kept: FloatArray | None = None


def form_scores(form: QuadraticForm | SpectralForm, rows: FloatArray) -> Evaluated:
    """f^ of each row, whatever holds its quadratic part."""
    if isinstance(form, SpectralForm):
        return _spectral_scores(form, rows)
    return Evaluated(*quadratic_scores(form, rows))


def quadratic_scores(form: QuadraticForm, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """f^ of each row, and |u|^2.

    Examples
    --------
    >>> from kernelite.series.quadratic import quadratic_form
    >>> from kernelite.machine.expansion import KernelExpansion
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
    return _finish(form, g, sq_norms), sq_norms


def _spectral_scores(form: SpectralForm, rows: FloatArray) -> Evaluated:
    with np.errstate(over="ignore", invalid="ignore"):
        U = rows - form.point
        sq_norms = np.einsum("ij,ij->i", U, U)
        Y = U @ form.basis
        kept = np.einsum("ij,ij->i", Y, Y)
        g = U @ form.linear
        g += form.constant
        g += sq_norms[:, None] * form.mid
        for output in range(form.n_outputs):
            g[:, output] += np.einsum("ij,ij->i", Y @ form.cores[output], Y)
    return Evaluated(_finish(form, g, sq_norms), sq_norms, kept)


def cubic_values(packed: FloatArray, U: FloatArray) -> FloatArray:
    """sum_{a<=b<=c} t_abc u_a u_b u_c for each row and output: shape (m, k).

    Parameters
    ----------
    packed : ndarray of shape (k, r (r + 1) (r + 2) / 6)
    U : ndarray of shape (m, r)

    Examples
    --------
    >>> cubic_values(np.array([[2.0]]), np.array([[3.0]]))
    array([[54.]])
    """
    m, r = U.shape
    out = np.zeros((m, len(packed)))
    start = 0
    with np.errstate(over="ignore", invalid="ignore"):
        for a in range(r):
            rest = r - a
            stop = start + rest * (rest + 1) // 2
            upper, part, corner = np.triu_indices(rest), U[:, a:], np.zeros((rest, rest))
            for output, coefficients in enumerate(packed[:, start:stop]):
                corner[upper] = coefficients
                out[:, output] += U[:, a] * np.einsum("ij,ij->i", part @ corner, part)
            start = stop
    return out


def damp(g: FloatArray, sq_norms: FloatArray, gamma: float) -> None:
    """g *= exp(-gamma |u|^2), in place; zero where the exponential is, even if g overflowed."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        E = np.exp(-gamma * sq_norms)
        g *= E[:, None]
    g[E == 0.0] = 0.0


def _finish(form: QuadraticForm | SpectralForm, g: FloatArray, sq_norms: FloatArray) -> FloatArray:
    if form.kernel == "rbf":
        damp(g, sq_norms, form.gamma)
    g += form.intercept
    return g
