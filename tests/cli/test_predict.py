"""`kernelite predict`: labels, values, probabilities, accuracy lines."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import tracemalloc
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.svm import SVC

import kernelite as kl
from kernelite.cli.answers import Accuracy
from kernelite.data.scoring.files import Request, run_jobs
from kernelite.data.scoring.jobs import list_jobs
from tests.data.tables.test_lines import PACKED


def lines_of(path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", ["svc", "svr", "one_class"])
@pytest.mark.parametrize("data", ["test.svm", "test.csv"])
def test_a_line_a_row(name, data, toys, compiled, good, tmp_path) -> None:
    out = tmp_path / "out"
    good("predict", toys.path(data), compiled / f"{name}.kernelite", out)
    expected = kl.load(compiled / f"{name}.kernelite").predict(toys.X_test)
    np.testing.assert_array_equal([float(line) for line in lines_of(out)], expected)


def test_the_accuracy_line(toys, compiled, good, tmp_path) -> None:
    ran = good("predict", toys.path("test.svm"), compiled / "svc.kernelite", tmp_path / "out")
    right = int((toys.svc.predict(toys.X_test) == toys.y_test).sum())
    assert ran.out == f"Accuracy = {100 * right / 75:g}% ({right}/75) (classification)\n"


def test_the_error_lines(toys, compiled, good, tmp_path) -> None:
    ran = good("predict", toys.path("test.svm"), compiled / "svr.kernelite", tmp_path / "out")
    values = np.loadtxt(tmp_path / "out")
    error = np.mean((values - toys.y_test) ** 2)
    correlation = np.corrcoef(values, toys.y_test)[0, 1] ** 2
    assert ran.out.splitlines() == [
        f"Mean squared error = {error:g} (regression)",
        f"Squared correlation coefficient = {correlation:g} (regression)",
    ]


def test_to_stdout(toys, compiled, good, tmp_path) -> None:
    ran = good("predict", toys.path("test.svm"), compiled / "svc.kernelite", "-")
    good("predict", toys.path("test.svm"), compiled / "svc.kernelite", tmp_path / "out")
    assert ran.out == (tmp_path / "out").read_text()
    assert "Accuracy = " in ran.err
    quiet = good("predict", "-q", toys.path("test.svm"), compiled / "svc.kernelite", "-")
    assert (quiet.out, quiet.err) == (ran.out, "")


def test_no_labels_no_accuracy(toys, compiled, good, tmp_path) -> None:
    np.save(tmp_path / "rows.npy", toys.X_test)
    ran = good("predict", tmp_path / "rows.npy", compiled / "svc.kernelite", tmp_path / "out")
    assert ran.out == ""
    assert len(lines_of(tmp_path / "out")) == 75


def test_chunks_do_not_show(toys, compiled, good, tmp_path) -> None:
    """More rows than one chunk holds."""
    text = toys.text("test.svm")
    with gzip.open(tmp_path / "long.svm.gz", "wt") as file:
        file.write(text * 120)
    once = good("predict", toys.path("test.svm"), compiled / "svc.kernelite", "-", "-q").out
    ran = good(
        "predict", tmp_path / "long.svm.gz", compiled / "svc.kernelite", tmp_path / "out", "--json"
    )
    assert (tmp_path / "out").read_text() == once * 120
    assert ran.json["rows"] == 9000
    assert ran.json["labelled"] == 9000
    assert sum(ran.json["decided_by"].values()) == 9000


def test_exact(toys, good, kernelite, tmp_path) -> None:
    out = tmp_path / "out"
    ran = good("predict", "--exact", toys.path("test.svm"), toys.path("svc.model"), out, "--json")
    np.testing.assert_array_equal(
        [int(line) for line in lines_of(out)], toys.svc.predict(toys.X_test)
    )
    assert ran.json["guarantee"] == "exact"
    refused = kernelite("predict", toys.path("test.svm"), toys.path("svc.model"), tmp_path / "no")
    assert refused.code == 1
    assert "--exact" in refused.err
    assert not (tmp_path / "no").exists()


def test_exact_of_a_pickle(toys, good, kernelite, tmp_path) -> None:
    path, out = tmp_path / "svc.joblib", tmp_path / "out"
    joblib.dump(toys.svc, path)
    for options in ([], ["--exact"], ["--allow-pickle"]):
        ran = kernelite("predict", toys.path("test.svm"), path, out, *options)
        assert ran.code == 1
        assert "--allow-pickle" in ran.err
    good("predict", toys.path("test.svm"), path, out, "--exact", "--allow-pickle")
    np.testing.assert_array_equal(np.loadtxt(out), toys.svc.predict(toys.X_test))


def test_probabilities(toys, compiled, good, tmp_path) -> None:
    out = tmp_path / "out"
    good("predict", "-b", "1", toys.path("test.svm"), compiled / "platt.kernelite", out)
    header, *rows = lines_of(out)
    assert header == "labels 0 1 2"
    table = np.array([[float(cell) for cell in row.split(" ")] for row in rows])
    expected = kl.load(compiled / "platt.kernelite").predict_proba(toys.X_test)
    np.testing.assert_allclose(table[:, 1:], expected, rtol=1e-5)
    np.testing.assert_array_equal(table[:, 0], expected.argmax(axis=1))


def test_probabilities_of_a_regressor_and_of_a_detector(toys, good, tmp_path) -> None:
    out = tmp_path / "out"
    model = tmp_path / "svr.model"
    model.write_text(toys.text("svr.model").replace("SV\n", "probA 0.25\nSV\n", 1))
    ran = good("predict", "-b", "1", "--exact", toys.path("test.svm"), model, out)
    assert ran.out.splitlines()[:2] == [
        "Prob. model for test data: target value = predicted value + z,",
        "z: Laplace distribution e^(-|z|/sigma)/(2sigma),sigma=0.25",
    ]
    assert len(lines_of(out)) == 75
    marks = " ".join(str(mark) for mark in np.linspace(-1, 1, 10))
    model = tmp_path / "one.model"
    model.write_text(
        toys.text("one_class.model").replace("SV\n", f"prob_density_marks {marks}\nSV\n", 1)
    )
    good("predict", "-b", "1", "--exact", toys.path("test.svm"), model, out)
    assert lines_of(out)[0] == "labels normal outlier"
    assert len(lines_of(out)[1].split()) == 3


def test_probabilities_that_are_not_there(toys, compiled, kernelite, tmp_path) -> None:
    for name in ("svc", "svr", "one_class"):
        model = compiled / f"{name}.kernelite"
        ran = kernelite("predict", "-b", "1", toys.path("test.svm"), model, tmp_path / "out")
        assert (ran.code, "trained without them" in ran.err) == (1, True)
    assert not (tmp_path / "out").exists()


def test_rows_outside_the_bound_are_one_line(toys, good, tmp_path) -> None:
    model = tmp_path / "m.kernelite"
    good("compile", toys.path("svc.model"), "-o", model, "--guarantee", "none")
    far = tmp_path / "far.svm"
    far.write_text(toys.text("test.svm") * 60 + "0 1:1e3\n" * 3)
    ran = good("predict", far, model, tmp_path / "out")
    assert ran.err.count("outside the validity bound") == 1
    assert ran.err.startswith("warning: 3 of 4,503 rows (0.07%) lie outside")
    assert good("predict", far, model, tmp_path / "out", "--json").json["outside_validity"] == 3


def test_certified_says_how_rows_were_decided(toys, compiled, good, tmp_path) -> None:
    ran = good("predict", toys.path("test.svm"), compiled / "svc.kernelite", tmp_path / "out")
    assert kl.load(compiled / "svc.kernelite").guarantee == "certified"
    assert ran.err.startswith("75 rows decided: ")
    (tmp_path / "one.svm").write_text(toys.text("test.svm").splitlines()[0])
    ran = good("predict", tmp_path / "one.svm", compiled / "svc.kernelite", tmp_path / "out")
    assert ran.err.startswith("1 row decided: 1 ")


def test_features_beyond_the_width(toys, good, kernelite, tmp_path) -> None:
    """In LIBSVM they meet zeros and count in the distance; scikit-learn's width is fixed."""
    wide = tmp_path / "wide.svm"
    wide.write_text("0 1:5 2:3 3:1.5 4:0.2 9:2\n0 1:5 2:3 3:1.5 4:0.2\n")
    good("predict", "--exact", wide, toys.path("svr.model"), tmp_path / "out")
    first, second = (float(line) for line in lines_of(tmp_path / "out"))
    b = toys.svr.intercept_[0]
    assert first == pytest.approx(b + np.exp(-0.02 * 4) * (second - b), rel=1e-12)
    joblib.dump(toys.svr, tmp_path / "svr.joblib")
    ran = kernelite(
        "predict", "--exact", "--allow-pickle", wide, tmp_path / "svr.joblib", tmp_path / "no"
    )
    assert ran.code == 1
    assert "row 1 of" in ran.err
    assert not (tmp_path / "no").exists()


