"""plan="measure": times the finalists on the sample instead of trusting the cost table."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

from kernelite.engines.exact import ExactEngine
from kernelite.engines.tiers import Tiers, evaluate
from kernelite.heads.criteria import Settles
from kernelite.inputs import FloatArray
from kernelite.planning.option import Option

__all__ = ["measured_plan"]

FINALISTS = 4
REPEATS = 3


def measured_plan(
    options: list[Option], engine: ExactEngine, sample: FloatArray, settles: Settles
) -> tuple[list[Option], float]:
    """The cheapest options with measured costs, and the measured cost of the exact engine."""
    finalists = sorted(options, key=lambda option: option.nanoseconds)[:FINALISTS]
    measured = []
    for option in finalists:
        tiers = Tiers.prepare(option.approximation)
        seconds = min(
            _seconds(lambda tiers=tiers: evaluate(tiers, engine, sample, settles))
            for _ in range(REPEATS + 1)  # the first may load a kernel
        )
        measured.append(replace(option, nanoseconds=1e9 * seconds / max(len(sample), 1)))
    few = sample[:512]
    exact = min(_seconds(lambda: engine.run(few)) for _ in range(REPEATS))
    return measured, 1e9 * exact / max(len(few), 1)


def _seconds(work: object) -> float:
    started = perf_counter()
    work()  # type: ignore[operator]
    return perf_counter() - started
