"""Rows of one output through the first stage in one pass, then what settles those that stay open.

In: dense rows. Out: answers and statistics. A pass may have open rows settled in its own call, by a
second form and by sums (`OnePass.then`). What is left then goes through the cascade's stages.
"""

from __future__ import annotations

from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from kernelite.backends.cpu.approximation import FirstForms
from kernelite.backends.cpu.exact import FewerDigits
from kernelite.backends.cpu.fused_sums import PanelSums
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.one_pass import (
    MOST_CRITERIA,
    Finish,
    OnePass,
    Passed,
    SignLabels,
    SumsPass,
    open_rows,
)
from kernelite.backends.cpu.rows import BLOCK_ELEMENTS
from kernelite.data.rows.inputs import FloatArray
from kernelite.program.bounded import EXACT_SINGLE, FULL, NOT_COUNTED, THIRD, Stats, Tally
from kernelite.program.criteria import Criterion

if TYPE_CHECKING:
    from kernelite.backends.cpu.runner import Runner

__all__ = ["PASSED_OVER", "Passing"]

PASSED_OVER = 1 << 18  # numbers of all centers: some twenty microseconds of a thread's sums


class Passing:
    """The passes of a runner's first stage, one for each criterion that was asked for.

    Parameters
    ----------
    runner : Runner
    first : FirstForms or FewerDigits
        Its first stage.
    """

    def __init__(self, runner: Runner, first: FirstForms | FewerDigits) -> None:
        self.runner, self.first = runner, first
        self.input_map = runner.preparation.input_map
        self.names = runner.cascade.names
        self.known: dict[tuple[Criterion | None, SignLabels | None], OnePass | None] = {}

    @classmethod
    def of(cls, runner: Runner) -> Passing | None:
        """None where rows need more than a map before, or scores more than labels after."""
        if runner.first is None or runner.n_outputs != 1 or not jit_available():
            return None
        if runner.tail is not None or runner.preparation.before_map.steps:
            return None
        return cls(runner, runner.first)

    def front(self, finish: Finish, criterion: Criterion | None) -> OnePass | None:
        """The pass whose answers `finish` gives; None where there is none."""
        labels = finish if isinstance(finish, SignLabels) else None
        try:
            return self.known[criterion, labels]
        except KeyError:
            if len(self.known) >= MOST_CRITERIA:
                self.known.clear()
            found = self.first.one_pass(self.input_map, criterion, labels)
            if found is not None:
                found.then = self._sums(criterion, labels)
            self.known[criterion, labels] = found
            return found

    def run(
        self, rows: FloatArray, finish: Finish, criterion: Criterion | None, counted: bool
    ) -> tuple[NDArray[Any], Stats] | None:
        """As `Runner.run`; None where no pass serves, or where a row may not be finite."""
        front = self.front(finish, criterion)
        if front is None or not len(rows) or not front.helps(rows):
            return None
        started = perf_counter()
        found = front.run(rows)
        if found.unknown:
            return None
        if not counted and not found.n_open:
            return front.answers(found, finish), NOT_COUNTED
        tally = Tally(self.names)
        tally.seconds[0] = perf_counter() - started
        settled = found.second + found.summed
        if found.n_open:
            self._answer_left(front, found, rows, criterion, tally)
        # After the stages, which count the rows that they are given as rows of a call.
        tally.rows, tally.outside = len(rows), found.outside
        tally.answered[0] += len(rows) - found.n_open - settled
        if settled:
            assert front.then is not None
            tally.answered[front.then.number] += found.summed
            tally.answered[front.then.number - 1] += found.second
        return front.answers(found, finish), tally.stats()

    def run_one(
        self, row: FloatArray, finish: Finish, criterion: Criterion | None
    ) -> tuple[tuple[NDArray[Any], Stats] | None, int]:
        """The answer of one row; else None, and the first stage that may find it: -1 for none."""
        front = self.front(finish, criterion)
        values = criterion is not None and not criterion.labels_alone
        if front is None or (values and front.in_vain):  # stages evaluate forms for their bounds
            return None, 0
        answer, goes_on, stage = front.one(row, finish)
        if answer is not None:
            return (answer, self.one_stats[stage]), 0
        if not goes_on or criterion is None or not criterion.labels_alone:
            return None, 0 if goes_on else -1
        sums, joined = front.then, front.joins(1)
        if sums is None or (not joined and sums.after_second(1)):
            return None, 1
        if not joined:
            answer, _, _ = sums.one(row, finish)
            if answer is not None:
                return (answer, self.one_stats[sums.number]), 0
        return None, sums.number + 1

    @cached_property
    def one_stats(self) -> list[Stats]:
        """Of one row, by the stage that answers it."""
        return [Stats(1, {name: 1}) for name in self.names]

    def _answer_left(
        self,
        front: OnePass,
        found: Passed,
        rows: FloatArray,
        criterion: Criterion | None,
        tally: Tally,
    ) -> None:
        """Put the answers of rows that a pass left open in their places."""
        sums, start = front.then, 1
        if sums is not None and (found.joined or sums.after_second(found.n_open)):
            start = sums.number + 1 if found.joined else 1
            sums = None
        for index, some in open_rows(rows, found, max(64, BLOCK_ELEMENTS // rows.shape[1])):
            begin = start
            if sums is not None and sums.helps(some):
                started = perf_counter()
                then = sums.run(some)
                tally.seconds[sums.number] += perf_counter() - started
                if not then.unknown:
                    tally.answered[sums.number] += len(index) - then.n_open
                    found.labels[index] = then.labels
                    if not then.n_open:
                        continue
                    index, some = index[then.is_open], some[then.is_open]
                    begin = sums.number + 1
            scores = self._scores_left(some, criterion, tally, begin)
            if front.labels is None:
                found.scores[index] = scores
            else:
                found.labels[index] = front.labels.words_of(scores)

    def _scores_left(
        self, rows: FloatArray, criterion: Criterion | None, tally: Tally, start: int
    ) -> FloatArray:
        """Scores of rows that the stages before `start` left open."""
        runner, whole = self.runner, slice(0, len(rows))
        if criterion is not None and criterion.labels_alone and runner.cascade.answers_all:
            seen = runner.mapped(rows, whole)
            return runner.cascade.labels_left(seen, criterion, tally, start)
        return runner.evaluate(rows, whole, criterion, None, tally).scores

    def _sums(self, criterion: Criterion | None, labels: SignLabels | None) -> SumsPass | None:
        """Single precision behind forms, for labels of rows that these left open.

        None where rows are not summed up in panels, or other stages come before.
        """
        engine, names, forms = self.runner.exact, self.names, self.runner.forms
        if criterion is None or not criterion.labels_alone or labels is None:
            return None
        if forms is None or engine is None or engine.sparse is not None:
            return None
        if EXACT_SINGLE not in names:
            return None
        number, sums = names.index(EXACT_SINGLE), engine.for_open_labels
        between = names[1:number]
        if not isinstance(sums, PanelSums) or any(name not in (FULL, THIRD) for name in between):
            return None
        found = SumsPass.of(sums, self.input_map, criterion, labels)
        if found is not None and between:
            found.second = forms.engine.inside_second(engine.n_numbers)
            found.most_rows = PASSED_OVER // engine.n_numbers
        if found is not None:
            found.number = number
        return found
