"""One stream of blocks for every input: LIBSVM text, arrays, CSV, Parquet, Arrow.

In: a file and a model. Out: blocks of rows as the model takes them, with what is known of them
(right answers, columns to keep), in memory that does not grow with the file.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.frames import check_single
from kernelite.data.rows.inputs import FloatArray
from kernelite.data.scoring.expected import expected_of, feature_blocks, named_rows
from kernelite.data.scoring.jobs import Skipped, good_rows
from kernelite.data.scoring.selection import ColumnSelection, listed, select
from kernelite.data.tables.columnar.library import (
    TablePart,
    is_numeric,
    naming_defects,
    without_stop,
)
from kernelite.data.tables.columnar.reading import (
    FORMATS,
    DataFormat,
    SourceFile,
    TextOptions,
    list_sources,
    open_file,
)
from kernelite.data.tables.data import DataSet, iter_data
from kernelite.data.tables.parsing import quote
from kernelite.support.errors import FileFormatError, InputError

__all__ = ["Block", "Wanted", "fitted_rows", "open_stream", "read_rows"]


@dataclass(frozen=True)
class Wanted:
    """What is read of a file.

    Parameters
    ----------
    columns : sequence of str, optional
        Feature columns; see `kernelite.data.scoring.selection.select`.
    keep : sequence of str, or "all"
    label_column : int, str or None
        Where the right answers are; "auto" takes the column called label, target, class or y.
    text : TextOptions
        How CSV is read.
    skipped : Skipped, optional
        Where rows that cannot be predicted are written down; by default the first one stops.
    """

    columns: Sequence[str] | None = None
    keep: Sequence[str] | Literal["all"] = ()
    label_column: int | str | None = "auto"
    text: TextOptions = field(default_factory=TextOptions)
    skipped: Skipped | None = None


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows of a file, as a model takes them.

    Parameters
    ----------
    rows : ndarray, csr_array or data frame of shape (m, d)
    beyond : ndarray of shape (m,), optional
        Squared norms of the features beyond the model's width.
    truth : ndarray of shape (m,), optional
        The right answers.
    known : ndarray of bool, shape (m,), optional
        Where there is one; everywhere by default.
    part : TablePart, optional
        The columns that were read, of m rows, and where they stand in the file.
    path : str
    numbers : tuple of str
        Columns that must be finite numbers.
    """

    rows: Any
    beyond: FloatArray | None = None
    truth: NDArray[Any] | None = None
    known: NDArray[np.bool_] | None = None
    part: TablePart | None = None
    path: str = ""
    numbers: tuple[str, ...] = ()

    @property
    def columns(self) -> Any:
        """The columns that were read, a pyarrow.RecordBatch; None where there are none."""
        return None if self.part is None else self.part.batch

    def blame(self) -> AbstractContextManager[None]:
        """A context for what the model does with the block: errors name file, column and row."""
        if self.part is None:
            return nullcontext()
        return naming_defects(self.path, self.part, self.numbers)


