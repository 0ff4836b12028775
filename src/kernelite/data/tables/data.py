"""Data files: a path in, a `DataSet` out, or a stream of them in bounded memory, or all defects.

The format is found by the name, then by the content: LIBSVM text, delimited text, .npy, .npz. One
reader, `scan`, is behind all: what is checked is what is read.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypedDict, Unpack, get_args

from kernelite.data.rows.inputs import Rows
from kernelite.data.tables import delimited, libsvm_data
from kernelite.data.tables.arrays import scan_arrays
from kernelite.data.tables.dataset import DataSet, join, make_csr
from kernelite.data.tables.lines import Lines
from kernelite.data.tables.parsing import (
    DECIMAL,
    Defect,
    Line,
    Report,
    check_delimiter,
    chunked,
    quote,
    raise_first,
)
from kernelite.support.compression import without_ending
from kernelite.support.errors import FileFormatError, InputError
from kernelite.support.files import open_binary

__all__ = [
    "CHUNK_ROWS",
    "DataSet",
    "Format",
    "LabelsOption",
    "Reading",
    "ReadingOptions",
    "defects",
    "iter_data",
    "read_data",
    "scan",
]

Format = Literal["libsvm", "delimited", "npy", "npz"]
LabelsOption = Literal["auto", "required", "ignore", "text"]

CHUNK_ROWS = 2**15
"""Rows that are parsed at once."""

_CHUNK_CHARACTERS = 4 * 2**20  # a chunk ends sooner when its text is this long
_FAST_FROM = 2**20  # bytes of a LIBSVM file for which loading the compiled reader pays
_EXTENSIONS: dict[str, Format] = {
    ".svm": "libsvm",
    ".libsvm": "libsvm",
    ".svmlight": "libsvm",
    ".csv": "delimited",
    ".tsv": "delimited",
    ".npy": "npy",
    ".npz": "npz",
}
_TAKERS = "`predict`, `explain`, `report`, `compile --sample` and `check --model`"
_NO_DATA = {
    "a compiled model, not data": re.compile(rb".{5}\0\0\0\{", re.S),
    "a LIBSVM model, not data": re.compile(rb"svm_type "),
    "a pickle, which is not read": re.compile(rb"\x80[\x02-\x05]"),
    f"a Parquet file: {_TAKERS} take it, "
    "if its name ends in .parquet or with `--data-format parquet`": re.compile(rb"PAR1[\0-\x1f]"),
    f"an Arrow file: {_TAKERS} take it, "
    "if its name ends in .arrow or with `--data-format arrow`": re.compile(rb"ARROW1\0"),
}
_PAIR = re.compile(r"(?:^|[ \t])[+-]?[0-9]+:")
_DECIMAL = re.compile(DECIMAL)


class ReadingOptions(TypedDict, total=False):
    """What `read_data` and its kin take besides a path, and describe."""

    format: Format | None
    n_features: int | None
    labels: LabelsOption
    delimiter: str | None
    header: bool | Literal["auto"]
    label_column: int | str | None


@dataclass(frozen=True, slots=True)
class Reading:
    """How a data file is to be read; `read_data` describes the options.

    Examples
    --------
    >>> Reading(format="svm")
    Traceback (most recent call last):
    kernelite.InputError: `format` must be one of 'libsvm', 'delimited', 'npy', 'npz' or
    None, got 'svm'
    """

    format: Format | None = None
    n_features: int | None = None
    labels: LabelsOption = "auto"
    delimiter: str | None = None
    header: bool | Literal["auto"] = "auto"
    label_column: int | str | None = "auto"
    dense_width: int | None = None

    def __post_init__(self) -> None:
        if self.format is not None:
            _one_of("format", self.format, get_args(Format), " or None")
        _one_of("labels", self.labels, get_args(LabelsOption))
        if not isinstance(self.header, bool):
            _one_of("header", self.header, ("auto",), ", True or False")
        check_delimiter(self.delimiter)
        if self.n_features is not None and self.n_features < 1:
            raise InputError(f"`n_features` must be 1 or more, got {self.n_features}")


def scan(
    path: str | os.PathLike[str], options: Reading, report: Report, chunk_rows: int | None = None
) -> Iterator[DataSet]:
    """Walk a data file in parts.

    Parameters
    ----------
    path : path-like
        The file.
    options : Reading
        How to read it.
    report : callable
        Called with each `Defect`; rows with one are left out.
    chunk_rows : int, optional
        Most rows of a part; by default text comes in parts of 32768 and arrays whole.

    Yields
    ------
    DataSet
        Consecutive rows.

    Raises
    ------
    FileFormatError
        For defects that leave nothing to go on with.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.svm")
    ...     _ = path.write_text("+1 1:1\\n+1 0:1\\n-1 2:1\\n")
    ...     [part.labels for part in scan(path, Reading(), print)]
    Defect(line=2, token='0:1', problem='index `0` is out of range, the first feature has index 1')
    [array([ 1., -1.])]
    """
    name = os.fsdecode(path)
    kind = options.format or _by_extension(name) or _by_first_bytes(name)
    if kind == "npy" or kind == "npz":
        if options.labels in ("required", "text"):
            raise FileFormatError(path, f"a .{kind} file holds no labels")
        yield from scan_arrays(name, kind, report, chunk_rows, options.n_features)
        return
    watched = _Watched(report)
    with Lines(path, report=watched) as lines:
        kind = kind or _by_content(lines)
        read = _scan_libsvm if kind == "libsvm" else _scan_delimited
        empty = True
        for part in read(lines, options, chunk_rows or CHUNK_ROWS):
            empty = False
            yield part
        if empty and not watched.count:
            raise FileFormatError(path, "the file holds no rows")


class _Watched:
    """A report that counts."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.count = 0

    def __call__(self, defect: Defect) -> None:
        self.count += 1
        self.report(defect)


