"""The cascade: stages in order, each for the rows that those before it left open.

In: a block of rows, or one row, and a criterion that says which rows are settled. Out: a `Bounded`
that also says which stage answered each row, and whether the criterion holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from time import perf_counter
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.program.bounded import OPEN, Bounded, Factored, Settled, Tally, spelled_out
from kernelite.program.criteria import Criterion, never
from kernelite.support.records import dataclass

__all__ = [
    "Asked",
    "Block",
    "Cascade",
    "Found",
    "Judge",
    "Room",
    "Stage",
    "holds",
    "judged",
    "tighter",
]

Block: TypeAlias = Any
"""Rows as stages take them: dense, CSR, behind a map, of several parts; `[index]` takes some."""

Asked: TypeAlias = Criterion | None
"""What is asked of a row; None: a score that is as good as a stage can give it."""

Found: TypeAlias = Bounded | None
"""What a stage found; None: it is not worth its time, or none came before."""

Room: TypeAlias = FloatArray | None
"""Where scores may be put."""


class Stage(Protocol):
    """An evaluator made ready for a target."""

    @property
    def name(self) -> str:
        """What statistics call it."""
        ...

    @property
    def accepts_all(self) -> bool:
        """Whether its results take the place of earlier ones, whatever the bounds of both."""
        ...

    def run(
        self, rows: Block, criterion: Asked, previous: Found = None, into: Room = None
    ) -> Found:
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


def holds(criterion: Criterion, found: Bounded) -> NDArray[np.bool_]:
    """Whether a criterion accepts each row: none, if it asks for bounds and there are none."""
    bounds = found.bounds
    if bounds is None:
        if criterion.asks_bounds:
            return np.zeros(len(found.scores), dtype=np.bool_)
        criterion, bounds = criterion.on_scores, np.full_like(found.scores, np.inf)
    if isinstance(bounds, Factored):
        if (limits := criterion.sufficient_bounds) is not None:
            return bounds.within(limits)
        bounds = spelled_out(bounds)
    return criterion(found.scores, bounds)


def judged(criterion: Criterion, found: Bounded, farthest: float = np.inf) -> Settled:
    """Which rows are settled, as the criterion itself says; `farthest` as `Cascade` has it."""
    settled = holds(criterion, found)
    n_open = len(settled) - int(np.count_nonzero(settled))
    return Settled(settled, n_open, *_looked_at(found, farthest))


def _looked_at(found: Bounded, farthest: float) -> tuple[int, bool]:
    """How many rows are outside the validity bound, and whether all are surely finite."""
    squares, bounds = found.sq_norms, found.bounds
    with np.errstate(over="ignore", invalid="ignore"):
        if squares is not None:
            inside = np.count_nonzero(squares < farthest) if farthest < np.inf else len(squares)
            return len(squares) - int(inside), bool(np.isfinite(squares.sum()))
        if bounds is None or isinstance(bounds, Factored) or not found.finite_if_bounded:
            return 0, False
        return 0, bool(np.isfinite(bounds.sum()))


Judge: TypeAlias = Callable[[Criterion, Bounded, float], Settled]
"""As `judged`, perhaps by a pass of a target's own."""


