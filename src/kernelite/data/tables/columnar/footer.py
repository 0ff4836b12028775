"""The end of a Parquet file, which states what its row groups hold, in Thrift's compact protocol.

Asked about a column chunk, pyarrow ends the process where such statements contradict each other: no
error of its binding is caught. So the few numbers that are needed before a column is read come from
here. Its readers of schemas and rows do catch their errors.

A struct is fields until a zero byte; a field is a byte (its type, and by how much its number grows)
and a value; numbers are 7 bits per byte, low ones first, with the sign in the lowest bit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, TypeAlias

__all__ = ["Chunk", "RowGroup", "read_footer"]

# Fields to keep, by number, and those to keep inside of them; all others are passed over.
Fields: TypeAlias = Mapping[int, "Fields"]
ENCODINGS, VALUES, UNCOMPRESSED = 2, 5, 6  # of ColumnMetaData
CHUNKS, ROWS = 1, 3  # of RowGroup
COLUMN = 3  # of ColumnChunk
ROW_GROUPS = 4  # of FileMetaData
CHUNK_FIELDS: Fields = {COLUMN: {ENCODINGS: {}, VALUES: {}, UNCOMPRESSED: {}}}
KEPT_FIELDS: Fields = {ROW_GROUPS: {CHUNKS: CHUNK_FIELDS, ROWS: {}}}

PLAIN_DICTIONARY, DELTA_BINARY, DELTA_LENGTHS, DELTA_TEXTS, RLE_DICTIONARY = 2, 5, 6, 7, 8
DICTIONARIES = frozenset((PLAIN_DICTIONARY, RLE_DICTIONARY))
DELTAS = frozenset((DELTA_BINARY, DELTA_LENGTHS, DELTA_TEXTS))

STOP, TRUE, FALSE, BYTE, SHORT, INT, LONG, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)
TRUTHS, NUMBERS = (TRUE, FALSE), (SHORT, INT, LONG)
MOST_DEPTH = 32  # lists and structs inside of each other; the format needs about ten
MOST_SHIFT = 63  # bits of a number, less one
MOST_USUAL_FIELDS = 24  # of a struct that `usual_chunks` knows; the format's have up to 17
MOST_USUAL_TEXT = 64  # bytes
USUAL_FROM = 1 << 16  # bytes of a footer for which compiling `usual_chunks` pays


@dataclass(frozen=True)
class Chunk:
    """What a footer states about a column of a row group.

    Parameters
    ----------
    encodings : frozenset of int
        Of its pages, as the format numbers them.
    values : int
    uncompressed : int
        Bytes of its pages.
    """

    encodings: frozenset[int]
    values: int
    uncompressed: int

    @property
    def coded(self) -> bool:
        """Whether some values may be codes of a dictionary."""
        return not self.encodings.isdisjoint(DICTIONARIES)

    @property
    def differences(self) -> bool:
        """Whether some values may be what they share with the one before, and the rest."""
        return not self.encodings.isdisjoint(DELTAS)


@dataclass(frozen=True)
class RowGroup:
    """What a footer states about a row group.

    Parameters
    ----------
    rows : int
    chunks : tuple of Chunk
        In the order of the schema's leaves.
    """

    rows: int
    chunks: tuple[Chunk, ...]


def read_footer(data: bytes, n_leaves: int) -> list[RowGroup]:
    """The row groups that a footer describes.

    Parameters
    ----------
    data : bytes
    n_leaves : int
        How many columns the schema has, parts of nested ones counted.

    Raises
    ------
    ValueError
        If it is damaged; time and memory are in proportion to its length.
    """
    try:
        footer = _CompactThrift(data).struct(KEPT_FIELDS, 0)
    except IndexError:
        raise ValueError("its footer is cut off") from None
    groups = [_row_group(group) for group in _list(footer, ROW_GROUPS)]
    for number, group in enumerate(groups, 1):
        if len(group.chunks) != n_leaves:
            raise ValueError(
                f"row group {number} has {len(group.chunks)} columns, the schema {n_leaves}"
            )
    return groups


def _row_group(found: Any) -> RowGroup:
    if not isinstance(found, dict):
        raise ValueError("its footer describes no row group")
    rows = _count(found, ROWS)
    if rows < 0:
        raise ValueError(f"a row group has {rows} rows")
    return RowGroup(rows, tuple(_chunk(chunk) for chunk in _list(found, CHUNKS)))


def _chunk(found: Any) -> Chunk:
    if isinstance(found, Chunk):
        return found
    column = found.get(COLUMN) if isinstance(found, dict) else None
    if not isinstance(column, dict):  # absent where columns are encrypted
        raise ValueError("its footer does not describe each column")
    encodings = _list(column, ENCODINGS)
    if not all(isinstance(one, int) for one in encodings):
        raise ValueError("its footer has encodings that are no numbers")
    values, uncompressed = (max(0, _count(column, field)) for field in (VALUES, UNCOMPRESSED))
    return Chunk(frozenset(encodings), values, uncompressed)


def _list(found: dict[int, Any], field: int) -> list[Any]:
    items = found.get(field)
    if not isinstance(items, list):
        raise ValueError("its footer lacks a list")
    return items


def _count(found: dict[int, Any], field: int) -> int:
    number = found.get(field)
    if not isinstance(number, int):
        raise ValueError("its footer lacks a number")
    return number


def check_depth(depth: int) -> None:
    """Refuse what no writer nests so deep."""
    if depth > MOST_DEPTH:
        raise ValueError(f"its footer is nested more than {MOST_DEPTH} deep")


class _CompactThrift:
    """Bytes, and how many of them were read; `IndexError` where there are no more."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self, kept: Fields, depth: int) -> dict[int, Any]:
        """A struct's fields that are kept."""
        found, field = {}, 0
        while (start := self.byte()) != STOP:
            field = field + (start >> 4) if start >> 4 else self.number()
            kind, inner = start & 15, kept.get(field)
            if inner is None:
                self.pass_field(kind, depth)
            else:
                found[field] = kind == TRUE if kind in TRUTHS else self.value(kind, inner, depth)
        return found

    def value(self, kind: int, kept: Fields, depth: int) -> Any:
        """A value that is kept; None where it is no number, struct or list."""
        check_depth(depth)
        if kind in NUMBERS:
            return self.number()
        if kind == STRUCT:
            many = kept is CHUNK_FIELDS and len(self.data) >= USUAL_FROM
            usual = self.usual_chunk() if many else None
            return usual or self.struct(kept, depth + 1)
        if kind == LIST:
            inner, count = self.items()
            return [self.value(inner, kept, depth + 1) for _ in range(count)]
        self.pass_over(kind, depth)
        return None

    def usual_chunk(self) -> Chunk | None:
        """The column chunk that starts here, if it is one that `usual_chunks` describes."""
        found = usual_chunks().match(self.data, self.at)
        if found is None:
            return None
        self.at = found.end()
        encodings, values, uncompressed = found.groups()
        return Chunk(_encodings(encodings), max(0, _number(values)), max(0, _number(uncompressed)))

    def pass_field(self, kind: int, depth: int) -> None:
        """Pass over a field's value; a truth value has none, its first byte tells it."""
        if kind not in TRUTHS:
            self.pass_over(kind, depth)

    def pass_over(self, kind: int, depth: int) -> None:
        """Pass over a value: nothing of it stays in memory."""
        check_depth(depth)
        if kind in NUMBERS:
            self.varint()
        elif kind == BINARY:
            self.skip(self.varint())
        elif kind == STRUCT:
            while (start := self.byte()) != STOP:
                if not start >> 4:
                    self.varint()
                self.pass_field(start & 15, depth + 1)
        elif kind in (LIST, SET):
            inner, count = self.items()
            for _ in range(count):
                self.pass_over(inner, depth + 1)
        elif kind == MAP:
            count = self.count(self.varint())
            kinds = self.byte() if count else 0
            for _ in range(count):
                self.pass_over(kinds >> 4, depth + 1)
                self.pass_over(kinds & 15, depth + 1)
        elif kind in TRUTHS or kind == BYTE:
            self.skip(1)
        elif kind == DOUBLE:
            self.skip(8)
        else:
            raise ValueError(f"its footer has a value of type {kind}, which there is not")

    def items(self) -> tuple[int, int]:
        """The type of a list's items, and how many there are."""
        start = self.byte()
        return start & 15, self.count(self.varint() if start >> 4 == 15 else start >> 4)

    def count(self, said: int) -> int:
        """How many items follow: each takes a byte at least, so more cannot be there.

        pyarrow takes 32 bits of such a number alone, so that it may have seen a small one.
        """
        if said > len(self.data) - self.at:
            raise IndexError
        return said

    def byte(self) -> int:
        """The next byte."""
        found = self.data[self.at]
        self.at += 1
        return found

    def skip(self, count: int) -> None:
        """Pass over bytes, which must be there."""
        self.at += self.count(count)

    def varint(self) -> int:
        """A number of 64 bits at most that is not negative."""
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
            if shift > MOST_SHIFT:
                raise ValueError("its footer has a number of more than 64 bits")

    def number(self) -> int:
        """A number whose lowest bit is its sign."""
        found = self.varint()
        return (found >> 1) ^ -(found & 1)


