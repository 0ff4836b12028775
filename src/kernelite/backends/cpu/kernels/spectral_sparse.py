"""The truncated form of sparse rows: nnz products a column, the shift folded.

    y = V'z - V'p,   v.u = v.z - v.p,   |u|^2 = |z|^2 - 2 z.p + |p|^2

In: a prepared form and CSR rows with sorted indices. Out: as in spectral_dense.py. With
L u = `folded_square` and the reach N^2 = (|z| + |p|)^2 of quadratic_sparse.py, which see for c, v,
|u|^2 and the exponential: each of the r entries of y errs by L u N, a dense row's by (d + 1) u |u|.
So

- the score errs by at most 2 K instead of K, with N for |u|: K allows 4 sqrt(d) (d + 5) for V,
  of which y'Cy takes 4 sqrt(r) (d + 1), and here 4 sqrt(r) L <= 8 sqrt(d) (d + 5);
- |y|^2 errs by 2 sqrt(r) L u N^2 to first order: `folded_hidden_square` has more than that and
  |u|^2's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels import spectral_dense
from kernelite.backends.cpu.kernels.bounds import NO_CERTIFICATE, JitCertificate
from kernelite.backends.cpu.kernels.compiling import (
    Blocks,
    Ints,
    Longs,
    Matrix,
    OutMatrix,
    OutVector,
    Vector,
    helper,
    kernel,
)
from kernelite.backends.cpu.kernels.project import PROJECT_LANES, project_entries
from kernelite.backends.cpu.kernels.quadratic_sparse import replace_cancelled, run_folded
from kernelite.backends.cpu.kernels.spectral_dense import finish_tile, tile_of
from kernelite.backends.cpu.kernels.tiles import FORM_WORK, TILE_HEIGHT, aligned
from kernelite.data.rows.inputs import FloatArray
from kernelite.program.bounded import Bounded
from kernelite.series.rounding import folded_hidden_square, folded_square

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["prepare", "scores"]


@dataclass(frozen=True, eq=False)
class JitSparseSpectralForm:
    """A truncated form with its shift folded.

    Parameters
    ----------
    dense : JitSpectralForm
        The form as it is.
    at_zero : ndarray of shape (n_columns,)
        -V'p and -v.p: what a row of zeros has.
    point_sq : float
        |p|^2.
    """

    dense: spectral_dense.JitSpectralForm
    at_zero: FloatArray
    point_sq: float


def prepare(dense: spectral_dense.JitSpectralForm) -> JitSparseSpectralForm:
    """Lay out a form for sparse rows, from its layout for dense ones."""
    form, p = dense.form, dense.form.point
    at_zero = np.zeros(PROJECT_LANES * int(dense.sizes.sum()))
    with np.errstate(over="ignore", invalid="ignore"):
        # Where |p|^2 overflows, every row's reach does, and all are evaluated densely.
        at_zero[: form.rank + form.n_outputs] = -(np.hstack([form.basis, form.linear]).T @ p)
        return JitSparseSpectralForm(dense, at_zero, float(p @ p))


def scores(
    form: JitSparseSpectralForm, rows: csr_array, certificate: JitCertificate = NO_CERTIFICATE
) -> Bounded:
    """Scores, |u|^2 and |y|^2; and bounds if there is a certificate.

    Parameters
    ----------
    form : JitSparseSpectralForm
    rows : csr_array of shape (m, d)
        With sorted, unique indices.
    certificate : JitCertificate, optional
    """
    (m, d), dense, numbers = rows.shape, form.dense, certificate.numbers.copy()
    k = len(dense.outputs)
    out = np.empty((m, k)), np.empty(m), np.empty(m), np.empty((m if len(numbers) else 0, k))
    numbers[:, 4:6] *= 2.0  # K: see above
    basis = dense.point, form.point_sq, form.at_zero, dense.columns, dense.sizes, dense.rank
    slack, hidden = folded_square(d), folded_hidden_square(d, dense.rank)
    fixed = *basis, dense.cores, dense.outputs, dense.gamma, slack, hidden, numbers
    reach = run_folded(sparse_spectral_kernel, rows, fixed, out, _least_rows(rows, form))
    found = Bounded(out[0], out[3] if len(numbers) else None, *out[1:3])
    evaluate = partial(spectral_dense.scores, dense, certificate=certificate)
    replace_cancelled(found, rows, reach, dense.gamma, evaluate)
    return found


def _least_rows(rows: csr_array, form: JitSparseSpectralForm) -> int:
    """Rows that are worth a thread."""
    filled = rows.nnz / max(rows.shape[0], 1)
    work = filled * (len(form.at_zero) + 16.0) + form.dense.cores.size + 64.0
    return TILE_HEIGHT * max(1, int(FORM_WORK / work / TILE_HEIGHT))


@helper
def _well_formed(indices: NDArray[np.int32], start: int, stop: int, n_entries: int, d: int) -> bool:
    """Whether a row's entries are there, and their indices increase from 0 up to below d."""
    if start < 0 or stop < start or stop > n_entries:
        return False
    if stop == start:
        return True
    fine = indices[start] >= 0 and indices[stop - 1] < d
    for i in range(start + 1, stop):
        fine = fine and indices[i - 1] < indices[i]
    return fine