@dataclass(frozen=True, eq=False)
class Cascade:
    """Stages in order; the last one answers what no other did.

    Parameters
    ----------
    stages : tuple of Stage
    answers_all : bool
        Whether the last stage's answers are final. A cascade without an exact stage leaves rows
        open instead, which keep the first stage's scores.
    farthest : float
        |u|^2 from which the first stage's rows are outside the paper's validity bound.
    judge : callable
        What tells which rows are settled.
    """

    stages: tuple[Stage, ...]
    answers_all: bool = True
    farthest: float = np.inf
    judge: Judge = judged

    def run(
        self,
        rows: Block,
        criterion: Criterion | None,
        tally: Tally | None = None,
        into: FloatArray | None = None,
    ) -> Bounded:
        """Scores, bounds, and for each row the stage that answered.

        Parameters
        ----------
        rows : block of m rows
        criterion : Criterion, optional
            Which rows need no further stage. None: the first stage answers all rows.
        tally : Tally, optional
            Gets what each stage did.
        into : ndarray of shape (m, k), optional
            Where scores may be put.
        """
        tally = Tally(self.names) if tally is None else tally
        number, found = self._first(rows, criterion, tally, into)
        m = len(found.scores)
        tally.rows += m
        farthest = self.farthest if number == 0 else np.inf
        if criterion is None or (criterion is never and number == self._final):
            return self._accepted(number, found, farthest, tally)
        if found.stage is None:
            seen = self.judge(criterion, found, farthest)
            stage, settled = np.full(m, number, dtype=np.int8), seen.rows
            n_open, tally.outside, tally.finite = seen.n_open, seen.outside, seen.finite
            tally.answered[number] += m - n_open if number < self._final else m
        else:
            stage, settled = found.stage, found.stage != OPEN
            n_open = self._count_fused(number, found, farthest, tally)
        if found.valid is not None:
            tally.outside = m - int(np.count_nonzero(found.valid))
        found = found._replace(stage=stage, settled=settled)
        if n_open and number < self._final:
            still = np.flatnonzero(~settled)
            stage[still] = OPEN
            found, n_open = self._improve(
                number + found.tried, rows, still, criterion, found, tally
            )
        if criterion.asks_bounds:
            tally.undecidable += n_open
        return found

    def labels_left(
        self, rows: Block, criterion: Criterion, tally: Tally, start: int = 1
    ) -> FloatArray:
        """Scores of rows whose labels the stages before `start` left open, from those that follow.

        Bounds are not told, so it does not matter which stage has the tighter ones. The last stage
        must answer all.
        """
        scores, still, part = np.empty((0, 0)), None, rows
        for number in range(start, len(self.stages)):
            started = perf_counter()
            found = self.stages[number].run(part, criterion)
            tally.seconds[number] += perf_counter() - started
            if found is None:
                continue
            if still is None:
                scores = found.scores
            else:
                scores[still] = found.scores
            seen = self.judge(criterion, found, np.inf)
            if number == self._final:
                tally.answered[number] += len(seen.rows)
                tally.undecidable += seen.n_open if criterion.asks_bounds else 0
                break
            tally.answered[number] += len(seen.rows) - seen.n_open
            if not seen.n_open:
                break
            left = np.flatnonzero(~seen.rows)
            still = left if still is None else still[left]
            part = part[left]
        return scores

    def one(self, row: Block, criterion: Criterion, start: int = 0) -> tuple[Bounded, int] | None:
        """What is found for one row by the stage that settles it, and its number; None if none.

        Stages before `start` are known to leave it open: where labels alone are asked for, it
        does not matter whose bounds are the tighter ones.
        """
        first: Bounded | None = None
        if criterion is never:  # of which the last stage's answer is taken as it is
            found = self.stages[-1].run(row, never, None) if self.answers_all else None
            if found is None or found.sq_norms is None or not found.sq_norms[0] < np.inf:
                return None
            return found, self._final
        for number in range(start, len(self.stages)):
            stage = self.stages[number]
            found = stage.run(row, criterion, first)
            if found is None:
                continue
            if found.stage is not None:
                good = found.stage[0] != OPEN
            else:
                if found.sq_norms is not None and not found.sq_norms[0] < np.inf:
                    return None
                good = self._settles(criterion, found) and (
                    first is None or stage.accepts_all or _one_is_tighter(found, first)
                )
            if good:
                return found, number
            first = found if first is None else first
        return None

    def _settles(self, criterion: Criterion, found: Bounded) -> bool:
        """Whether a criterion accepts one row; of one output without arrays, which take longer."""
        rule, bounds = criterion.rule, found.bounds
        if rule is None or found.scores.size > 1 or not isinstance(bounds, np.ndarray):
            return not self.judge(criterion, found, np.inf).n_open
        return rule.settles(found.scores.item(), bounds.item())

    @cached_property
    def _final(self) -> int:
        """The number of the stage whose answers are final."""
        return len(self.stages) - 1 if self.answers_all else len(self.stages)

    def _first(
        self,
        rows: Block,
        criterion: Criterion | None,
        tally: Tally,
        into: FloatArray | None,
    ) -> tuple[int, Bounded]:
        """The first stage that is worth its time for these rows, and what it found."""
        numbers: Sequence[int] = range(len(self.stages))
        if criterion is never and self.answers_all:  # no other's answers would be accepted
            numbers = [self._final, *numbers[:-1]]
        for number in numbers:
            started = perf_counter()
            found = self.stages[number].run(rows, criterion, None, into)
            tally.seconds[number] += perf_counter() - started
            if found is not None:
                return number, found
        raise AssertionError("the last stage answers")

    def _accepted(self, number: int, found: Bounded, farthest: float, tally: Tally) -> Bounded:
        """All rows as answered by one stage, of which nothing is asked."""
        m = len(found.scores)
        tally.outside, tally.finite = _looked_at(found, farthest)
        if found.valid is not None:
            tally.outside = m - int(np.count_nonzero(found.valid))
        tally.answered[number] += m
        return found._replace(stage=np.full(m, number, dtype=np.int8))

    def _count_fused(self, number: int, found: Bounded, farthest: float, tally: Tally) -> int:
        """Count rows of a stage that says itself which stages it stands for; how many are open."""
        stage = found.stage
        assert stage is not None
        if number:
            stage[stage != OPEN] += number
        answered = 0
        for later in range(number, number + max(found.tried, 2)):
            count = int(np.count_nonzero(stage == later))
            answered += count
            if count:
                tally.answered[later] += count
        tally.outside, tally.finite = _looked_at(found, farthest)
        if found.winners is not None:
            tally.finite = answered == len(stage)  # no class wins where a number is not finite
        return len(stage) - answered

    def _improve(
        self,
        first: int,
        rows: Block,
        still: NDArray[np.intp],
        criterion: Criterion,
        found: Bounded,
        tally: Tally,
    ) -> tuple[Bounded, int]:
        """Run more stages on the open rows; what is known then, and how many are not settled."""
        stages = found.stage
        assert stages is not None
        part = before = None
        for number in range(first, len(self.stages)):
            if part is None or before is None:
                part, before = rows[still], found.rows(still)
            stage, started = self.stages[number], perf_counter()
            better = stage.run(part, criterion, before)
            tally.seconds[number] += perf_counter() - started
            if better is None:
                continue
            seen = self.judge(criterion, better, np.inf)
            final = number == self._final
            if final or stage.accepts_all:
                done = None
            else:
                # Not where its bound is the looser one: `error_bound` promises the first stage's.
                done = seen.rows & tighter(better, before)
            found = _put(found, still, better, seen.rows, done)
            settled = seen.rows if done is None else done
            answers = still if final else still[settled]
            stages[answers] = number
            tally.answered[number] += len(answers)
            if final:
                # A form may settle an infinite row: its |u|^2 alone shows it, or nothing does.
                left = found.finite_if_bounded or found.winners is not None
                tally.finite |= left and seen.finite and criterion.asks_bounds
                return found, seen.n_open
            if len(answers) == len(still):
                return found, 0
            if len(answers) or done is None:
                still, part = still[~settled], None
        return found, len(still)

    def bounds(self, rows: Block, criterion: Criterion | None) -> FloatArray:
        """How far the answer of each row may be off, whichever stage gives it: shape (m, k)."""
        each = [stage.bound(rows, criterion) for stage in self.stages]
        known = [bounds for bounds in each if bounds is not None]
        most = known[0]
        for bounds in known[1:]:
            most = np.maximum(most, bounds)
        limits, last = None if criterion is None else criterion.value_bounds, each[-1]
        if limits is not None and last is not None and self.answers_all:
            # Stages before the last one answer values that are within the tolerance, no others.
            most = np.minimum(most, np.maximum(limits, last))
        return most

    @cached_property
    def names(self) -> Sequence[str]:
        """What statistics call the stages."""
        return [stage.name for stage in self.stages]


