"""Columnar files by name: a file or a folder in, what to read and in which format out.

Parquet, Arrow (IPC files and streams; Feather is the same) and CSV (also TSV, also compressed).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from kernelite.errors import FileFormatError, InputError
from kernelite.support.compression import ENDINGS
from kernelite.support.files import STANDARD_INPUT
from kernelite.tables.numbers import quote

__all__ = [
    "FORMATS",
    "ColumnarFormat",
    "DataFormat",
    "SourceFile",
    "format_of",
    "list_sources",
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
        Those after the first three are read by `kernelite.tables.data`; "content" tells.
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
    kernelite.errors.FileFormatError: no/such.parquet: there is no such file
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
