"""From what users pass as rows to what the engines run on.

In: arrays, sparse matrices, data frames. Out: a C-contiguous float64 array or a canonical CSR array
of the expected width, never the caller's own memory modified.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelite.data.rows.frames import check_names, frame_values, is_frame
from kernelite.support.errors import InputError, InputTypeError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "FLOAT64",
    "FloatArray",
    "Rows",
    "RowsLike",
    "check_csr",
    "check_finite",
    "check_rows",
    "dense_block",
    "fit_width",
    "is_sparse",
    "is_tensor",
    "plain_rows",
    "refuse_csr",
    "refuse_no_rows",
    "row_blocks",
    "row_part",
    "rows_at",
    "rows_within",
    "some_rows",
]

FloatArray: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = "FloatArray | csr_array"


class SparseLike(Protocol):
    """SciPy's sparse matrices and arrays."""

    def tocsr(self) -> Any: ...


class FrameLike(Protocol):
    """Data frames of any library: columns with names."""

    @property
    def columns(self) -> Any: ...


RowsLike: TypeAlias = ArrayLike | SparseLike | FrameLike
"""What users pass as rows of shape (m, d); of models of text, a list of texts."""


def is_sparse(X: object) -> TypeGuard[Any]:
    """Whether `X` is a SciPy sparse matrix or array (SciPy itself need not be loaded)."""
    return type(X) is not np.ndarray and hasattr(X, "tocsr") and hasattr(X, "nnz")


def is_tensor(X: object) -> bool:
    """Whether `X` is an array of another library that may lie on a GPU: it speaks DLPack."""
    return not isinstance(X, np.ndarray) and hasattr(X, "__dlpack_device__") and not is_frame(X)


def check_rows(
    X: Any,
    /,
    *,
    n_features: int | None = None,
    feature_names: Sequence[str] | None = None,
    name: str = "X",
    finite: bool = True,
) -> Rows:
    """Return `X` as rows of float64, checked: two dimensions, the expected width, all finite.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame of shape (n, d)
    n_features : int, optional
        The width that `X` must have.
    feature_names : sequence of str, optional
        The column names a data frame must carry, in this order.
    name : str
        How the messages call the argument.
    finite : bool
        Whether to look for NaN and infinity; a caller that computes norms sees them anyway.

    Returns
    -------
    ndarray of shape (n, d), C-contiguous, or csr_array with sorted, unique indices

    Examples
    --------
    >>> check_rows([[1, 2], [3, 4]])
    array([[1., 2.],
           [3., 4.]])
    """
    check_names(X, feature_names, name)
    if is_sparse(X):
        rows = _canonical_csr(X, name)
    else:
        rows = _dense(X, name, named=feature_names is not None)
    if n_features is not None and rows.shape[1] != n_features:
        raise InputError(
            f"`{name}` has {rows.shape[1]} features, but this model takes {n_features}."
        )
    if finite:
        check_finite(rows, name=name)
    return rows


def plain_rows(X: Any, n_features: int) -> FloatArray | None:
    """Rows of numbers as the engines take them; None where `X` is no table of such, or is wider.

    The quick way for arrays and lists: what it leaves, `check_rows` takes or refuses.

    Examples
    --------
    >>> plain_rows(np.array([[1, 2]], dtype=np.int8), 2), plain_rows([[1.0, 2.0]], 2)
    (array([[1., 2.]]), array([[1., 2.]]))
    >>> plain_rows(np.array([[1.0]]), 2), plain_rows(["one", "two"], 2)
    (None, None)
    """
    if type(X) is list:
        try:
            X = np.asarray(X)
        except (TypeError, ValueError):  # ragged, or rows of another library
            return None
    if type(X) is not np.ndarray or X.ndim != 2 or X.shape[1] != n_features:
        return None
    dtype, flags = X.dtype, X.flags
    if dtype == FLOAT64 and flags.c_contiguous and flags.aligned:
        return X if dtype is FLOAT64 else X.view(FLOAT64)
    return _doubles(X) if dtype.kind in "fiub" else None


FLOAT64 = np.dtype(np.float64)  # an equal one may be another object, which kernels refuse


def _doubles(X: NDArray[Any]) -> FloatArray:
    """As kernels take them: contiguous and aligned, which `ascontiguousarray` alone leaves open."""
    with np.errstate(over="ignore"):  # infinity is reported as such
        return np.require(np.ascontiguousarray(X, dtype=FLOAT64), requirements="A")


def check_finite(rows: Rows, *, name: str = "X", first_row: int = 0) -> None:
    """Refuse rows with NaN or infinity, naming the first; `first_row` is the number of row 0."""
    values = rows.data if is_sparse(rows) else rows
    # One pass without a temporary: a sum is finite unless an entry is not, or it overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(values.sum())
    if suspicious and not np.isfinite(values).all():
        bad = np.flatnonzero(~np.isfinite(values.ravel()))[0]
        if is_sparse(rows):
            row = int(np.searchsorted(rows.indptr, bad, side="right")) - 1
        else:
            row = int(bad) // rows.shape[1]
        raise InputError(
            f"`{name}` contains NaN or infinity (first in row {first_row + row}); "
            "impute or drop such rows."
        )