# Column chunks as writers write them, in one expression: six times faster than field by field, as
# all else is read (longer texts, fields in another order). Its parts match in one way only, and
# repetitions give nothing back, so that time and memory are in proportion to what is read.


@cache
def usual_chunks() -> re.Pattern[bytes]:
    """A ColumnChunk with a ColumnMetaData; groups: encodings, values, uncompressed bytes."""
    number = rb"[\x80-\xff]{0,9}+[\x00-\x7f]"
    text = (
        b"(?:"
        + b"|".join(b"\\x%02x.{%d}" % (size, size) for size in range(MOST_USUAL_TEXT + 1))
        + b")"
    )
    numbers = _field(*NUMBERS) + number
    flat = numbers + b"|" + _field(*TRUTHS) + b"|" + _field(BINARY) + text
    lists = _field(LIST) + _items(number, *NUMBERS)
    struct = _field(STRUCT) + _struct(flat + b"|" + lists)
    structs = _field(LIST) + _items(_struct(numbers), STRUCT)
    column = (
        (_start(INT, 1) + number)
        + (_start(LIST, 1) + b"(" + _items(number, INT) + b")")
        + (_start(LIST, 1) + _items(text, BINARY, most=6))  # the column's path
        + (_start(INT, 1) + number)
        + (_start(LONG, 1) + b"(" + number + b")") * 2
    )
    column += _struct(b"|".join((flat, lists, struct, structs)))
    chunk = _start(LONG, 2) + number + _start(STRUCT, 1) + column + _struct(numbers)
    return re.compile(chunk, re.DOTALL)


def _start(kind: int, step: int) -> bytes:
    """The byte that starts a field whose number is that of the last one and `step`."""
    return b"\\x%02x" % (step << 4 | kind)


def _field(*kinds: int) -> bytes:
    """A byte that starts a field of these types, whatever its number is."""
    return b"[" + b"".join(_start(kind, step) for kind in kinds for step in range(1, 16)) + b"]"


def _struct(fields: bytes) -> bytes:
    return b"(?:" + fields + b"){0,%d}+\\x00" % MOST_USUAL_FIELDS


def _items(item: bytes, *kinds: int, most: int = 14) -> bytes:
    """A list's type and count, and its items; more than 14 would take another byte to count."""
    counted = (
        b"[" + b"".join(_start(kind, count) for kind in kinds) + b"](?:%b){%d}" % (item, count)
        for count in range(most + 1)
    )
    return b"(?:" + b"|".join(counted) + b")"


@lru_cache(256)
def _encodings(items: bytes) -> frozenset[int]:
    return frozenset(_CompactThrift(items).value(LIST, {}, 0))


def _number(data: bytes) -> int:
    found = 0
    for byte in reversed(data):
        found = found << 7 | byte & 127
    return (found >> 1) ^ -(found & 1)
