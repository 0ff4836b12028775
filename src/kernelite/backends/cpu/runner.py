"""Runs a cascade over many rows, block by block: memory is bounded whatever their number.

For one output, and for labels from pairs, blocks are large, and the engines share each block's rows
among threads. More is done with each block for votes and values of several outputs: if there is a
block for each thread, a thread takes a block through the whole cascade, from the check of the rows
to the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.approximation import FirstForms
from kernelite.backends.cpu.exact import ExactEngine, FewerDigits
from kernelite.backends.cpu.fused_pairs import WinnersPairs
from kernelite.backends.cpu.local import NearCenters
from kernelite.backends.cpu.one_pass import Finish
from kernelite.backends.cpu.parts import PartRows
from kernelite.backends.cpu.passing import Passing
from kernelite.backends.cpu.rows import (
    MappedRows,
    OutsideRows,
    blocks_of,
    damp_one,
    damped,
    keep_pages,
)
from kernelite.backends.cpu.threads import map_blocks, thread_count
from kernelite.data.rows.inputs import (
    FloatArray,
    Rows,
    check_finite,
    dense_block,
    is_sparse,
    row_blocks,
    row_part,
)
from kernelite.machine.machine import PolynomialTail
from kernelite.machine.preparation import NO_STEPS, Preparation
from kernelite.program.bounded import (
    EXACT_QUICK,
    EXACT_SINGLE,
    Bounded,
    Stats,
    Tally,
    spelled_out,
)
from kernelite.program.cascade import Cascade
from kernelite.program.criteria import Criterion
from kernelite.support.records import dataclass

__all__ = ["Finish", "Runner"]

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Runner:
    """Stages made ready to run, behind a map of the inputs.

    Parameters
    ----------
    cascade : Cascade
    n_outputs : int
        k.
    exact : ExactEngine, optional
        Where the exact model is at hand.
    preparation : Preparation
        What blocks of rows go through before.
    tail : PolynomialTail, optional
        A polynomial of the rows that is added to the scores.
    parts : tuple of Runner
        Of a sum: what maps the rows of each part.
    forms : FirstForms, optional
        The first stage, where it is one of forms.
    first : FirstForms or FewerDigits, optional
        The first stage, where one pass may take rows through it.
    near : NearCenters, optional
        The first stage, where it is this one.
    pairs : WinnersPairs, optional
        Likewise.
    together : tuple of FewerDigits
        Of a sum whose parts see the same rows: what takes one row through all of them in one call.
    """

    cascade: Cascade
    n_outputs: int
    exact: ExactEngine | None = None
    preparation: Preparation = NO_STEPS
    tail: PolynomialTail | None = None
    parts: tuple[Runner, ...] = ()
    forms: FirstForms | None = None
    first: FirstForms | FewerDigits | None = None
    near: NearCenters | None = None
    pairs: WinnersPairs | None = None
    together: tuple[FewerDigits, ...] = ()

    # Blocks of rows ---------------------------------------------------------------------------

    def run(
        self, rows: Any, finish: Finish, criterion: Criterion | None, counted: bool = True
    ) -> tuple[NDArray[Any], Stats]:
        """Answers of all rows: scores block by block, each finished at once.

        Parameters
        ----------
        rows : ndarray, csr_array, OutsideRows or PartRows of shape (m, d)
        finish : callable
            Turns scores of shape (m, k) into answers.
        criterion : Criterion, optional
            Which rows need no further stage; None accepts the first one's scores.
        counted : bool
            Whether statistics are asked for: for few rows, they take as long as all else in Python.
        """
        if self._passing is not None and type(rows) is np.ndarray:
            passed = self._passing.run(rows, finish, criterion, counted)
            if passed is not None:
                return passed
        blocks = self._blocks(rows, criterion)
        if len(blocks) == 1:
            tally = Tally(self.cascade.names)
            answers = self._answers(rows, blocks[0], finish, criterion, None, tally)
            return answers, tally.stats()
        scores = np.empty((0, self.n_outputs))
        shown = finish(scores)  # what answers look like
        out = np.empty((rows.shape[0], *shown.shape[1:]), dtype=shown.dtype)
        as_they_are = shown is scores  # so scores may be put there at once
        if as_they_are:
            blocks = self._blocks(rows, criterion, straight=True)

        def answered(block: slice) -> Stats:
            into, tally = out[block] if as_they_are else None, Tally(self.cascade.names)
            answers = self._answers(rows, block, finish, criterion, into, tally)
            if answers is not into:
                out[block] = answers
            return tally.stats()

        return out, sum(self._each_block(answered, blocks, criterion), Stats())

    @cached_property
    def _passing(self) -> Passing | None:
        """What takes dense rows through the first stage in one pass, where it may."""
        return Passing.of(self)

    def _answers(
        self,
        rows: Any,
        block: slice,
        finish: Finish,
        criterion: Criterion | None,
        into: FloatArray | None,
        tally: Tally,
    ) -> NDArray[Any]:
        """Answers of one block; scores that are answers may be put `into` an array."""
        return _finished(self.evaluate(rows, block, criterion, into, tally), finish, criterion)

    def _each_block(
        self,
        function: Callable[[slice], Result],
        blocks: Sequence[slice],
        criterion: Criterion | None,
    ) -> list[Result]:
        """What a function makes of each block: threads take blocks, or share each block's rows.

        They share rows where engines alone take long, and where some threads would have no block.
        """
        if self._shares_rows(criterion) or len(blocks) < thread_count():
            return [function(block) for block in blocks]
        return map_blocks(function, blocks)

    def evaluate(
        self,
        rows: Any,
        block: slice,
        criterion: Criterion | None,
        into: FloatArray | None = None,
        tally: Tally | None = None,
    ) -> Bounded:
        """Scores, bounds and stages of a block; scores may be put `into` an array."""
        keep_pages()
        cascade = self._damped if isinstance(rows, OutsideRows) else self.cascade
        into = into if self.tail is None else None
        tally = Tally(cascade.names) if tally is None else tally
        found = cascade.run(self.seen(rows, block), criterion, tally, into)
        if not tally.finite:
            self._check_finite(found, rows, block)
        if self.tail is not None:
            # Values are settled by their bounds alone, so the polynomial may come after.
            values, rounding = self.tail.values(dense_block(rows, block))
            found.scores[...] += values
            if found.bounds is not None:
                found = found._replace(bounds=spelled_out(found.bounds) + rounding)
        return found

    def map_blocks(
        self, rows: Any, criterion: Criterion | None, function: Callable[[Bounded], NDArray[Any]]
    ) -> NDArray[Any]:
        """What a function makes of all that is known of each block, in one array."""
        return self._joined(
            rows, criterion, lambda block: function(self.evaluate(rows, block, criterion))
        )

    def decided(self, rows: Any, criterion: Criterion) -> NDArray[np.bool_]:
        """Rows whose answer the criterion accepts, whichever stage gave it: shape (m,)."""

        def settled(block: slice) -> NDArray[np.bool_]:
            found = self.evaluate(rows, block, criterion).settled
            assert found is not None
            return found

        return self._joined(rows, criterion, settled)

    def bounds(self, rows: Any, criterion: Criterion | None = None) -> FloatArray:
        """How far the score of each row may be off under the rule that serves it: (m, k)."""
        found = self._joined(
            rows, criterion, lambda block: self._block_bounds(rows, block, criterion)
        )
        return np.where(np.isnan(found), np.inf, found)  # of sums that overflowed

    def valid(self, rows: Any) -> NDArray[np.bool_]:
        """Rows inside the paper's validity bound, shape (m,)."""

        def inside(block: slice) -> NDArray[np.bool_]:
            found = self.evaluate(rows, block, None)
            if found.valid is not None:
                return found.valid
            if found.sq_norms is None or self.forms is None:
                return np.ones(block.stop - block.start, dtype=np.bool_)
            return np.asarray(found.sq_norms < self.cascade.farthest)

        return self._joined(rows, None, inside)

    def each(self, rows: Any, answer: Callable[..., NDArray[Any]], block: int) -> NDArray[Any]:
        """Answers of a function of mapped rows, taken so many at a time.

        Where there are several parts, it is called with the rows of each.
        """
        blocks = list(row_blocks(rows.shape[0], block)) or [slice(0, 0)]
        return np.concatenate(map_blocks(lambda some: answer(*self.dense(rows, some)), blocks))

    # One row ----------------------------------------------------------------------------------

    def run_one(
        self, row: Any, finish: Finish, criterion: Criterion | None
    ) -> tuple[NDArray[Any], Stats] | None:
        """The answer for a single row of shape (1, d), if it can be had at once; else None.

        The low-latency path: no block, no counts, no repeated checks. What it does not settle
        (an open row, one outside validity, NaN) `run` answers or refuses.
        """
        if self.together:
            return self._one_together(row, finish, criterion)
        start = 0
        if self._passing is not None and type(row) is np.ndarray:
            answer, start = self._passing.run_one(row, finish, criterion)
            if answer is not None or start < 0:
                return answer
        if criterion is None or not self._takes_one:
            return None
        cascade = self.cascade
        if type(row) is not np.ndarray:
            if not isinstance(row, OutsideRows):
                return None
            label = self._one_outside(row, finish, criterion)
            if label is not None:
                return label, self._one_stats[0]
            row, cascade = self.seen(row, slice(0, 1)), self._damped
        elif (input_map := self.preparation.input_map) is not None:
            row = input_map(row)
        answered = cascade.one(row, criterion, start)
        if answered is None:
            return None
        found, number = answered
        return _finished(found, finish, criterion), self._one_stats[number]

    def _one_outside(
        self, row: OutsideRows, finish: Finish, criterion: Criterion
    ) -> NDArray[Any] | None:
        """The label of a row that is wider than the model, where the first stage proves it."""
        front = None if self._passing is None else self._passing.front(finish, criterion)
        if front is None or front.labels is None or not front.proves_signs:
            return None
        found = front.score(row.rows)
        if found is None:
            return None
        score, bound = damp_one(*found, self._served.gamma, self._served.intercept.item(), row)
        return front.labels.one(score) if abs(score - front.labels.threshold) > bound else None

    def _one_together(
        self, row: FloatArray, finish: Finish, criterion: Criterion | None
    ) -> tuple[NDArray[Any], Stats] | None:
        """Of several parts that see the same row: all of them in one call."""
        if criterion is None or self.preparation.before_map.steps:
            return None
        for preparation in (self.preparation, self.parts[0].preparation):
            if (input_map := preparation.input_map) is not None:
                row = input_map(row)
        rows = PartRows((row,))
        for stage in self.together:
            found = stage.run(rows, criterion)
            seen = None if found is None else self.cascade.judge(criterion, found, np.inf)
            if found is not None and seen is not None and seen.finite and not seen.n_open:
                return finish(found.scores), ONE_TOGETHER[stage.name]
        return None

    @cached_property
    def _takes_one(self) -> bool:
        """Whether single rows have a path of their own."""
        steps = bool(self.preparation.before_map.steps) or self.tail is not None or bool(self.parts)
        if steps or self.near is not None:
            return False
        return self.forms is not None or (self.exact is not None and self.exact.by_panels)

    @cached_property
    def _one_stats(self) -> list[Stats]:
        return [Stats(1, {name: 1}) for name in self.cascade.names]

    # Rows as the stages take them ---------------------------------------------------------------

    def seen(self, rows: Any, block: slice) -> Any:
        """A block behind its preparation; mapped just before a single form reads it, if dense."""
        if self.together and self._exact_alone_parts:
            one = dense_block(self.parts[0].mapped(rows.rows[0], block), slice(None))
            return PartRows((one,) * len(self.parts))
        if self.parts:
            own = zip(self.parts, rows.rows)
            return PartRows(tuple(part.mapped(each, block) for part, each in own))
        if isinstance(rows, OutsideRows):
            inner = self.mapped(rows.rows, block)
            return OutsideRows(inner, rows.sq_norms[block], rows.error)
        input_map, before = self.preparation.input_map, self.preparation.before_map
        late = self.forms is not None and not before.steps and not is_sparse(rows)
        if late and input_map is not None:
            return MappedRows(dense_block(rows, block), input_map)
        return self.mapped(rows, block)

    def mapped(self, rows: Rows, block: slice) -> Rows:
        """Sparse if the first stage may take it so."""
        part = row_part(rows, block)
        if self.preparation.steps:
            part = self.preparation.apply(part)
        takes_sparse = self.exact_alone and self.exact is not None and self.exact.takes_sparse
        if self.forms is not None or takes_sparse:
            return part
        return dense_block(part, slice(None))

    def dense(self, rows: Any, block: slice) -> tuple[FloatArray, ...]:
        """Some of the rows as each expansion sees them: mapped, and dense."""
        if self.parts:
            each = zip(self.parts, rows.rows)
            return tuple(seen for part, own in each for seen in part.dense(own, block))
        return (dense_block(self.mapped(self._given(rows)[0], block), slice(None)),)

    def _check_finite(self, found: Bounded, rows: Any, block: slice) -> None:
        """Refuse rows that are not finite, where |u|^2 does not show that they are."""
        # Parts that were summed together have one result, and the same rows.
        for part, own in zip(found.parts or (found,), self._given(rows)):
            squares = part.sq_norms if found.parts else None
            if squares is None or not np.isfinite(squares.sum()):
                check_finite(row_part(own, block), first_row=block.start)

    def _given(self, rows: Any) -> tuple[Rows, ...]:
        """The rows of each part, or of the one machine that there is, as they came."""
        if self.parts:
            return tuple(rows.rows)
        return (rows.rows if isinstance(rows, OutsideRows) else rows,)

    @cached_property
    def _damped(self) -> Cascade:
        """The stages for rows with features beyond the width."""
        form = None if self.forms is None else self.forms.engine.approximation.form
        return damped(self.cascade, self._served.gamma, self._served.intercept, form)

    @cached_property
    def _served(self) -> Any:
        """What has gamma and intercept: the expansion, or the form where there is none."""
        if self.exact is not None:
            return self.exact.expansion
        assert self.forms is not None
        return self.forms.engine.approximation.form

    # Sizes of blocks, and bounds ------------------------------------------------------------------

    @cached_property
    def _exact_alone_parts(self) -> bool:
        return all(part.exact_alone for part in self.parts)

    @cached_property
    def exact_alone(self) -> bool:
        """Whether no stage comes before the exact ones."""
        return not self.parts and self.forms is None and self.near is None

    def _shares_rows(self, criterion: Criterion | None) -> bool:
        """Whether engines give the rows of a block to threads, and nothing else takes long."""
        return self.n_outputs == 1 or self._by_pairs(criterion)

    def _by_pairs(self, criterion: Criterion | None) -> bool:
        return self.pairs is not None and self.pairs.serves(criterion)

    def _joined(
        self,
        rows: Any,
        criterion: Criterion | None,
        function: Callable[[slice], NDArray[Any]],
    ) -> NDArray[Any]:
        """What a function makes of each block, in one array."""
        blocks = self._blocks(rows, criterion)
        return np.concatenate(self._each_block(function, blocks, criterion))

    def _blocks(
        self, rows: Any, criterion: Criterion | None, *, straight: bool = False
    ) -> list[slice]:
        values = criterion is not None and criterion.sufficient_bounds is not None
        exact = self.forms is None and not self.parts
        outputs = 1 if self._by_pairs(criterion) else max(self.n_outputs, 1)
        return blocks_of(rows.shape, outputs, exact=exact, straight=straight, values=values)

    def _block_bounds(self, rows: Any, block: slice, criterion: Criterion | None) -> FloatArray:
        for own in self._given(rows):
            check_finite(row_part(own, block), first_row=block.start)
        cascade = self._damped if isinstance(rows, OutsideRows) else self.cascade
        bounds = cascade.bounds(self.seen(rows, block), criterion)
        if self.tail is not None:  # it is added to whatever served the row
            bounds = bounds + self.tail.values(dense_block(rows, block))[1]
        return bounds


def _finished(found: Bounded, finish: Finish, criterion: Criterion | None) -> NDArray[Any]:
    """Answers from winners, where a stage found these, else from scores."""
    if found.winners is None:
        return finish(found.scores)
    assert criterion is not None
    assert criterion.voting_classes is not None
    answers: NDArray[Any] = criterion.voting_classes[found.winners]
    if len(answers) != 1 or found.winners[0] < 0:
        open_rows = np.flatnonzero(found.winners < 0)
        answers[open_rows] = finish(found.scores[open_rows])
    return answers


ONE_TOGETHER = {name: Stats(1, {name: 1}) for name in (EXACT_SINGLE, EXACT_QUICK)}
