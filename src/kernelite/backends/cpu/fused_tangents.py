"""Values in single precision by what exponentials add to their tangents (`kernels.tangents`).

    f(z) = b + exp(-gamma |u|^2) (c + v.u + sum_i b_i h(t_i)),    t_i = 2 gamma s_i.u

A block of centers of one sign has H = sum |b_i| h(t_i), M = sum |b_i t_i| and B = sum |b_i|. Where
t_i errs by at most D <= 0.01, |h'(t)| = |exp(t) - 1| <= h(t) + |t| gives for the block

    |error| <= 1.02 D (H + M + D B) + relative H

D is as `panels` has it, for products alone; `relative` holds the polynomial, its Horner steps in
single precision, b_i, and the sums. Where no polynomial reaches, powers of two err by 6 + 2 |t|
units, which is of h + 1 + |t|; with the differences and all sums that is less than 5 (6 + |t|)
units of H + B + M. All else is computed in doubles, and errs by units of them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.exact_rounding import ExactRounding
from kernelite.backends.cpu.fused_sums import MOST_PANEL_NUMBERS, Call, PanelSums
from kernelite.backends.cpu.panels import BLOCK_PANELS, LOG2_E, Layout, Panels
from kernelite.data.rows.inputs import FloatArray
from kernelite.series.rounding import SAFETY, SINGLE_UNIT, UNIT

__all__ = [
    "FAR_UNITS",
    "HORNER_UNITS",
    "LEAST_SINGLE",
    "LOST_FAR",
    "LOST_TANGENT_TERMS",
    "MOST_WEIGHT",
    "POLYNOMIAL_ERRORS",
    "doubles_units",
    "tangent_sums",
    "tangent_terms",
]

# Of the polynomials for q: what they err by, and what Horner's steps add to that in units of single
# precision: sum_k (k + 2) |c_k| T^k / q(-T), at most (exp(T) - 1) / T / q(-T).
POLYNOMIAL_ERRORS = 1e-7, 5e-7
HORNER_UNITS = 4.0, 46.0
FAR_UNITS = 5.0  # times 6 + |t|: exponentials, differences and all sums
OTHER_UNITS = 11.0  # of |b_i|, three products, sums of a panel and of a vector's lanes
# Centers whose |b_i| underflows in doubles would be left out, and be all of the value near them.
LEAST_WEIGHT = 1e-290
# What single precision loses of a smaller |b_i| is at most 1.2e-38, times h(t_i) up to exp(40).
LEAST_SINGLE, LOST_FAR = 1e-30, 1e-20
MOST_WEIGHT = 1e25  # of |b_i|, which single precision multiplies
LOST_TANGENT_TERMS = 1e-30  # more than what a |b_i| h(t_i) that underflows would have added


def tangent_sums(rounding: ExactRounding, layout: Layout) -> PanelSums | None:
    """Lay the centers of one output out; None where |t| of rows like them is out of reach.

    Panels hold 2 gamma s_i, with |b_i| instead of exponents. Terms of a block, (B, 6): what t errs
    by, times the chain of a row's entries, times |u|; then 2 gamma R, sum |b_i|, a constant error;
    and the first one where only some entries are multiplied.
    """
    from kernelite.backends.cpu.kernels.exp2 import SINGLE
    from kernelite.backends.cpu.kernels.tangents import REACHES, entry_tangents, row_tangents

    expansion, gamma, squares = rounding.expansion, layout.gamma, layout.squares
    n = len(squares)
    if not n or layout.shifted.size > MOST_PANEL_NUMBERS or not rounding.in_range:
        return None
    if not 2.0 * gamma * float(np.median(squares)) <= REACHES[1]:  # of rows like the centers
        return None
    weights = expansion.coefficients[:, 0] * np.exp(-gamma * squares)
    sizes = np.abs(weights)
    if not 0.0 < float(sizes.max()) <= MOST_WEIGHT:
        return None
    smallest = float(sizes[expansion.coefficients[:, 0] != 0.0].min(initial=1.0))
    if smallest < LEAST_WEIGHT:
        return None
    lost = LOST_TANGENT_TERMS if smallest >= LEAST_SINGLE else LOST_FAR
    # Exponents of e, not of two.
    natural = replace(layout, gamma=gamma / LOG2_E)
    panels, blocks, signs = Panels.by_sign(natural, SINGLE, weights)
    linear = np.zeros(len(layout.point))
    linear[layout.order] = 2.0 * gamma * (weights @ layout.shifted)
    terms = tangent_terms(layout, blocks, sizes)
    relative = [
        error + (steps + BLOCK_PANELS + OTHER_UNITS) * SINGLE_UNIT
        for error, steps in zip(POLYNOMIAL_ERRORS, HORNER_UNITS)
    ]
    constants = (
        *(float(weights.sum()), float(expansion.intercept[0])),
        *(float(rounding.constant[0]) + n * lost, *relative, FAR_UNITS * SINGLE_UNIT),
        doubles_units(layout, n),
        *(float(sizes.sum()), float(terms[:, 2].max()), SAFETY),
    )
    panels = replace(panels, layout=layout)
    given, fixed = (layout.point, layout.order, layout.gamma), np.array(constants)
    model = panels.lines, panels.exponents, panels.starts, linear, signs
    dense, entries = (
        np.ascontiguousarray(terms[:, own]) for own in ([0, 1, 2, 3, 4], [5, 1, 2, 3, 4])
    )
    calls = [Call(row_tangents, (*given, *model, dense, fixed))]
    if layout.sparse:
        calls.append(Call(entry_tangents, (*given, layout.least, *model, entries, fixed)))
    return PanelSums(panels, signs, terms, fixed, tuple(calls), gives_squares=False)


def doubles_units(layout: Layout, n: int) -> float:
    """What is computed in doubles errs by, relatively to all its terms: twice as many units."""
    largest = layout.gamma * float(layout.squares.max())
    return 2.0 * UNIT * (n + (len(layout.point) + 8) * (3.0 + largest) + 32.0)


def tangent_terms(layout: Layout, blocks: list[NDArray[np.intp]], sizes: FloatArray) -> FloatArray:
    """What the kernel needs of each block, shape (B, 6)."""
    d, scale = len(layout.point), 2.0 * layout.gamma
    chains = scale * layout.chains
    dropped, terms = float(np.linalg.norm(layout.least)), np.empty((len(blocks), 6))
    for number, block in enumerate(blocks):
        x = scale * math.sqrt(float(layout.squares[block].max()))
        terms[number] = (
            SINGLE_UNIT * float(chains[block].max()),
            (2.1 * SINGLE_UNIT + UNIT * (d + 8)) * x,
            x,
            float(sizes[block].sum()),
            x * dropped + 1e-15,  # and entries too small for single precision
            SINGLE_UNIT * x,
        )
    # The terms' own roundings, and |t| as it is computed.
    return terms * (1.0 + 1e-3)
