"""The quadratic form for sparse rows: nnz^2 / 2 products a row, the shift folded into v and c.

    g = c' + v'.z + z'Mz,   v' = v - 2Mp,  c' = c - v.p + p'Mp,   |u|^2 = |z|^2 - 2 z.p + |p|^2

In: a prepared form and CSR rows with sorted indices. Out: as in quadratic_dense.py, and per row
the `reach` N^2 = (|z| + |p|)^2. The sums cancel: their terms are as large as amplitude(N), not
amplitude(|u|). With L = nnz + d + 6 <= 2 (d + 5) and u = 2^-53,

    | |u|^2 computed - real |  <=  L u N^2
    | score computed - real |  <=  the bound of rounding.py with N for |u|, but exp(-gamma |u|^2)

because (i) c' and v' are sums of at most 2d + 6 terms whose absolute values add up to at most
a_0 + a_1 |p| + a_2 |p|^2 and |v| + 2 |M||p|; (ii) so all terms of a row's g add up to at most
a_0 + a_1 N + a_2 N^2; (iii) the exponential errs by gamma L u N^2 relatively, which 2 (d + 5)
gamma N^2 in K covers. Rows with gamma N^2 > FOLD_LIMIT are shifted and evaluated densely instead,
which keeps gamma L u N^2 below 3e-8 for d < 10^4 and (iii) of first order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels import quadratic_dense
from kernelite.backends.cpu.kernels.bounds import NO_CERTIFICATE, JitCertificate, bound_tile
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
from kernelite.backends.cpu.kernels.densify import check_canonical
from kernelite.backends.cpu.kernels.exp import exp_nonpositive
from kernelite.backends.cpu.kernels.tiles import FORM_WORK, TILE_HEIGHT, aligned, damp_tile
from kernelite.backends.cpu.threads import share_out
from kernelite.data.rows.inputs import FloatArray, row_blocks
from kernelite.program.bounded import Bounded
from kernelite.series.rounding import folded_square

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["prepare", "replace_cancelled", "scores", "scores_and_reach"]

# The compiled part: rows of a CSR matrix, a tile at a time.
#
# M is read from the 4 x 4 blocks that the dense kernel uses: M_ab, a <= b, stands at
# line(a) + column(b) of an output's flat blocks.

IntArray = NDArray[np.int64]
# Unsigned, so that no index is checked for counting from the end.
PlaceArray = NDArray[np.uint64]


@helper
def _read_row(
    indices: NDArray[np.int32],
    data: FloatArray,
    start: int,
    stop: int,
    point: FloatArray,
    z: FloatArray,
    places: PlaceArray,
) -> tuple[int, float, float]:
    """Copy a row's entries with their places; also |z|^2 and z.p.

    `places` are an entry's index in `outputs`, its column and its line in M. Filled up with
    zeros, placed like the last entry, to a multiple of four: that number is returned, or -1 for
    a malformed row.
    """
    n, d = stop - start, len(point)
    square, product = 0.0, 0.0
    if n < 0 or n > d or start < 0 or stop > min(len(indices), len(data)):
        return -1, square, product
    wide = (d + 3) // 4
    previous = -1
    for i in range(n):
        index = int(indices[start + i])
        if index <= previous or index >= d:
            return -1, square, product
        previous = index
        value = data[start + i]
        square += value * value
        product += value * point[index]
        a, within = index >> 2, index & 3
        z[i] = value
        places[0, i] = index + 2
        places[1, i] = 16 * a + within
        # Lines of blocks above this one have wide, wide - 1, ... blocks; columns count from 0.
        places[2, i] = 16 * (a * wide - ((a * (a + 1)) >> 1)) + 4 * within
    filled = (n + 3) >> 2 << 2
    for i in range(n, filled):
        z[i] = 0.0
        for kind in range(3):
            places[kind, i] = places[kind, n - 1]
    return filled, square, product


@helper
def _row_form(
    z: FloatArray, places: PlaceArray, filled: int, blocks: FloatArray, outputs: FloatArray, k: int
) -> float:
    """c' + v'.z + z'Mz of output k; four entries of z at a time against all that follow."""
    total = outputs[k, 0]
    for i in range(0, filled, 4):
        c0, c1, c2, c3 = places[1, i], places[1, i + 1], places[1, i + 2], places[1, i + 3]
        l0, l1, l2, l3 = places[2, i], places[2, i + 1], places[2, i + 2], places[2, i + 3]
        z0, z1, z2, z3 = z[i], z[i + 1], z[i + 2], z[i + 3]
        y0 = outputs[k, places[0, i]] + blocks[k, l0 + c0] * z0
        y0 += blocks[k, l0 + c1] * z1 + blocks[k, l0 + c2] * z2 + blocks[k, l0 + c3] * z3
        y1 = outputs[k, places[0, i + 1]] + blocks[k, l1 + c1] * z1
        y1 += blocks[k, l1 + c2] * z2 + blocks[k, l1 + c3] * z3
        y2 = outputs[k, places[0, i + 2]] + blocks[k, l2 + c2] * z2 + blocks[k, l2 + c3] * z3
        y3 = outputs[k, places[0, i + 3]] + blocks[k, l3 + c3] * z3
        for j in range(i + 4, filled):
            column, value = places[1, j], z[j]
            y0 += blocks[k, l0 + column] * value
            y1 += blocks[k, l1 + column] * value
            y2 += blocks[k, l2 + column] * value
            y3 += blocks[k, l3 + column] * value
        total += (z0 * y0 + z1 * y1) + (z2 * y2 + z3 * y3)
    return total


