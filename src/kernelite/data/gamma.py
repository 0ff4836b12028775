"""gamma_max: the largest gamma for which the paper's bound holds between all rows of a data set.

In: rows, or a file of them, and a point p. Out: gamma_max = 1 / (4 max_i |x_i - p|^2), and the
row that sets it. About the origin this is the paper's. It needs no model: ask before training.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from kernelite.data.rows.inputs import (
    FloatArray,
    Rows,
    RowsLike,
    check_rows,
    dense_block,
    is_sparse,
    row_blocks,
    rows_within,
)
from kernelite.support.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["GammaMax", "gamma_max"]

_MOST_FEATURES = 2**25  # of a mean, which is dense: 256 MiB
_ROUNDING = 2.0**-53

Parts = Callable[[], Iterator[tuple[int, Rows]]]


@dataclass(frozen=True, slots=True, eq=False)
class GammaMax:
    """The largest gamma within the paper's bound, and why.

    Parameters
    ----------
    value : float
        1 / (4 max_sq_norm); infinite when every row is the point itself, since the quadratic form
        is then exact for any gamma.
    row : int
        Position, from 0, of the first row that is farthest from the point.
    max_sq_norm : float
        Its squared distance from the point.
    point : ndarray of shape (d,) or None
        The expansion point; None is the origin.

    Examples
    --------
    >>> float(GammaMax(0.25, 0, 1.0, None))
    0.25
    """

    value: float
    row: int
    max_sq_norm: float
    point: FloatArray | None

    def __float__(self) -> float:
        return self.value


def gamma_max(
    X: RowsLike | str | os.PathLike[str],
    /,
    *,
    about: Literal["origin", "mean"] | ArrayLike = "origin",
    **reading: Any,
) -> GammaMax:
    """The largest gamma for which every row of `X` is valid for a model trained on `X`.

    Parameters
    ----------
    X : array-like, sparse matrix, data frame of shape (n, d), or path of a data file
        Sparse rows stay sparse. A file is read in parts, about the mean twice.
    about : "origin", "mean" or array-like of shape (d,)
        The expansion point: the paper's, the mean of the rows, or any other.
    **reading
        Options of `kernelite.data.tables.data.iter_data`, when `X` is a path.

    Returns
    -------
    GammaMax
        Value, row that sets it, its squared norm and the point. A set of zeros has the value
        infinity about the origin: no gamma is too large for it.

    Raises
    ------
    InputError
        If there are no rows, or a squared norm is beyond the range of doubles.

    Notes
    -----
    Three values have this name: that of the data (here; known before training), that of a model's
    support vectors (`kernelite inspect`; at least as large), and each of them about the mean
    instead of the origin (nearly always larger). A certified label needs none of them.

    Examples
    --------
    >>> gamma_max([[3.0, 4.0], [1.0, 0.0]])
    GammaMax(value=0.01, row=0, max_sq_norm=25.0, point=None)
    >>> gamma_max([[3.0, 4.0], [1.0, 0.0]], about="mean").value
    0.05
    """
    parts = _parts_of(X, reading)
    if isinstance(about, str):
        if about not in ("origin", "mean"):
            raise InputError(f'`about` must be "origin", "mean" or an array, got {about!r}')
        point = None if about == "origin" else _mean(parts, X)
    else:
        point = _checked_point(about)
    row, squared = _farthest(parts, point)
    if math.isinf(squared):
        raise InputError(f"`X` has a squared norm beyond the range of doubles in row {row}")
    return GammaMax(0.25 / squared if squared > 0 else math.inf, row, squared, point)


def _parts_of(X: Any, reading: dict[str, Any]) -> Parts:
    """A function that walks (position of the first row, rows)."""
    if isinstance(X, (str, os.PathLike)):
        from kernelite.data.tables.data import iter_data

        def parts() -> Iterator[tuple[int, Rows]]:
            return ((part.first_row, part.rows) for part in iter_data(X, **reading))

        return parts
    if reading:
        raise InputError(f"`{next(iter(reading))}` is an option for files, but `X` is an array")
    rows = check_rows(X)
    return lambda: iter([(0, rows)])


def _checked_point(about: ArrayLike) -> FloatArray:
    try:
        point = np.array(about, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("`about` must be an array of numbers") from None
    if point.ndim != 1 or not np.isfinite(point).all():
        raise InputError(f"`about` must be a finite array of one dimension, got {point.shape}")
    return point


def _mean(parts: Parts, X: Any) -> FloatArray:
    if isinstance(X, (str, os.PathLike)) and os.path.exists(X) and not os.path.isfile(X):
        raise InputError(f'`about` is "mean", which reads a file twice, but `{X}` is not a file')
    count, total = 0, np.zeros(0)
    for _, rows in parts():
        n, d = rows.shape
        if d > _MOST_FEATURES:
            raise InputError(f"the mean of {d} features does not fit into memory, at most 2^25 do")
        if d > len(total):
            total = np.concatenate([total, np.zeros(d - len(total))])
        with np.errstate(over="ignore", invalid="ignore"):
            for block in _blocks(rows):
                total[:d] += block.sum(axis=0)
        count += n
    if not np.isfinite(total).all():
        raise InputError("`X` has a mean beyond the range of doubles")
    return total / max(count, 1)


def _blocks(rows: Rows) -> Iterator[Rows]:
    """The rows in blocks of about `NUMBERS_PER_BLOCK` stored numbers."""
    n = rows.shape[0]
    stored = rows.nnz if is_sparse(rows) else rows.size
    for block in row_blocks(n, rows_within(-(-stored // max(n, 1)))):
        yield rows[block]


def _farthest(parts: Parts, point: FloatArray | None) -> tuple[int, float]:
    """Position and squared norm of the row that is farthest from the point."""
    best, where, winner = -1.0, -1, None
    for first, rows in parts():
        if point is not None:
            rows = _as_wide_as(rows, point)
        for block in _blocks(rows):
            squares = _squared_norms(block, point, best)
            top = int(np.argmax(squares))
            if squares[top] > best:
                best, where, winner = float(squares[top]), first + top, block[top : top + 1]
            first += block.shape[0]
    if winner is None:
        raise InputError("`X` has no rows, expected at least one")
    return where, _one_squared_norm(winner, point)


def _as_wide_as(rows: Rows, point: FloatArray) -> Rows:
    d = len(point)
    if rows.shape[1] == d:
        return rows
    if is_sparse(rows) and rows.shape[1] < d:  # a part of a file leaves the last features out
        from kernelite.data.tables.dataset import make_csr

        return make_csr(rows.data, rows.indices, rows.indptr, d)
    raise InputError(f"`about` has {d} entries, but `X` has {rows.shape[1]} features")


def _squared_norms(block: Rows, point: FloatArray | None, best: float) -> FloatArray:
    """|x - p|^2 of each row; -1 for sparse rows that surely are not above `best`."""
    with np.errstate(over="ignore", invalid="ignore"):
        if is_sparse(block):
            if point is None:
                return _row_sums(block, block.data**2)
            return _sparse_about(block, point, best)
        shifted = block if point is None else block - point
        squares: FloatArray = (shifted**2).sum(axis=1)
        return squares


def _sparse_about(block: csr_array, point: FloatArray, best: float) -> FloatArray:
    """sum over entries of x (x - 2p), plus |p|^2, recomputed as (x - p)^2 where it could matter.

    The short form cancels when rows are near p. Each term errs by 2 roundings, a sum of m by m,
    NumPy's pairwise |p|^2 by fewer than 64; rows whose upper end stays under the largest lower
    end are out, and only the others are made dense.
    """
    terms = block.data * (block.data - 2 * point[block.indices])
    offset = float(np.sum(point**2))
    squares = _row_sums(block, terms) + offset
    size = _row_sums(block, np.abs(terms)) * (np.diff(block.indptr) + 4) + 64 * offset
    error = 2 * _ROUNDING * size
    floor = max(best, float(np.max(squares - error)))
    candidates = np.flatnonzero(~(squares + error < floor))  # NaN, from overflow, is a candidate
    exact = np.full(block.shape[0], -1.0)
    for part in row_blocks(len(candidates), rows_within(len(point))):
        chosen = candidates[part]
        exact[chosen] = ((dense_block(block, chosen) - point) ** 2).sum(axis=1)
    return exact


def _row_sums(block: csr_array, weights: FloatArray) -> FloatArray:
    n = block.shape[0]
    row_of = np.repeat(np.arange(n), np.diff(block.indptr))
    return np.bincount(row_of, weights=weights, minlength=n).astype(np.float64)


def _one_squared_norm(row: Rows, point: FloatArray | None) -> float:
    """|x - p|^2 of one row, right to the last digit but one: only the squares are rounded."""
    if is_sparse(row):
        numbers = row.data if point is None else row.toarray()[0] - point
    else:
        numbers = row[0] if point is None else row[0] - point
    with np.errstate(over="ignore"):
        squares = numbers**2
    try:
        return math.fsum(squares)
    except OverflowError:
        return math.inf