class Stream(ABC):
    """An open input.

    Parameters
    ----------
    n_rows : int or None
        How many rows there are, where that is known before reading.
    schema : pyarrow.Schema or None
        The columns of `Block.columns`; None for rows that are no columns.
    features : tuple of str or None
        The columns that the model takes.
    kept : tuple of str
        The columns that are written again.
    """

    n_rows: int | None = None
    schema: Any = None
    features: tuple[str, ...] | None = None
    kept: tuple[str, ...] = ()

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """All rows, in order, once."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


def open_stream(model: Any, source: SourceFile, wanted: Wanted) -> Stream:
    """Open an input for a model.

    Parameters
    ----------
    model : CompiledModel
    source : SourceFile
    wanted : Wanted

    Returns
    -------
    Stream
        To be closed by the caller.

    Raises
    ------
    FileFormatError
        In one sentence, if the file or its columns do not do.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import kernelite
    >>> bump = kernelite.compile(kernelite.KernelExpansion([[0.0, 0.0]], [2.0], 0.5, gamma=1.0))
    >>> with TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/a.npy", [[0.5, 1.0]])
    ...     stream = open_stream(bump, SourceFile(f"{folder}/a.npy", "npy"), Wanted())
    ...     [block.rows.tolist() for block in stream.blocks()]
    [[[0.5, 1.0]]]
    """
    if source.format in FORMATS:
        return _Columns(model, source, wanted)
    return _Data(model, source, wanted)


def read_rows(
    model: Any,
    path: str | os.PathLike[str],
    wanted: Wanted | None = None,
    *,
    format: DataFormat | None = None,
) -> Any:
    """The rows of a file or a folder as one array or frame, held in memory.

    Parameters
    ----------
    model : CompiledModel, or anything with its `n_features_in_`, `origin`, `preparation` and `head`
    path : path-like
        A columnar file, or a folder of them.
    wanted : Wanted, optional
    format : {"parquet", "arrow", "csv"}, optional

    Returns
    -------
    ndarray or data frame of shape (n, d)

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
    found: list[Any] = []
    for file in list_sources(path, format):
        with closing(open_stream(model, file, wanted or Wanted())) as stream:
            for block in stream.blocks():
                with block.blame():
                    _check_finite(block.rows)
                found.append(block.rows)
    if not found:
        raise FileFormatError(path, "there are no rows")
    if isinstance(found[0], np.ndarray):
        return np.concatenate(found)
    import pandas

    return pandas.concat(found, ignore_index=True)


def _check_finite(rows: Any) -> None:
    if isinstance(rows, np.ndarray) and rows.dtype.kind == "f" and not np.isfinite(rows).all():
        raise InputError("the rows hold NaN or infinity.")


class _Columns(Stream):
    """A columnar file."""

    def __init__(self, model: Any, source: SourceFile, wanted: Wanted) -> None:
        self._path, self._skipped, text = source.path, wanted.skipped, wanted.text
        if self._skipped is not None:
            skip = partial(self._skipped.add, source.path)
            text = replace(text, on_bad_row=lambda row, problem: skip(problem, row=row + 1))
        self._file = open_file(source, text)
        try:
            self._chosen = self._select(model, wanted)
        except BaseException:
            self._file.close()
            raise
        self._expected = replace(expected_of(model), typed=self._file.typed)
        self.n_rows = self._file.n_rows
        self.schema = self._file.schema_of(self._chosen.read, self._chosen.kinds)
        self.features = self._chosen.features
        self.kept = self._chosen.kept

    def blocks(self) -> Iterator[Block]:
        chosen, features = self._chosen, self._chosen.features
        numbers = () if self._expected.frames else features
        for part in self._file.parts(chosen.read, chosen.kinds):
            if self._skipped is not None:
                part = good_rows(self._path, part, numbers, self._skipped)
            with naming_defects(self._path, part, numbers):
                for first, rows in feature_blocks(part.batch, features, self._expected):
                    own = part.some(slice(first, first + len(rows)))
                    truth, known = self._truth(own.batch)
                    yield Block(rows, None, truth, known, own, self._path, numbers)

    def close(self) -> None:
        self._file.close()

    def _select(self, model: Any, wanted: Wanted) -> ColumnSelection:
        try:
            return select(
                model,
                self._file.schema,
                columns=wanted.columns,
                keep=wanted.keep,
                label=wanted.label_column,
                typed=self._file.typed,
            )
        except InputError as error:
            raise FileFormatError(self._path, without_stop(str(error))) from None

    def _truth(self, batch: Any) -> tuple[Any, Any]:
        if self._chosen.label is None:
            return None, None
        column = batch.column(batch.schema.get_field_index(self._chosen.label))
        known = column.is_valid().to_numpy(zero_copy_only=False)
        if is_numeric(column.type):
            return column.to_numpy(zero_copy_only=False), known
        return _texts(column), known


