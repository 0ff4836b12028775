"""Which rows are settled, in one pass of a kernel.

In: a criterion and what a stage found. NumPy's own way, `program.cascade.judged`, takes several
passes on one thread, and lets go of the interpreter's lock in each.
"""

from __future__ import annotations

import numpy as np

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.threads import share_rows
from kernelite.program.bounded import Bounded, Factored, Settled, spelled_out
from kernelite.program.cascade import Judge, judged
from kernelite.program.criteria import Criterion

__all__ = ["judge", "judge_here"]

_NO_BOUNDS, _NO_SQUARES = np.empty((0, 1)), np.empty(0)


def judge_here() -> Judge:
    """What judges rows here: a kernel, where one can be had."""
    return judge if jit_available() else judged


def judge(criterion: Criterion, found: Bounded, farthest: float) -> Settled:
    """As `judged`, by a kernel where the criterion can be told in numbers."""
    scores, bounds = found.scores, found.bounds
    rule = (criterion.on_scores if bounds is None else criterion).rule
    if rule is None or (bounds is None and rule.margin < 0.0):
        return judged(criterion, found, farthest)
    if isinstance(bounds, Factored):
        if scores.shape[1] > 1:
            return judged(criterion, found, farthest)
        bounds = spelled_out(bounds)
    from kernelite.backends.cpu.kernels import judging

    squares, m = found.sq_norms, len(scores)
    settled, counts = np.empty(m, dtype=np.bool_), np.zeros(3, dtype=np.int64)
    tolerance, by_bound = rule.tolerance, rule.by_bound and bounds is not None
    if 0 < len(tolerance) < scores.shape[1]:
        tolerance = np.broadcast_to(tolerance, scores.shape[1]).copy()
    share_rows(
        *(judging.settle_rows, m, judging.ROWS_PER_THREAD, scores),
        *(_NO_BOUNDS if bounds is None else bounds, _NO_SQUARES if squares is None else squares),
        *(tolerance, by_bound, rule.threshold, -1.0 if by_bound else rule.margin),
        *(farthest, settled, counts),
    )
    n_open, outside, unknown = counts.tolist()
    known = squares is not None or (bounds is not None and found.finite_if_bounded)
    return Settled(settled, n_open, outside if farthest < np.inf else 0, known and not unknown)
