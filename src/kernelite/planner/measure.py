"""Finalists timed on rows of the sample, instead of trusting the cost table.

By default only where estimates are close: the table was measured on one machine, and within a
factor of three another one may order them differently. plan="measure" always times them.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np

from kernelite.cpu.exact import ExactEngine
from kernelite.cpu.runner import Runner
from kernelite.cpu.tiers import form_stages
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads.base import Head
from kernelite.planner.option import Option
from kernelite.planner.plan import MEASURED
from kernelite.program.criteria import predict_criterion
from kernelite.rows.inputs import FloatArray

__all__ = ["Finals", "raced"]

FINALISTS = 3
CLOSE = 3.0  # times the cheapest estimate, within which finalists are timed
ROWS = 1024
SECONDS, ROUNDS = 0.06, 3  # that a finalist is timed at least, and once more to load its kernels
MOST_OPEN = 0.9  # share of open rows that a finalist may leave to the exact engine
ALWAYS = 4  # finalists where all are timed


class Finals:
    """Times the cheapest options and the exact engine as a prediction would run them.

    Parameters
    ----------
    head : Head
    tolerance : ndarray of shape (k,), optional
    always : bool
        Whether to time them even where estimates are far apart.
    """

    def __init__(self, head: Head, tolerance: FloatArray | None, *, always: bool) -> None:
        self.head, self.tolerance, self.always = head, tolerance, always

    def __call__(
        self,
        options: list[Option],
        expansion: KernelExpansion,
        exact: float,
        sample: FloatArray,
        mapped: bool,
    ) -> tuple[list[Option], float, str | None]:
        """Options with measured costs, the exact engine's, and a note; or all as they came."""
        ranked = sorted(options, key=lambda option: option.nanoseconds)
        limit = np.inf if self.always else CLOSE * min(exact, ranked[0].nanoseconds)
        # What leaves nearly all rows open cannot gain anything; noise must not say that it does.
        finalists = [
            option
            for option in ranked
            if option.nanoseconds <= limit and option.open_share <= MOST_OPEN
        ]
        alone = len(finalists) + (exact <= limit) < 2
        if not len(sample) or (alone and not self.always):
            return options, exact, None
        finalists = finalists[: ALWAYS if self.always else FINALISTS]
        rows = np.ascontiguousarray(sample[:: -(-len(sample) // ROWS)])
        engine = ExactEngine.prepare(expansion, mapped=mapped)
        if not engine.ready:  # in a new installation, kernels are on their way
            return options, exact, None
        runners = [Runner.with_engine(engine, form_stages(o.approximation)) for o in finalists]
        criterion = predict_criterion(self.head, self.tolerance)
        labels = self.head.proves_labels
        finish = self.head.predict if labels else lambda scores: scores
        *costs, exact = raced(
            [
                partial(runner.run, rows, finish, criterion)
                for runner in (*runners, Runner.with_engine(engine))
            ],
            len(rows),
        )
        timed = [
            replace(option, nanoseconds=cost) for option, cost in zip(finalists, costs, strict=True)
        ]
        most = max([option.nanoseconds for option in timed], default=0.0)
        rest = [
            replace(option, nanoseconds=max(option.nanoseconds, most))  # shown, not chosen
            for option in ranked
            if option not in finalists
        ]
        note = f"{MEASURED}, on {len(rows):,} rows ({platform.machine()})."
        return timed + rest, exact, note


def raced(calls: list[Callable[[], object]], rows: int) -> list[float]:
    """Nanoseconds per row of calls that answer so many rows: the best of several, in turns.

    What else the machine does then slows all of them, not the one that was running.
    """
    for call in calls:
        call()  # loads kernels
    best, spent, rounds = [np.inf] * len(calls), 0.0, 0
    while rounds < ROUNDS or spent < SECONDS * len(calls):
        rounds += 1
        for number, call in enumerate(calls):
            started = perf_counter()
            call()
            taken = perf_counter() - started
            best[number], spent = min(best[number], taken), spent + taken
    return [1e9 * seconds / rows for seconds in best]