def check_csr(rows: Rows) -> None:
    """Refuse sparse rows that claim sorted, unique indices and have others.

    The kernels of forms look as they go; engines that fill rows in would take them.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> rows = csr_array(([1.0, 2.0], [1, 0], [0, 2]), shape=(1, 2))
    >>> rows.has_canonical_format = True
    >>> check_csr(rows)
    Traceback (most recent call last):
    kernelite.InputError: `X` is not a canonical CSR matrix: the column indices of row 0 are
    not increasing or not below 2.
    """
    if not is_sparse(rows):
        return
    indices, indptr, width = rows.indices, rows.indptr, rows.shape[1]
    wrong = (indices < 0) | (indices >= width)
    falls = np.flatnonzero(indices[1:] <= indices[:-1]) + 1  # which they may where a row begins
    wrong[falls[indptr[np.searchsorted(indptr, falls, side="right") - 1] != falls]] = True
    if wrong.any():
        refuse_csr(int(np.searchsorted(indptr, np.argmax(wrong), side="right")) - 1, width)


def refuse_csr(row: int, width: int) -> NoReturn:
    """Say that the indices of a row are wrong."""
    raise InputError(
        f"`X` is not a canonical CSR matrix: the column indices of row {row} are not "
        f"increasing or not below {width}."
    )


def fit_width(rows: Rows, width: int) -> tuple[Rows, FloatArray | None]:
    """Rows at a model's width, for models that know features by number (LIBSVM).

    Wider rows are cut; the squared norm of what was cut off, shape (m,), still counts in
    |x - z|^2, since such features meet zeros in every support vector. Narrower sparse rows are
    padded: sparse formats leave zeros out.

    Examples
    --------
    >>> fit_width(np.array([[1.0, 2.0, 3.0]]), 1)
    (array([[1.]]), array([13.]))
    """
    columns = rows.shape[1]
    if columns < width and is_sparse(rows):
        from scipy.sparse import csr_array

        shape = (rows.shape[0], width)
        return csr_array((rows.data, rows.indices, rows.indptr), shape=shape), None
    if columns < width:
        raise InputError(f"`X` has {columns} features, but this model takes {width}.")
    if columns == width:
        return rows, None
    rest = rows[:, width:]
    with np.errstate(over="ignore"):
        squared = rest.multiply(rest) if is_sparse(rest) else np.square(rest)
        squares = squared.sum(axis=1)
    if not np.isfinite(squares).all():  # it overflowed, or they are not numbers
        check_finite(rest)
    kept = rows[:, :width]
    kept = kept if is_sparse(kept) else np.ascontiguousarray(kept)
    return kept, np.asarray(squares, dtype=np.float64).reshape(-1)


def some_rows(X: Any, most: int) -> Any:
    """At most `most` rows, spread evenly over `X`, in the form that `X` has.

    Parameters
    ----------
    X : array-like, sparse matrix, data frame or list
    most : int

    Examples
    --------
    >>> some_rows(np.arange(10).reshape(5, 2), 3)
    array([[0, 1],
           [4, 5],
           [8, 9]])
    """
    count = X.shape[0] if hasattr(X, "shape") else len(X)
    if count <= most:
        return X
    return rows_at(X, np.unique(np.linspace(0, count - 1, most).astype(np.intp)))


def rows_at(X: Any, places: NDArray[np.intp]) -> Any:
    """Some rows of `X`, in the form that `X` has."""
    if is_sparse(X):
        return X.tocsr()[places]
    if isinstance(X, list | tuple):
        return [X[int(i)] for i in places]
    if hasattr(X, "iloc"):
        return X.iloc[places]
    return X.take(places) if hasattr(X, "take") and not isinstance(X, np.ndarray) else X[places]


NUMPYS_TEXT = re.compile(r"np\.(?:str|bytes)_\((.*)\)")  # as NumPy's messages quote a text
NUMBERS_PER_BLOCK = 1 << 20  # 8 MB of doubles


