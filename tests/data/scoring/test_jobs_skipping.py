"""Bad rows, skipped: the others are answered, and a file says which were left out, and why."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC

import kernelite as kl
from kernelite.support.errors import FileFormatError, InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
MODEL = SVC(gamma=0.1).fit(X, X[:, 0] + X[:, 1] > 0)
FAST = kl.compile(MODEL, X)


def skipped(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def labels(path: Path) -> list[str]:
    return [line.split(",")[-1] for line in path.read_text().split()[1:]]


def expected(rows: Any) -> list[str]:
    return [str(label).lower() for label in MODEL.predict(rows)]


def test_csv(tmp_path: Path) -> None:
    cells = [[f"{a:.17g}", f"{b:.17g}"] for a, b in X]
    bad = {3: "7,0.5,abc", 40: "7,", 41: "7,1,,4", 150: "7,nan,1", 299: "7,,2"}
    lines = [bad.get(i, f"{i}," + ",".join(row)) for i, row in enumerate(cells)]
    source, out = tmp_path / "rows.csv", tmp_path / "labels.csv"
    source.write_text("id,a,b\n" + "\n".join(lines) + "\n")
    with pytest.raises(FileFormatError):
        kl.predict_files(FAST, source, out, columns=["a", "b"], keep="id")
    assert not out.exists()
    done = kl.predict_files(FAST, source, out, columns=["a", "b"], keep="id", on_bad_row="skip")
    good = [i for i in range(300) if i not in bad]
    assert (done.rows, done.skipped) == (295, 5)
    assert [line.split(",")[0] for line in out.read_text().split()[1:]] == [str(i) for i in good]
    assert labels(out) == expected(X[good])
    found = skipped(tmp_path / "labels.csv.skipped.csv")
    assert sorted(int(row["row"]) for row in found) == [4, 41, 42, 151, 300]
    said = {int(row["row"]): row["problem"] for row in found}
    assert said[4] == "column `b`: `abc` is not a number"
    assert said[41] == "the row `7,` has 2 cells, expected 3"
    assert said[151] == "column `a`: the value is nan, expected a finite number"
    assert "missing" in said[300]
    assert {row["file"] for row in found} == {str(source)}


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_columns_with_holes(ending: str, tmp_path: Path) -> None:
    a = [None if i % 97 == 5 else float(v) for i, v in enumerate(X[:, 0])]
    table = pa.table({"a": a, "b": np.where(np.arange(300) == 200, np.inf, X[:, 1])})
    source, out = tmp_path / f"rows.{ending}", tmp_path / "labels.csv"
    if ending == "parquet":
        parquet.write_table(table, source, row_group_size=64)
    else:
        with pa.ipc.new_file(source, table.schema) as file:
            file.write_table(table, max_chunksize=50)
    why = tmp_path / "why.csv"
    done = kl.predict_files(FAST, source, out, on_bad_row="skip", skipped=why)
    bad = [5, 102, 199, 200, 296]
    assert done.skipped == len(bad)
    assert labels(out) == expected(np.delete(X, bad, axis=0))
    assert [int(row["row"]) - 1 for row in skipped(why)] == bad


def test_libsvm_text(tmp_path: Path) -> None:
    lines = [f"{i} 1:{a:.17g} 2:{b:.17g}" for i, (a, b) in enumerate(X)]
    lines[7], lines[20], lines[21] = "1 1:0.5 2:x 2:1", "1 0:1", "1 1:1 3:5"
    source, out = tmp_path / "rows.svm", tmp_path / "labels.csv"
    source.write_text("\n".join(lines) + "\n")
    done = kl.predict_files(FAST, source, out, on_bad_row="skip")
    assert (done.rows, done.skipped) == (297, 3)
    assert labels(out) == expected(np.delete(X, [7, 20, 21], axis=0))
    assert [row["line"] for row in skipped(tmp_path / "labels.csv.skipped.csv")] == [
        "8",
        "21",
        "22",
    ]


def test_what_a_transformer_refuses(tmp_path: Path) -> None:
    """Only the model knows which rows these are: a block is halved until they stand alone."""
    frame = pd.DataFrame({"city": RNG.choice(["Oslo", "Rome"], 300), "b": X[:, 1]})
    encoder = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    model = make_pipeline(encoder, SVC(gamma=0.1)).fit(frame, X[:, 0] > 0)
    fast = kl.compile(model, frame)
    rows = frame.copy()
    rows.loc[[0, 17, 299], "city"] = "Paris"
    source, out = tmp_path / "rows.parquet", tmp_path / "labels.csv"
    rows.to_parquet(source)
    done = kl.predict_files(fast, source, out, on_bad_row="skip")
    assert (done.rows, done.skipped) == (297, 3)
    kept = frame.drop([0, 17, 299])
    assert labels(out) == [str(label).lower() for label in model.predict(kept)]
    found = skipped(tmp_path / "labels.csv.skipped.csv")
    assert [row["row"] for row in found] == ["1", "18", "300"]
    assert all("Paris" in row["problem"] for row in found)


def test_another_file_than_was_meant_still_stops(tmp_path: Path) -> None:
    source, out = tmp_path / "rows.csv", tmp_path / "labels.csv"
    source.write_text("a,b\nx,y\nu,v\n")
    with pytest.raises(FileFormatError, match="all of its 2 rows are bad; the first one"):
        kl.predict_files(FAST, source, out, columns=["a", "b"], on_bad_row="skip")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]
    with pytest.raises(InputError, match="'stop' or 'skip', got 'go'"):
        kl.predict_files(FAST, source, out, on_bad_row="go")  # type: ignore[arg-type]


def test_skipped_rows_do_not_take_the_place_of_the_answers(tmp_path):
    source, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    source.write_text("1,2\nx,3\n")
    with pytest.raises(InputError, match="gets the answers; name another"):
        kl.predict_files(FAST, source, out, on_bad_row="skip", skipped=tmp_path / "." / "out.csv")
    assert not out.exists()
