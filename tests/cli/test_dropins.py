"""approxsvm's commands: its flags, its formats."""

from __future__ import annotations

import numpy as np
import pytest

import kernelite as kl
from kernelite.cli import dropins


@pytest.fixture
def run(capsys):
    def run(command: str, *arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = getattr(dropins, command)([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return run


@pytest.fixture
def approx(toys, run, tmp_path):
    """The binary model, approximated."""
    path = tmp_path / "binary.approx"
    assert run("approx_svm", "-model", toys.path("binary.model"), "-o", path) == (0, "", "")
    return path


@pytest.fixture
def binary(toys, tmp_path):
    """Rows of the two classes, with labels -1 and 1."""
    two = toys.y_test > 0
    X, y = toys.X_test[two], 2 * toys.y_test[two] - 3
    lines = [
        f"{label} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(x.tolist()))
        for x, label in zip(X, y)
    ]
    path = tmp_path / "binary.svm"
    path.write_text("\n".join(lines) + "\n")
    return path, X, y


def test_approx_svm_writes_the_paper(toys, approx) -> None:
    model = kl.load(approx)
    paper = kl.compile(toys.path("binary.model"), guarantee="none", expansion_point="origin")
    np.testing.assert_array_equal(
        model.decision_function(toys.X, on_invalid="ignore"),
        paper.decision_function(toys.X, on_invalid="ignore"),
    )


def test_approx_svm_says_more_when_asked(toys, run, tmp_path) -> None:
    code, out, _ = run("approx_svm", "-model", toys.path("svr.model"), "-o", tmp_path / "m", "-v")
    assert code == 0
    assert "source: LIBSVM epsilon_svr" in out


def test_approx_predict_classifies(approx, binary, run, tmp_path) -> None:
    path, X, y = binary
    arguments = ("-data", path, "-model", approx, "-o", tmp_path / "out", "-truth")
    code, out, err = run("approx_predict", *arguments)
    assert code == 0
    model = kl.load(approx)
    table = np.loadtxt(tmp_path / "out")
    np.testing.assert_array_equal(table[:, 0], model.predict(X, on_invalid="ignore"))
    decisions = model.decision_function(X, on_invalid="ignore")
    np.testing.assert_allclose(table[:, 1], decisions, rtol=1e-5)
    first = (tmp_path / "out").read_text().splitlines()[0]
    assert first == f"{int(table[0, 0])} {decisions[0]:g}"
    right = int((table[:, 0] == y).sum())
    assert out == f"Accuracy = {100 * right / 50:g}% ({right}/50) (classification)\n"
    outside = int((~model.valid(X)).sum())
    assert outside > 0
    assert err == f"warning: {outside} of 50 predictions may be out of approximation bounds\n"
    assert run("approx_predict", *arguments, "-q")[2] == ""


def test_approx_predict_reads_dense_files(approx, binary, run, tmp_path) -> None:
    path, X, y = binary
    run("approx_predict", "-data", path, "-model", approx, "-o", tmp_path / "sparse", "-truth")
    dense = tmp_path / "dense.txt"
    dense.write_text("".join(";".join(map(repr, row.tolist())) + "\n" for row in X))
    flags = ("-model", approx, "-o", tmp_path / "dense", "-dense", "-delim", ";")
    code, out, _ = run("approx_predict", "-data", dense, *flags)
    assert (code, out) == (0, "")
    assert (tmp_path / "dense").read_text() == (tmp_path / "sparse").read_text()
    rows = (f"{label};" + ";".join(map(repr, row.tolist())) for row, label in zip(X, y))
    dense.write_text("\n".join(rows) + "\n")
    code, out, _ = run("approx_predict", "-data", dense, *flags, "-truth")
    assert code == 0
    assert out.startswith("Accuracy = ")
    assert (tmp_path / "dense").read_text() == (tmp_path / "sparse").read_text()


def test_approx_predict_drops_features_with_one_note(approx, binary, run, tmp_path) -> None:
    path, X, _ = binary
    flags = ("-model", approx, "-q", "-truth")
    run("approx_predict", "-data", path, "-o", tmp_path / "narrow", *flags)
    wide = tmp_path / "wide.svm"
    wide.write_text(path.read_text().replace("\n", " 9:7\n", 3))
    _, _, err = run("approx_predict", "-data", wide, "-o", tmp_path / "wide", *flags)
    assert (tmp_path / "wide").read_text() == (tmp_path / "narrow").read_text()
    assert err == "note: 3 of 50 rows have features beyond the model's 4, which were dropped\n"
    dense = tmp_path / "dense.csv"
    dense.write_text("".join(",".join(map(repr, [*row.tolist(), 7.0])) + "\n" for row in X))
    _, _, err = run(
        "approx_predict", "-data", dense, "-o", tmp_path / "wide", "-dense", *flags[:-1]
    )
    assert (tmp_path / "wide").read_text() == (tmp_path / "narrow").read_text()
    assert err.startswith("note: 50 of 50 rows")


def test_approx_predict_regresses(toys, run, tmp_path) -> None:
    model, out = tmp_path / "svr.approx", tmp_path / "out"
    run("approx_svm", "-model", toys.path("svr.model"), "-o", model)
    flags = ("-data", toys.path("test.svm"), "-model", model, "-o", out, "-truth", "-q")
    code, printed, _ = run("approx_predict", *flags)
    values = kl.load(model).predict(toys.X_test, on_invalid="ignore")
    assert code == 0
    assert out.read_text() == "".join(f"{value:g}\n" for value in values)
    error = np.mean((values - toys.y_test) ** 2)
    assert printed == f"Mean squared error = {error:g} (regression)\n"


def test_approx_analyse(toys, run, tmp_path) -> None:
    norm = (toys.X**2).sum(axis=1).max()
    expected = f"dim 4\nmaxnorm {norm:g}\nmaxgamma {0.25 / norm:g}\n"
    assert run("approx_analyse", "-data", toys.path("train.svm"), "-truth") == (0, expected, "")
    dense = tmp_path / "dense.txt"
    dense.write_text("".join("1 " + " ".join(map(repr, row.tolist())) + "\n" for row in toys.X))
    flags = ("-dense", "-delim", "space", "-truth")
    assert run("approx_analyse", "-data", dense, *flags) == (0, expected, "")


def test_approx_xval(toys, run) -> None:
    flags = ("-data", toys.path("train.svm"), "-c", 10, "-g", 0.02, "-m", 50, "-h", 0, "-v", 3)
    code, out, err = run("approx_xval", *flags)
    assert (code, err) == (0, "")
    assert out.startswith("Cross Validation Accuracy = ")
    assert out.endswith("%\n")
    assert 30 < float(out.split()[-1][:-1]) <= 100


def test_more_folds_than_rows(run, tmp_path) -> None:
    (tmp_path / "few.svm").write_text("1 1:0\n-1 1:1\n1 1:0.1\n-1 1:0.9\n")
    code, _, err = run("approx_xval", "-data", tmp_path / "few.svm", "-v", 9)
    assert "4 folds are used" in err
    assert code == 1, "two of a class cannot be in four folds, which is said"


@pytest.mark.parametrize("command", dropins.__all__)
def test_help_version_and_usage(command, run) -> None:
    name = command.replace("_", "-")
    code, shown, _ = run(command)
    assert code == 0
    assert shown.startswith(f"usage: {name}")
    assert f"example:\n  {name}" in shown
    for flag in ("--help", "--h", "-h"):
        assert run(command, flag) == (0, shown, "")
    for flag in ("--version", "--v"):
        assert run(command, flag)[1].startswith(f"{name} (part of kernelite ")
    code, out, err = run(command, "-nonsense")
    assert (code, out) == (2, "")
    assert err.startswith(f"{name}: error: ")
    assert err.endswith(f"\nSee `{name} --help`.\n")


@pytest.mark.parametrize(
    ("flags", "code", "says"),
    [
        (["-v", "1"], 2, "2 or more"),
        (["-g", "0"], 2, "should be positive"),
        (["-h", "2"], 2, "-h"),
        (["-g", "0.1", "-v", "5"], 1, "there is no such file"),
    ],
)
def test_approx_xval_mistakes(flags, code, says, run) -> None:
    found, out, err = run("approx_xval", "-data", "absent.svm", *flags)
    assert (found, out) == (code, "")
    assert says in err


def test_what_the_format_cannot_hold(toys, run, tmp_path) -> None:
    code, _, err = run("approx_svm", "-model", toys.path("svc.model"), "-o", tmp_path / "m")
    assert (code, "3 outputs" in err) == (1, True)
    assert not (tmp_path / "m").exists()


def test_models_of_several_outputs(toys, compiled, run, tmp_path) -> None:
    flags = ("-data", toys.path("test.svm"), "-o", tmp_path / "out")
    code, _, err = run("approx_predict", *flags, "-model", compiled / "svc.kernelite")
    assert (code, "one output" in err) == (1, True)
    assert not (tmp_path / "out").exists()


def test_approx_predict_looks_at_no_labels_unless_asked(approx, binary, run, tmp_path) -> None:
    # The original takes a label for the first index here: a 1 moves a value, a -1 ends the row.
    path, _, _ = binary
    flags = ("-data", path, "-model", approx, "-q", "-o")
    run("approx_predict", *flags, tmp_path / "with", "-truth")
    code, out, err = run("approx_predict", *flags, tmp_path / "without")
    assert (code, out) == (0, "")
    assert err == f"note: {path} has labels, which -truth compares with the predictions\n"
    assert (tmp_path / "without").read_text() == (tmp_path / "with").read_text()
    bare = tmp_path / "bare.svm"
    bare.write_text("".join(line.split(" ", 1)[1] + "\n" for line in path.read_text().splitlines()))
    ran = run("approx_predict", "-data", bare, *flags[2:], tmp_path / "bare")
    assert ran == (0, "", "")
    assert (tmp_path / "bare").read_text() == (tmp_path / "with").read_text()
