"""Certificates as ONNX nodes: a bound on the error of each score, shape (m, k).

    rho sqrt(P(m, t)) + truncation + rounding,     t = 2 gamma |u|^2,  m = degree + 1
    P(m, t)  <=  min(t^m / m!,  1 - e^-t (1 + t + ... + t^(m-1) / (m-1)!) + 1e-12)

The minimum is within 0.2% of P and needs no series; 1e-12 covers the cancellation of its second
part; t is taken a little too large, for the error of |u|^2. The model of the runtime's arithmetic
is that of `kernelite.series.rounding` (sums in any order, Exp within 4 ulp), with a fourfold
margin.
"""

from __future__ import annotations

import math

import numpy as np

from kernelite.export.bounds import FOREIGN, largest_power, rounding_constants, twice_gamma
from kernelite.export.onnx_forms import Evaluated, cubic_values, damped, damping, evaluate_form
from kernelite.export.onnx_graph import Value
from kernelite.rows.inputs import FloatArray
from kernelite.series.cells import Cell
from kernelite.series.cubic import CubicForm
from kernelite.series.directional import DirectionalBound
from kernelite.series.rounding import SAFETY, hidden_square
from kernelite.series.spectral import SpectralForm

__all__ = ["form_bounds", "second_tier"]

CANCELLATION = 1e-12
MARGIN = 1.0 + 1e-6  # for the rounding of the terms themselves
UNDERFLOWS = 1500.0  # t beyond which P is one


def form_bounds(cell: Cell, evaluated: Evaluated, degree: int = 2) -> Value:
    """The certificate of evaluated scores, the truncation of the spectrum included."""
    assert cell.certificate is not None
    rho = cell.certificate.rho[degree - 2]
    constants = rounding_constants(cell.certificate, degree)
    xp = evaluated.scores.graph
    total = xp.abs(evaluated.scores) * constants.relative
    if constants.constant:
        total = total + constants.absolute
    else:
        norms = xp.sqrt(evaluated.sq_norms)
        total = total + (norms * constants.linear + evaluated.sq_norms * constants.square)
        total = total + constants.absolute
    if rho.any():
        t = evaluated.sq_norms * twice_gamma(cell.certificate)
        total = total + _root_of_lower_gamma(degree + 1, t) * rho
    if evaluated.kept is not None:
        assert isinstance(cell.form, SpectralForm)
        total = total + _truncation_bound(cell.form, evaluated.sq_norms, evaluated.kept)
    return total


def second_tier(cell: Cell, rows: Value, evaluated: Evaluated) -> tuple[Value, Value]:
    """Scores and bounds from the untruncated form and the third order, as far as they are there.

    Parameters
    ----------
    cell : Cell
    rows : Value
        Of shape (m, d).
    evaluated : Evaluated
        The first tier's, of the same rows.
    """
    if cell.full is not None:
        evaluated = evaluate_form(cell.full, rows)
        cell = Cell(cell.full, cell.certificate, None, cell.cubic)
    cubic = cell.cubic
    if cubic is None:
        return evaluated.scores, form_bounds(cell, evaluated)
    U = evaluated.shifted
    E = damping(evaluated.sq_norms, cell.form.gamma)
    if isinstance(cubic, DirectionalBound):
        bounds = form_bounds(cell, evaluated, degree=3)
        return evaluated.scores, bounds + _directional(cubic, U, evaluated.sq_norms, E)
    Y = U if cubic.basis is None else U @ cubic.basis
    scores = evaluated.scores + damped(cubic_values(cubic.packed, Y, cubic.rank), E)
    bounds = form_bounds(cell, evaluated._replace(scores=scores), degree=3)
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
    if form.kernel == "poly2":
        return (size + sq_norms * form.leftover) * SAFETY
    left_over = SAFETY * form.leftover * largest_power(2, form.gamma)
    return damped(size * SAFETY, damping(sq_norms, form.gamma)) + left_over


def _rest(sq_norms: Value, Y: Value, basis: FloatArray) -> Value:
    """|u|^2 - |y|^2, not below the real value."""
    rest = sq_norms.graph.maximum(sq_norms - Y.sum_of_squares(), 0.0)
    return rest + sq_norms * (FOREIGN * hidden_square(*basis.shape))


def _directional(cubic: DirectionalBound, U: Value, sq_norms: Value, E: Value) -> Value:
    Y = U @ cubic.basis
    k, r = len(cubic.tail), cubic.basis.shape[1]
    side_by_side: FloatArray = np.ascontiguousarray(cubic.cores.transpose(1, 0, 2))
    pulled = (Y @ side_by_side.reshape(r, k * r)).reshape(-1, k, r)
    xp = Y.graph
    inner = xp.maximum(xp.sum(pulled * Y.reshape(-1, 1, r), axis=2), 0.0)
    outer = _rest(sq_norms, Y, cubic.basis) * cubic.tail
    root = xp.sqrt(inner) + xp.sqrt(outer) + xp.sqrt(sq_norms) * cubic.slack
    return damped(root * sq_norms * MARGIN, E)


def _tail(cubic: CubicForm, sq_norms: Value, Y: Value, E: Value) -> Value:
    assert cubic.basis is not None
    kept_squares, xp = Y.sum_of_squares(), Y.graph
    rest = xp.sqrt(_rest(sq_norms, Y, cubic.basis))
    reach = sq_norms + xp.sqrt(sq_norms * kept_squares) + kept_squares
    outside = rest * cubic.tail + xp.sqrt(sq_norms) * cubic.slack
    return damped(outside * reach * MARGIN, E)
