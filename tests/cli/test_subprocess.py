"""The command line as a process: what only a real process shows."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest

import kernelite
from tests.helpers import PATIENCE

SOURCE = str(Path(kernelite.__file__).parents[1])
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}
COMMAND = [sys.executable, "-m", "kernelite"]


def run(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        **{"capture_output": True, "text": True, "env": ENVIRONMENT, "timeout": PATIENCE} | options,
    )
    assert "Traceback" not in (ran.stderr or "")
    assert "Exception ignored" not in (ran.stderr or "")
    return ran


def test_compile_predict_inspect(toys, tmp_path) -> None:
    model, out = tmp_path / "m.kernelite", tmp_path / "out"
    assert run("compile", toys.path("svc.model"), "-o", model).returncode == 0
    ran = run("predict", toys.path("test.svm"), model, out)
    assert ran.returncode == 0
    assert ran.stdout.startswith("Accuracy = ")
    assert [int(line) for line in out.read_text().split()] == list(toys.svc.predict(toys.X_test))
    assert json.loads(run("inspect", model, "--json").stdout)["kind"] == "classifier"
    assert run("check", model).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"m.kernelite", "out"}


def test_exit_codes(tmp_path) -> None:
    assert run("--version").returncode == 0
    assert run("inspect", tmp_path / "absent").returncode == 1
    assert run("dance").returncode == 2


def test_no_file_is_blamed_for_a_wrong_setting(toys, compiled, tmp_path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    for name in ("a.csv", "b.csv"):
        (folder / name).write_text("a,b,c,d\n1,2,3,4\n")
    for data, output in ((folder / "a.csv", "out.csv"), (folder, "out")):
        ran = run(
            *("predict", data, compiled / "svc.kernelite", tmp_path / output),
            env=ENVIRONMENT | {"KERNELITE_KERNELS": "fast"},
        )
        start, cure = "kernelite: error: the environment variable KERNELITE_KERNELS is", "unset it"
        assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
        assert ran.stderr.startswith(start)
        assert cure in ran.stderr


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_a_pipe_from_stdin_to_stdout(name, toys, compiled) -> None:
    ran = run(
        *("predict", name, compiled / "svc.kernelite", "-", "-q"),
        input=toys.text("test.svm"),
    )
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == 75
    assert ran.stderr == ""


@pytest.mark.parametrize("packed", [False, True])
def test_csv_from_stdin(packed, toys, compiled, tmp_path) -> None:
    """By its content, with a column that is no number; compressed if the format is said."""
    rows = toys.text("test.csv").splitlines()
    content = "\n".join([f"{row},{'name' if not i else f'a {i}'}" for i, row in enumerate(rows)])
    options = ["--data-format", "csv"] if packed else []
    data = gzip.compress(content.encode()) if packed else content.encode()
    model, out = compiled / "svc.kernelite", tmp_path / "out.csv"
    command = [*COMMAND, "predict", "-", str(model), str(out), "--id", "name", *options]
    ran = subprocess.run(
        command, input=data, capture_output=True, env=ENVIRONMENT, timeout=PATIENCE
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(b"Accuracy = ")
    header, *lines = out.read_text().splitlines()
    assert header == "name,label"
    assert lines[0] == f"a 1,{toys.svc.predict(toys.X_test[:1])[0]}"
    assert len(lines) == 75


def test_what_stdin_cannot_be(toys, compiled, tmp_path) -> None:
    ran = run("predict", toys.path("test.svm"), "-", tmp_path / "out", input="")
    assert (ran.returncode, "not from standard input" in ran.stderr) == (1, True)
    for format in ("parquet", "arrow"):
        ran = run(
            *("predict", "-", compiled / "svc.kernelite", tmp_path / "out"),
            *("--data-format", format),
            input="",
        )
        assert (ran.returncode, "only CSV is read from a pipe" in ran.stderr) == (1, True)
    assert os.listdir(tmp_path) == []


def test_a_reader_that_goes_away(toys, compiled, tmp_path) -> None:
    long = tmp_path / "long.svm"
    long.write_text(toys.text("test.svm") * 800)  # more labels than a pipe holds
    process = subprocess.Popen(
        [*COMMAND, "predict", str(long), str(compiled / "svc.kernelite"), "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() in (b"0\n", b"1\n", b"2\n")
    process.stdout.close()
    assert process.wait(timeout=PATIENCE) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_help_into_a_closed_pipe() -> None:
    read, write = os.pipe()
    os.close(read)
    ran = run("--help", capture_output=False, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert ran.stderr == ""


@pytest.mark.skipif(os.name != "posix", reason="streams are closed by a POSIX shell")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams(closed, toys, compiled, tmp_path) -> None:
    out = tmp_path / "out.txt"
    model, data = compiled / "svc.kernelite", toys.path("test.svm")
    for command, code in (
        (["predict", data, model, "-"], 0 if closed == "2>&-" else 1),
        (["predict", "-q", data, model, out], 0),
    ):
        words = " ".join(shlex.quote(str(word)) for word in [*COMMAND, *command])
        ran = subprocess.run(
            ["sh", "-c", f"{words} {closed}"], capture_output=True, text=True, env=ENVIRONMENT
        )
        assert ran.returncode == code
        said = "kernelite: error: Bad file descriptor\n"
        assert ran.stderr == (said if code and closed == ">&-" else "")
    assert len(out.read_text().splitlines()) == 75


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk(toys, compiled) -> None:
    model = compiled / "svc.kernelite"
    ran = run("predict", toys.path("test.svm"), model, "/dev/full")
    assert ran.returncode == 1
    assert ran.stderr == "kernelite: error: No space left on device\n"
    with open("/dev/full", "w") as full:
        ran = run("analyse", toys.path("test.svm"), capture_output=False, stdout=full, stderr=-1)
    assert ran.returncode == 1
    assert ran.stderr == "kernelite: error: No space left on device\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize(
    ("name", "code", "says"),
    [("SIGINT", 130, b"kernelite: interrupted\n"), ("SIGTERM", 143, b""), ("SIGHUP", 129, b"")],
)
def test_an_interrupt_leaves_nothing_behind(name, code, says, toys, compiled, tmp_path) -> None:
    fifo, out = tmp_path / "fifo", tmp_path / "out"
    os.mkfifo(fifo)
    out.write_text("old\n")
    process = subprocess.Popen(
        [*COMMAND, "predict", str(fifo), str(compiled / "svc.kernelite"), str(out)],
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        # Shells start background jobs with interrupts ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(getattr(signal, name), signal.SIG_DFL),
    )
    assert process.stderr is not None
    with open(fifo, "w") as pipe:  # opens when the process reads, which is after it started work
        pipe.write(toys.text("test.svm"))
        pipe.flush()
        process.send_signal(getattr(signal, name))
        with suppress(BrokenPipeError):  # a signal just before a read is seen when that returns
            os.write(pipe.fileno(), toys.text("test.svm").encode())
        assert process.wait(timeout=PATIENCE) == code
    assert process.stderr.read() == says
    process.stderr.close()
    assert {path.name for path in tmp_path.iterdir()} == {"fifo", "out"}
    assert out.read_text() == "old\n"


def test_what_the_terminal_cannot_show(tmp_path) -> None:
    name = tmp_path / "späte.svm"
    name.write_text("1 1:x\n", encoding="utf-8")
    ran = run("check", name, env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"})
    assert ran.returncode == 1
    assert r"sp\xe4te.svm:1: " in ran.stdout


def test_a_locale_with_decimal_commas_changes_nothing(toys, compiled) -> None:
    plain = run("predict", toys.path("test.svm"), compiled / "svr.kernelite", "-")
    german = {**ENVIRONMENT, "LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}
    other = run("predict", toys.path("test.svm"), compiled / "svr.kernelite", "-", env=german)
    assert (other.stdout, other.stderr) == (plain.stdout, plain.stderr)
    assert "," not in other.stdout


def test_the_installed_commands_exist() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    scripts = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["scripts"]
    assert set(scripts) == {
        *("kernelite", "approx-svm", "approx-predict", "approx-analyse", "approx-xval")
    }
    for target in scripts.values():
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))
