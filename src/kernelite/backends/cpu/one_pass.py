"""Rows to answers in one pass: what the first stage of one output finds is judged on the way.

While a tile of rows is in cache, the kernel of a form gives scores and bounds, asks the criterion's
rule whether these settle the row, and writes the label, or the score, and whether the row stays
open: nothing else of a row goes to memory. Rows that it leaves open may be summed in the same call
(`kernels.behind`). Exact sums in single precision take much longer than that, so where they come
first, a second call judges what they found. Threads take rows inside compiled code.

Rows that stay open go through the cascade, whose stages and criteria are the twin of all this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.forms import FormEngine
from kernelite.backends.cpu.fused_sums import NO_SQUARES, PanelSums
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.mapped import MappedRows
from kernelite.backends.cpu.threads import LITTLE, share_rows
from kernelite.data.rows.inputs import FloatArray, row_blocks
from kernelite.machine.affine import AffineMap
from kernelite.machine.heads import Head
from kernelite.machine.heads.base import BySign
from kernelite.program.criteria import Criterion

__all__ = [
    "Finish",
    "FormPass",
    "OnePass",
    "Passed",
    "Passes",
    "SignLabels",
    "SumsPass",
    "labels_of",
    "open_rows",
    "rule_numbers",
]

PROBED_FROM, ALWAYS_PROBED = 512, 1 << 14  # rows of a batch from which some of them are probed
MOST_PASSES = 16  # that are kept, since some criteria are made anew for each call
LISTED_AT_ONCE = 1 << 13  # rows of which those that stay open are found by one thread
PASS_TILE_ROWS = 64  # that a form takes at once, and a thread at least
JUDGED_ROWS = 1 << 16  # of sums: so many scores and bounds stay in cache until they are judged
NO_SUMS = np.empty(0, np.int64), np.empty(0)  # what a form is told of sums where there are none
_WORD = 8  # bytes of a label that a kernel writes as it is
NO_LABELS, NO_SCORES, NO_WORDS = np.empty(0, np.int64), np.empty((0, 1)), np.zeros(2, np.int64)


Finish: TypeAlias = Callable[[FloatArray], NDArray[Any]]
"""What makes answers of scores of shape (m, k)."""


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


class Passed(NamedTuple):
    """What a pass found for m rows.

    Parameters
    ----------
    labels : ndarray of shape (m,)
        Words of eight bytes, as `SignLabels.words` has them; empty where scores are asked for.
    scores : ndarray of shape (m, 1)
        Empty where labels are.
    is_open : ndarray of bool of shape (m,)
    n_open, outside, unknown : int
        Rows that stay open, that lie outside the validity bound, and that may not be finite.
    summed : int
        Rows that sums settled which the first stage left open.
    """

    labels: NDArray[np.int64]
    scores: FloatArray
    is_open: NDArray[np.bool_]
    n_open: int
    outside: int
    unknown: int
    summed: int = 0


class OnePass:
    """A first stage and a criterion made ready: what its kernel takes is laid out once.

    Parameters
    ----------
    numbers : tuple of six numbers
        What the criterion asks, as `rule_numbers` gives it.
    labels : SignLabels, optional
        Where labels are asked for; else scores.
    farthest : float
        |u|^2 from which rows are outside the validity bound.
    probed : int
        So many rows show whether the stage settles enough of them; 0 where it always pays.
    """

    least_settled = 0.0  # the share of rows from which the stage is worth its time
    sums_of_one: tuple[SumsPass | None, int] | None = None
    """Sums that one row goes through in the same call, and their stage, once that was asked."""

    def __init__(
        self,
        numbers: tuple[float, ...],
        labels: SignLabels | None,
        farthest: float = np.inf,
        probed: int = 0,
    ) -> None:
        self.labels, self.probed, self.numbers = labels, probed, numbers
        sign = (0, 0, 0.0) if labels is None else (*labels.sign[2:], labels.threshold)
        rule = np.array([*numbers, farthest, *sign], dtype=np.float64)
        self.judged = rule, NO_WORDS if labels is None else labels.words

    def run(self, rows: FloatArray, sums: SumsPass | None = None) -> Passed:
        """Answers of dense rows, and which of them stay open.

        `sums`: what may settle these within the same call, where `joins` says that it can.
        """
        m, counts, is_open = len(rows), np.zeros(4, np.int64), np.empty(len(rows), np.bool_)
        if self.labels is None:
            labels, scores = NO_LABELS, np.empty((m, 1))
        else:
            labels, scores = np.empty(m, np.int64), NO_SCORES
        self.fill(rows, sums, counts, labels, is_open, scores)
        n_open, outside, unknown, summed = counts.tolist()
        return Passed(labels, scores, is_open, n_open - summed, outside, unknown, summed)

    def fill(self, rows: FloatArray, sums: SumsPass | None, *out: Any) -> None:
        """Fill counts, labels, what is open, and scores; those of no length are not asked for."""
        raise NotImplementedError

    def joins(self, sums: OnePass | None) -> bool:
        """Whether rows that stay open may be summed within the same call."""
        return False

    def one(
        self, row: FloatArray, finish: Finish, sums: SumsPass | None = None
    ) -> tuple[NDArray[Any] | None, bool, bool]:
        """The answer of one row, or None; whether, if so, other stages may answer it; and whether
        sums had a part in it.

        They do not where it may not be finite, or lies outside and nothing else is promised.
        """
        found = self.run(row, sums)
        if found.unknown or (found.outside and not any(self.numbers[:3])):
            return None, False, False
        if found.n_open:
            return None, True, False
        return self.answers(found, finish), True, bool(found.summed)

    def score(self, row: FloatArray) -> tuple[float, float] | None:
        """The score and the bound of one row; None where it may not be finite."""
        raise NotImplementedError

    @cached_property
    def proves_signs(self) -> bool:
        """Whether a label is asked for that a bound proves, and nothing else."""
        by_bound, by_margin, by_tolerance = self.numbers[:3]
        return bool(self.labels is not None and by_bound and not (by_margin or by_tolerance))

    def answers(self, found: Passed, finish: Finish) -> NDArray[Any]:
        """Labels or, by `finish`, what is made of scores."""
        labels = self.labels
        if labels is None:
            return finish(found.scores)
        if labels.as_words:
            return found.labels.view(labels.labels.dtype)
        return labels.labels.take(found.labels)

    def helps(self, rows: FloatArray) -> bool:
        """Whether the stage settles enough of these rows, as some of them show."""
        if not self.probed or len(rows) < PROBED_FROM:
            return True
        few = rows[np.arange(0, len(rows), len(rows) // self.probed)]
        return self.settles(self.run(few))

    def settles(self, found: Passed) -> bool:
        """Whether enough rows are settled."""
        return found.n_open <= (1.0 - self.least_settled) * len(found.is_open)


class FormPass(OnePass):
    """By a form: one kernel reads, evaluates and judges."""

    least_settled = 0.2

    def __init__(self, given: tuple[Any, ...], *judged: Any) -> None:
        super().__init__(*judged)
        self.kernel, fixed, self.unused, self.least_rows, _ = given
        self.form = tuple(map(_ordinary, fixed))
        self.fixed = *self.form, *self.judged
        self.held = self.least_rows >= LITTLE  # as `share_rows` has it for one row
        self.share_open = 0.0  # of a batch's rows, the last time

    def run(self, rows: FloatArray, sums: SumsPass | None = None) -> Passed:
        """As `OnePass.run`."""
        found = super().run(rows, sums)
        if len(rows) >= PASS_TILE_ROWS:
            self.share_open = (found.n_open + found.summed) / len(rows)
            if sums is not None:
                sums.joined(found)
        return found

    def fill(self, rows: FloatArray, sums: SumsPass | None, *out: Any) -> None:
        """As `OnePass.fill`."""
        given, held = (rows, *self.fixed, *self._behind(sums), *out, *self.unused), self.least_rows
        if self.least_rows <= PASS_TILE_ROWS:
            share_rows(self.kernel, len(rows), held, *given)
            return
        if sums is not None:
            held = int(1.0 / (1.0 / held + self.share_open / sums.sums.held_rows))
        share_rows(self.kernel, len(rows), PASS_TILE_ROWS, *given, held=held)

    @staticmethod
    def _behind(sums: SumsPass | None) -> tuple[Any, Any]:
        return NO_SUMS if sums is None else sums.behind

    def joins(self, sums: OnePass | None) -> bool:
        """As `OnePass.joins`."""
        return isinstance(sums, SumsPass) and sums.pays and sums.sums.inside is not None

    def one(
        self, row: FloatArray, finish: Finish, sums: SumsPass | None = None
    ) -> tuple[NDArray[Any] | None, bool, bool]:
        """As `OnePass.one`, with nothing between the arrays and the kernel."""
        own = self.labels
        if own is None or not self.held:
            return super().one(row, finish, sums)
        counts, words, is_open = np.zeros(4, np.int64), np.empty(1, np.int64), np.empty(1, np.bool_)
        given = row, *self.fixed, *self._behind(sums), counts, words, is_open, NO_SCORES
        self.kernel.shared(-1, 0, 0, *given, *self.unused)
        n_open, outside, unknown, summed = counts.tolist()
        if unknown or (outside and not any(self.numbers[:3])):
            return None, False, False
        if n_open > summed:
            return None, True, False
        answers = words.view(own.labels.dtype) if own.as_words else own.labels.take(words)
        return answers, True, summed > 0

    def score(self, row: FloatArray) -> tuple[float, float] | None:
        """As `OnePass.score`."""
        from kernelite.backends.cpu.kernels.judging import UNJUDGED

        value, bound = np.empty((1, 1)), np.empty((1, 1))
        squares = [np.empty(1) for _ in self.unused[:-1]]
        self.kernel.shared(-1, 0, 0, row, *self.form, *UNJUDGED, value, *squares, bound)
        return (value.item(), bound.item()) if squares[0].item() < np.inf else None

    @classmethod
    def of(
        cls,
        form: FormEngine,
        input_map: AffineMap | None,
        criterion: Criterion | None,
        labels: SignLabels | None,
    ) -> FormPass | None:
        """For the first form of a model; None where no kernel serves it, or the criterion."""
        given = form.one_pass(input_map)
        numbers = None if given is None else rule_numbers(criterion, bounded=given[-1])
        if given is None or numbers is None:
            return None
        # Values need more digits than labels: few forms are good enough for both.
        probed = 128 if criterion is not None and criterion.labels_and_values else 0
        return cls(given, numbers, labels, form.form.farthest, probed)


class SumsPass(OnePass):
    """Labels by sums over all centers in single precision, which a second call judges.

    How many rows it settled the last time stands for a probe where a batch is not large: proven
    labels are the same, whichever stage gives them.
    """

    least_settled = 0.5

    def __init__(self, sums: PanelSums, input_map: AffineMap | None, *judged: Any) -> None:
        from kernelite.backends.cpu.kernels.judging import ROWS_PER_THREAD, judge_rows

        super().__init__(*judged)
        self.sums, self.input_map, self.known, self.pays = sums, input_map, False, True
        self.judge, self.judged_per_thread = judge_rows, ROWS_PER_THREAD

    def run(self, rows: FloatArray, sums: SumsPass | None = None) -> Passed:
        """As `OnePass.run`."""
        found = super().run(rows)
        if len(rows) >= self.probed:
            self.known = self.pays = self.settles(found)
        return found

    @cached_property
    def behind(self) -> tuple[NDArray[np.int64], FloatArray]:
        """What the kernel of a form takes that calls this for the rows that it leaves open."""
        assert self.sums.inside is not None
        return self.sums.inside.told, self.judged[0]

    def joined(self, found: Passed) -> None:
        """Remember whether it settled enough of what a form left open."""
        if (tried := found.n_open + found.summed) >= self.probed:
            self.pays = found.n_open <= (1.0 - self.least_settled) * tried

    def helps(self, rows: FloatArray) -> bool:
        """As `OnePass.helps`."""
        return (self.known and len(rows) < ALWAYS_PROBED) or super().helps(rows)

    def one(
        self, row: FloatArray, finish: Finish, sums: SumsPass | None = None
    ) -> tuple[NDArray[Any] | None, bool, bool]:
        """As `OnePass.one`: numbers are judged here, which is quicker than by a kernel."""
        known = self.score(row)
        if known is None:
            return None, False, False
        found, error = known
        by_bound, by_margin, by_tolerance, threshold, margin, tolerance = self.numbers
        away = abs(found - threshold)
        if (by_bound and not away > error) or (by_margin and not away > margin):
            return None, True, False
        if by_tolerance and not error <= tolerance:
            return None, True, False
        assert self.labels is not None
        return self.labels.one(found), True, False

    def score(self, row: FloatArray) -> tuple[float, float] | None:
        """As `OnePass.score`."""
        score, bound = np.empty((1, 1)), np.empty((1, 1))
        if self.input_map is not None:
            row = self.input_map(row)
        self.sums.fill(row, score, bound, NO_SQUARES)
        error = bound.item()
        return (score.item(), error) if error < np.inf else None

    def fill(self, rows: FloatArray, sums: SumsPass | None, *out: Any) -> None:
        """As `OnePass.fill`."""
        counts, labels, is_open, _ = out
        if len(rows) <= JUDGED_ROWS:
            m = len(rows)
            self._fill(rows, np.empty((m, 1)), np.empty((m, 1)), counts, labels, is_open)
            return
        scores, bounds = np.empty((JUDGED_ROWS, 1)), np.empty((JUDGED_ROWS, 1))
        for block in row_blocks(len(rows), JUDGED_ROWS):
            found = [one[: block.stop - block.start] for one in (scores, bounds)]
            self._fill(rows[block], *found, counts, labels[block], is_open[block])

    def _fill(self, rows: FloatArray, scores: FloatArray, bounds: FloatArray, *out: Any) -> None:
        if self.input_map is not None:
            rows = MappedRows(rows, self.input_map)[:]
        self.sums.fill(rows, scores, bounds, NO_SQUARES)
        given = scores, bounds, *self.judged, *out
        share_rows(self.judge, len(rows), self.judged_per_thread, *given)

    @classmethod
    def of(
        cls,
        sums: PanelSums,
        input_map: AffineMap | None,
        criterion: Criterion,
        labels: SignLabels,
    ) -> SumsPass | None:
        """None where the criterion takes more than numbers."""
        numbers = rule_numbers(criterion, bounded=True)
        return None if numbers is None else cls(sums, input_map, numbers, labels, np.inf, 32)


def open_rows(
    rows: FloatArray, found: Passed, most: int
) -> Iterator[tuple[NDArray[np.intp], FloatArray]]:
    """The numbers of rows that stay open, and these rows, at most so many at a time."""
    if len(rows) <= LISTED_AT_ONCE and found.n_open <= most:
        from kernelite.backends.cpu.kernels.judging import take_open

        m, count = len(rows), found.n_open
        index, some = np.empty(count, np.int64), np.empty((count, rows.shape[1]))
        share_rows(take_open, m, m, found.is_open, rows, index, some, held=m)
        yield index, some
        return
    from kernelite.backends.cpu.kernels.densify import take_rows

    still = np.flatnonzero(found.is_open)
    for part in row_blocks(len(still), most):
        yield still[part], take_rows(rows, still[part])


class _Passing(Protocol):
    """A stage that one pass may take rows through."""

    def one_pass(
        self, input_map: AffineMap | None, criterion: Criterion | None, labels: SignLabels | None
    ) -> OnePass | None:
        """What does so under a criterion; None: nothing."""
        ...


class Passes:
    """The passes of a first stage, one for each criterion that was asked for.

    Parameters
    ----------
    stage : FirstForms or FewerDigits
    input_map : AffineMap, optional
        Through which rows come.
    """

    def __init__(self, stage: _Passing, input_map: AffineMap | None) -> None:
        self.stage, self.input_map = stage, input_map
        self.known: dict[tuple[Criterion | None, SignLabels | None], OnePass | None] = {}

    def of(self, finish: Finish, criterion: Criterion | None) -> OnePass | None:
        """The pass whose answers `finish` gives; None where there is none."""
        labels = finish if isinstance(finish, SignLabels) else None
        try:
            return self.known[criterion, labels]
        except KeyError:
            if len(self.known) >= MOST_PASSES:
                self.known.clear()
            found = self.known[criterion, labels] = self.stage.one_pass(
                self.input_map, criterion, labels
            )
            return found


def rule_numbers(criterion: Criterion | None, *, bounded: bool) -> tuple[float, ...] | None:
    """What a criterion asks of one output, in numbers; None where it takes more than a `Rule`.

    Whether |score - threshold| should exceed the bound, whether it should exceed a margin, whether
    the bound should be within a tolerance; then threshold, margin and tolerance.
    """
    if criterion is None:
        return False, False, False, 0.0, 0.0, 0.0
    rule = (criterion if bounded else criterion.on_scores).rule
    if rule is None or (not bounded and (criterion.asks_bounds or rule.margin < 0.0)):
        return None
    tolerance = float(rule.tolerance[0]) if bounded and len(rule.tolerance) else -1.0
    asked = rule.by_bound and bounded, rule.margin >= 0.0, tolerance >= 0.0
    return *asked, rule.threshold, rule.margin, tolerance


def _ordinary(given: Any) -> Any:
    """An argument as kernels take it at once: the dtype of an array that was pickled is a copy."""
    return given.view(np.dtype(given.dtype.name)) if isinstance(given, np.ndarray) else given
