"""`kernelite demo`, on fewer digits."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

import kernelite as kl
from kernelite.cli import demo

SOURCE = str(Path(kl.__file__).parents[1])


@pytest.fixture
def small(monkeypatch) -> None:
    """A tenth of the work."""
    whole = demo.digits

    def part() -> demo.Data:
        data = whole()
        return demo.Data(data.X[::12], data.y[::12], data.X_test[::40], data.y_test[::40])

    monkeypatch.setattr(demo, "digits", part)


@pytest.mark.usefixtures("small")
def test_the_table_and_the_files(good, tmp_path) -> None:
    folder = tmp_path / "here"
    ran = good("demo", "--folder", folder)
    header, *rows = ran.out.splitlines()[:5]
    assert header.split()[0] == "predictor"
    assert [row.partition("  ")[0] for row in rows] == [
        "scikit-learn",
        "kernelite, exact",
        "kernelite, none (the paper)",
        "kernelite, certified",
    ]
    assert {path.name for path in folder.iterdir()} == {
        *("train.svm", "test.svm", "svc.joblib", "labels.txt"),
        *("svc.kernelite", "exact.kernelite", "paper.kernelite"),
    }
    assert kl.load(folder / "svc.kernelite").guarantee == "certified"


@pytest.mark.usefixtures("small")
def test_the_commands_it_suggests_work(good, tmp_path) -> None:
    results = good("demo", "--folder", tmp_path, "--json").json["results"]
    by_name = {result["predictor"]: result for result in results}
    assert by_name["kernelite, certified"]["labels_that_differ"] == 0
    assert by_name["kernelite, exact"]["labels_that_differ"] == 0
    assert by_name["kernelite, none (the paper)"]["rows_outside_validity"] is not None
    suggested = demo._next_steps(str(tmp_path)).partition("try next:")[2].replace("\\\n", " ")
    commands = [shlex.split(line) for line in suggested.strip().splitlines()]
    assert len(commands) >= 4
    labels = (tmp_path / "labels.txt").read_text()
    for program, *arguments in commands:
        assert program == "kernelite"
        good(*arguments)
    assert (tmp_path / "labels.txt").read_text() == labels


@pytest.mark.usefixtures("small")
def test_the_commands_run_as_printed(good, tmp_path, monkeypatch) -> None:
    """In the shell of somebody who has just said `make demo`, without an environment activated."""
    folder = tmp_path / "with a blank"
    good("demo", "--folder", folder, "--json")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    printed = demo._next_steps(str(folder), demo._program()).partition("try next:")[2]
    lines = printed.replace("\\\n", " ").strip().splitlines()
    assert len(lines) == 5
    clean = {**os.environ, "PYTHONPATH": SOURCE}
    for line in lines:
        ran = subprocess.run(["sh", "-c", line], env=clean, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("on_path", [True, False])
def test_the_program_is_named_as_the_shell_finds_it(tmp_path, monkeypatch, on_path) -> None:
    program = tmp_path / "bin" / "kernelite"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo.sys, "executable", str(program.with_name("python")))
    monkeypatch.setenv("PATH", str(program.parent) if on_path else "/nowhere")
    assert demo._program() == ("kernelite" if on_path else os.path.join("bin", "kernelite"))


def test_a_folder_that_cannot_be(kernelite, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    ran = kernelite("demo", "--folder", tmp_path / "file")
    assert ran.code == 1
    assert ran.err.count("\n") == 1


def test_the_digits_are_moved_by_a_pixel() -> None:
    data = demo.digits()
    assert data.X.shape == (1198 * 9, 64)
    assert data.X_test.shape == (599 * 9, 64)
    assert data.X.min() == 0
    assert data.X.max() == 1
    first, moved = data.X[0].reshape(8, 8), data.X[1198].reshape(8, 8)
    assert (first[:, 1:] == moved[:, :-1]).all()
