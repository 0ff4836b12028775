"""Runs a cascade over many rows, block by block: memory is bounded whatever their number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.cpu.exact import DoublePrecision, ExactEngine, SinglePrecision
from kernelite.cpu.fused_pairs import FusedPairs
from kernelite.cpu.local import LocalEngine, NearCenters
from kernelite.cpu.mapped import MappedRows
from kernelite.cpu.outside import OutsideRows, damped
from kernelite.cpu.sums import PartRows, PartStages, sum_stages
from kernelite.cpu.threads import one_thread_each
from kernelite.cpu.tiers import FirstForms, form_stages
from kernelite.machine.affine import AffineMap
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.front import Front
from kernelite.machine.polynomial_term import PolynomialTail
from kernelite.program.bounded import Bounded, spelled_out
from kernelite.program.cascade import Cascade, Stage, holds
from kernelite.program.criteria import Criterion, Proven, Within, never
from kernelite.program.stats import PAIRS, Stats
from kernelite.rows.inputs import (
    FloatArray,
    Rows,
    check_finite,
    dense_block,
    is_sparse,
    row_blocks,
    row_part,
)
from kernelite.series.cells import Approximation
from kernelite.series.local import LocalSums

__all__ = ["Finish", "PartRunner", "Runner"]

BLOCK_ELEMENTS = 1 << 21  # numbers of one block of rows: 16 MB
# The exact engine is slow enough for small blocks, whose scores need no fresh pages.
EXACT_ELEMENTS, FEWEST_ROWS = 1 << 17, 512
MOST_LABELS = 1 << 13  # of a block of which only labels are found
MOST_SCORES = 1 << 16  # of a block: so that scores and bounds stay in cache too

Finish: TypeAlias = Callable[[FloatArray], NDArray[Any]]


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
    input_map : AffineMap, optional
    front : Front, optional
        What stands before the map and works on blocks of rows.
    tail : PolynomialTail, optional
        A polynomial of the rows that is added to the scores.
    parts : tuple of Runner
        Of a sum: what maps the rows of each part.
    """

    cascade: Cascade
    n_outputs: int
    exact: ExactEngine | None = None
    input_map: AffineMap | None = None
    front: Front | None = None
    tail: PolynomialTail | None = None
    parts: tuple[Runner, ...] = ()

    @classmethod
    def prepare(
        cls,
        approximation: Approximation | None,
        expansion: KernelExpansion | None,
        input_map: AffineMap | None = None,
        front: Front | None = None,
        local: LocalSums | None = None,
        tail: PolynomialTail | None = None,
    ) -> Runner:
        """Lay out the stages: forms, near centers, single precision, double precision."""
        stages: list[Stage] = []
        mapped = input_map is not None
        if approximation is not None:
            stages += form_stages(approximation)
        if local is not None and expansion is not None and LocalEngine.serves(expansion):
            stages.append(NearCenters(LocalEngine.prepare(expansion, local, mapped=mapped)))
        if expansion is None:
            assert approximation is not None
            cascade = Cascade(tuple(stages), answers_all=False)
            return cls(cascade, approximation.form.n_outputs, None, input_map, front, tail)
        engine = ExactEngine.prepare(expansion, mapped=mapped)
        return cls.with_engine(engine, tuple(stages), input_map, front, tail)

    @classmethod
    def with_engine(
        cls,
        engine: ExactEngine,
        before: tuple[Stage, ...] = (),
        input_map: AffineMap | None = None,
        front: Front | None = None,
        tail: PolynomialTail | None = None,
    ) -> Runner:
        """Stages that the exact engine follows."""
        stages = list(before)
        k = engine.expansion.n_outputs
        if k == 1:
            stages.append(SinglePrecision(engine, values=not before and tail is None))
        cascade = Cascade((*stages, DoublePrecision(engine)))
        return cls(cascade, k, engine, input_map, front, tail)

    @classmethod
    def of_parts(cls, parts: tuple[PartRunner, ...], n_outputs: int) -> Runner:
        """Machines whose scores are added up."""
        stages = sum_stages(tuple(part.stages() for part in parts), n_outputs)
        return cls(Cascade(stages), n_outputs, parts=tuple(part.runner for part in parts))

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
        out: NDArray[Any] | None = None
        stats, stop, as_they_are, values = Stats(), 0, False, isinstance(criterion, Within)
        # Set once, not in each block: the exact engine's own threads call BLAS.
        winners = self._winners(rows, criterion)
        with one_thread_each(rows.shape[0], FEWEST_ROWS) if self._exact_alone else nullcontext():
            while out is None or stop < rows.shape[0]:
                block = self._block(rows, stop, straight=as_they_are, values=values)
                if winners is not None:
                    count = min(MOST_LABELS, BLOCK_ELEMENTS // max(rows.shape[1], 1) + 1)
                    block = slice(stop, min(stop + count, rows.shape[0]))
                    answers, found = self._labels(winners, rows, block, finish, criterion)
                    if out is None:
                        out = np.empty(rows.shape[0], dtype=answers.dtype)
                    out[block], stats, stop = answers, stats + found, block.stop
                    continue
                into = out[block] if out is not None and as_they_are else None
                seconds = np.zeros(len(self.cascade.stages))
                bounded = self.evaluate(rows, block, criterion, into, seconds)
                answers = finish(bounded.scores)
                if out is None:
                    out = np.empty((rows.shape[0], *answers.shape[1:]), dtype=answers.dtype)
                    as_they_are = answers is bounded.scores  # so scores may be put there at once
                if answers is not into:
                    out[block] = answers
                stats += self._count(bounded, seconds)
                stop = block.stop
        return out, stats

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
        blocks = self._blocks(rows)
        return np.concatenate([function(self.evaluate(rows, block, criterion)) for block in blocks])

    def decided(self, rows: Any, criterion: Criterion) -> NDArray[np.bool_]:
        """Rows whose answer the criterion accepts, whichever stage gave it: shape (m,)."""
        out = np.empty(rows.shape[0], dtype=np.bool_)
        winners = self._winners(rows, criterion)
        for block in self._blocks(rows):
            if winners is None:
                settled = self.evaluate(rows, block, criterion).settled
                out[block] = settled
                continue
            check_finite(row_part(rows, block), first_row=block.start)
            part = dense_block(self.seen(rows, block), slice(None))
            out[block] = winners.winners(part, ties_to_first=criterion.ties_to_first)[0] >= 0  # type: ignore[attr-defined]
            still = np.flatnonzero(~out[block])
            if len(still):
                exact = self.cascade.stages[-1].run(part[still], criterion, None)
                assert exact is not None
                out[block.start + still] = holds(criterion, exact)
        return out

    def bounds(self, rows: Any, criterion: Criterion | None = None) -> FloatArray:
        """How far the score of each row may be off under the rule that serves it: (m, k)."""
        return np.concatenate(
            [self._block_bounds(rows, block, criterion) for block in self._blocks(rows)]
        )

    def valid(self, rows: Any) -> NDArray[np.bool_]:
        """Rows inside the paper's validity bound, shape (m,)."""
        found = []
        for block in self._blocks(rows):
            valid = self._valid(self.evaluate(rows, block, None))
            count = block.stop - block.start
            found.append(np.ones(count, dtype=np.bool_) if valid is None else valid)
        return np.concatenate(found)

    def _valid(self, found: Bounded) -> NDArray[np.bool_] | None:
        """Rows inside the validity bound; None where there is no form."""
        first = self.cascade.stages[0]
        return first.valid(found) if isinstance(first, FirstForms) else found.valid

    def each(self, rows: Any, answer: Callable[..., NDArray[Any]], block: int) -> NDArray[Any]:
        """Answers of a function of mapped rows, taken so many at a time.

        Where there are several parts, it is called with the rows of each.
        """
        blocks = list(row_blocks(rows.shape[0], block)) or [slice(0, 0)]
        return np.concatenate([answer(*self._dense(rows, block)) for block in blocks])

    # One row ----------------------------------------------------------------------------------

    def run_one(
        self, row: FloatArray, finish: Finish, criterion: Criterion | None
    ) -> tuple[NDArray[Any], Stats] | None:
        """The answer for a single row of shape (1, d), if it can be had at once; else None.

        The low-latency path: no block, no counts, no repeated checks. What it does not settle
        (an open row, one outside validity, NaN) `run` answers or refuses.
        """
        if not self._takes_one or criterion is never:
            return None
        if self.input_map is not None:
            row = self.input_map(row)
        if criterion is None:
            return self._one_formed(row, finish)
        if self._exact_alone:
            # Far rows are settled, and NaN is as far as any.
            if not self.exact.by_panels or not np.isfinite(row).all():  # type: ignore[union-attr]
                return None
            if (winners := self._winners(row, criterion)) is not None:
                found = winners.winners(row, ties_to_first=criterion.ties_to_first)[0]  # type: ignore[attr-defined]
                if found[0] >= 0:
                    return criterion.classes[found], ONE_BY_PAIRS  # type: ignore[attr-defined]
        answered = self.cascade.one(row, criterion)
        if answered is None:
            return None
        return finish(answered[0]), self._one_stats[answered[1]]

    def _one_formed(self, row: FloatArray, finish: Finish) -> tuple[NDArray[Any], Stats] | None:
        """By the first form alone, if the row is inside its validity bound."""
        first = self.cascade.stages[0]
        if not isinstance(first, FirstForms):
            return None
        found = first.run(row, None)
        assert found is not None
        inside = first.valid(found)
        assert inside is not None
        return (finish(found.scores), self._one_stats[0]) if inside[0] else None

    @cached_property
    def _takes_one(self) -> bool:
        """Whether single rows have a path of their own."""
        steps = self.front is not None or self.tail is not None or bool(self.parts)
        near = isinstance(self.cascade.stages[0], NearCenters)
        return not steps and not near and self._first_cells in (None, 1)

    @cached_property
    def _one_stats(self) -> list[Stats]:
        return [Stats(1, {name: 1}) for name in self.cascade.names]

    @cached_property
    def _first_cells(self) -> int | None:
        """Cells of the forms that come first; None where no form does."""
        first = self.cascade.stages[0]
        return len(first.cells) if isinstance(first, FirstForms) else None

    # Labels from the winner's pairs -------------------------------------------------------------

    def _winners(self, rows: Any, criterion: Criterion | None) -> FusedPairs | None:
        """What finds one-vs-one labels from the winner's pairs alone, where those are asked for."""
        if not self._exact_alone or self.tail is not None or isinstance(rows, OutsideRows):
            return None
        if not isinstance(criterion, Proven) or criterion.classes is None or self.exact is None:
            return None
        pairs = self.exact.pairs
        return pairs if pairs is not None and pairs.ready else None

    def _labels(
        self, winners: FusedPairs, rows: Rows, block: slice, finish: Finish, criterion: Any
    ) -> tuple[NDArray[Any], Stats]:
        """Labels of a block; rows without a sure winner are evaluated in full."""
        started = perf_counter()
        part = dense_block(self.seen(rows, block), slice(None))
        found, _leads = winners.winners(part, ties_to_first=criterion.ties_to_first)
        labels, undecidable = criterion.classes[found], 0
        still = np.flatnonzero(found < 0)
        if len(still):
            # No class wins where a number is not finite.
            if not np.isfinite(part[still]).all():
                check_finite(row_part(rows, block), first_row=block.start)
            exact = self.cascade.stages[-1].run(part[still], criterion, None)
            assert exact is not None
            labels[still] = finish(exact.scores)
            undecidable = int(np.count_nonzero(~holds(criterion, exact)))
        stages = {PAIRS: len(found) - len(still), self.cascade.names[-1]: len(still)}
        return labels, Stats(
            len(found), stages, undecidable, seconds={PAIRS: perf_counter() - started}
        )

    # Rows as the stages take them ---------------------------------------------------------------

    def seen(self, rows: Any, block: slice) -> Any:
        """A block behind front and map; mapped just before a single form reads it, if dense."""
        if self.parts:
            own = zip(self.parts, rows.rows)
            return PartRows(tuple(part._mapped(each, block) for part, each in own))
        if isinstance(rows, OutsideRows):
            inner = self._mapped(rows.rows, block)
            return OutsideRows(inner, rows.sq_norms[block], rows.error)
        late = self.input_map is not None and self.front is None and not is_sparse(rows)
        if late and self._first_cells == 1:
            assert self.input_map is not None
            return MappedRows(dense_block(rows, block), self.input_map)
        return self._mapped(rows, block)

    def _mapped(self, rows: Rows, block: slice) -> Rows:
        """Sparse if the first stage may take it so."""
        part = row_part(rows, block)
        if self.front is not None:
            part = self.front.apply(part)
        if self.input_map is not None:
            part = self.input_map(part)
        exact_first = isinstance(self.cascade.stages[0], SinglePrecision | DoublePrecision)
        takes_sparse = exact_first and self.exact is not None and self.exact.takes_sparse
        if self._first_cells is not None or takes_sparse:
            return part
        return dense_block(part, slice(None))

    def _dense(self, rows: Any, block: slice) -> tuple[FloatArray, ...]:
        if self.parts:
            each = zip(self.parts, rows.rows)
            return tuple(seen for part, own in each for seen in part._dense(own, block))
        if isinstance(rows, OutsideRows):
            rows = rows.rows
        return (dense_block(self._mapped(rows, block), slice(None)),)

    def _check_finite(self, found: Bounded, rows: Any, block: slice) -> None:
        """|u|^2 shows whether rows are numbers, where a form computed it."""
        if self.parts:
            for part, own in zip(found.parts, rows.rows):
                if not _all_finite(part):
                    check_finite(row_part(own, block), first_row=block.start)
            return
        if not _all_finite(found):
            own = rows.rows if isinstance(rows, OutsideRows) else rows
            check_finite(row_part(own, block), first_row=block.start)

    @cached_property
    def _damped(self) -> Cascade:
        """The stages for rows with features beyond the width."""
        first = self.cascade.stages[0]
        form = first.approximation.form if isinstance(first, FirstForms) else None
        served: Any = form if self.exact is None else self.exact.expansion
        return damped(self.cascade, served.gamma, served.intercept, form)

    # Sizes of blocks ------------------------------------------------------------------------------

    @cached_property
    def _exact_alone(self) -> bool:
        stages = self.cascade.stages
        return not self.parts and isinstance(stages[0], SinglePrecision | DoublePrecision)

    def _blocks(self, rows: Any) -> Iterator[slice]:
        block = self._block(rows, 0)
        yield block
        while block.stop < rows.shape[0]:
            block = self._block(rows, block.stop)
            yield block

    def _block(
        self, rows: Any, start: int, *, straight: bool = False, values: bool = False
    ) -> slice:
        """The block that starts there; `straight`: the exact engine's scores need no room.

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
            count = min(BLOCK_ELEMENTS // max(rows.shape[1], 1), MOST_SCORES if straight else small)
            count = max(FEWEST_ROWS, count)
        return slice(start, min(start + count, rows.shape[0]))

    # Bounds and counts ----------------------------------------------------------------------------

    def _block_bounds(self, rows: Any, block: slice, criterion: Criterion | None) -> FloatArray:
        each = rows.rows if self.parts else [rows.rows if isinstance(rows, OutsideRows) else rows]
        for own in each:
            check_finite(row_part(own, block), first_row=block.start)
        cascade = self._damped if isinstance(rows, OutsideRows) else self.cascade
        bounds = cascade.bounds(self.seen(rows, block), criterion)
        if self.tail is not None:  # it is added to whatever served the row
            bounds = bounds + self.tail.values(dense_block(rows, block))[1]
        return bounds

    def _count(self, found: Bounded, seconds: FloatArray) -> Stats:
        assert found.stage is not None
        names = self.cascade.names
        counts = np.bincount(found.stage, minlength=len(names))
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


@dataclass(frozen=True, eq=False)
class PartRunner:
    """A part's runner, where its scores are added, and what it alone would have to decide."""

    runner: Runner
    outputs: NDArray[np.int64]
    criterion: Criterion | None

    def stages(self) -> PartStages:
        """Its early stages and all of them; single precision is for whole models only."""
        whole = self.runner.cascade
        first, last = whole.stages[0], whole.stages[-1]
        if isinstance(first, FirstForms):
            forms = tuple(s for s in whole.stages if not s.name.startswith("exact"))
            early = Cascade(forms, answers_all=False)
            has_more = self.runner.exact is not None
            return PartStages(early, whole, self.outputs, self.criterion, has_more, first.valid)
        if isinstance(first, NearCenters):
            early = Cascade((first, last))
            return PartStages(early, whole, self.outputs, self.criterion, True)
        return PartStages(Cascade((last,)), whole, self.outputs, None, False)


ONE_BY_PAIRS = Stats(1, {PAIRS: 1})


def _all_finite(found: Bounded) -> bool:
    return found.sq_norms is not None and bool(np.isfinite(found.sq_norms.sum()))