def _texts(column: Any) -> NDArray[np.object_]:
    """A column's values as Python strings, each distinct one once.

    In an array of fixed width, one long label would make them all as long.
    """
    coded = column if hasattr(column, "dictionary") else column.dictionary_encode()
    values = [str(value) for value in (*coded.dictionary.to_pylist(), None)]
    codes = coded.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    return np.array(values, dtype=object)[codes]


class _Data(Stream):
    """LIBSVM text, plain delimited text, .npy and .npz: rows of numbers."""

    def __init__(self, model: Any, source: SourceFile, wanted: Wanted) -> None:
        for name in ("columns", "keep"):
            if getattr(wanted, name):
                raise FileFormatError(
                    source.path, f"its rows have no columns by name, so `{name}` cannot be"
                )
        self._model = model
        options: dict[str, Any] = {"label_column": wanted.label_column}
        if source.format != "content":
            options["format"] = source.format
        if wanted.text.delimiter is not None:
            options["delimiter"] = wanted.text.delimiter
        if wanted.text.header is not None:
            options["header"] = wanted.text.header
        if wanted.skipped is not None:
            options["report"] = wanted.skipped.report(source.path)
            if not model.origin.width_is_open and source.format in ("content", "libsvm"):
                options["n_features"] = model.n_features_in_  # rows beyond it are bad ones
        self._parts: Any = iter_data(source.path, dense_width=model.n_features_in_, **options)

    def blocks(self) -> Iterator[Block]:
        for part in self._parts:
            rows, beyond = fitted_rows(self._model, part)
            yield Block(rows, beyond, part.labels)

    def close(self) -> None:
        """Close the file, unless a thread still waits for its next line."""
        with suppress(ValueError):
            self._parts.close()


def fitted_rows(model: Any, part: DataSet) -> tuple[Any, FloatArray | None]:
    """The rows of a data set as a model takes them, and the squared norms beyond its width.

    Parameters
    ----------
    model : CompiledModel, or anything with its `n_features_in_`, `origin` and `preparation`
    part : DataSet

    Returns
    -------
    rows : ndarray, csr_array or data frame of shape (n, d)
    beyond : ndarray of shape (n,), or None
    """
    origin, width, by_name = model.origin, model.n_features_in_, expected_of(model).by_name
    if by_name and part.feature_names is None:
        raise FileFormatError(
            part.path,
            f"its columns have no names, by which this model takes them "
            f"({listed(origin.feature_names or ())}); give CSV with a header, Parquet or Arrow",
        )
    if None not in (part.feature_names, origin.feature_names):
        part = _in_order(part, origin.feature_names)
    rows, beyond = part.fit_width(width)
    if beyond is not None and not origin.width_is_open:
        row = part.first_row + int(np.flatnonzero(beyond)[0])
        raise InputError(
            f"row {row + 1} of `{part.path}` has a feature beyond the {width} that this model "
            "was fitted on."
        )
    if by_name and part.feature_names is not None:
        rows = named_rows(rows, part.feature_names)
    return rows, beyond


def _in_order(part: DataSet, wanted: Sequence[str]) -> DataSet:
    """The columns that the model was fitted on, in its order."""
    assert part.feature_names is not None
    if tuple(part.feature_names) == tuple(wanted):
        return part
    missing = [name for name in wanted if name not in part.feature_names]
    if missing:
        raise FileFormatError(
            part.path,
            f"there is no column {quote(missing[0])}; those there are: "
            f"{listed(part.feature_names)}",
        )
    try:
        check_single(wanted, part.feature_names)
    except InputError as error:
        raise FileFormatError(part.path, without_stop(str(error))) from None
    places = [part.feature_names.index(name) for name in wanted]
    return replace(
        part, rows=np.ascontiguousarray(part.rows[:, places]), feature_names=tuple(wanted)
    )
