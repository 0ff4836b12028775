"""ONNX: kernelite's graphs and skl2onnx's SVMClassifier of the same model, one thread each.

Labels are compared with the exact model's before anything is timed; a graph without the exact
model inside may differ where its `decided` says no. Contestants take turns, and processor time is
counted, so that a busy machine changes little.
"""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np

from benchmarks.contestant import Contestant, verify
from benchmarks.modes import compiled
from benchmarks.peers import onnx_runtime
from benchmarks.settings import Settings
from benchmarks.timing import race, rows_within
from benchmarks.workloads import Workload
from kernelite.backends.onnx import to_onnx

__all__ = ["BATCH", "GRAPHS", "onnx_table"]

BATCH = 4096  # rows a call, as a server would send them
SECONDS = 1.0  # of the slow contestant, once, at least
GRAPHS: dict[str, tuple[str, dict[str, Any]]] = {
    "form alone (--form-only)": ("none", {"part": "approximation"}),
    "form that says what is proven (--with-decided)": (
        "certified",
        {"part": "approximation", "decided": True},
    ),
    "certified, exact model inside (default)": ("certified", {}),
    "exact model (--exact)": ("certified", {"part": "exact"}),
}
"""What `kernelite export` writes, by its options -> guarantee and options of `to_onnx`."""


def onnx_table(workload: Workload, settings: Settings) -> list[dict[str, Any]]:
    """A line a graph: microseconds per row, times faster than skl2onnx's, bytes."""
    contestants = [onnx_runtime.prepare(workload, threads=1)]
    contestants += [_graph(workload, name, *choice) for name, choice in GRAPHS.items()]
    calls = {}
    counts = {}
    for one in contestants:
        converted = one.convert(workload.rows)
        count = rows_within(one.predict, converted, max(SECONDS, settings.seconds))
        counts[one.name] = (count, verify(one, workload, count).differences)
        calls[one.name] = lambda run=one.predict, rows=converted[:count]: run(rows)
    timings = race(calls, rounds=settings.rounds, seconds=settings.seconds, clock=process_time)
    seconds = {name: timings[name].best / counts[name][0] for name in calls}
    first = seconds[contestants[0].name]
    return [
        {
            "graph": "skl2onnx" if one is contestants[0] else one.name,
            "microseconds": 1e6 * seconds[one.name],
            "ratio": first / seconds[one.name],
            "labels_differ": counts[one.name][1],
            "rows": counts[one.name][0],
            "bytes": one.nbytes,
        }
        for one in contestants
    ]


def _graph(workload: Workload, name: str, guarantee: str, options: dict[str, Any]) -> Contestant:
    import onnxruntime

    model, _ = compiled(workload, guarantee)
    data = to_onnx(model, **options).SerializeToString()
    choices = onnxruntime.SessionOptions()
    choices.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(data, choices, providers=["CPUExecutionProvider"])
    outputs = ["label", "decided"] if options.get("decided") else ["label"]

    def predict(rows: np.ndarray) -> np.ndarray:
        parts = [rows[i : i + BATCH] for i in range(0, len(rows), BATCH)]
        return np.concatenate([session.run(outputs, {"X": part})[0] for part in parts])

    kept = options.get("part") != "approximation"
    return Contestant(name, "kernelite", predict, must_agree=kept, nbytes=len(data))
