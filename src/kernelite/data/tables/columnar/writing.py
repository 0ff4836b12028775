"""Batches into a columnar file that appears whole or not at all, in bounded memory."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Protocol

from kernelite.data.tables.columnar.library import arrow, reason_of
from kernelite.data.tables.columnar.reading import ColumnarFormat
from kernelite.support.errors import InputError
from kernelite.support.files import atomic_write

__all__ = ["BatchSink", "open_sink"]

GROUP_ROWS = 1 << 20  # rows and bytes of a Parquet row group, at most
GROUP_BYTES = 64 << 20
_STRUCTURE = r'[",\r\n]'  # what makes a CSV cell need quotes


class BatchSink(Protocol):
    """Where batches go."""

    def write(self, batch: Any) -> None:
        """Append a pyarrow.RecordBatch."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...


@contextmanager
def open_sink(path: str, format: ColumnarFormat, schema: Any) -> Iterator[BatchSink]:
    """A file to write batches to; it gets its name when all went well.

    Parameters
    ----------
    path : str
        "-" is stdout, written directly.
    format : {"parquet", "arrow", "csv"}
    schema : pyarrow.Schema
        Of every batch.

    Yields
    ------
    BatchSink

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import pyarrow
    >>> batch = pyarrow.RecordBatch.from_pydict({"id": [7, 8], "label": ["no", "yes"]})
    >>> with TemporaryDirectory() as folder:
    ...     path = f"{folder}/scored.csv"
    ...     with open_sink(path, "csv", batch.schema) as sink:
    ...         sink.write(batch)
    ...     print(open(path).read())
    id,label
    7,no
    8,yes
    """
    with _bytes_of(path) as file, _naming_output(path):
        sink = _SINKS[format](file, schema)
        try:
            yield sink
        except BaseException:
            # Writers close themselves when they are collected, and the file is closed by then.
            with suppress(Exception):
                sink.close()
            raise
        sink.close()


@contextmanager
def _naming_output(path: str) -> Iterator[None]:
    try:
        yield
    except arrow().ArrowException as error:  # a type that the format cannot hold
        raise InputError(f"cannot write `{path}`: {reason_of(error)}.") from None


@contextmanager
def _bytes_of(path: str) -> Iterator[IO[bytes]]:
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with atomic_write(path, "wb") as file:
        yield file


class _ParquetSink:
    """Batches are gathered into row groups, so that small ones do not make a slow file."""

    def __init__(self, file: IO[bytes], schema: Any) -> None:
        self._schema = schema
        self._writer = arrow("parquet").ParquetWriter(file, schema)
        self._waiting: list[Any] = []

    def write(self, batch: Any) -> None:
        self._waiting.append(_own(batch))
        rows = sum(waiting.num_rows for waiting in self._waiting)
        if rows >= GROUP_ROWS or sum(waiting.nbytes for waiting in self._waiting) >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        try:
            self._flush()
            self._writer.close()
        finally:
            self._writer.is_open = False  # not a second time, when it is collected

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._writer.write_table(arrow().Table.from_batches(waiting, self._schema))


class _ArrowSink:
    """An IPC file, which is Feather of version 2 too; uncompressed, so that it can be mapped.

    It holds one dictionary per column, while those of batches may differ: values are written out.
    """

    def __init__(self, file: IO[bytes], schema: Any) -> None:
        fields = [
            field.with_type(field.type.value_type) if _is_dictionary(field) else field
            for field in schema
        ]
        self._schema = arrow().schema(fields)
        self._writer = arrow("ipc").new_file(file, self._schema)

    def write(self, batch: Any) -> None:
        columns = [
            column.dictionary_decode() if _is_dictionary(column) else column
            for column in batch.columns
        ]
        self._writer.write_batch(arrow().RecordBatch.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


class _TextSink:
    """CSV as other tools write it: text in quotes only where some cell of its batch needs them."""

    def __init__(self, file: IO[bytes], schema: Any) -> None:
        self._file = file
        for field in schema:
            if arrow().types.is_nested(field.type):
                raise InputError(
                    f"column `{field.name}` holds {field.type}, which CSV cannot; leave it out, or "
                    "write Parquet or Arrow."
                )
        header = io.StringIO()
        csv.writer(header, lineterminator="\n").writerow(schema.names)
        file.write(header.getvalue().encode())

    def write(self, batch: Any) -> None:
        module = arrow("csv")
        columns = [
            column.cast("large_string") if str(column.type) == "string_view" else column
            for column in batch.columns
        ]
        batch = arrow().RecordBatch.from_arrays(columns, names=batch.schema.names)
        quoting = "needed" if any(map(_needs_quotes, batch.columns)) else "none"
        options = module.WriteOptions(include_header=False, quoting_style=quoting)
        module.write_csv(batch, self._file, options)

    def close(self) -> None:
        self._file.flush()


def _own(batch: Any) -> Any:
    """A copy: columns of an Arrow file share one buffer, so one kept would hold them all."""
    library = arrow()
    columns = [library.concat_arrays([column[:0], column]) for column in batch.columns]
    return library.RecordBatch.from_arrays(columns, schema=batch.schema)


def _is_dictionary(column: Any) -> bool:
    return bool(arrow().types.is_dictionary(column.type))


def _needs_quotes(column: Any) -> bool:
    library, compute = arrow(), arrow("compute")
    kind = column.type
    if _is_dictionary(column):
        return _needs_quotes(column.dictionary)
    if not (library.types.is_string(kind) or library.types.is_large_string(kind)):
        # Dates, lists and the like: let pyarrow decide.
        return not library.types.is_primitive(kind)
    return bool(compute.any(compute.match_substring_regex(column, _STRUCTURE)).as_py())


_SINKS: dict[ColumnarFormat, Callable[[IO[bytes], Any], BatchSink]] = {
    "parquet": _ParquetSink,
    "arrow": _ArrowSink,
    "csv": _TextSink,
}
