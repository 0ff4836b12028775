"""`predict_files`: rows in, the same rows with answers out, whole or not at all."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import kernelite as kl
from kernelite.data.scoring import files
from kernelite.data.scoring.streams import Wanted, read_rows
from kernelite.data.tables.columnar import writing
from kernelite.data.tables.columnar.reading import list_sources, open_file
from kernelite.data.tables.columnar.writing import open_sink
from kernelite.support.errors import FileFormatError, InputError
from kernelite.support.files import atomic_write
from tests.data.tables.columnar.tables import NAMES, classifier, read, regressor, rows, table, write

KEPT = ["id", "remark"]
ENDINGS = (".parquet", ".feather", ".arrow", ".csv")


@pytest.mark.parametrize("source", ENDINGS)
@pytest.mark.parametrize("target", ENDINGS)
def test_from_each_format_to_each(source, target, tmp_path) -> None:
    path = write(table(), tmp_path / f"a{source}")
    out = tmp_path / f"out{target}"
    done = kl.predict_files(classifier(text=True), path, out, keep=KEPT)
    found = read(out)
    assert found.column_names == ["id", "remark", "label"]
    assert found.drop_columns(["label"]).to_pydict() == table().select(KEPT).to_pydict()
    assert found["label"].to_pylist() == classifier(text=True).predict(_frame()).tolist()
    assert (done.rows, done.stats.rows) == (150, 150)
    assert done.files == (files.FilePrediction(str(path), str(out), 150),)
    assert sorted(os.listdir(tmp_path)) == sorted([path.name, out.name])


def _frame():
    import pandas

    return pandas.DataFrame(rows(), columns=NAMES)


def test_all_columns_and_all_outputs(tmp_path) -> None:
    path = write(table(), tmp_path / "a.parquet")
    out = tmp_path / "out.parquet"
    model = classifier()
    kl.predict_files(model, path, out, keep="all", outputs=["label", "score", "decided"])
    found = read(out)
    assert found.select(table().column_names).equals(table().replace_schema_metadata(None))
    assert found.column_names[6:] == ["label", "score_0", "score_1", "score_2", "decided"]
    assert found["label"].to_pylist() == model.predict(_frame()).tolist()
    assert all(found["decided"].to_pylist())
    scores = np.column_stack([found[f"score_{i}"].to_numpy() for i in range(3)])
    np.testing.assert_array_equal(scores, model.decision_function(_frame()))
    with pytest.raises(FileFormatError, match="there is a column `label` already"):
        kl.predict_files(model, out, tmp_path / "again.csv", keep="all")
    kl.predict_files(model, out, tmp_path / "again.csv", keep="all", prefix="new_")
    assert read(tmp_path / "again.csv").column_names[-1] == "new_label"


def test_values_keep_all_their_digits_in_csv(tmp_path) -> None:
    path = write(table(), tmp_path / "a.parquet")
    kl.predict_files(regressor(), path, tmp_path / "out.csv", columns=["1:4"])
    said = (tmp_path / "out.csv").read_text().splitlines()
    assert said[0] == "prediction"
    np.testing.assert_array_equal([float(cell) for cell in said[1:]], regressor().predict(rows()))


def test_csv_to_csv_keeps_text_as_it_is(tmp_path) -> None:
    path, out = tmp_path / "a.csv", tmp_path / "out.csv"
    cells = "5.1,3.5,1.4,0.2"
    path.write_text(
        f'id,"a",b,c,d,note\n007,{cells},plain\n,{cells},"with, comma"\n1e3,{cells},"a ""b"""\n'
    )
    options = {"columns": ["a:d"], "keep": ["id", "note"]}
    kl.predict_files(classifier(names=False), path, out, **options)
    assert out.read_text().splitlines()[0] == "id,note,label"
    import csv

    with open(out, newline="") as file:
        found = list(csv.reader(file))[1:]
    assert found == [["007", "plain", "0"], ["", "with, comma", "0"], ["1e3", 'a "b"', "0"]]
    path.write_text(f"id,a,b,c,d,note\n007,{cells},plain\n")
    kl.predict_files(classifier(names=False), path, out, **options)
    assert out.read_text() == "id,note,label\n007,plain,0\n"  # no quotes without need
    kl.predict_files(classifier(names=False), path, tmp_path / "out.parquet", **options)
    assert read(tmp_path / "out.parquet")["id"].to_pylist() == [7]


