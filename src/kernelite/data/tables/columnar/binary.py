"""Parquet and Arrow IPC files: record batches, read one by one; `text` has CSV."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from struct import error as StructError
from struct import unpack_from
from typing import IO, Any

from kernelite.backends.cpu.threads import thread_count
from kernelite.data.tables.columnar.footer import read_footer
from kernelite.data.tables.columnar.library import (
    TablePart,
    arrow,
    check_kinds,
    checked_schema,
    naming_file,
    reason_of,
    spelled_out,
    value_lengths,
)
from kernelite.data.tables.columnar.reading import NO_KINDS, ColumnarFile, Kinds, batch_rows
from kernelite.data.tables.parsing import quote
from kernelite.support.compression import Expansion
from kernelite.support.errors import FileFormatError
from kernelite.support.files import open_binary

__all__ = ["ArrowSource", "ParquetSource", "check_sizes"]

# Parquet: row groups are read one by one, and each in batches, so its size does not matter.


# Bytes that are read ahead: of all columns together at most, of each at least and at most.
ALL_BUFFERS, LEAST_BUFFER, MOST_BUFFER = 32 << 20, 1 << 14, 1 << 20
TEXT_BYTES = 64 << 20  # of a batch's text, were all of it the longest there is
DELTA_ROWS = 1 << 10  # of a batch whose texts are written as what they share with the one before


class ParquetSource(ColumnarFile):
    """An open Parquet file, or some row groups of it."""

    def __init__(self, path: str | os.PathLike[str], groups: tuple[int, int] | None = None) -> None:
        self.path = os.fspath(path)
        self._raw: Any = None
        try:
            with naming_file(self.path):
                self._raw = arrow().OSFile(self.path)
                file = arrow("parquet").ParquetFile(self._raw)
                self._metadata = file.metadata
                self.schema = checked_schema(file.schema_arrow)
                leaves = map(file.schema.column, range(len(file.schema)))
                # Path of each leaf, a column or a part of a nested one; whether it holds text.
                self._leaves = [(leaf.path, leaf.physical_type == "BYTE_ARRAY") for leaf in leaves]
                self._row_groups = read_footer(self._footer(), len(self._leaves))
                if len(self._row_groups) != file.num_row_groups:
                    raise ValueError("its footer is damaged")
                # How many rows each row group has.
                self.rows = [group.rows for group in self._row_groups]
        except BaseException:
            self.close()
            raise
        self.groups = range(*(groups or (0, len(self.rows))))
        self.n_rows = sum(self.rows[group] for group in self.groups)

    def parts(self, columns: Sequence[str], kinds: Kinds = NO_KINDS) -> Iterator[TablePart]:
        """The rows of one row group after the other."""
        wanted = self.schema_of(columns)
        check_kinds(self.path, wanted)
        first_row, count = sum(self.rows[: self.groups.start]), len(self.rows)
        read = Expansion(self.path, self._raw.size())
        with naming_file(self.path):
            read.check(self._declared(columns))
        for group in self.groups:
            where = f"row group {group + 1} of {count}"
            try:
                with naming_file(self.path, where):
                    for batch in self._batches(group, columns):
                        batch.validate(full=True)
                        read.add(sum(map(spelled_out, batch.columns)))
                        if batch.schema.types != wanted.types:
                            batch = _cast(batch, wanted)
                        yield TablePart(batch, where, first_row)
                        first_row += batch.num_rows
            except FileFormatError:
                if not read.over:
                    self._name_column(group, columns, where)
                raise

    def close(self) -> None:
        """Close the file."""
        if self._raw is not None:
            self._raw.close()

    def _batches(self, group: int, columns: Sequence[str]) -> Iterator[Any]:
        """The rows of a row group; texts in lists and structs may still be codes.

        By default pyarrow reads whole column chunks before the first row, however large they are.
        """
        yield from self._file(columns, read_dictionary=self._coded(group, columns)).iter_batches(
            batch_size=self._rows_at_once(group, columns),
            row_groups=[group],
            columns=list(columns),
            use_threads=thread_count() > 1,
        )

    def _file(self, columns: Sequence[str], **options: Any) -> Any:
        """A reader of the file that is open, with the footer that was read."""
        share = ALL_BUFFERS // max(1, len(columns))
        return arrow("parquet").ParquetFile(
            self._raw,
            metadata=self._metadata,
            buffer_size=min(max(share, LEAST_BUFFER), MOST_BUFFER),
            pre_buffer=False,
            page_checksum_verification=True,
            **options,
        )

    def _footer(self) -> bytes:
        """The footer, which pyarrow has found to be there: its length and a mark are at the end."""
        size: int = self._raw.size()
        length = int.from_bytes(self._raw.read_at(4, size - 8), "little")
        return bytes(self._raw.read_at(length, size - 8 - length))

    def _leaves_of(self, columns: Sequence[str]) -> dict[str, list[int]]:
        """Where the leaves of columns stand among all."""
        found: dict[str, list[int]] = {name: [] for name in columns}
        for i, (name, _) in enumerate(self._leaves):
            while name and name not in found:
                name = name.rpartition(".")[0]
            if name:
                found[name].append(i)
        return found

    def _coded(self, group: int, columns: Sequence[str]) -> list[str]:
        """Texts in lists and structs of which a few bytes may stand for many: counted as codes."""
        chunks = self._row_groups[group].chunks
        return [
            path
            for name, leaves in self._leaves_of(columns).items()
            for path, is_text, chunk in ((*self._leaves[i], chunks[i]) for i in leaves)
            if path != name and is_text and chunk.coded
        ]

    def _declared(self, columns: Sequence[str]) -> int:
        """Bytes of the columns' pages, uncompressed; codes of a dictionary are still codes.

        A row may hold any number of values in lists: there each counts as four bytes at least.
        """
        wanted = [(i, name) for name, found in self._leaves_of(columns).items() for i in found]
        return sum(
            max(chunk.uncompressed, 4 * chunk.values * (name != self._leaves[i][0]))
            for group in self.groups
            for i, name in wanted
            for chunk in (self._row_groups[group].chunks[i],)
        )

    def _rows_at_once(self, group: int, columns: Sequence[str]) -> int:
        """Rows of a batch: a few bytes of codes may each stand for a text of megabytes."""
        types, rows = arrow().types, batch_rows(len(columns))
        for name, leaves in self._leaves_of(columns).items():
            kind = self.schema.field(name).type
            if types.is_primitive(kind) or types.is_dictionary(kind):  # which stays one
                continue
            chunks = [self._row_groups[group].chunks[i] for i in leaves]
            if types.is_nested(kind) or any(chunk.differences for chunk in chunks):
                rows = min(rows, DELTA_ROWS)
            if not types.is_nested(kind) and any(chunk.coded for chunk in chunks):
                rows = min(rows, max(1, TEXT_BYTES // max(1, self._longest(group, name))))
        return rows

    def _longest(self, group: int, name: str) -> int:
        """Bytes of the longest text in a column's dictionary, which is read for its first row."""
        file = self._file([name], read_dictionary=[name])
        for batch in file.iter_batches(batch_size=1, row_groups=[group], columns=[name]):
            if arrow().types.is_dictionary(batch.column(0).type):
                return int(value_lengths(batch.column(0).dictionary).max(initial=0))
            return int(batch.nbytes)
        return 0

    def _name_column(self, group: int, columns: Sequence[str], where: str) -> None:
        """Find the column at fault, which pyarrow does not say, by reading each alone."""
        for name in columns:
            try:
                for batch in self._batches(group, [name]):
                    batch.validate(full=True)
            except Exception as error:
                raise FileFormatError(
                    self.path, f"{where}, column {quote(name)}: cannot be read ({reason_of(error)})"
                ) from None


