"""`python -m benchmarks server`: the example server of docs/guide/serving.md under a steady load.

Requests are due at fixed times, whether or not those before them were answered, each on a
connection of its own; a request's time counts from when it was due, so that a server that falls
behind is seen to do so. The server is a process of its own, made of the page's very text. How late
requests left beside that says how busy the machine was with other things.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any
from urllib.request import urlopen

import numpy as np

import kernelite as kl
from benchmarks import results
from benchmarks.settings import PRESETS
from kernelite.cli.console import note, print_table

__all__ = ["main", "server", "server_table"]

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "serving.md"
RATES = (50, 200, 500)  # requests per second
PERCENTILES = (50.0, 99.0, 99.9)
SENDERS = 16  # threads, each of which waits for its answer
SERVE = "\nprint(server.server_port, flush=True)\nserver.serve_forever()\n"


def server(seconds: float = 10.0, rates: Sequence[int] = RATES) -> dict[str, Any]:
    """Milliseconds until a request of one row is answered, by requests per second.

    Parameters
    ----------
    seconds : float
        For each rate.
    rates : sequence of int

    Returns
    -------
    dict
        "rates": rate -> percentiles of the answers and of how late requests left.
    """
    (text,) = re.findall(r"```python\n(# server.py\n.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    with TemporaryDirectory() as folder:
        body = _model_and_row(Path(folder) / "cancer.kernelite")
        command = [sys.executable, "-c", text + SERVE]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                address = f"http://127.0.0.1:{int(process.stdout.readline())}"
                _figures(address, body, 0.2, 50)  # everybody has begun
                found = {str(rate): _figures(address, body, seconds, rate) for rate in rates}
            finally:
                process.terminate()
    return {"rates": found, "seconds": seconds, "senders": SENDERS}


def _model_and_row(path: Path) -> bytes:
    """Save the page's model; a row of it as a request has it."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.svm import SVC

    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    kl.compile(SVC().fit(X, y), X, plan="estimate").save(path)
    return json.dumps(X[:1].tolist()).encode()


def _figures(address: str, body: bytes, seconds: float, rate: int) -> dict[str, float]:
    due = perf_counter() + 0.05 + np.arange(max(1, round(seconds * rate))) / rate

    def ask(at: float) -> tuple[float, float]:
        sleep(max(0.0, at - perf_counter()))
        left = perf_counter()
        with urlopen(address, body) as answer:
            assert len(json.loads(answer.read())) == 1
        return perf_counter() - at, left - at

    with ThreadPoolExecutor(SENDERS) as senders:
        took, late = 1e3 * np.array(list(senders.map(ask, due.tolist()))).T
    percentiles = {f"p{p:g}": float(np.percentile(took, p)) for p in PERCENTILES}
    return {**percentiles, "worst": float(took.max()), "late_p99": float(np.percentile(late, 99))}


def server_table(found: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Milliseconds, a line for each rate."""
    names = [*(f"p{p:g}" for p in PERCENTILES), "worst", "late_p99"]
    head = ["requests per second", *(f"{name.replace('_', ' ')} ms" for name in names)]
    lines = [
        [rate, *(f"{figures[name]:.1f}" for name in names)]
        for rate, figures in found["rates"].items()
    ]
    return head, lines


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks server", description="A server.")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each line")
    parser.add_argument("--out", type=Path, default=results.FOLDER, help="folder of the results")
    args = parser.parse_args(argv)
    note("the example server, a row per request")
    found = server(args.seconds, RATES)
    print_table(*server_table(found))
    results.save("server", found, PRESETS["quick"], "quick", args.out)
    return 0
