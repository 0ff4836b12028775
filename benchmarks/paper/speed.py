"""Table 2: exact and approximated prediction, and approximation, along the paper's two axes.

How the model is approximated: LOOPS (a plain loop compiled without vectorisation) or BLAS. How it
predicts: SIMD off (the same kind of loop) or on (kernelite's kernels). These use one thread; the
rows of kernelite, scikit-learn-intelex and NumPy use all.

    ratio 1 = exact / predict,        ratio 2 = exact / (predict + approximate)

for the whole test set; exact is scikit-learn's SVC, which runs LIBSVM's code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.batch import contestants
from benchmarks.contestant import WrongAnswer, verify
from benchmarks.modes import compiled
from benchmarks.modes import contestant as kernelite
from benchmarks.paper import loops
from benchmarks.paper.subjects import Subject
from benchmarks.timing import Timing, race, rows_within
from kernelite.backends.cpu.threads import limit_threads
from kernelite.machine.expansion import KernelExpansion
from kernelite.series.series import quadratic_form

__all__ = ["speed"]

PEERS = ("scikit-learn", "scikit-learn-intelex", "exact", "certified", "calibrated", "none")
LOOP_WORK = 2e9  # multiply-adds of the plain approximation loop; more are scaled from fewer vectors


@dataclass(frozen=True)
class _Way:
    """A way to predict: seconds of preparing, a call, the rows it takes."""

    run: Callable[[np.ndarray], Any]
    kind: str
    approximate: Timing | None = None
    note: str = ""
    alone: bool = False


def speed(
    subject: Subject,
    *,
    rounds: int = 5,
    seconds: float = 0.5,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """One set: all rows of table 2."""
    tell(f"{subject.row.name}: approximating")
    ways = {**_exact_ways(subject), **_paper_ways(subject, rounds)}
    # Ways that differ in how they approximate alone predict alike: they are timed once.
    calls: dict[Any, Callable[[], Any]] = {}
    counts = {}
    for way in ways.values():
        if way.run not in calls:
            counts[way.run] = rows_within(way.run, subject.workload.rows, seconds)
            calls[way.run] = _call(way, subject.workload.rows[: counts[way.run]])
    tell(f"{subject.row.name}: timing {len(calls)} ways to predict")
    timings = race(calls, rounds=rounds, seconds=seconds)
    lines = [
        _line(name, way, timings[way.run], counts[way.run], subject) for name, way in ways.items()
    ]
    _add_ratios(lines)
    return {
        "name": subject.row.name,
        "generated": subject.workload.generated,
        "features": subject.row.features,
        "support_vectors": subject.workload.expansion.n_centers,
        "rows": subject.row.test_rows,
        "ways": lines,
        "notes": list(subject.notes),
    }


def _exact_ways(subject: Subject) -> dict[str, _Way]:
    """scikit-learn and its accelerated form, kernelite's guarantees; verified."""
    ways = {}
    workload = subject.workload
    # How far made-up data let a form be cut, or a proof reach, says nothing of the real ones.
    ready, _ = contestants(workload, PEERS[:3] if workload.generated else PEERS)
    if workload.generated:
        ready.append(kernelite(workload, "none", rank="full"))
    for one in ready:
        if ", CSR" in one.name:
            continue
        try:
            rows = rows_within(one.predict, workload.rows, 0.1)
            verify(one, workload, rows)
        except WrongAnswer:
            continue
        kind = "exact" if one.kind == "exact" or one.name == "kernelite exact" else "kernelite"
        spent = None if kind == "exact" else Timing((one.prepared,))
        ways[one.name] = _Way(one.predict, kind, spent, one.note)
    return ways


