"""Bad files through the command line: one sentence, exit code 1, nothing left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.tables.test_data_bad import TEXT, Bad
from tests.sources.test_libsvm_bad_input import CASES, Case

OLD = "what was there before\n"

# The 100 MB lines are tried on the readers themselves, which the commands call.
MODELS = {name: case for name, case in CASES.items() if case.size == 0}
DATA = {bad.name: bad for bad in TEXT if not bad.options}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An own folder, in which only `bad` and an old output may be found afterwards."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "old").write_text(OLD)
    return folder


def assert_refused(ran, folder: Path, bad: Path, content: bytes) -> None:
    assert ran.code == 1
    assert ran.out == ""
    assert ran.err.startswith("kernelite: error: ")
    assert ran.err.count("\n") == 1, "one sentence"
    assert str(bad) in ran.err
    assert {path.name for path in folder.iterdir()} == {bad.name, "old"}
    assert bad.read_bytes() == content
    assert (folder / "old").read_text() == OLD


@pytest.mark.parametrize("name", MODELS)
def test_bad_models(name, toys, kernelite, folder) -> None:
    case: Case = MODELS[name]
    bad = case.write(folder / "bad.model")
    for arguments in (
        ["compile", bad, "-o", folder / "new"],
        ["compile", bad, "-o", folder / "old"],
        ["predict", "--exact", toys.path("test.svm"), bad, folder / "new"],
        ["predict", toys.path("test.svm"), bad, folder / "old"],
        ["inspect", bad],
    ):
        assert_refused(kernelite(*arguments), folder, bad, case.content)
    ran = kernelite("check", bad, "--as", "model")
    assert ran.code == 1
    assert ran.out.count("\n") >= 2
    assert ran.err == ""


@pytest.mark.parametrize("name", DATA)
def test_bad_data(name, toys, compiled, kernelite, folder) -> None:
    case: Bad = DATA[name]
    bad = folder / case.name
    bad.write_bytes(case.content)
    model = compiled / "svc.kernelite"
    for arguments in (
        ["predict", bad, model, folder / "new"],
        ["predict", bad, model, folder / "old"],
        ["compile", toys.path("svc.model"), "-o", folder / "new", "--sample", bad],
        ["analyse", bad],
        ["xval", bad, "--gamma", "1"],
    ):
        assert_refused(kernelite(*arguments), folder, bad, case.content)
    ran = kernelite("check", bad, "--as", "data")
    assert ran.code == 1
    assert ran.err == ""


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"junk",
        b"\x10\0\0\0\0\0\0\0{" + b" " * 14 + b"}",
        b"\xff\xff\xff\xff\xff\xff\xff\x7f{}",
        b"\x02\0\0\0\0\0\0\0{}",
        b"approximated SVM classifier\nlabels 1",
    ],
)
def test_bad_compiled_models(content, toys, kernelite, folder) -> None:
    bad = folder / "bad.kernelite"
    bad.write_bytes(content)
    for arguments in (
        ["predict", toys.path("test.svm"), bad, folder / "new"],
        ["inspect", bad],
        ["compile", bad, "-o", folder / "new"],
    ):
        assert_refused(kernelite(*arguments), folder, bad, content)
    assert kernelite("check", bad).code == 1


def test_a_cut_compiled_model_at_every_length(toys, compiled, kernelite, folder) -> None:
    content = (compiled / "binary.kernelite").read_bytes()
    bad = folder / "bad.kernelite"
    for cut in range(0, len(content), max(1, len(content) // 40)):
        bad.write_bytes(content[:cut])
        ran = kernelite("predict", toys.path("test.svm"), bad, folder / "new")
        assert_refused(ran, folder, bad, content[:cut])


def test_files_that_are_not_there(toys, compiled, kernelite, folder) -> None:
    bad = folder / "absent"
    model, data = compiled / "svc.kernelite", toys.path("test.svm")
    for arguments in (
        ["predict", bad, model, folder / "new"],
        ["predict", data, bad, folder / "new"],
        ["predict", "--exact", data, bad, folder / "new"],
        ["compile", bad, "-o", folder / "new"],
        ["compile", toys.path("svc.model"), "-o", folder / "new", "--sample", bad],
        ["analyse", bad],
        ["xval", bad],
        ["inspect", bad],
        ["check", bad],
    ):
        ran = kernelite(*arguments)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err == f"kernelite: error: {bad}: there is no such file\n"
        assert [path.name for path in folder.iterdir()] == ["old"]


def test_folders_where_files_are_meant(toys, compiled, kernelite, folder) -> None:
    model, data = compiled / "svc.kernelite", toys.path("test.svm")
    for arguments in (
        ["predict", folder, model, folder / "new"],
        ["predict", data, folder, folder / "new"],
        ["predict", data, model, folder],
        ["compile", folder, "-o", folder / "new"],
        ["compile", toys.path("svc.model"), "-o", folder],
        ["analyse", folder],
        ["inspect", folder],
        ["check", folder],
    ):
        ran = kernelite(*arguments)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.count("\n") == 1
        assert str(folder) in ran.err
        assert [path.name for path in folder.iterdir()] == ["old"]


def test_an_output_folder_that_is_not_there(toys, compiled, kernelite, tmp_path) -> None:
    out = tmp_path / "no" / "out"
    for arguments in (
        ["predict", toys.path("test.svm"), compiled / "svc.kernelite", out],
        ["compile", toys.path("svc.model"), "-o", out, "--guarantee", "none"],
    ):
        ran = kernelite(*arguments)
        assert (ran.code, ran.out) == (1, "")
        assert "there is no folder" in ran.err
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("width", [3, 5])
def test_dense_rows_of_another_width(width, compiled, toys, kernelite, folder) -> None:
    bad = folder / "bad.csv"
    bad.write_text(",".join(["1"] * width) + "\n")
    ran = kernelite("predict", bad, compiled / "svc.kernelite", folder / "new")
    assert_refused(ran, folder, bad, bad.read_bytes())
    ran = kernelite("compile", toys.path("svc.model"), "-o", folder / "new", "--sample", bad)
    assert_refused(ran, folder, bad, bad.read_bytes())


def test_a_bad_last_line_undoes_the_lines_before_it(toys, compiled, kernelite, folder) -> None:
    """More rows than a chunk, so that much has been written when the defect comes."""
    bad = folder / "bad.svm"
    bad.write_text(toys.text("test.svm") * 70 + "0 1:x\n")
    ran = kernelite("predict", bad, compiled / "svc.kernelite", folder / "old")
    assert_refused(ran, folder, bad, bad.read_bytes())
    assert "bad.svm:5251: " in ran.err


def test_mistakes_are_named_with_their_cure(kernelite, toys, tmp_path) -> None:
    ran = kernelite("compile", toys.path("train.svm"), "-o", tmp_path / "m")
    assert (ran.code, "looks like LIBSVM data, not like a model" in ran.err) == (1, True)
    (tmp_path / "svc.joblib").write_bytes(b"\x80\x04")
    ran = kernelite("inspect", tmp_path / "svc.joblib")
    assert (ran.code, "`kernelite compile --allow-pickle`" in ran.err) == (1, True)
    ran = kernelite("predict", "--bogus", "a", "b", "c")
    assert (ran.code, "See `kernelite predict --help`." in ran.err) == (2, True)


@pytest.mark.parametrize("mark", ["", ",,", "\n", '"', "5"])
def test_what_cannot_stand_between_cells(mark, toys, compiled, kernelite, folder) -> None:
    table, model = folder / "table.csv", compiled / "svc.kernelite"
    table.write_text("a,b\n1,2\n")
    for arguments in (
        ["predict", table, model, folder / "new"],
        ["compile", toys.path("svc.model"), "-o", folder / "new", "--sample", table],
        ["analyse", table],
        ["check", table],
        ["check", table, "--model", model],
    ):
        ran = kernelite(*arguments, "--delimiter", mark)
        assert (ran.code, ran.out) == (1, "")
        assert "`delimiter` must be one character outside numbers" in ran.err
    assert not (folder / "new").exists()


@pytest.mark.parametrize("name", ["absent.joblib", "absent.pkl", "folder.joblib"])
def test_a_pickle_that_is_not_there_is_no_pickle(name, toys, kernelite, folder) -> None:
    """Nobody is asked to trust a file that does not exist."""
    (folder / "folder.joblib").mkdir()
    path, problem = folder / name, "there is no such file"
    if name.startswith("folder"):
        problem = "this is a directory, expected a file"
    for arguments in (
        ["compile", path, "-o", folder / "new"],
        ["compile", path, "-o", folder / "new", "--allow-pickle"],
        ["predict", toys.path("test.svm"), path, folder / "new"],
        ["inspect", path],
        ["export", path, "-o", folder / "new.h"],
    ):
        ran = kernelite(*arguments)
        assert (ran.code, ran.err) == (1, f"kernelite: error: {path}: {problem}\n")
