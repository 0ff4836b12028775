"""What is asked of scores, by compiled loops: which rows are settled, votes, coupled probabilities.

The definitions serve where kernels cannot be had: `machine.heads`, and `program.cascade.judged`,
which takes several passes on one thread and lets go of the interpreter's lock in each.
"""

from __future__ import annotations

import numpy as np

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.one_pass import Finish
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads import Head
from kernelite.machine.heads.coupling import couple, most_rounds, pair_probabilities, rounding
from kernelite.machine.pairs import n_classes
from kernelite.program.bounded import Bounded, Factored, Settled, spelled_out
from kernelite.program.cascade import Judge, holds, judged
from kernelite.program.criteria import Criterion, Rule, Within

__all__ = ["chances_of_pairs", "couple_rows", "decisions_of", "judge", "judge_here", "settled_by"]

VOTE_WORK = 10  # times as long as a bound is compared takes a pair's vote
COUPLED_PER_THREAD = 1 << 13  # classes times classes, of all rows: some thirty microseconds
PAIRS_PER_THREAD = 1 << 14  # some twenty microseconds
_NO_BOUNDS, _NO_SQUARES = np.empty((0, 1)), np.empty(0)


def decisions_of(head: Head) -> Finish:
    """The head's `decision`; by a kernel where that is votes of pairs and their squashed sums."""
    return _votes if head.votes_of_pairs and jit_available() else head.decision


def _votes(scores: FloatArray) -> FloatArray:
    """As `pairwise.ovr_scores`, to the bit."""
    from kernelite.backends.cpu.kernels.judging import rows_per_thread, vote_rows

    m, k = scores.shape
    K = n_classes(k)
    assert K is not None
    out = np.empty((m, K))
    share_rows(vote_rows, m, rows_per_thread(VOTE_WORK * k), np.ascontiguousarray(scores), out)
    return out


def chances_of_pairs(scores: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """As `pair_probabilities`.

    Examples
    --------
    >>> chances_of_pairs(np.array([[0.0, 1.0]]), np.array([-1.0, 2.0]), np.zeros(2)).round(2)
    array([[0.5 , 0.12]])
    """
    from kernelite.backends.cpu.kernels.coupling import pair_chances

    if not (jit_available() and isinstance(scores, np.ndarray)):
        return pair_probabilities(scores, a, b)
    first, least = np.empty(scores.shape), max(1, PAIRS_PER_THREAD // len(a))
    share_rows(pair_chances, len(scores), least, np.ascontiguousarray(scores), a, b, first)
    return first


def couple_rows(
    first: FloatArray, n_classes: int, moved: FloatArray | None = None
) -> tuple[FloatArray, FloatArray | None]:
    """As `couple`.

    Examples
    --------
    >>> couple_rows(np.array([[0.9, 0.8, 0.5]]), 3)[0].round(2)
    array([[0.74, 0.1 , 0.16]])
    """
    from kernelite.backends.cpu.kernels.coupling import coupled

    if n_classes == 1 or not jit_available():
        return couple(first, n_classes, moved)
    m, k = len(first), first.shape[1]
    out = np.empty((m, n_classes))
    errors = np.empty((0 if moved is None else m, n_classes))
    given = np.empty((0, k)) if moved is None else np.ascontiguousarray(moved)
    least = max(1, COUPLED_PER_THREAD // n_classes**2)
    share_rows(
        *(coupled, m, least, np.ascontiguousarray(first), given),
        *(most_rounds(n_classes), rounding(n_classes), out, errors),
        held=least,
    )
    return out, None if moved is None else errors


def judge_here() -> Judge:
    """What judges rows here: a kernel, where one can be had."""
    return judge if jit_available() else judged


def judge(criterion: Criterion, found: Bounded, farthest: float) -> Settled:
    """As `judged`, by a kernel where the criterion can be told in numbers."""
    scores, bounds = found.scores, found.bounds
    asked = criterion.on_scores if bounds is None else criterion
    rule = asked.enough
    if rule is None or (bounds is None and rule.margin < 0.0):
        return judged(criterion, found, farthest)
    if isinstance(bounds, Factored) and scores.shape[1] > 1 and not rule.by_bound:
        limits = np.broadcast_to(rule.tolerance, scores.shape[1])
        seen = judged(Within(limits), found, farthest)  # one number per row is enough
    else:
        given = bounds if bounds is None else spelled_out(bounds)
        seen = settled_by(rule, found._replace(bounds=given), farthest)
    if seen.n_open and asked.rule is None:  # the criterion itself may settle more
        still = np.flatnonzero(~seen.rows)
        seen.rows[still] = holds(criterion, found.rows(still))
        seen = seen._replace(n_open=len(seen.rows) - int(np.count_nonzero(seen.rows)))
    return seen


def settled_by(rule: Rule, found: Bounded, farthest: float) -> Settled:
    """Which rows a rule settles, whose bounds are spelled out."""
    from kernelite.backends.cpu.kernels import judging

    scores, bounds, squares, m = found.scores, found.bounds, found.sq_norms, len(found.scores)
    assert not isinstance(bounds, Factored)
    settled, counts = np.empty(m, dtype=np.bool_), np.zeros(3, dtype=np.int64)
    by_bound = rule.by_bound and bounds is not None
    share_rows(
        *(judging.settle_rows, m, judging.rows_per_thread(scores.shape[1]), scores),
        *(_NO_BOUNDS if bounds is None else bounds, _NO_SQUARES if squares is None else squares),
        *(rule.tolerance, by_bound, rule.threshold, -1.0 if by_bound else rule.margin),
        *(farthest, settled, counts),
    )
    n_open, outside, unknown = counts.tolist()
    known = squares is not None or (bounds is not None and found.finite_if_bounded)
    return Settled(settled, n_open, outside if farthest < np.inf else 0, known and not unknown)
