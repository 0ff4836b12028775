"""Data files: a path in, a `DataSet` out, or a stream of them in bounded memory, or all defects.

The format is found by the name, then by the content: LIBSVM text, delimited text, .npy, .npz.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Unpack

from kernelite.data.tables.dataset import DataSet, join
from kernelite.data.tables.parsing import Defect, Report, raise_first
from kernelite.data.tables.scan import CHUNK_ROWS, Reading, ReadingOptions, scan
from kernelite.support.errors import FileFormatError, InputError

__all__ = ["DataSet", "defects", "iter_data", "read_data"]


def read_data(path: str | os.PathLike[str], **options: Unpack[ReadingOptions]) -> DataSet:
    """Read a data file whole.

    - "libsvm": lines `[label] index:value ...`, indices from 1 and rising; `#` starts a comment.
      Either every row has a label or none has. Plain or compressed (.gz, .bz2, .xz, .zst).
    - "delimited": numbers between commas, semicolons, tabs or blanks, all lines with as many
      cells; lines that start with `#` are comments. Plain or compressed.
    - "npy": an array of `numpy.save` with two dimensions; "npz": a CSR matrix of
      `scipy.sparse.save_npz`. Neither holds labels.

    Blank lines are skipped, lines end in LF or CRLF and have at most 16 MiB, text is UTF-8.
    NaN and infinities are refused everywhere.

    Parameters
    ----------
    path : path-like
        The file; text may also come from a pipe.
    format : {"libsvm", "delimited", "npy", "npz"}, optional
        By default the extension decides (.svm, .libsvm, .svmlight, .csv, .tsv, .npy, .npz, before
        .gz, .bz2, .xz or .zst), then the content.
    n_features : int, optional
        Width to read at: narrower sparse rows are padded, an index beyond it is an error, and so
        is any other width of dense rows. By default the file's own; see `DataSet.fit_width`.
    labels : {"auto", "required", "ignore", "text"}
        Take them where there are any; insist on them; leave them out; or insist, and keep those
        of a delimited file as text. Otherwise a delimited file's first label decides whether all
        must be numbers.
    delimiter : str, optional
        One character, a blank for any run of blanks and tabs. By default the first of tab, `;`,
        `,` and blank that the first line holds.
    header : bool or "auto"
        Whether the first line of a delimited file names the columns. "auto": it does if any cell
        outside the label column is a name, neither empty nor like a number.
    label_column : int, str, None or "auto"
        Label column of a delimited file: position from 0 (negative from the end), name in the
        header, None for none. "auto": the column called label, target, class or y, if any; so
        without a header there are no labels.

    Returns
    -------
    DataSet
        Sparse rows (CSR) from "libsvm" and "npz", dense ones from the others.

    Raises
    ------
    FileFormatError
        At the first defect: names file, line and token.
    InputError
        For an option that cannot be.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.svm")
    ...     _ = path.write_text("+1 1:0.5 3:2\\n-1 2:1\\n")
    ...     data = read_data(path)
    >>> data.rows.toarray(), data.labels
    (array([[0.5, 0. , 2. ], [0. , 1. , 0. ]]), array([ 1., -1.]))
    """
    return join(list(scan(path, Reading(**options), raise_first(path))))


def iter_data(
    path: str | os.PathLike[str],
    chunk_rows: int = CHUNK_ROWS,
    *,
    dense_width: int | None = None,
    report: Report | None = None,
    **options: Unpack[ReadingOptions],
) -> Iterator[DataSet]:
    """Read a data file in parts, in memory that does not grow with its length.

    Parameters
    ----------
    path : path-like
        The file; text may also come from a pipe.
    chunk_rows : int
        Most rows of a part; parts of long rows have fewer.
    format, n_features, labels, delimiter, header, label_column
        As in `read_data`.
    dense_width : int, optional
        Parts of LIBSVM text come dense, with this width, where that leaves nothing out and few
        places are empty. By default all are sparse.
    report : callable, optional
        Told the defects of rows, which are then left out; by default the first one is raised.

    Yields
    ------
    DataSet
        Consecutive rows. Parts of LIBSVM text differ in width; `DataSet.fit_width` evens it out.
        A .npz file is held whole and given out in parts.

    Raises
    ------
    FileFormatError
        At the first defect, after the parts before it.
    InputError
        For an option that cannot be.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.csv")
    ...     _ = path.write_text("1,2\\n3,4\\n5,6\\n")
    ...     [part.rows.tolist() for part in iter_data(path, chunk_rows=2)]
    [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]]
    """
    if chunk_rows < 1:
        raise InputError(f"`chunk_rows` must be 1 or more, got {chunk_rows}")
    reading = Reading(**options, dense_width=dense_width)
    return scan(path, reading, report or raise_first(path), chunk_rows)


def defects(path: str | os.PathLike[str], **options: Unpack[ReadingOptions]) -> Iterator[Defect]:
    """List what is wrong with a data file, in order of its lines.

    The file is good if and only if `read_data` with the same options reads it. At most 100
    defects are listed for one line, and for one part of an array file.

    Parameters
    ----------
    path : path-like
        The file.
    format, n_features, labels, delimiter, header, label_column
        As in `read_data`.

    Yields
    ------
    Defect
        Line, token and problem of each defect.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.svm")
    ...     _ = path.write_text("+1 1:nan\\n+1 1:1\\nx 1:1 1:1\\n")
    ...     for defect in defects(path):
    ...         print(defect.line, defect.problem)
    1 feature `1`: value `nan` is not finite
    3 label `x` is not a decimal number
    3 index `1` appears twice, indices must rise along a row
    """
    return _walk(path, Reading(**options))


def _walk(path: str | os.PathLike[str], options: Reading) -> Iterator[Defect]:
    found: list[Defect] = []
    try:
        for _ in scan(path, options, found.append, chunk_rows=4096):
            yield from _in_order(found)
            found.clear()
    except FileFormatError as error:
        found.append(Defect(error.line, None, error.problem))
    yield from _in_order(found)


def _in_order(found: list[Defect]) -> list[Defect]:
    # Bytes that are not text come to light before the rows around them are parsed.
    return sorted(found, key=lambda defect: defect.line or 0)
