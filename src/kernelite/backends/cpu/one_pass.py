"""Rows to answers in one pass: what the first stage of one output finds is judged on the way.

While a tile of rows is in cache, the kernel of a form gives scores and bounds, asks the criterion's
rule whether these settle the row, and writes the label, or the score, and whether the row stays
open: nothing else of a row goes to memory. Rows that it leaves open may be summed in the same call
(`kernels.judging`). Exact sums in single precision take much longer than that, so where they come
first, a second call judges what they found. Threads take rows inside compiled code.

Rows that stay open go through the cascade, whose stages and criteria are the twin of all this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.forms import FormEngine
from kernelite.backends.cpu.fused_sums import NO_SQUARES, PanelSums
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.rows import MappedRows
from kernelite.backends.cpu.threads import LITTLE, share_rows, thread_count
from kernelite.data.rows.inputs import FloatArray, row_blocks
from kernelite.machine.affine import AffineMap
from kernelite.machine.heads import Head
from kernelite.machine.heads.base import BySign
from kernelite.program.criteria import Criterion

if TYPE_CHECKING:
    from kernelite.backends.cpu.kernels.judging import Link

__all__ = [
    "ALWAYS_PROBED",
    "MOST_CRITERIA",
    "Finish",
    "FormPass",
    "OnePass",
    "Passed",
    "SignLabels",
    "SumsPass",
    "labels_of",
    "open_rows",
    "rule_numbers",
]

PROBED_FROM, ALWAYS_PROBED = 512, 1 << 14  # rows of a batch from which some of them are probed
MOST_CRITERIA = 16  # of which something is kept, since some are made anew for each call
LISTED_AT_ONCE = 1 << 13  # rows of which those that stay open are found by one thread
PASS_TILE_ROWS = 64  # that a form takes at once, and a thread at least
JUDGED_ROWS = 1 << 16  # of sums: so many scores and bounds stay in cache until they are judged
RESTED_CALLS = 16  # for which sums that settled few open rows are left out, before they are tried
SECOND_FORMS_GAIN = 8  # times as many rows as sums settle: it fills vectors with rows
COUNTS = 5  # numbers that a call counts: three of `Passed`, then rows that others settled
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
        plain = not labels.dtype.hasobject and labels.dtype.itemsize
        self.as_bytes = labels.view(np.uint8).reshape(2, -1) if plain else None

    def __call__(self, scores: FloatArray) -> NDArray[Any]:
        """The labels of scores of shape (m, 1)."""
        if len(scores) == 1:
            return self.one(scores.item())
        return self.of_words(self.words_of(scores))

    def of_words(self, found: NDArray[np.int64]) -> NDArray[Any]:
        """The labels that words stand for, each of shape (m,)."""
        if self.as_words:
            return found.view(self.labels.dtype)
        if len(found) == 1:
            first = found.item()
            return self.labels[first : first + 1].copy()
        if self.as_bytes is None:
            return self.labels.take(found)
        from kernelite.backends.cpu.kernels.judging import ROWS_PER_THREAD, spell_rows

        out, width = np.empty(len(found), self.labels.dtype), self.labels.dtype.itemsize
        spelled = out.view(np.uint8).reshape(len(found), width)
        least = max(PASS_TILE_ROWS, ROWS_PER_THREAD // width)
        share_rows(spell_rows, len(found), least, found, self.as_bytes, spelled, held=least)
        return out

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
    summed, second : int
        Rows that the first stage left open, and that sums settled, or a second form.
    joined : bool
        Whether sums had their turn.
    """

    labels: NDArray[np.int64]
    scores: FloatArray
    is_open: NDArray[np.bool_]
    n_open: int
    outside: int
    unknown: int
    summed: int = 0
    second: int = 0
    joined: bool = False


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
    then: SumsPass | None = None  # what may settle rows that stay open
    in_vain = False  # whether it settles too few rows, unless many show that it settles more

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

    def run(self, rows: FloatArray) -> Passed:
        """Answers of dense rows, and which of them stay open."""
        joined, m = self.joins(len(rows)), len(rows)
        counts, is_open = np.zeros(COUNTS, np.int64), np.empty(m, np.bool_)
        if self.labels is None:
            labels, scores = NO_LABELS, np.empty((m, 1))
        else:
            labels, scores = np.empty(m, np.int64), NO_SCORES
        self.fill(rows, joined, counts, labels, is_open, scores)
        n_open, outside, unknown, summed, second = counts.tolist()
        n_open -= summed + second
        return Passed(labels, scores, is_open, n_open, outside, unknown, summed, second, joined)

    def fill(self, rows: FloatArray, joined: bool, *out: Any) -> None:
        """Fill counts, labels, what is open, and scores; those of no length are not asked for.

        `joined`: open rows are settled within the same call, as `joins` says that they can be.
        """
        raise NotImplementedError

    def joins(self, rows: int) -> bool:
        """Whether open ones of so many rows are settled within the same call."""
        return False

    def one(self, row: FloatArray, finish: Finish) -> tuple[NDArray[Any] | None, bool, int]:
        """The answer of one row, or None; whether, if so, other stages may answer it; and which
        stage found it.

        They do not where it may not be finite, or lies outside and nothing else is promised.
        """
        found = self.run(row)
        if found.unknown or (found.outside and not any(self.numbers[:3])):
            return None, False, 0
        if found.n_open:
            return None, True, 0
        return self.answers(found, finish), True, self.stage_of_one(found.summed, found.second)

    def stage_of_one(self, summed: int, second: int) -> int:
        """The number of the stage that settled one row."""
        return 0 if self.then is None else self.then.number * summed + second

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
        return finish(found.scores) if self.labels is None else self.labels.of_words(found.labels)

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

    def run(self, rows: FloatArray) -> Passed:
        """As `OnePass.run`."""
        found = super().run(rows)
        if not found.joined:
            self._rest()
        if len(rows) >= PASS_TILE_ROWS:
            self.share_open = (found.n_open + found.summed + found.second) / len(rows)
            if found.joined and self.then is not None:
                self.then.joined(found)
        return found

    def fill(self, rows: FloatArray, joined: bool, *out: Any) -> None:
        """As `OnePass.fill`."""
        behind, held = self._behind(joined), self.least_rows
        given = rows, *self.fixed, *behind, *out, *self.unused
        if self.least_rows <= PASS_TILE_ROWS:
            share_rows(self.kernel, len(rows), held, *given)
            return
        if joined and self.then is not None:
            held = int(1.0 / (1.0 / held + self.share_open / self.then.held_rows))
        share_rows(self.kernel, len(rows), PASS_TILE_ROWS, *given, held=held)

    def helps(self, rows: FloatArray) -> bool:
        """As `OnePass.helps`."""
        if self.probed and len(rows) < ALWAYS_PROBED:
            return not self.in_vain
        return super().helps(rows)

    def _behind(self, joined: bool) -> tuple[Any, Any]:
        return NO_SUMS if self.then is None or not joined else self.then.behind

    def joins(self, rows: int) -> bool:
        """As `OnePass.joins`."""
        then = self.then
        if then is None or then.rests or then.sums.inside is None:
            return False
        return then.second is not None or not then.after_second(rows)

    def _rest(self) -> None:
        """Count a call in which open rows were not settled."""
        if self.then is not None:
            self.then.rests = max(self.then.rests - 1, 0)

    def one(self, row: FloatArray, finish: Finish) -> tuple[NDArray[Any] | None, bool, int]:
        """As `OnePass.one`, with nothing between the arrays and the kernel."""
        own = self.labels
        if own is None or not self.held:
            return super().one(row, finish)
        counts, words = np.zeros(COUNTS, np.int64), np.empty(1, np.int64)
        joined, is_open = self.joins(1), np.empty(1, np.bool_)
        if not joined:
            self._rest()
        behind = self._behind(joined)
        given = row, *self.fixed, *behind, counts, words, is_open, NO_SCORES
        self.kernel.shared(-1, 0, 0, *given, *self.unused)
        n_open, outside, unknown, summed, second = counts.tolist()
        if unknown or (outside and not any(self.numbers[:3])):
            return None, False, 0
        if n_open > summed + second:
            return None, True, 0
        return own.of_words(words), True, self.stage_of_one(summed, second) if n_open else 0

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
    number = 0  # of its stage
    second: Link | None = None  # a second form that comes before, in the same call
    most_rows: int | None = None  # per thread, that need not see a second form first; None: all

    def __init__(self, sums: PanelSums, input_map: AffineMap | None, *judged: Any) -> None:
        from kernelite.backends.cpu.kernels.judging import ROWS_PER_THREAD, judge_rows

        super().__init__(*judged)
        self.sums, self.input_map, self.known, self.rests = sums, input_map, False, 0
        self.judge, self.judged_per_thread = judge_rows, ROWS_PER_THREAD

    def run(self, rows: FloatArray) -> Passed:
        """As `OnePass.run`."""
        found = super().run(rows)
        if len(rows) >= self.probed:
            self.known = self.settles(found)
            self.rests = 0 if self.known else RESTED_CALLS
        return found

    @cached_property
    def behind(self) -> tuple[NDArray[np.int64], FloatArray]:
        """What the kernel of a form takes that has rows which it leaves open settled by this."""
        inside = self.sums.inside
        assert inside is not None
        if self.second is not None:
            inside = inside.after(self.second)
        return inside.told, self.judged[0]

    def after_second(self, rows: int) -> bool:
        """Whether a second form should see so many rows first: few are summed in less time."""
        return self.most_rows is not None and rows > self.most_rows * thread_count()

    @cached_property
    def held_rows(self) -> float:
        """Open rows that are settled in the time for which the interpreter's lock is kept."""
        return self.sums.held_rows * (1.0 if self.second is None else SECOND_FORMS_GAIN)

    def joined(self, found: Passed) -> None:
        """Remember whether it settled enough of what forms left open."""
        if (tried := found.n_open + found.summed) >= self.probed:
            pays = found.n_open <= (1.0 - self.least_settled) * tried
            self.rests = 0 if pays else RESTED_CALLS

    def helps(self, rows: FloatArray) -> bool:
        """As `OnePass.helps`."""
        return (self.known and len(rows) < ALWAYS_PROBED) or super().helps(rows)

    def one(self, row: FloatArray, finish: Finish) -> tuple[NDArray[Any] | None, bool, int]:
        """As `OnePass.one`: numbers are judged here, which is quicker than by a kernel."""
        known = self.score(row)
        if known is None:
            return None, False, 0
        found, error = known
        by_bound, by_margin, by_tolerance, threshold, margin, tolerance = self.numbers
        away = abs(found - threshold)
        if (by_bound and not away > error) or (by_margin and not away > margin):
            return None, True, 0
        if by_tolerance and not error <= tolerance:
            return None, True, 0
        assert self.labels is not None
        return self.labels.one(found), True, 0

    def score(self, row: FloatArray) -> tuple[float, float] | None:
        """As `OnePass.score`."""
        score, bound = np.empty((1, 1)), np.empty((1, 1))
        if self.input_map is not None:
            row = self.input_map(row)
        self.sums.fill(row, score, bound, NO_SQUARES)
        error = bound.item()
        return (score.item(), error) if error < np.inf else None

    def fill(self, rows: FloatArray, joined: bool, *out: Any) -> None:
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
