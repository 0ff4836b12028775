"""Exact sums in one pass over panels: one output's, in single or double precision; then several.

    sum_i a_i K_i = sum_{a_i > 0} 2^(y_i) - sum_{a_i < 0} 2^(y_i)

with log2 |a_i| inside the exponent: no coefficient is multiplied, and the two sums also give
S = sum_i |a_i| K_i, which bounds are made of. Centers of one sign stand together, by their norms,
so that a block's own reach bounds its errors. Of a block found as s, with the exponent's error e
(`panels`), exp2's error and the roundings of sums,

    |error| <= s (2^e - 1 + (EXP2 + panels + 12) v) + what was cut off below 2^smallest.

Doubles with quick exponentials add theirs to the bracket: 8e-8 s or 2e-9 s in all, where single
precision's bound is some 5e-6 s. Values whose tolerance that meets are served by them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.exact_rounding import ExactRounding
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.panels import BLOCK_PANELS, LOG2_E, Layout, Panels, aligned, error_terms
from kernelite.backends.cpu.threads import share_out, share_rows
from kernelite.data.rows.inputs import FLOAT64, FloatArray, Rows, dense_block, is_sparse
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import SigmoidKernel
from kernelite.machine.pairs import classes_of_centers, columns_of_class, n_classes, sides_of_pairs
from kernelite.series.rounding import LOST_TERMS, SAFETY, SINGLE_UNIT, UNIT
from kernelite.support.records import dataclass

if TYPE_CHECKING:
    from kernelite.backends.cpu.exact_dense import DenseExact
    from kernelite.backends.cpu.kernels.judging import InsideCalls

__all__ = [
    "EXP2_ERROR",
    "MOST_NORM",
    "MOST_PANEL_NUMBERS",
    "Call",
    "FusedValues",
    "PanelSums",
    "in_precision",
    "rbf_sums",
    "sigmoid_sums",
]

EXP2_ERROR = 6.0  # units that a power of two errs by, in either precision
MOST_LOG = 60.0  # of |log2 |a||: products with kernel values stay in range
MOST_NORM = 1e15  # of |u| and 2 g |s| in single precision: nothing overflows or gets lost
MOST_PANEL_NUMBERS = 1 << 28  # of panels: a gigabyte in single precision
LEAST_SUM_ROWS = 24  # that a thread takes at once
LEAST_SUM_WORK = 1e6  # multiply-adds that are worth a thread: some tens of microseconds
NO_BOUNDS, NO_SQUARES = np.empty((0, 1)), np.empty(0)  # where none are asked for


class Call(NamedTuple):
    """A kernel, and what it takes between rows and answers."""

    kernel: Any
    fixed: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class PanelSums:
    """An expansion of one output laid out in panels: `run` gives scores and bounds of rows.

    What is summed is the profile's matter: `rbf_sums`, `fused_tangents` and `sigmoid_sums` lay the
    centers out, derive the bounds, and name the kernels.

    Parameters
    ----------
    panels : Panels
    signs : ndarray of shape (B,)
        Of the blocks.
    terms : ndarray of shape (B, ...)
        What a block adds to bounds.
    constants : ndarray
        What scores and bounds have besides, in the order of the kernels.
    calls : tuple of Call
        For dense rows; then, where there are such, for their entries, and for CSR rows.
    most_error : float
        The bound of a row as far from p as any center is; infinite where that is not known.
    gives_squares : bool
        Whether the kernels give |u|^2, too.
    rounding : PointwiseRounding, optional
        What bounds that kernels give do not have yet.
    """

    panels: Panels
    signs: FloatArray
    terms: FloatArray
    constants: FloatArray
    calls: tuple[Call, ...]
    most_error: float = math.inf
    gives_squares: bool = True
    rounding: Any = None

    def scores(self, rows: FloatArray, out: FloatArray) -> FloatArray:
        """Scores into `out` of shape (m, 1); returns |u|^2, shape (m,)."""
        squares = np.empty(len(rows))
        found = out if out.flags.c_contiguous else np.empty(out.shape)
        self.fill(rows, found, NO_BOUNDS, squares)
        if found is not out:
            out[...] = found
        return squares

    def run(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Scores and bounds, each of shape (m, 1)."""
        scores, bounds = np.empty((rows.shape[0], 1)), np.empty((rows.shape[0], 1))
        self.fill(rows, scores, bounds, NO_SQUARES)
        return scores, bounds

    def fill(self, rows: Rows, scores: FloatArray, bounds: FloatArray, squares: FloatArray) -> None:
        """Fill scores (m, 1), bounds (m, 1) and |u|^2 (m,); the last two may be empty."""
        m = rows.shape[0]
        if self.rounding is not None and not len(squares):
            squares = np.empty(m)
        out = (scores, bounds, squares) if self.gives_squares else (scores, bounds)
        few = len(self.calls) > 1 and self.panels.layout.few_entries(rows)
        if is_sparse(rows) and few and len(self.calls) > 2:
            share_out(lambda block: self._take_sparse(rows, block, out), m, self.least_rows)
            return
        if is_sparse(rows):
            rows = dense_block(rows, slice(None))
        kernel, fixed = self.calls[few]
        given = self.least_rows, np.ascontiguousarray(rows), *fixed, *out
        share_rows(kernel, m, *given, held=self.held_rows)
        if self.rounding is not None:
            bounds += self.rounding.bounded(scores, squares)

    def _take_sparse(self, rows: Any, block: slice, out: tuple[FloatArray, ...]) -> None:
        from kernelite.backends.cpu.kernels.densify import check_canonical

        kernel, fixed = self.calls[2]
        starts = rows.indptr[block.start : block.stop + 1].astype(np.int64)
        given = starts, rows.indices.astype(np.int32, copy=False), rows.data
        seen = np.empty(len(self.panels.layout.point), np.int64)
        bad = kernel(*given, *fixed, seen, *(one[block] for one in out))
        check_canonical(bad, block.start, rows.shape[1])

    @cached_property
    def least_rows(self) -> int:
        """Rows that are worth a thread."""
        return max(LEAST_SUM_ROWS, self.held_rows)

    @cached_property
    def held_rows(self) -> int:
        """Rows for which the interpreter's lock is kept: none of a large model's."""
        return int(LEAST_SUM_WORK / max(self.panels.layout.size, 1))

    @cached_property
    def inside(self) -> InsideCalls | None:
        """What the kernel of a form is told that calls this for its open rows.

        None where bounds are not ready, where rows may have few entries, or one row takes long.
        """
        from kernelite.backends.cpu.kernels.judging import InsideCalls, Link

        kernel, fixed = self.calls[0]
        if not kernel.kernel.inside or self.rounding is not None or not self.held_rows:
            return None
        if len(self.calls) > 1:
            return None
        rows, squares = np.empty((1, len(self.panels.layout.point))), (NO_SQUARES,)
        out = np.empty((1, 1)), np.empty((1, 1))
        given = rows, *fixed, *out, *(squares if self.gives_squares else ())
        return InsideCalls(Link(kernel, given))


