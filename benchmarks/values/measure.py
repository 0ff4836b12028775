"""One case of the board "values": answers verified, then everybody timed in turns.

In: a case. Out: plain figures, microseconds per row in batches and of one row at a time.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np

import kernelite as kl
from benchmarks.contestant import Absent
from benchmarks.timing import race, rows_within
from benchmarks.values.cases import Case
from benchmarks.values.peers import PEERS, gpytorch_elsewhere

__all__ = ["Wrong", "measure"]

CHECKED = 1_000  # rows whose answers are compared
PROBABILITY = 1.1e-3  # certified promises 1e-3; the rest is scikit-learn's own rounding
DEVIATION = 2e-3  # of the largest standard deviation
ROUNDING = 1e-7  # of the largest value: what scikit-learn's own rounds
DISTINCT = 64  # rows that single calls cycle through
WARM_UP_CALLS = 2  # with all rows
ONE_ROW_TURNS, ONE_ROW_SECONDS = 5, 0.1  # of each: the best median counts


class Wrong(Exception):
    """An answer is farther off than was promised."""


def measure(
    case: Case, *, rounds: int, seconds: float, calls: int, peers: bool, processor: bool = False
) -> dict[str, Any]:
    """Verify and time one case.

    Parameters
    ----------
    case : Case
    rounds : int
        Turns of each in batches; the best counts.
    seconds : float
        As many rows as are answered in this time are asked for at once.
    calls : int
        Single rows; the median counts.
    peers : bool
        Whether others than scikit-learn take part.
    processor : bool
        Count the processor's seconds of one thread, which other work does not disturb.
    """
    clock = process_time if processor else perf_counter
    started = perf_counter()
    fast = kl.compile(case.model, case.train)
    compiled = perf_counter() - started
    verify(case, fast)
    players: dict[str, Callable[[Any], Any]] = {
        "scikit-learn": case.call(case.model),
        "kernelite": case.call(fast),
    }
    absent: dict[str, str] = {}
    for name, prepare in PEERS.items() if peers else ():
        try:
            if (call := prepare(case)) is not None:
                players[name] = call
        except Absent as why:
            absent[name] = str(why)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(WARM_UP_CALLS):  # what is made once enough rows were asked is there then
            players["kernelite"](case.rows)
        batch = _batch(players, case.rows, rounds, seconds, clock)
        one = _one_row(players, case.rows, calls, clock)
        elsewhere = gpytorch_elsewhere(case) if peers and "GPyTorch" in absent else None
    if elsewhere is not None:
        absent.pop("GPyTorch")
        batch["GPyTorch"], one["GPyTorch"] = elsewhere["batch"], elsewhere["one_row"]
    return {
        "name": case.name,
        "method": case.method,
        "plan": fast.plan.chosen.name,
        "compile_seconds": compiled,
        "batch": batch,
        "one_row": one,
        "absent": absent,
        "others": case.others,
        "asked": {"batch": case.batch, "one_row": case.one_row, "one_row_us": case.most_us},
    }


def verify(case: Case, fast: Any) -> None:
    """Refuse answers, in batches and alone, that are not what was promised."""
    rows = case.rows[:CHECKED]
    theirs, ours = case.call(case.model)(rows), case.call(fast)(rows)
    _compare(case, fast, theirs, ours)
    few = [case.call(fast)(row[None]) for row in rows[:16]]
    if case.method == "std":
        alone: Any = tuple(np.concatenate(part) for part in zip(*few))
        _compare(case, fast, tuple(part[:16] for part in theirs), alone)
    else:
        _compare(case, fast, theirs[:16], np.concatenate(few))


def _compare(case: Case, fast: Any, theirs: Any, ours: Any) -> None:
    if case.method == "std":
        theirs, mean_and_std = theirs[1], ours
        ours = mean_and_std[1]
    theirs, ours = np.asarray(theirs), np.asarray(ours)
    if case.method == "predict" and fast.head.kind == "classifier":
        wrong = int(np.count_nonzero(theirs != ours))
        if wrong:
            raise Wrong(f"{case.name}: {wrong} labels of {len(ours)} differ")
        return
    size = float(np.abs(theirs).max())
    allowed: Any = ROUNDING * size
    if case.method == "std":
        allowed = DEVIATION * size
    elif case.method == "predict_proba":
        allowed = PROBABILITY
    else:
        spread = fast.score_tolerance if case.method != "predict" else None
        spread = fast.tolerance if spread is None else spread
        allowed = allowed + (0.0 if spread is None else spread)
    off = np.abs(theirs - ours) - allowed
    if not (off <= 0).all():
        raise Wrong(f"{case.name}: {case.method} is {off.max():.3g} beyond what is promised")


def _batch(
    players: dict[str, Callable[[Any], Any]],
    rows: np.ndarray,
    rounds: int,
    seconds: float,
    clock: Callable[[], float],
) -> dict[str, float]:
    """Microseconds per row: the best of turns."""
    counts = {name: rows_within(call, rows, seconds) for name, call in players.items()}
    calls = {name: partial(call, rows[: counts[name]]) for name, call in players.items()}
    found = race(calls, rounds=rounds, seconds=seconds, clock=clock)
    return {name: 1e6 * timing.best / counts[name] for name, timing in found.items()}


def _one_row(
    players: dict[str, Callable[[Any], Any]],
    rows: np.ndarray,
    calls: int,
    clock: Callable[[], float],
) -> dict[str, float]:
    """Microseconds of a row alone: the best of several medians, in turns."""
    singles = [np.ascontiguousarray(row[None]) for row in rows[:DISTINCT]]
    medians: dict[str, list[float]] = {name: [] for name in players}
    for _ in range(ONE_ROW_TURNS):
        for name, call in players.items():
            for row in singles[:3]:
                call(row)
            spent = []
            stop = perf_counter() + ONE_ROW_SECONDS
            while len(spent) < calls and (len(spent) < 5 or perf_counter() < stop):
                row = singles[len(spent) % len(singles)]
                start = clock()
                call(row)
                spent.append(clock() - start)
            medians[name].append(1e6 * statistics.median(spent))
    return {name: min(found) for name, found in medians.items()}
