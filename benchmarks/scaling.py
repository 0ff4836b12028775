"""Curves on generated data: time per row against support vectors, features, rows, threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.batch import contestants
from benchmarks.contestant import WrongAnswer, verify
from benchmarks.generate import generated_rows
from benchmarks.settings import Settings
from benchmarks.timing import race, rows_within
from benchmarks.workloads import Workload, generated
from kernelite.backends.cpu.threads import limit_threads, thread_count

__all__ = ["point", "scaling"]

NAMES = ("scikit-learn", "scikit-learn-intelex", "exact", "certified", "none")
ROWS = 20_000
BLOCK = 1_000_000  # rows of a call when more are streamed
DIMENSION, VECTORS = 22, 4_000
FORM_ROWS, FORM_ROUNDS = 400_000, 30
OnProgress = Callable[[str], None]


def scaling(settings: Settings, tell: OnProgress = lambda line: None) -> dict[str, Any]:
    """All four curves; each point has microseconds per row by contestant.

    "form" has the forms of all numbers of support vectors in one race, so that they compare.
    """
    vectors = min(VECTORS, max(settings.centers))
    return {
        "support_vectors": [
            {"support_vectors": n, **point(_made(n, DIMENSION, settings), settings, tell)}
            for n in settings.centers
        ],
        "form": _forms(settings, tell),
        "features": [
            {"features": d, **point(_made(vectors, d, settings), settings, tell)}
            for d in settings.features
        ],
        "rows": _over_rows(_made(vectors, DIMENSION, settings), settings, tell),
        "threads": _over_threads(_made(vectors, DIMENSION, settings), settings, tell),
        "fixed": {"features": DIMENSION, "support_vectors": vectors, "gamma_over_gamma_max": 0.5},
    }


def _forms(settings: Settings, tell: OnProgress) -> list[dict[str, Any]]:
    """Microseconds per row of the form alone, taking turns on the same rows."""
    tell("forms of all numbers of support vectors, in turns")
    rows = generated_rows(min(FORM_ROWS, max(settings.rows)), DIMENSION, seed=500)
    calls = {}
    for n in settings.centers:
        (one,), _ = contestants(_made(n, DIMENSION, settings), ("none",))
        calls[str(n)] = _on(one.predict, rows)
    timings = race(calls, rounds=FORM_ROUNDS, seconds=settings.seconds)
    return [
        {"support_vectors": n, "microseconds": 1e6 * timings[str(n)].best / len(rows)}
        for n in settings.centers
    ]


def _made(n: int, d: int, settings: Settings) -> Workload:
    rows = max(200, min(ROWS, int(4e6 / d)))
    name = f"generated, {n:,} support vectors, {d} features"
    return generated(name, n, d, 0.5, m=rows, sample_rows=min(settings.sample_rows, 4_000))


def point(
    workload: Workload, settings: Settings, tell: OnProgress, names: Iterable[str] = NAMES
) -> dict[str, Any]:
    """Microseconds per row and fallback shares by contestant, verified."""
    tell(workload.name)
    ready, _ = contestants(workload, names)
    calls: dict[str, Callable[[], Any]] = {}
    counts = {}
    for one in ready:
        rows = rows_within(one.predict, workload.rows, settings.seconds / 2)
        try:
            verify(one, workload, rows)
        except WrongAnswer as error:
            tell(str(error))
            continue
        calls[one.name] = _on(one.predict, workload.rows[:rows])
        counts[one.name] = rows
    timings = race(calls, rounds=settings.rounds, seconds=settings.seconds)
    return {
        "microseconds": {name: 1e6 * t.best / counts[name] for name, t in timings.items()},
        "fallback_share": {
            one.name: one.model.predict(workload.rows, return_stats=True, on_invalid="ignore")[
                1
            ].open_share
            for one in ready
            if one.model is not None and one.name in calls
        },
    }


def _over_rows(workload: Workload, settings: Settings, tell: OnProgress) -> list[dict[str, Any]]:
    """From one row to ten million; those beyond a million come in blocks, as from a stream."""
    ready, _ = contestants(workload, ("certified", "none"))
    points = []
    for count in settings.rows:
        tell(f"{count:,} rows")
        size = min(count, BLOCK)
        rows = generated_rows(size, workload.expansion.n_features, seed=300)
        blocks = max(1, count // size)
        calls = {one.name: _repeated(one.predict, rows, blocks) for one in ready}
        for call in calls.values():
            call()
        rounds = settings.rounds if count <= BLOCK else 2
        timings = race(calls, rounds=rounds, seconds=settings.seconds)
        best = {name: 1e6 * t.best / (blocks * size) for name, t in timings.items()}
        points.append({"rows": blocks * size, "microseconds": best})
    return points


def _over_threads(workload: Workload, settings: Settings, tell: OnProgress) -> list[dict[str, Any]]:
    points = []
    count = min(100_000, max(settings.rows))
    big = replace(workload, rows=generated_rows(count, workload.expansion.n_features, seed=400))
    for threads in range(1, thread_count() + 1):
        tell(f"{threads} threads")
        with limit_threads(threads):
            found = point(big, settings, lambda line: None, ("exact", "certified", "none"))
        points.append({"threads": threads, "microseconds": found["microseconds"]})
    return points


def _on(predict: Callable[[Any], Any], rows: np.ndarray) -> Callable[[], Any]:
    return lambda: predict(rows)


def _repeated(predict: Callable[[Any], Any], rows: np.ndarray, times: int) -> Callable[[], None]:
    def call() -> None:
        for _ in range(times):
            predict(rows)

    return call