def test_named_labels_and_columns(toys, good, kernelite, tmp_path) -> None:
    pandas = pytest.importorskip("pandas")
    from sklearn.svm import SVC

    frame = pandas.DataFrame(toys.X, columns=list("abcd"))
    names = np.array(["setosa", "versicolor", "virginica"])
    joblib.dump(SVC(gamma=0.02, C=10).fit(frame, names[toys.y]), tmp_path / "named.joblib")
    model = tmp_path / "m.kernelite"
    good("compile", tmp_path / "named.joblib", "-o", model, "--allow-pickle")
    table = pandas.DataFrame(toys.X_test, columns=list("abcd"))
    table["class"] = names[toys.y_test]
    table.to_csv(tmp_path / "named.csv", index=False)
    ran = good("predict", tmp_path / "named.csv", model, tmp_path / "out")
    assert set(lines_of(tmp_path / "out")) == set(names)
    assert "(75) (classification)" in ran.out.replace("/75", "(75").replace("((", "(")
    table[[*"bacd", "class"]].to_csv(tmp_path / "swapped.csv", index=False)
    good("predict", tmp_path / "swapped.csv", model, tmp_path / "again")  # found by name
    assert lines_of(tmp_path / "again") == lines_of(tmp_path / "out")
    table[[*"bcd", "class"]].to_csv(tmp_path / "fewer.csv", index=False)
    ran = kernelite("predict", tmp_path / "fewer.csv", model, tmp_path / "no")
    assert (ran.code, "there is no column `a`" in ran.err) == (1, True)


