"""Formats of columnar files: a file's name in, its format out.

Parquet, Arrow (IPC files and streams; Feather is the same) and CSV (also TSV, .gz and .bz2).
"""

from __future__ import annotations

import os
from typing import Literal, TypeAlias, get_args

from kernelite.errors import InputError

__all__ = ["FORMATS", "ColumnarFormat", "format_of", "output_format", "stem_of"]

ColumnarFormat: TypeAlias = Literal["parquet", "arrow", "csv"]
FORMATS: tuple[ColumnarFormat, ...] = get_args(ColumnarFormat)

_WRITTEN: dict[str, ColumnarFormat] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
}
_TEXT: tuple[str, ...] = (".csv", ".tsv")
_PACKED: tuple[str, ...] = ("", ".gz", ".bz2")
_READ: dict[str, ColumnarFormat] = _WRITTEN | {
    f"{text}{packed}": "csv" for text in _TEXT for packed in _PACKED
}


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
