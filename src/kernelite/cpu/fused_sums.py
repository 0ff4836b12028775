"""One output's exact sum in one pass over panels, in single or double precision.

    sum_i a_i K_i = sum_{a_i > 0} 2^(y_i) - sum_{a_i < 0} 2^(y_i)

with log2 |a_i| inside the exponent: no coefficient is multiplied, and the two sums also give
S = sum_i |a_i| K_i, which bounds are made of. Centers of one sign stand together, by their norms,
so that a block's own reach bounds its errors. Of a block found as s, with the exponent's error e
(`panels`), exp2's error and the roundings of sums,

    |error| <= s (2^e - 1 + (EXP2 + panels + 12) v) + what was cut off below 2^smallest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from kernelite.cpu.exact_rounding import ExactRounding
from kernelite.cpu.kernels.compiling import ready
from kernelite.cpu.panels import BLOCK_PANELS, Layout, Panels, error_terms
from kernelite.cpu.threads import for_each_chunk, thread_count
from kernelite.rows.inputs import FloatArray, Rows, dense_block, is_sparse
from kernelite.series.rounding import SAFETY, TINY, UNIT

__all__ = ["SINGLE_UNIT", "FusedSums", "few_rows"]

SINGLE_UNIT = 2.0**-24
EXP2_ERROR = 6.0  # units that a power of two errs by, in either precision
MOST_LOG = 60.0  # of |log2 |a||: products with kernel values stay in range
MOST_NORM = 1e15  # of |u| and 2 g |s| in single precision: nothing overflows or gets lost
MOST_NUMBERS = 1 << 28  # of panels: a gigabyte in single precision
ROWS = 240  # that one thread takes at once,
SPARSE_ROWS = 4096  # if they are but a few entries each: panels are read once for all of them
LITTLE = 1 << 20  # multiply-adds of a call that one thread does at once


@dataclass(frozen=True, eq=False)
class FusedSums:
    """An expansion of one output laid out in panels.

    Parameters
    ----------
    panels : Panels
    signs : ndarray of shape (B,)
    terms : ndarray of shape (B, 5)
        As `error_terms` gives them, a line per block.
    rounding : ExactRounding
        Of the same expansion: what a bound adds for intercept and mapped rows.
    """

    panels: Panels
    signs: FloatArray
    terms: FloatArray
    rounding: ExactRounding

    @classmethod
    def prepare(cls, rounding: ExactRounding, layout: Layout, precision: Any) -> FusedSums | None:
        """Lay the centers out; None where numbers would not fit."""
        coefficients = rounding.expansion.coefficients[:, 0]
        if layout.shifted.size > MOST_NUMBERS:
            return None
        sizes = np.abs(coefficients)
        with np.errstate(divide="ignore"):
            logs = np.log2(sizes)
        used = sizes > 0.0
        reach = 2.0 * layout.g * float(np.sqrt(layout.squares.max(initial=0.0)))
        if not (np.abs(logs[used]) <= MOST_LOG).all() or not reach <= MOST_NORM:
            return None
        by_norm = np.argsort(layout.squares, kind="stable")
        by_sign = [by_norm[coefficients[by_norm] > 0.0], by_norm[coefficients[by_norm] < 0.0]]
        width = precision.panel
        made = Panels.lay_out(layout, precision, by_sign, np.where(used, logs, 0.0))
        groups, signs = [], []
        firsts = (0, -(-len(by_sign[0]) // width))
        for start, stop in zip(made.starts[:-1], made.starts[1:]):
            sign = int(start >= firsts[1])
            begin = (start - firsts[sign]) * width
            groups.append(by_sign[sign][begin : begin + (stop - start) * width])
            signs.append(1.0 - 2.0 * sign)
        unit = SINGLE_UNIT if precision.size == 4 else UNIT
        terms = error_terms(layout, groups, np.where(used, logs, 0.0), unit)
        return cls(made, np.array(signs), terms, rounding)

    @property
    def ready(self) -> bool:
        """Whether its kernels are compiled; if not, that is begun."""
        return "_calls" in self.__dict__ or all([ready(one) for one in self._needs])  # noqa: C419

    @cached_property
    def _needs(self) -> list[Any]:
        """The kernels that may be called."""
        from kernelite.cpu.kernels import panel_errors, panel_rows
        from kernelite.cpu.kernels import panels as panels_kernels

        if self.panels.precision.size == 8:
            return [panel_rows.double_rows, panels_kernels.double_sums]
        kernels: list[Any] = [panel_rows.single_rows, panels_kernels.single_sums]
        kernels += [panel_errors.bounded_sums]
        if self.panels.layout.sparse:
            kernels += [panel_rows.entries, panel_rows.sparse_entries]
            kernels += [panels_kernels.single_entry_sums]
        return kernels

    @cached_property
    def _calls(self) -> SimpleNamespace:
        """The kernels by their names, found once: a single row would feel each import."""
        return SimpleNamespace(**{kernel.__name__: kernel for kernel in self._needs})

    def scores(self, rows: FloatArray, out: FloatArray) -> FloatArray:
        """Scores without intercept into `out` of shape (m, 1); returns |u|^2, shape (m,)."""
        sums, norms, _ = self._sums(rows)
        # A matrix product's last digits would depend on how many rows there are, and where labels
        # are undecidable they are the label. NumPy sums each row by halves: some 30 roundings.
        sums *= self.signs
        np.add.reduce(sums, axis=1, out=out[:, 0])
        return norms[:, 0]

    def run(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Scores and bounds, each of shape (m, 1)."""
        sums, norms, by_entries = self._sums(rows)
        scores, bounds = np.empty((len(sums), 1)), np.empty((len(sums), 1))
        terms = self._terms[by_entries]
        self._calls.bounded_sums(sums, norms, self.signs, terms, self._constants, scores, bounds)
        return scores, bounds

    @cached_property
    def _terms(self) -> tuple[FloatArray, FloatArray]:
        """Errors of blocks where all features, or a row's entries, are multiplied: (B, 4)."""
        return np.ascontiguousarray(self.terms[:, :4]), np.ascontiguousarray(
            self.terms[:, [4, 1, 2, 3]]
        )

    @cached_property
    def _constants(self) -> FloatArray:
        """What `bounded_sums` wants to know besides."""
        precision = self.panels.precision
        unit = SINGLE_UNIT if precision.size == 4 else UNIT
        relative = (EXP2_ERROR + BLOCK_PANELS + 12.0 + self.panels.n_blocks * UNIT / unit) * unit
        cut_off = len(self.panels.exponents) * 2.0**precision.smallest + TINY
        intercept = float(self.rounding.expansion.intercept[0])
        fixed = float(self.rounding.constant[0])
        most = MOST_NORM if precision.size == 4 else 1e150
        return np.array([relative, cut_off, intercept, fixed, most * most, SAFETY])

    def _sums(self, rows: Rows) -> tuple[FloatArray, FloatArray, bool]:
        """Sums of blocks (m, B), norms of rows (m, 2), and whether entries were taken."""
        m, single = rows.shape[0], self.panels.precision.size == 4
        sums, norms = np.empty((m, self.panels.n_blocks)), np.empty((m, 2))
        by_entries = single and self.panels.layout.few_entries(rows)
        sparse = is_sparse(rows)
        if not sparse:
            rows = np.ascontiguousarray(rows)
        elif not by_entries:
            rows, sparse = dense_block(rows, slice(None)), False

        def part(block: slice) -> None:
            if sparse:
                self._sum_sparse(rows, block, sums[block], norms[block])
            elif by_entries:
                self._sum_entries(rows[block], sums[block], norms[block])
            else:
                self._sum_rows(rows[block], sums[block], norms[block])

        if m == 1 or few_rows(m, self.panels.layout):
            part(slice(0, m))
        else:
            most = SPARSE_ROWS if sparse else ROWS
            for_each_chunk(part, m, max(8, min(most, -(-m // thread_count()))))
        return sums, norms, by_entries

    def _sum_rows(self, rows: FloatArray, sums: FloatArray, norms: FloatArray) -> None:
        panels, layout, calls = self.panels, self.panels.layout, self._calls
        single = panels.precision.size == 4
        w = np.empty((len(rows), len(layout.order)), panels.precision.dtype)
        shifts = np.empty(len(rows), panels.precision.dtype)
        prepare = calls.single_rows if single else calls.double_rows
        prepare(rows, layout.point, layout.order, layout.g, w, shifts, norms)
        run = calls.single_sums if single else calls.double_sums
        many = panels.precision.rows
        run(w, shifts, panels.lines, panels.exponents, panels.starts, many, sums)

    def _sum_entries(self, rows: FloatArray, sums: FloatArray, norms: FloatArray) -> None:
        layout = self.panels.layout
        found = _room(len(rows), len(rows) * len(layout.order))
        self._calls.entries(rows, layout.point, layout.order, layout.g, layout.least, *found, norms)
        self._sum_found(*found, sums)

    def _sum_sparse(self, rows: Any, block: slice, sums: FloatArray, norms: FloatArray) -> None:
        """As `_sum_entries`, for rows of a csr_array."""
        from kernelite.cpu.kernels.densify import check_canonical

        layout, m = self.panels.layout, block.stop - block.start
        starts = rows.indptr[block.start : block.stop + 1].astype(np.int64)
        found = _room(m, int(starts[-1] - starts[0]) + m * len(layout.always))
        seen = np.full(len(layout.point), -1)
        bad = self._calls.sparse_entries(
            *(starts, rows.indices.astype(np.int32, copy=False), rows.data),
            *(layout.point, layout.always, layout.places),
            *(layout.g, layout.least, seen, *found, norms),
        )
        check_canonical(bad, block.start, rows.shape[1])
        self._sum_found(*found, sums)

    def _sum_found(self, indptr: Any, indices: Any, data: Any, shifts: Any, sums: Any) -> None:
        panels = self.panels
        self._calls.single_entry_sums(
            *(indptr, indices, data, shifts, panels.lines, panels.exponents, panels.starts, sums)
        )


def _room(m: int, entries: int) -> tuple[Any, Any, Any, Any]:
    """For indptr, indices, data and shifts of rows."""
    return (
        np.empty(m + 1, np.int64),
        np.empty(entries, np.int32),
        np.empty(entries, np.float32),
        np.empty(m, np.float32),
    )


def few_rows(m: int, layout: Layout) -> bool:
    """Whether a call is too little work to be shared out."""
    return m * layout.shifted.size < LITTLE