def rbf_sums(rounding: ExactRounding, layout: Layout, precision: Any) -> PanelSums | None:
    """Lay the centers of an RBF kernel out; None where numbers would not fit."""
    coefficients = rounding.expansion.coefficients[:, 0]
    if layout.size > MOST_PANEL_NUMBERS:
        return None
    reach = 2.0 * layout.g * float(np.sqrt(layout.squares.max(initial=0.0)))
    if not _in_exponents(coefficients) or not reach <= MOST_NORM:
        return None
    panels, blocks, signs = Panels.by_sign(layout, precision, coefficients, inside=True)
    unit = SINGLE_UNIT if precision.size == 4 else (len(layout.order) + 4) * UNIT
    return _summed(panels, signs, error_terms(layout, blocks, unit, coefficients), rounding)


def _in_exponents(coefficients: FloatArray) -> bool:
    """Whether log2 |a_i| may be part of exponents."""
    sizes = np.abs(coefficients)
    least = float(np.min(sizes, where=sizes > 0.0, initial=1.0))
    return math.log2(max(float(sizes.max(initial=0.0)), 1.0)) <= MOST_LOG >= -math.log2(least)


def in_precision(sums: PanelSums, rounding: ExactRounding, precision: Any) -> PanelSums:
    """The same panels of an RBF kernel in doubles, with other exponentials."""
    return _summed(replace(sums.panels, precision=precision), sums.signs, sums.terms, rounding)