def rows_within(width: int, fewest: int = 1) -> int:
    """How many rows of so many numbers make up one block, of at most `NUMBERS_PER_BLOCK`.

    Examples
    --------
    >>> rows_within(1024), rows_within(10**9)
    (1024, 1)
    """
    return max(fewest, NUMBERS_PER_BLOCK // max(width, 1))


def row_blocks(n_rows: int, block: int) -> Iterator[slice]:
    """Slices that cover `n_rows` in blocks."""
    for start in range(0, n_rows, block):
        yield slice(start, min(start + block, n_rows))


def row_part(rows: Rows, block: slice) -> Rows:
    """Rows `block`, in the memory of all; SciPy would copy sparse ones.

    Examples
    --------
    >>> row_part(np.eye(3), slice(1, 3))
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    if not is_sparse(rows):
        return rows[block]
    m = rows.shape[0]
    start, stop, _ = block.indices(m)
    if (start, stop) == (0, m):
        return rows
    from scipy.sparse import csr_array

    indptr = rows.indptr[start : stop + 1]
    entries = slice(indptr[0], indptr[-1])
    part = csr_array(
        (rows.data[entries], rows.indices[entries], indptr - indptr[0]),
        shape=(len(indptr) - 1, rows.shape[1]),
    )
    part.has_canonical_format = rows.has_canonical_format
    return part


def dense_block(rows: Rows, block: slice | NDArray[np.intp]) -> FloatArray:
    """Rows `block` as a dense array; a view when the rows are dense and `block` is a slice."""
    part = rows[block]
    return part.toarray() if is_sparse(part) else part


def refuse_no_rows(X: object, name: str = "X") -> None:
    """Refuse what is no table at all: nothing, a dict, a generator, the path of a file.

    Examples
    --------
    >>> refuse_no_rows("rows.csv")
    Traceback (most recent call last):
    kernelite.InputTypeError: `X` must be rows, got a str; `kl.predict_files` reads files.
    """
    if isinstance(X, str | bytes | os.PathLike):
        kind = type(X).__name__
        problem = f"`{name}` must be rows, got a {kind}; `kl.predict_files` reads files."
        raise InputTypeError(problem)
    if X is None:
        raise InputTypeError(f"`{name}` must be rows, got None.")
    if isinstance(X, dict):
        problem = f"`{name}` must be rows, got a dict; `pandas.DataFrame` makes a table of it."
        raise InputTypeError(problem)
    if isinstance(X, Iterator):
        kind = type(X).__name__
        raise InputTypeError(f"`{name}` must be rows, got a {kind}; `list` makes rows of it.")


def _dense(X: Any, name: str, *, named: bool = False) -> FloatArray:
    refuse_no_rows(X, name)
    try:
        array = frame_values(X, name, checked=named) if is_frame(X) else np.asarray(X)
    except InputError:
        raise
    except TypeError:
        if not is_tensor(X):
            raise
        raise InputError(
            f"`{name}` lies on a GPU, where this is not computed; bring it to the host, e.g. by "
            f"`{name}.cpu()`."
        ) from None
    except ValueError as error:  # ragged nested lists
        raise InputError(f"`{name}` must be a rectangular table of numbers: {error}") from None
    if array.ndim != 2:
        hint = f"; one row is `{name}.reshape(1, -1)`" if array.ndim == 1 else ""
        kind = InputError if array.ndim else InputTypeError
        raise kind(f"`{name}` must have two dimensions, got shape {array.shape}{hint}.")
    if hasattr(X, "_mask") and np.ma.is_masked(X):  # the first loads nothing
        raise InputError(f"`{name}` has masked entries; fill them or drop such rows.")
    if array.dtype.kind == "c":
        raise InputError(f"`{name}` must hold real numbers. Complex data not supported.")
    if array.dtype.kind not in "fiubOUS":  # dates and records would pass for numbers
        raise InputTypeError(f"`{name}` must hold numbers, got dtype {array.dtype}.")
    try:
        return _doubles(array)
    except (TypeError, ValueError, OverflowError) as error:
        kind = InputTypeError if isinstance(error, TypeError) else InputError
        what = "text" if array.dtype.kind in "SU" else f"dtype {array.dtype}"
        reason = NUMPYS_TEXT.sub(r"\1", str(error))
        raise kind(f"`{name}` must hold numbers, got {what} ({reason}).") from None


def _check_pointers(X: Any, name: str) -> None:
    """Refuse rows that are not within the arrays, before compiled code of any kind reads them."""
    indptr, count = X.indptr, len(X.indices)
    sound = len(indptr) == X.shape[0] + 1 and indptr[0] == 0 and indptr[-1] <= count == len(X.data)
    # Where it is called canonical already, our own loops look at each row, and SciPy's do not.
    if sound and not getattr(X, "_has_canonical_format", False):
        sound = not (indptr[1:] < indptr[:-1]).any()
    if not sound:
        raise InputError(f"`{name}` is not a CSR matrix: its rows are not within its entries.")


def _canonical_csr(X: Any, name: str) -> csr_array:
    from scipy.sparse import csr_array

    if X.ndim != 2:
        raise InputError(f"`{name}` must have two dimensions, got shape {X.shape}.")
    if X.dtype.kind not in "fiub":
        raise InputError(f"`{name}` must hold real numbers, got dtype {X.dtype}.")
    if X.format == "csr":
        _check_pointers(X, name)
    converted = X
    if not isinstance(X, csr_array) or X.dtype != np.float64:
        with np.errstate(over="ignore"):
            converted = csr_array(X, dtype=np.float64)
    if not converted.has_canonical_format:
        # `csr_array(X)` may share memory with X; canonicalising works in place.
        converted = converted.copy()
        converted.sum_duplicates()
    return converted
