"""Rows rewritten on all threads: sparse ones made dense, dense ones mapped, or picked.

Sparse rows with too many entries for gathers to pay are made dense. In: CSR rows with sorted
indices. Out: an array of shape (m, d). Twin: `csr_array.toarray`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels.compiling import (
    Ints,
    Longs,
    Matrix,
    OutMatrix,
    Vector,
    jit_available,
    kernel,
)
from kernelite.backends.cpu.threads import share_out, share_rows
from kernelite.data.rows.inputs import FloatArray, refuse_csr
from kernelite.machine.affine import AffineMap

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["check_canonical", "dense_rows", "map_rows", "scattered", "take_rows"]

_LEAST = 1 << 16  # numbers that are worth a thread
_LEAST_TAKEN = 1 << 13  # the same, where they lie far from each other


def dense_rows(rows: csr_array) -> FloatArray:
    """The rows as a dense array.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> dense_rows(csr_array([[0.0, 2.0], [0.0, 0.0]]))
    array([[0., 2.],
           [0., 0.]])
    """
    return scattered(rows.indptr, rows.indices, rows.data, rows.shape[1])


def scattered(
    indptr: NDArray[np.integer], indices: NDArray[np.integer], values: FloatArray, width: int
) -> FloatArray:
    """The same from the arrays of a CSR matrix.

    Examples
    --------
    >>> scattered(np.array([0, 1]), np.array([1]), np.array([5.0]), 3)
    array([[0., 5., 0.]])
    """
    m = len(indptr) - 1
    if not jit_available():
        return _scattered_slowly(indptr, indices, values, width)
    out = np.empty((m, width))
    entries = indices.astype(np.int32, copy=False), values

    def part(block: slice) -> None:
        starts = indptr[block.start : block.stop + 1].astype(np.int64)
        check_canonical(_scatter_kernel(starts, *entries, out[block]), block.start, width)

    share_out(part, m, max(1, _LEAST // max(width, 1)))
    return out


def _scattered_slowly(
    indptr: NDArray[np.integer], indices: NDArray[np.integer], values: FloatArray, width: int
) -> FloatArray:
    row = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    entries = slice(indptr[0], indptr[0] + len(row))
    column = indices[entries]
    wrong = (column < 0) | (column >= width)
    wrong[1:] |= (row[1:] == row[:-1]) & (column[1:] <= column[:-1])
    check_canonical(int(row[wrong.argmax()]) if wrong.any() else -1, 0, width)
    out = np.zeros((len(indptr) - 1, width))
    out[row, column] = values[entries]
    return out


def check_canonical(bad: int, first: int, n_features: int) -> None:
    """Refuse a matrix in which a kernel found a malformed row, the one after `first` so many."""
    if bad >= 0:
        refuse_csr(first + bad, n_features)


@kernel()
def _scatter_kernel(starts: Longs, indices: Ints, data: Vector, out: OutMatrix) -> int:
    """Rows between the first and the last of `starts`, dense; the first malformed row, or -1."""
    m, d = out.shape
    for row in range(m):
        start, stop = starts[row], starts[row + 1]
        if start < 0 or stop < start or stop > min(len(indices), len(data)):
            return row
        for j in range(d):
            out[row, j] = 0.0
        previous = -1
        for i in range(start, stop):
            index = int(indices[i])
            if index <= previous or index >= d:
                return row
            previous = index
            out[row, index] = data[i]
    return -1


# An affine map of the rows in one pass: as `AffineMap` computes it.
#
# In: a map and dense rows of shape (m, d). Out: mapped rows. Twin: `AffineMap.__call__`.


def map_rows(input_map: AffineMap, rows: FloatArray) -> FloatArray:
    """Mapped rows.

    Examples
    --------
    >>> map_rows(AffineMap([2.0, 1.0], [1.0, 0.0]), np.array([[3.0, 5.0]]))
    array([[4., 5.]])
    """
    if not jit_available():
        return np.asarray(input_map(rows))
    out = np.empty(rows.shape)
    low = _NOTHING if input_map.low is None else input_map.low
    least = max(1, _LEAST // max(rows.shape[1], 1))
    given = np.ascontiguousarray(rows), input_map.shift, low, input_map.scale, out
    share_rows(_map_kernel, len(rows), least, *given)
    return out


_NOTHING = np.empty(0)


@kernel(by_row=("rows", "out"))
def _map_kernel(rows: Matrix, shift: Vector, low: Vector, scale: Vector, out: OutMatrix) -> None:
    m, d = rows.shape
    for i in range(m):
        if len(low) > 0:
            for j in range(d):
                out[i, j] = ((rows[i, j] - shift[j]) - low[j]) * scale[j]
        else:
            for j in range(d):
                out[i, j] = (rows[i, j] - shift[j]) * scale[j]


# Some rows side by side, picked from many.


def take_rows(rows: FloatArray, index: NDArray[np.intp]) -> FloatArray:
    """rows[index], by all threads: each row may lie in another page of memory.

    Examples
    --------
    >>> take_rows(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 1]))
    array([[3., 4.],
           [3., 4.]])
    """
    if index.size * rows.shape[1] < _LEAST_TAKEN or not jit_available():
        return rows.take(index, axis=0)
    out = np.empty((len(index), rows.shape[1]))
    least = max(1, _LEAST_TAKEN // max(rows.shape[1], 1))
    share_rows(_take_kernel, len(index), least, index, rows, out)
    return out


@kernel(by_row=("index", "out"))
def _take_kernel(index: Longs, rows: Matrix, out: OutMatrix) -> None:
    for i in range(len(index)):
        row = min(max(index[i], 0), len(rows) - 1)
        for j in range(rows.shape[1]):
            out[i, j] = rows[row, j]
