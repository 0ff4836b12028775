"""Values in single precision by what exponentials add to their tangents (`kernels.tangents`).

    f(z) = b + exp(-gamma |u|^2) (c + v.u + sum_i b_i h(t_i)),    t_i = 2 gamma s_i.u

A block of centers of one sign has H = sum |b_i| h(t_i), M = sum |b_i t_i| and B = sum |b_i|. Where
t_i errs by at most D <= 0.01, |h'(t)| = |exp(t) - 1| <= h(t) + |t| gives for the block

    |error| <= 1.02 D (H + M + D B) + relative H

D is as `panels` has it, for products alone; `relative` holds the polynomial, its Horner steps in
single precision, b_i, and the sums. Where no polynomial reaches, powers of two err by 6 + 2 |t|
units, which is of h + 1 + |t|; with the differences and all sums that is less than 5 (6 + |t|)
units of H + B + M. All else is computed in doubles, and errs by units of them.

Several outputs (`kernels.tangent_values`) share the t_i. With b_ij = a_ij exp(-gamma |s_i|^2),

    f_j(z) = b_j + exp(-gamma |u|^2) (sum_i b_ij + v_j.u + sum_i b_ij h(t_i))

Of each output, H = sum_i |b_ij| h(t_i), M = sum_i |b_ij t_i| and B = sum_i |b_ij|, and the error
is bounded as above.

One more column of sums serves the bounds of all: with w_i = max_j |b_ij| / c_j,

    H <= c_j sum_i w_i h(t_i),      M <= sqrt(B H / q(-T)),

since h(t) = t^2 q(t) and q grows, so that t^2 <= h(t) / q(-T) for all |t| <= T (Cauchy-Schwarz).
T is 3.5, or the largest |t| that the kernel met, if that is larger: h of such t comes from powers
of two, whose error is one of h + 1 + |t| < 2.8 h there, and 1 / q(-T) <= T^2 / (T - 1). One-vs-one
centers stand class by class, with the columns of their own K - 1 pairs and a w of their own; an
output is the sum of two classes' columns.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.exact_rounding import ExactRounding
from kernelite.backends.cpu.fused_sums import (
    LEAST_SUM_WORK,
    MOST_NORM,
    MOST_PANEL_NUMBERS,
    Call,
    PanelSums,
)
from kernelite.backends.cpu.panels import BLOCK_PANELS, LOG2_E, Layout, Panels, aligned
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FLOAT64, FloatArray
from kernelite.machine.pairs import classes_of_centers, columns_of_class, n_classes, sides_of_pairs
from kernelite.series.rounding import SAFETY, SINGLE_UNIT, UNIT
from kernelite.support.records import dataclass

__all__ = ["HORNER_UNITS", "POLYNOMIAL_ERRORS", "SeveralTangents", "tangent_sums"]

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
    if not n or layout.size > MOST_PANEL_NUMBERS or not rounding.in_range:
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
    linear[layout.order] = 2.0 * gamma * layout.weighted(weights)
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
    dropped, chains = float(np.linalg.norm(layout.least)), layout.chains()
    terms = np.empty((len(blocks), 6))
    for number, block in enumerate(blocks):
        x = scale * math.sqrt(float(layout.squares[block].max()))
        terms[number] = (
            SINGLE_UNIT * scale * float(chains[block].max()),
            (2.1 * SINGLE_UNIT + UNIT * (d + 8)) * x,
            x,
            float(sizes[block].sum()),
            x * dropped + 1e-15,  # and entries too small for single precision
            SINGLE_UNIT * x,
        )
    # The terms' own roundings, and |t| as it is computed.
    return terms * (1.0 + 1e-3)


# Several outputs.

SUMMED_UNITS = 22.0  # of |b_ij|, two products, sixteen sums of a lane and one of two halves
SHALLOW = 1.0 / 0.2065  # 1 / q(-3.5), rounded up
BEYOND = 2.8  # (h + 1 + |t|) / h beyond |t| = 3.5, rounded up: it is largest at -3.5
LEAST_SEVERAL_ROWS = 24  # that a thread takes at once


@dataclass(frozen=True, eq=False)
class SeveralTangents:
    """An expansion of several outputs laid out in panels: `run` gives scores and bounds of rows.

    Parameters
    ----------
    panels : Panels
    fixed : tuple
        What the kernel takes between rows and scores.
    n_outputs : int
        k.
    """

    panels: Panels
    fixed: tuple[Any, ...]
    n_outputs: int

    most_error = math.inf

    @classmethod
    def prepare(cls, rounding: ExactRounding, layout: Layout) -> SeveralTangents | None:
        """Lay the centers out; None where |t| of rows like them is out of reach."""
        from kernelite.backends.cpu.kernels.exp2 import SINGLE
        from kernelite.backends.cpu.kernels.tangent_values import LANES_OF_SUMS, TILE_PANELS
        from kernelite.backends.cpu.kernels.tangents import REACHES

        expansion, gamma, squares = rounding.expansion, layout.gamma, layout.squares
        (n, k), d = expansion.coefficients.shape, len(layout.point)
        if not n or layout.size > MOST_PANEL_NUMBERS or not rounding.in_range:
            return None
        if not 2.0 * gamma * float(np.median(squares)) <= REACHES[1]:  # of rows like the centers
            return None
        weights = expansion.coefficients * np.exp(-gamma * squares)[:, None]
        sizes, reach = np.abs(weights), 2.0 * gamma * math.sqrt(float(squares.max()))
        if not 0.0 < float(sizes.max()) <= MOST_WEIGHT or not reach <= MOST_NORM:
            return None
        own = _WeightColumns.of(expansion.coefficients)
        order = np.concatenate(own.groups)
        natural = replace(layout, gamma=gamma / LOG2_E)  # exponents of e, not of two
        panels = Panels.lay_out(natural, SINGLE, own.groups)
        panels = replace(panels, layout=layout)
        # Where padded centers are, and which panels a tile has: none of two groups.
        counts = np.array([-(-len(group) // SINGLE.panel) for group in own.groups])
        ends = np.cumsum(counts)
        steps = [np.arange(end - count, end, TILE_PANELS) for end, count in zip(ends, counts)]
        first = np.concatenate([c * own.wide + 0 * each for c, each in enumerate(steps)])
        scale = np.ones(k) if own.owned else _scales(sizes)
        table = np.zeros((own.wide, int(ends[-1]) * SINGLE.panel), np.float32)
        for group, columns, end, count in zip(own.groups, own.columns, ends, counts):
            start = int(end - count) * SINGLE.panel
            at = slice(start, start + len(group))
            table[:-1, at] = weights[group][:, columns].T
            shared = (sizes[group][:, columns] / scale[columns]).max(axis=1)
            table[-1, at] = shared * (1.0 + 1e-6)  # rounded up
        linear = np.zeros((d, -(-k // LANES_OF_SUMS) * LANES_OF_SUMS))
        linear[layout.order, :k] = 2.0 * gamma * layout.weighted(weights)
        total = sizes.sum(axis=0) * (1.0 + 1e-9)
        terms = tangent_terms(layout, [order], sizes.max(axis=1))[0]
        smallest = float(sizes[sizes > 0.0].min())
        lost = LOST_TANGENT_TERMS if smallest >= LEAST_SINGLE else LOST_FAR
        constant = rounding.constant + lost * n + LOST_TANGENT_TERMS * total
        outputs = weights.sum(axis=0), expansion.intercept, constant, scale * (1.0 + 1e-9), total
        near, mid = (
            error + (steps + SUMMED_UNITS) * SINGLE_UNIT
            for error, steps in zip(POLYNOMIAL_ERRORS, HORNER_UNITS)
        )
        fixed = (
            *(layout.point, layout.order, layout.gamma, panels.lines, aligned(table)),
            *(np.append(np.concatenate(steps), ends[-1]).astype(np.int64), first.astype(np.int64)),
            *(float(terms[2]), linear, own.sides.reshape(-1), np.stack(outputs).view(FLOAT64)),
            np.array(
                [
                    *(terms[0], terms[1], terms[4], near, mid, BEYOND * FAR_UNITS * SINGLE_UNIT),
                    *(doubles_units(layout, n), terms[2], SHALLOW, SAFETY),
                ]
            ),
        )
        return cls(panels, fixed, k)

    def run(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores and bounds, each of shape (m, k)."""
        from kernelite.backends.cpu.kernels.tangent_values import several_tangents

        m, numbers = len(rows), self.panels.layout.size + self.fixed[4].size
        scores, bounds = np.empty((m, self.n_outputs)), np.empty((m, self.n_outputs))
        least = max(LEAST_SEVERAL_ROWS, int(LEAST_SUM_WORK / numbers))
        rows = np.ascontiguousarray(rows)
        share_rows(several_tangents, m, least, rows, *self.fixed, scores, bounds)
        return scores, bounds


