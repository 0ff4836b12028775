"""The page about cores, latencies, and the files that a call passes through."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import SVC

import kernelite as kl
from benchmarks import cores
from benchmarks.single import latency


def _figures(threads: int) -> dict[str, Any]:
    keys = ("certified", "exact", "values", "small batch", "callers", "one caller")
    rows = ("one row", "one row p99", "one row callers")
    own = dict.fromkeys((*keys, *rows), 1600.0 / threads) | {"intelex": 16000.0 / threads}
    own |= {"call": 412.8, "read": 8.0 / threads, "features": 320}
    return own | {"model": "two classes", "support_vectors": 10, "plan": "summing all"}


def test_the_page_says_what_threads_bring() -> None:
    machine = {"processor": "A CPU", "cores": 16, "simd": "AVX2", "memory_gb": 8, "versions": {}}
    machine |= {"python": "3.11", "blas": "openblas 0.3", "system": "Linux"}
    others = [{"name": "SVR, values", "few": 4000.0, "many": 4800.0}]
    runs: list[dict[str, Any]]
    runs = [{"threads": count, "models": [_figures(count)], "others": others} for count in (1, 16)]
    runs[1]["others"] = [others[0] | {"few": 1000.0, "many": 400.0}]
    page = cores.page({"machine": machine, "rows": 1000, "threads": runs})
    assert "| 16 | 100 | 100 | 100 | 100 | 100 | 100.0 | 100.0 | 100.0 | 1,000 | 10.0 |" in page
    assert "16 threads are faster than 1 by 16.0 times (certified)" in page
    assert "100% of the throughput" in page
    # 1600 us of a thousand rows, 400 of them no row's: 1600 / (400 + 1200 / 16).
    assert "a call takes 400.0 us besides" in page
    assert "could gain 3.4 times" in page
    assert "takes 8.0 ns with 1 and 0.5 with 16" in page
    assert "2 multiply-adds a nanosecond" in page
    assert "| SVR, values | 4,000 | 1,000 | 4.0 | 4,800 | 400 | 12.0 |" in page


def test_latencies_are_of_different_rows() -> None:
    seen: list[int] = []
    p50, p99 = latency(seen.append, list(range(500)))
    assert 0.0 < p50 <= p99
    assert seen[-500:] == list(range(500))


def test_a_trace_names_the_files_of_a_call() -> None:
    path = Path(__file__).parents[2] / "scripts/trace.py"
    spec = importlib.util.spec_from_file_location("trace_script", path)
    assert spec is not None
    assert spec.loader is not None
    script: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    X = np.random.default_rng(0).normal(size=(100, 3))
    fast = kl.compile(SVC(gamma=0.01).fit(X, X[:, 0] > 0), X)
    fast.predict(X[:1])
    found = script.traced(lambda: fast.predict(X[:1]))
    assert list(found)[:2] == ["model/contract.py", "model/predicting.py"]
    assert "backends/cpu/runner.py" in found
    assert len(found) <= 7