def _put(
    found: Bounded,
    still: NDArray[np.intp],
    better: Bounded,
    settled: NDArray[np.bool_],
    done: NDArray[np.bool_] | None,
) -> Bounded:
    """Put what a stage found for the rows `still` in its place: for those `done`, or for all."""
    if isinstance(found.bounds, Factored):
        found = found._replace(bounds=spelled_out(found.bounds))
    some = slice(None) if done is None else done
    at = still[some]
    found.scores[at] = better.scores[some]
    if found.bounds is not None and better.bounds is not None:
        found.bounds[at] = spelled_out(better.bounds)[some]  # type: ignore[index]
    for own, new in zip(found.parts, better.parts):
        own.scores[at], own.bounds[at] = new.scores[some], new.bounds[some]  # type: ignore[index]
    found.settled[at] = settled[some]  # type: ignore[index]
    return found


def _one_is_tighter(better: Bounded, before: Bounded) -> bool:
    """As `tighter`, of one row; of one output without arrays, which take longer."""
    found, known = better.bounds, before.bounds
    if isinstance(found, np.ndarray) and isinstance(known, np.ndarray) and found.size == 1:
        return bool(found.item() <= known.item())
    return bool(tighter(better, before)[0])


def tighter(better: Bounded, before: Bounded) -> NDArray[np.bool_]:
    """Rows whose bounds are nowhere looser than before."""
    if before.bounds is None or better.bounds is None:
        return np.ones(len(before.scores), dtype=np.bool_)
    return np.asarray((spelled_out(better.bounds) <= spelled_out(before.bounds)).all(axis=1))
