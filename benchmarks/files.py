"""File to file: whole commands, from a LIBSVM data file to a file of labels."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import kernelite as kl
from benchmarks.modes import compiled
from benchmarks.rebuild import write_data, write_model
from benchmarks.settings import Settings
from benchmarks.workloads import Workload
from kernelite.store import approxsvm

__all__ = ["Run", "files", "run_command", "timed"]

ORIGINAL = "APPROX_PREDICT"  # environment variable: the path of approxsvm's own command
PAPER: dict[str, Any] = {"expansion_point": "origin", "rank": "full", "on_invalid": "ignore"}
SLOW_ROWS = 500  # rows for svm-predict, which takes a millisecond each
TURNS = 3
READ_AND_PREDICT = """
import sys
import joblib, numpy as np
from sklearn.datasets import load_svmlight_file
svc = joblib.load(sys.argv[2])
rows, _ = load_svmlight_file(sys.argv[1], n_features=svc.n_features_in_)
np.savetxt(sys.argv[3], svc.predict(rows.toarray()), fmt="%d")
"""
LAUNCHER = """
import os, sys, time
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have theirs
start = time.perf_counter()
quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, usage = os.wait4(pid, 0)
seconds = time.perf_counter() - start
print(seconds, usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status) and 1)
"""


@dataclass(frozen=True)
class Run:
    """A command's time and its highest resident memory."""

    seconds: float
    megabytes: float


def files(
    workload: Workload,
    settings: Settings,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """kernelite predict, LIBSVM's svm-predict and a scikit-learn script on the same file.

    And approxsvm's own command, where the environment variable APPROX_PREDICT names it.

    The slow ones get a short file, so that their time holds the start of the program and the
    reading of the model too; `microseconds` is of the whole command. Labels are compared.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        long, rows = _long_file(workload, settings, folder)
        short = folder / "short.svm"
        few = min(SLOW_ROWS, len(workload.rows))
        write_data(workload.rows[:few], workload.labels[:few], short)
        results = []
        for title, command, data, count in _commands(workload, folder, long, rows, short, few):
            tell(f"{workload.name}: file to file, {title}")
            results.append(timed(title, command, data, count, folder, workload))
    return {
        "name": workload.name,
        "file_megabytes": results[0]["file_megabytes"] if results else 0.0,
        "contestants": results,
        "absent": [] if shutil.which("svm-predict") else [_NO_LIBSVM],
    }


_NO_LIBSVM = {"name": "svm-predict", "why": "LIBSVM's command is not installed"}


def _long_file(workload: Workload, settings: Settings, folder: Path) -> tuple[Path, int]:
    """The test rows as text, repeated to the size asked for."""
    once = folder / "once.svm"
    write_data(workload.rows, workload.labels, once)
    size = once.stat().st_size
    target = int(settings.file_megabytes * 1e6)
    if target <= size:
        share = max(1, int(len(workload.rows) * target / size))
        write_data(workload.rows[:share], workload.labels[:share], once)
        return once, share
    times = -(-target // size)
    long = folder / "long.svm"
    text = once.read_bytes()
    with long.open("wb") as file:
        for _ in range(times):
            file.write(text)
    return long, times * len(workload.rows)


def _commands(
    workload: Workload, folder: Path, long: Path, rows: int, short: Path, few: int
) -> list[tuple[str, list[str], Path, int]]:
    import joblib

    python, out = sys.executable, str(folder / "out.txt")
    libsvm = folder / "svm.model"
    write_model(workload.source, libsvm)
    commands = []
    for guarantee in ("none", "certified"):
        path = folder / f"{guarantee}.kernelite"
        compiled(workload, guarantee)[0].save(path)
        command = [python, "-m", "kernelite", "predict", "-q", str(long), str(path), out]
        commands.append((f"kernelite predict, {guarantee}", command, long, rows))
    exact = [python, "-m", "kernelite", "predict", "-q", "--exact", str(short), str(libsvm), out]
    commands.append(("kernelite predict --exact", exact, short, few))
    pickled = folder / "svc.joblib"
    joblib.dump(workload.svc, pickled)
    script = [python, "-c", READ_AND_PREDICT, str(short), str(pickled), out]
    commands.append(("scikit-learn, a script", script, short, few))
    if original := os.environ.get(ORIGINAL):
        text = folder / "model.approx"
        approxsvm.write(kl.compile(workload.source, guarantee="none", **PAPER), text)
        command = [original, "-q", "-truth", "-data", str(long), "-model", str(text), "-o", out]
        commands.append(("approxsvm's approx-predict", command, long, rows))
    if shutil.which("svm-predict"):
        commands.append(("svm-predict", ["svm-predict", str(short), str(libsvm), out], short, few))
    return commands


def timed(
    title: str, command: list[str], data: Path, rows: int, folder: Path, workload: Workload
) -> dict[str, Any]:
    """Run a command a few times; its best time, its memory, and its labels compared."""
    runs = [run_command(command) for _ in range(TURNS)]
    count = min(rows, len(workload.rows))
    labels = np.loadtxt(folder / "out.txt", max_rows=count, ndmin=1, usecols=0)
    best = min(run.seconds for run in runs)
    megabytes = data.stat().st_size / 1e6
    return {
        "name": title,
        "seconds": best,
        "rows": rows,
        "microseconds": 1e6 * best / rows,
        "megabytes_a_second": megabytes / best,
        "file_megabytes": megabytes,
        "peak_megabytes": max(run.megabytes for run in runs),
        # Six printed digits move rows that lie on the border, so a few labels may differ.
        "rows_differ": int((labels != workload.labels[: len(labels)]).sum()),
        "rows_compared": len(labels),
    }


def run_command(command: list[str]) -> Run:
    """Seconds and peak memory of a command.

    A child's peak begins with what its parent held when it forked, hence the small one between.
    """
    run = subprocess.run(
        [sys.executable, "-S", "-c", LAUNCHER, *command], capture_output=True, text=True
    )
    if run.returncode:
        last = run.stderr.strip().splitlines()[-1:]
        raise RuntimeError(f"{Path(command[0]).name} failed: {''.join(last)}")
    seconds, peak = map(float, run.stdout.split())
    return Run(seconds, peak * (1 if sys.platform == "darwin" else 1024) / 1e6)