@dataclass(frozen=True, eq=False)
class _WeightColumns:
    """Which coefficients centers have, and where the sums of each output are.

    Parameters
    ----------
    groups : list of ndarrays
        Centers that have the same columns.
    columns : list of ndarrays
        These columns.
    owned : bool
        Whether groups are classes.
    wide : int
        Columns of a group, with the one that bounds need.
    sides : ndarray of shape (4, k)
        Columns of sums: an output's own, twice, and those of its bound; for none, the one that
        comes after all.
    """

    groups: list[NDArray[np.intp]]
    columns: list[NDArray[np.intp]]
    owned: bool
    wide: int
    sides: NDArray[np.int64]

    @classmethod
    def of(cls, coefficients: FloatArray) -> _WeightColumns:
        """Class by class where columns are pairs of classes; else all together."""
        n, k = coefficients.shape
        owner = classes_of_centers(coefficients)
        if owner is None:
            nothing = np.full(k, k + 1)
            sides = np.stack([np.arange(k), nothing, np.full(k, k), nothing])
            return cls([np.arange(n)], [np.arange(k)], False, k + 1, sides.astype(np.int64))
        K = n_classes(k) or 1
        groups = [np.flatnonzero(owner == c) for c in range(K)]
        columns = [columns_of_class(K, c) for c in range(K)]
        sums, classes = sides_of_pairs(K), np.stack(np.triu_indices(K, 1))
        sums = sums // (K - 1) * K + sums % (K - 1)
        sides = np.concatenate([sums, classes * K + K - 1])
        return cls(groups, columns, True, K, sides.astype(np.int64))


def _scales(sizes: FloatArray) -> FloatArray:
    """c_j: what each output's |b_ij| add up to, or 1 where that is nothing."""
    total = sizes.sum(axis=0)
    return np.where(total > 0.0, total, 1.0)
