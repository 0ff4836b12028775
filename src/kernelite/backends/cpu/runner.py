"""Runs a cascade over many rows, block by block: memory is bounded whatever their number.

Of one output, a block is large, and the engines share it out: all that is left for one thread is a
few operations per row. Votes and values of several outputs take longer than that: there threads
take whole blocks through the whole cascade, from the check of the rows to the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from time import perf_counter
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.exact import (
    DoublePrecision,
    ExactEngine,
    QuickExponentials,
    SinglePrecision,
)
from kernelite.backends.cpu.fused_pairs import FusedPairs
from kernelite.backends.cpu.fused_parts import PartsLayout
from kernelite.backends.cpu.local import LocalEngine, NearCenters
from kernelite.backends.cpu.mapped import MappedRows
from kernelite.backends.cpu.outside import OutsideRows, damped
from kernelite.backends.cpu.sums import (
    PartRows,
    PartStages,
    PartsTogether,
    sum_stages,
    together_stages,
)
from kernelite.backends.cpu.threads import map_blocks, thread_count
from kernelite.backends.cpu.tiers import FirstForms, FormStages, form_stages
from kernelite.data.rows.inputs import (
    FloatArray,
    Rows,
    check_finite,
    dense_block,
    is_sparse,
    row_blocks,
    row_part,
)
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.polynomial_term import PolynomialTail
from kernelite.machine.preparation import NO_STEPS, Preparation
from kernelite.program.bounded import PAIRS, QUICK, SINGLE, Bounded, Stats, spelled_out
from kernelite.program.cascade import Cascade, Stage, holds
from kernelite.program.criteria import Criterion, never
from kernelite.series.cells import Approximation, LocalSums
from kernelite.support.records import dataclass

__all__ = ["Finish", "Runner"]

BLOCK_ELEMENTS = 1 << 21  # numbers of one block of rows: 16 MB
# The exact engine is slow enough for small blocks, whose scores need no fresh pages.
EXACT_ELEMENTS, FEWEST_ROWS = 1 << 17, 512
MOST_LABELS = 1 << 13  # of a block of which only labels are found
MOST_SCORES = 1 << 16  # of a block: so that scores and bounds stay in cache too
# A thread takes so many rows or more through the whole cascade, since each block costs some time
# that other threads wait for.
SHARED_ROWS = 4096

Finish: TypeAlias = Callable[[FloatArray], NDArray[Any]]
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
    near : NearCenters, optional
        The first stage, where it is this one.
    together : tuple of PartsTogether
        Of a sum whose parts see the same rows: what takes one row through all of them in one call.
    """

    cascade: Cascade
    n_outputs: int
    exact: ExactEngine | None = None
    preparation: Preparation = NO_STEPS
    tail: PolynomialTail | None = None
    parts: tuple[Runner, ...] = ()
    forms: FirstForms | None = None
    near: NearCenters | None = None
    together: tuple[PartsTogether, ...] = ()

    @classmethod
    def prepare(
        cls,
        approximation: Approximation | None,
        expansion: KernelExpansion | None,
        preparation: Preparation = NO_STEPS,
        local: LocalSums | None = None,
        tail: PolynomialTail | None = None,
    ) -> Runner:
        """Lay out the stages: forms, near centers, single precision, doubles."""
        mapped = preparation.input_map is not None
        forms = () if approximation is None else form_stages(approximation)
        if expansion is None:
            assert forms
            cascade, k = Cascade(forms, answers_all=False), forms[0].approximation.form.n_outputs
            return cls(cascade, k, None, preparation, tail, forms=forms[0])
        near = None
        if local is not None and LocalEngine.serves(expansion):
            near = NearCenters(LocalEngine.prepare(expansion, local, mapped=mapped))
        engine = ExactEngine.prepare(expansion, mapped=mapped)
        return cls.with_engine(engine, forms, near, preparation, tail)

    @classmethod
    def with_engine(
        cls,
        engine: ExactEngine,
        forms: FormStages | tuple[()] = (),
        near: NearCenters | None = None,
        preparation: Preparation = NO_STEPS,
        tail: PolynomialTail | None = None,
    ) -> Runner:
        """Stages that the exact engine follows."""
        stages: list[Stage] = [*forms] if near is None else [*forms, near]
        k = engine.expansion.n_outputs
        if k == 1:
            values = not stages and tail is None
            stages += [SinglePrecision(engine, values), QuickExponentials(engine, values)]
        cascade = Cascade((*stages, DoublePrecision(engine)))
        first = forms[0] if forms else None
        near = None if forms else near
        return cls(cascade, k, engine, preparation, tail, forms=first, near=near)

    @classmethod
    def of_parts(
        cls,
        parts: Sequence[tuple[Runner, NDArray[np.int64], Criterion | None]],
        n_outputs: int,
        preparation: Preparation = NO_STEPS,
    ) -> Runner:
        """Machines whose scores are added up: each at its outputs, with what it has to decide.

        Blocks of rows come behind the `preparation` of the whole, a single row before it.
        """
        stages = [
            PartStages.of(
                *(runner.cascade, outputs, criterion),
                has_exact=runner.exact is not None,
                first=runner.forms,
                near=runner.near,
            )
            for runner, outputs, criterion in parts
        ]
        runners = tuple(runner for runner, _, _ in parts)
        together = together_stages(_together(runners, [one for _, one, _ in parts], n_outputs))
        exact = all(runner._exact_alone for runner in runners)
        first = together if exact else ()  # forms are faster, but not for one row
        cascade = Cascade((*first, *sum_stages(tuple(stages), n_outputs)))
        return cls(cascade, n_outputs, preparation=preparation, parts=runners, together=together)

    # Blocks of rows ---------------------------------------------------------------------------

    def run(
        self, rows: Any, finish: Finish, criterion: Criterion | None
    ) -> tuple[NDArray[Any], Stats]:
        """Answers of all rows: scores block by block, each finished at once.

        Parameters
        ----------
        rows : ndarray, csr_array, OutsideRows or PartRows of shape (m, d)
        finish : callable
            Turns scores of shape (m, k) into answers.
        criterion : callable, optional
            Which rows need no further stage; None accepts the first one's scores.
        """
        winners = self._winners(rows, criterion)
        if winners is not None:
            return self._labels(winners, rows, finish, criterion)
        return self._answers(rows, finish, criterion)

    def _answers(
        self, rows: Any, finish: Finish, criterion: Criterion | None
    ) -> tuple[NDArray[Any], Stats]:
        values = criterion is not None and criterion.sufficient_bounds is not None
        if len(blocks := self._blocks(rows, values=values)) == 1:
            return self._answer(rows, blocks[0], finish, criterion, None)
        scores = np.empty((0, self.n_outputs))
        shown = finish(scores)  # what answers look like
        out = np.empty((rows.shape[0], *shown.shape[1:]), dtype=shown.dtype)
        as_they_are = shown is scores  # so scores may be put there at once
        if as_they_are:
            blocks = self._blocks(rows, values=values, straight=True)

        def answered(block: slice) -> Stats:
            into = out[block] if as_they_are else None
            answers, stats = self._answer(rows, block, finish, criterion, into)
            if answers is not into:
                out[block] = answers
            return stats

        return out, sum(self._each_block(answered, blocks), Stats())

    def _each_block(
        self, function: Callable[[slice], Result], blocks: Sequence[slice]
    ) -> list[Result]:
        """What a function makes of each block, on several threads unless engines use them."""
        if self.n_outputs == 1:
            return [function(block) for block in blocks]
        return map_blocks(function, blocks)

    def _answer(
        self,
        rows: Any,
        block: slice,
        finish: Finish,
        criterion: Criterion | None,
        into: FloatArray | None,
    ) -> tuple[NDArray[Any], Stats]:
        """Answers of one block; scores that are answers may be put `into` an array."""
        seconds = np.zeros(len(self.cascade.stages))
        found = self.evaluate(rows, block, criterion, into, seconds)
        return finish(found.scores), self._count(found, seconds)

    def evaluate(
        self,
        rows: Any,
        block: slice,
        criterion: Criterion | None,
        into: FloatArray | None = None,
        seconds: FloatArray | None = None,
    ) -> Bounded:
        """Scores, bounds and stages of a block; scores may be put `into` an array."""
        cascade = self._damped if isinstance(rows, OutsideRows) else self.cascade
        into = into if self.tail is None else None
        found = cascade.run(self.seen(rows, block), criterion, seconds, into)
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
        return self._joined(rows, lambda block: function(self.evaluate(rows, block, criterion)))

    def decided(self, rows: Any, criterion: Criterion) -> NDArray[np.bool_]:
        """Rows whose answer the criterion accepts, whichever stage gave it: shape (m,)."""
        winners = self._winners(rows, criterion)

        def settled(block: slice) -> NDArray[np.bool_]:
            if winners is None:
                return self.evaluate(rows, block, criterion).settled  # type: ignore[return-value]
            found, still, exact = self._winners_of(winners, rows, block, criterion)
            out = np.asarray(found >= 0)
            if exact is not None:
                out[still] = holds(criterion, exact)
            return out

        return self._joined(rows, settled)

    def bounds(self, rows: Any, criterion: Criterion | None = None) -> FloatArray:
        """How far the score of each row may be off under the rule that serves it: (m, k)."""
        found = self._joined(rows, lambda block: self._block_bounds(rows, block, criterion))
        return np.where(np.isnan(found), np.inf, found)  # of sums that overflowed

    def valid(self, rows: Any) -> NDArray[np.bool_]:
        """Rows inside the paper's validity bound, shape (m,)."""

        def inside(block: slice) -> NDArray[np.bool_]:
            valid = self._valid(self.evaluate(rows, block, None))
            count = block.stop - block.start
            return np.ones(count, dtype=np.bool_) if valid is None else valid

        return self._joined(rows, inside)

    def _valid(self, found: Bounded) -> NDArray[np.bool_] | None:
        """Rows inside the validity bound; None where there is no form."""
        return found.valid if self.forms is None else self.forms.valid(found)

    def each(self, rows: Any, answer: Callable[..., NDArray[Any]], block: int) -> NDArray[Any]:
        """Answers of a function of mapped rows, taken so many at a time.

        Where there are several parts, it is called with the rows of each.
        """
        blocks = list(row_blocks(rows.shape[0], block)) or [slice(0, 0)]
        return np.concatenate(map_blocks(lambda some: answer(*self.dense(rows, some)), blocks))

    # One row ----------------------------------------------------------------------------------

    def run_one(
        self, row: FloatArray, finish: Finish, criterion: Criterion | None
    ) -> tuple[NDArray[Any], Stats] | None:
        """The answer for a single row of shape (1, d), if it can be had at once; else None.

        The low-latency path: no block, no counts, no repeated checks. What it does not settle
        (an open row, one outside validity, NaN) `run` answers or refuses.
        """
        if self.together:
            return self._one_together(row, finish, criterion)
        if not self._takes_one or (criterion is never and not self._exact_alone):
            return None
        if (input_map := self.preparation.input_map) is not None:
            row = input_map(row)
        if criterion is None:
            return self._one_formed(row, finish)
        if self._exact_alone:
            # Far rows are settled, and NaN is as far as any.
            if not self.exact.by_panels or not np.isfinite(row).all():  # type: ignore[union-attr]
                return None
            if (winners := self._winners(row, criterion)) is not None:
                found = winners.winners(row, ties_to_first=criterion.ties_to_first)[0]
                if found[0] >= 0:
                    return criterion.voting_classes[found], ONE_BY_PAIRS  # type: ignore[index]
            if criterion is never:
                return finish(self.exact.run(row).scores), self._one_stats[-1]  # type: ignore[union-attr]
        answered = self.cascade.one(row, criterion)
        if answered is None:
            return None
        return finish(answered[0]), self._one_stats[answered[1]]

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
            if found is not None and found.finite and holds(criterion, found)[0]:
                return finish(found.scores), ONE_TOGETHER[stage.name]
        return None

    def _one_formed(self, row: FloatArray, finish: Finish) -> tuple[NDArray[Any], Stats] | None:
        """By the first form alone, if the row is inside its validity bound."""
        if self.forms is None:
            return None
        found = self.forms.run(row, None)
        assert found is not None
        inside = self.forms.valid(found)
        assert inside is not None
        return (finish(found.scores), self._one_stats[0]) if inside[0] else None

    @cached_property
    def _takes_one(self) -> bool:
        """Whether single rows have a path of their own."""
        steps = bool(self.preparation.before_map.steps) or self.tail is not None or bool(self.parts)
        return not steps and self.near is None and self._first_cells in (None, 1)

    @cached_property
    def _one_stats(self) -> list[Stats]:
        return [Stats(1, {name: 1}) for name in self.cascade.names]

    @cached_property
    def _first_cells(self) -> int | None:
        """Cells of the forms that come first; None where no form does."""
        return None if self.forms is None else len(self.forms.cells)

    # Labels from the winner's pairs -------------------------------------------------------------

    def _winners(self, rows: Any, criterion: Criterion | None) -> FusedPairs | None:
        """What finds one-vs-one labels from the winner's pairs alone, where those are asked for."""
        if not self._exact_alone or self.tail is not None or isinstance(rows, OutsideRows):
            return None
        if criterion is None or criterion.voting_classes is None or self.exact is None:
            return None
        pairs = self.exact.pairs
        return pairs if pairs is not None and pairs.ready else None

    def _labels(
        self, winners: FusedPairs, rows: Rows, finish: Finish, criterion: Any
    ) -> tuple[NDArray[Any], Stats]:
        """Labels of all rows; those without a sure winner are evaluated in full."""
        out = np.empty(rows.shape[0], dtype=criterion.voting_classes.dtype)

        def labelled(block: slice) -> Stats:
            started, undecidable = perf_counter(), 0
            found, still, exact = self._winners_of(winners, rows, block, criterion)
            out[block] = criterion.voting_classes[found]
            if exact is not None:
                out[block.start + still] = finish(exact.scores)
                undecidable = int(np.count_nonzero(~holds(criterion, exact)))
            stages = {PAIRS: len(found) - len(still), self.cascade.names[-1]: len(still)}
            seconds = {PAIRS: perf_counter() - started}
            return Stats(len(found), stages, undecidable, seconds=seconds)

        most = min(MOST_LABELS, BLOCK_ELEMENTS // max(rows.shape[1], 1) + 1)
        return out, sum(map_blocks(labelled, _shared_out(rows.shape[0], most)), Stats())

    def _winners_of(
        self, winners: FusedPairs, rows: Rows, block: slice, criterion: Criterion
    ) -> tuple[NDArray[Any], NDArray[np.intp], Bounded | None]:
        """The winner of each row of a block, below 0 if unsure; unsure rows, and those exactly."""
        part = dense_block(self.seen(rows, block), slice(None))
        found, _leads = winners.winners(part, ties_to_first=criterion.ties_to_first)
        still = np.flatnonzero(found < 0)
        if not len(still):
            return found, still, None
        # No class wins where a number is not finite.
        if not np.isfinite(part[still]).all():
            check_finite(row_part(rows, block), first_row=block.start)
        return found, still, self.cascade.stages[-1].run(part[still], criterion, None)

    # Rows as the stages take them ---------------------------------------------------------------

    def seen(self, rows: Any, block: slice) -> Any:
        """A block behind its preparation; mapped just before a single form reads it, if dense."""
        if self.together and self._exact_alone_parts:
            one = dense_block(self.parts[0]._mapped(rows.rows[0], block), slice(None))
            return PartRows((one,) * len(self.parts))
        if self.parts:
            own = zip(self.parts, rows.rows)
            return PartRows(tuple(part._mapped(each, block) for part, each in own))
        if isinstance(rows, OutsideRows):
            inner = self._mapped(rows.rows, block)
            return OutsideRows(inner, rows.sq_norms[block], rows.error)
        input_map, before = self.preparation.input_map, self.preparation.before_map
        late = self._first_cells == 1 and not before.steps and not is_sparse(rows)
        if late and input_map is not None:
            return MappedRows(dense_block(rows, block), input_map)
        return self._mapped(rows, block)

    def _mapped(self, rows: Rows, block: slice) -> Rows:
        """Sparse if the first stage may take it so."""
        part = self.preparation.apply(row_part(rows, block))
        takes_sparse = self._exact_alone and self.exact is not None and self.exact.takes_sparse
        if self._first_cells is not None or takes_sparse:
            return part
        return dense_block(part, slice(None))

    def dense(self, rows: Any, block: slice) -> tuple[FloatArray, ...]:
        """Some of the rows as each expansion sees them: mapped, and dense."""
        if self.parts:
            each = zip(self.parts, rows.rows)
            return tuple(seen for part, own in each for seen in part.dense(own, block))
        return (dense_block(self._mapped(self._given(rows)[0], block), slice(None)),)

    def _check_finite(self, found: Bounded, rows: Any, block: slice) -> None:
        """|u|^2 shows whether rows are numbers, where a form computed it."""
        # Parts that were summed together have one result, and the same rows.
        for part, own in zip(found.parts or (found,), self._given(rows)):
            if not _all_finite(part):
                check_finite(row_part(own, block), first_row=block.start)

    def _given(self, rows: Any) -> tuple[Rows, ...]:
        """The rows of each part, or of the one machine that there is, as they came."""
        if self.parts:
            return tuple(rows.rows)
        return (rows.rows if isinstance(rows, OutsideRows) else rows,)

    @cached_property
    def _damped(self) -> Cascade:
        """The stages for rows with features beyond the width."""
        form = None if self.forms is None else self.forms.approximation.form
        served: Any = form if self.exact is None else self.exact.expansion
        return damped(self.cascade, served.gamma, served.intercept, form)

    # Sizes of blocks ------------------------------------------------------------------------------

    @cached_property
    def _exact_alone_parts(self) -> bool:
        return all(part._exact_alone for part in self.parts)

    @cached_property
    def _exact_alone(self) -> bool:
        return not self.parts and self.forms is None and self.near is None

    def _joined(self, rows: Any, function: Callable[[slice], NDArray[Any]]) -> NDArray[Any]:
        """What a function makes of each block, in one array."""
        return np.concatenate(self._each_block(function, self._blocks(rows)))

    def _blocks(self, rows: Any, *, straight: bool = False, values: bool = False) -> list[slice]:
        """Blocks of all rows; `straight`: the exact engine's scores need no room.

        `values`: nothing else is made of the scores; votes take longer to start than a block of
        few rows lasts.
        """
        # Of scores and bounds there are several copies at a time.
        width = max(rows.shape[1], 4 * self.n_outputs, 1)
        count = min(MOST_SCORES, max(64, BLOCK_ELEMENTS // width))
        if values:
            count = min(count, max(FEWEST_ROWS, MOST_SCORES // max(self.n_outputs, 1)))
        if self._first_cells is None and not self.parts:
            # Not too few: those that single precision leaves open are summed again, together.
            small = EXACT_ELEMENTS // (4 * max(self.n_outputs, 1))
            # Not a matter of threads: which stage a block takes for values hangs on its rows.
            large = straight or self.n_outputs == 1
            count = min(BLOCK_ELEMENTS // max(rows.shape[1], 1), MOST_SCORES if large else small)
            count = max(FEWEST_ROWS, count)
        if self.n_outputs == 1:
            return list(row_blocks(rows.shape[0], count)) or [slice(0, 0)]
        return _shared_out(rows.shape[0], count)

    # Bounds and counts ----------------------------------------------------------------------------

    def _block_bounds(self, rows: Any, block: slice, criterion: Criterion | None) -> FloatArray:
        for own in self._given(rows):
            check_finite(row_part(own, block), first_row=block.start)
        cascade = self._damped if isinstance(rows, OutsideRows) else self.cascade
        bounds = cascade.bounds(self.seen(rows, block), criterion)
        if self.tail is not None:  # it is added to whatever served the row
            bounds = bounds + self.tail.values(dense_block(rows, block))[1]
        return bounds

    def _count(self, found: Bounded, seconds: FloatArray) -> Stats:
        assert found.stage is not None
        names = self.cascade.names
        counts = [np.count_nonzero(found.stage == number) for number in range(len(names))]
        stages, spent = dict.fromkeys(names, 0), dict.fromkeys(names, 0.0)
        for name, count, taken in zip(names, counts, seconds):
            stages[name] += int(count)
            spent[name] += float(taken)
        undecidable = outside = 0
        if found.settled is not None and found.bounds is not None:
            undecidable = int(np.count_nonzero(~found.settled))
        if (valid := self._valid(found)) is not None:
            outside = int(np.count_nonzero(~valid))
        return Stats(len(found.stage), stages, undecidable, outside, spent)


ONE_BY_PAIRS = Stats(1, {PAIRS: 1})
ONE_TOGETHER = {name: Stats(1, {name: 1}) for name in (SINGLE, QUICK)}


def _together(
    runners: Sequence[Runner], outputs: Sequence[NDArray[np.int64]], n_outputs: int
) -> PartsLayout | None:
    """Parts that see the same rows laid out together; None where they do not, or cannot be."""
    first = runners[0].preparation
    for runner in runners:
        plain = runner.exact is not None and runner.tail is None and not runner.exact.takes_sparse
        if not plain or not runner.preparation.same_as(first) or first.before_map.steps:
            return None
    return PartsLayout.of([runner.exact for runner in runners], outputs, n_outputs)


def _shared_out(n_rows: int, most: int) -> list[slice]:
    """Blocks of at most so many rows; of many rows, as many blocks for each thread.

    Examples
    --------
    >>> from kernelite.backends.cpu.threads import limit_threads
    >>> with limit_threads(2):
    ...     [len(_shared_out(n, 1 << 16)) for n in (0, 100, 2000, 8192, 100_000)]
    [1, 1, 1, 2, 4]
    """
    threads, least = thread_count(), min(SHARED_ROWS, most)
    if threads > 1 and n_rows >= threads * least:
        room = max(least, most // threads)  # all threads together need no more than one would
        turns = max(2, -(-n_rows // (threads * room)))
        most = max(least, -(-n_rows // (8 * threads * turns)) * 8)
    return list(row_blocks(n_rows, most)) or [slice(0, 0)]


def _all_finite(found: Bounded) -> bool:
    if found.finite or found.sq_norms is None:
        return found.finite
    return bool(np.isfinite(found.sq_norms.sum()))