def test_swapped_arguments_are_recognised(toys, compiled, kernelite, tmp_path) -> None:
    out = tmp_path / "out"
    for model in (compiled / "svc.kernelite", toys.path("svc.model")):
        ran = kernelite("predict", model, toys.path("test.svm"), out)
        assert ran.code == 1
        assert ran.err.endswith("is not: the data come first, then the model.\n")
        assert ran.err.count("\n") == 1
    assert not out.exists()


def test_the_model_and_the_data_are_opened_once(
    toys, compiled, good, tmp_path, monkeypatch
) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    model, rows = compiled / "svc.kernelite", tmp_path / "rows.parquet"
    parquet.write_table(pa.table(dict(zip("abcd", toys.X_test.T))), rows, row_group_size=20)
    opened: list[str] = []
    # Whatever opens a file, be it Python or pyarrow, has a new entry here afterwards.
    own, theirs = open, pa.OSFile

    def seen(path, *arguments, **options):
        opened.append(str(path))
        return own(path, *arguments, **options)

    def seen_by_arrow(path, *arguments, **options):
        opened.append(str(path))
        return theirs(path, *arguments, **options)

    monkeypatch.setattr("builtins.open", seen)
    monkeypatch.setattr(pa, "OSFile", seen_by_arrow)
    good("predict", rows, model, tmp_path / "out.parquet")
    good("predict", toys.path("test.csv"), model, tmp_path / "out.txt")
    assert opened.count(str(model)) == 2
    assert opened.count(str(rows)) == 1
    assert opened.count(toys.path("test.csv")) == 1


