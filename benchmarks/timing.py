"""Timing: contestants take turns, so that a busy moment hurts all alike; the best turn counts."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter, sleep
from typing import Any

__all__ = ["Timing", "median_call", "race", "rows_within"]

SHORTEST = 1e-2  # seconds; quicker calls are repeated within a turn
FEWEST_ROWS = 64
# BLAS's threads spin for about 25 ms after a call, on cores that the next contestant needs.
PAUSE = 0.05  # seconds before a turn


@dataclass(frozen=True)
class Timing:
    """Seconds of a call, over several turns.

    Examples
    --------
    >>> Timing((0.2, 0.1, 0.3)).best
    0.1
    """

    turns: tuple[float, ...]

    @property
    def best(self) -> float:
        """The quickest turn."""
        return min(self.turns)

    @property
    def mean(self) -> float:
        """The mean of the turns."""
        return statistics.fmean(self.turns)

    @property
    def deviation(self) -> float:
        """Their standard deviation; 0 for one turn."""
        return statistics.stdev(self.turns) if len(self.turns) > 1 else 0.0


def race(
    calls: Mapping[str, Callable[[], Any]],
    *,
    rounds: int,
    seconds: float = 1.0,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, Timing]:
    """Time each call `rounds` times, taking turns, with a pause before each.

    Parameters
    ----------
    calls : mapping of str to callable
        Each does a whole batch; warmed up by the caller.
    rounds : int
    seconds : float
        A call that has used this much time per round on average drops out after its first turns,
        so that one slow contestant cannot stretch a run without end.
    clock : callable
        Seconds; `time.process_time` counts the processor's, of all threads.

    Returns
    -------
    dict of str to Timing

    Examples
    --------
    >>> timings = race({"nothing": lambda: None}, rounds=3)
    >>> len(timings["nothing"].turns)
    3
    """
    turns: dict[str, list[float]] = {name: [] for name in calls}
    repeats = dict.fromkeys(calls, 1)
    for number in range(rounds):
        for name, call in calls.items():
            if number >= 2 and sum(turns[name]) > 3 * seconds * rounds:
                continue
            sleep(PAUSE)
            if sum(turns[name]) < PAUSE * number:  # quick: what the others took from caches is back
                call()
            start = clock()
            for _ in range(repeats[name]):
                call()
            spent = (clock() - start) / repeats[name]
            turns[name].append(spent)
            if number == 0 and spent < SHORTEST:
                repeats[name] = 1 + int(SHORTEST / max(spent, 1e-7))
    return {name: Timing(tuple(spent)) for name, spent in turns.items()}


def rows_within(run: Callable[[Any], Any], rows: Any, seconds: float) -> int:
    """How many of `rows` a run may have to take about `seconds`; all of them if it is quick.

    Parameters
    ----------
    run : callable
        Takes rows.
    rows : array of shape (m, d)
    seconds : float

    Returns
    -------
    int
        Between 64 and m.
    """
    total = rows.shape[0]
    count = min(FEWEST_ROWS, total)
    run(rows[:count])  # whatever a first call has to prepare
    while count < total:
        start = perf_counter()
        run(rows[:count])
        spent = perf_counter() - start
        if spent > seconds / 4:
            return max(min(FEWEST_ROWS, total), min(total, int(count * seconds / spent)))
        count = min(total, count * 4)
    return total


def median_call(call: Callable[[int], Any], calls: int) -> float:
    """Median seconds of `call(i)` for i = 0, 1, ...; the first tenth only warms up."""
    spent = []
    for i in range(calls + calls // 10):
        start = perf_counter()
        call(i)
        spent.append(perf_counter() - start)
    return statistics.median(spent[calls // 10 :])
