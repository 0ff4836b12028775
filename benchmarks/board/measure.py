"""One case of the board: answers verified, then everybody timed in turns.

In: a case and settings. Out: a dictionary of plain figures, in microseconds per row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import sleep
from typing import Any

import numpy as np

from benchmarks.board.cases import Case
from benchmarks.board.players import MUST_AGREE, Player, players, verify
from benchmarks.board.settings import BoardSettings
from benchmarks.machine import load
from benchmarks.modes import stored_bytes
from benchmarks.timing import median_call, race
from benchmarks.timing import rows_within as rows_once

__all__ = ["measure"]

DISTINCT = 256  # rows that single calls cycle through
LONGEST = 1.5  # seconds of single calls
TRIES, SLOWER = 8, 1.15  # a choice that looks bad is raced again, later: noise only ever adds
LATER = 0.5  # seconds
CHECKED = 2_000  # rows whose decision values and probabilities are compared
PROBABILITY = 1.1e-3  # certified promises 1e-3; the rest is scikit-learn's own rounding
TIE = 1e-9
OTHER_METHODS = ("decision_function", "predict_proba")


def measure(case: Case, settings: BoardSettings) -> dict[str, Any]:
    """Verify and time one case.

    Returns
    -------
    dict
        `microseconds` per row by contestant, `choice` (certified, exact and runner-up on the same
        rows), `verdicts`, `stages`, `compile_seconds`, `one_row`, `methods`, `bytes`, the plan.
    """
    found, absent = players(case, settings)
    verdicts = {}
    for name, player in list(found.items()):
        verdicts[name] = verify(case, player, found.get("exact"))
        wrong = verdicts[name]["differ"] - verdicts[name]["ties"]
        if name in MUST_AGREE and wrong:
            absent[name] = f"wrong: {wrong} answers of {verdicts[name]['rows']} differ"
            del found[name]
    rows = _repeated(case.rows, settings)
    result = {
        **_about(case),
        "load": load(),
        "absent": absent,
        "verdicts": verdicts,
        "compile_seconds": {n: p.seconds for n, p in found.items() if p.seconds},
        "microseconds": _batch(found, rows, settings),
        "choice": _choice(found, rows, settings),
        "one_row": _one_row(found, case.rows, settings),
        "methods": _methods(case, found, rows, settings),
        "bytes": {n: stored_bytes(found[n].model) for n in ("exact", "certified") if n in found},
    }
    if "certified" in found:
        result |= _explained(found["certified"], rows)
    if "none" in found:
        result["none_notes"] = " ".join(found["none"].model.plan.notes)
    return result


def _about(case: Case) -> dict[str, Any]:
    model = case.model
    tree = getattr(model, "tree_", None)  # of a density
    names = ("support_vectors_", "X_fit_", "X_train_")
    centers = next((getattr(model, name) for name in names if hasattr(model, name)), None)
    return {
        "name": case.name,
        "set": case.set_name,
        "group": case.group,
        "estimator": type(model).__name__,
        "classes": len(getattr(model, "classes_", ())),
        "support_vectors": len(tree.data if centers is None else centers),
        "features": case.rows.shape[1],
        "gamma": getattr(model, "_gamma", None),
        "train_rows": len(case.train),
        "test_rows": len(case.rows),
    }


def _repeated(rows: np.ndarray, settings: BoardSettings) -> np.ndarray:
    """The rows over and over until a batch is as large as the settings say: shape (m, d)."""
    count = max(64, min(settings.rows, settings.entries // rows.shape[1]))
    return np.resize(rows, (count, rows.shape[1]))


def _batch(found: dict[str, Player], rows: np.ndarray, settings: BoardSettings) -> dict[str, float]:
    return _raced({n: p.call for n, p in found.items() if n != "runner-up"}, rows, settings)


def _choice(
    found: dict[str, Player], rows: np.ndarray, settings: BoardSettings
) -> dict[str, float]:
    """Certified against what it could have chosen, all on as many rows, in turns."""
    calls = {name: found[name].call for name in MUST_AGREE if name in found}
    if "certified" not in calls:
        return {}
    fewest = min(_rows_within(call, rows, settings) for call in calls.values())
    bound = {name: _bound(call, rows[:fewest]) for name, call in calls.items()}
    best = dict.fromkeys(calls, math.inf)
    for _ in range(TRIES):
        timings = race(bound, rounds=settings.rounds, seconds=settings.seconds)
        best = {name: min(best[name], timings[name].best) for name in calls}
        if best["certified"] <= SLOWER * min(best.values()):
            break
        sleep(LATER)
    return {name: 1e6 * seconds / fewest for name, seconds in best.items()}


def _raced(
    calls: dict[str, Callable[[Any], Any]], rows: np.ndarray, settings: BoardSettings
) -> dict[str, float]:
    """Best microseconds per row of each, on as many rows as it answers in the time given."""
    counts = {name: _rows_within(call, rows, settings) for name, call in calls.items()}
    timings = race(
        {name: _bound(call, rows[: counts[name]]) for name, call in calls.items()},
        rounds=settings.rounds,
        seconds=settings.seconds,
    )
    return {name: 1e6 * timing.best / counts[name] for name, timing in timings.items()}


def _rows_within(call: Callable[[Any], Any], rows: np.ndarray, settings: BoardSettings) -> int:
    """How many rows it may have; two tries, since a stall in one of them would leave it few."""
    return max(rows_once(call, rows, settings.seconds) for _ in range(2))


def _bound(call: Callable[[Any], Any], rows: np.ndarray) -> Callable[[], Any]:
    return lambda: call(rows)


def _one_row(
    found: dict[str, Player], rows: np.ndarray, settings: BoardSettings
) -> dict[str, float]:
    """Median microseconds of a call with one row."""
    singles = [np.ascontiguousarray(rows[i : i + 1]) for i in range(min(DISTINCT, len(rows)))]
    medians = {}
    for name in ("scikit-learn", "exact", "certified"):
        if name in found:
            call = found[name].call

            def one(i: int, call: Callable[[Any], Any] = call) -> Any:
                return call(singles[i % len(singles)])

            first = median_call(one, 5)
            calls = max(5, min(settings.calls, int(LONGEST / max(first, 1e-9))))
            medians[name] = 1e6 * median_call(one, calls)
    return medians


def _methods(
    case: Case, found: dict[str, Player], rows: np.ndarray, settings: BoardSettings
) -> dict[str, dict[str, float]]:
    """The other methods that both sides offer, scikit-learn's against certified's.

    `differ` counts rows whose decision values mean another label, or whose probabilities are
    farther off than certified promises; a method with such rows is not timed.
    """
    timed: dict[str, dict[str, float]] = {}
    pair = {name: found[name] for name in ("scikit-learn", "certified") if name in found}
    for method in OTHER_METHODS:
        if len(pair) < 2 or not all(hasattr(player.model, method) for player in pair.values()):
            continue
        calls = {name: getattr(player.model, method) for name, player in pair.items()}
        theirs, ours = (np.asarray(call(case.rows[:CHECKED])) for call in calls.values())
        differ = _differ(method, theirs, ours)
        timed[method] = {"differ": differ} | ({} if differ else _raced(calls, rows, settings))
    return timed


def _differ(method: str, theirs: np.ndarray, ours: np.ndarray) -> int:
    if method == "predict_proba":
        return int(np.count_nonzero((np.abs(ours - theirs) > PROBABILITY).any(axis=1)))
    if theirs.ndim == 1:
        return int(np.count_nonzero((np.sign(theirs) != np.sign(ours)) & (np.abs(theirs) > TIE)))
    return int(np.count_nonzero(theirs.argmax(axis=1) != ours.argmax(axis=1)))


def _explained(certified: Player, rows: np.ndarray) -> dict[str, Any]:
    """The plan, and which share of the rows each of its stages decided."""
    model = certified.model
    plan = model.plan
    stages: dict[str, float] = {}
    if hasattr(model, "predict"):
        _, stats = model.predict(rows[:5_000], return_stats=True)
        counts = {**stats.stages, "undecidable": stats.undecidable}
        stages = {name: count / max(stats.rows, 1) for name, count in counts.items()}
    return {
        "plan": plan.chosen.name,
        "plan_text": str(plan),
        "plan_bytes": plan.chosen.nbytes,
        "stages": stages,
    }
