"""The truncated form: rows projected on few directions, in one pass over the input.

    g = c + v.u + y'Cy + mid |u|^2,     y = V'u

In: a prepared form and dense rows of shape (m, d). Out: scores, |u|^2, |y|^2, and on request the
bound of each score, truncation included. Twin: `SpectralForm.evaluate` and `bounds`.
The part that sparse rows share stands first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    helper,
    kernel,
)
from kernelite.backends.cpu.kernels.exp import exp_nonpositive
from kernelite.backends.cpu.kernels.judging import UNJUDGED, add_counts, judge_tile, settle_open
from kernelite.backends.cpu.kernels.project import (
    PROJECT_LANES,
    PROJECT_ROWS,
    SLICE,
    group_sizes,
    lay_out,
    project_rows,
)
from kernelite.backends.cpu.kernels.tiles import (
    FORM_WORK,
    TILE_HEIGHT,
    add_triangle,
    aligned,
    damp_tile,
    square_tile,
    triangle_blocks,
)
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FLOAT64, FloatArray
from kernelite.machine.affine import AffineMap
from kernelite.program.bounded import Bounded
from kernelite.series.rounding import SAFETY
from kernelite.series.spectral import SpectralForm

__all__ = ["JitSpectralForm", "finish_tile", "prepare", "scores", "tile_of"]

# A tile of projected rows to scores and bounds: what dense and sparse rows have in common.
#
#     f^ = E (c + v.u + y'Cy + mid |u|^2) + b,     E = exp(-gamma |u|^2)
#
# In: y, v.u and |u|^2 of a tile's rows, a column per row. Out: scores and, with a certificate,
# bounds with the truncation inside.


@helper
def tile_of(room: FloatArray, blocked: int, k: int) -> Any:
    """y, v.u and |u|^2 of a tile, and four lines to spare, in `room` of blocked + k + 5 lines."""
    rest = blocked + k
    spare = room[rest + 1], room[rest + 2], room[rest + 3], room[rest + 4]
    return (room[:blocked], room[blocked:rest], room[rest]), spare


@helper
def _add_truncation(
    squares: FloatArray,
    reach: FloatArray,
    kept: FloatArray,
    exponentials: FloatArray,
    hidden: float,
    output: FloatArray,
    width: int,
    bound: FloatArray,
) -> None:
    """bound[r] += E (spread |x|^2 + 2 cross |y| |x| + leftover |u|^2), with room for rounding.

    |u|^2 and |y|^2 may be off by `hidden` times the reach.
    """
    spread, cross, leftover = output[3], output[4], output[5]
    for r in range(width):
        off, E = hidden * reach[r], exponentials[r]
        rest = max(squares[r] - kept[r], 0.0) + off
        size = spread * rest + cross * np.sqrt((kept[r] + off) * rest)
        size += leftover * (squares[r] + off)
        bound[r] += 0.0 if E == 0.0 else SAFETY * (E * size)


@helper
def finish_tile(
    start: int, count: int, fixed: Any, folded: Any, tile: Any, spare: Any, results: Any
) -> None:
    """Scores and bounds of a tile's rows from y, v.u and |u|^2.

    `folded` is what the sparse kernel adds: the reach, and by how much of it |u|^2 (`slack`) and
    with |y|^2 (`hidden`) may be off.
    """
    cores, outputs, gamma, certificate, nothing = fixed
    reach, slack, hidden = folded
    Y, linear, squares = tile
    inside, exponentials, g, bound = spare
    values, sq_norms, kept, bounds = results
    width = (count + 7) // 8 * 8
    square_tile(Y, width, inside)
    for r in range(width):
        exponentials[r] = exp_nonpositive(-gamma * squares[r]) if gamma > 0.0 else 1.0
    if len(sq_norms) > 0:
        for r in range(count):
            sq_norms[start + r] = squares[r]
            kept[start + r] = inside[r]
    for j in range(outputs.shape[0]):
        for r in range(width):
            g[r] = outputs[j, 0] + linear[j, r] + outputs[j, 2] * squares[r]
        add_triangle(Y, width, cores[j], nothing, g)
        damp_tile(exponentials, width, outputs[j, 1], g)
        if len(values) > 0:
            for r in range(count):
                values[start + r, j] = g[r]
        if len(certificate) > 0:
            numbers = certificate[j]
            bound_tile(squares, reach, exponentials, g, gamma, slack, numbers, width, bound)
            _add_truncation(squares, reach, inside, exponentials, hidden, outputs[j], width, bound)
            if len(bounds) > 0:
                for r in range(count):
                    bounds[start + r, j] = bound[r]


# Dense rows: projected, then finished as above.


@dataclass(frozen=True, eq=False)
class JitSpectralForm:
    """A truncated form laid out for the kernel.

    Parameters
    ----------
    form : SpectralForm
    point : ndarray of shape (d,)
        p.
    columns : ndarray of shape (n,)
        V, then v of each output, as `jit_project.lay_out` lays them out.
    cores : ndarray of shape (k, n_blocks, 16)
        The upper triangles of C - mid I, off-diagonals doubled.
    outputs : ndarray of shape (k, 6)
        c, b, mid, and the error terms spread, 2 cross, leftover.
    gamma : float
        0 when no exponential is wanted.
    rank : int
        Columns of V.
    """

    form: SpectralForm
    point: FloatArray
    columns: FloatArray
    cores: FloatArray
    outputs: FloatArray
    gamma: float
    rank: int

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The groups in which columns are taken."""
        return group_sizes(self.rank + len(self.outputs))

    @property
    def least_rows(self) -> int:
        """Rows that are worth a thread."""
        work = 1.0 * self.columns.size + self.cores.size + 8.0 * len(self.point) + 32.0
        return TILE_HEIGHT * max(1, int(FORM_WORK / work / TILE_HEIGHT))