def test_types_that_are_numbers_too(tmp_path) -> None:
    X = np.round(rows())
    kinds = [pa.int8(), pa.float32(), pa.decimal128(5, 1), pa.uint64()]
    columns = {name: pa.array(X[:, i]).cast(kinds[i]) for i, name in enumerate(NAMES)}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    kl.predict_files(classifier(), tmp_path / "a.parquet", tmp_path / "out.parquet")
    import pandas

    expected = classifier().predict(pandas.DataFrame(X, columns=NAMES))
    assert read(tmp_path / "out.parquet")["label"].to_pylist() == expected.tolist()


def test_no_rows_give_a_typed_file(tmp_path) -> None:
    for ending in ENDINGS:
        path = write(table(0, 0), tmp_path / f"a{ending}")
        out = tmp_path / "out.parquet"
        assert kl.predict_files(classifier(), path, out).rows == 0
        assert read(out).schema.equals(pa.schema([("label", pa.int64())]))


def test_small_batches_become_large_row_groups(tmp_path, monkeypatch) -> None:
    path = write(table(), tmp_path / "a.parquet", chunk=10)
    kl.predict_files(classifier(), path, tmp_path / "out.parquet")
    assert parquet.read_metadata(tmp_path / "out.parquet").num_row_groups == 1
    monkeypatch.setattr(writing, "GROUP_ROWS", 35)
    kl.predict_files(classifier(), path, tmp_path / "out.parquet")
    assert parquet.read_metadata(tmp_path / "out.parquet").num_row_groups == 4
    assert read(tmp_path / "out.parquet").num_rows == 150


def test_a_kept_column_does_not_hold_the_others(tmp_path) -> None:
    """Those of a record batch share one buffer, which row groups in the making would keep."""
    wide = pa.table({"id": np.arange(20_000), **{f"x{i}": np.zeros(20_000) for i in range(40)}})
    write(wide, tmp_path / "a.arrow", chunk=20_000)
    (source,) = list_sources(tmp_path / "a.arrow")
    schema = wide.select(["id"]).schema
    with (
        closing(open_file(source)) as file,
        open_sink(str(tmp_path / "out.parquet"), "parquet", schema) as sink,
    ):
        before = pa.total_allocated_bytes()
        for part in file.parts(wide.column_names):
            sink.write(part.batch.select(["id"]))
        del part
        assert pa.total_allocated_bytes() - before < 0.2 * wide.nbytes
    assert read(tmp_path / "out.parquet")["id"].to_pylist() == list(range(20_000))


def test_a_type_that_the_output_cannot_hold(tmp_path) -> None:
    lists = table(lists=[[1, 2]] * 150)
    path = write(lists, tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"column `lists` holds list<.*write Parquet or Arrow"):
        kl.predict_files(classifier(), path, tmp_path / "out.csv", keep=["lists"])
    assert not (tmp_path / "out.csv").exists()
    kl.predict_files(classifier(), path, tmp_path / "out.arrow", keep=["lists"])
    assert read(tmp_path / "out.arrow")["lists"][0].as_py() == [1, 2]


