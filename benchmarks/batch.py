"""Batches: everybody on the same model and rows, verified, then timed in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.contestant import Absent, Contestant, Verdict, WrongAnswer, verify
from benchmarks.modes import MODES
from benchmarks.modes import contestant as kernelite
from benchmarks.peers import PEERS, prepare
from benchmarks.roofline import Roofline, work_a_row
from benchmarks.settings import Settings
from benchmarks.timing import Timing, race, rows_within
from benchmarks.workloads import Workload
from kernelite.program.bounded import FULL, THIRD

__all__ = ["batch", "contestants"]


def contestants(
    workload: Workload, names: Iterable[str], tell: Callable[[str], None] = lambda line: None
) -> tuple[list[Contestant], list[dict[str, str]]]:
    """Those of `names` that can take part, and why the others cannot."""
    ready: list[Contestant] = []
    absent: list[dict[str, str]] = []
    for name in names:
        tell(f"{workload.name}: preparing {name}")
        try:
            if name in PEERS:
                ready.append(prepare(name, workload))
            else:
                ready += _modes(workload, name)
        except Absent as error:
            absent.append({"name": name, "why": str(error)})
    return ready, absent


def batch(
    workload: Workload,
    settings: Settings,
    roofline: Roofline,
    names: Iterable[str] = (*PEERS, *MODES),
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """All contestants on one workload.

    Returns
    -------
    dict
        The model in numbers, and a list of contestants: microseconds per row, rows timed, ratios,
        label differences, fallback share, bytes, share of the roofline.
    """
    ready, absent = contestants(workload, names, tell)
    calls: dict[str, Callable[[], Any]] = {}
    judged: list[tuple[Contestant, int, Verdict]] = []
    for one in ready:
        tell(f"{workload.name}: checking {one.name}")
        rows = rows_within(one.predict, one.convert(workload.rows), settings.seconds)
        try:
            judged.append((one, rows, verify(one, workload, _rows_to_check(one, workload, rows))))
        except WrongAnswer as error:
            absent.append({"name": one.name, "why": f"wrong: {error}"})
            continue
        calls[one.name] = _call(one, one.convert(workload.rows[:rows]))
    tell(f"{workload.name}: timing {len(calls)} contestants, {settings.rounds} rounds")
    timings = race(calls, rounds=settings.rounds, seconds=settings.seconds)
    results = [_result(one, rows, verdict, timings[one.name]) for one, rows, verdict in judged]
    _add_ratios(results)
    for result, (one, _, _) in zip(results, judged):
        _add_roofline(result, one, workload, roofline)
    return {**_about(workload), "contestants": results, "absent": absent}


def _modes(workload: Workload, guarantee: str) -> list[Contestant]:
    dense = kernelite(workload, guarantee)
    if not workload.is_sparse or guarantee in ("exact", "calibrated"):
        return [dense]
    return [dense, kernelite(workload, guarantee, csr=True)]


def _call(one: Contestant, rows: Any) -> Callable[[], Any]:
    return lambda: one.predict(rows)


def _about(workload: Workload) -> dict[str, Any]:
    expansion = workload.expansion
    truth = workload.truth
    return {
        "name": workload.name,
        "generated": workload.generated,
        "support_vectors": expansion.n_centers,
        "features": expansion.n_features,
        "outputs": expansion.n_outputs,
        "gamma": expansion.gamma,
        "rows": len(workload.rows),
        "sample_rows": len(workload.sample),
        "accuracy": None if truth is None else float((workload.labels == truth).mean()),
    }


def _rows_to_check(one: Contestant, workload: Workload, timed: int) -> int:
    """All rows for our own; ten times what is timed for the others, which may be slow."""
    return len(workload.rows) if one.kind == "kernelite" else min(len(workload.rows), 10 * timed)


def _result(one: Contestant, rows: int, verdict: Verdict, timing: Timing) -> dict[str, Any]:
    micro = 1e6 / rows
    return {
        "name": one.name,
        "kind": one.kind,
        "microseconds": timing.best * micro,
        "mean": timing.mean * micro,
        "deviation": timing.deviation * micro,
        "turns": len(timing.turns),
        "rows_timed": rows,
        "rows_checked": verdict.rows,
        "rows_differ": verdict.differences,
        "ties": verdict.ties,
        "bytes": one.nbytes,
        "prepare_seconds": one.prepared,
        "note": one.note,
    }


def _add_ratios(results: list[dict[str, Any]]) -> None:
    slow = next((r["microseconds"] for r in results if r["name"] == "scikit-learn"), None)
    exact = min((r["microseconds"] for r in results if r["kind"] == "exact"), default=None)
    for result in results:
        own = result["microseconds"]
        result["times_sklearn"] = None if slow is None else slow / own
        result["times_best_exact_peer"] = None if exact is None else exact / own


def _add_roofline(
    result: dict[str, Any], one: Contestant, workload: Workload, roofline: Roofline
) -> None:
    if one.model is None:
        return
    _, stats = one.model.predict(one.convert(workload.rows), return_stats=True, on_invalid="ignore")
    flops, moved = work_a_row(one.model, stats)
    result["fallback_share"] = stats.open_share
    second = sum(stats.stages.get(name, 0) for name in (FULL, THIRD))
    result["second_tier_share"] = second / max(stats.rows, 1)
    result["outside_validity"] = stats.outside_validity
    result["flops_a_row"] = flops
    result["roofline_share"] = 1e6 * roofline.floor(flops, moved) / result["microseconds"]
