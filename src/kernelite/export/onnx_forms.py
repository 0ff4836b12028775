"""Forms and the exact expansion as ONNX nodes; the formulas are those of `kernelite.engines`.

In: a form and rows X of shape (m, d). Out: scores (m, k) and what bounds need of a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelite.approximation.cubic import CubicForm
from kernelite.approximation.quadratic import QuadraticForm
from kernelite.approximation.rounding import UNIT
from kernelite.approximation.spectral import SpectralForm
from kernelite.errors import UnsupportedModelError
from kernelite.expansion import KernelExpansion
from kernelite.export.onnx_graph import Value
from kernelite.inputs import FloatArray

__all__ = [
    "Evaluated",
    "about_their_mean",
    "cubic_values",
    "damped",
    "damping",
    "evaluate_exact",
    "evaluate_form",
]

FARTHEST = {"float64": 1e150, "float32": 1e17}  # beyond it, squares would overflow
LOST_DIGITS = 1e-9  # the relative error of a kernel value that products may bring


class Evaluated(NamedTuple):
    """Scores (m, k), |u|^2 (m, 1), u (m, d), and |V'u|^2 (m, 1) for a truncated form."""

    scores: Value
    sq_norms: Value
    shifted: Value
    kept: Value | None = None

    def rows(self, index: Value) -> Evaluated:
        """The same of some rows."""
        kept = None if self.kept is None else self.kept.rows(index)
        scores, sq_norms = self.scores.rows(index), self.sq_norms.rows(index)
        return Evaluated(scores, sq_norms, self.shifted.rows(index), kept)


def evaluate_form(form: QuadraticForm | SpectralForm, rows: Value) -> Evaluated:
    """f^ of each row."""
    U = rows - form.point
    sq_norms = U.sum_of_squares()
    if isinstance(form, QuadraticForm):
        # v.u + u'Mu = (Mu + v).u, one pass over u for both.
        g = _bilinear(U, form.quadratic, form.linear) + form.constant
        return Evaluated(_finish(form, g, sq_norms), sq_norms, U)
    Y = U @ form.basis
    g = U @ form.linear + sq_norms * form.mid + form.constant
    diagonals = np.stack([np.diag(core) for core in form.cores], axis=1)
    if all(np.array_equal(core, np.diag(np.diag(core))) for core in form.cores):
        g = g + (Y * Y) @ diagonals
    else:
        g = g + _bilinear(Y, form.cores, None)
    return Evaluated(_finish(form, g, sq_norms), sq_norms, U, Y.sum_of_squares())


def damping(sq_norms: Value, gamma: float) -> Value:
    """exp(-gamma |u|^2), shape (m, 1)."""
    return (sq_norms * -gamma).exp()


def damped(value: Value, E: Value) -> Value:
    """The product; zero where the exponential is, even if the value overflowed."""
    return value.graph.where(E > 0.0, value * E, value.graph.real(0.0))


def cubic_values(cubic: CubicForm, Y: Value) -> Value:
    """sum_{a<=b<=c} t_abc y_a y_b y_c of each row: shape (m, k).

    The products y_a y_b are taken first; a matrix holds t_abc at row c, column (a, b).
    """
    k, r, graph = len(cubic.packed), cubic.rank, Y.graph
    first, second = np.triu_indices(r)
    matrix = np.zeros((k, r, len(first)))
    place = {pair: row for row, pair in enumerate(zip(first.tolist(), second.tolist()))}
    triples = ((a, b, c) for a in range(r) for b in range(a, r) for c in range(b, r))
    for index, (a, b, c) in enumerate(triples):
        matrix[:, c, place[a, b]] = cubic.packed[:, index]
    # Columns stand for rows here: picking y_a for all rows is then one copy.
    across = graph.op("Transpose", Y, perm=[1, 0])
    products = across.rows(graph.index(first)) * across.rows(graph.index(second))
    pulled = graph.real(matrix.reshape(k * r, len(first))) @ products
    values = (pulled.reshape(k, r, -1) * across).total(1, keep=False)
    return graph.op("Transpose", values, perm=[1, 0])


def evaluate_exact(expansion: KernelExpansion, rows: Value) -> Value:
    """f of each row by products with all centers: (m, n) kernel values at once."""
    gamma, centers = expansion.gamma, expansion.dense_centers()
    if expansion.kernel == "poly2":
        products = rows @ (gamma * centers.T) + expansion.coef0
        return (products * products) @ expansion.coefficients + expansion.intercept
    point, shifted, own = about_their_mean(expansion)
    if (shifted.shape[1] + 8) * 4.0 * own.max(initial=0.0) * UNIT > LOST_DIGITS:
        raise UnsupportedModelError(
            "the support vectors lie so many kernel widths apart that products with them lose the "
            "digits of small distances; scale the features, or train with a smaller gamma."
        )
    farthest = FARTHEST[rows.graph.dtype.name]
    U = (rows - point).clip(-farthest, farthest)
    exponents = U @ (2.0 * gamma * shifted.T) - U.sum_of_squares() * gamma
    kernels = (exponents - own).at_most(0.0).exp()
    return kernels @ expansion.coefficients + expansion.intercept


def about_their_mean(expansion: KernelExpansion) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The centers' mean p, the centers s = x - p, and gamma |s|^2: distances stay, norms shrink."""
    centers = expansion.dense_centers()
    point = centers.mean(axis=0) if len(centers) else np.zeros(expansion.n_features)
    shifted = centers - point
    with np.errstate(over="ignore"):
        return point, shifted, expansion.gamma * np.einsum("ij,ij->i", shifted, shifted)


def _bilinear(Y: Value, matrices: FloatArray, linear: FloatArray | None) -> Value:
    """(M_j y + v_j).y of each output: shape (m, k)."""
    k, r = len(matrices), matrices.shape[1]
    graph = Y.graph
    side_by_side = matrices.transpose(1, 0, 2).reshape(r, k * r)
    if linear is None:
        pulled = Y @ side_by_side
    else:
        bias = graph.real(linear.T.reshape(k * r))
        pulled = graph.op("Gemm", Y, graph.real(side_by_side), bias)
    if k == 1:
        return (pulled * Y).total()
    return (pulled.reshape(-1, k, r) * Y.reshape(-1, 1, r)).total(2, keep=False)


def _finish(form: QuadraticForm | SpectralForm, g: Value, sq_norms: Value) -> Value:
    if form.kernel == "poly2":
        return g + form.intercept
    return damped(g, damping(sq_norms, form.gamma)) + form.intercept