@kernel()
def sparse_kernel(
    starts: Longs,
    indices: Ints,
    data: Vector,
    point: Vector,
    point_sq: float,
    blocks: Blocks,
    outputs: Matrix,
    gamma: float,
    slack: float,
    certificate: Matrix,
    values: OutMatrix,
    sq_norms: OutVector,
    bounds: OutMatrix,
    reach: OutVector,
) -> int:
    """All rows between the first and the last of `starts`; the first malformed row, or -1."""
    m, d, k = len(starts) - 1, len(point), len(outputs)
    point_norm = math.sqrt(point_sq)
    room = aligned((k + 4) * TILE_HEIGHT).reshape(k + 4, TILE_HEIGHT)
    room[:] = 0.0
    g, squares, reaches, exponentials, bound = room[4:], room[0], room[1], room[2], room[3]
    z, places = np.empty(d + 4), np.empty((3, d + 4), dtype=np.uint64)
    flat = blocks.reshape(k, blocks.shape[1] * 16)
    for start in range(0, m, TILE_HEIGHT):
        count = min(TILE_HEIGHT, m - start)
        for r in range(count):
            row = start + r
            filled, square, product = _read_row(
                indices, data, starts[row], starts[row + 1], point, z, places
            )
            if filled < 0:
                return row
            squares[r] = max((square + point_sq) - 2.0 * product, 0.0)
            reaches[r] = square
            for j in range(k):
                g[j, r] = _row_form(z, places, filled, flat, outputs, j)
        for r in range(TILE_HEIGHT):
            norms = math.sqrt(reaches[r]) + point_norm
            reaches[r] = 1.0000001 * norms * norms
        for r in range(TILE_HEIGHT):
            exponentials[r] = exp_nonpositive(-gamma * squares[r]) if gamma > 0.0 else 1.0
        for r in range(count):  # by slices they would be compared in shape: seconds to compile
            sq_norms[start + r], reach[start + r] = squares[r], reaches[r]
        for j in range(k):
            line, intercept = g[j], outputs[j, 1]
            damp_tile(exponentials, TILE_HEIGHT, intercept, line)
            for r in range(count):
                values[start + r, j] = line[r]
            if len(certificate) > 0:
                numbers = certificate[j]
                bound_tile(
                    squares, reaches, exponentials, line, gamma, slack, numbers, TILE_HEIGHT, bound
                )
                for r in range(count):
                    bounds[start + r, j] = bound[r]
    return -1


# What calls it: the form laid out once, rows handed to threads, and rows that cancel shifted.

FOLD_LIMIT = 1e4  # of gamma N^2: at most four digits are lost to the folded shift


@dataclass(frozen=True, eq=False)
class JitSparseForm:
    """A quadratic form with its shift folded.

    Parameters
    ----------
    dense : JitForm
        The form as it is; its blocks hold the triangle.
    outputs : ndarray of shape (k, 2 + 4 ceil(d / 4))
        c', b and v' of each output.
    point_sq : float
        |p|^2.
    """

    dense: quadratic_dense.JitForm
    outputs: FloatArray
    point_sq: float


def prepare(dense: quadratic_dense.JitForm) -> JitSparseForm:
    """Lay out a form for sparse rows, from its layout for dense ones.

    Examples
    --------
    >>> from kernelite.series.series import quadratic_form
    >>> from kernelite.machine.expansion import KernelExpansion
    >>> one = KernelExpansion([[1.0, 0.0]], [1.0], 0.0, gamma=0.5)
    >>> form = quadratic_form(one, np.array([1.0, 0.0]))
    >>> prepare(quadratic_dense.prepare(form)).point_sq
    1.0
    """
    form, outputs = dense.form, dense.outputs.copy()
    p = form.point
    with np.errstate(over="ignore", invalid="ignore"):
        # Where |p|^2 overflows, every row's reach does, and all are evaluated densely.
        along = form.quadratic @ p  # (k, d)
        outputs[:, 0] = form.constant - form.linear.T @ p + along @ p
        outputs[:, 2 : 2 + len(p)] = form.linear.T - 2.0 * along
        return JitSparseForm(dense, outputs, float(p @ p))