@pytest.mark.parametrize("source", [".parquet", ".arrow"])
@pytest.mark.parametrize("target", ENDINGS)
def test_categories_that_differ_between_batches(source, target, tmp_path) -> None:
    kinds = [
        pa.array([f"{i}, odd" if j % 2 else f"{i}" for j in range(part.num_rows)])
        for i, part in enumerate(table().to_batches(max_chunksize=40))
    ]
    batches = [
        pa.RecordBatch.from_arrays(
            [*part.columns, kind.dictionary_encode()], [*part.schema.names, "k"]
        )
        for part, kind in zip(table().to_batches(max_chunksize=40), kinds)
    ]
    path, out = tmp_path / f"a{source}", tmp_path / f"out{target}"
    if source == ".arrow":
        with pa.ipc.new_stream(str(path), batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    else:
        parquet.write_table(pa.Table.from_batches(batches), path, row_group_size=40)
    kl.predict_files(classifier(), path, out, keep=["k"])
    expected = [cell for kind in kinds for cell in kind.to_pylist()]
    assert [str(cell) for cell in read(out)["k"].to_pylist()] == expected


def test_the_bar(tmp_path, monkeypatch) -> None:
    """Rows of one file, else files and shares of them."""
    reached: list[tuple[float | None, float]] = []

    class Bar(files.Progress):
        def reach(self, done: float, total: float | None = None) -> None:
            reached.append((total, done))

    monkeypatch.setattr(files, "Progress", Bar)
    kl.predict_files(classifier(), write(table(), tmp_path / "a.parquet"), tmp_path / "out.csv")
    assert reached == [(150, 40), (150, 80), (150, 120), (150, 150)]
    reached.clear()
    kl.predict_files(classifier(), tmp_path / "out.csv", tmp_path / "b.csv", columns=["0"] * 4)
    assert reached == [(None, 150)]
    reached.clear()
    kl.predict_files(classifier(), folder_of(tmp_path), tmp_path / "out")
    assert reached[0] == (3, 40 / 50)
    assert [done for _, done in reached] == sorted(done for _, done in reached)
    assert reached[-1] == (3, 2)  # how long an Arrow file is, it does not say


# Folders --------------------------------------------------------------------------------------


def folder_of(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    write(table(0, 50), folder / "part-0.parquet")
    write(table(50, 100), folder / "part-1.csv")
    write(table(100, 150), folder / "part-2.feather")
    (folder / "_SUCCESS").write_bytes(b"")
    return folder


def test_a_folder_gives_a_folder(tmp_path) -> None:
    out = tmp_path / "new" / "out"
    done = kl.predict_files(classifier(), folder_of(tmp_path), out, keep=["id"])
    assert sorted(os.listdir(out)) == ["part-0.parquet", "part-1.csv", "part-2.feather"]
    found = pa.concat_tables([read(out / name) for name in sorted(os.listdir(out))])
    assert found["id"].to_pylist() == list(range(1000, 1150))
    assert found["label"].to_pylist() == classifier().predict(_frame()).tolist()
    assert (done.rows, len(done.files)) == (150, 3)
    done = kl.predict_files(
        classifier(), tmp_path / "in", tmp_path / "all", output_format="parquet"
    )
    assert {Path(file.destination).suffix for file in done.files} == {".parquet"}


def test_finished_files_are_not_lost(tmp_path) -> None:
    folder, out = folder_of(tmp_path), tmp_path / "out"
    (folder / "part-1.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError) as caught:
        kl.predict_files(classifier(), folder, out)
    said = str(caught.value)
    assert said.startswith("1 of 3 files failed, the other 2 are finished: ")
    assert f"{folder}/part-1.csv: there is no column `sepal length`" in said
    assert sorted(os.listdir(out)) == ["part-0.parquet", "part-2.feather"]
    assert read(out / "part-2.feather").num_rows == 50
    for name in ("part-0.parquet", "part-2.feather"):
        (folder / name).write_bytes(b"nothing")
    (out / "part-0.parquet").write_bytes(b"old")
    with pytest.raises(InputError, match="3 of 3 files failed, none is finished"):
        kl.predict_files(classifier(), folder, out)
    assert (out / "part-0.parquet").read_bytes() == b"old"


# Faults of the disk and of people --------------------------------------------------------------


class Full:
    """A file on a disk with room for some bytes."""

    def __init__(self, file, room: int) -> None:
        self._file, self._room = file, room

    def write(self, data) -> int:
        self._room -= len(memoryview(data).cast("B"))
        if self._room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._file.write(data)

    def __getattr__(self, name):
        return getattr(self._file, name)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("room", [0, 600])
def test_a_full_disk(ending, room, tmp_path, monkeypatch, recwarn) -> None:
    from contextlib import contextmanager

    @contextmanager
    def full(path, mode):
        with atomic_write(path, mode) as file:
            yield Full(file, room)

    monkeypatch.setattr(writing, "atomic_write", full)
    path = write(table(), tmp_path / "a.parquet")
    out = tmp_path / f"out{ending}"
    with pytest.raises(InputError, match="No space left"):
        kl.predict_files(classifier(), path, out, keep="all")
    assert os.listdir(tmp_path) == ["a.parquet"]
    assert not [str(warning.message) for warning in recwarn]


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_interrupt(ending, tmp_path, monkeypatch) -> None:
    """In the middle of a folder: what was finished stays, nothing of the rest is seen."""
    folder, out = folder_of(tmp_path), tmp_path / "out"
    calls = iter(range(100))

    def interrupted(self, rows, beyond=None):
        if next(calls) == 5:  # parquet takes three, csv one, and this is in the middle of arrow
            raise KeyboardInterrupt
        return answers(self, rows, beyond)

    answers = files.BatchScorer.answers
    monkeypatch.setattr(files.BatchScorer, "answers", interrupted)
    monkeypatch.setattr("kernelite.data.tables.columnar.binary.batch_rows", lambda n_columns: 20)
    with pytest.raises(KeyboardInterrupt):
        kl.predict_files(classifier(), folder, out)
    assert sorted(os.listdir(out)) == ["part-0.parquet", "part-1.csv"]
    monkeypatch.undo()
    single = write(table(), tmp_path / "a.parquet")
    target = tmp_path / f"single{ending}"
    target.write_bytes(b"old")
    calls = iter([0, 5])
    monkeypatch.setattr(files.BatchScorer, "answers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kl.predict_files(classifier(), single, target)
    assert target.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == sorted(["in", "out", single.name, target.name])


# The rest ---------------------------------------------------------------------------------------


def test_rows_for_compiling(tmp_path) -> None:
    folder = folder_of(tmp_path)
    np.testing.assert_array_equal(read_rows(classifier(), folder), rows())
    found = read_rows(regressor(), folder / "part-1.csv", Wanted(columns=["1:4"]))
    np.testing.assert_array_equal(found, rows()[50:100])
    with pytest.raises(FileFormatError, match="there are no rows"):
        read_rows(classifier(), write(table(0, 0), tmp_path / "none.parquet"))
    hole = table().set_column(1, NAMES[0], pa.array([None, *rows()[1:, 0]]))
    with pytest.raises(FileFormatError, match="row group 1 of 4, column `sepal length`, row 1"):
        read_rows(classifier(), write(hole, tmp_path / "hole.parquet"))


def test_results_can_be_pickled(tmp_path) -> None:
    path = write(table(), tmp_path / "a.parquet")
    done = kl.predict_files(classifier(), path, tmp_path / "out.csv")
    assert pickle.loads(pickle.dumps(done)) == done


def test_without_pyarrow(tmp_path) -> None:
    """One sentence that names the extra, and `import kernelite` does not mind."""
    path = write(table(), tmp_path / "a.parquet")
    classifier().save(tmp_path / "m.kernelite")
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import kernelite as kl\n"
        f"model = kl.load({str(tmp_path / 'm.kernelite')!r})\n"
        "try:\n"
        f"    kl.predict_files(model, {str(path)!r}, 'out.csv')\n"
        "except ImportError as error:\n"
        "    print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.endswith("need pyarrow: pip install pyarrow (the extra `arrow`).\n")
    assert run.stdout.count("\n") == 1
