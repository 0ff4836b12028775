"""`read_rows`: the feature columns of a columnar file, or of a folder of them, as one array."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from kernelite.errors import FileFormatError, InputError
from kernelite.rows.inputs import FloatArray
from kernelite.tables.columnar.columns import feature_blocks
from kernelite.tables.columnar.faults import naming_defects, without_stop
from kernelite.tables.columnar.formats import ColumnarFormat
from kernelite.tables.columnar.reading import TextOptions, open_file
from kernelite.tables.columnar.selection import select
from kernelite.tables.columnar.sources import SourceFile, list_sources

__all__ = ["read_rows"]


def read_rows(
    model: Any,
    source: str | os.PathLike[str],
    /,
    *,
    columns: Sequence[str] | None = None,
    format: ColumnarFormat | None = None,
    label: int | str | None = "auto",
    text: TextOptions | None = None,
) -> FloatArray:
    """Read the rows that a model takes; they are held in memory, all of them.

    Parameters
    ----------
    model : CompiledModel
        Tells how many features there are and, if it knows, their names.
    source : path-like
        A file or a folder.
    columns : sequence of str, optional
    format : {"parquet", "arrow", "csv"}, optional
    label : int, str or None
        A column that is no feature; see `kernelite.tables.columnar.selection.select`.
    text : TextOptions, optional
        How CSV is read.

    Returns
    -------
    ndarray of shape (n, d)
        Finite doubles.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import kernelite
    >>> bump = kernelite.compile(kernelite.KernelExpansion([[0.0, 0.0]], [2.0], 0.5, gamma=1.0))
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.csv").write_text("a,b,class\\n0.5,1,no\\n2,3,yes\\n")
    ...     read_rows(bump, Path(folder, "a.csv"))
    array([[0.5, 1. ], [2. , 3. ]])
    """
    blocks: list[FloatArray] = []
    for file in list_sources(source, format):
        blocks += _blocks(model, file, columns, label, text)
    if not blocks:
        raise FileFormatError(source, "there are no rows")
    return np.concatenate(blocks)


def _blocks(
    model: Any,
    source: SourceFile,
    columns: Sequence[str] | None,
    label: int | str | None,
    text: TextOptions | None,
) -> Iterator[FloatArray]:
    with closing(open_file(source, text)) as file:
        try:
            chosen = select(model, file.schema, columns=columns, label=label, typed=file.typed)
        except InputError as error:
            raise FileFormatError(source.path, without_stop(str(error))) from None
        features = chosen.features
        for part in file.parts(features, features):
            with naming_defects(source.path, part, features):
                for _, block in feature_blocks(part.batch, features):
                    if not np.isfinite(block).all():
                        raise InputError("the rows hold NaN or infinity.")
                    yield block
