"""Runs the tiers over many rows, block by block: memory is bounded whatever their number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.cpu.exact import ExactEngine
from kernelite.cpu.fused_pairs import FusedPairs
from kernelite.cpu.local import LocalEngine
from kernelite.cpu.mapped import MappedRows
from kernelite.cpu.threads import one_thread_each
from kernelite.cpu.tiers import CUBIC, EXACT, FORM, Outcome, Tiers, evaluate
from kernelite.machine.affine import AffineMap
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.front import Front
from kernelite.machine.polynomial_term import PolynomialTail
from kernelite.program.criteria import Proven, Settles, Within, never
from kernelite.program.stats import Stats
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

__all__ = ["Finish", "Runner"]

BLOCK_ELEMENTS = 1 << 21  # numbers of one block of rows: 16 MB
# Of a single row:
BY_FORM, BY_SECOND = Stats(rows=1, form=1), Stats(rows=1, cubic=1)
BY_EXACT = Stats(rows=1, exact=1)
# The exact engine is slow enough for small blocks, whose scores need no fresh pages.
EXACT_ELEMENTS, FEWEST_ROWS = 1 << 17, 512
MOST_LABELS = 1 << 13  # of a block of which only labels are found
MOST_SCORES = 1 << 16  # of a block: so that scores and bounds stay in cache too

Finish: TypeAlias = Callable[[FloatArray], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Runner:
    """Engines made ready to run, at least one of them, behind a map of the inputs.

    `front` stands before the map, where it works on blocks of rows.
    """

    tiers: Tiers | None
    exact: ExactEngine | None
    input_map: AffineMap | None = None
    front: Front | None = None
    local: LocalEngine | None = None
    tail: PolynomialTail | None = None

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
        """Lay out the engines."""
        mapped = input_map is not None
        exact = None if expansion is None else ExactEngine.prepare(expansion, mapped=mapped)
        near = None
        if local is not None and expansion is not None and LocalEngine.serves(expansion):
            near = LocalEngine.prepare(expansion, local, mapped=mapped)
        tiers = None if approximation is None else Tiers.prepare(approximation)
        return cls(tiers, exact, input_map, front, near, tail)

    def run(
        self, rows: Rows, finish: Finish, settles: Settles | None
    ) -> tuple[NDArray[Any], Stats]:
        """Answers of all rows: scores block by block, each finished at once.

        Parameters
        ----------
        rows : ndarray or csr_array of shape (m, d)
        finish : callable
            Turns scores of shape (m, k) into answers.
        settles : callable, optional
            Which rows need no further tier; None accepts the form's scores.
        """
        out: NDArray[Any] | None = None
        stats, stop, as_they_are, values = Stats(), 0, False, isinstance(settles, Within)
        # Set once, not in each block: the exact engine's own threads call BLAS.
        alone, winners = self.tiers is None and self.exact is not None, self._winners(settles)
        with one_thread_each(rows.shape[0], FEWEST_ROWS) if alone else nullcontext():
            while out is None or stop < rows.shape[0]:
                block = self._block(rows, stop, straight=as_they_are, values=values)
                if winners is not None:
                    count = min(MOST_LABELS, BLOCK_ELEMENTS // max(rows.shape[1], 1) + 1)
                    block = slice(stop, min(stop + count, rows.shape[0]))
                    answers, found = self._labels(winners, rows, block, finish, settles)
                    if out is None:
                        out = np.empty(rows.shape[0], dtype=answers.dtype)
                    out[block], stats, stop = answers, stats + found, block.stop
                    continue
                into = out[block] if out is not None and as_they_are else None
                outcome = self.outcome(rows, block, settles, into)
                answers = finish(outcome.scores)
                if out is None:
                    out = np.empty((rows.shape[0], *answers.shape[1:]), dtype=answers.dtype)
                    as_they_are = answers is outcome.scores  # so scores may be put there at once
                if answers is not into:
                    out[block] = answers
                stats += _count(outcome, settles)
                stop = block.stop
        return out, stats

    def _winners(self, settles: Settles | None) -> FusedPairs | None:
        """What finds one-vs-one labels from the winner's pairs alone, where those are asked for."""
        plain = self.tiers is None and self.local is None and self.tail is None
        if not plain or self.exact is None or not isinstance(settles, Proven):
            return None
        pairs = self.exact.pairs if settles.classes is not None else None
        return pairs if pairs is not None and pairs.ready else None

    def _labels(
        self, winners: FusedPairs, rows: Rows, block: slice, finish: Finish, settles: Any
    ) -> tuple[NDArray[Any], Stats]:
        """Labels of a block; rows without a sure winner are evaluated in full."""
        assert self.exact is not None
        started = perf_counter()
        part = dense_block(self.mapped(rows, block), slice(None))
        check_finite(row_part(rows, block), first_row=block.start)
        found, _leads = winners.winners(part)
        labels, undecidable = settles.classes[found], 0
        still = np.flatnonzero(found < 0)
        if len(still):
            scores, bounds = self.exact.run_alike(part[still], settles)
            labels[still] = finish(scores)
            undecidable = int(np.count_nonzero(~settles(scores, bounds)))
        m, taken = len(found), perf_counter() - started
        return labels, Stats(rows=m, exact=m, undecidable=undecidable, exact_seconds=taken)

    def run_one(
        self, row: FloatArray, finish: Finish, settles: Settles | None
    ) -> tuple[NDArray[Any], Stats] | None:
        """The answer for a single row of shape (1, d), if it can be had at once; else None.

        The low-latency path: no block, no counts, no repeated checks. What it does not settle
        (an open row, one outside validity, NaN) `run` answers or refuses.
        """
        if self.front is not None or self.tail is not None or self.local is not None:
            return None
        if self.input_map is not None:
            row = self.input_map(row)
        if self.tiers is None:
            # Far rows are settled, and NaN is as far as any.
            return self._exact_one(row, finish, settles) if np.isfinite(row).all() else None
        if len(self.tiers.engines) > 1:
            return None
        engine = self.tiers.engines[0]
        proven = settles is not None and engine.cell.certificate is not None
        evaluated, bounds = engine.first.run(row, bounded=proven)
        square, form = evaluated.sq_norms[0], engine.first.form
        if settles is None:
            inside = square * (form.max_sq_norm * form.gamma * form.gamma) < 1.0 / 16.0
            return (finish(evaluated.scores), BY_FORM) if inside else None
        if not square < np.inf:
            return None
        if settles(evaluated.scores, evaluated.scores if bounds is None else bounds)[0]:
            return finish(evaluated.scores), BY_FORM
        if bounds is not None and engine.cell.has_second_tier:
            scores, tighter = engine.second(row, evaluated)
            if settles(scores, tighter)[0] and (tighter <= bounds).all():
                return finish(scores), BY_SECOND
        return None if self.exact is None else self._exact_one(row, finish, settles)

    def _exact_one(
        self, row: FloatArray, finish: Finish, settles: Settles | None
    ) -> tuple[NDArray[Any], Stats] | None:
        """A mapped row by the exact engine, if its answer is settled."""
        if self.exact is None or settles is None or settles is never or not self.exact.by_panels:
            return None
        winners = self._winners(settles)
        if winners is not None:
            found = winners.winners(row)[0]
            if found[0] >= 0:
                return settles.classes[found], BY_EXACT  # type: ignore[attr-defined]
        if (tolerance := self._tolerance(settles)) is not None:  # as a batch is answered
            scores, above = self.exact.run_within(row, tolerance)
            return None if above else (finish(scores), BY_EXACT)
        scores, bounds = self.exact.run_for(row, settles)
        return (finish(scores), BY_EXACT) if settles(scores, bounds)[0] else None

    def each(self, rows: Rows, answer: Callable[..., NDArray[Any]], block: int) -> NDArray[Any]:
        """Answers of a function of mapped rows, taken so many at a time.

        Where there are several parts, it is called with the rows of each.
        """
        blocks = list(row_blocks(rows.shape[0], block)) or [slice(0, 0)]
        return np.concatenate([answer(*self._seen(rows, block)) for block in blocks])

    def _seen(self, rows: Any, block: slice) -> tuple[FloatArray, ...]:
        return (dense_block(self.mapped(rows, block), slice(None)),)

    def bounds(self, rows: Rows, settles: Settles | None = None) -> FloatArray:
        """The O(1) bound of each row and output, shape (m, k), under the rule that serves them."""
        blocks = self._blocks(rows)
        return np.concatenate([self.block_bounds(rows, block, settles) for block in blocks])

    def valid(self, rows: Rows) -> NDArray[np.bool_]:
        """Rows inside the paper's validity bound, shape (m,)."""
        return np.concatenate(
            [self.outcome(rows, block, None).valid for block in self._blocks(rows)]
        )

    def mapped(self, rows: Rows, block: slice) -> Rows:
        """A block as the engines take it: behind front and map, sparse if the first one may be."""
        part = row_part(rows, block)
        if self.front is not None:
            part = self.front.apply(part)
        if self.input_map is not None:
            part = self.input_map(part)
        if self.tiers is not None or (self.local is None and self._exact_takes_sparse):
            return part
        return dense_block(part, slice(None))

    @property
    def _exact_takes_sparse(self) -> bool:
        return self.exact is not None and self.exact.takes_sparse

    def _blocks(self, rows: Rows) -> Iterator[slice]:
        block = self._block(rows, 0)
        yield block
        while block.stop < rows.shape[0]:
            block = self._block(rows, block.stop)
            yield block

    def _block(
        self, rows: Rows, start: int, *, straight: bool = False, values: bool = False
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
        if self.tiers is None and self.exact is not None:
            # Not too few: those that single precision leaves open are summed again, together.
            small = EXACT_ELEMENTS // (4 * max(self.n_outputs, 1))
            count = min(BLOCK_ELEMENTS // max(rows.shape[1], 1), MOST_SCORES if straight else small)
            count = max(FEWEST_ROWS, count)
        return slice(start, min(start + count, rows.shape[0]))

    @property
    def n_outputs(self) -> int:
        """k."""
        if self.exact is not None:
            return self.exact.expansion.n_outputs
        return 1 if self.tiers is None else self.tiers.approximation.form.n_outputs

    def outcome(
        self, rows: Rows, block: slice, settles: Settles | None, into: FloatArray | None = None
    ) -> Outcome:
        """Scores, bounds and tiers of a block; scores may be put `into` an array."""
        if self._maps_late(rows):
            assert self.tiers is not None
            assert self.input_map is not None
            late = MappedRows(dense_block(rows, block), self.input_map)
            outcome = evaluate(self.tiers, self.exact, late, settles)
        elif self.tiers is not None:
            outcome = evaluate(self.tiers, self.exact, self.mapped(rows, block), settles)
        else:
            part = self.mapped(rows, block)
            outcome = self.exact_outcome(part, settles, into)
        if not outcome.finite:
            check_finite(row_part(rows, block), first_row=block.start)
        if self.tail is not None:
            # Values are settled by their bounds alone, so the tail may come after.
            values, rounding = self.tail.values(dense_block(rows, block))
            outcome.scores[...] += values
            if outcome.bounds is not None:
                outcome.bounds[...] += rounding
        return outcome

    def _maps_late(self, rows: Rows) -> bool:
        """Whether rows are better mapped just before the form reads them: one form, dense rows."""
        mapped = self.input_map is not None and self.front is None and not is_sparse(rows)
        return mapped and self.tiers is not None and len(self.tiers.engines) == 1

    def exact_outcome(
        self, rows: Rows, settles: Settles | None = None, into: FloatArray | None = None
    ) -> Outcome:
        """Mapped rows: near centers first, where that is planned; all for the rows left open."""
        assert self.exact is not None
        started = perf_counter()
        tier = np.full(rows.shape[0], EXACT, dtype=np.int8)
        seconds = np.zeros(3)
        bounds: FloatArray | None = None
        undecidable: int | None = None
        if (tolerance := self._tolerance(settles)) is not None:
            scores, undecidable = self.exact.run_within(rows, tolerance, into)
        elif self.local is None or settles is None or settles is never or not self.local.ready:
            scores, bounds = self.exact.run_for(rows, settles)
        else:
            scores, bounds = self.local.run(rows)
            tier[settles(scores, bounds)] = FORM
            seconds[FORM] = perf_counter() - started
            still = np.flatnonzero(tier == EXACT)
            if len(still):
                scores[still], bounds[still] = self.exact.run_for(rows[still], settles)
        seconds[EXACT] = perf_counter() - started - seconds[FORM]
        valid = np.ones(rows.shape[0], dtype=np.bool_)
        return Outcome(scores, bounds, tier, valid, False, seconds, undecidable)

    def _tolerance(self, settles: Settles | None) -> FloatArray | None:
        """Of values that the exact engine alone serves; shape (k,)."""
        alone = self.tiers is None and self.local is None and self.tail is None
        return settles.tolerance if alone and isinstance(settles, Within) else None

    def block_bounds(self, rows: Rows, block: slice, settles: Settles | None = None) -> FloatArray:
        """The bound of each row of a block, shape (m, k)."""
        bounds = None if self.tiers is None else self.outcome(rows, block, None).bounds
        if bounds is not None:
            bounds[np.isnan(bounds)] = np.inf  # a polynomial that overflowed: nothing is known
        if self.local is not None:
            bounds = self.local.run(dense_block(self.mapped(rows, block), slice(None)))[1]
        if self.exact is not None:
            check_finite(row_part(rows, block), first_row=block.start)
            # Open rows get exact scores, so the exact engine's rounding counts where it is larger.
            tolerance = self._tolerance(settles)
            exact = self.exact.run_bound(self.mapped(rows, block), tolerance)
            bounds = exact if bounds is None else np.maximum(bounds, exact)
        assert bounds is not None
        if self.tail is not None:  # it is added to whatever served the row
            bounds = bounds + self.tail.values(dense_block(rows, block))[1]
        return bounds


def _count(outcome: Outcome, settles: Settles | None) -> Stats:
    by_tier = np.bincount(outcome.tier, minlength=3)
    exact = outcome.tier == EXACT
    undecidable = outcome.undecidable or 0
    if settles is not None and outcome.bounds is not None and exact.any():
        some = slice(None) if exact.all() else exact  # a view where that will do
        settled = settles(outcome.scores[some], outcome.bounds[some])
        undecidable = int(np.count_nonzero(~settled))
    return Stats(
        rows=len(outcome.tier),
        form=int(by_tier[FORM]),
        cubic=int(by_tier[CUBIC]),
        exact=int(by_tier[EXACT]),
        undecidable=undecidable,
        outside_validity=int(np.count_nonzero(~outcome.valid)),
        form_seconds=float(outcome.seconds[FORM]),
        cubic_seconds=float(outcome.seconds[CUBIC]),
        exact_seconds=float(outcome.seconds[EXACT]),
    )
