"""Planning for local sums: what may be left out, and what a row then costs.

In: an expansion, a sample and what settles a row. Out: settings and their line in the plan, or
nothing where no kernel serves. Deterministic: boxes and leaves are counted, not timed.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.local import LocalEngine
from kernelite.backends.cpu.threads import thread_count
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import Head
from kernelite.planner.costs import exact_cost, local_cost
from kernelite.planner.plan import Candidate
from kernelite.program.cascade import holds
from kernelite.program.criteria import Criterion
from kernelite.series.approximation import LocalSums

__all__ = ["local_candidate"]

FEWEST_CENTERS = 512  # below, the exact engine is too fast to gain much
ROWS = 256  # of the sample, that visits are counted on
LABEL_SHARES = (0.1, 1e-3)  # of the spread of scores, that may be left out of a label's


def local_candidate(
    expansion: KernelExpansion,
    head: Head,
    sample: FloatArray,
    criterion: Criterion,
    tolerance: FloatArray | None,
    *,
    engine: ExactEngine,
    mapped: bool,
    measure: bool = False,
) -> tuple[LocalSums, Candidate] | None:
    """The cheapest settings and their candidate.

    Parameters
    ----------
    expansion : KernelExpansion
    head : Head
    sample : ndarray of shape (m, d)
    criterion : callable of (scores, bounds)
        Which rows the guarantee accepts.
    tolerance : ndarray of shape (k,), optional
    engine : ExactEngine
        Of the expansion.
    mapped : bool
        Whether rows come through an affine map.
    measure : bool
        Time the rows instead of counting boxes and leaves.
    """
    if expansion.n_centers < FEWEST_CENTERS or not len(sample):
        return None
    if not LocalEngine.serves(expansion):
        return None
    step = -(-len(sample) // ROWS)
    rows = np.ascontiguousarray(sample[::step])
    tried = []
    for settings in _budgets(engine, head, rows, tolerance):
        local = LocalEngine.prepare(expansion, settings, mapped=mapped)
        visits = local.visits(rows)
        # Start where most rows end, so that they look only once or twice.
        settings = LocalSums(settings.absolute, settings.relative, max(visits.threshold - 1.0, 0.0))
        started = perf_counter()
        answered = local.run(rows)
        taken = 1e9 * (perf_counter() - started) / len(rows)
        share = 1.0 - float(holds(criterion, answered).mean())
        cost = taken if measure else local_cost(local, visits) / thread_count()
        tried.append((cost + share * exact_cost(expansion) / thread_count(), share, settings))
    nanoseconds, share, settings = min(tried, key=lambda option: option[0])
    name = "sums over near centers"
    return settings, Candidate(name, nanoseconds, share, expansion.nbytes, "")


def _budgets(
    exact: ExactEngine, head: Head, rows: FloatArray, tolerance: FloatArray | None
) -> list[LocalSums]:
    """Most of what the guarantee allows, the rest being for rounding; for labels, guesses."""
    budget = head.sum_budget(tolerance)
    if budget is not None:
        return [LocalSums(0.9 * budget[0], 0.9 * budget[1])]
    scores = exact.run(rows).scores
    spread = np.maximum(scores.std(axis=0), 1e-300)
    return [LocalSums(share * spread) for share in LABEL_SHARES]
