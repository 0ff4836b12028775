"""One-vs-one classifiers: K - 1 coefficients per center, and labels from the winner's pairs alone.

Centers stand class by class. A center of class c has coefficients for c's pairs only, so its class
is read off the zeros of the coefficient matrix.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.exact_rounding import ExactRounding
from kernelite.backends.cpu.fused_sums import (
    EXP2_ERROR,
    LEAST_SUM_ROWS,
    LEAST_SUM_WORK,
    MOST_NORM,
    MOST_PANEL_NUMBERS,
)
from kernelite.backends.cpu.panels import Layout, Panels, aligned, error_terms
from kernelite.backends.cpu.rows import as_dense
from kernelite.backends.cpu.threads import for_each_chunk, share_rows
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.pairs import classes_of_centers, columns_of_class, n_classes
from kernelite.program.bounded import OPEN, PAIRS, Bounded
from kernelite.program.cascade import Asked, Block, Found, Room
from kernelite.program.criteria import Criterion
from kernelite.series.rounding import SINGLE_UNIT
from kernelite.support.records import dataclass

if TYPE_CHECKING:
    from kernelite.backends.cpu.exact import ExactEngine

__all__ = ["FusedPairs", "WinnersPairs"]

COEFFICIENT_SIZES = (1e-18, 1e18)  # of coefficients in single precision
MANY_CLASSES = 16  # of which all pairs are summed up: as long as a center's fit into a vector
MOST_ENTRY_ROWS = 960  # whose entries a thread has room for at once
PAIR_ROWS, PAIR_BYTES = 240, 1 << 20  # of kernel values that are kept between sums


@dataclass(frozen=True, eq=False)
class FusedPairs:
    """A one-vs-one expansion in panels of single precision.

    Parameters
    ----------
    panels : Panels
        Centers class by class.
    starts : ndarray of shape (K + 1,)
        The first center of each class.
    offsets : ndarray of shape (K + 1,)
        Where a class's coefficients begin.
    coefficients : ndarray of float32
        Per class, per other class, its centers' coefficients, padded with zeros; in place of a
        pair with itself, their largest sizes.
    lines : ndarray of float32 of shape (n, lanes)
        The same center by center, signed for its own class; without columns where there are many
        classes.
    terms, relative : ndarray of shape (K, 5), (K,)
        What exponents and sums of a class err by.
    rounding : ExactRounding
    """

    panels: Panels
    starts: NDArray[np.int64]
    offsets: NDArray[np.int64]
    coefficients: NDArray[np.float32]
    lines: NDArray[np.float32]
    terms: FloatArray
    relative: FloatArray
    rounding: ExactRounding

    @classmethod
    def prepare(cls, rounding: ExactRounding, layout: Layout) -> FusedPairs | None:
        """Lay the centers out; None where it is no one-vs-one, or numbers would not fit."""
        from kernelite.backends.cpu.kernels.exp2 import SINGLE
        from kernelite.backends.cpu.kernels.pairs import RUN, TURN

        A = rounding.expansion.coefficients
        owner = classes_of_centers(A) if layout.size <= MOST_PANEL_NUMBERS else None
        sizes = np.abs(A[A != 0.0])
        reach = 2.0 * layout.g * float(np.sqrt(layout.squares.max(initial=0.0)))
        if not reach <= MOST_NORM:
            return None
        if (
            owner is None
            or not len(sizes)
            or not COEFFICIENT_SIZES[0] <= sizes.min() <= sizes.max() <= COEFFICIENT_SIZES[1]
        ):
            return None
        K = int(n_classes(A.shape[1]) or 0)
        # A center of one pair may be either class's; its sign says whose it was.
        lone = np.flatnonzero(np.count_nonzero(A, axis=1) == 1)
        column = np.argmax(A[lone] != 0.0, axis=1)
        first, second = np.triu_indices(K, 1)
        owner[lone] = np.where(A[lone, column] > 0.0, first[column], second[column])
        groups = [np.flatnonzero(owner == c) for c in range(K)]
        turn, parts, offsets = TURN * SINGLE.lanes, [], [0]
        for c, group in enumerate(groups):
            padded = np.zeros((K, -(-len(group) // turn) * turn), dtype=np.float32)
            own = A[np.ix_(group, columns_of_class(K, c))].T
            padded[np.arange(K) != c, : len(group)] = own
            padded[c, : len(group)] = np.abs(own).max(axis=0)
            parts.append(padded.ravel())
            offsets.append(offsets[-1] + padded.size)
        wide = -(-K // SINGLE.lanes) * SINGLE.lanes if K <= MANY_CLASSES else 0
        lines = np.zeros((len(A), wide), dtype=np.float32)
        if wide:
            at = 0
            for c, group in enumerate(groups):
                held = parts[c].reshape(K, -1)[:, : len(group)].T
                lines[at : at + len(group), :K] = held * np.where(np.arange(K) >= c, 1, -1)
                at += len(group)
        order = np.concatenate(groups)
        counts = np.array([len(group) for group in groups])
        chains = -(-counts // turn)
        if wide:
            chains = np.maximum(chains, np.minimum(counts, RUN) + -(-counts // RUN))
        return cls(
            Panels.lay_out(layout, SINGLE, [order]),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            np.array(offsets, dtype=np.int64),
            aligned(np.concatenate(parts)),
            aligned(lines),
            error_terms(layout, groups, SINGLE_UNIT),
            (EXP2_ERROR + chains + 8.0) * SINGLE_UNIT,  # lanes and coefficients round too
            rounding,
        )

    def winners(
        self, rows: FloatArray, *, ties_to_first: bool = False
    ) -> tuple[NDArray[np.int64], FloatArray]:
        """The class that surely wins all of its pairs, and its least lead; else by votes.

        A class that surely has more votes than any other, or is the first of those with most where
        `ties_to_first`, leads by 0. Where no class is sure to win, -1.
        """
        from kernelite.backends.cpu.kernels import pairs

        rows, m, layout = np.ascontiguousarray(rows), len(rows), self.panels.layout
        winners, leads = np.empty(m, np.int64), np.empty(m)
        if layout.few_entries(rows):

            def part(block: slice) -> None:
                self._run_entries(rows[block], ties_to_first, winners[block], leads[block])

            for_each_chunk(part, m, MOST_ENTRY_ROWS)
            return winners, leads
        least = max(LEAST_SUM_ROWS, int(LEAST_SUM_WORK / max(layout.size, 1)))
        given = rows, layout.point, layout.order, layout.g, *self._model(0), ties_to_first
        share_rows(pairs.walk_rows, m, least, *given, self._tall, winners, leads)
        return winners, leads

    def _run_entries(self, rows: FloatArray, ties: bool, winners: Any, leads: Any) -> None:
        from kernelite.backends.cpu.kernels import pairs
        from kernelite.backends.cpu.kernels.panels import entries

        layout, m = self.panels.layout, len(rows)
        indptr, most = np.empty(m + 1, np.int64), m * len(layout.order)
        indices, data = np.empty(most, np.int32), np.empty(most, np.float32)
        shifts, norms = np.empty(m, np.float32), np.empty((m, 2))
        entries(
            *(rows, layout.point, layout.order, layout.g, layout.least),
            *(indptr, indices, data, shifts, norms),
        )
        walk: Any = pairs.walk_entries
        given = indptr, indices, data, shifts, norms, *self._model(1)
        walk(*given, ties, self._tall, winners, leads)

    @cached_property
    def _tall(self) -> int:
        """Rows whose kernel values stay in cache between sums."""
        from kernelite.backends.cpu.kernels.exp2 import SINGLE

        fit = PAIR_BYTES // (4 * len(self.panels.exponents)) // SINGLE.rows * SINGLE.rows
        return min(max(SINGLE.rows, fit), PAIR_ROWS)

    def _model(self, by_entries: int) -> tuple[Any, ...]:
        panels = self.panels
        return (
            *(panels.lines, panels.exponents, panels.starts),
            *(self.starts, self.offsets, self.coefficients, self.lines),
            *(self._offset, self._fixed, self._terms[by_entries], self._relative),
            MOST_NORM * MOST_NORM,
        )

    @cached_property
    def _offset(self) -> FloatArray:
        """The intercept of c against j, shape (K, K)."""
        K, b = len(self.starts) - 1, self.rounding.expansion.intercept
        found = np.zeros((K, K))
        upper = np.triu_indices(K, 1)
        found[upper] = b
        found.T[upper] = -b
        return found

    @cached_property
    def _fixed(self) -> FloatArray:
        """What every bound of a pair adds, shape (k,).

        Kernel values below 2^-126 are found as that, whatever their coefficients; products that
        get smaller may be lost. Each is off by less than twice that.
        """
        expansion = self.rounding.expansion
        lost = 2.0 * 2.0**self.panels.precision.smallest
        cut_off = lost * (self.rounding.weight + expansion.n_centers)
        return self.rounding.constant + 1e-15 * np.abs(expansion.intercept) + cut_off

    @cached_property
    def _terms(self) -> tuple[FloatArray, FloatArray]:
        """Of classes, and in the last line the largest of all: (K + 1, 4)."""
        terms = np.vstack([self.terms, self.terms.max(axis=0)])
        return np.ascontiguousarray(terms[:, :4]), np.ascontiguousarray(terms[:, [4, 1, 2, 3]])

    @cached_property
    def _relative(self) -> FloatArray:
        """Likewise, (K + 1,)."""
        return np.append(self.relative, self.relative.max())


@dataclass(frozen=True, eq=False)
class WinnersPairs:
    """Labels without scores, where votes decide and only the label is asked for."""

    engine: ExactEngine
    name = PAIRS
    accepts_all = False

    def run(
        self, rows: Block, criterion: Asked, previous: Found = None, into: Room = None
    ) -> Found:
        """The winner of each row; rows without a sure one stay open."""
        if not self.serves(criterion):
            return None
        assert self._pairs is not None
        assert criterion is not None
        winners, _leads = self._pairs.winners(as_dense(rows), ties_to_first=criterion.ties_to_first)
        stage = np.zeros(len(winners), dtype=np.int8)
        stage[winners < 0] = OPEN
        return Bounded(np.empty((len(winners), self._outputs)), stage=stage, winners=winners)

    def serves(self, criterion: Criterion | None) -> bool:
        """Whether this is asked for, and can be had."""
        asked = criterion is not None and criterion.voting_classes is not None
        return asked and self._pairs is not None

    @cached_property
    def _pairs(self) -> FusedPairs | None:
        return self.engine.pairs

    @cached_property
    def _outputs(self) -> int:
        return self.engine.expansion.n_outputs

    def bound(self, rows: Block, criterion: Criterion | None) -> None:
        """A label has no bound."""
        return None
