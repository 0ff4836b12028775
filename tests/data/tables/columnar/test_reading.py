"""The readers: same rows from every format, in bounded parts, with their places."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq

from kernelite.data.tables.columnar import binary, reading, text
from kernelite.data.tables.columnar.reading import SourceFile, TextOptions, list_sources, open_file
from kernelite.data.tables.columnar.writing import open_sink
from kernelite.support.errors import FileFormatError
from tests.data.tables.columnar.tables import NAMES, table, write

ENDINGS = (".parquet", ".feather", ".arrow", ".csv")


def parts_of(path: Path, columns: list[str], numbers: tuple[str, ...] = (), **options):
    (source,) = list_sources(path)
    with closing(open_file(source, TextOptions(**options))) as file:
        kinds = dict.fromkeys(numbers, "number")
        parts = list(file.parts(columns, kinds))
        assert all(p.batch.schema.equals(file.schema_of(columns, kinds)) for p in parts)
    return parts


def joined(parts) -> pa.Table:
    return pa.Table.from_batches([part.batch for part in parts])


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("most", [7, 65536])
def test_every_format_gives_the_same_rows(ending, most, tmp_path, monkeypatch) -> None:
    for module in (binary, text):
        monkeypatch.setattr(module, "batch_rows", lambda n_columns: most)
    path = write(table(), tmp_path / f"a{ending}")
    wanted = ["id", "petal width"]
    parts = parts_of(path, wanted, ("petal width",))
    assert joined(parts).select(wanted).equals(table().select(wanted))
    assert max(part.batch.num_rows for part in parts) <= most
    assert [p.first_row for p in parts] == list(
        np.cumsum([0, *(part.batch.num_rows for part in parts)])[:-1]
    )


def test_places(tmp_path) -> None:
    found = parts_of(write(table(), tmp_path / "a.parquet"), ["id"])
    assert [part.where for part in found] == [f"row group {i} of 4" for i in (1, 2, 3, 4)]
    found = parts_of(write(table(), tmp_path / "a.feather"), ["id"])
    assert [part.where for part in found] == [f"record batch {i} of 4" for i in (1, 2, 3, 4)]
    (source,) = list_sources(write(table(), tmp_path / "b.parquet"))
    with closing(open_file(source)) as file:
        assert file.n_rows == 150


def test_a_stream_of_batches(tmp_path) -> None:
    path = tmp_path / "a.arrow"
    with pa.ipc.new_stream(str(path), table().schema) as writer:
        for batch in table().to_batches(max_chunksize=100):
            writer.write_batch(batch)
    found = parts_of(path, NAMES)
    assert [part.where for part in found] == ["record batch 1", "record batch 2"]
    assert joined(found).equals(table().select(NAMES))


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_rows(ending, tmp_path) -> None:
    path = write(table(0, 0), tmp_path / f"a{ending}")
    assert sum(part.batch.num_rows for part in parts_of(path, NAMES, tuple(NAMES))) == 0


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_packed_text(ending, pack, tmp_path) -> None:
    plain = write(table(), tmp_path / "a.csv")
    packed = tmp_path / f"a.csv{ending}"
    packed.write_bytes(pack(plain.read_bytes()))
    assert joined(parts_of(packed, NAMES)).equals(table().select(NAMES))
    packed.write_bytes(pack(plain.read_bytes())[:-40])
    with pytest.raises(FileFormatError, match=r"corrupt or cut off|cannot be read"):
        parts_of(packed, NAMES)


def test_the_layout_of_text_is_found_as_elsewhere(tmp_path) -> None:
    path = tmp_path / "a.csv"
    for content, columns, expected in (
        ("a;b\n1;2\n", ["b"], [2.0]),
        ("a\tb\n1\t2\n", ["b"], [2.0]),
        ("# made by hand\n\na,b\n1,2\n", ["b"], [2.0]),
        ("\ufeffa,b\r\n1,2\r\n", ["a"], [1.0]),
        ("1,2\n3,4\n", ["f1"], [2.0, 4.0]),  # no header, so no row is lost
        ("my value\n3\n4\n", ["my value"], [3.0, 4.0]),
        ('a,"b, c"\n1,2\n', ["b, c"], [2.0]),
    ):
        path.write_text(content, encoding="utf-8")
        (column,) = joined(parts_of(path, columns, tuple(columns))).columns
        assert column.to_pylist() == expected
    path.write_text("1,2\n3,4\n")
    assert joined(parts_of(path, ["1"], header=True)).num_rows == 1
    path.write_text("a|b\n1|2\n")
    assert joined(parts_of(path, ["b"], delimiter="|")).num_rows == 1
    for empty in ("", "\n\n"):
        path.write_text(empty)
        with pytest.raises(FileFormatError, match="there is no line with data"):
            parts_of(path, ["a"])


SIGNS = st.sampled_from(["", "+", "-"])
DIGITS = st.text("0123456789", min_size=1, max_size=40)
EXPONENTS = st.just("") | st.tuples(
    st.sampled_from("eE"), SIGNS, st.text("0123456789", min_size=1, max_size=3)
).map("".join)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=False, allow_infinity=False).map(repr),
            st.decimals(allow_nan=False, allow_infinity=False).map(str),
            st.tuples(SIGNS, DIGITS, st.just("."), st.just("") | DIGITS, EXPONENTS).map("".join),
            st.integers().map(str),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_numbers_are_those_of_float(tmp_path_factory, cells) -> None:
    path = tmp_path_factory.mktemp("numbers") / "a.csv"
    path.write_text("x\n" + "\n".join(cells) + "\n")
    (column,) = joined(parts_of(path, ["x"], ("x",))).columns
    np.testing.assert_array_equal(column.to_numpy(), [float(cell) for cell in cells])


def test_a_type_that_only_later_rows_show(tmp_path, monkeypatch) -> None:
    """Integers first, then a fraction, then a name: features are doubles all along."""
    monkeypatch.setattr(text, "TEXT_BYTES_PER_BATCH", 64)
    path = tmp_path / "a.csv"
    path.write_text("id,x\n" + "1,2\n" * 100 + "A7,0.5\n")
    assert joined(parts_of(path, ["x"], ("x",)))["x"].to_pylist()[-1] == 0.5
    verbatim = joined(parts_of(path, ["id", "x"], ("x",), verbatim=True))
    assert verbatim["id"].to_pylist()[-2:] == ["1", "A7"]
    with pytest.raises(FileFormatError, match=r"column `id`, row 101: `A7` is not of the type"):
        parts_of(path, ["id", "x"], ("x",))


def test_a_large_row_group_is_not_read_at_once(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(binary, "ALL_BUFFERS", 1 << 20)
    monkeypatch.setattr(binary, "batch_rows", lambda n_columns: 1000)
    columns = np.random.default_rng(0).normal(size=(20, 100_000))
    large = pa.table({f"x{i}": column for i, column in enumerate(columns)})
    pq.write_table(large, tmp_path / "a.parquet", row_group_size=100_000, use_dictionary=False)
    (source,) = list_sources(tmp_path / "a.parquet")
    before = pa.total_allocated_bytes()
    most = rows = 0
    with closing(open_file(source)) as file:
        for part in file.parts(large.column_names):
            most = max(most, pa.total_allocated_bytes() - before)
            rows += part.batch.num_rows
    assert rows == 100_000
    assert most < 0.5 * large.nbytes


def test_batches_are_bounded_by_bytes() -> None:
    assert reading.batch_rows(1) == reading.MOST_BATCH_ROWS
    assert reading.batch_rows(10**9) == 1
    assert 780 * reading.batch_rows(780) <= reading.BATCH_VALUES


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_compressed_text_that_becomes_too_long_is_refused(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(pack(b"a,b\n" + b"1,2\n" * 2_000_000))
    with pytest.raises(FileFormatError, match="over 200 times as long as the file"):
        for _ in open_file(SourceFile(str(path), "csv")).parts(["a"]):
            pass


LONG = "x" * 100_000
REPEATED = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2000, np.uint16)), pa.array([LONG]))
TALL: dict[str, pa.Array] = {
    "zeros": pa.array(np.zeros(3_000_000)),
    "one text": REPEATED.dictionary_decode(),
    "codes of one text": REPEATED,
    "lists of one text": pa.array([[LONG]] * 500),
}


def views_of_one_text(count: int) -> pa.Array:
    """As polars writes texts: each says how long it is and where it stands."""
    views = np.zeros(count, dtype=[("length", "<i4"), ("start", "S4"), ("place", "<i4", 2)])
    views["length"], views["start"] = len(LONG), LONG[:4].encode()
    buffers = [None, pa.py_buffer(views.tobytes()), pa.py_buffer(LONG.encode())]
    return pa.Array.from_buffers(pa.string_view(), count, buffers)


FOLDED: dict[str, pa.Array] = {
    "codes of one text": REPEATED,
    "lists of codes": pa.ListArray.from_arrays(pa.array(range(2001), pa.int32()), REPEATED),
    "records of codes": pa.StructArray.from_arrays([REPEATED], ["inner"]),
    "views of one text": views_of_one_text(2000),
}


@pytest.mark.parametrize(
    ("name", "ending"),
    [*((name, ".parquet") for name in TALL), *((name, ".arrow") for name in FOLDED)],
)
def test_a_few_bytes_that_become_many_rows_are_refused(name, ending, tmp_path, monkeypatch) -> None:
    path = tmp_path / f"a{ending}"
    rows = pa.table({"a": (TALL if ending == ".parquet" else FOLDED)[name]})
    if ending == ".parquet":
        pq.write_table(rows, path, compression="zstd")
    else:  # the text is as long as the file: only what stands for it is many times that
        with pa.ipc.new_file(path, rows.schema) as sink:
            sink.write_table(rows)
        monkeypatch.setenv("KERNELITE_MAX_EXPANSION", "100")
    with pytest.raises(FileFormatError, match="times as long as the file; if you trust it, set"):
        parts_of(path, ["a"])
    monkeypatch.setenv("KERNELITE_MAX_EXPANSION", "1000000")
    assert joined(parts_of(path, ["a"])).equals(rows)


@pytest.mark.parametrize("inner", ["texts", "numbers"])
def test_lists_that_stand_for_gigabytes_are_refused_before_they_are_read(
    inner, tmp_path, monkeypatch
) -> None:
    """Their values are counted by the footer, and texts as codes: nothing is spelled out first."""
    rows, each = 20, 50_000
    values = pa.array(np.zeros(rows * each))
    if inner == "texts":
        codes = pa.array(np.zeros(rows * each, np.int8))
        values = pa.DictionaryArray.from_arrays(codes, pa.array([LONG]))  # 100 GB
    offsets = pa.array(np.arange(0, rows * each + 1, each, dtype=np.int32))
    column = pa.ListArray.from_arrays(offsets, values)
    pq.write_table(pa.table({"a": column}), tmp_path / "a.parquet", store_schema=False)
    before = pa.total_allocated_bytes()
    monkeypatch.setattr(binary.arrow().parquet.ParquetFile, "iter_batches", None)
    with pytest.raises(FileFormatError, match="over 200 times as long as the file"):
        parts_of(tmp_path / "a.parquet", ["a"])
    assert pa.total_allocated_bytes() < before + 2**24


def test_lists_of_repeated_texts_are_read_as_they_are(tmp_path) -> None:
    words = ["one", "two", None]
    rng = np.random.default_rng(0)
    lists = [[words[i] for i in rng.integers(0, 3, rng.integers(0, 4))] for _ in range(500)]
    lists[7] = None
    records = [None if each is None else {"x": each, "y": len(each)} for each in lists]
    maps = [
        None if each is None else [(str(i), one) for i, one in enumerate(each)] for each in lists
    ]
    rows = pa.table(
        {
            "lists": pa.array(lists),
            "records": pa.array(records),
            "maps": pa.array(maps, pa.map_(pa.string(), pa.string())),
            "views": pa.array(["a longer text than sixteen letters", None] * 250, pa.string_view()),
        }
    )
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=150)
    with pa.ipc.new_file(tmp_path / "a.arrow", rows.schema) as sink:
        sink.write_table(rows)
    for ending in ("parquet", "arrow"):
        found = joined(parts_of(tmp_path / f"a.{ending}", rows.column_names))
        assert found.to_pydict() == rows.to_pydict()


def test_views_become_csv(tmp_path) -> None:
    views = pa.array(["a longer text than sixteen letters", None, "a,b"], pa.string_view())
    batch = pa.record_batch({"a": views, "b": [1, 2, 3]})
    with open_sink(str(tmp_path / "a.csv"), "csv", batch.schema) as sink:
        sink.write(batch)
    said = (tmp_path / "a.csv").read_text()
    assert said == 'a,b\n"a longer text than sixteen letters",1\n,2\n"a,b",3\n'


SHARED: dict[str, pa.Array] = {
    "lists by views": pa.ListViewArray.from_arrays([0] * 3, [2] * 3, pa.array([1.0, 2.0])),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([3], pa.int32()), pa.array(["a"])),
    "codes of lists": pa.DictionaryArray.from_arrays(pa.array([0] * 3), pa.array([["a"]])),
    "lists of runs": pa.ListArray.from_arrays(
        [0, 1, 2, 3], pa.RunEndEncodedArray.from_arrays(pa.array([3], pa.int32()), pa.array(["a"]))
    ),
}


@pytest.mark.parametrize("name", SHARED)
def test_types_whose_values_are_not_counted_are_refused(name, tmp_path) -> None:
    rows = pa.table({"a": SHARED[name], "b": [1.0, 2.0, 3.0]})
    with pa.ipc.new_file(tmp_path / "a.arrow", rows.schema) as sink:
        sink.write_table(rows)
    with pytest.raises(FileFormatError, match=r"column `a` holds .*; cast it, or leave it out"):
        parts_of(tmp_path / "a.arrow", ["a"])
    assert joined(parts_of(tmp_path / "a.arrow", ["b"])).num_rows == 3


def test_batches_of_long_texts_have_few_rows(tmp_path, monkeypatch) -> None:
    """Nothing that is read at once is longer than is granted, however short its codes are."""
    monkeypatch.setenv("KERNELITE_MAX_EXPANSION", "1000000")
    monkeypatch.setattr(binary, "TEXT_BYTES", 1 << 20)
    for version in ("PLAIN", "DELTA_BYTE_ARRAY", None):
        path = tmp_path / f"{version}.parquet"
        coding = {"use_dictionary": version is None, "column_encoding": version and {"a": version}}
        pq.write_table(pa.table({"a": TALL["one text"]}), path, **coding)
        most = max(part.batch.num_rows for part in parts_of(path, ["a"]))
        assert most <= {"PLAIN": 2000, "DELTA_BYTE_ARRAY": binary.DELTA_ROWS, None: 10}[version]