def prepare(form: SpectralForm) -> JitSpectralForm:
    """Lay out a truncated form for the kernel."""
    columns = lay_out(np.hstack([form.basis, form.linear]))
    cores = triangle_blocks(np.triu(form.cores) + np.triu(form.cores, 1))
    outputs = np.column_stack(
        [form.constant, form.intercept, form.mid, form.spread, 2.0 * form.cross, form.leftover]
    )
    gamma = form.gamma if form.damped else 0.0
    point = np.ascontiguousarray(form.point).view(FLOAT64)
    return JitSpectralForm(form, point, columns, cores, outputs, gamma, form.rank)


def scores(
    form: JitSpectralForm,
    rows: FloatArray,
    certificate: JitCertificate = NO_CERTIFICATE,
    input_map: AffineMap | None = None,
) -> Bounded:
    """Scores, |u|^2 and |y|^2; and bounds if there is a certificate.

    Parameters
    ----------
    form : JitSpectralForm
    rows : ndarray of shape (m, d)
        C-contiguous float64.
    certificate : JitCertificate, optional
    input_map : AffineMap, optional
        Rows are mapped as they are read.
    """
    m, k = len(rows), len(form.outputs)
    values, sq_norms, kept = np.empty((m, k)), np.empty(m), np.empty(m)
    bounds = np.empty((m, k)) if len(certificate.numbers) else np.empty((0, k))
    fixed, out = fixed_arguments(form, certificate, input_map), (values, sq_norms, kept, bounds)
    share_rows(spectral_kernel, m, form.least_rows, rows, *fixed, *UNJUDGED, *out)
    return Bounded(values, bounds if len(certificate.numbers) else None, sq_norms, kept)


def judged_pass(
    form: JitSpectralForm, certificate: JitCertificate, input_map: AffineMap | None
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """The kernel, what it takes between rows and rule, and for |u|^2, |y|^2 and bounds."""
    unused = np.empty(0), np.empty(0), np.empty((0, 0))
    return spectral_kernel, fixed_arguments(form, certificate, input_map), unused


def fixed_arguments(
    form: JitSpectralForm, certificate: JitCertificate, input_map: AffineMap | None
) -> tuple[Any, ...]:
    """What the kernel takes between the rows and how they are judged."""
    way = form.point[None, :] if input_map is None else input_map.way(form.point)
    basis = way, form.columns, form.sizes, form.rank
    return *basis, form.cores, form.outputs, form.gamma, certificate.numbers


@helper
def _sort_out(y: FloatArray, lanes: FloatArray, first: int, rank: int, room: Any) -> None:
    """The columns of PROJECT_ROWS projected rows to where the tile wants them, a row a column."""
    Y, linear, squares = room
    for i in range(PROJECT_ROWS):
        total = 0.0
        for lane in range(PROJECT_LANES):
            total += lanes[i, lane]
        squares[first + i] = total
        for c in range(rank):
            Y[c, first + i] = y[i, c]
        for c in range(linear.shape[0]):
            linear[c, first + i] = y[i, rank + c]


@kernel(by_row=("rows", "answers", "is_open", "values", "sq_norms", "kept", "bounds"))
def spectral_kernel(
    rows: Matrix,
    way: Matrix,
    columns: Vector,
    sizes: Longs,
    rank: int,
    cores: Blocks,
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
    kept: OutVector,
    bounds: OutMatrix,
) -> None:
    m = rows.shape[0]
    n_open, outside, unknown = 0, 0, 0
    k = outputs.shape[0]
    blocked = (rank + 3) // 4 * 4
    room = aligned((blocked + k + 5) * TILE_HEIGHT).reshape(blocked + k + 5, TILE_HEIGHT)
    room[:] = 0.0
    tile, spare = tile_of(room, blocked, k)
    buffer = aligned(PROJECT_ROWS * SLICE).reshape(PROJECT_ROWS, SLICE)
    lanes = aligned(PROJECT_ROWS * PROJECT_LANES).reshape(PROJECT_ROWS, PROJECT_LANES)
    wide = PROJECT_LANES * sizes.sum()
    y = aligned(PROJECT_ROWS * wide).reshape(PROJECT_ROWS, wide)
    fixed = cores, outputs, gamma, certificate, np.zeros(blocked)
    results = values, sq_norms, kept, bounds
    for start in range(0, m, TILE_HEIGHT):
        count = min(TILE_HEIGHT, m - start)
        for first in range(0, count, PROJECT_ROWS):
            some = min(PROJECT_ROWS, count - first)
            project_rows(rows, start + first, some, way, columns, sizes, buffer, lanes, y)
            _sort_out(y, lanes, first, rank, tile)
        finish_tile(start, count, fixed, (tile[2], 0.0, 0.0), tile, spare, results)
        if len(rule) > 0:
            lines = spare[2], spare[3], tile[2]
            found = judge_tile(lines, start, count, rule, words, answers, is_open)
            n_open, outside, unknown = n_open + found[0], outside + found[1], unknown + found[2]
    if len(rule) > 0:
        add_counts(counts, n_open, outside, unknown)
        if n_open and len(behind) > 0:
            settle_open(rows, way, behind, behind_rule, words, counts, answers, is_open, n_open)
