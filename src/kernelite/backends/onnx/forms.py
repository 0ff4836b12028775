"""Forms, the exact expansion and certificates as ONNX nodes.

In: a form, or an expansion, and rows X of shape (m, d). Out: scores (m, k) and what bounds need.
Kernels need no table: their `values` run on the graph's values (`kernelite.machine.ops`).
"""

from __future__ import annotations

import math
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np

from kernelite.backends.onnx.graph import Value
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import CosineKernel
from kernelite.model.export.selection import about_their_mean, packed
from kernelite.series.approximation import Approximation
from kernelite.series.certificate import FOREIGN, largest_power, rounding_constants, twice_gamma
from kernelite.series.cubic import CubicForm
from kernelite.series.packed import linear_map, packed_degree, pair_places
from kernelite.series.rounding import SAFETY, UNIT, hidden_square
from kernelite.series.series import QuadraticForm
from kernelite.series.spectral import SpectralForm

__all__ = [
    "Evaluated",
    "cubic_values",
    "damped",
    "damping",
    "evaluate_exact",
    "evaluate_form",
    "form_bounds",
    "kernel_values",
    "log_sums",
    "second_tier",
]

FARTHEST = {"float64": 1e150, "float32": 1e17}  # beyond it, squares would overflow
LOST_DIGITS = 1e-9  # the relative error of a kernel value from which products are not taken


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


