"""The cascade: stages in order, each for the rows that those before it left open.

In: a block of rows, or one row, and a criterion that says which rows are settled. Out: a `Bounded`
that also says which stage answered each row, and whether the criterion holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.program.bounded import OPEN, Bounded, Factored, spelled_out
from kernelite.program.criteria import Criterion, never
from kernelite.support.records import dataclass

__all__ = ["Block", "Cascade", "Stage", "holds"]

Block: TypeAlias = Any
"""Rows as stages take them: dense, CSR, behind a map, of several parts; `[index]` takes some."""


class Stage(Protocol):
    """An evaluator made ready for a target."""

    @property
    def name(self) -> str:
        """What statistics call it."""
        ...

    @property
    def accepts_all(self) -> bool:
        """Whether later results take its place whatever their bounds; the last stage's do."""
        ...

    def run(
        self,
        rows: Block,
        criterion: Criterion | None,
        previous: Bounded | None = None,
        into: FloatArray | None = None,
    ) -> Bounded | None:
        """Scores and bounds of the rows; None where that is not worth the time for these rows.

        Without a criterion, scores should be as good as this stage can give them. `previous` is
        what the stages before found for these rows; scores may be put `into` an array.
        With a `stage` in the result, rows at `OPEN` are open, and the numbers of the others count
        from this stage's own.
        """
        ...

    def bound(self, rows: Block, criterion: Criterion | None) -> FloatArray | None:
        """How far an answer of this stage may be off, (m, k); None: no more than others say."""
        ...


