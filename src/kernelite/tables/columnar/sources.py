"""Which files are meant: a file or a folder in, pairs of what to read and what to write out."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kernelite.errors import FileFormatError, InputError
from kernelite.tables.columnar.formats import (
    FORMATS,
    ColumnarFormat,
    format_of,
    output_format,
    stem_of,
)
from kernelite.tables.numbers import quote

__all__ = ["Job", "SourceFile", "check_folders_apart", "list_jobs", "list_sources"]


@dataclass(frozen=True)
class SourceFile:
    """A file to read.

    Parameters
    ----------
    path : str
    format : {"parquet", "arrow", "csv"}
    groups : (int, int), optional
        Of Parquet: only the row groups from the first to before the second, counted from 0.
    """

    path: str
    format: ColumnarFormat
    groups: tuple[int, int] | None = None


@dataclass(frozen=True)
class Job:
    """A file to read and the one to write its answers to.

    Parameters
    ----------
    source : SourceFile
    destination : str
        "-" is stdout.
    format : {"parquet", "arrow", "csv"}
        Of the destination.
    in_folder : bool
        Whether a folder is read, so that one is written.
    """

    source: SourceFile
    destination: str
    format: ColumnarFormat
    in_folder: bool = False


def list_sources(
    path: str | os.PathLike[str], format: ColumnarFormat | None = None
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
    if not os.path.exists(name):
        raise FileFormatError(name, "there is no such file")
    if not os.path.isfile(name):
        raise FileFormatError(name, "columnar files are read more than once, so not from a pipe")
    found = format or format_of(name)
    if found is None:
        raise InputError(
            f"the name `{name}` does not tell its format; say it with `--data-format` "
            f"(`format=`): {', '.join(FORMATS)}."
        )
    return [SourceFile(name, found)]


def list_jobs(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    format: ColumnarFormat | None = None,
    output: ColumnarFormat | None = None,
) -> list[Job]:
    """What to read and where to write it.

    Parameters
    ----------
    source : path-like
        A file or a folder.
    destination : path-like
        A file ("-" is stdout, as CSV); for a folder a folder, which is made if there is none.
    format, output : {"parquet", "arrow", "csv"}, optional
        By default names tell them; files of a folder keep their format if the name of the
        destination tells none.

    Returns
    -------
    list of Job
    """
    sources, target = list_sources(source, format), os.fspath(destination)
    if not os.path.isdir(source):
        if os.path.isdir(target):
            raise InputError(f"cannot write `{target}`: it is a folder, but DATA is one file.")
        if target == "-":
            if output not in (None, "csv"):
                raise InputError(f"only CSV is written to stdout, not {output}; name a file.")
            return [Job(sources[0], target, "csv")]
        _check_apart(sources[0].path, target)
        return [Job(sources[0], target, output or output_format(target))]
    if target == "-" or (os.path.exists(target) and not os.path.isdir(target)):
        raise InputError(f"DATA is a folder, so the output must be a folder too, not `{target}`.")
    check_folders_apart(source, target)
    output = output or format_of(target)
    jobs = [_within(target, file, output or file.format) for file in sources]
    seen: dict[str, str] = {}
    for job in jobs:
        if (other := seen.setdefault(job.destination, job.source.path)) != job.source.path:
            raise InputError(
                f"`{other}` and `{job.source.path}` would both be written to `{job.destination}`; "
                "rename one."
            )
    return jobs


def _of_folder(folder: str, format: ColumnarFormat | None) -> list[SourceFile]:
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


def _holds_data(folder: str, format: ColumnarFormat | None) -> bool:
    """Whether there is a data file anywhere in a folder, as far as names tell."""
    for _, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        seen = [name for name in names if not name.startswith((".", "_"))]
        if any(format is not None or format_of(name) is not None for name in seen):
            return True
    return False


def _within(folder: str, file: SourceFile, format: ColumnarFormat) -> Job:
    ending = os.path.splitext(file.path)[1]
    if format_of(f"a{ending}") != format or ending.lower() == ".tsv":
        ending = f".{format}"
    return Job(file, os.path.join(folder, f"{stem_of(file.path)}{ending}"), format, True)


def check_folders_apart(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Refuse to write into the folder that is read: the next run would read the answers."""
    inner, outer = os.path.realpath(target), os.path.realpath(source)
    _check_apart(outer, os.fspath(target))
    if os.path.isdir(outer) and os.path.commonpath([inner, outer]) == outer:
        raise InputError(
            f"`{os.fspath(target)}` is inside the folder that is read; name one outside it."
        )


def _check_apart(source: str, target: str) -> None:
    if os.path.exists(target) and os.path.samefile(source, target):
        raise InputError(f"`{target}` is read too, so it cannot be written; name another.")