def _cast(batch: Any, schema: Any) -> Any:
    columns = [column.cast(kind) for column, kind in zip(batch.columns, schema.types, strict=True)]
    return arrow().RecordBatch.from_arrays(columns, schema=schema)


# Arrow IPC files and streams, and Feather, which is the same: record batches, read one by one.
#
# A record batch is the smallest unit that the format lets one read; larger ones are cut after that.
# Before any memory is taken, `check_sizes` adds up how long its buffers become: a compressed buffer
# starts with the length that it has uncompressed, and a few bytes may say gigabytes. Messages are
# flatbuffers: a table points back to its vtable, which holds the offsets of its fields. What is
# read there is what pyarrow reads: the blocks that a file's end names, or a stream's messages in
# order.


DICTIONARY, BATCH = 2, 3  # kinds of messages; all others have no buffers
MOST_METADATA_BYTES = 1 << 28  # bytes of metadata


class ArrowSource(ColumnarFile):
    """An open Arrow file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        arrow()
        self._raw = open_binary(self.path)
        start = self._raw.peek(8)[:8]
        self._streamed = not start.startswith(b"ARROW1")
        if start.startswith(b"FEA1"):
            self._raw.close()
            raise FileFormatError(
                self.path, "this is Feather of version 1, write it again as version 2 (Arrow)"
            )
        try:
            with naming_file(self.path):
                self.schema = checked_schema(self._open(None).schema)
                check_sizes(self.path, self._raw, streamed=self._streamed)
        except BaseException:
            self._raw.close()
            raise

    def parts(self, columns: Sequence[str], kinds: Kinds = NO_KINDS) -> Iterator[TablePart]:
        """The rows of one record batch after the other."""
        check_kinds(self.path, self.schema_of(columns))
        read = Expansion(self.path, self._raw.seek(0, os.SEEK_END))
        reader = self._open([self.schema.get_field_index(name) for name in columns])
        first_row, most = 0, batch_rows(len(columns))
        for where, batch in self._batches(reader):
            read.add(sum(map(spelled_out, batch.columns)))
            for start in range(0, batch.num_rows, most):
                yield TablePart(batch.slice(start, most), where, first_row + start)
            first_row += batch.num_rows

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    def _batches(self, reader: Any) -> Iterator[tuple[str, Any]]:
        number, count = 0, None if self._streamed else reader.num_record_batches
        while count is None or number < count:
            number += 1
            where = f"record batch {number}" + ("" if count is None else f" of {count}")
            with naming_file(self.path, where):
                try:
                    batch = (
                        reader.read_next_batch() if count is None else reader.get_batch(number - 1)
                    )
                except StopIteration:
                    return
                # Offsets and lengths come from the file: nothing looks at them before this.
                batch.validate(full=True)
            yield where, batch

    def _open(self, fields: list[int] | None) -> Any:
        ipc = arrow("ipc")
        options = ipc.IpcReadOptions(use_threads=thread_count() > 1)
        if fields is not None:
            options.included_fields = fields
        with naming_file(self.path):
            self._raw.seek(0)
            source = arrow().PythonFile(self._raw, mode="r")
            if self._streamed:
                return ipc.open_stream(source, options=options)
            return ipc.open_file(source, options=options)


def check_sizes(path: str, file: IO[bytes], /, *, streamed: bool) -> None:
    """Refuse a file whose buffers become longer than its size allows.

    Parameters
    ----------
    path : str
    file : binary file
        It can seek; where it stands afterwards is not said.
    streamed : bool
        Whether it is a stream of messages, without the table at the end.
    """
    size = file.seek(0, os.SEEK_END)
    read = Expansion(path, size)
    try:
        for offset in _stream(file, size) if streamed else _blocks(file, size):
            read.add(_uncompressed(file, offset))
    except (StructError, ValueError, OverflowError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(path, "cannot be read (its messages are damaged)") from None


def _blocks(file: IO[bytes], size: int) -> Iterator[int]:
    """Where the messages start that the end of a file names: dictionaries, then batches."""
    (length,) = unpack_from("<i", _bytes(file, size - 10, 4))
    footer = _bytes(file, size - 10 - length, length)
    root = unpack_from("<I", footer)[0]
    for field in (2, 3):
        at = _field(footer, root, field)
        if at:
            start, count = _vector(footer, at, 24)
            for i in range(count):
                yield unpack_from("<q", footer, start + 24 * i)[0]


def _stream(file: IO[bytes], size: int) -> Iterator[int]:
    """Where the messages of a stream start."""
    offset = 0
    while offset + 4 <= size:
        metadata, body = _message(file, offset)
        if not metadata:
            return
        yield offset
        header = _field(metadata, unpack_from("<I", metadata)[0], 3)
        length = unpack_from("<q", metadata, header)[0] if header else 0
        if length < 0:
            raise ValueError(length)
        offset = body + length


def _message(file: IO[bytes], offset: int) -> tuple[bytes, int]:
    """A message's metadata, and where its body starts; nothing at the end of a stream."""
    (length,) = unpack_from("<i", _bytes(file, offset, 4))
    start = offset + 4
    if length == -1:  # older files lack this mark
        (length,) = unpack_from("<i", _bytes(file, start, 4))
        start += 4
    return (_bytes(file, start, length) if length else b""), start + length


