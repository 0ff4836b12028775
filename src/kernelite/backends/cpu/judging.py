"""Which rows are settled, and labels of two classes, each in one pass of a kernel.

In: a criterion and what a stage found, or a head. NumPy's own way, `program.cascade.judged` and the
head's `predict`, takes several passes on one thread, and lets go of the interpreter's lock in each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads import Head
from kernelite.machine.heads.base import BySign
from kernelite.program.bounded import Bounded, Factored, Settled, spelled_out
from kernelite.program.cascade import Judge, judged
from kernelite.program.criteria import Criterion

__all__ = ["Finish", "SignLabels", "judge", "judge_here", "labels_of"]

Finish: TypeAlias = Callable[[FloatArray], NDArray[Any]]
"""What makes answers of scores of shape (m, k)."""

_NO_BOUNDS, _NO_SQUARES = np.empty((0, 1)), np.empty(0)
_WORD = 8  # bytes of a label that a kernel writes as it is


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


class SignLabels:
    """Labels of two classes from the sign of one score, in one pass of a kernel.

    Parameters
    ----------
    sign : BySign
    """

    def __init__(self, sign: BySign) -> None:
        labels = np.ascontiguousarray(sign.labels)
        self.sign, self.labels, self.threshold = sign, labels, float(sign.threshold)
        self.as_words = labels.dtype.itemsize == _WORD and labels.dtype.kind in "iufmM"
        self.words = np.array(labels.view(np.int64) if self.as_words else [0, 1], np.int64)

    def __call__(self, scores: FloatArray) -> NDArray[Any]:
        """The labels of scores of shape (m, 1)."""
        if len(scores) == 1:
            return self.one(scores.item())
        found = self.words_of(scores)
        return found.view(self.labels.dtype) if self.as_words else self.labels.take(found)

    def words_of(self, scores: FloatArray) -> NDArray[np.int64]:
        """The words of labels, shape (m,), from scores of shape (m, 1)."""
        from kernelite.backends.cpu.kernels.judging import ROWS_PER_THREAD, label_rows

        found, sign = np.empty(len(scores), dtype=np.int64), self.sign
        given = self.words, self.threshold, sign.above, sign.closed, found
        share_rows(label_rows, len(scores), ROWS_PER_THREAD, scores, *given)
        return found

    def one(self, score: float) -> NDArray[Any]:
        """The label of one score, shape (1,)."""
        beyond = score > self.threshold if self.sign.above else score < self.threshold
        first = beyond or (self.sign.closed and score == self.threshold)
        return self.labels[:1].copy() if first else self.labels[1:].copy()


def labels_of(head: Head) -> Finish:
    """The head's `predict`; by a kernel where the sign of one score is the label."""
    sign = head.by_sign
    return head.predict if sign is None or not jit_available() else SignLabels(sign)