def _scan_libsvm(lines: Lines, options: Reading, chunk_rows: int) -> Iterator[DataSet]:
    if options.labels == "text":
        raise InputError(f'`labels` is "text", but those of `{lines.path}` (LIBSVM) are numbers')
    done = 0
    for block in _libsvm_blocks(lines, options, chunk_rows):
        part: Rows
        if options.dense_width is not None and block.fills(options.dense_width):
            part = block.dense(options.dense_width)
        else:
            width = options.n_features or block.width
            part = make_csr(block.values, block.indices, block.indptr, width)
        labels = None if options.labels == "ignore" else block.labels
        yield DataSet(part, labels, lines.path, "libsvm", first_row=done)
        done += block.n_rows


def _libsvm_blocks(
    lines: Lines, options: Reading, chunk_rows: int
) -> Iterator[libsvm_data.SparseBlock]:
    """Blocks of lines, each read at once if it is right, else line by line."""
    labelled: bool | None = True if options.labels == "required" else None
    long = False
    while block := lines.read_block(_CHUNK_CHARACTERS):
        long = long or len(block) >= _FAST_FROM
        read = None
        if long and not lines.too_long:
            read = libsvm_data.read_block(block, labelled, options.n_features)
        if read is not None:
            lines.skip(read.n_lines)
            labelled = read.labelled if read.rows.n_rows else labelled
            yield from libsvm_data.cut(read.rows, chunk_rows)
            continue
        rows = libsvm_data.data_lines(lines.unread(block))
        for chunk in chunked(rows, _CHUNK_CHARACTERS, chunk_rows):
            if labelled is None:
                # The majority, so that one row without label is the defect, and not all others.
                labelled = 2 * sum(libsvm_data.has_label(row) for _, row in chunk) >= len(chunk)
            yield libsvm_data.parse_block(chunk, labelled, lines.report, options.n_features)
    for _ in lines:  # a stream that broke off says so here
        raise AssertionError("lines were left over")


def _scan_delimited(lines: Lines, options: Reading, chunk_rows: int) -> Iterator[DataSet]:
    rows = delimited.data_lines(lines)
    first = list(islice(rows, 2))
    if not first:
        return
    found = _layout(first, lines.path, options)
    for name, count in Counter(found.names or ()).items():
        if count > 1 and name and not _DECIMAL.fullmatch(name):
            problem = f"there are {count} columns {quote(name)}; rename them"
            lines.report(Defect(first[0][0], None, problem))
    for line in reversed(first[1:] if found.names is not None else first):
        lines.push_back(line)
    done = 0
    for chunk in chunked(delimited.data_lines(lines), _CHUNK_CHARACTERS, chunk_rows):
        block = delimited.parse_block(chunk, found, lines.report)
        labels = None if options.labels == "ignore" else block.labels
        yield DataSet(block.values, labels, lines.path, "delimited", found.names, done)
        done += len(block.values)


def _layout(first: list[Line], path: str, options: Reading) -> delimited.TextLayout:
    tabs = without_ending(path).endswith(".tsv")
    found = delimited.find_layout(
        first,
        path=path,
        delimiter=options.delimiter or ("\t" if tabs else None),
        header=options.header,
        label_column=options.label_column,
        text_labels=options.labels == "text",
    )
    if options.labels in ("required", "text") and found.label_cell is None:
        raise FileFormatError(
            path, "there is no label column; say which with `--label-column` (`label_column=`)"
        )
    if options.n_features not in (None, found.n_features):
        raise FileFormatError(
            path,
            f"the rows have {found.n_features} features, expected {options.n_features}",
            line=found.line,
        )
    return found


def _by_extension(path: str) -> Format | None:
    return _EXTENSIONS.get(os.path.splitext(without_ending(path))[1])


def _by_first_bytes(path: str) -> Format | None:
    if not os.path.isfile(path):  # looking into a pipe would take its bytes away
        return None
    with open_binary(path) as file:
        start = file.read(9)
    if start.startswith(b"\x93NUMPY"):
        return "npy"
    for kind, mark in _NO_DATA.items():
        if mark.match(start):
            raise FileFormatError(path, f"this is {kind}")
    return "npz" if start.startswith(b"PK\x03\x04") else None


def _by_content(lines: Lines) -> Format:
    """Tell the two kinds of text apart by the first row."""
    line = next(delimited.data_lines(lines), None)
    if line is None:
        return "libsvm"
    lines.push_back(line)
    text = line[1].strip(" \t")
    if _PAIR.search(text) or _DECIMAL.fullmatch(text.partition("#")[0].rstrip(" \t")):
        return "libsvm"
    if re.search(r"[,;\t ]", text):
        return "delimited"
    problem = "is neither `label index:value ...` nor cells between commas, tabs or blanks"
    raise FileFormatError(lines.path, f"{quote(text)} {problem}", line=line[0])


def _one_of(name: str, value: object, known: tuple[str, ...], more: str = "") -> None:
    if value not in known:
        listed = ", ".join(map(repr, known))
        raise InputError(f"`{name}` must be one of {listed}{more}, got {value!r}")


# How users and verbs call it.


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
