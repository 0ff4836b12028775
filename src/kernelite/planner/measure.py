"""Finalists timed on rows of the sample, instead of trusting the cost table.

By default this is done only where estimates are close. The rates behind them were measured on one
machine, and another one may order candidates differently if they are within a factor of two.
plan="measure" always times them. What counts is the time that one thread spends on its core, so
that other work on the machine changes no plan.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from time import get_clock_info, perf_counter, thread_time

import numpy as np

from kernelite.backends.cpu.approximation import FormStages, form_stages
from kernelite.backends.cpu.blocks import BLOCK_ELEMENTS
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.limits import limit_threads, thread_count
from kernelite.backends.cpu.one_pass import labels_of
from kernelite.backends.cpu.staging import stage_engine
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads.base import Head
from kernelite.planner.costs import Option
from kernelite.planner.plan import MEASURED
from kernelite.program.criteria import predict_criterion

__all__ = ["Finals"]

FINALISTS = 3
COARSEST_SECONDS = 1e-5  # between readings of a clock that may be used
clock = thread_time if get_clock_info("thread_time").resolution < COARSEST_SECONDS else perf_counter
CLOSE_RATIO = 2.0  # times the cheapest estimate, within which finalists are timed
# Rows of a call: few open rows cost more in a small block.
FEWEST_TIMED_ROWS, MOST_TIMED_ROWS = 1 << 10, 1 << 14
CALL_NANOSECONDS = 4e6  # that a call should take
# Each finalist is called once to load its kernels, then at least so often and so long,
FINALIST_ROUNDS, FINALIST_SECONDS = 3, 0.06
CLEAR_RATIO = 1.5  # or until the second takes so many times as long as the first
MOST_OPEN_SHARE = 0.9  # of the rows, that a finalist may leave to the exact engine
MEASURED_FINALISTS = 4  # finalists where all are timed


class Finals:
    """Times the cheapest options and the exact engine as a prediction would run them.

    Parameters
    ----------
    head : Head
    tolerance : ndarray of shape (k,), optional
    engine : ExactEngine
        What finishes the rows that an option leaves open.
    always : bool
        Whether to time them even where estimates are far apart.
    """

    def __init__(
        self, head: Head, tolerance: FloatArray | None, engine: ExactEngine, *, always: bool
    ) -> None:
        self.head, self.tolerance, self.engine, self.always = head, tolerance, engine, always

    def __call__(
        self, options: list[Option], exact: float, sample: FloatArray
    ) -> tuple[list[Option], float, str | None]:
        """Options with measured costs, the exact engine's, and a note; or all as they came."""
        ranked = sorted(options, key=lambda option: option.nanoseconds)
        limit = np.inf if self.always else CLOSE_RATIO * min(exact, ranked[0].nanoseconds)
        # What leaves nearly all rows open cannot gain anything; noise must not say that it does.
        finalists = [
            option
            for option in ranked
            if option.nanoseconds <= limit and option.open_share <= MOST_OPEN_SHARE
        ]
        alone = len(finalists) + (exact <= limit) < 2
        if not len(sample) or (alone and not self.always):
            return options, exact, None
        finalists = finalists[: MEASURED_FINALISTS if self.always else FINALISTS]
        stages = [form_stages(option.approximation) for option in finalists]
        expected = [*(option.nanoseconds for option in finalists), exact]
        counts = [rows_of_a_call(cost, sample.shape[1]) for cost in expected]
        *costs, exact = self._timed([*stages, ()], counts, sample)
        timed = [
            replace(option, nanoseconds=cost + option.unseen)
            for option, cost in zip(finalists, costs, strict=True)
        ]
        most = max([option.nanoseconds for option in timed], default=0.0)
        rest = [
            replace(option, nanoseconds=max(option.nanoseconds, most))  # shown, not chosen
            for option in ranked
            if option not in finalists
        ]
        note = f"{MEASURED}, on up to {max(counts):,} rows at a time ({platform.machine()})."
        return timed + rest, exact, note

    def _timed(
        self, stages: Sequence[FormStages | tuple[()]], counts: list[int], sample: FloatArray
    ) -> list[float]:
        """Nanoseconds per row of each, before the exact engine, on so many rows, by all threads."""
        criterion = predict_criterion(self.head, self.tolerance)
        finish = labels_of(self.head) if self.head.proves_labels else lambda scores: scores
        rows = cache(partial(_rows, sample))
        calls = [
            partial(stage_engine(self.engine, forms).run, rows(count), finish, criterion)
            for forms, count in zip(stages, counts, strict=True)
        ]
        with limit_threads(1):
            costs = raced(calls, [len(rows(count)) for count in counts])
        return [cost / thread_count() for cost in costs]


def rows_of_a_call(nanoseconds: float, d: int) -> int:
    """How many rows of d features to time at once, given what one is expected to cost.

    As many as a prediction takes at a time, if that is not too long: what the first open row of a
    block costs, all of them share.

    Examples
    --------
    >>> rows_of_a_call(400.0, 20), rows_of_a_call(9000.0, 20), rows_of_a_call(400.0, 2000)
    (10000, 1024, 1048)
    """
    most = min(MOST_TIMED_ROWS, BLOCK_ELEMENTS // max(d, 1))
    return max(min(int(CALL_NANOSECONDS / max(nanoseconds, 1.0)), most), FEWEST_TIMED_ROWS)


def _rows(sample: FloatArray, count: int) -> FloatArray:
    """About so many rows: some of the sample's, or the sample over and over."""
    if count < len(sample):
        return np.ascontiguousarray(sample[:: -(-len(sample) // count)])
    return np.tile(sample, (count // len(sample), 1))


def raced(calls: Sequence[Callable[[], object]], rows: list[int]) -> list[float]:
    """Nanoseconds per row of calls that answer so many rows each: the best of several, in turns."""
    for call in calls:
        call()  # loads kernels
    best, spent, rounds, clear = [np.inf] * len(calls), 0.0, 0, False
    while rounds < FINALIST_ROUNDS or (spent < FINALIST_SECONDS * len(calls) and not clear):
        rounds += 1
        for number, call in enumerate(calls):
            started = clock()
            call()
            taken = clock() - started
            best[number] = min(best[number], 1e9 * taken / rows[number])
            spent += taken
        first, *others = sorted(best)
        clear = bool(others) and others[0] > CLEAR_RATIO * first
    return best
