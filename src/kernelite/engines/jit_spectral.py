"""The truncated form: rows projected on few directions, in one pass over the input.

    g = c + v.u + y'Cy + mid |u|^2,     y = V'u

In: a prepared form and dense rows of shape (m, d). Out: scores, |u|^2, |y|^2, and on request the
bound of each score, truncation included. Twin: `blas.form_scores` with `forms.form_bounds`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelite.approximation.rounding import SAFETY
from kernelite.approximation.spectral import SpectralForm
from kernelite.engines.blas import Evaluated
from kernelite.engines.jit_blocks import add_triangle, padded, triangle_blocks
from kernelite.engines.jit_bounds import NO_CERTIFICATE, JitCertificate, bound_tile
from kernelite.engines.jit_exp import exp_nonpositive
from kernelite.engines.jit_support import array_type, helper, kernel
from kernelite.engines.jit_tiles import CHUNK_WORK, TILE, aligned, damp_tile, load_tile, square_tile
from kernelite.engines.threads import for_each_chunk
from kernelite.inputs import FloatArray

__all__ = ["JitSpectralForm", "prepare", "scores"]


@dataclass(frozen=True, eq=False)
class JitSpectralForm:
    """A truncated form laid out for the kernel.

    Parameters
    ----------
    point : ndarray of shape (d,)
        p.
    columns : ndarray of shape (n_columns / 4, n_features / 4, 16)
        V, filled up to a multiple of four columns, then v of each output, in 4 x 4 blocks.
    cores : ndarray of shape (k, n_blocks, 16)
        The upper triangles of C - mid I, off-diagonals doubled.
    outputs : ndarray of shape (k, 6)
        c, b, mid, and the error terms spread, 2 cross, leftover.
    gamma : float
        0 when no exponential is wanted.
    """

    point: FloatArray
    columns: FloatArray
    cores: FloatArray
    outputs: FloatArray
    gamma: float

    @property
    def chunk(self) -> int:
        """Rows that a thread should take at a time."""
        work = 1.0 * self.columns.size + self.cores.size + 8.0 * len(self.point) + 32.0
        return TILE * max(1, int(CHUNK_WORK / work / TILE))


def prepare(form: SpectralForm) -> JitSpectralForm:
    """Lay out a truncated form for the kernel."""
    d, k, r = form.n_features, form.n_outputs, form.rank
    wide = np.zeros((padded(d), padded(r) + padded(k)))
    wide[:d, :r] = form.basis
    wide[:d, padded(r) : padded(r) + k] = form.linear
    columns = np.empty((wide.shape[1] // 4, wide.shape[0] // 4, 16))
    for c in range(columns.shape[0]):
        block = wide[:, 4 * c : 4 * c + 4]
        columns[c] = block.reshape(-1, 16)
    cores = triangle_blocks(np.triu(form.cores) + np.triu(form.cores, 1))
    outputs = np.column_stack(
        [form.constant, form.intercept, form.mid, form.spread, 2.0 * form.cross, form.leftover]
    )
    gamma = form.gamma if form.kernel == "rbf" else 0.0
    return JitSpectralForm(np.ascontiguousarray(form.point), columns, cores, outputs, gamma)


def scores(
    form: JitSpectralForm, rows: FloatArray, certificate: JitCertificate = NO_CERTIFICATE
) -> tuple[Evaluated, FloatArray | None]:
    """Scores, |u|^2 and |y|^2; and bounds if there is a certificate.

    Parameters
    ----------
    form : JitSpectralForm
    rows : ndarray of shape (m, d)
        C-contiguous float64.
    certificate : JitCertificate, optional
    """
    m, k = len(rows), len(form.outputs)
    values, sq_norms, kept = np.empty((m, k)), np.empty(m), np.empty(m)
    bounds = np.empty((m, k)) if len(certificate.numbers) else np.empty((0, k))
    fixed = form.point, form.columns, form.cores, form.outputs, form.gamma, certificate.numbers

    def part(block: slice) -> None:
        out = values[block], sq_norms[block], kept[block], bounds[block]
        _spectral_kernel(rows[block], *fixed, *out)

    if m <= form.chunk:
        part(slice(None))
    else:
        for_each_chunk(part, m, form.chunk)
    return Evaluated(values, sq_norms, kept), bounds if len(certificate.numbers) else None


@helper
def _project_tile(tile: FloatArray, width: int, columns: FloatArray, Y: FloatArray) -> None:
    """Y[c, r] = sum_j columns[j, c] tile[j, r]: four columns and four features at a time."""
    for c in range(columns.shape[0]):
        for lane in range(4):
            Y[4 * c + lane, :width] = 0.0
        for block in range(columns.shape[1]):
            a = 4 * block
            m = columns[c, block]
            m00, m01, m02, m03, m10, m11, m12, m13 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]
            m20, m21, m22, m23 = m[8], m[9], m[10], m[11]
            m30, m31, m32, m33 = m[12], m[13], m[14], m[15]
            for r in range(width):
                u0, u1, u2, u3 = tile[a, r], tile[a + 1, r], tile[a + 2, r], tile[a + 3, r]
                Y[4 * c, r] += (m00 * u0 + m10 * u1) + (m20 * u2 + m30 * u3)
                Y[4 * c + 1, r] += (m01 * u0 + m11 * u1) + (m21 * u2 + m31 * u3)
                Y[4 * c + 2, r] += (m02 * u0 + m12 * u1) + (m22 * u2 + m32 * u3)
                Y[4 * c + 3, r] += (m03 * u0 + m13 * u1) + (m23 * u2 + m33 * u3)


@helper
def _add_truncation(
    squares: FloatArray,
    kept: FloatArray,
    exponentials: FloatArray,
    output: FloatArray,
    width: int,
    bound: FloatArray,
) -> None:
    """bound[r] += E (spread |v|^2 + 2 cross |y| |v| + leftover |u|^2), with room for rounding."""
    spread, cross, leftover = output[3], output[4], output[5]
    for r in range(width):
        rest = max(squares[r] - kept[r], 0.0)
        size = spread * rest + cross * np.sqrt(kept[r] * rest) + leftover * squares[r]
        E = exponentials[r]
        bound[r] += 0.0 if E == 0.0 else SAFETY * (E * size)


@kernel(
    array_type(2),
    array_type(1),
    array_type(3),
    array_type(3),
    array_type(2),
    "float64",
    array_type(2),
    array_type(2, writable=True),
    array_type(1, writable=True),
    array_type(1, writable=True),
    array_type(2, writable=True),
)
def _spectral_kernel(
    rows: FloatArray,
    point: FloatArray,
    columns: FloatArray,
    cores: FloatArray,
    outputs: FloatArray,
    gamma: float,
    certificate: FloatArray,
    values: FloatArray,
    sq_norms: FloatArray,
    kept: FloatArray,
    bounds: FloatArray,
) -> None:
    m = rows.shape[0]
    k = outputs.shape[0]
    features, wide = 4 * columns.shape[1], 4 * columns.shape[0]
    rank = wide - (k + 3) // 4 * 4
    room = aligned((features + wide + 5) * TILE).reshape(features + wide + 5, TILE)
    room[:] = 0.0
    tile, Y, rest = room[:features], room[features : features + wide], features + wide
    squares, inside, exponentials = room[rest], room[rest + 1], room[rest + 2]
    g, bound = room[rest + 3], room[rest + 4]
    nothing = np.zeros(rank)
    for start in range(0, m, TILE):
        count = min(TILE, m - start)
        width = (count + 7) // 8 * 8
        load_tile(rows, start, count, point, tile)
        square_tile(tile, width, squares)
        _project_tile(tile, width, columns, Y)
        square_tile(Y[:rank], width, inside)
        for r in range(width):
            exponentials[r] = exp_nonpositive(-gamma * squares[r]) if gamma > 0.0 else 1.0
        for r in range(count):
            sq_norms[start + r] = squares[r]
            kept[start + r] = inside[r]
        for j in range(k):
            for r in range(width):
                g[r] = outputs[j, 0] + Y[rank + j, r] + outputs[j, 2] * squares[r]
            add_triangle(Y[:rank], width, cores[j], nothing, g)
            damp_tile(exponentials, width, outputs[j, 1], g)
            for r in range(count):
                values[start + r, j] = g[r]
            if len(certificate) > 0:
                numbers = certificate[j]
                bound_tile(squares, squares, exponentials, g, gamma, 0.0, numbers, width, bound)
                _add_truncation(squares, inside, exponentials, outputs[j], width, bound)
                for r in range(count):
                    bounds[start + r, j] = bound[r]
