"""Delimited text: the layout is found as stated, and numbers are read as `float` reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.svm import SVC

import kernelite
from kernelite.cli import main
from kernelite.data.tables.data import iter_data, read_data
from kernelite.data.tables.delimited import TextLayout, parse_block
from kernelite.data.tables.parsing import Defect
from kernelite.support.errors import FileFormatError, InputError

DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
SAME_FOLDER = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50
)


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ('"a;x","b""q",c', ("a;x", 'b"q', "c")),
        ('"a,x";"b\ty";c', ("a,x", "b\ty", "c")),
        ('"a;";"b ""c"" d";"""e"""', ("a;", 'b "c" d', '"e"')),
    ],
)
def test_names_in_quotes_hold_delimiters(
    header: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    mark = "," if header.startswith('"a;x') else ";"
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n1{mark}2{mark}3\n4{mark}5{mark}6\n")
    data = read_data(path)
    assert data.feature_names == names
    np.testing.assert_array_equal(data.rows, [[1, 2, 3], [4, 5, 6]])
    model = kernelite.compile(SVC().fit([[0.0] * 3, [1.0] * 3], ["no", "yes"]), guarantee="exact")
    model.save(tmp_path / "a.kernelite")
    wanted = [str(path), str(tmp_path / "a.kernelite")]
    assert main(["report", *wanted[::-1], "-o", str(tmp_path / "page.html")]) == 0
    assert main(["predict", *wanted, str(tmp_path / "out.csv")]) == 0


def read(folder: Path, text: str, name: str = "a.csv", **options: Any) -> Any:
    path = folder / name
    path.write_text(text)
    return read_data(path, **options)


@given(
    rows=hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=DOUBLES),
    delimiter=st.sampled_from(",;\t |"),
    header=st.booleans(),
    chunk=st.integers(1, 4),
)
@SAME_FOLDER
def test_round_trip(tmp_path: Path, rows: Any, delimiter: str, header: bool, chunk: int) -> None:
    path = tmp_path / "a.csv"
    lines = [delimiter.join(f"x{j}" for j in range(rows.shape[1]))] if header else []
    lines += [delimiter.join(map(repr, row)) for row in rows.tolist()]
    path.write_text("\n".join(lines))
    given_one = delimiter if delimiter == "|" else None
    data = read_data(path, delimiter=given_one)
    assert data.rows.tobytes() == rows.tobytes()
    assert (data.feature_names is not None) == header
    assert data.labels is None
    parts = list(iter_data(path, chunk, delimiter=given_one))
    assert np.concatenate([part.rows for part in parts]).tobytes() == rows.tobytes()
    assert [part.first_row for part in parts] == list(range(0, len(rows), chunk))


def test_header_and_labels_by_name(tmp_path: Path) -> None:
    data = read(tmp_path, "a,Label,b\n1,cat,2\n3,7,4\n")
    assert data.feature_names == ("a", "b")
    assert data.labels.tolist() == ["cat", "7"]
    np.testing.assert_array_equal(data.rows, [[1, 2], [3, 4]])
    assert read(tmp_path, "a,y\n1,-1\n2,+1\n").labels.tolist() == [-1.0, 1.0]
    assert read(tmp_path, "a,b\n1,2\n", label_column="b").labels.tolist() == [2.0]
    assert read(tmp_path, "a,y\n1,2\n", label_column=None).rows.tolist() == [[1.0, 2.0]]


def test_labels_by_position_without_header(tmp_path: Path) -> None:
    data = read(tmp_path, "cat,1,2\ndog,3,4\n", label_column=0)
    assert data.feature_names is None
    assert data.labels.tolist() == ["cat", "dog"]
    assert read(tmp_path, "1,2,5\n", label_column=-1).labels.tolist() == [5.0]
    assert read(tmp_path, "1,2,5\n").labels is None
    ignored = read(tmp_path, "1,2,5\n", label_column=0, labels="ignore")
    assert ignored.labels is None
    assert ignored.rows.tolist() == [[2.0, 5.0]]


def test_labels_as_text(tmp_path: Path) -> None:
    data = read(tmp_path, "1,2\nA,3\n", label_column=0, labels="text")
    assert data.labels.tolist() == ["1", "A"]
    with pytest.raises(FileFormatError, match=r"a.csv:2: label `A` is not a decimal"):
        read(tmp_path, "1,2\nA,3\n", label_column=0)
    assert read(tmp_path, "1st,2\nA,3\n", label_column=0).labels.tolist() == ["1st", "A"]


def test_parts_of_text_labels_join(tmp_path: Path) -> None:
    lines = [f"{'long' * (i // 4096)}x{i},{i}" for i in range(5000)]
    data = read(tmp_path, "\n".join(lines), label_column=0)
    assert data.labels.tolist() == [line.partition(",")[0] for line in lines]
    np.testing.assert_array_equal(data.rows[:, 0], np.arange(5000.0))


@pytest.mark.parametrize(
    ("first", "is_header"),
    [
        ("a,b", True),
        ("0,b", True),
        ("1,2", False),
        ("'1',2", True),
        ("x_1,1e5", True),
    ],
)
def test_header_is_found(tmp_path: Path, first: str, is_header: bool) -> None:
    assert len(read(tmp_path, f"{first}\n3,4\n").rows) == 2 - is_header


def test_header_can_be_said(tmp_path: Path) -> None:
    assert len(read(tmp_path, "1,2\n3,4\n", header=True).rows) == 1
    with pytest.raises(FileFormatError, match=r"a.csv:1: column 1: cell `a` is not a decimal"):
        read(tmp_path, "a,b\n3,4\n", header=False)


def test_comments_and_blank_lines(tmp_path: Path) -> None:
    assert read(tmp_path, "# a,b\n\n1,2\n# x\n\n3,4\n").rows.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_one_column(tmp_path: Path) -> None:
    assert read(tmp_path, "1\n2\n").rows.tolist() == [[1.0], [2.0]]
    assert read(tmp_path, "my name\n2\n", "a.tsv").feature_names == ("my name",)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"label_column": 2}, "`label_column` is 2, but `"),
        ({"label_column": "z"}, "`label_column` is 'z', which is not one column"),
        ({"label_column": "z", "header": False}, "has no header"),
        ({"labels": "maybe"}, "`labels` must be one of 'auto', 'required', 'ignore', 'text'"),
        ({"delimiter": ",,"}, "`delimiter` must be one character"),
        ({"delimiter": "."}, "`delimiter` must be one character"),
        ({"delimiter": "\u00a7"}, "`delimiter` must be one character"),
        ({"delimiter": 5}, "`delimiter` must be one character"),
        ({"header": "yes"}, "`header` must be one of 'auto', True or False"),
        ({"n_features": 0}, "`n_features` must be 1 or more"),
        ({"format": "xls"}, "`format` must be one of"),
    ],
)
def test_impossible_options(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read(tmp_path, "a,b\n1,2\n", **options)


CELLS = st.one_of(
    DOUBLES.map(str), st.text('0123456789.-+eEnaif_x,; "', max_size=4), st.just("1e999")
)


@given(rows=st.lists(st.lists(CELLS, min_size=1, max_size=3), min_size=1), text=st.booleans())
@settings(deadline=None, max_examples=300)
def test_every_row_is_kept_or_explained(rows: list[list[str]], text: bool) -> None:
    layout = TextLayout(";", 2, 0 if text else None, text, None, 1)
    lines = [(i, ";".join(cells)) for i, cells in enumerate(rows, start=1)]
    found: list[Defect] = []
    block = parse_block(lines, layout, found.append)
    bad = {defect.line for defect in found}
    assert len(block.values) == len(rows) - len(bad)
    for number, line in lines:
        alone = parse_block([(number, line)], layout, [].append)
        assert len(alone.values) == (number not in bad)
        if number not in bad and '"' not in line:
            cells = line.split(";")
            assert alone.values[0].tolist() == [float(cell) for cell in cells[text:]]