def _summed(
    panels: Panels, signs: FloatArray, terms: FloatArray, rounding: ExactRounding
) -> PanelSums:
    """Panels of an RBF kernel with their kernels and constants."""
    from kernelite.backends.cpu.kernels import panel_sums

    layout, precision, constants = panels.layout, panels.precision, _constants(panels, rounding)
    model = panels.lines, panels.exponents, panels.starts, signs
    # Where all features, or a row's entries, are multiplied.
    dense, entries = (np.ascontiguousarray(terms[:, own]) for own in ([0, 1, 2, 3], [4, 1, 2, 3]))
    given = layout.point, layout.order, layout.g
    calls = [Call(panel_sums.SCORES[precision], (*given, *model, dense, constants))]
    if precision.size == 4 and layout.sparse:
        fixed = *given, layout.least, *model, entries, constants
        calls.append(Call(panel_sums.entry_scores, fixed))
        places = layout.point, layout.always, layout.places, layout.g, layout.least
        calls.append(Call(panel_sums.sparse_scores, (*places, *model, entries, constants)))
    square = float(layout.squares.max(initial=0.0))
    norm, chain = math.sqrt(square), math.sqrt(len(layout.order) * square)
    off = terms[:, :4] @ np.array([chain, 1.0, norm, square])
    worst = float(off.max(initial=0.0))
    most = SAFETY * float(rounding.weight[0]) * (worst + constants[0]) if worst <= 1.0 else math.inf
    return PanelSums(panels, signs, terms, constants, tuple(calls), most)


def _constants(panels: Panels, rounding: ExactRounding) -> FloatArray:
    """What bounds and scores have besides, in the order of the kernels."""
    precision = panels.precision
    unit = SINGLE_UNIT if precision.size == 4 else UNIT
    relative = (EXP2_ERROR + BLOCK_PANELS + 12.0 + panels.n_blocks * UNIT / unit) * unit
    relative += precision.error
    cut_off = len(panels.exponents) * 2.0**precision.smallest + LOST_TERMS
    intercept = float(rounding.expansion.intercept[0])
    most = MOST_NORM if precision.size == 4 else 1e150
    fixed = float(rounding.constant[0])
    return np.array([relative, cut_off, intercept, fixed, most * most, SAFETY])


