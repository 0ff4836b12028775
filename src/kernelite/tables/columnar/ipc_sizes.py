"""How long the buffers of an Arrow file become, from its own lengths, before any memory is taken.

A compressed buffer starts with the length that it has uncompressed; a few bytes may say gigabytes.
Messages are flatbuffers: a table points back to its vtable, which holds the offsets of its fields.
What is read here is what pyarrow reads: the blocks that a file's end names, or a stream's messages
in order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from struct import error as StructError
from struct import unpack_from
from typing import IO

from kernelite.errors import FileFormatError
from kernelite.support.limits import VARIABLE, granted, most_expansion

__all__ = ["check_sizes"]

DICTIONARY, BATCH = 2, 3  # kinds of messages; all others have no buffers
LONGEST = 1 << 28  # bytes of metadata


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
    most, total = granted(size), 0
    try:
        for offset in _stream(file, size) if streamed else _blocks(file, size):
            total += _uncompressed(file, offset)
            if total > most:
                raise FileFormatError(
                    path,
                    f"its columns become over {most_expansion()} times as long as the file; if you "
                    f"trust it, set the environment variable {VARIABLE} to a larger number",
                )
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
    if offset < 0 or not 0 <= length <= LONGEST:
        raise ValueError(length)
    file.seek(offset)
    data = file.read(length)
    if len(data) < length:
        raise ValueError(length)
    return data
