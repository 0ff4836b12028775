"""Every defect of a data file, found by the reader itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal

from kernelite.errors import FileFormatError
from kernelite.tables.defects import Defect
from kernelite.tables.scan import Format, LabelsOption, Reading, scan

__all__ = ["Defect", "defects"]


def defects(
    path: str | os.PathLike[str],
    *,
    format: Format | None = None,
    n_features: int | None = None,
    labels: LabelsOption = "auto",
    delimiter: str | None = None,
    header: bool | Literal["auto"] = "auto",
    label_column: int | str | None = "auto",
) -> Iterator[Defect]:
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
    options = Reading(format, n_features, labels, delimiter, header, label_column)
    return _walk(path, options)


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