@dataclass(frozen=True, eq=False)
class Cascade:
    """Stages in order; the last one answers what no other did.

    Parameters
    ----------
    stages : tuple of Stage
    answers_all : bool
        Whether the last stage's answers are final. A cascade without an exact stage leaves rows
        open instead, which keep the first stage's scores.
    """

    stages: tuple[Stage, ...]
    answers_all: bool = True

    def run(
        self,
        rows: Block,
        criterion: Criterion | None,
        seconds: FloatArray | None = None,
        into: FloatArray | None = None,
    ) -> Bounded:
        """Scores, bounds, and for each row the stage that answered.

        Parameters
        ----------
        rows : block of m rows
        criterion : callable of (scores, bounds), optional
            Which rows need no further stage. None: the first stage answers all rows.
        seconds : ndarray of shape (stages,), optional
            Gets the time of each stage added.
        into : ndarray of shape (m, k), optional
            Where scores may be put.
        """
        if criterion is never and self.answers_all:
            last = self._last(rows, seconds, into)
            if last is not None:
                return last
        number, found = self._first(rows, criterion, seconds, into)
        m = len(found.scores)
        if criterion is None:
            return found._replace(stage=np.full(m, number, dtype=np.int8))
        final = len(self.stages) - 1 if self.answers_all else len(self.stages)
        stage = found.stage
        if stage is None:
            stage = np.full(m, number, dtype=np.int8)
            settled = holds(criterion, found)
            if number < final:
                stage[~settled] = OPEN
        else:
            stage[stage != OPEN] += number
            settled = stage != OPEN
        if settled.all():
            return found._replace(stage=stage, settled=settled)
        found = found._replace(stage=stage, settled=settled)
        for later in range(number + found.tried, len(self.stages)):
            still = np.flatnonzero(stage == OPEN)
            if not len(still):
                break
            started = perf_counter()
            found = self._improve(later, rows, still, criterion, found, final=later == final)
            if seconds is not None:
                seconds[later] += perf_counter() - started
        return found

    def one(self, row: Block, criterion: Criterion) -> tuple[FloatArray, int] | None:
        """The scores of one row, and the stage that settles it; None if none does."""
        first: Bounded | None = None
        for number, stage in enumerate(self.stages):
            found = stage.run(row, criterion, first)
            if found is None:
                continue
            if found.sq_norms is not None and not found.sq_norms[0] < np.inf:
                return None
            if holds(criterion, found)[0] and (
                first is None or stage.accepts_all or _tighter(found, first)[0]
            ):
                return found.scores, number
            first = found if first is None else first
        return None

    def _last(
        self, rows: Block, seconds: FloatArray | None, into: FloatArray | None
    ) -> Bounded | None:
        """The last stage alone, where nothing that comes before would be accepted, if it can."""
        started, number = perf_counter(), len(self.stages) - 1
        found = self.stages[number].run(rows, never, None, into)
        if found is None:
            return None
        if seconds is not None:
            seconds[number] += perf_counter() - started
        return found._replace(stage=np.full(len(found.scores), number, dtype=np.int8))

    def _first(
        self,
        rows: Block,
        criterion: Criterion | None,
        seconds: FloatArray | None,
        into: FloatArray | None,
    ) -> tuple[int, Bounded]:
        """The first stage that is worth its time for these rows, and what it found."""
        for number, stage in enumerate(self.stages):
            started = perf_counter()
            found = stage.run(rows, criterion, None, into)
            if seconds is not None:
                seconds[number] += perf_counter() - started
            if found is not None:
                return number, found
        raise AssertionError("the last stage answers")

    def _improve(
        self,
        number: int,
        rows: Block,
        still: NDArray[np.intp],
        criterion: Criterion,
        found: Bounded,
        *,
        final: bool,
    ) -> Bounded:
        """Run one more stage on the open rows and keep what it settles, or all that it found."""
        before = found.rows(still)
        better = self.stages[number].run(rows[still], criterion, before)
        if better is None:
            return found
        settled = holds(criterion, better)
        found = _with_bounds(found)
        assert found.stage is not None
        assert found.settled is not None
        if final or self.stages[number].accepts_all:
            done = np.ones(len(still), dtype=np.bool_)
        else:
            # Not where its bound is the looser one: `error_bound` promises the first stage's.
            done = settled & _tighter(better, before)
        at = still[done]
        found.scores[at] = better.scores[done]
        if found.bounds is not None and better.bounds is not None:
            assert not isinstance(found.bounds, Factored)
            found.bounds[at] = spelled_out(better.bounds)[done]
        for own, new in zip(found.parts, better.parts):
            own.scores[at], own.bounds[at] = new.scores[done], new.bounds[done]  # type: ignore[index]
        found.settled[at] = settled[done]
        found.stage[still[settled & done] if not final else at] = number
        return found

    def bounds(self, rows: Block, criterion: Criterion | None) -> FloatArray:
        """How far the answer of each row may be off, whichever stage gives it: shape (m, k)."""
        each = [stage.bound(rows, criterion) for stage in self.stages]
        known = [bounds for bounds in each if bounds is not None]
        most = known[0]
        for bounds in known[1:]:
            most = np.maximum(most, bounds)
        return most

    @property
    def names(self) -> Sequence[str]:
        """What statistics call the stages."""
        return [stage.name for stage in self.stages]


def holds(criterion: Criterion, found: Bounded) -> NDArray[np.bool_]:
    """Whether a criterion accepts each row; scores stand for bounds where there are none."""
    bounds = found.bounds
    if isinstance(bounds, Factored):
        if (limits := criterion.sufficient_bounds) is not None:
            return bounds.within(limits)
        bounds = spelled_out(bounds)
    return criterion(found.scores, found.scores if bounds is None else bounds)


def _with_bounds(found: Bounded) -> Bounded:
    if isinstance(found.bounds, Factored):
        return found._replace(bounds=spelled_out(found.bounds))
    return found


def _tighter(better: Bounded, before: Bounded) -> NDArray[np.bool_]:
    if before.bounds is None or better.bounds is None:
        return np.ones(len(before.scores), dtype=np.bool_)
    return np.asarray((spelled_out(better.bounds) <= spelled_out(before.bounds)).all(axis=1))
