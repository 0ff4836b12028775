"""Array files: .npy (dense) and .npz (one SciPy CSR matrix) in, checked arrays out.

Headers are checked against the size of the file before anything is allocated; nothing is ever
unpickled, and CSR structure is verified before SciPy's compiled code may walk it.
They are walked in parts; entries that are not finite go to a report.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, Rows, is_sparse
from kernelite.data.tables.dataset import DataSet
from kernelite.data.tables.libsvm_data import MAX_INDEX
from kernelite.data.tables.parsing import Defect, Report, quote
from kernelite.support.compression import granted, too_large
from kernelite.support.errors import FileFormatError
from kernelite.support.files import open_binary

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["scan_arrays"]

_MEMBERS = ("format", "shape", "data", "indices", "indptr")
_CURE = "save a CSR matrix by scipy.sparse.save_npz"
_MOST_DEFLATE = 1032  # bytes that one byte of a deflate stream can stand for
_READ_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,  # an encrypted member
    NotImplementedError,
    ValueError,
)


@dataclass(frozen=True, eq=False)
class NpyRows:
    """An open .npy file with two dimensions; rows are read when they are asked for.

    The file is not mapped: a mapping of a file that another program cuts short ends the process.

    Parameters
    ----------
    file : file object
        Open for reading bytes, seekable; to be closed by the owner.
    path : str
        For messages.
    offset : int
        Where the numbers begin.
    shape : (n, d)
    fortran : bool
        Whether columns, not rows, are contiguous.
    dtype : dtype
        Of real numbers.
    """

    file: IO[bytes]
    path: str
    offset: int
    shape: tuple[int, int]
    fortran: bool
    dtype: np.dtype[Any]

    def part(self, start: int, stop: int) -> FloatArray:
        """Rows `start` to `stop` (at most n), shape (stop - start, d)."""
        n, d = self.shape
        stop = min(stop, n)
        if not self.fortran:
            return self._numbers(start * d, (stop - start) * d).reshape(-1, d).astype(np.float64)
        rows = np.empty((stop - start, d))
        for column in range(d):
            rows[:, column] = self._numbers(column * n + start, stop - start)
        return rows

    def _numbers(self, first: int, count: int) -> NDArray[Any]:
        numbers = np.empty(count, self.dtype)
        try:
            self.file.seek(self.offset + first * self.dtype.itemsize)
            # The wire format of the buffer is bytes, whatever the dtype.
            done = self.file.readinto(numbers.view(np.uint8))  # type: ignore[attr-defined]
        except OSError as error:
            raise FileFormatError(
                self.path, f"cannot be read on ({error.strerror or error})"
            ) from None
        if done != numbers.nbytes:
            raise FileFormatError(self.path, "the file was cut short while it was read")
        return numbers


@contextmanager
def open_npy(path: str | os.PathLike[str]) -> Iterator[NpyRows]:
    """Open a .npy file of real numbers with two dimensions.

    Parameters
    ----------
    path : path-like
        A file as `numpy.save` writes it.

    Yields
    ------
    NpyRows
        Entries may still be NaN.

    Raises
    ------
    FileFormatError
        For another dtype or number of dimensions, or a size that differs from the header's.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     name = os.path.join(folder, "a.npy")
    ...     np.save(name, np.eye(2))
    ...     with open_npy(name) as rows:
    ...         rows.part(0, 2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    with open_binary(path) as file:
        shape, fortran, dtype = _header(file, path)
        offset, size = file.tell(), os.fstat(file.fileno()).st_size
        _check_size(path, shape, dtype, size - offset)
        if len(shape) != 2:
            raise FileFormatError(path, f"the shape is {shape}, expected (rows, features)")
        if shape[1] == 0:
            raise FileFormatError(path, f"the shape is {shape}, expected at least one feature")
        yield NpyRows(file, os.fspath(path), offset, shape, fortran, dtype)


def read_npz(path: str | os.PathLike[str]) -> csr_array:
    """Read a sparse matrix as `scipy.sparse.save_npz` writes it.

    Parameters
    ----------
    path : path-like
        A .npz file in CSR format.

    Returns
    -------
    csr_array of shape (n, d), float64
        With sorted indices, duplicates summed as SciPy does; entries may still be NaN.

    Raises
    ------
    FileFormatError
        If it is anything else, or its arrays do not make a CSR matrix.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from scipy.sparse import csr_array, save_npz
    >>> with TemporaryDirectory() as folder:
    ...     name = os.path.join(folder, "a.npz")
    ...     save_npz(name, csr_array(np.eye(2)))
    ...     read_npz(name).shape
    (2, 2)
    """
    from scipy.sparse import csr_array

    with open_binary(path) as file:
        arrays = _read_members(file, path)
    n, d = _sparse_shape(arrays["shape"], path)
    data, indices, indptr = arrays["data"], arrays["indices"], arrays["indptr"]
    problem = _csr_problem(data, indices, indptr, n, d)
    if problem is not None:
        raise FileFormatError(path, f"the arrays do not make a CSR matrix: {problem}")
    rows = csr_array((data.astype(np.float64), indices, indptr), shape=(n, d), copy=True)
    with np.errstate(over="ignore", invalid="ignore"):
        rows.sum_duplicates()
    return rows


def _header(file: IO[bytes], path: str | os.PathLike[str]) -> tuple[Any, bool, np.dtype[Any]]:
    """Shape, Fortran order and dtype of an array of real numbers."""
    shape, fortran, dtype = _any_header(file, path)
    if dtype.hasobject:
        raise FileFormatError(path, "the array holds Python objects, which are never unpickled")
    if dtype.kind not in "fiub":
        raise FileFormatError(path, f"the dtype is {quote(str(dtype))}, expected real numbers")
    if dtype.kind == "f" and dtype.itemsize > 8:
        raise FileFormatError(path, f"the dtype {dtype} is wider than float64, save as float64")
    return shape, fortran, dtype


def _any_header(file: IO[bytes], path: str | os.PathLike[str]) -> tuple[Any, bool, np.dtype[Any]]:
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise FileFormatError(path, f"the .npy version {version} is not read, save as float64")
    except FileFormatError:
        raise
    except Exception as error:  # NumPy evaluates the header as a literal: nearly anything can come
        reason = quote(str(error).partition("\n")[0])
        raise FileFormatError(path, f"this is not an array of `numpy.save`: {reason}") from None
    if any(type(side) is not int or side < 0 for side in shape):  # True is an int to NumPy
        raise FileFormatError(path, f"the shape {shape} has a side that is not a whole number")
    return shape, fortran, dtype


def _check_size(
    path: str | os.PathLike[str], shape: tuple[int, ...], dtype: np.dtype[Any], there: int
) -> None:
    expected = math.prod(shape) * dtype.itemsize
    if expected != there:
        raise FileFormatError(
            path,
            f"the header announces shape {shape} of {dtype}, that is {expected} bytes, "
            f"but {there} follow",
        )


def _read_members(file: IO[bytes], path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    try:
        archive = zipfile.ZipFile(file)
        names = archive.namelist()
    except _READ_ERRORS as error:
        raise FileFormatError(path, f"this is not a .npz archive: {quote(str(error))}") from None
    missing = [name for name in _MEMBERS if f"{name}.npy" not in names]
    if "format" in missing:
        raise FileFormatError(path, f"this .npz holds no sparse matrix, {_CURE}")
    arrays: dict[str, NDArray[Any]] = {}
    most = granted(os.fstat(file.fileno()).st_size)
    for name in _MEMBERS:
        if name in missing:
            raise FileFormatError(path, f"the array `{name}` is missing, {_CURE}")
        arrays[name] = _read_member(archive, name, path, most)
        if name == "format" and arrays[name].tobytes().rstrip(b"\0").replace(b"\0", b"") != b"csr":
            kind = quote(arrays[name].tobytes().replace(b"\0", b"").decode("latin-1"))
            raise FileFormatError(path, f"the sparse format is {kind}, {_CURE}")
    return arrays


def _read_member(
    archive: zipfile.ZipFile, name: str, path: str | os.PathLike[str], most: int
) -> NDArray[Any]:
    """One array, allocated only after its header, the archive's entry and its size agree."""
    info = archive.getinfo(f"{name}.npy")
    if info.file_size > _MOST_DEFLATE * (info.compress_size + 64):
        raise FileFormatError(path, f"the size of the array `{name}` in the archive is impossible")
    try:
        with archive.open(info) as member:
            text = name == "format"
            shape, _, dtype = _any_header(member, path) if text else _header(member, path)
            start = member.tell()
            if dtype.hasobject:
                raise FileFormatError(path, "the array holds Python objects, never unpickled")
            _check_size(path, shape, dtype, info.file_size - start)
            taken = math.prod(shape) * max(dtype.itemsize, 8)
            if taken > most:
                what = f"an array of it takes {taken} bytes,"
                raise FileFormatError(path, too_large(what, "the file"))
            content = member.read()
        if len(content) != info.file_size - start:
            raise FileFormatError(path, f"the array `{name}` is cut off")
        # No entry may still be of a shape that NumPy refuses, such as (0, 2**62).
        return np.frombuffer(io.BytesIO(content).getbuffer(), dtype).reshape(shape)
    except FileFormatError:
        raise
    except _READ_ERRORS as error:
        raise FileFormatError(path, f"the array `{name}` is corrupt: {quote(str(error))}") from None


def _sparse_shape(shape: NDArray[Any], path: str | os.PathLike[str]) -> tuple[int, int]:
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
        raise FileFormatError(path, f"the shape {quote(str(shape))} is not (rows, features)")
    n, d = int(shape[0]), int(shape[1])
    if not 1 <= d <= MAX_INDEX:
        raise FileFormatError(path, f"there are {d} features, expected 1 to {MAX_INDEX}")
    return n, d


def _csr_problem(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], n: int, d: int
) -> str | None:
    if not data.ndim == indices.ndim == indptr.ndim == 1:
        return "they must have one dimension each"
    if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu":
        return "`indices` and `indptr` must be integers"
    if len(indptr) != n + 1:
        return f"`indptr` has {len(indptr)} entries, expected {n + 1}"
    if len(data) != len(indices):
        return f"`data` has {len(data)} entries but `indices` has {len(indices)}"
    if indptr[0] != 0 or indptr[-1] != len(indices) or (indptr[1:] < indptr[:-1]).any():
        return f"`indptr` must rise from 0 to {len(indices)}"
    if len(indices) and not (indices.min() >= 0 and indices.max() < d):
        return f"`indices` must lie in 0 to {d - 1}"
    return None


_MOST_DEFECTS = 100  # listed for one part


def scan_arrays(
    path: str,
    kind: Literal["npy", "npz"],
    report: Report,
    chunk_rows: int | None = None,
    n_features: int | None = None,
) -> Iterator[DataSet]:
    """Walk a .npy or .npz file in parts.

    Parameters
    ----------
    path : str
        The file.
    kind : "npy" or "npz"
        What it is.
    report : callable
        Called with a `Defect` for each entry that is not finite; a part with one is left out.
    chunk_rows : int, optional
        Most rows of a part; by default there is one part.
    n_features : int, optional
        The width that dense rows must have; the least that sparse ones have.

    Yields
    ------
    DataSet
        Consecutive rows, float64.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     np.save(folder + "/a.npy", np.arange(6).reshape(3, 2))
    ...     [part.first_row for part in scan_arrays(folder + "/a.npy", "npy", print, 2)]
    [0, 2]
    """
    with open_npy(path) if kind == "npy" else nullcontext(read_npz(path)) as rows:
        yield from _parts(rows, path, kind, report, chunk_rows, n_features)


def _parts(
    rows: NpyRows | Any,
    path: str,
    kind: Literal["npy", "npz"],
    report: Report,
    chunk_rows: int | None,
    n_features: int | None,
) -> Iterator[DataSet]:
    n, d = rows.shape
    if n_features is not None and (d > n_features or (d < n_features and kind == "npy")):
        raise FileFormatError(path, f"the rows have {d} features, expected {n_features}")
    step = chunk_rows or max(n, 1)
    for start in range(0, max(n, 1), step):
        part = _part(rows, start, start + step)
        if _all_finite(part, start, report):
            data = DataSet(part, None, path, kind, first_row=start)
            if kind == "npz" and n_features is not None:
                data = DataSet(data.fit_width(n_features)[0], None, path, kind, first_row=start)
            yield data


def _part(rows: NpyRows | Any, start: int, stop: int) -> Rows:
    if isinstance(rows, NpyRows):
        return rows.part(start, stop)
    whole: Rows = rows if start == 0 and stop >= rows.shape[0] else rows[start:stop]
    return whole


def _all_finite(part: Rows, first_row: int, report: Report) -> bool:
    values = part.data if is_sparse(part) else part
    bad = ~np.isfinite(values)
    if not bad.any():
        return True
    if is_sparse(part):
        entries = np.flatnonzero(bad)
        row_of = np.searchsorted(part.indptr, entries, side="right") - 1
        column_of = part.indices[entries]
    else:
        row_of, column_of = np.nonzero(bad)
    for row, column, value in zip(row_of, column_of, values[bad][:_MOST_DEFECTS]):
        place = f"row {row + first_row}, column {column} (both from 0)"
        report(Defect(None, str(value), f"{place} holds `{value}`, expected finite numbers"))
    if len(row_of) > _MOST_DEFECTS:
        more = f"{len(row_of) - _MOST_DEFECTS} more entries that are not finite"
        report(Defect(None, None, f"there are {more} from row {first_row} on"))
    return False
