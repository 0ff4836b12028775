"""Commands on the paper's rows: LIBSVM's svm-predict, and approxsvm, the authors' program.

A command is timed on one row and on many; the difference, by row, is what predicting costs, text
reading included. approxsvm's binaries are looked for in the folder that `--approxsvm` or
$KERNELITE_APPROXSVM names; without them its recorded ratios are shown.
"""

from __future__ import annotations

import math
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.paper.subjects import Subject
from benchmarks.rebuild import write_data, write_model
from benchmarks.timing import Timing

__all__ = ["add_commands"]

ROWS = 1_000
TOOL_ROWS, TOOL_WORK = 10_000, 1e9  # rows, and rows times the square of the features
MOST_NUMBERS = 5_000_000  # of a generated model: beyond, reading its text is what would be timed
OnProgress = Callable[[str], None]


@dataclass(frozen=True)
class _Cost:
    """Seconds per row (no deviation of a single repeat), and how many rows were timed."""

    mean: float
    deviation: float | None
    rows: int


def add_commands(
    found: dict[str, Any],
    subject: Subject,
    tools: Path | None = None,
    *,
    rounds: int = 3,
    rows: int = ROWS,
    tell: OnProgress = lambda line: None,
) -> None:
    """Add the commands' lines to a set's part of table 2, and their ratios as `tool`."""
    recorded = subject.row.tool_speed
    if recorded is not None and not subject.workload.generated:
        found["tool"] = {"ratio_1": recorded[0], "ratio_2": recorded[1], "recorded": True}
    expansion = subject.workload.expansion
    numbers = expansion.n_centers * expansion.n_features
    if shutil.which("svm-predict") is None or (
        subject.workload.generated and numbers > MOST_NUMBERS
    ):
        return
    tell(f"{subject.row.name}: svm-predict{'' if tools is None else ' and approxsvm'}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(subject.workload.source, folder / "svm.model")
        exact = _svm_predict(subject, folder, min(rows, int(MOST_NUMBERS * 400 / numbers)), rounds)
        if exact is None:
            return
        base = _base(found)
        found["ways"].append(_line("LIBSVM svm-predict", "exact", exact, None, subject, base))
        if tools is not None:
            _add_tool(found, subject, folder, tools, rounds, exact, base)


def _add_tool(
    found: dict[str, Any],
    subject: Subject,
    folder: Path,
    tools: Path,
    rounds: int,
    exact: _Cost,
    base: float | None,
) -> None:
    approximate = [str(tools / "approx-svm"), "-model", str(folder / "svm.model"), "-o"]
    approximate.append(str(folder / "svm.approx"))
    spent = Timing(tuple(_seconds(approximate) for _ in range(rounds)))
    predict = [str(tools / "approx-predict"), "-q", "-truth", "-model", str(folder / "svm.approx")]

    def command(data: Path) -> list[str]:
        return [*predict, "-data", str(data), "-o", str(folder / "out.txt")]

    rows = min(TOOL_ROWS, int(TOOL_WORK / subject.row.features**2))
    cost = _cost(subject, folder, rows, rounds, command)
    if cost is None:
        return
    whole = subject.row.test_rows
    found["tool"] = {
        "ratio_1": exact.mean / cost.mean,
        "ratio_2": whole * exact.mean / (whole * cost.mean + spent.mean),
        "recorded": False,
        "labels_differ": _differ(subject, folder, cost.rows),
    }
    title = "approxsvm (the paper's tool), run here"
    found["ways"].append(_line(title, "tool", cost, spent, subject, base))


def _svm_predict(subject: Subject, folder: Path, rows: int, rounds: int) -> _Cost | None:
    def command(data: Path) -> list[str]:
        return ["svm-predict", str(data), str(folder / "svm.model"), str(folder / "out.txt")]

    return _cost(subject, folder, rows, rounds, command)


def _cost(
    subject: Subject,
    folder: Path,
    rows: int,
    rounds: int,
    command: Callable[[Path], list[str]],
) -> _Cost | None:
    """None where the difference drowns in noise."""
    rows = max(2, min(rows, len(subject.workload.rows)))
    timings = {}
    for count in (1, rows):
        data = folder / f"{count}.svm"
        if not data.exists():
            write_data(subject.workload.rows[:count], subject.workload.labels[:count], data)
        timings[count] = Timing(tuple(_seconds(command(data)) for _ in range(rounds)))
    one, many = timings[1], timings[rows]
    if many.mean < 1.2 * one.mean:
        return None
    spread = math.hypot(one.deviation, many.deviation) / (rows - 1) if rounds > 1 else None
    return _Cost((many.mean - one.mean) / (rows - 1), spread, rows)


def _seconds(command: list[str]) -> float:
    """The command's processor time where the system tells it: these programs have one thread."""
    start = _clock()
    run = subprocess.run(command, capture_output=True, text=True)
    spent = _clock() - start
    if run.returncode:
        last = "".join(run.stderr.strip().splitlines()[-1:])
        raise OSError(f"{Path(command[0]).name} failed: {last}")
    return spent


def _clock() -> float:
    try:
        import resource
    except ImportError:  # Windows
        return perf_counter()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _differ(subject: Subject, folder: Path, rows: int) -> int:
    """Rows of the last output whose label is not the exact model's."""
    labels = np.loadtxt(folder / "out.txt", usecols=0, ndmin=1)
    return int((labels != subject.workload.labels[:rows]).sum())


def _base(found: dict[str, Any]) -> float | None:
    ways = found["ways"]
    return next((one["predict_mean"] for one in ways if one["name"] == "scikit-learn"), None)


def _line(
    name: str,
    kind: str,
    cost: _Cost,
    spent: Timing | None,
    subject: Subject,
    base: float | None,
) -> dict[str, Any]:
    whole = subject.row.test_rows
    predict = whole * cost.mean
    compared = kind != "exact" and base is not None and spent is not None
    return {
        "name": name,
        "kind": kind,
        "threads": "one",
        "predict_mean": predict,
        "predict_deviation": None if cost.deviation is None else whole * cost.deviation,
        "approximate_mean": None if spent is None else spent.mean,
        "approximate_deviation": spent.deviation if spent and len(spent.turns) > 1 else None,
        "microseconds": 1e6 * cost.mean,
        "rows_timed": cost.rows,
        "ratio_1": base / predict if compared and base is not None else None,
        "ratio_2": base / (predict + spent.mean) if compared and base and spent else None,
        "note": "",
    }