@helper
def _sums(
    indices: NDArray[np.int32], data: FloatArray, start: int, stop: int, point: FloatArray
) -> tuple[float, float]:
    """|z|^2 and z.p; two sums each, so that an addition need not wait for the one before."""
    square_0, square_1, product_0, product_1 = 0.0, 0.0, 0.0, 0.0
    whole = start + ((stop - start) >> 1 << 1)
    for i in range(start, whole, 2):
        square_0 += data[i] * data[i]
        product_0 += data[i] * point[indices[i]]
        square_1 += data[i + 1] * data[i + 1]
        product_1 += data[i + 1] * point[indices[i + 1]]
    if whole < stop:
        square_0 += data[whole] * data[whole]
        product_0 += data[whole] * point[indices[whole]]
    return square_0 + square_1, product_0 + product_1


@kernel()
def sparse_spectral_kernel(
    starts: Longs,
    indices: Ints,
    data: Vector,
    point: Vector,
    point_sq: float,
    at_zero: Vector,
    columns: Vector,
    sizes: Longs,
    rank: int,
    cores: Blocks,
    outputs: Matrix,
    gamma: float,
    slack: float,
    hidden: float,
    certificate: Matrix,
    values: OutMatrix,
    sq_norms: OutVector,
    kept: OutVector,
    bounds: OutMatrix,
    reach: OutVector,
) -> int:
    """All rows between the first and the last of `starts`; the first malformed row, or -1."""
    m, d, k = len(starts) - 1, len(point), outputs.shape[0]
    point_norm, n_entries = math.sqrt(point_sq), min(len(indices), len(data))
    blocked = (rank + 3) // 4 * 4
    room = aligned((blocked + k + 6) * TILE_HEIGHT).reshape(blocked + k + 6, TILE_HEIGHT)
    room[:] = 0.0
    tile, spare = tile_of(room[1:], blocked, k)
    Y, linear, squares = tile
    reaches, y = room[0], aligned(len(at_zero))
    fixed = cores, outputs, gamma, certificate, np.zeros(blocked)
    results = values, sq_norms, kept, bounds
    for start in range(0, m, TILE_HEIGHT):
        count = min(TILE_HEIGHT, m - start)
        for r in range(count):
            row = start + r
            begin, end = starts[row], starts[row + 1]
            if not _well_formed(indices, begin, end, n_entries, d):
                return row
            square, product = _sums(indices, data, begin, end, point)
            squares[r] = max((square + point_sq) - 2.0 * product, 0.0)
            norms = math.sqrt(square) + point_norm
            reaches[r] = 1.0000001 * norms * norms
            reach[row] = reaches[r]
            for c in range(len(at_zero)):
                y[c] = at_zero[c]
            project_entries(indices, data, begin, end, d, columns, sizes, y)
            for c in range(rank):
                Y[c, r] = y[c]
            for c in range(k):
                linear[c, r] = y[rank + c]
        finish_tile(start, count, fixed, (reaches, slack, hidden), tile, spare, results)
    return -1
