"""`kernelite predict` and `compile --sample` on Parquet, Arrow and CSV."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

import kernelite as kl
from tests.cli.test_subprocess import COMMAND, ENVIRONMENT, run
from tests.helpers import PATIENCE

NAMES = list("abcd")


@pytest.fixture
def table(toys) -> pa.Table:
    columns = {name: toys.X_test[:, i] for i, name in enumerate(NAMES)}
    return pa.table({"id": np.arange(75), **columns, "target": toys.y_test})


@pytest.fixture
def data(table, tmp_path):
    """A Parquet file in an own folder."""
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "rows.parquet"
    parquet.write_table(table, path, row_group_size=20)
    return path


def test_labels_beside_an_id(data, toys, compiled, good, tmp_path) -> None:
    out = tmp_path / "out.parquet"
    ran = good("predict", data, compiled / "svc.kernelite", out, "--id", "id")
    found = parquet.read_table(out)
    assert found.column_names == ["id", "label"]
    assert found["id"].to_pylist() == list(range(75))
    expected = toys.svc.predict(toys.X_test)
    np.testing.assert_array_equal(found["label"].to_numpy(), expected)
    right = int((expected == toys.y_test).sum())
    assert ran.out == f"Accuracy = {100 * right / 75:g}% ({right}/75) (classification)\n"
    assert ran.err.startswith("75 rows decided: ")


def test_the_same_labels_as_from_libsvm_text(data, toys, compiled, good, tmp_path) -> None:
    for name in ("svc", "svr", "one_class", "binary"):
        model, out = compiled / f"{name}.kernelite", tmp_path / "out.csv"
        plain = good("predict", toys.path("test.svm"), model, "-", "-q").out.split()
        good("predict", data, model, out, "--columns", "a:d")
        (header, *lines) = out.read_text().split()
        assert header == ("prediction" if name == "svr" else "label")
        assert [float(line) for line in lines] == [float(line) for line in plain]


def test_appended_columns(data, compiled, good, tmp_path) -> None:
    out = tmp_path / "out.feather"
    good(
        *("predict", "-b", "1", data, compiled / "platt.kernelite", out, "--keep-all"),
        *("--columns", "a:d", "--scores", "--decided", "--prefix", "svm_"),
    )
    found = feather.read_table(out)
    assert found.column_names == [
        *("id", *NAMES, "target", "svm_label"),
        *(f"svm_probability_{i}" for i in range(3)),
        *(f"svm_score_{pair}" for pair in ("0_vs_1", "0_vs_2", "1_vs_2")),  # LIBSVM's
        "svm_decided",
    ]
    chances = np.column_stack([found[f"svm_probability_{i}"].to_numpy() for i in range(3)])
    np.testing.assert_array_equal(found["svm_label"].to_numpy(), chances.argmax(axis=1))


def test_probabilities_that_are_not_there(data, compiled, kernelite, tmp_path) -> None:
    out = tmp_path / "out.csv"
    ran = kernelite("predict", "-b", "1", data, compiled / "svc.kernelite", out)
    assert (ran.code, "trained without them" in ran.err) == (1, True)
    ran = kernelite("predict", data, compiled / "svr.kernelite", out, "--decided")
    assert (ran.code, "has no output 'decided'" in ran.err) == (1, True)
    assert not out.exists()


def test_json(data, compiled, good, tmp_path) -> None:
    out = tmp_path / "out.parquet"
    summary = good("predict", data, compiled / "svc.kernelite", out, "--id", "id", "--json").json
    assert summary["files"] == [{"source": str(data), "destination": str(out), "rows": 75}]
    assert summary["rows"] == summary["labelled"] == sum(summary["decided_by"].values()) == 75
    assert summary["output"] == str(out)


def test_to_stdout_as_csv(data, compiled, good) -> None:
    command = [*COMMAND, "predict", "-q", str(data), str(compiled / "svc.kernelite"), "-"]
    ran = subprocess.run(
        [*command, "--id", "id"], capture_output=True, text=True, env=ENVIRONMENT, timeout=PATIENCE
    )
    assert ran.stderr == ""
    assert ran.stdout.splitlines()[:2] == ["id,label", "0,0"]
    assert len(ran.stdout.splitlines()) == 76


def test_a_folder(data, table, compiled, kernelite, good, tmp_path) -> None:
    csv.write_csv(table, data.parent / "more.csv")
    model, out = compiled / "svc.kernelite", tmp_path / "out"
    options = ("--id", "id", "--output-format", "parquet")
    summary = good("predict", data.parent, model, out, *options, "--json").json
    assert [file["rows"] for file in summary["files"]] == [75, 75]
    assert summary["labelled"] == 150
    assert sorted(os.listdir(out)) == ["more.parquet", "rows.parquet"]
    (data.parent / "bad.parquet").write_bytes(b"PAR1")
    ran = kernelite("predict", data.parent, model, tmp_path / "again", *options)
    assert ran.code == 1
    assert ran.err.startswith("kernelite: error: 1 of 3 files failed, the other 2 are finished: ")
    assert ran.err.count("\n") == 1
    assert sorted(os.listdir(tmp_path / "again")) == ["more.parquet", "rows.parquet"]


def test_csv_is_read_alike_whatever_the_output(toys, compiled, good, tmp_path) -> None:
    """Columns that are no numbers, quotes and holes in labels, to lines and to columns."""
    model = compiled / "svc.kernelite"
    header, *rows = toys.text("test.csv").splitlines()
    wide = [f"name,{header}", *(f'"row, {i}",{row}' for i, row in enumerate(rows))]
    (tmp_path / "wide.csv").write_text("\n".join(wide) + "\n")
    found = []
    for data in (toys.path("test.csv"), tmp_path / "wide.csv"):
        lines = good("predict", data, model, tmp_path / "out.txt")
        columns = good("predict", data, model, tmp_path / "out.csv")
        assert (tmp_path / "out.csv").read_text() == "label\n" + (tmp_path / "out.txt").read_text()
        assert lines.out == columns.out
        assert lines.out.startswith("Accuracy = ")
        found.append((tmp_path / "out.txt").read_text())
    assert found[0] == found[1]
    good("predict", toys.path("test.csv"), model, tmp_path / "t", "--data-format", "csv",
         "--output-format", "csv", "--keep-all")  # fmt: skip
    assert (tmp_path / "t").read_text().startswith("a,b,c,d,target,label\n")
    good("predict", toys.path("test.csv"), model, tmp_path / "t", "--data-format", "delimited")
    assert (tmp_path / "t").read_text() == found[0]


def test_a_mistake_in_csv_is_said_alike_whatever_the_output(
    toys, compiled, kernelite, tmp_path
) -> None:
    data = tmp_path / "rows.csv"
    data.write_text(toys.text("test.csv").replace("\n5", "\n?", 1))
    said = {
        kernelite("predict", data, compiled / "svc.kernelite", tmp_path / name).err
        for name in ("out.txt", "out.csv", "out.parquet", "-")
    }
    assert len(said) == 1
    assert said.pop().startswith(f"kernelite: error: {data}: ")
    assert os.listdir(tmp_path) == ["rows.csv"]


def test_csv_without_pyarrow(toys, compiled, tmp_path) -> None:
    """A table of numbers is read without it, to the same lines."""
    code = "import sys; sys.modules['pyarrow'] = None; from kernelite.cli import main; exit(main())"
    command = [sys.executable, "-c", code, "predict", "-q", toys.path("test.csv")]
    ran = subprocess.run(
        [*command, compiled / "svc.kernelite", "-"], capture_output=True, text=True, env=ENVIRONMENT
    )
    assert ran.returncode == 0, ran.stderr
    assert [int(line) for line in ran.stdout.split()] == toys.svc.predict(toys.X_test).tolist()


def test_without_pyarrow_an_id_names_the_cure(compiled, tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("id,a,b,c,d\nu7,1,2,3,4\n")
    code = "import sys; sys.modules['pyarrow'] = None; from kernelite.cli import main; exit(main())"
    command = [sys.executable, "-c", code, "predict", "rows.csv", compiled / "svc.kernelite", "-"]
    ran = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, cwd=tmp_path)
    assert ran.returncode == 1
    assert "`u7` is not a decimal number; beside columns of text" in ran.stderr
    assert "(pip install pyarrow)" in ran.stderr


def test_several_ids(data, compiled, good, tmp_path) -> None:
    for number, options in enumerate((["--id", "id,a"], ["--id", "id", "--id", "a"])):
        out = tmp_path / f"{number}.parquet"
        good("predict", data, compiled / "svc.kernelite", out, "--columns", "a:d", *options)
        assert parquet.read_table(out).column_names == ["id", "a", "label"]


def test_bad_rows_are_skipped_if_asked(compiled, good, kernelite, tmp_path) -> None:
    data, out = tmp_path / "rows.csv", tmp_path / "labels.txt"
    data.write_text("a,b,c,d\n1,2,3,4\n1,2,x,4\n4,3,2,1\n")
    assert kernelite("predict", data, compiled / "svc.kernelite", out).code == 1
    ran = good("predict", data, compiled / "svc.kernelite", out, "--on-bad-row", "skip")
    assert len(out.read_text().split()) == 2
    assert f"1 of 3 rows were skipped; {out}.skipped.csv says why" in ran.err
    lines = (tmp_path / "labels.txt.skipped.csv").read_text().splitlines()
    assert lines == ["file,line,row,problem", f"{data},,2,column `c`: `x` is not a number"]
    summary = good(
        *("predict", data, compiled / "svc.kernelite", out, "--json"),
        *("--on-bad-row", "skip", "--skipped", tmp_path / "why.csv"),
    ).json
    assert summary["skipped"] == {"rows": 1, "file": str(tmp_path / "why.csv")}
    for options, said in (
        ([out, "--skipped", "a.csv"], "only with --on-bad-row skip"),
        (["-", "--on-bad-row", "skip"], "name a file by --skipped"),
        ([out, "--on-bad-row", "skip", "--engine", "dask"], "skip is for --engine local"),
    ):
        ran = kernelite("predict", data, compiled / "svc.kernelite", *options)
        assert ran.code == 2
        assert said in " ".join(ran.err.split())


def test_wrong_usage(toys, data, compiled, kernelite, tmp_path) -> None:
    model, out = compiled / "svc.kernelite", tmp_path / "out.csv"
    for arguments, said in (
        ([toys.path("test.svm"), model, out, "--id", "x"], "argument --id: DATA must be Parquet"),
        ([toys.path("test.svm"), model, out, "--keep-all"], "argument --keep-all: DATA must"),
        ([data, model, out, "--keep-all", "--id", "x"], "not allowed with argument"),
        ([data, model, out, "--columns", ",a"], "should be names such as `a,b,c`"),
        ([data, model, "-", "--json"], "argument --json"),
    ):
        ran = kernelite("predict", *arguments)
        assert ran.code == 2
        assert said in " ".join(ran.err.split())
    assert not out.exists()


def test_bad_input_is_one_sentence(data, table, compiled, kernelite, tmp_path) -> None:
    model, out = compiled / "svc.kernelite", tmp_path / "out.parquet"
    hole = table.set_column(2, "b", pa.array([*table["b"].to_pylist()[:-1], None]))
    words = table.set_column(2, "b", pa.array(["?"] * 75))
    no_numbers = pa.table({"word": ["?"] * 75})
    for content, options, said in (
        (
            table,
            [],
            "5 numeric columns (`id`, `a`, `b`, `c`, `d`); name those to take (`columns=`",
        ),
        (no_numbers, [], "there are 0 numeric columns; name those to take (`columns=`"),
        (table, ["--columns", "a:e"], "names 1 columns"),
        (table, ["--columns", "a,b,c,e"], "there is no column `e`"),
        (table, ["--id", "key"], "there is no column `key` to keep"),
        (table, ["--label-column", "truth"], "there is no column `truth` with labels"),
        (hole, ["--id", "id"], "row group 4 of 4, column `b`, row 75: the value is missing"),
        (words, ["--columns", "a:d"], "column `b` is of type string, not numeric"),
    ):
        parquet.write_table(content, data, row_group_size=20)
        ran = kernelite("predict", data, model, out, *options)
        assert ran.code == 1
        assert ran.err.startswith(f"kernelite: error: {data}: ")
        assert ran.err.count("\n") == 1
        assert said in ran.err
        assert ran.out == ""
    assert os.listdir(tmp_path) == ["in"]


def test_every_data_format_gives_columns_too(toys, compiled, good, kernelite, tmp_path) -> None:
    model = compiled / "svc.kernelite"
    np.save(tmp_path / "rows.npy", toys.X_test)
    expected = toys.svc.predict(toys.X_test).tolist()
    for data in (toys.path("test.svm"), tmp_path / "rows.npy"):
        good("predict", data, model, tmp_path / "out.parquet", "--decided", "--scores")
        found = parquet.read_table(tmp_path / "out.parquet")
        assert found.column_names[0] == "label"
        assert found["label"].to_pylist() == expected
        assert all(found["decided"].to_pylist())
        good("predict", data, model, tmp_path / "out.csv", "--prefix", "svm_")
        assert (tmp_path / "out.csv").read_text().startswith("svm_label\n")
    ran = kernelite("predict", toys.path("test.svm"), model, tmp_path / "no", "--scores")
    assert (ran.code, "does not tell the format to write" in ran.err) == (1, True)
    assert not (tmp_path / "no").exists()


def test_a_folder_that_stays_empty_is_removed(data, compiled, kernelite, tmp_path) -> None:
    (data.parent / "more.parquet").write_bytes(data.read_bytes())
    ran = kernelite(
        "predict", data.parent, compiled / "svc.kernelite", tmp_path / "out", "--id", "k"
    )
    assert ran.code == 1
    assert "2 of 2 files failed, none is finished: " in ran.err
    assert not (tmp_path / "out").exists()


def test_inputs_are_not_written_over(data, compiled, kernelite) -> None:
    before = data.read_bytes()
    ran = kernelite("predict", data, compiled / "svc.kernelite", data)
    assert (ran.code, "cannot be written" in ran.err) == (1, True)
    assert data.read_bytes() == before


def test_a_sample_for_compiling(data, table, toys, good, kernelite, tmp_path) -> None:
    csv.write_csv(table, tmp_path / "rows.csv")
    feather.write_feather(table, tmp_path / "rows.feather")
    points = []
    for sample in (data, data.parent, tmp_path / "rows.csv", tmp_path / "rows.feather"):
        out = tmp_path / "m.kernelite"
        options = ("--sample", sample, "--columns", "a:d", "--guarantee", "none")
        good("compile", toys.path("svc.model"), "-o", out, *options)
        points.append(kl.load(out).form.point)
    for point in points:
        np.testing.assert_allclose(point, toys.X_test.mean(axis=0), rtol=1e-12)
    model = toys.path("svc.model")
    ran = kernelite("compile", model, "-o", tmp_path / "no", "--columns", "a:d")
    assert (ran.code, "there is no --sample" in ran.err) == (2, True)
    ran = kernelite(
        "compile", model, "-o", tmp_path / "no", "--sample", toys.path("test.svm"), "--columns", "a"
    )
    assert (ran.code, "test.svm` must be Parquet" in ran.err) == (2, True)
    ran = kernelite("compile", model, "-o", tmp_path / "no", "--sample", data)
    assert (ran.code, "name those to take (`columns=`" in ran.err) == (1, True)
    assert not (tmp_path / "no").exists()


def test_without_pyarrow(data, compiled, tmp_path) -> None:
    code = "import sys; sys.modules['pyarrow'] = None; from kernelite.cli import main; exit(main())"
    ran = subprocess.run(
        [sys.executable, "-c", code, "predict", data, compiled / "svc.kernelite", "out.parquet"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        cwd=tmp_path,
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("kernelite: error: ")
    assert ran.stderr.endswith("pip install pyarrow (the extra `arrow`).\n")
    assert ran.stderr.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("format", ["parquet", "arrow", "csv"])
def test_a_full_disk(format, data, compiled) -> None:
    ran = run(
        *("predict", data, compiled / "svc.kernelite", "/dev/full", "--id", "id"),
        *("--output-format", format),
    )
    assert ran.returncode == 1
    assert ran.stderr == "kernelite: error: No space left on device\n"


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_an_interrupt_leaves_nothing_behind(ending, table, compiled, tmp_path) -> None:
    """Sent when the temporary file is there, so in the middle of the work."""
    long = pa.concat_tables([table.select(NAMES)] * 8000)
    source, out = tmp_path / "long.parquet", tmp_path / f"out{ending}"
    parquet.write_table(long, source, row_group_size=50_000)
    out.write_text("old\n")
    process = subprocess.Popen(
        [*COMMAND, "predict", source, compiled / "svc.kernelite", out, "--keep-all"],
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    while process.poll() is None and not list(tmp_path.glob(".out*.tmp")):
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE) == 130
    assert process.stderr.read() == b"kernelite: interrupted\n"
    process.stderr.close()
    assert {path.name for path in tmp_path.iterdir()} == {source.name, out.name}
    assert out.read_text() == "old\n"
