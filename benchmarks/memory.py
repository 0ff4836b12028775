"""Memory beyond input and output of one call on many rows, measured in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["memory"]

FEATURES, VECTORS = 22, 2_000


def memory(rows: int) -> dict[str, Any]:
    """Peak megabytes beyond input and output, for "none" and "certified"."""
    return {
        "rows": rows,
        "features": FEATURES,
        "input_megabytes": rows * FEATURES * 8 / 1e6,
        "beyond_megabytes": {
            guarantee: _in_a_process(rows, guarantee) for guarantee in ("none", "certified")
        },
    }


def _in_a_process(rows: int, guarantee: str) -> float:
    root = Path(__file__).parents[1]
    path = os.pathsep.join([str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", str(rows), guarantee],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": path},
    )
    return float(json.loads(run.stdout))


def _beyond(rows: int, guarantee: str) -> float:
    """Highest minus current resident memory around the call, less the answers, in MB."""
    import numpy as np

    import kernelite as kl
    from benchmarks.generate import generated_rows, generated_source

    source = generated_source(VECTORS, FEATURES)
    model = kl.compile(source, generated_rows(4_000, FEATURES, seed=5), guarantee=guarantee)
    block = generated_rows(min(rows, 100_000), FEATURES, seed=6)
    X = np.empty((rows, FEATURES))
    for start in range(0, rows, len(block)):
        X[start : start + len(block)] = block[: rows - start]
    options: dict[str, Any] = {"on_invalid": "ignore"}
    model.predict(X[:1000], **options)  # kernels are compiled and loaded
    before = _status("VmRSS")
    _reset_peak()
    labels = model.predict(X, **options)
    return (_status("VmHWM") - before) / 1e6 - labels.nbytes / 1e6


def _status(field: str) -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return float(line.split()[1]) * 1024
    raise RuntimeError(f"{field} is not told here")


def _reset_peak() -> None:
    """Forget the highest resident memory so far (Linux)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


if __name__ == "__main__":
    print(json.dumps(_beyond(int(sys.argv[1]), sys.argv[2])))
