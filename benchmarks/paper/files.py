"""LIBSVM's own svm-predict on the paper's rows: one more exact row of table 2."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.files import timed
from benchmarks.paper.subjects import Subject
from benchmarks.rebuild import write_data, write_model

__all__ = ["svm_predict"]

ROWS = 1_000
MOST_NUMBERS = 5_000_000  # of a generated model: beyond, reading its text is what would be timed


def svm_predict(subject: Subject, rows: int = ROWS) -> dict[str, Any] | None:
    """Whole commands on two lengths of file, so that reading the model can be told apart.

    None where LIBSVM is not installed, the model is large and made up, or the difference drowns
    in noise.
    """
    workload = subject.workload
    expansion = workload.expansion
    numbers = expansion.n_centers * expansion.n_features
    if shutil.which("svm-predict") is None or (workload.generated and numbers > MOST_NUMBERS):
        return None
    rows = max(2, min(rows, len(workload.rows), int(MOST_NUMBERS * 400 / numbers)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, out = folder / "svm.model", folder / "out.txt"
        write_model(workload.source, model)
        found = {}
        for count in (1, rows):
            path = folder / f"{count}.svm"
            write_data(workload.rows[:count], workload.labels[:count], path)
            command = ["svm-predict", str(path), str(model), str(out)]
            found[count] = timed("svm-predict", command, path, count, folder, workload)
    if found[rows]["seconds"] < 1.2 * found[1]["seconds"]:
        return None  # too short to tell the rows from the start
    a_row = (found[rows]["seconds"] - found[1]["seconds"]) / max(rows - 1, 1)
    return {
        "name": "LIBSVM svm-predict",
        "kind": "exact",
        "threads": "one",
        "predict_best": subject.row.test_rows * a_row,
        "predict_mean": subject.row.test_rows * a_row,
        "predict_deviation": None,
        "approximate_mean": None,
        "approximate_deviation": None,
        "microseconds": 1e6 * a_row,
        "rows_timed": rows,
        "ratio_1": None,
        "ratio_2": None,
        "note": "the command, less the time it needs for one row",
        "rows_differ": found[rows]["rows_differ"],
    }
