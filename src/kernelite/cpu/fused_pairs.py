"""One-vs-one classifiers: K - 1 coefficients per center, and labels from the winner's pairs alone.

Centers stand class by class. A center of class c has coefficients for c's pairs only, so its class
is read off the zeros of the coefficient matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.cpu.exact_rounding import ExactRounding
from kernelite.cpu.fused_sums import (
    EXP2_ERROR,
    MOST_NORM,
    MOST_NUMBERS,
    ROWS,
    SINGLE_UNIT,
    few_rows,
)
from kernelite.cpu.kernels.compiling import ready
from kernelite.cpu.panels import Layout, Panels, error_terms
from kernelite.cpu.threads import for_each_chunk, thread_count
from kernelite.machine.pairs import classes_of_centers, columns_of_class, n_classes
from kernelite.rows.inputs import FloatArray

__all__ = ["FusedPairs"]

SIZES = (1e-18, 1e18)  # of coefficients in single precision
TILE_BYTES = 1 << 20  # of kernel values that are kept between sums


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
        pair with itself, their mean sizes.
    terms, relative : ndarray of shape (K, 5), (K,)
        What exponents and sums of a class err by.
    rounding : ExactRounding
    """

    panels: Panels
    starts: NDArray[np.int64]
    offsets: NDArray[np.int64]
    coefficients: NDArray[np.float32]
    terms: FloatArray
    relative: FloatArray
    rounding: ExactRounding

    @classmethod
    def prepare(cls, rounding: ExactRounding, layout: Layout) -> FusedPairs | None:
        """Lay the centers out; None where it is no one-vs-one, or numbers would not fit."""
        from kernelite.cpu.kernels.exp2 import SINGLE
        from kernelite.cpu.kernels.pairs import TURN

        A = rounding.expansion.coefficients
        owner = classes_of_centers(A) if layout.shifted.size <= MOST_NUMBERS else None
        sizes = np.abs(A[A != 0.0])
        reach = 2.0 * layout.g * float(np.sqrt(layout.squares.max(initial=0.0)))
        if not reach <= MOST_NORM:
            return None
        if (
            owner is None
            or not len(sizes)
            or not SIZES[0] <= sizes.min() <= sizes.max() <= SIZES[1]
        ):
            return None
        K = int(n_classes(A.shape[1]) or 0)
        groups = [np.flatnonzero(owner == c) for c in range(K)]
        turn, parts, offsets = TURN * SINGLE.lanes, [], [0]
        for c, group in enumerate(groups):
            padded = np.zeros((K, -(-len(group) // turn) * turn), dtype=np.float32)
            own = A[np.ix_(group, columns_of_class(K, c))].T
            padded[np.arange(K) != c, : len(group)] = own
            padded[c, : len(group)] = np.abs(own).mean(axis=0)
            parts.append(padded.ravel())
            offsets.append(offsets[-1] + padded.size)
        order = np.concatenate(groups)
        counts = np.array([len(group) for group in groups])
        chains = -(-counts // turn) + TURN + 8.0  # roundings of a sum, and of a coefficient
        return cls(
            Panels.lay_out(layout, SINGLE, [order], np.zeros(len(order))),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            np.array(offsets, dtype=np.int64),
            np.concatenate(parts),
            error_terms(layout, groups, np.zeros(len(order)), SINGLE_UNIT),
            (EXP2_ERROR + chains) * SINGLE_UNIT,
            rounding,
        )

    @property
    def ready(self) -> bool:
        """Whether its kernels are compiled; if not, that is begun."""
        from kernelite.cpu.kernels import pairs, panel_rows

        kernels: list[Any] = [panel_rows.single_rows, pairs.walk_rows]
        if self.panels.layout.sparse:
            kernels += [panel_rows.entries, pairs.walk_entries]
        return all([ready(kernel) for kernel in kernels])  # noqa: C419  # begin them all

    def winners(self, rows: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
        """The class that surely wins all of its pairs, -1 where none does; and its least lead."""
        rows, m = np.ascontiguousarray(rows), len(rows)
        winners, leads = np.empty(m, np.int64), np.empty(m)
        run = self._run_entries if self.panels.layout.few_entries(rows) else self._run_rows

        def part(block: slice) -> None:
            run(rows[block], winners[block], leads[block])

        if m == 1 or few_rows(m, self.panels.layout):
            part(slice(0, m))
        else:
            for_each_chunk(part, m, max(8, min(ROWS, -(-m // thread_count()))))
        return winners, leads

    def _run_rows(self, rows: FloatArray, winners: Any, leads: Any) -> None:
        from kernelite.cpu.kernels import pairs, panel_rows

        layout, precision = self.panels.layout, self.panels.precision
        w = np.empty((len(rows), len(layout.order)), np.float32)
        shifts, norms = np.empty(len(rows), np.float32), np.empty((len(rows), 2))
        panel_rows.single_rows(rows, layout.point, layout.order, layout.g, w, shifts, norms)
        walk: Any = pairs.walk_rows
        given = w, shifts, norms, precision.rows, *self._model(0)
        walk(*given, self._room(len(rows)), winners, leads)

    def _run_entries(self, rows: FloatArray, winners: Any, leads: Any) -> None:
        from kernelite.cpu.kernels import pairs, panel_rows

        layout, m = self.panels.layout, len(rows)
        indptr, room = np.empty(m + 1, np.int64), m * len(layout.order)
        indices, data = np.empty(room, np.int32), np.empty(room, np.float32)
        shifts, norms = np.empty(m, np.float32), np.empty((m, 2))
        panel_rows.entries(
            *(rows, layout.point, layout.order, layout.g, layout.least),
            *(indptr, indices, data, shifts, norms),
        )
        walk: Any = pairs.walk_entries
        given = indptr, indices, data, shifts, norms, *self._model(1)
        walk(*given, self._room(m), winners, leads)

    def _room(self, m: int) -> NDArray[np.float32]:
        """For kernel values of a tile of rows, and what coefficients are padded by beyond them."""
        from kernelite.cpu.kernels.exp2 import SINGLE
        from kernelite.cpu.kernels.pairs import TURN

        width = len(self.panels.exponents) + TURN * SINGLE.lanes
        tall = max(SINGLE.rows, TILE_BYTES // (4 * width) // SINGLE.rows * SINGLE.rows)
        return np.zeros((max(1, min(tall, m)), width), dtype=np.float32)

    def _model(self, by_entries: int) -> tuple[Any, ...]:
        panels, expansion = self.panels, self.rounding.expansion
        return (
            *(panels.lines, panels.exponents, panels.starts),
            *(self.starts, self.offsets, self.coefficients),
            *(expansion.intercept, self._fixed, self._terms[by_entries], self.relative),
            MOST_NORM * MOST_NORM,
        )

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
        return np.ascontiguousarray(self.terms[:, :4]), np.ascontiguousarray(
            self.terms[:, [4, 1, 2, 3]]
        )
