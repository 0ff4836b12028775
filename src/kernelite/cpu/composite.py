"""Runs a model of several parts: all forms first, then exact part by part until a row is settled.

scores[:, outputs_p] += f_p(z),   bounds likewise;   what settles a row is the head of them all
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.cpu.runner import Runner
from kernelite.cpu.tiers import CUBIC, EXACT, FORM, Outcome, evaluate
from kernelite.program.criteria import Settles
from kernelite.rows.inputs import FloatArray, Rows, check_finite, row_part
from kernelite.series.rounding import UNIT

__all__ = ["CompositeRunner", "PartRows", "PartRunner"]


@dataclass(frozen=True, eq=False)
class PartRows:
    """The rows of each part: the same ones, unless transformers stand before a part."""

    rows: tuple[Rows, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """(m, the features of all parts together): what a block of rows takes."""
        return self.rows[0].shape[0], sum(rows.shape[1] for rows in self.rows)


@dataclass(frozen=True, eq=False)
class PartRunner:
    """A part made ready to run.

    Parameters
    ----------
    runner : Runner
    outputs : ndarray of int
        Where its scores are added.
    settles : callable, optional
        What the part alone would have to decide: its second tier works on those rows.
    """

    runner: Runner
    outputs: NDArray[np.int64]
    settles: Settles | None

    def first(self, rows: Rows, prove: bool) -> Outcome:
        """Scores of a block without the exact tier; exact where that is the part's plan.

        Sums over near centers, if they are planned, serve the rows that they settle for the part.
        """
        if self.runner.tiers is None:
            settles = self.settles if prove and self.runner.local is not None else None
            return self.runner.exact_outcome(rows, settles)
        return evaluate(self.runner.tiers, None, rows, self.settles if prove else None)


@dataclass(frozen=True, eq=False)
class CompositeRunner(Runner):
    """Parts run side by side; their scores are added up where they share an output."""

    tiers: None = None
    exact: None = None
    parts: tuple[PartRunner, ...] = ()
    n_outputs: int = 0

    def outcome(
        self, rows: Any, block: slice, settles: Settles | None, into: FloatArray | None = None
    ) -> Outcome:
        """Scores, bounds and tiers of a block."""
        mapped = [p.runner.mapped(own, block) for p, own in zip(self.parts, rows.rows)]
        each = [p.first(own, settles is not None) for p, own in zip(self.parts, mapped)]
        for own, part in zip(rows.rows, each):
            if not part.finite:
                check_finite(row_part(own, block), first_row=block.start)
        total = self._total([(part.scores, part.bounds) for part in each])
        tier = _tier(each)
        valid = np.all([part.valid for part in each], axis=0)
        seconds = np.sum([part.seconds for part in each], axis=0)
        outcome = Outcome(*total, tier, valid, True, seconds)
        if settles is not None:
            self._finish_exactly(mapped, each, outcome, settles)
        return outcome

    def _seen(self, rows: Any, block: slice) -> tuple[FloatArray, ...]:
        each = zip(self.parts, rows.rows)
        return tuple(seen for part, own in each for seen in part.runner._seen(own, block))

    def block_bounds(self, rows: Any, block: slice, _settles: Settles | None = None) -> FloatArray:
        """The bound of each row and output, exact parts included: those run in doubles."""
        each: list[tuple[FloatArray, FloatArray | None]] = []
        for part, own in zip(self.parts, rows.rows):
            bounds = part.runner.block_bounds(own, block)
            scores = part.first(part.runner.mapped(own, block), False).scores
            # Whatever serves the row in the end, its score is no larger than that.
            each.append((np.abs(scores) + bounds, bounds))
        total = self._total(each)[1]
        assert total is not None
        return total

    def _finish_exactly(
        self, mapped: list[Rows], each: list[Outcome], outcome: Outcome, settles: Settles
    ) -> None:
        """Open rows: one part after the other is evaluated exactly, until they are settled."""
        started = perf_counter()
        assert outcome.bounds is not None
        still = np.flatnonzero(~settles(outcome.scores, outcome.bounds))
        outcome.tier[still] = EXACT
        for part, own, first in zip(self.parts, mapped, each):
            if not len(still):
                break
            if part.runner.tiers is None and part.runner.local is None:
                continue
            assert part.runner.exact is not None
            assert first.bounds is not None
            first.scores[still], first.bounds[still] = part.runner.exact.run(own[still])
            now = [(o.scores[still], _rows_of(o.bounds, still)) for o in each]
            outcome.scores[still], bounds = self._total(now)
            assert bounds is not None
            outcome.bounds[still] = bounds
            still = still[~settles(outcome.scores[still], bounds)]
        outcome.seconds[EXACT] += perf_counter() - started

    def _total(
        self, each: list[tuple[FloatArray, FloatArray | None]]
    ) -> tuple[FloatArray, FloatArray | None]:
        """Scores and bounds of all parts, added up; adding rounds, and the bounds hold that."""
        shape = (len(each[0][0]), self.n_outputs)
        scores, bounds, size = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for part, (own, own_bounds) in zip(self.parts, each):
            scores[:, part.outputs] += own
            size[:, part.outputs] += np.abs(own)
            if own_bounds is not None:
                bounds[:, part.outputs] += own_bounds
        if any(own_bounds is None for _, own_bounds in each):
            return scores, None
        n = len(self.parts) + 4
        return scores, bounds * (1.0 + 2.0 * n * UNIT) + 2.0 * n * UNIT * size


def _tier(each: list[Outcome]) -> NDArray[np.int8]:
    """FORM, or CUBIC where a part's second tier served; EXACT if all parts are."""
    second = np.any([part.tier == CUBIC for part in each], axis=0)
    exact = np.all([part.tier == EXACT for part in each], axis=0)
    return np.where(exact, EXACT, np.where(second, CUBIC, FORM)).astype(np.int8)


def _rows_of(bounds: FloatArray | None, rows: NDArray[np.intp]) -> FloatArray | None:
    return None if bounds is None else bounds[rows]
