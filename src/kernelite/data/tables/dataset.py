"""`DataSet`: rows of a data file, their labels, and where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, Rows, fit_width, is_sparse
from kernelite.support.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["DataSet", "join", "make_csr"]

Labels = FloatArray | NDArray[np.object_]


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """Rows of a data file.

    Parameters
    ----------
    rows : ndarray or csr_array of shape (n, d), float64
        Finite; sparse rows have sorted, unique indices.
    labels : ndarray of shape (n,) or None
        Doubles, or texts (Python's own) where a delimited file has names for labels.
    path : str
        The file.
    format : str
        "libsvm", "delimited", "npy" or "npz".
    feature_names : tuple of str or None
        From the header of a delimited file.
    first_row : int
        Position of the first row in the file, when this is a part of it.

    Examples
    --------
    >>> DataSet(np.eye(2), None, "a.npy", "npy").n_features
    2
    """

    rows: Rows
    labels: Labels | None
    path: str
    format: str
    feature_names: tuple[str, ...] | None = None
    first_row: int = 0

    @property
    def n_features(self) -> int:
        """Width d of the rows; of sparse text, the largest index in this part of the file."""
        return int(self.rows.shape[1])

    def fit_width(self, width: int) -> tuple[Rows, FloatArray | None]:
        """The rows at a model's width, and what lies beyond it.

        Sparse rows leave zeros out, so they are padded when narrower. Wider ones are cut, and
        the squared norm of what was cut off counts in |z|^2, as in LIBSVM, where such features
        meet zeros in every support vector.

        Parameters
        ----------
        width : int
            Features d of the model.

        Returns
        -------
        rows : ndarray or csr_array of shape (n, width)
            Shares memory with `self.rows` where it can.
        beyond : ndarray of shape (n,) or None
            Squared norm of the features past `width`; None when there are none.

        Raises
        ------
        InputError
            If dense rows have another width.

        Examples
        --------
        >>> part = make_csr(np.array([1.0, 3.0]), np.array([0, 4]), np.array([0, 2]), 5)
        >>> rows, beyond = DataSet(part, None, "a.svm", "libsvm").fit_width(2)
        >>> rows.toarray(), beyond
        (array([[1., 0.]]), array([9.]))
        """
        rows = self.rows
        if not is_sparse(rows):
            if self.n_features != width:
                raise InputError(
                    f"`{self.path}` has {self.n_features} features, but this model takes {width}"
                )
            return rows, None
        if self.n_features <= width:
            return make_csr(rows.data, rows.indices, rows.indptr, width), None
        inside, beyond = fit_width(rows, width)
        return inside, beyond if beyond is not None and beyond.any() else None


def make_csr(
    values: FloatArray, indices: NDArray[np.integer], indptr: NDArray[np.integer], width: int
) -> csr_array:
    """A CSR array from arrays that are known to be sorted and free of duplicates.

    Parameters
    ----------
    values, indices : ndarray of shape (nnz,)
        Entries and their columns.
    indptr : ndarray of shape (n + 1,)
        Where rows start.
    width : int
        Number of columns.

    Returns
    -------
    csr_array of shape (n, width)
        Shares memory with the arguments where their dtypes allow.

    Examples
    --------
    >>> make_csr(np.ones(1), np.array([1]), np.array([0, 1]), 3).toarray()
    array([[0., 1., 0.]])
    """
    from scipy.sparse import csr_array

    rows = csr_array((values, indices, indptr), shape=(len(indptr) - 1, width))
    rows.has_canonical_format = True
    return rows


def join(parts: Sequence[DataSet]) -> DataSet:
    """One data set from consecutive parts of a file.

    Parameters
    ----------
    parts : sequence of DataSet
        At least one.

    Returns
    -------
    DataSet
        As wide as the widest sparse part.

    Examples
    --------
    >>> part = DataSet(np.eye(2), None, "a.npy", "npy")
    >>> join([part, part]).rows.shape
    (4, 2)
    """
    if len(parts) == 1:
        return parts[0]
    tables: list[Any] = [part.rows for part in parts]
    labels: list[Any] = [part.labels for part in parts if part.labels is not None]
    rows: Rows
    if is_sparse(tables[0]):
        starts = np.cumsum([0, *(table.nnz for table in tables)])
        rows = make_csr(
            np.concatenate([table.data for table in tables]),
            np.concatenate([table.indices for table in tables]),
            np.concatenate(
                [[0], *(start + table.indptr[1:] for start, table in zip(starts, tables))]
            ),
            max(table.shape[1] for table in tables),
        )
    else:
        rows = np.concatenate(tables)
    return replace(parts[0], rows=rows, labels=np.concatenate(labels) if labels else None)