def scores(
    form: JitSparseForm, rows: csr_array, certificate: JitCertificate = NO_CERTIFICATE
) -> Bounded:
    """f^ of sparse rows, and the bound on |f - f^| when a certificate is given.

    Parameters
    ----------
    form : JitSparseForm
    rows : csr_array of shape (m, d)
        With sorted, unique indices.
    certificate : JitCertificate, optional

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from kernelite.series.series import quadratic_form
    >>> from kernelite.machine.expansion import KernelExpansion
    >>> one = KernelExpansion([[1.0]], [1.0], 0.0, gamma=0.5)
    >>> form = prepare(quadratic_dense.prepare(quadratic_form(one, np.array([1.0]))))
    >>> scores(form, csr_array([[1.0], [2.0]])).scores.round(4)
    array([[1.    ],
           [0.6065]])
    """
    return scores_and_reach(form, rows, certificate)[0]


def scores_and_reach(
    form: JitSparseForm, rows: csr_array, certificate: JitCertificate = NO_CERTIFICATE
) -> tuple[Bounded, FloatArray]:
    """As `scores`; and what stands for |u|^2 in the rounding bound, shape (m,).

    That is N^2, or |u|^2 for rows evaluated densely.
    """
    (m, d), dense, numbers = rows.shape, form.dense, certificate.numbers
    k = dense.n_outputs
    out = np.empty((m, k)), np.empty(m), np.empty((m if len(numbers) else 0, k))
    fixed = dense.point, form.point_sq, dense.blocks, form.outputs, dense.gamma, folded_square(d)
    reach = run_folded(sparse_kernel, rows, (*fixed, numbers), out, _least_rows(rows, k))
    folded = Bounded(out[0], out[2] if len(numbers) else None, out[1])
    evaluate = partial(quadratic_dense.scores, dense, certificate=certificate)
    replace_cancelled(folded, rows, reach, dense.gamma, evaluate)
    return folded, reach


def run_folded(
    kernel: Callable[..., int],
    rows: csr_array,
    fixed: tuple[Any, ...],
    out: tuple[FloatArray, ...],
    least_rows: int,
) -> FloatArray:
    """Hand rows to threads, each of which fills its lines of `out`; the reach of all rows, (m,)."""
    m, d = rows.shape
    reach, entries = np.empty(m), (rows.indices.astype(np.int32, copy=False), rows.data)

    def part(block: slice) -> None:
        starts = rows.indptr[block.start : block.stop + 1].astype(np.int64)
        lines = (array[block] for array in (*out, reach))
        check_canonical(kernel(starts, *entries, *fixed, *lines), block.start, d)

    share_out(part, m, least_rows)
    return reach


def _least_rows(rows: csr_array, k: int) -> int:
    """Rows that are worth a thread."""
    filled = rows.nnz / max(rows.shape[0], 1)
    return TILE_HEIGHT * max(
        1, int(FORM_WORK / 8 / (k * filled * filled + 8.0 * filled + 16.0) / TILE_HEIGHT)
    )


def replace_cancelled(
    found: Bounded,
    rows: csr_array,
    reach: FloatArray,
    gamma: float,
    evaluate: Callable[[FloatArray], Bounded],
) -> None:
    """Evaluate densely where the folded shift would cost digits; their reach is |u|^2."""
    assert found.sq_norms is not None
    for part in cancelled(gamma, rows.shape[1], reach, found.sq_norms):
        again = evaluate(rows[part].toarray())
        for old, new in zip(found[:4], again[:4], strict=True):
            if old is not None:
                old[part] = new  # type: ignore[index]
        reach[part] = found.sq_norms[part]


def cancelled(
    gamma: float, n_features: int, reach: FloatArray, sq_norms: FloatArray
) -> Iterator[NDArray[np.intp]]:
    """The rows, some at a time, whose folded shift costs too many digits.

    Examples
    --------
    >>> [part.tolist() for part in cancelled(1.0, 2, np.array([9.0, 1e9]), np.array([4.0, 4.0]))]
    [[1]]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        fine = gamma * reach <= FOLD_LIMIT
        # However wrong |u|^2 is, the exponential of these is zero.
        fine |= gamma * (sq_norms - folded_square(n_features) * reach) > 750.0
    found = np.flatnonzero(~fine)
    for part in row_blocks(len(found), 1024):
        yield found[part]
