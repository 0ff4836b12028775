"""Columnar files by name (what to read, in which format), then as streams of batches.

Parquet, Arrow (IPC files and streams; Feather is the same) and CSV (also TSV, also compressed).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from kernelite.data.tables.columnar.library import TablePart, arrow
from kernelite.data.tables.parsing import check_delimiter, quote
from kernelite.support.compression import ENDINGS
from kernelite.support.errors import FileFormatError, InputError
from kernelite.support.files import STANDARD_INPUT

__all__ = [
    "FORMATS",
    "NO_KINDS",
    "ColumnarFile",
    "ColumnarFormat",
    "DataFormat",
    "Kind",
    "Kinds",
    "SourceFile",
    "TextOptions",
    "batch_rows",
    "format_of",
    "list_sources",
    "open_file",
    "output_format",
    "stem_of",
]

ColumnarFormat: TypeAlias = Literal["parquet", "arrow", "csv"]
DataFormat: TypeAlias = (
    ColumnarFormat | Literal["libsvm", "delimited", "npy", "npz"] | Literal["content"]
)
FORMATS: tuple[ColumnarFormat, ...] = get_args(ColumnarFormat)

_WRITTEN: dict[str, ColumnarFormat] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
}
_TEXT: tuple[str, ...] = (".csv", ".tsv")
_READ: dict[str, ColumnarFormat] = _WRITTEN | {
    f"{text}{packed}": "csv" for text in _TEXT for packed in ("", *ENDINGS)
}


@dataclass(frozen=True)
class SourceFile:
    """A file to read.

    Parameters
    ----------
    path : str
    format : {"parquet", "arrow", "csv", "libsvm", "delimited", "npy", "npz", "content"}
        Those after the first three are read by `kernelite.data.tables.data`; "content" tells.
    groups : (int, int), optional
        Of Parquet: only the row groups from the first to before the second, counted from 0.
    """

    path: str
    format: DataFormat
    groups: tuple[int, int] | None = None


def list_sources(
    path: str | os.PathLike[str], format: DataFormat | None = None
) -> list[SourceFile]:
    """The file, or the files of a folder in the order of their names.

    Of a folder, names that start with `.` or `_` are left out and, unless `format` is given, files
    whose name does not tell a columnar format. A folder inside it must not hold data files.

    Parameters
    ----------
    path : path-like
        A file or a folder.
    format : {"parquet", "arrow", "csv"}, optional
        By default each file's name tells it.

    Returns
    -------
    list of SourceFile
        At least one.

    Raises
    ------
    FileFormatError, InputError
        If there is no such file, none in the folder, or no format.

    Examples
    --------
    >>> list_sources("no/such.parquet")
    Traceback (most recent call last):
    kernelite.FileFormatError: no/such.parquet: there is no such file
    """
    name = os.fspath(path)
    if format is not None and format not in FORMATS:
        raise InputError(f"`format` must be one of {', '.join(FORMATS)}, got {format!r}.")
    if os.path.isdir(name):
        return _of_folder(name, format)
    if not os.path.exists(name) and name != STANDARD_INPUT:
        raise FileFormatError(name, "there is no such file")
    found = format or format_of(name)
    if not os.path.isfile(name) and found != "csv":
        raise FileFormatError(name, "of columnar files, only CSV is read from a pipe; name a file")
    if found is None:
        raise InputError(
            f"the name `{name}` does not tell its format; say it with `--data-format` "
            f"(`format=`): {', '.join(FORMATS)}."
        )
    return [SourceFile(name, found)]


def _of_folder(folder: str, format: DataFormat | None) -> list[SourceFile]:
    names = sorted(name for name in os.listdir(folder) if not name.startswith((".", "_")))
    # A link to nothing is kept: that its file is missing has to be said.
    paths = [path for name in names if not os.path.isdir(path := os.path.join(folder, name))]
    found = [(path, format or format_of(path)) for path in paths]
    files = [SourceFile(path, kind) for path, kind in found if kind is not None]
    for name in names:
        if _holds_data(inner := os.path.join(folder, name), format):
            raise FileFormatError(
                inner,
                f"data files in a folder inside `{folder}` would be left out; predict that folder "
                "by itself, or put all files into one",
            )
    if not files:
        others = f"; it holds {', '.join(map(quote, names[:3]))}" if names else ""
        raise FileFormatError(folder, f"the folder has no Parquet, Arrow or CSV file{others}")
    return files


def _holds_data(folder: str, format: DataFormat | None) -> bool:
    """Whether there is a data file anywhere in a folder, as far as names tell."""
    for _, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        seen = [name for name in names if not name.startswith((".", "_"))]
        if any(format is not None or format_of(name) is not None for name in seen):
            return True
    return False


def format_of(path: str | os.PathLike[str]) -> ColumnarFormat | None:
    """The format that a name tells; None for a name that tells none.

    Examples
    --------
    >>> format_of("a.parquet"), format_of("b.CSV.gz"), format_of("c.svm")
    ('parquet', 'csv', None)
    """
    ending = _ending(path)
    return None if ending is None else _READ[ending]


def stem_of(path: str | os.PathLike[str]) -> str:
    """The name of a file without its folder and without the ending that tells its format.

    Examples
    --------
    >>> stem_of("rows/part.1.csv.gz"), stem_of("rows/part")
    ('part.1', 'part')
    """
    name = os.path.basename(os.fspath(path))
    return name.removesuffix(name[len(name) - len(_ending(path) or "") :])


def output_format(path: str | os.PathLike[str]) -> ColumnarFormat:
    """The format in which a file of that name is written.

    Raises
    ------
    InputError
        If the name tells none.

    Examples
    --------
    >>> output_format("scored.feather")
    'arrow'
    """
    ending = os.path.splitext(os.fspath(path))[1].lower()
    if ending not in _WRITTEN:
        known = ", ".join(f"`{known}`" for known in _WRITTEN)
        raise InputError(
            f"the name `{os.fspath(path)}` does not tell the format to write: let it end in one of "
            f"{known}, or say it with `--output-format` (`output_format=`): {', '.join(FORMATS)}."
        )
    return _WRITTEN[ending]


def _ending(path: str | os.PathLike[str]) -> str | None:
    name = os.path.basename(os.fspath(path)).lower()
    return next((ending for ending in sorted(_READ, key=len)[::-1] if name.endswith(ending)), None)


# A columnar file as a stream of batches: `open_file` gives a reader, one kind per format.
#
# Only the columns asked for are read, at most a few megabytes of them at a time.


Kind: TypeAlias = Literal["number", "text", "shown"]
Kinds: TypeAlias = Mapping[str, Kind]
NO_KINDS: Kinds = {}

BATCH_VALUES = 1 << 21  # cells of a batch: 16 MB of doubles
MOST_BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class TextOptions:
    """How CSV is read, where its content does not tell.

    Parameters
    ----------
    delimiter : str, optional
        One character; by default the first of tab, `;` and `,` in the first line.
    header : bool, optional
        Whether the first line holds names; by default told by its cells.
    verbatim : bool
        Give columns that are not features as the text that they are, not by the type of the
        first rows; so what is written back as CSV has the same digits.
    on_bad_row : callable, optional
        Told the position, from 0, and the problem of a row with too few or many cells, or a cell
        that is no number; the row is then left out. By default the first one is an error.
    """

    delimiter: str | None = None
    header: bool | None = None
    verbatim: bool = False
    on_bad_row: Callable[[int, str], None] | None = None

    def __post_init__(self) -> None:
        check_delimiter(self.delimiter)


class ColumnarFile(ABC):
    """An open file.

    Parameters
    ----------
    path : str
    schema : pyarrow.Schema
        The columns there are; of CSV as the first rows show them.
    typed : bool
        Whether the format has types, so that text cannot turn out to be numbers.
    n_rows : int or None
        How many rows there are, where that is known before reading.
    """

    path: str
    schema: Any
    typed = True
    n_rows: int | None = None

    def schema_of(self, columns: Sequence[str], kinds: Kinds = NO_KINDS) -> Any:
        """Names and types of what `parts` gives for the same arguments; by default the file's."""
        return arrow().schema([self.schema.field(name) for name in columns])

    @abstractmethod
    def parts(self, columns: Sequence[str], kinds: Kinds = NO_KINDS) -> Iterator[TablePart]:
        """The rows, in order; once only.

        Parameters
        ----------
        columns : sequence of str
            Those to read.
        kinds : dict of str to {"number", "text", "shown"}
            Where a format has no types of its own: columns that must be doubles, that are text
            whatever it looks like, that have the type that the first rows show. Others are text
            with `TextOptions.verbatim`, else as shown.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


def open_file(source: SourceFile, text: TextOptions | None = None) -> ColumnarFile:
    """Open a columnar file; what is wrong with it is said in one sentence.

    Parameters
    ----------
    source : SourceFile
    text : TextOptions, optional
        For CSV.

    Returns
    -------
    ColumnarFile
        To be closed by the caller, e.g. through `contextlib.closing`.

    Raises
    ------
    FileFormatError

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.csv")
    ...     _ = path.write_text("id,x\\n7,0.5\\n8,1.5\\n")
    ...     file = open_file(SourceFile(str(path), "csv"))
    ...     [part.batch.to_pydict() for part in file.parts(["x"])]
    [{'x': [0.5, 1.5]}]
    """
    if source.format == "parquet":
        from kernelite.data.tables.columnar.binary import ParquetSource

        return ParquetSource(source.path, source.groups)
    if source.format == "arrow":
        from kernelite.data.tables.columnar.binary import ArrowSource

        return ArrowSource(source.path)
    from kernelite.data.tables.columnar.text import TextSource

    return TextSource(source.path, text or TextOptions())


def batch_rows(n_columns: int) -> int:
    """How many rows a batch has at most.

    Examples
    --------
    >>> batch_rows(22), batch_rows(100_000)
    (65536, 20)
    """
    return max(1, min(MOST_BATCH_ROWS, BATCH_VALUES // max(1, n_columns)))