def test_labels_that_are_none_of_the_models(toys, compiled, good, tmp_path) -> None:
    strange = tmp_path / "strange.svm"
    strange.write_text("".join(f"7{line[1:]}\n" for line in toys.text("test.svm").splitlines()))
    ran = good("predict", strange, compiled / "svc.kernelite", tmp_path / "out")
    assert "warning: no label in the data is one of the model's (0, 1, 2)" in ran.err
    assert "the first one is 7" in ran.err
    assert ran.out.startswith("Accuracy = 0%")
    (tmp_path / "some.svm").write_text(strange.read_text() + "0 1:1\n")
    ran = good("predict", tmp_path / "some.svm", compiled / "svc.kernelite", tmp_path / "out")
    assert "warning" not in ran.err


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
@pytest.mark.parametrize("name", ["test.svm", "test.csv"])
def test_compressed_data(ending, name, toys, compiled, good, tmp_path) -> None:
    if ending == ".zst":
        pytest.importorskip("pyarrow")
    packed = tmp_path / f"{name}{ending}"
    packed.write_bytes(PACKED[ending](toys.text(name).encode()))
    good("predict", packed, compiled / "svc.kernelite", tmp_path / "out")
    expected = toys.svc.predict(toys.X_test)
    np.testing.assert_array_equal([float(line) for line in lines_of(tmp_path / "out")], expected)


def test_empty_data(compiled, kernelite, tmp_path) -> None:
    (tmp_path / "empty.svm").write_text("# nothing\n\n")
    ran = kernelite("predict", tmp_path / "empty.svm", compiled / "svc.kernelite", tmp_path / "out")
    assert ran.code in (0, 1)
    assert (tmp_path / "out").exists() == (ran.code == 0)


def test_input_is_never_written(toys, compiled, kernelite, tmp_path) -> None:
    data = tmp_path / "data.svm"
    data.write_text(toys.text("test.svm"))
    link = tmp_path / "link"
    link.symlink_to(data)
    for output in (data, link):
        ran = kernelite("predict", data, compiled / "svc.kernelite", output)
        assert (ran.code, "cannot be written" in ran.err) == (1, True)
    assert data.read_text() == toys.text("test.svm")


@pytest.mark.skipif(shutil.which("svm-predict") is None, reason="svm-predict is not installed")
@pytest.mark.parametrize(("name", "b"), [("svc", 0), ("binary", 0), ("svr", 0), ("platt", 1)])
def test_svm_predicts_own_bytes(name, b, toys, good, tmp_path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    files = toys.path("test.svm"), toys.path(f"{name}.model")
    ran = good("predict", "--exact", "-b", b, *files, ours)
    run = subprocess.run(
        ["svm-predict", "-b", str(b), *files, str(theirs)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.out == run.stdout
    if name == "svr":  # the last digit is rounding's
        np.testing.assert_allclose(np.loadtxt(ours), np.loadtxt(theirs), atol=1e-12)
    else:
        assert ours.read_text() == theirs.read_text()


@pytest.mark.parametrize("format", ["csv", "delimited", "arrow"])
def test_one_long_label_makes_not_all_of_them_long(format: str, tmp_path: Path) -> None:
    labels = ["x" * 100_000, *["yes", "no"] * 1000]
    data = tmp_path / ("a.arrow" if format == "arrow" else "a.csv")
    if format == "arrow":
        pyarrow = pytest.importorskip("pyarrow")
        rows = pyarrow.table({"a": np.zeros(2001), "y": labels})
        with pyarrow.ipc.new_file(data, rows.schema) as sink:
            sink.write_table(rows)
    else:
        data.write_text("a,y\n" + "".join(f"0,{label}\n" for label in labels))
    model = kl.compile(SVC().fit([[0.0], [1.0]], ["maybe", "never"]), guarantee="exact")
    model.predict(np.zeros((2001, 1)))
    seen: list[Any] = []
    tracemalloc.start()
    try:
        jobs = list_jobs(data, tmp_path / "out.txt", format=format, output="lines")
        metric = Accuracy(classes=model.classes_)

        def watch(truth: Any, predicted: Any) -> None:
            seen.extend(truth.tolist())
            metric.add(truth, predicted)

        run_jobs(model, jobs, Request(label_column="y"), watch)
        assert tracemalloc.get_traced_memory()[1] < 2**25  # 800 MB, of fixed width
    finally:
        tracemalloc.stop()
    assert seen == labels
    (note,) = metric.notes()
    assert f"the first one is {'x' * 40}..., so no prediction can be right" in note