@dataclass(frozen=True, eq=False)
class FusedValues:
    """An expansion of several outputs in panels of double precision (`kernels.panel_values`).

    Parameters
    ----------
    panels : Panels
        One-vs-one: class by class.
    runs, columns : ndarrays of shape (R + 1,), (R,)
        Centers that are summed up together, and where their sums begin.
    weights : ndarray of shape (n, wide)
        Coefficients; one-vs-one, of a center's own K - 1 pairs.
    sides : ndarray of shape (2, k)
        Where an output's sums are; one-vs-one, those of both classes, else -1 for the second.
    intercept : ndarray of shape (k,)
    """

    panels: Panels
    runs: NDArray[np.int64]
    columns: NDArray[np.int64]
    weights: FloatArray
    sides: NDArray[np.int64]
    intercept: FloatArray

    @classmethod
    def prepare(cls, layout: Layout, expansion: KernelExpansion) -> FusedValues | None:
        """Lay the centers out; None where they would take gigabytes."""
        from kernelite.backends.cpu.kernels.exp2 import DOUBLE
        from kernelite.backends.cpu.kernels.panel_values import VALUE_CENTERS, VALUE_LANES

        coefficients = expansion.coefficients
        n, k = coefficients.shape
        if layout.size > MOST_PANEL_NUMBERS or not n:
            return None
        owner = classes_of_centers(coefficients)
        K = n_classes(k) or 1
        kinds = [np.arange(n)] if owner is None else [np.flatnonzero(owner == c) for c in range(K)]
        own = [np.arange(k)] if owner is None else [columns_of_class(K, c) for c in range(K)]
        narrow = k if owner is None else K - 1
        wide = -(-narrow // VALUE_LANES) * VALUE_LANES
        weights, runs, columns, first = np.zeros((n, wide)), [], [], 0
        for c, (kind, mine) in enumerate(zip(kinds, own)):
            end = first + len(kind)
            weights[first:end, :narrow] = coefficients[kind][:, mine]
            cuts = [
                first,
                *range(-(-(first + 1) // VALUE_CENTERS) * VALUE_CENTERS, end, VALUE_CENTERS),
            ]
            runs += cuts if len(kind) else []
            columns += [c * wide] * (len(cuts) if len(kind) else 0)
            first = end
        sides = np.stack([np.arange(k), np.full(k, -1)])
        if owner is not None:
            sides = sides_of_pairs(K)
            sides = sides // narrow * wide + sides % narrow
        return cls(
            Panels.lay_out(layout, DOUBLE, [np.concatenate(kinds)]),
            np.array([*runs, n], dtype=np.int64),
            np.array(columns, dtype=np.int64),
            aligned(weights),
            np.ascontiguousarray(sides, dtype=np.int64),
            np.ascontiguousarray(expansion.intercept, dtype=np.float64).view(FLOAT64),
        )

    def scores(self, rows: FloatArray, out: FloatArray) -> FloatArray:
        """Scores into `out` of shape (m, k); returns |u|^2, shape (m,)."""
        from kernelite.backends.cpu.kernels.panel_values import several_scores

        rows, layout, m = np.ascontiguousarray(rows), self.panels.layout, len(rows)
        found, squares = out if out.flags.c_contiguous else np.empty(out.shape), np.empty(m)
        least = max(LEAST_SUM_ROWS, int(LEAST_SUM_WORK / (layout.size + self.weights.size)))
        share_rows(
            *(several_scores, m, least, rows, layout.point, layout.order, layout.g),
            *(self.panels.lines, self.panels.exponents, self.runs, self.columns, self.weights),
            *(*self.sides, self.intercept, found, squares),
        )
        if found is not out:
            out[...] = found
        return squares


# Sigmoid kernels in panels of single precision: a fifth of the time of doubles, a wider bound.
#
# With y_i = 2 log2(e) (gamma x_i.z + coef0), a sigmoid is tanh = 1 - 2 / (1 + 2^y), so that
#
#   sum_i a_i k_i = sum_i a_i - 2 sum_{a_i > 0} |a_i| / (1 + 2^y_i) + 2 sum_{a_i < 0} |a_i| / (...)
#
# in panels (`panels`), with v = 2^-24. y = x.w + r is a product of length L, to which r is added:
#
#     |error of y| <= v (|x|' |w|' + 4 |x| |w| + 4 |r|)
#
# counts rounding x, w and r, and the last sum. 1 / (1 + 2^y) has slope ln(2) / 4 at most; the
# power's 6 v move it by 1.5 v; 1 + 2^y, the quotient and |a| are rounded, 3 v of the value. A
# block's values have one sign, so that summing them errs by (panels + 12) v of what is found.

SINGLE_NORMS = 1e-15, 1e15  # between these, nothing overflows or is lost in single precision


def sigmoid_sums(exact: DenseExact) -> PanelSums | None:
    """Lay the centers of one output out; None for other kernels, and where numbers do not fit.

    Panels hold 2 log2(e) gamma x_i, with |a_i| instead of exponents. Terms of a block, (B, 4): what
    y errs by, times the chain of a row's entries, once, times |z|; then sum |a_i|.
    """
    kernel, expansion = exact.kernel, exact.expansion
    if not isinstance(kernel, SigmoidKernel) or expansion.n_outputs > 1:
        return None
    if not jit_available() or not expansion.coefficients.any():
        return None
    a = expansion.coefficients[:, 0]
    sizes, shift = np.abs(a), 2.0 * LOG2_E * kernel.coef0
    served = 2.0**-MOST_LOG <= sizes[sizes > 0.0].min() <= sizes.max() <= 2.0**MOST_LOG
    reach = 2.0 * LOG2_E * kernel.gamma * exact.rounding.radius
    ranges = SINGLE_NORMS[0] < kernel.gamma and reach < SINGLE_NORMS[1] > abs(shift)
    if not (served and ranges) or exact.centers.size > MOST_PANEL_NUMBERS:
        return None
    from kernelite.backends.cpu.kernels.exp2 import SINGLE
    from kernelite.backends.cpu.kernels.panel_sums import sigmoid_scores

    layout = Layout.about_origin(exact.centers, kernel.gamma)
    panels, blocks, signs = Panels.by_sign(layout, SINGLE, a)
    terms, chains = np.empty((len(blocks), 4)), layout.chains()
    for number, block in enumerate(blocks):
        x = 2.0 * layout.g * np.array([chains[block].max(), layout.reach(block)])
        own = UNIT * (expansion.n_features + 8) * x[1]
        terms[number] = (
            SINGLE_UNIT * x[0],
            4.0 * SINGLE_UNIT * abs(shift) + 1e-15,  # and what is too small to be held
            4.0 * SINGLE_UNIT * x[1] + own,
            float(sizes[block].sum()),
        )
    lost = 2.0 * 2.0**SINGLE.smallest * (len(a) + float(sizes.sum()))
    constants = (
        *(float(a.sum()), shift, float(expansion.intercept[0])),
        len(a) * UNIT * float(sizes.sum()) + lost,
        SAFETY * (BLOCK_PANELS + 12.0 + 3.0) * SINGLE_UNIT,
        *(SAFETY * math.log(2.0) / 4.0, SAFETY * EXP2_ERROR / 4.0 * SINGLE_UNIT),
        SINGLE_NORMS[1] ** 2,
    )
    terms, fixed = terms * (1.0 + 1e-3), np.array(constants)
    model = layout.order, panels.lines, panels.exponents, panels.starts
    calls = (Call(sigmoid_scores, (*model, signs, terms, fixed)),)
    # Besides: what doubles err by, and whatever moved rows and centers before.
    return PanelSums(panels, signs, terms, fixed, calls, rounding=exact.rounding)
