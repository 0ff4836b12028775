"""One output's values in single precision: what exponentials add to their tangents.

With t_i = 2 gamma s_i.u and b_i = a_i exp(-gamma |s_i|^2),

    sum_i a_i K_i = exp(-gamma |u|^2) (sum_i b_i + sum_i b_i t_i + sum_i b_i h(t_i)),
    h(t) = exp(t) - 1 - t = t^2 q(t) >= 0

The first two sums are a number and a dot product, in doubles. Where gamma is small, the third is a
small part of the whole, so that single precision's error in it is one too. q is a polynomial of
least relative error on |t| <= 0.8 or 3.5; beyond, h(t) is taken from 2^(t log2 e) as it is written,
for the few centers that are so far from the others. `fused_tangents` has the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.compiling import (
    Longs,
    Matrix,
    OutMatrix,
    Singles,
    Vector,
    cgutils,
    helper,
    instruction,
    kernel,
    types,
)
from kernelite.backends.cpu.kernels.exp2 import PANEL_VECTORS, SINGLE, Code
from kernelite.backends.cpu.kernels.panels import (
    add_by_halves,
    chain_weights,
    entry_products,
    ready_entries,
    ready_rows,
    row_products,
)
from kernelite.series.rounding import LOG2_E

__all__ = ["MOST_SQUARE", "POLYNOMIALS", "REACHES", "entry_tangents", "horner", "row_tangents"]

TANGENT_ROWS = 240  # a whole number of what is taken at once: 3 or 6
REACHES = 0.8, 3.5, 40.0  # of |t|, for each of the polynomials, and for exponentials
POLYNOMIALS = (
    (
        0.5000000000016968,
        0.16666666708186426,
        0.0416666635294377,
        0.008332583605947158,
        0.0013890331409345876,
        0.00020135710571132746,
        2.4761071145938657e-05,
    ),
    (
        0.5000001229952422,
        0.16666698595700494,
        0.041666203432706814,
        0.008332702600816404,
        0.0013891822963956505,
        0.00019873849293295878,
        2.4742660416226068e-05,
        2.689726459155374e-06,
        2.789278696215151e-07,
        3.0681729963182095e-08,
        2.2140966575818442e-09,
    ),
)
"""q, lowest order first; rounded to single precision they err by 7e-8 and 3.4e-7 relatively."""


def _over_panels(products: Callable[..., Any], rows: int, number: int) -> Callable[..., Any]:
    """An instruction for a few rows and a number of panels: sums of |b| h(t), `out_step` apart.

    It takes addresses and steps in bytes. The first three arguments are those of `products`. Sums
    of |b t| go `apart` bytes behind.
    """
    address, count_type = types.uintp, types.intp
    first = address, count_type, count_type, address, count_type, count_type
    polynomial = POLYNOMIALS[number] if number < len(POLYNOMIALS) else ()

    @instruction(types.void(*first, address, address, count_type, count_type))
    def run(
        builder: Any,
        where: Any,
        step: Any,
        count: Any,
        panel: Any,
        panel_step: Any,
        panels: Any,
        weights: Any,
        out: Any,
        out_step: Any,
        apart: Any,
    ) -> None:
        code, i64 = Code(builder, SINGLE), count.type
        zeros = [[code.all_lanes(0.0)] * PANEL_VECTORS] * rows
        totals = [(code.variable(), code.variable()) for _ in range(rows)]
        with cgutils.for_range(builder, panels) as loop:
            here = builder.add(panel, builder.mul(loop.index, panel_step))
            across = builder.mul(loop.index, i64(4 * SINGLE.panel))
            found = products(code, zeros, where, step, count, here)
            b = code.vectors(builder.add(weights, across), PANEL_VECTORS)
            for line, both in zip(found, totals, strict=True):
                values, slopes = [], []
                for v, product in enumerate(line):
                    t: Any = builder.load(product)
                    weighted = builder.fmul(t, b[v])
                    slopes.append(code.magnitude(weighted))
                    if polynomial:
                        bent = builder.fmul(builder.fmul(weighted, t), horner(code, t, polynomial))
                    else:
                        power = code.exp2_inside(builder.fmul(t, code.all_lanes(LOG2_E)))
                        above = builder.fsub(builder.fsub(power, code.all_lanes(1.0)), t)
                        bent = builder.fmul(above, b[v])
                    values.append(bent)
                for total, terms in zip(both, (values, slopes), strict=True):
                    add_by_halves(code, terms, total)
        for i, both in enumerate(totals):
            at = builder.add(out, builder.mul(out_step, i64(i)))
            code.store_total(builder.load(both[0]), at)
            code.store_total(builder.load(both[1]), builder.add(at, apart))

    return run


def horner(code: Code, t: Any, polynomial: tuple[float, ...]) -> Any:
    value = code.all_lanes(polynomial[-1])
    for coefficient in reversed(polynomial[:-1]):
        value = code.multiply_add(value, t, code.all_lanes(coefficient))
    return value


_several_near, _several_mid = (_over_panels(row_products, SINGLE.rows, i) for i in range(2))
_one_near, _one_mid, _one_far = (_over_panels(row_products, 1, number) for number in range(3))
_entries_near, _entries_mid, _entries_far = (
    _over_panels(entry_products, 1, number) for number in range(3)
)
SEVERAL, (NEAR, MID, FAR) = SINGLE.rows, REACHES
LOST_IN_SINGLE_SUMS = 1e-20  # more than sums in single precision lose by underflow
MOST_SQUARE = 1e30  # of |u|^2, which single precision holds with room to spare


@helper
def _finish(
    rows: Any, point: Any, gamma: float, sums: Any, norms: Any, fixed: Any, first: int, out: Any
) -> None:
    """Scores and bounds of a tile of rows, whose first is row `first` of `out`.

    norms (m, 3): |u|^2, the chain of the row's entries, and the |u| that chose the polynomial.
    """
    linear, signs, terms, constants = fixed
    scores, bounds = out
    total, intercept, constant, near, mid, far, units, weight, widest, safety = constants
    for i in range(len(rows)):
        square, chain = norms[i, 0], norms[i, 1]
        norm = math.sqrt(square)
        dot, size = 0.0, 0.0
        for j in range(len(linear)):
            term = linear[j] * (rows[i, j] - point[j])
            dot += term
            size += abs(term)
        bent, error = 0.0, 0.0
        for b in range(len(signs)):
            off = terms[b, 0] * chain + terms[b, 1] * norm + terms[b, 4]
            reach, own = terms[b, 2] * norm, terms[b, 3]
            bent += signs[b] * sums[i, b]
            # More than what they err by themselves.
            held, slope = abs(sums[i, b]) * (1.0 + 1e-3), sums[i, b + len(signs)] * (1.0 + 1e-3)
            if reach <= MID:
                error += (near if terms[b, 2] * norms[i, 2] <= NEAR else mid) * held
            else:  # of an exponential, 1 and t
                held += 1e-4 * (own + slope)
                error += far * (6.0 + reach) * (held + own + slope)
            size += held
            error += 1.02 * off * (held + slope + off * own + LOST_IN_SINGLE_SUMS)
            if not (off <= 0.01 and reach <= FAR):
                error = math.inf
        damp = math.exp(-gamma * square)
        # What is computed in doubles errs relatively, by so many units of all its terms.
        error += units * (1.0 + gamma * square) * (weight * (1.0 + widest * norm) + size)
        bound = safety * damp * error + 1e-15 * abs(intercept) + constant
        if square <= MOST_SQUARE and bound < math.inf:
            scores[first + i, 0] = damp * ((total + dot) + bent) + intercept
            bounds[first + i, 0] = bound
        else:
            scores[first + i, 0], bounds[first + i, 0] = intercept, math.inf


@kernel(by_row=("rows", "scores", "bounds"), inside=("rows", "scores", "bounds"))
def row_tangents(
    rows: Matrix,
    point: Vector,
    order: Longs,
    gamma: float,
    panels: Singles,
    weights: Singles,
    starts: Longs,
    linear: Vector,
    signs: Vector,
    terms: Matrix,
    constants: Vector,
    scores: OutMatrix,
    bounds: OutMatrix,
) -> None:
    """Scores (m, 1) and bounds (m, 1) of dense rows.

    Parameters: those of `panel_sums.SCORES`, with |b_i| instead of exponents; sum_i b_i 2 gamma s_i
    (d,); of each block what t errs by (three numbers, see `fused_tangents`), 2 gamma R and
    sum |b_i|, (B, 5); constants (10,).
    """
    tall, length, blocks = min(TANGENT_ROWS, len(rows)), len(order), len(starts) - 1
    w, shifts = np.empty((tall, length), np.float32), np.empty(tall, np.float32)
    norms, sums = np.empty((tall, 3)), np.empty((tall, 2 * blocks))
    each = chain_weights(order, len(point))
    width, step, far = len(weights) // starts[-1], 4 * length, 16 * blocks
    fixed, out, apart = (linear, signs, terms, constants), (scores, bounds), 8 * blocks
    for first in range(0, len(rows), TANGENT_ROWS):
        count = min(tall, len(rows) - first)
        part = rows[first : first + count]
        ready_rows(part, point, order, each, gamma, w, shifts, norms)
        whole = count // SEVERAL * SEVERAL
        for i in range(count):
            norms[i, 2] = math.sqrt(norms[i, 0])
        for start in range(0, whole, SEVERAL):
            longest = 0.0
            for i in range(start, start + SEVERAL):
                if norms[i, 2] > longest:  # what is not a number is not
                    longest = norms[i, 2]
            # The same for the whole group, so that all of it is taken at once or row by row.
            norms[start : start + SEVERAL, 2] = longest
        for block in range(blocks):
            begin, panel_count = starts[block], starts[block + 1] - starts[block]
            x = np.uintp(panels.ctypes.data) + np.uintp(begin * width * step)
            b = np.uintp(weights.ctypes.data) + np.uintp(4 * begin * width)
            at = np.uintp(sums.ctypes.data) + np.uintp(8 * block)
            here = np.uintp(w.ctypes.data)
            i = 0
            while i < count:
                row, to = here + np.uintp(i * step), at + np.uintp(i * far)
                reach, taken = terms[block, 2] * norms[i, 2], SEVERAL
                if i >= whole or not reach <= MID:  # each as far as it is itself
                    reach, taken = terms[block, 2] * math.sqrt(norms[i, 0]), 1
                given = row, step, length, x, width * step, panel_count, b, to, far, apart
                if taken == 1:
                    if reach <= NEAR:
                        _one_near(*given)
                    elif reach <= MID:
                        _one_mid(*given)
                    else:
                        _one_far(*given)
                elif reach <= NEAR:
                    _several_near(*given)
                else:
                    _several_mid(*given)
                i += taken
        _finish(part, point, gamma, sums, norms, fixed, first, out)


@kernel(by_row=("rows", "scores", "bounds"))
def entry_tangents(
    rows: Matrix,
    point: Vector,
    order: Longs,
    gamma: float,
    least: Vector,
    panels: Singles,
    weights: Singles,
    starts: Longs,
    linear: Vector,
    signs: Vector,
    terms: Matrix,
    constants: Vector,
    scores: OutMatrix,
    bounds: OutMatrix,
) -> None:
    """As `row_tangents`, for dense rows of which few features are off the point."""
    tall, length, blocks = min(TANGENT_ROWS, len(rows)), len(order), len(starts) - 1
    indptr, most = np.empty(tall + 1, np.int64), tall * length
    indices, data = np.empty(most, np.int32), np.empty(most, np.float32)
    shifts, norms, sums = (
        np.empty(tall, np.float32),
        np.empty((tall, 3)),
        np.empty((tall, 2 * blocks)),
    )
    width, step = len(weights) // starts[-1], 4 * length
    fixed, out, apart = (linear, signs, terms, constants), (scores, bounds), 8 * blocks
    for first in range(0, len(rows), TANGENT_ROWS):
        count = min(tall, len(rows) - first)
        part = rows[first : first + count]
        ready_entries(part, point, order, gamma, least, indptr, indices, data, shifts, norms)
        norms[:count, 2] = np.sqrt(norms[:count, 0])
        for block in range(blocks):
            begin, panel_count = starts[block], starts[block + 1] - starts[block]
            x = np.uintp(panels.ctypes.data) + np.uintp(begin * width * step)
            b = np.uintp(weights.ctypes.data) + np.uintp(4 * begin * width)
            for i in range(count):
                where = np.uintp(indices.ctypes.data) + np.uintp(4 * indptr[i])
                values, held = np.intp(data.ctypes.data) + 4 * indptr[i], indptr[i + 1] - indptr[i]
                to = np.uintp(sums.ctypes.data) + np.uintp(8 * (2 * i * blocks + block))
                if terms[block, 2] * math.sqrt(norms[i, 0]) <= NEAR:
                    _entries_near(
                        where, values, held, x, width * step, panel_count, b, to, 8, apart
                    )
                elif terms[block, 2] * math.sqrt(norms[i, 0]) <= MID:
                    _entries_mid(where, values, held, x, width * step, panel_count, b, to, 8, apart)
                else:
                    _entries_far(where, values, held, x, width * step, panel_count, b, to, 8, apart)
        _finish(part, point, gamma, sums, norms, fixed, first, out)
