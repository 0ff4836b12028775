"""`kernelite demo`, on fewer digits."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.svm import SVC

import kernelite as kl
from kernelite.backends.cpu.kernels.build import declare_all
from kernelite.cli import demo
from kernelite.support.errors import InputError

SOURCE = str(Path(kl.__file__).parents[1])
ASKED = """
import sys
from kernelite.backends.cpu.kernels import providers
from kernelite.cli import demo, main
folder = sys.argv[1]
asked, address, whole = set(), providers.address, demo.digits()

def recorded(kernel, symbol):
    asked.add(kernel.symbol)
    return address(kernel, symbol)

providers.address = recorded
demo.digits = lambda: demo.Data(whole.X, whole.y, whole.X_test[::5], whole.y_test[::5])
demo._seconds = lambda predict, rows: 1.0
assert main(["demo", "--folder", folder, "--json"]) == 0
for line in demo._next_steps(folder, None).partition("try next:")[2].strip().splitlines():
    assert main(line.split()[1:]) == 0
print("asked:", *asked)
"""


@pytest.fixture
def small(monkeypatch) -> None:
    """A tenth of the work."""
    whole = demo.digits

    def part() -> demo.Data:
        data = whole()
        return demo.Data(data.X[::7], data.y[::7], data.X_test[::40], data.y_test[::40])

    monkeypatch.setattr(demo, "digits", part)


@pytest.mark.usefixtures("small")
def test_the_table_and_the_files(good, tmp_path) -> None:
    folder = tmp_path / "here"
    ran = good("demo", "--folder", folder)
    header, *rows = ran.out.splitlines()[:4]
    assert header.split()[:2] == ["model", "scikit-learn"]
    assert [row.partition("  ")[0] for row in rows] == [
        "small gamma, even or odd",
        "default SVC(), ten digits",
        "the same, one row a call",
    ]
    assert all(" 0 of " in row for row in rows)
    assert "small gamma: certified: " in ran.out
    assert "default SVC(): certified: summing all " in ran.out
    names = {path.name for path in folder.iterdir()}
    assert names == {
        *("train.svm", "test.svm", "svm.model", "svm.kernelite", "digits.kernelite"),
        "report.html",
    }
    assert f"report: {folder / 'report.html'}" in ran.out
    assert ran.err.count("compiling") <= 1


def result(name: str) -> demo.Result:
    """A row of the table with numbers as wide as they get."""
    return demo.Result(name, 3357, 1234.5, 0.0424, 0.0483, 0, 5391)


@pytest.mark.usefixtures("small")
def test_it_fits_into_a_terminal_as_it_opens(monkeypatch, capsys) -> None:
    """80 columns: no word is cut off, and no name takes several lines."""
    X, y = demo.digits().X, demo.digits().two_classes().y
    form, sums = (kl.compile(SVC(gamma=gamma).fit(X, y), X) for gamma in (0.002, 1.0))
    results = [result("small gamma, even or odd"), result("default SVC(), ten digits")]
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    demo._tell(results, form, sums)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= demo.TERMINAL_COLUMNS
    assert "…" not in "".join(lines)
    for one in results:
        assert sum(f"{one.model} " in line and "0 of 5,391" in line for line in lines) == 1
    told = demo._next_steps("kernelite-demo", None, ".venv/bin/kernelite").partition("try next")
    assert max(map(len, told[0].splitlines())) <= demo.TERMINAL_COLUMNS


@pytest.mark.usefixtures("small")
def test_the_libsvm_model_is_the_svc(tmp_path) -> None:
    two = demo.digits().two_classes()
    svc = SVC(**demo.SMALL_GAMMA).fit(two.X, two.y)
    (tmp_path / "svm.model").write_text("".join(demo._libsvm_lines(svc)))
    exact = kl.compile(str(tmp_path / "svm.model"), guarantee="exact")
    np.testing.assert_array_equal(exact.predict(two.X_test), svc.predict(two.X_test))
    scores = np.abs(exact.scores(two.X_test)[:, 0])
    np.testing.assert_allclose(scores, np.abs(svc.decision_function(two.X_test)), atol=1e-9)


@pytest.mark.usefixtures("small")
def test_the_commands_it_suggests_work(good, tmp_path) -> None:
    found = good("demo", "--folder", tmp_path, "--json").json
    assert [result["labels_that_differ"] for result in found["results"]] == [0, 0, 0]
    suggested = demo._next_steps(str(tmp_path), None).partition("try next:")[2]
    commands = [shlex.split(line) for line in suggested.strip().splitlines()]
    assert len(commands) == 5
    for program, *arguments in commands:
        assert program == "kernelite"
        good(*arguments)


@pytest.mark.usefixtures("small")
def test_without_the_extra_there_is_no_report(good, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    found = good("demo", "--folder", tmp_path, "--json")
    assert found.json["report"] is None
    assert "no report page: a report needs matplotlib and jinja2: pip install" in found.err


@pytest.mark.usefixtures("small")
def test_the_commands_run_as_printed(good, tmp_path, monkeypatch) -> None:
    """In the shell of somebody who has just said `make demo`, without an environment activated."""
    folder = tmp_path / "with a blank"
    good("demo", "--folder", folder, "--json")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    printed = demo._next_steps(str(folder), None, demo._program()).partition("try next:")[2]
    lines = printed.strip().splitlines()
    assert len(lines) == 5
    clean = {**os.environ, "PYTHONPATH": SOURCE}
    for line in lines:
        ran = subprocess.run(["sh", "-c", line], env=clean, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr


@pytest.mark.campaign
def test_it_builds_all_kernels_that_it_asks_for(tmp_path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ASKED, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=True,
    )
    asked = set(ran.stdout.partition("asked:")[2].split())
    assert len(asked) > 10
    assert asked <= set(demo.DEMO_KERNELS) <= {kernel.symbol for kernel in declare_all()}


@pytest.fixture
def built(monkeypatch) -> list[tuple[str, ...]]:
    """Which kernels were built; that fails for want of a linker."""
    asked: list[tuple[str, ...]] = []

    def none(only: tuple[str, ...]) -> None:
        asked.append(only)
        raise InputError("there is no linker")

    monkeypatch.setattr("kernelite.backends.cpu.kernels.build.build_if_missing", none)
    return asked


@pytest.mark.usefixtures("small")
def test_where_none_can_be_built_it_says_so_and_goes_on(good, built, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("KERNELITE_KERNELS", raising=False)
    ran = good("demo", "--folder", tmp_path, "--json")
    assert built == [demo.DEMO_KERNELS]
    assert ran.err.count("no kernels are built: there is no linker") == 1


def test_a_provider_that_was_chosen_stays(built, monkeypatch) -> None:
    monkeypatch.setenv("KERNELITE_KERNELS", "numba")
    demo._build_kernels()
    assert built == []


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
    assert data.X.shape == (1198 * 9 // 2, 64)
    assert data.X_test.shape == (599 * 9, 64)
    assert data.X.min() == 0
    assert data.X.max() == 1
    first, moved = data.X[0].reshape(8, 8), data.X[1198 // 2].reshape(8, 8)
    assert (first[:, 1:] == moved[:, :-1]).all()
