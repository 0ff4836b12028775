"""The quadratic form for few features: one pass over the rows, in tiles, on vectors of rows.

In: a prepared form and dense rows of shape (m, d). Out: scores of shape (m, k), |u|^2 of shape
(m,), and on request the certificate's bound of each score; or, of one output, which rows these
settle, and labels (`judging`).

    g = c + sum_{a <= b} m_ab u_a u_b + v.u,     m_ab = 2 M_ab off the diagonal

Twin: `QuadraticForm.evaluate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.bounds import NO_CERTIFICATE, JitCertificate, bound_tile
from kernelite.backends.cpu.kernels.compiling import (
    Blocks,
    Longs,
    Matrix,
    OutBools,
    OutLongs,
    OutMatrix,
    OutVector,
    Vector,
    kernel,
)
from kernelite.backends.cpu.kernels.exp import exp_nonpositive
from kernelite.backends.cpu.kernels.judging import UNJUDGED, add_counts, judge_tile, settle_open
from kernelite.backends.cpu.kernels.tiles import (
    FORM_WORK,
    TILE_HEIGHT,
    add_triangle,
    aligned,
    damp_tile,
    load_mapped_tile,
    load_tile,
    load_words_tile,
    padded,
    square_tile,
    triangle_blocks,
)
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FLOAT64, FloatArray
from kernelite.machine.affine import AffineMap
from kernelite.program.bounded import Bounded
from kernelite.series.series import QuadraticForm

__all__ = ["JitForm", "prepare", "scores"]


@dataclass(frozen=True, eq=False)
class JitForm:
    """A quadratic form laid out for the kernel.

    Parameters
    ----------
    form : QuadraticForm
    point : ndarray of shape (d,)
        p.
    blocks : ndarray of shape (k, n_blocks, 16)
        The upper triangle of M in 4 x 4 blocks, row by row, off-diagonals doubled.
    outputs : ndarray of shape (k, 2 + 4 ceil(d / 4))
        c, b and v of each output, v filled up with zeros.
    gamma : float
        0 when no exponential is wanted.
    """

    form: QuadraticForm
    point: FloatArray
    blocks: FloatArray
    outputs: FloatArray
    gamma: float

    @property
    def n_outputs(self) -> int:
        """k."""
        return len(self.outputs)

    @cached_property
    def least_rows(self) -> int:
        """Rows that are worth a thread."""
        work = 16.0 * self.blocks.shape[0] * self.blocks.shape[1] + 8.0 * len(self.point) + 32.0
        return TILE_HEIGHT * max(1, int(FORM_WORK / work / TILE_HEIGHT))


def prepare(form: QuadraticForm) -> JitForm:
    """Lay out a form for the kernel.

    Examples
    --------
    >>> from kernelite.series.series import quadratic_form
    >>> from kernelite.machine.expansion import KernelExpansion
    >>> one = KernelExpansion([[1.0, 0.0]], [1.0], 0.0, gamma=0.5)
    >>> prepare(quadratic_form(one, np.zeros(2))).blocks.shape
    (1, 1, 16)
    """
    d, k = form.n_features, form.n_outputs
    blocks = triangle_blocks(np.triu(form.quadratic) + np.triu(form.quadratic, 1))
    outputs = np.zeros((k, 2 + padded(d)))
    outputs[:, 0], outputs[:, 1] = form.constant, form.intercept
    outputs[:, 2 : 2 + d] = form.linear.T
    gamma = form.gamma if form.damped else 0.0
    return JitForm(form, np.ascontiguousarray(form.point).view(FLOAT64), blocks, outputs, gamma)


def scores(
    form: JitForm,
    rows: FloatArray,
    certificate: JitCertificate = NO_CERTIFICATE,
    input_map: AffineMap | None = None,
) -> Bounded:
    """f^ of each row with |u|^2, and bounds if there is a certificate.

    Parameters
    ----------
    form : JitForm
    rows : ndarray of shape (m, d)
        C-contiguous float64.
    certificate : JitCertificate, optional
    input_map : AffineMap, optional
        Rows are mapped as they are read.

    Examples
    --------
    >>> from kernelite.series.series import quadratic_form
    >>> from kernelite.machine.expansion import KernelExpansion
    >>> one = KernelExpansion([[1.0]], [1.0], 0.0, gamma=0.5)
    >>> form = prepare(quadratic_form(one, np.array([1.0])))
    >>> scores(form, np.array([[1.0], [2.0]])).scores.round(4)
    array([[1.    ],
           [0.6065]])
    """
    m, k = len(rows), form.n_outputs
    values, sq_norms, proven = np.empty((m, k)), np.empty(m), len(certificate.numbers) > 0
    bounds = np.empty((m, k)) if proven else _NOTHING
    fixed = fixed_arguments(form, certificate, input_map)
    share_rows(form_kernel, m, form.least_rows, rows, *fixed, *UNJUDGED, values, sq_norms, bounds)
    return Bounded(values, bounds if proven else None, sq_norms)


_NOTHING = np.empty((0, 0))


def judged_pass(
    form: JitForm, certificate: JitCertificate, input_map: AffineMap | None
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """The kernel, what it takes between rows and rule, and for |u|^2 and bounds, not asked for."""
    return form_kernel, fixed_arguments(form, certificate, input_map), (np.empty(0), _NOTHING)


def fixed_arguments(
    form: JitForm, certificate: JitCertificate, input_map: AffineMap | None
) -> tuple[Any, ...]:
    """What the kernel takes between the rows and how they are judged."""
    way = _NOTHING if input_map is None else input_map.way(form.point)
    return form.point, way, form.blocks, form.outputs, form.gamma, certificate.numbers


@kernel(by_row=("rows", "answers", "is_open", "values", "sq_norms", "bounds"))
def form_kernel(
    rows: Matrix,
    point: Vector,
    way: Matrix,
    blocks: Blocks,
    outputs: Matrix,
    gamma: float,
    certificate: Matrix,
    rule: Vector,
    words: Longs,
    behind: Longs,
    behind_rule: Vector,
    counts: OutLongs,
    answers: OutLongs,
    is_open: OutBools,
    values: OutMatrix,
    sq_norms: OutVector,
    bounds: OutMatrix,
) -> None:
    m, d = rows.shape
    n_open, outside, unknown = 0, 0, 0
    k = outputs.shape[0]
    features = (d + 3) // 4 * 4
    room = aligned((features + 4) * TILE_HEIGHT).reshape(features + 4, TILE_HEIGHT)
    room[:] = 0.0
    tile, squares, exponentials = room[:features], room[features], room[features + 1]
    g, bound = room[features + 2], room[features + 3]
    for start in range(0, m, TILE_HEIGHT):
        count = min(TILE_HEIGHT, m - start)
        width = (count + 7) // 8 * 8
        if len(way) == 4:
            load_words_tile(rows, start, count, way, tile)
        elif len(way) > 0:
            load_mapped_tile(rows, start, count, way, tile)
        else:
            load_tile(rows, start, count, point, tile)
        square_tile(tile, width, squares)
        for r in range(width):
            exponentials[r] = exp_nonpositive(-gamma * squares[r]) if gamma > 0.0 else 1.0
        if len(sq_norms) > 0:
            for r in range(count):
                sq_norms[start + r] = squares[r]
        for j in range(k):
            g[:width] = outputs[j, 0]
            add_triangle(tile, width, blocks[j], outputs[j, 2:], g)
            damp_tile(exponentials, width, outputs[j, 1], g)
            if len(values) > 0:
                for r in range(count):
                    values[start + r, j] = g[r]
            if len(certificate) > 0:
                numbers = certificate[j]
                bound_tile(squares, squares, exponentials, g, gamma, 0.0, numbers, width, bound)
                if len(bounds) > 0:
                    for r in range(count):
                        bounds[start + r, j] = bound[r]
        if len(rule) > 0:
            lines = g, bound, squares
            found = judge_tile(lines, start, count, rule, words, answers, is_open)
            n_open, outside, unknown = n_open + found[0], outside + found[1], unknown + found[2]
    if len(rule) > 0:
        add_counts(counts, n_open, outside, unknown)
        if n_open and len(behind) > 0:
            settle_open(rows, way, behind, behind_rule, words, counts, answers, is_open, n_open)