def _uncompressed(file: IO[bytes], offset: int) -> int:
    """Bytes that the buffers of a message become."""
    metadata, body = _message(file, offset)
    root = unpack_from("<I", metadata)[0]
    kind, table = _field(metadata, root, 1), _field(metadata, root, 2)
    if not kind or not table or metadata[kind] not in (DICTIONARY, BATCH):
        return 0
    table += unpack_from("<I", metadata, table)[0]
    if metadata[kind] == DICTIONARY:
        inner = _field(metadata, table, 1)
        table = inner + unpack_from("<I", metadata, inner)[0]
    buffers = _field(metadata, table, 2)
    if not buffers or not _field(metadata, table, 3):  # not compressed: no longer than the file
        return 0
    start, count = _vector(metadata, buffers, 16)
    total = 0
    for i in range(count):
        at, length = unpack_from("<qq", metadata, start + 16 * i)
        if length >= 8:
            declared = unpack_from("<q", _bytes(file, body + at, 8))[0]
            total += max(declared, length if declared == -1 else 0)
    return total


def _field(data: bytes, table: int, number: int) -> int:
    """Where a table's field stands; 0 if it is absent."""
    vtable = table - unpack_from("<i", data, table)[0]
    if vtable < 0 or 4 + 2 * number >= unpack_from("<H", data, vtable)[0]:
        return 0
    offset = unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _vector(data: bytes, at: int, each: int) -> tuple[int, int]:
    """Where a vector's items start, and how many there are."""
    start = at + unpack_from("<I", data, at)[0]
    count = unpack_from("<I", data, start)[0]
    if start + 4 + each * count > len(data):
        raise ValueError(count)
    # Structs of eight-byte fields are aligned by the writer, so that items follow their count.
    return start + 4, count


def _bytes(file: IO[bytes], offset: int, length: int) -> bytes:
    if offset < 0 or not 0 <= length <= MOST_METADATA_BYTES:
        raise ValueError(length)
    file.seek(offset)
    data = file.read(length)
    if len(data) < length:
        raise ValueError(length)
    return data
