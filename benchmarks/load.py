"""`python -m benchmarks load`: one row at a time from several threads, the slow calls as well.

Each call is timed by the clock and by the processor's time of its own thread, and the system is
asked (on Linux) whether the thread was taken off its core meanwhile: against its will, because
another program or thread had its turn, or because it waited, which among several threads is for
the interpreter. `slow_preempted` and `slow_waited` are their shares among the slowest 1%. What is
due to the interpreter shows beside processes, which share none, and a shorter switch interval.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy as np

import kernelite as kl
from benchmarks import results
from benchmarks.settings import PRESETS
from kernelite.cli.console import note, print_table

__all__ = ["PERCENTILES", "THREADS", "load", "load_table", "main"]

THREADS = (1, 2, 8, 32)
PERCENTILES = (50.0, 99.0, 99.9)
FEATURES, TRAINED = 20, 2000
DISTINCT = 256  # rows that calls cycle through
SHORT = 5e-4  # seconds: a tenth of the interpreter's switch interval


def load(seconds: float = 3.0, tell: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Microseconds of `predict` on one row, by plan and number of threads.

    Parameters
    ----------
    seconds : float
        For each plan and number of threads.
    on_progress : callable

    Returns
    -------
    dict
        "plans": name -> {"support_vectors", "exact_share", "threads": {count: percentiles}}.
    """
    X, y = _data()
    rows = [X[i : i + 1].copy() for i in range(TRAINED, TRAINED + DISTINCT)]
    found = {}
    for name, model in _models(X[:TRAINED], y[:TRAINED]).items():
        _, stats = model.predict(X[-DISTINCT:], return_stats=True)
        figures = {}
        for threads in THREADS:
            tell(f"{name}: {threads} threads")
            figures[str(threads)] = _figures(model, rows, threads, seconds)
        tell(f"{name}: 8 threads, short switch interval; 8 processes")
        before = sys.getswitchinterval()
        sys.setswitchinterval(SHORT)
        try:
            figures["8, short interval"] = _figures(model, rows, 8, seconds)
        finally:
            sys.setswitchinterval(before)
        if "fork" in multiprocessing.get_all_start_methods():
            figures["8 processes"] = _figures(model, rows, 8, seconds, processes=True)
        share = stats.exact / stats.rows
        vectors = model.origin.n_centers
        found[name] = {"support_vectors": vectors, "exact_share": share, "threads": figures}
    intervals = {"switch_interval": sys.getswitchinterval(), "short_interval": SHORT}
    return {"plans": found, "features": FEATURES, "seconds": seconds, **intervals}


def _data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(TRAINED + DISTINCT, FEATURES))
    return X, np.where(X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.3 * rng.normal(size=len(X)) > 0, 1, -1)


def _models(X: np.ndarray, y: np.ndarray) -> dict[str, kl.CompiledModel]:
    """A form alone, a form with exact rows behind it, and the exact engine."""
    from sklearn.svm import SVC

    smooth, rough = SVC(gamma=0.002).fit(X, y), SVC(gamma=0.02).fit(X, y)
    several = SVC(gamma=0.02).fit(X, np.digitize(X[:, 0], [-1, -0.5, 0, 0.5, 1]))
    options: dict[str, Any] = {"plan": "estimate", "on_invalid": "ignore"}
    return {
        "form": kl.compile(smooth, X, guarantee="none", **options),
        "cascade": kl.compile(rough, X, guarantee="certified", rank="full", **options),
        "exact": kl.compile(rough, X, guarantee="exact", **options),
        "exact, six classes": kl.compile(several, X, guarantee="exact", **options),
    }


def _switches() -> tuple[int, int]:
    """How often this thread was taken off its core so far: against its will, and to wait."""
    try:
        import resource

        used = resource.getrusage(resource.RUSAGE_THREAD)
    except (ImportError, AttributeError):  # not on this system
        return 0, 0
    return used.ru_nivcsw, used.ru_nvcsw


def _calls(
    model: kl.CompiledModel, rows: list[np.ndarray], first: int, seconds: float
) -> np.ndarray:
    """Of every call: the time, the processor's time, how often it was preempted and waited."""
    own: list[tuple[float, ...]] = []
    until, i = perf_counter() + seconds, first
    while perf_counter() < until:
        (preempted, waited), worked = _switches(), thread_time()
        begin = perf_counter()
        model.predict(rows[i % len(rows)])
        took = perf_counter() - begin
        worked, after = thread_time() - worked, _switches()
        own.append((took, worked, after[0] - preempted, after[1] - waited))
        i += 1
    return np.array(own)


def _figures(
    model: kl.CompiledModel,
    rows: list[np.ndarray],
    callers: int,
    seconds: float,
    *,
    processes: bool = False,
) -> dict[str, float]:
    """Percentiles over every call of every thread or process, all of which start at once."""
    for row in rows:
        model.predict(row)
    gc.collect()
    ask = _by_processes if processes else _by_threads
    taken = ask(callers, lambda first: _calls(model, rows, first, seconds))
    clock, worked, preempted, waited = np.concatenate(taken).T
    clock, worked, slow = 1e6 * clock, 1e6 * worked, clock >= np.percentile(clock, 99)
    named = {f"p{p:g}": float(np.percentile(clock, p)) for p in PERCENTILES}
    own_time = {f"processor_p{p:g}": float(np.percentile(worked, p)) for p in PERCENTILES}
    alone = clock[(preempted == 0) & (waited == 0)]
    return {
        **named,
        "worst": float(clock.max()),
        **own_time,
        "undisturbed_p99": float(np.percentile(alone, 99)) if len(alone) else float("nan"),
        "slow_preempted": float((preempted[slow] > 0).mean()),
        "slow_waited": float((waited[slow] > 0).mean()),
        "calls": len(clock),
    }


def _by_threads(callers: int, calls: Callable[[int], np.ndarray]) -> list[np.ndarray]:
    start, taken = threading.Barrier(callers), []

    def caller(number: int) -> None:
        start.wait()
        taken.append(calls(7 * number))

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(callers)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return taken


def _by_processes(callers: int, calls: Callable[[int], np.ndarray]) -> list[np.ndarray]:
    context = multiprocessing.get_context("fork")
    start, results = context.Barrier(callers), context.SimpleQueue()

    def caller(number: int) -> None:
        start.wait()
        results.put(calls(7 * number))

    children = [context.Process(target=caller, args=(number,)) for number in range(callers)]
    for one in children:
        one.start()
    taken = [results.get() for _ in children]
    for one in children:
        one.join()
    return taken


def load_table(found: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Microseconds, a line for each plan and number of threads."""
    names = [f"p{p:g}" for p in PERCENTILES] + ["worst"]
    names += ["undisturbed_p99"]
    shares = ["slow_preempted", "slow_waited"]
    lines = [
        [
            *(name, threads),
            *(f"{figures[one]:,.0f}" for one in names),
            *(f"{figures[one]:.0%}" for one in shares),
            f"{figures['calls']:,}",
        ]
        for name, plan in found["plans"].items()
        for threads, figures in plan["threads"].items()
    ]
    head = ["plan", "threads", *(f"{one.replace('_', ' ')} us" for one in names)]
    return [*head, *(one.replace("_", " ") for one in shares), "calls"], lines


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks load", description="Latencies.")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each line")
    parser.add_argument("--out", type=Path, default=results.FOLDER, help="folder of the results")
    args = parser.parse_args(argv)
    found = load(args.seconds, note)
    print_table(*load_table(found))
    results.save("load", found, PRESETS["quick"], "quick", args.out)
    return 0
