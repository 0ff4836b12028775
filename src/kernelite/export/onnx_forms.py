"""Forms and the exact expansion as ONNX nodes; the formulas are those of `kernelite.cpu`.

In: a form and rows X of shape (m, d). Out: scores (m, k) and what bounds need of a row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kernelite.errors import UnsupportedModelError
from kernelite.export.onnx_graph import Value
from kernelite.machine.expansion import KernelExpansion
from kernelite.rows.inputs import FloatArray
from kernelite.series.cubic import CubicForm
from kernelite.series.quadratic import QuadraticForm
from kernelite.series.rounding import UNIT
from kernelite.series.spectral import SpectralForm

__all__ = [
    "Evaluated",
    "about_their_mean",
    "cubic_values",
    "damped",
    "damping",
    "evaluate_exact",
    "evaluate_form",
    "log_sums",
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
    """f^ of each row, by the table `FORMS`."""
    return FORMS[type(form)](form, rows - form.point)


def _quadratic(form: QuadraticForm, U: Value) -> Evaluated:
    # v.u + u'Mu = (Mu + v).u, one pass over u for both.
    g, sq_norms = _bilinear(U, form.quadratic, form.linear) + form.constant, U.sum_of_squares()
    return Evaluated(_finish(form, g, sq_norms), sq_norms, U)


def _spectral(form: SpectralForm, U: Value) -> Evaluated:
    Y, sq_norms = U @ form.basis, U.sum_of_squares()
    g = U @ form.linear + sq_norms * form.mid + form.constant
    diagonals = np.stack([np.diag(core) for core in form.cores], axis=1)
    if all(np.array_equal(core, np.diag(np.diag(core))) for core in form.cores):
        g = g + (Y * Y) @ diagonals
    else:
        g = g + _bilinear(Y, form.cores, None)
    return Evaluated(_finish(form, g, sq_norms), sq_norms, U, Y.sum_of_squares())


def damping(sq_norms: Value, gamma: float) -> Value:
    """exp(-gamma |u|^2), shape (m, 1)."""
    return sq_norms.graph.exp(sq_norms * -gamma)


def damped(value: Value, E: Value) -> Value:
    """The product; zero where the exponential is, even if the value overflowed."""
    return value.graph.where(E > 0.0, value * E, 0.0)


def cubic_values(cubic: CubicForm, Y: Value) -> Value:
    """sum_{a<=b<=c} t_abc y_a y_b y_c of each row: shape (m, k).

    The directions are split into two halves. Two of a, b, c are in the same half, so products of
    pairs within the halves are all that is needed: whole outer products, nothing to be picked.
    """
    k, r, graph = len(cubic.packed), cubic.rank, Y.graph
    # Columns stand for rows here: long runs, whatever the number of directions.
    across = Y.transposed()
    parts = []
    for (start, stop), matrix in zip(_halves(r), _by_halves(cubic)):
        part, size = across.span(start, stop), stop - start
        products = part.reshape(size, 1, -1) * part.reshape(1, size, -1)
        parts.append(graph.real(matrix.reshape(k * r, -1)) @ products.reshape(size * size, -1))
    pulled = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    return graph.sum(pulled.reshape(k, r, -1) * across, axis=1).transposed()


def _halves(r: int) -> list[tuple[int, int]]:
    return [(0, r)] if r == 1 else [(0, r // 2), (r // 2, r)]


def _by_halves(cubic: CubicForm) -> list[FloatArray]:
    """For each half, t_abc at row c, column (a, b), of shape (k, r, size, size)."""
    k, r = len(cubic.packed), cubic.rank
    halves = _halves(r)
    half = [index for index, (start, stop) in enumerate(halves) for _ in range(start, stop)]
    matrices = [np.zeros((k, r, stop - start, stop - start)) for start, stop in halves]
    triples = ((a, b, c) for a in range(r) for b in range(a, r) for c in range(b, r))
    for index, (a, b, c) in enumerate(triples):
        alone, one, other = (c, a, b) if half[a] == half[b] else (a, b, c)
        start = halves[half[one]][0]
        matrices[half[one]][:, alone, one - start, other - start] = cubic.packed[:, index]
    return matrices


def evaluate_exact(expansion: KernelExpansion, rows: Value) -> Value:
    """f of each row by products with all centers: (m, n) kernel values at once."""
    if expansion.kernel not in KERNELS:
        known = " and ".join(KERNELS)
        raise UnsupportedModelError(
            f"the kernel {expansion.kernel!r} is not exported to ONNX; {known} are."
        )
    return KERNELS[expansion.kernel](expansion, rows) @ expansion.coefficients + expansion.intercept


def log_sums(expansion: KernelExpansion, rows: Value) -> Value:
    """The logarithm of a sum of positive bumps, where the sum would underflow: shape (m,)."""
    xp = rows.graph
    with np.errstate(divide="ignore"):
        exponents = _exponents(expansion, rows) + np.log(expansion.coefficients[:, 0])
    top = xp.max(exponents, axis=1, keepdims=True)
    top = xp.where(xp.isinf(top), 0.0, top)
    return xp.log(xp.sum(xp.exp(exponents - top), axis=1)) + top[:, 0]


def _rbf(expansion: KernelExpansion, rows: Value) -> Value:
    return rows.graph.exp(_exponents(expansion, rows))


def _squares_of_products(expansion: KernelExpansion, rows: Value) -> Value:
    products = rows @ (expansion.gamma * expansion.dense_centers().T) + expansion.coef0
    return products * products


def _exponents(expansion: KernelExpansion, rows: Value) -> Value:
    """-gamma |x_i - z|^2, shape (m, n)."""
    gamma = expansion.gamma
    point, shifted, own = about_their_mean(expansion)
    if (shifted.shape[1] + 8) * 4.0 * own.max(initial=0.0) * UNIT > LOST_DIGITS:
        raise UnsupportedModelError(
            "the support vectors lie so many kernel widths apart that products with them lose the "
            "digits of small distances; scale the features, or train with a smaller gamma."
        )
    farthest = FARTHEST[rows.graph.dtype.name]
    graph = rows.graph
    U = graph.clip(rows - point, -farthest, farthest)
    products = graph.op("Gemm", U, graph.real(2.0 * gamma * shifted.T), graph.real(-own))
    return graph.minimum(products - U.sum_of_squares() * gamma, 0.0)


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
        return graph.sum(pulled * Y, keepdims=True)
    return graph.sum(pulled.reshape(-1, k, r) * Y.reshape(-1, 1, r), axis=2)


def _finish(form: QuadraticForm | SpectralForm, g: Value, sq_norms: Value) -> Value:
    if form.kernel == "poly2":
        return g + form.intercept
    return damped(g, damping(sq_norms, form.gamma)) + form.intercept


FORMS: dict[type, Any] = {QuadraticForm: _quadratic, SpectralForm: _spectral}
"""Form -> its nodes; a function of the form and u = x - p."""

KERNELS: dict[str, Any] = {"rbf": _rbf, "poly2": _squares_of_products}
"""Kernel -> all of a row's values of it; a function of the expansion and rows."""
