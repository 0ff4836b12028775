"""Footers of Parquet files: the same numbers as pyarrow's, and damaged ones are refused."""

from __future__ import annotations

import io
import random
import re
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from kernelite.data.tables.columnar import footer as module
from kernelite.data.tables.columnar.binary import ParquetSource
from kernelite.data.tables.columnar.footer import MOST_DEPTH, read_footer
from kernelite.support.errors import FileFormatError


def table(rows: int = 9) -> Any:
    """Numbers, texts, lists of texts, structs and truth values, with nulls."""
    rng = np.random.default_rng(rows)
    texts = ["klein", None, "groß"] * (rows // 3)
    return pa.table(
        {
            "x": rng.normal(size=rows),
            "text": texts,
            "coded": pa.array(texts).dictionary_encode(),
            "list": [[text, "a"] for text in texts],
            "struct": [{"a": i, "b.c": [{"d": text}]} for i, text in enumerate(texts)],
            "truth": [True, None, False] * (rows // 3),
        }
    )


LEAVES = 7  # of `table`: a struct has two

WRITTEN: tuple[dict[str, Any], ...] = (
    {},
    {"row_group_size": 4, "compression": "none"},
    {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}},
    {"use_dictionary": ["x"], "write_statistics": False, "version": "1.0"},
    {
        "write_page_index": True,
        "store_schema": False,
        "sorting_columns": [parquet.SortingColumn(0)],
    },
    {"write_page_checksum": True, "data_page_version": "2.0", "row_group_size": 1},
)


def written(**options: Any) -> tuple[bytes, bytes]:
    """A file, and its footer."""
    file = io.BytesIO()
    parquet.write_table(table(), file, **options)
    data = file.getvalue()
    return data, data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


@pytest.mark.parametrize("options", WRITTEN, ids=str)
def test_row_groups_are_those_that_pyarrow_reads(options: dict[str, Any]) -> None:
    data, footer = written(**options)
    theirs = parquet.read_metadata(io.BytesIO(data))
    ours = read_footer(footer, theirs.num_columns)
    assert len(ours) == theirs.num_row_groups
    for number, group in enumerate(ours):
        found = theirs.row_group(number)
        assert (group.rows, len(group.chunks)) == (found.num_rows, found.num_columns)
        for i, chunk in enumerate(group.chunks):
            column = found.column(i)
            assert chunk.values == column.num_values
            assert chunk.uncompressed == column.total_uncompressed_size
            assert chunk.coded == any("DICTIONARY" in word for word in column.encodings)
            assert chunk.differences == any("DELTA" in word for word in column.encodings)


def test_every_cut_of_a_footer_is_refused() -> None:
    _, footer = written()
    for length in range(len(footer)):
        with pytest.raises(ValueError, match="its footer"):
            read_footer(footer[:length], LEAVES)


@pytest.mark.parametrize(
    ("footer", "problem"),
    [
        (b"", "cut off"),
        (b"\0", "lacks a list"),
        (b"\x49\xfc\xff\xff\xff\xff\x0f", "cut off"),  # four thousand million row groups
        (b"\x49\x19" + b"\x19" * 100_000, f"more than {MOST_DEPTH} deep"),
        (b"\x1c" * 100_000, f"more than {MOST_DEPTH} deep"),
        (b"\x16" + b"\xff" * 20, "more than 64 bits"),
        (b"\x18\xff\xff\xff\xff\xff\x0f\0", "cut off"),  # a text of gigabytes
        (b"\x1f\0", "type 15"),
        (b"\x49\x15\x02\0", "describes no row group"),  # a number in a row group's place
        (b"\x49\x1c\x36\x01\0\0", "row group has -1 rows"),
        (b"\x49\x1c\x19\x1c\0\x26\x02\0\0", "does not describe each column"),
        (b"\x49\x1c\x19\x0c\x26\x02\0\0", "row group 1 has 0 columns, the schema 7"),
    ],
)
def test_damage_is_said(footer: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_footer(footer, LEAVES)


@pytest.mark.parametrize("kept", [b"\x49", b"\x19"], ids=["kept", "passed over"])
def test_items_that_are_not_there_take_no_memory(kept: bytes) -> None:
    """Of two million doubles not one is there: neither time nor memory is theirs."""
    footer = kept + b"\xf7\x80\x89\x7a\0"
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="cut off"):
            read_footer(footer, LEAVES)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_what_is_passed_over_takes_no_memory() -> None:
    """A list of structs without fields, each of one byte, which pyarrow passes over too."""
    count = 1 << 16
    footer = b"\x49\x0c\x59\xfc\x80\x80\x04" + bytes(count) + b"\0"
    tracemalloc.start()
    try:
        assert read_footer(footer, LEAVES) == []
        assert tracemalloc.get_traced_memory()[1] < count
    finally:
        tracemalloc.stop()


def test_a_number_that_pyarrow_reads_otherwise_is_refused(tmp_path: Path) -> None:
    """Of a count of 64 bits it takes the lower half: one double, not four thousand million."""
    data, footer = written()
    more = footer[:-1] + b"\x8b\x81\x80\x80\x80\x10\x77" + bytes(16) + b"\0"
    path = tmp_path / "a.parquet"
    path.write_bytes(data[: -8 - len(footer)] + more + len(more).to_bytes(4, "little") + b"PAR1")
    assert parquet.read_metadata(path).num_columns == LEAVES
    with pytest.raises(FileFormatError, match="cut off"):
        ParquetSource(path)


def test_a_file_without_row_groups_has_none() -> None:
    assert read_footer(b"\x49\x0c\0", LEAVES) == []


def test_any_bytes_are_read_or_refused() -> None:
    """Random changes of one to four bytes, many of which leave a footer that can be read."""
    rng, read = random.Random(5), 0
    footers = [written(**options)[1] for options in WRITTEN]
    for _ in range(3000):
        footer = bytearray(rng.choice(footers))
        for _ in range(rng.randint(1, 4)):
            footer[rng.randrange(len(footer))] = rng.choice((0, 1, 127, 128, rng.randrange(256)))
        try:
            read_footer(bytes(footer), LEAVES)
            read += 1
        except ValueError:
            pass
    assert 300 < read < 3000


@pytest.fixture
def usual_chunks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In short footers too."""
    monkeypatch.setattr(module, "USUAL_FROM", 0)


def read_or_refused(footer: bytes) -> Any:
    try:
        return read_footer(footer, LEAVES)
    except ValueError:
        return "refused"


def field_by_field(footer: bytes, patch: pytest.MonkeyPatch) -> Any:
    """The same without the expression of usual chunks."""
    with patch.context() as without:
        without.setattr(module, "usual_chunks", lambda: re.compile(rb"(?!)"))
        return read_or_refused(footer)


@pytest.mark.parametrize("options", WRITTEN, ids=str)
@pytest.mark.usefixtures("usual_chunks_at_once")
def test_all_chunks_that_pyarrow_writes_are_usual(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No struct of a chunk is read field by field."""
    _, footer = written(**options)
    expected = field_by_field(footer, monkeypatch)
    struct, kinds = module._CompactThrift.struct, []

    def watched(self: Any, kept: Any, depth: int) -> Any:
        kinds.append(kept)
        return struct(self, kept, depth)

    monkeypatch.setattr(module._CompactThrift, "struct", watched)
    assert read_footer(footer, LEAVES) == expected
    assert module.CHUNK_FIELDS not in kinds


@pytest.mark.usefixtures("usual_chunks_at_once")
def test_usual_chunks_are_read_as_field_by_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they are damaged: both refuse, or both read the same."""
    rng, footers = random.Random(7), [written(**options)[1] for options in WRITTEN]
    read = 0
    for _ in range(3000):
        footer = bytearray(rng.choice(footers))
        at = rng.randrange(len(footer) // 4, len(footer))  # behind the schema
        footer[at] = rng.choice((0, footer[at] + 1 & 255, footer[at] ^ 16, rng.randrange(256)))
        found = read_or_refused(bytes(footer))
        assert found == field_by_field(bytes(footer), monkeypatch)
        read += found != "refused"
    assert 300 < read < 3000


@pytest.mark.usefixtures("usual_chunks_at_once")
def test_long_texts_of_statistics_are_read_field_by_field() -> None:
    file, texts = io.BytesIO(), ["a" * 64, "b" * 65, "c" * 2000]
    parquet.write_table(pa.table({"x": texts, "y": texts[::-1], "z": texts}), file)
    data = file.getvalue()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    (group,) = read_footer(footer, 3)
    assert [chunk.values for chunk in group.chunks] == [3, 3, 3]


@pytest.mark.usefixtures("usual_chunks_at_once")
def test_fields_without_end_take_no_memory_in_a_chunk() -> None:
    """A column chunk of a million truth values after what is known of it."""
    _, footer = written()
    found = module.usual_chunks().search(footer)
    assert found is not None
    group = found[0][:-1] + b"\x11" * (1 << 20) + b"\0"
    footer = b"\x49\x1c\x19\x1c" + group + b"\x26\x02\0\0"
    tracemalloc.start()
    try:
        assert read_footer(footer, 1)[0].rows == 1
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_statements_that_end_the_process_inside_pyarrow_do_not_reach_it(tmp_path: Path) -> None:
    """A column that may have nulls becomes one without; what counts them stays."""
    data, footer = written(compression="none")
    optional = b"\x15\x0a\x25\x02\x18\x01x"  # DOUBLE, OPTIONAL, the name's length, the name
    required = optional.replace(b"\x25\x02", b"\x25\x00")
    assert optional in footer
    path = tmp_path / "a.parquet"
    path.write_bytes(data.replace(optional, required))
    with (
        closing(ParquetSource(path)) as source,
        pytest.raises(FileFormatError, match="histogram size mismatch"),
    ):
        list(source.parts(["x"]))
