"""Files cut into pieces of row groups, one a task: a folder in, jobs out.

Each piece becomes a file of its own: `part.parquet`, or `part-00000.parquet`, ... where a file has
several pieces. So workers read and write by themselves, and nothing passes through the scheduler.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing

from kernelite.errors import FileFormatError, InputError
from kernelite.tables.columnar.formats import ColumnarFormat, stem_of
from kernelite.tables.columnar.parquet import ParquetSource
from kernelite.tables.columnar.sources import Job, SourceFile, list_sources

__all__ = ["PIECE_ROWS", "cut", "list_pieces"]

PIECE_ROWS = 1 << 18  # row groups are put together up to so many rows


def list_pieces(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    format: ColumnarFormat | None = None,
    output: ColumnarFormat = "parquet",
) -> list[Job]:
    """What there is to do, in the order of the rows.

    Parameters
    ----------
    source : path-like
        A file or a folder of files.
    folder : path-like
        Where to write.
    format : {"parquet", "arrow", "csv"}, optional
        Of the files; by default their names tell.
    output : {"parquet", "arrow", "csv"}
    """
    jobs: list[Job] = []
    taken: dict[str, str] = {}
    for file in list_sources(source, format):
        stem, pieces = stem_of(file.path), list(_pieces(file))
        for number, piece in enumerate(pieces):
            name = stem if len(pieces) == 1 else f"{stem}-{number:05d}"
            if (other := taken.setdefault(name, file.path)) != file.path:
                raise InputError(
                    f"`{other}` and `{file.path}` would both be written as `{name}`; rename one."
                )
            jobs.append(Job(piece, os.path.join(folder, f"{name}.{output}"), output, True))
    return jobs


def cut(rows: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Row groups put together as long as they have `most` rows or fewer.

    Parameters
    ----------
    rows : sequence of int
        How many rows each row group has.
    most : int

    Returns
    -------
    list of (int, int)
        The first row group, and the one after the last.

    Examples
    --------
    >>> cut([5, 5, 20, 1, 1], 10)
    [(0, 2), (2, 3), (3, 5)]
    """
    found: list[tuple[int, int]] = []
    start = total = 0
    for group, count in enumerate(rows):
        if group > start and total + count > most:
            found.append((start, group))
            start, total = group, 0
        total += count
    return [*found, (start, len(rows))]


def _pieces(file: SourceFile) -> Iterator[SourceFile]:
    if file.format != "parquet":
        yield file
        return
    try:
        with closing(ParquetSource(file.path)) as opened:
            groups = cut(opened.rows, PIECE_ROWS)
    except FileFormatError:
        yield file  # whoever is given it says what is wrong
        return
    for piece in groups:
        yield SourceFile(file.path, "parquet", piece)
