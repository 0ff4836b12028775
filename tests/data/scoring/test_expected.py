"""Files with columns of text, for pipelines that encode them: as the pipeline itself answers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC

import kernelite as kl
from kernelite.cli import main
from kernelite.data.scoring import BatchScorer
from kernelite.data.scoring.expected import expected_of
from kernelite.support.errors import FileFormatError, InputError

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

from pyarrow import parquet  # noqa: E402

ENDINGS = (".csv", ".csv.gz", ".parquet", ".feather")


def frame(n: int = 240, seed: int = 0) -> Any:
    """Ages, cities (one of which looks like a number, with a zero in front), sizes and notes."""
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": draw.normal(40, 10, n).round(3),
            "city": draw.choice(["Rome", "Oslo, NO", "07", "7"], n),
            "size": draw.choice([1, 2, 3], n),
            "note": draw.choice(["", "ok"], n),
        }
    )


def labels(X: Any) -> Any:
    return np.where((X["city"] == "07") ^ (X["age"] > 40), "yes", "no")


@cache
def machine(unknown: str = "error", fill: bool = False) -> Any:
    encode = OneHotEncoder(handle_unknown=unknown)
    if fill:
        encode = make_pipeline(SimpleImputer(strategy="most_frequent"), encode)
    columns = make_column_transformer(
        (StandardScaler(), ["age"]), (encode, ["city", "size"]), verbose_feature_names_out=False
    )
    X = frame()[["age", "city", "size"]]
    return make_pipeline(columns, SVC(gamma=0.1, C=10)).fit(X, labels(X))


@cache
def compiled(unknown: str = "error", fill: bool = False) -> kl.CompiledModel:
    return kl.compile(machine(unknown, fill), frame()[["age", "city", "size"]])


def write(X: Any, path: Path) -> Path:
    if path.suffix == ".parquet":
        X.to_parquet(path, row_group_size=50)
    elif path.suffix == ".feather":
        X.to_feather(path)
    else:
        X.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_is_answered_as_the_frame_is(ending: str, tmp_path: Path) -> None:
    X = frame(seed=1)
    # In another order, among other columns.
    table = X[["note", "size", "city", "age"]].assign(id=[f"{i:04}" for i in range(len(X))])
    path, out = write(table, tmp_path / f"rows{ending}"), tmp_path / "out.parquet"
    done = kl.predict_files(compiled(), path, out, keep=["id"], outputs=["label", "decided"])
    found = parquet.read_table(out)
    assert done.rows == len(X)
    expected = machine().predict(X[["age", "city", "size"]]).tolist()
    assert found["label"].to_pylist() == expected
    assert all(found["decided"].to_pylist())


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_the_command_line_takes_them(ending: str, tmp_path: Path, capsys: Any) -> None:
    X = frame(seed=2)
    joblib.dump(machine(), tmp_path / "m.joblib")
    path = write(X.assign(target=labels(X)), tmp_path / f"rows{ending}")
    options = ["--exact", "--allow-pickle"]
    expected = machine().predict(X[["age", "city", "size"]])
    for name in ("out.txt", "out.csv"):
        arguments = ["predict", str(path), str(tmp_path / "m.joblib"), str(tmp_path / name)]
        assert main([*arguments, *options]) == 0
        lines = (tmp_path / name).read_text().split()
        assert lines[lines[0] == "label" :] == expected.tolist()
        right = int((expected == labels(X)).sum())
        assert f"({right}/{len(X)}) (classification)" in capsys.readouterr().out


def test_what_looks_like_a_number_stays_text(tmp_path: Path) -> None:
    """07 and 7 are two cities; as numbers they would be one, and none that the encoder knows."""
    X = frame(seed=3).query("city in ('07', '7')")
    path = write(X, tmp_path / "rows.csv")
    kl.predict_files(compiled("ignore"), path, tmp_path / "out.csv")
    expected = machine("ignore").predict(X[["age", "city", "size"]])
    assert (tmp_path / "out.csv").read_text().split()[1:] == expected.tolist()
    assert set(expected_of(compiled()).numbers) == {"age", "size"}
    assert list(expected_of(compiled()).text) == ["city"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_missing_text_is_what_the_encoder_knows_as_missing(ending: str, tmp_path: Path) -> None:
    X = frame(seed=4)[["age", "city", "size"]]
    holes = np.arange(len(X)) % 7 == 0
    fitted = X.assign(city=X["city"].mask(holes, np.nan).astype(object))
    columns = make_column_transformer(
        (StandardScaler(), ["age"]), (OneHotEncoder(handle_unknown="ignore"), ["city", "size"])
    )
    y = np.where(holes ^ (X["age"] > 40), 1, 0)
    model = make_pipeline(columns, SVC(gamma=0.3, C=10)).fit(fitted, y)
    path = write(fitted, tmp_path / f"rows{ending}")
    kl.predict_files(kl.compile(model, fitted), path, tmp_path / "out.csv")
    answers = [int(line) for line in (tmp_path / "out.csv").read_text().split()[1:]]
    assert answers == model.predict(fitted).tolist()


def test_an_empty_category_is_no_hole(tmp_path: Path) -> None:
    X = frame(seed=5)
    columns = make_column_transformer((StandardScaler(), ["age"]), (OrdinalEncoder(), ["note"]))
    model = make_pipeline(columns, SVC(gamma=0.3)).fit(X, X["note"] == "")
    path = write(X, tmp_path / "rows.csv")
    kl.predict_files(kl.compile(model, X), path, tmp_path / "out.txt", output_format="lines")
    expected = [str(label) for label in model.predict(X)]
    assert (tmp_path / "out.txt").read_text().split() == expected


def test_imputed_text(tmp_path: Path) -> None:
    X = frame(seed=6)
    X.loc[::5, "city"] = None
    path = write(X, tmp_path / "rows.csv")
    kl.predict_files(compiled(fill=True), path, tmp_path / "out.csv")
    filled = X[["age", "city", "size"]].assign(
        city=X["city"].astype(object).where(X["city"].notna(), np.nan)
    )
    expected = machine(fill=True).predict(filled)
    assert (tmp_path / "out.csv").read_text().split()[1:] == expected.tolist()


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_what_cannot_be_is_one_sentence(ending: str, tmp_path: Path) -> None:
    X = frame(seed=7)
    out = tmp_path / "out.csv"
    unknown = X.assign(city=["Paris", *X["city"][1:]])
    words = X.assign(age=["old", *X["age"][1:].astype(str)])
    for table, said in (
        (unknown, r"row 1: unknown categories \['Paris'\] in column `city`"),
        (X.drop(columns="city"), "there is no column `city`"),
        (words, "column `age`"),
    ):
        path = write(table, tmp_path / f"rows{ending}")
        with pytest.raises(FileFormatError, match=said) as caught:
            kl.predict_files(compiled(), path, out)
        assert str(caught.value).startswith(str(path))
        assert "\n" not in str(caught.value)
        assert not out.exists()


def test_a_column_that_nobody_looks_at_may_hold_anything(tmp_path: Path, monkeypatch: Any) -> None:
    """Whole numbers first, words later: as a feature, that would be a defect of the file."""
    X = frame(seed=10)
    columns = make_column_transformer(
        (StandardScaler(), ["age"]), (OneHotEncoder(), slice("city", "size"))
    )
    model = make_pipeline(columns, SVC(gamma=0.1)).fit(X, labels(X))
    fast = kl.compile(model, X)
    assert expected_of(fast).unused == {"note"}
    monkeypatch.setattr("kernelite.data.tables.columnar.text.TEXT_BYTES_PER_BATCH", 1000)
    path = write(X.assign(note=[*range(200), *["word"] * 40]), tmp_path / "rows.csv")
    kl.predict_files(fast, path, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().split()[1:] == model.predict(X).tolist()


def test_documents_are_no_columns(tmp_path: Path) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    model = make_pipeline(TfidfVectorizer(), SVC()).fit(["a bird", "a fish"], [0, 1])
    path = write(frame(), tmp_path / "rows.csv")
    with pytest.raises(InputError, match="takes documents, not a table"):
        kl.predict_files(kl.compile(model), path, tmp_path / "out.csv")


def test_text_in_one_column_that_counts_words(tmp_path: Path) -> None:
    from sklearn.feature_extraction.text import CountVectorizer

    X = frame(seed=8)
    columns = make_column_transformer((StandardScaler(), ["age"]), (CountVectorizer(), "city"))
    model = make_pipeline(columns, SVC(gamma=0.2)).fit(X, labels(X))
    path = write(X, tmp_path / "rows.csv")
    kl.predict_files(kl.compile(model, X), path, tmp_path / "out.csv")
    answers = (tmp_path / "out.csv").read_text().split()[1:]
    assert answers == model.predict(X).tolist()


def test_batches_of_any_engine(tmp_path: Path) -> None:
    X = frame(seed=9)
    scorer = BatchScorer(compiled(), keep=["note"])
    found = scorer(pa.RecordBatch.from_pandas(X))
    assert found.schema == scorer.schema(pa.Schema.from_pandas(X))
    assert found["label"].to_pylist() == machine().predict(X[["age", "city", "size"]]).tolist()


def test_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: Any) -> None:
    """Python's own memory, in which frames and text are: blocks of rows, however many."""
    monkeypatch.setattr("kernelite.data.tables.columnar.reading.MOST_BATCH_ROWS", 500)
    most: list[int] = []
    answers = BatchScorer.answers

    def counted(self: BatchScorer, rows: Any, beyond: Any = None) -> Any:
        most.append(len(rows))
        return answers(self, rows, beyond)

    monkeypatch.setattr(BatchScorer, "answers", counted)
    for ending in (".parquet", ".csv"):
        path = write(frame(3000), tmp_path / f"rows{ending}")
        kl.predict_files(compiled(), path, tmp_path / "out.parquet")
        assert len(most) >= 6
        assert max(most) <= 500
        assert parquet.read_table(tmp_path / "out.parquet").num_rows == sum(most) == 3000
        most.clear()


@pytest.mark.parametrize("format", ["csv", "delimited"])
def test_numbers_of_columns_by_name_come_from_any_table(format: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [1.0, 0.0, 1.0, 0.0]})
    first = make_column_transformer((StandardScaler(), ["b"]), remainder="passthrough")
    model = make_pipeline(first, SVC()).fit(frame, [0, 1, 1, 0])
    fast = kl.compile(model, frame)
    frame[["b", "a"]].to_csv(tmp_path / "in.csv", index=False)
    kl.predict_files(fast, tmp_path / "in.csv", tmp_path / "out.csv", format=format)
    found = pd.read_csv(tmp_path / "out.csv")["label"]
    np.testing.assert_array_equal(found, model.predict(frame))