def cubic_values(tensor: FloatArray, Y: Value, r: int) -> Value:
    """sum_{a<=b<=c} t_abc y_a y_b y_c of each row: shape (m, k).

    Parameters
    ----------
    tensor : ndarray of shape (k, r (r + 1) (r + 2) / 6)
        As `series.cubic` packs it.
    Y : Value
        Of shape (m, r).
    """
    # Columns stand for rows here: long runs, whatever the number of directions.
    across, parts = Y.transposed(), []
    for start, matrices in _by_halves(tensor, r):
        size = matrices.shape[-1]
        part = across.span(start, start + size)
        products = part.reshape(size, 1, -1) * part.reshape(1, size, -1)
        flat = matrices.reshape(len(tensor), r, size * size)
        parts.append(_contracted(flat, products.reshape(size * size, -1), across))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _by_halves(tensor: FloatArray, r: int) -> list[tuple[int, FloatArray]]:
    """For each half of the directions its start, and t_abc of shape (k, r, size, size).

    Two of a, b, c are in the same half, so that products of pairs within the halves are all that is
    needed: whole outer products, nothing to be picked.
    """
    a, b, c = np.array(list(combinations_with_replacement(range(r), 3))).T
    half, found = np.arange(r) >= r // 2, []
    paired = half[a] == half[b]
    alone, one, other = (np.where(paired, *sides) for sides in ((c, a), (a, b), (b, c)))
    for start, stop in ((0, r // 2), (r // 2, r)):
        matrices = np.zeros((len(tensor), r, stop - start, stop - start))
        own = (start <= one) & (one < stop)
        matrices[:, alone[own], one[own] - start, other[own] - start] = tensor[:, own]
        found.append((start, matrices))
    return found if r > 1 else found[1:]


def _pairs(across: Value, r: int) -> Value:
    """y_a y_b for a <= b; a line per product, so that runs are long: shape (pairs, m)."""
    a, b = (across.graph.index(places) for places in pair_places(r))
    return across.rows(a) * across.rows(b)


def _contracted(matrices: FloatArray, products: Value, across: Value) -> Value:
    """q'M_j p of each row and output, p and q given by lines: shape (m, k)."""
    k, lines, width = matrices.shape
    graph = across.graph
    pulled = graph.real(matrices.reshape(k * lines, width)) @ products
    return graph.sum(pulled.reshape(k, lines, -1) * across, axis=1).transposed()


def evaluate_exact(expansion: KernelExpansion, rows: Value) -> Value:
    """f of each row: one product, a packed polynomial, or all kernel values (m, n) at once."""
    if packed_degree(expansion) == 1:
        return _linear(expansion, rows)
    tensor = packed(expansion)
    r, k = expansion.n_features + 1, expansion.n_outputs
    # A tensor of degree 3 takes three times its packed numbers here.
    if tensor is not None and k * r * r * (r + 1) / 2 <= expansion.n_centers * (r + 15 + k):
        ones = rows.graph.full((rows.shape[0], 1), 1.0)
        Y = rows.graph.concat([rows, ones], axis=1)
        if tensor.ndim == 2:
            return cubic_values(tensor, Y, r) + expansion.intercept
        products = _pairs(Y.transposed(), r)
        return _contracted(tensor, products, products) + expansion.intercept
    return kernel_values(expansion, rows) @ expansion.coefficients + expansion.intercept


def kernel_values(expansion: KernelExpansion, rows: Value) -> Value:
    """k(x_i, z) for every row and center: shape (m, n)."""
    if not expansion.has_series:
        values: Any = expansion.kernel.values
        return values(rows, expansion.dense_centers())
    if expansion.kernel.damps:
        return rows.graph.exp(_exponents(expansion, rows))
    products = rows @ (expansion.gamma * expansion.dense_centers().T) + expansion.coef0
    return products * products


def _linear(expansion: KernelExpansion, rows: Any) -> Value:
    """W z + b; of a cosine kernel, z is brought to length one."""
    found = linear_map(expansion)
    if isinstance(expansion.kernel, CosineKernel):
        rows = CosineKernel.normalized(rows)
    seen = rows if found.columns is None else rows[:, found.columns]
    return seen @ found.weights.T + found.intercept


def log_sums(expansion: KernelExpansion, rows: Value) -> Value:
    """The logarithm of a sum of positive bumps, where the sum would underflow: shape (m,)."""
    xp = rows.graph
    with np.errstate(divide="ignore"):
        exponents = _exponents(expansion, rows) + np.log(expansion.coefficients[:, 0])
    top = xp.max(exponents, axis=1, keepdims=True)
    top = xp.where(xp.isinf(top), 0.0, top)
    return xp.log(xp.sum(xp.exp(exponents - top), axis=1)) + top[:, 0]


def _exponents(expansion: KernelExpansion, rows: Value) -> Value:
    """-gamma |x_i - z|^2, shape (m, n)."""
    gamma, graph = expansion.gamma, rows.graph
    point, shifted, own = about_their_mean(expansion)
    if (shifted.shape[1] + 8) * 4.0 * own.max(initial=0.0) * UNIT > LOST_DIGITS:
        return graph.squared_distances(rows, expansion.dense_centers()) * -gamma
    farthest = FARTHEST[graph.dtype.name]
    U = graph.clip(rows - point, -farthest, farthest)
    products = graph.op("Gemm", U, graph.real(2.0 * gamma * shifted.T), graph.real(-own))
    return graph.minimum(products - U.sum_of_squares() * gamma, 0.0)


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
    if not form.damped:
        return g + form.intercept
    return damped(g, damping(sq_norms, form.gamma)) + form.intercept


FORMS: dict[type, Any] = {QuadraticForm: _quadratic, SpectralForm: _spectral}
"""Form -> its nodes; a function of the form and u = x - p."""


# Certificates as ONNX nodes: a bound on the error of each score, shape (m, k).
#
#     rho sqrt(P(m, t)) + truncation + rounding,     t = 2 gamma |u|^2,  m = degree + 1
#     P(m, t)  <=  min(t^m / m!,  1 - e^-t (1 + t + ... + t^(m-1) / (m-1)!) + 1e-12)
#
# The minimum is within 0.2% of P and needs no series; 1e-12 covers the cancellation of its second
# part; t is taken a little too large, for the error of |u|^2. The model of the runtime's arithmetic
# is that of `kernelite.series.rounding` (sums in any order, Exp within 4 ulp), with a fourfold
# margin.


CANCELLATION = 1e-12
MARGIN = 1.0 + 1e-6  # for the rounding of the terms themselves
UNDERFLOWS = 1500.0  # t beyond which P is one


def form_bounds(forms: Approximation, evaluated: Evaluated, degree: int = 2) -> Value:
    """The certificate of evaluated scores, the truncation of the spectrum included."""
    assert forms.certificate is not None
    rho = forms.certificate.rho[degree - 2]
    constants = rounding_constants(forms.certificate, degree)
    xp = evaluated.scores.graph
    total = xp.abs(evaluated.scores) * constants.relative
    if constants.constant:
        total = total + constants.absolute
    else:
        norms = xp.sqrt(evaluated.sq_norms)
        total = total + (norms * constants.linear + evaluated.sq_norms * constants.square)
        total = total + constants.absolute
    if rho.any():
        t = evaluated.sq_norms * twice_gamma(forms.certificate)
        total = total + _root_of_lower_gamma(degree + 1, t) * rho
    if evaluated.kept is not None:
        assert isinstance(forms.form, SpectralForm)
        total = total + _truncation_bound(forms.form, evaluated.sq_norms, evaluated.kept)
    return total


def second_tier(forms: Approximation, rows: Value, evaluated: Evaluated) -> tuple[Value, Value]:
    """Scores and bounds from the untruncated form and the third order, as far as they are there.

    Parameters
    ----------
    forms : Approximation
    rows : Value
        Of shape (m, d).
    evaluated : Evaluated
        The first tier's, of the same rows.
    """
    if forms.full is not None:
        evaluated = evaluate_form(forms.full, rows)
        forms = Approximation(forms.full, forms.certificate, None, forms.cubic)
    cubic = forms.cubic
    if cubic is None:
        return evaluated.scores, form_bounds(forms, evaluated)
    U = evaluated.shifted
    E = damping(evaluated.sq_norms, forms.form.gamma)
    Y = U if cubic.basis is None else U @ cubic.basis
    scores = evaluated.scores + damped(cubic_values(cubic.packed, Y, cubic.rank), E)
    bounds = form_bounds(forms, evaluated._replace(scores=scores), degree=3)
    if cubic.basis is not None:
        bounds = bounds + _tail(cubic, evaluated.sq_norms, Y, E)
    return scores, bounds


def _root_of_lower_gamma(order: int, t: Value) -> Value:
    """A value not below sqrt(P(order, t)), shape (m, 1)."""
    xp = t.graph
    t = xp.minimum(t, UNDERFLOWS)
    head = t * (1.0 / math.factorial(order - 1)) + 1.0 / math.factorial(order - 2)
    for power in range(order - 3, -1, -1):
        head = head * t + 1.0 / math.factorial(power)
    closed = -(xp.exp(-t) * head) + (1.0 + CANCELLATION)
    # sqrt(t^m / m!) from sqrt(t): t^3 would underflow where its root does not.
    root = xp.sqrt(t)
    simple = root
    for _ in range(order - 1):
        simple = simple * root
    simple = simple * (math.factorial(order) ** -0.5 * (1.0 + 1e-11))
    return xp.minimum(simple, xp.sqrt(xp.maximum(closed, CANCELLATION)))


def _truncation_bound(form: SpectralForm, sq_norms: Value, kept: Value) -> Value:
    xp = sq_norms.graph
    rest = xp.maximum(sq_norms - kept, 0.0)
    size = rest * form.spread
    if form.cross.any():
        size = size + xp.sqrt(kept * rest) * (2.0 * form.cross)
    if not form.damped:
        return (size + sq_norms * form.leftover) * SAFETY
    left_over = SAFETY * form.leftover * largest_power(2, form.gamma)
    return damped(size * SAFETY, damping(sq_norms, form.gamma)) + left_over


def _rest(sq_norms: Value, Y: Value, basis: FloatArray) -> Value:
    """|u|^2 - |y|^2, not below the real value."""
    rest = sq_norms.graph.maximum(sq_norms - Y.sum_of_squares(), 0.0)
    return rest + sq_norms * (FOREIGN * hidden_square(*basis.shape))


def _tail(cubic: CubicForm, sq_norms: Value, Y: Value, E: Value) -> Value:
    assert cubic.basis is not None
    kept_squares, xp = Y.sum_of_squares(), Y.graph
    rest = xp.sqrt(_rest(sq_norms, Y, cubic.basis))
    reach = sq_norms + xp.sqrt(sq_norms * kept_squares) + kept_squares
    outside = rest * cubic.tail + xp.sqrt(sq_norms) * cubic.slack
    return damped(outside * reach * MARGIN, E)