def _paper_ways(subject: Subject, rounds: int) -> dict[str, _Way]:
    """The four combinations of the paper's axes, about the origin, and the exact plain loop."""
    expansion = subject.workload.expansion
    centers, weights = expansion.dense_centers(), np.ascontiguousarray(expansion.coefficients[:, 0])
    gamma, b = expansion.gamma, float(expansion.intercept[0])
    built = quadratic_form(expansion, np.zeros(expansion.n_features))
    form = built.constant[0], np.ascontiguousarray(built.linear[:, 0]), built.quadratic[0].copy()
    model, _ = compiled(subject.workload, "none", expansion_point="origin", rank="full")
    few = subject.workload.rows[:20]
    np.testing.assert_allclose(
        loops.predict(form, few, gamma, b),
        model.scores(few, on_invalid="ignore")[:, 0],
        rtol=1e-7,
        atol=1e-9 * np.abs(weights).sum(),
    )
    slow, note = _loop_time(centers, weights, gamma, rounds)
    quick = _blas_time(expansion, rounds)

    def off(rows: np.ndarray) -> Any:
        return loops.predict(form, rows, gamma, b)

    def on(rows: np.ndarray) -> Any:
        return model.predict(rows, on_invalid="ignore")

    def exact(rows: np.ndarray) -> Any:
        return loops.exact(centers, weights, rows, gamma, b)

    return {
        "plain loop, SIMD off": _Way(exact, "exact", alone=True),
        "LOOPS, SIMD off": _Way(off, "paper", slow, note, alone=True),
        "LOOPS, SIMD on": _Way(on, "paper", slow, note, alone=True),
        "BLAS, SIMD off": _Way(off, "paper", quick, alone=True),
        "BLAS, SIMD on": _Way(on, "paper", quick, alone=True),
    }


def _loop_time(
    centers: np.ndarray, weights: np.ndarray, gamma: float, rounds: int
) -> tuple[Timing, str]:
    n, d = centers.shape
    used = min(n, max(1, int(LOOP_WORK / (d * d / 2))))
    part, share = (centers[:used], weights[:used]), n / used
    _check_loop(*part, gamma)
    turns = [_seconds(lambda: loops.approximate(*part, gamma)) for _ in range(min(rounds, 3))]
    note = "" if used == n else f"approximation timed on {used:,} support vectors and scaled"
    return Timing(tuple(share * turn for turn in turns)), note


def _check_loop(centers: np.ndarray, weights: np.ndarray, gamma: float) -> None:
    """The plain loop builds the form that the library does."""
    c, v, M = loops.approximate(centers, weights, gamma)
    expected = quadratic_form(
        KernelExpansion(centers, weights, np.zeros(1), gamma=gamma), np.zeros(centers.shape[1])
    )
    size = np.abs(weights).sum()
    np.testing.assert_allclose(c, expected.constant[0], atol=1e-9 * size)
    np.testing.assert_allclose(v, expected.linear[:, 0], atol=1e-9 * size)
    np.testing.assert_allclose(M, np.triu(expected.quadratic[0]), atol=1e-9 * size)


def _blas_time(expansion: Any, rounds: int) -> Timing:
    origin = np.zeros(expansion.n_features)
    with limit_threads(1):
        quadratic_form(expansion, origin)
        turns = [_seconds(lambda: quadratic_form(expansion, origin)) for _ in range(rounds)]
    return Timing(tuple(turns))


def _call(way: _Way, rows: np.ndarray) -> Callable[[], Any]:
    def call() -> Any:
        if not way.alone:
            return way.run(rows)
        with limit_threads(1):
            return way.run(rows)

    return call


def _line(name: str, way: _Way, timing: Timing, rows: int, subject: Subject) -> dict[str, Any]:
    factor = subject.row.test_rows / rows
    spent = way.approximate
    return {
        "name": name,
        "kind": way.kind,
        "threads": "one" if way.alone or name == "scikit-learn" else "all",
        "predict_mean": factor * timing.mean,
        "predict_deviation": _deviation(timing, factor),
        "approximate_mean": None if spent is None else spent.mean,
        "approximate_deviation": None if spent is None else _deviation(spent),
        "microseconds": 1e6 * timing.mean / rows,
        "rows_timed": rows,
        "note": way.note,
    }


def _deviation(timing: Timing, factor: float = 1.0) -> float | None:
    return factor * timing.deviation if len(timing.turns) > 1 else None


def _add_ratios(lines: list[dict[str, Any]]) -> None:
    base = next((one["predict_mean"] for one in lines if one["name"] == "scikit-learn"), None)
    for one in lines:
        if base is None or one["kind"] == "exact":
            one["ratio_1"] = one["ratio_2"] = None
            continue
        one["ratio_1"] = base / one["predict_mean"]
        one["ratio_2"] = base / (one["predict_mean"] + (one["approximate_mean"] or 0.0))


def _seconds(call: Callable[[], Any]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start
