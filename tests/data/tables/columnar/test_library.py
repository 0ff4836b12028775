"""Bad files: one sentence that names file, row group, column and row."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import kernelite as kl
from kernelite.data.tables.columnar.library import naming_file
from kernelite.support.errors import FileFormatError, KerneliteError
from tests.data.tables.columnar.tables import NAMES, classifier, read, table, write


def said_of(path: Path, tmp_path: Path, **options) -> str:
    out = tmp_path / "out" / "scored.parquet"
    out.parent.mkdir(exist_ok=True)
    with pytest.raises(FileFormatError) as caught:
        kl.predict_files(classifier(), path, out, **options)
    assert os.listdir(out.parent) == []
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


def broken(value: object, row: int = 97, column: str = "petal length") -> pa.Table:
    """The table with one cell exchanged."""
    cells = table()[column].to_pylist()
    cells[row] = value
    index = table().column_names.index(column)
    return table().set_column(index, column, pa.array(cells, pa.float64()))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "the value is missing (null); fill such rows or leave them out"),
        (np.nan, "the value is nan, expected a finite number"),
        (-np.inf, "the value is -inf, expected a finite number"),
    ],
)
@pytest.mark.parametrize(
    ("ending", "place"),
    [(".parquet", "row group 3 of 4, "), (".feather", "record batch 3 of 4, "), (".csv", "")],
)
def test_a_value_that_no_model_takes(value, problem, ending, place, tmp_path) -> None:
    path = write(broken(value), tmp_path / f"a{ending}")
    if ending == ".csv" and value is np.nan:  # pyarrow reads it as missing
        problem = "the value is missing (null); fill such rows or leave them out"
    said = said_of(path, tmp_path)
    assert said == f"{place}column `petal length`, row 98: {problem}"


def test_missing_renamed_and_text_columns(tmp_path) -> None:
    for ending in (".parquet", ".feather", ".csv"):
        path = tmp_path / f"a{ending}"
        write(table().drop_columns(["sepal width"]), path)
        assert "there is no column `sepal width`" in said_of(path, tmp_path)
        write(table().rename_columns(["id", "Sepal Length", *NAMES[1:], "remark"]), path)
        said = said_of(path, tmp_path)
        assert "no column `sepal length`" in said
        assert "Sepal Length" in said
        words = pa.array(["tall"] * 150)
        write(table().set_column(1, NAMES[0], words), path)
        expected = "column `sepal length` is of type string, not numeric"
        if ending == ".csv":  # has no types, so there the first word is named
            expected = "column `sepal length`, row 1: `tall` is not a number"
        assert expected in said_of(path, tmp_path)
        write(table(), path)
        assert "no column `ID` to keep" in said_of(path, tmp_path, keep=["ID"])
        assert "names 1 columns" in said_of(path, tmp_path, columns=["id"])


def test_a_word_among_numbers(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("kernelite.data.tables.columnar.text.TEXT_BYTES_PER_BATCH", 512)
    path = write(table(), tmp_path / "a.csv")
    lines = path.read_text().splitlines()
    lines[120] = '1119,5.1,"two, or so",1.4,0.2,"x"'
    path.write_text("\n".join(lines) + "\n")
    said = "column `sepal width`, row 120: `two, or so` is not a number"
    assert said_of(path, tmp_path) == said
    monkeypatch.undo()  # within the first block the column would pass for text
    assert said_of(path, tmp_path) == said
    lines[120] = "1119,5.1"
    path.write_text("\n".join(lines) + "\n")
    assert "Expected 6 columns, got 2" in said_of(path, tmp_path)


def test_a_damaged_page(tmp_path) -> None:
    """The row group and the column are found, though pyarrow names neither."""
    path = tmp_path / "a.parquet"
    parquet.write_table(
        table(), path, row_group_size=40, compression="snappy", write_page_checksum=True
    )
    group = parquet.read_metadata(path).row_group(2)
    column = group.column(table().column_names.index("petal length"))
    start = column.dictionary_page_offset or column.data_page_offset
    content = bytearray(path.read_bytes())
    for i in range(start + column.total_compressed_size - 12, start + column.total_compressed_size):
        content[i] ^= 0xFF
    path.write_bytes(bytes(content))
    said = said_of(path, tmp_path)
    assert said.startswith("row group 3 of 4, column `petal length`: cannot be read (")


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
def test_cut_off_anywhere(ending, tmp_path) -> None:
    path = write(table(), tmp_path / f"a{ending}")
    content = path.read_bytes()
    for share in (0.0, 0.001, 0.3, 0.7, 0.99):
        path.write_bytes(content[: int(share * len(content))])
        assert "cannot be read" in said_of(path, tmp_path)
    path.write_bytes(b"id,x\n1,2\n" * 50)  # another format under that name
    assert "cannot be read" in said_of(path, tmp_path)


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
def test_bytes_flipped_at_random(ending, tmp_path) -> None:
    """Whatever happens, it is an error of ours, or the numbers still are numbers."""
    path = write(table(), tmp_path / f"a{ending}")
    content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    random = np.random.default_rng(0)
    outcomes = set()
    for _ in range(60):
        damaged = content.copy()
        where = random.integers(0, len(damaged), size=4)
        damaged[where] ^= random.integers(1, 256, size=4, dtype=np.uint8)
        path.write_bytes(damaged.tobytes())
        out = tmp_path / "scored.parquet"
        try:
            kl.predict_files(classifier(), path, out, keep=["remark"])
            outcomes.add("read")
            assert read(out).column_names == ["remark", "label"]
            out.unlink()
        except KerneliteError as error:
            outcomes.add(str(path) in str(error) and not out.exists())
    assert outcomes in ({True}, {"read", True})


def test_a_name_that_is_no_text(tmp_path) -> None:
    """What flipped bytes led to: a column's name that is not UTF-8, a length of petabytes."""
    path = write(table(), tmp_path / "a.arrow")
    path.write_bytes(path.read_bytes().replace(b"sepal width", b"sepal wid\xff\xfe"))
    assert said_of(path, tmp_path).startswith("cannot be read (")
    with pytest.raises(FileFormatError, match=r"row group 1 of 1: cannot be read .malloc of size"):
        raise_while_reading(MemoryError("malloc of size 5910974510926208 failed"))


def raise_while_reading(error: Exception) -> None:
    with naming_file("a.parquet", "row group 1 of 1"):
        raise error


def test_feather_of_version_1(tmp_path) -> None:
    (tmp_path / "a.feather").write_bytes(b"FEA1" + bytes(40))
    assert "version 1, write it again" in said_of(tmp_path / "a.feather", tmp_path)
