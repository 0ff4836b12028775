"""The exact engine: f in double precision on all cores, with a bound on its own rounding.

Sparse rows meet sparse centers entry by entry where that is cheaper; all else goes by dense tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kernelite.cpu.exact_dense import DenseExact
from kernelite.cpu.exact_packed import LinearExact, PackedExact, laid_out
from kernelite.cpu.exact_pointwise import PointwiseExact
from kernelite.cpu.exact_sparse import SparseExact
from kernelite.cpu.fused_pairs import FusedPairs
from kernelite.cpu.fused_sums import FusedSums
from kernelite.cpu.kernels.compiling import jit_available
from kernelite.cpu.single_products import SingleProducts
from kernelite.machine.expansion import KernelExpansion
from kernelite.program.criteria import Proven, Settles, Within
from kernelite.rows.inputs import FloatArray, Rows, is_sparse

__all__ = ["ExactEngine", "as_dense"]

TRIED = 32  # rows that show whether single precision settles enough of them,
FEWEST_NUMBERS = 1 << 14  # of centers, from which values are taken from single precision
WORTH = 0.5  # which is more than it costs of double precision's time


@dataclass(frozen=True, eq=False)
class ExactEngine:
    """An expansion made ready to run.

    Parameters
    ----------
    expansion : KernelExpansion
    mapped : bool
        Whether rows come through an affine map, whose rounding then counts.

    Examples
    --------
    >>> engine = ExactEngine.prepare(KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0))
    >>> scores, bounds = engine.run(np.array([[0.0], [1e200]]))
    >>> scores
    array([[2.5],
           [0.5]])
    """

    expansion: KernelExpansion
    mapped: bool = False

    @classmethod
    def prepare(cls, expansion: KernelExpansion, *, mapped: bool = False) -> ExactEngine:
        """Lay the centers out, as most rows will want them."""
        engine = cls(expansion, mapped)
        if engine.sparse is None:
            engine.dense  # noqa: B018  # now, not when the first row comes
        return engine

    @cached_property
    def dense(self) -> DenseExact | LinearExact | PackedExact | PointwiseExact:
        """For dense rows."""
        if not self.expansion.has_series:
            return laid_out(self.expansion, mapped=self.mapped)
        return DenseExact.prepare(self.expansion, mapped=self.mapped)

    @cached_property
    def sparse(self) -> SparseExact | None:
        """For sparse rows, where they had better stay so."""
        return SparseExact.prepare(self.expansion, mapped=self.mapped)

    @cached_property
    def single(self) -> FusedSums | SingleProducts | None:
        """For dense rows and one output: single precision, with a bound."""
        if isinstance(self.dense, PointwiseExact):
            return SingleProducts.prepare(self.dense)
        if not isinstance(self.dense, DenseExact) or not isinstance(self.dense.fused, FusedSums):
            return None
        from kernelite.cpu.kernels.exp2 import SINGLE

        return FusedSums.prepare(self.dense.rounding, self.dense.layout, SINGLE)

    @cached_property
    def pairs(self) -> FusedPairs | None:
        """For dense rows of a one-vs-one classifier, of which only labels are asked for."""
        if self.sparse is not None or not isinstance(self.dense, DenseExact):
            return None
        if self.dense.fused is None:
            return None
        return FusedPairs.prepare(self.dense.rounding, self.dense.layout)

    @property
    def takes_sparse(self) -> bool:
        """Whether sparse rows may stay so."""
        return self.sparse is not None or isinstance(self.dense, LinearExact)

    @property
    def by_panels(self) -> bool:
        """Whether dense rows are summed in registers: fast even one at a time."""
        return self.sparse is None and self.dense.fused is not None and self.dense.fused.ready

    @property
    def ready(self) -> bool:
        """Whether all kernels that may serve are compiled; if not, that is begun."""
        ways = [self.dense.fused, self.single, self.pairs] if self.sparse is None else []
        return all([way is None or way.ready for way in ways])  # noqa: C419  # begin them all

    def _single_for_values(self, way: Any) -> FusedSums | SingleProducts | None:
        """Single precision, where it saves enough to give values fewer digits."""
        if way is not self.dense or self.expansion.centers.size < FEWEST_NUMBERS:
            return None
        return self.single if self._single_ready else None

    @property
    def _single_ready(self) -> bool:
        return self.single is not None and self.single.ready

    def run(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Scores and rounding bounds, each of shape (m, k)."""
        way, rows = self._way(rows)
        scores, squares = self._scores(way, rows)
        return scores, way.rounding.bounds(squares, way.length(rows))

    def run_for(self, rows: Rows, settles: Settles | None) -> tuple[FloatArray, FloatArray]:
        """As `run`; where labels are all that is asked for, scores may be only as good as that."""
        way, rows = self._way(rows)
        if not isinstance(settles, Proven):
            return self.run(rows)
        if way is self.dense and self._single_ready:
            assert self.single is not None
            return self._run_single(self.single, rows, settles)
        return self.run_alike(rows, settles)

    def run_alike(self, rows: Rows, settles: Settles) -> tuple[FloatArray, FloatArray]:
        """As `run`, but rows that it cannot settle get the same scores alone and among others.

        A matrix product's last digits depend on its shape, and there they are the label.
        """
        scores, bounds = self.run(rows)
        if rows.shape[0] > 1:
            for i in np.flatnonzero(~settles(scores, bounds)):
                scores[i], bounds[i] = self.run(rows[i : i + 1])
        return scores, bounds

    def _run_single(
        self, single: FusedSums | SingleProducts, rows: FloatArray, settles: Settles
    ) -> tuple[FloatArray, FloatArray]:
        """Single precision, then double for the rows that it does not settle."""
        if not self._pays(single, rows, settles):
            return self.run(rows)
        scores, bounds = single.run(rows)
        still = np.flatnonzero(~settles(scores, bounds))
        if len(still):
            scores[still], bounds[still] = self.run(rows[still])
        return scores, bounds

    def _pays(self, single: FusedSums | SingleProducts, rows: FloatArray, settles: Settles) -> bool:
        """Whether single precision settles enough, as some of the rows show."""
        if len(rows) < 16 * TRIED:
            return True
        return float(settles(*single.run(rows[:: len(rows) // TRIED])).mean()) >= WORTH

    def run_within(
        self, rows: Rows, tolerance: FloatArray, out: FloatArray | None = None
    ) -> tuple[FloatArray, int]:
        """Scores of shape (m, k), and of how many rows a bound is above an output's tolerance.

        With many outputs, bounds spelled out would cost as much as scores.

        Parameters
        ----------
        rows : ndarray or csr_array of shape (m, d)
        tolerance : ndarray of shape (k,)
        out : ndarray of shape (m, k), optional
            Where the scores go.
        """
        way, rows = self._way(rows)
        single = self._single_for_values(way)
        if single is not None:
            within = Within(tolerance)
            scores, bounds = self._run_single(single, rows, within)
            if out is not None:
                out[...] = scores
            return scores if out is None else out, int(np.count_nonzero(~within(scores, bounds)))
        scores, squares = self._scores(way, rows, out)
        return scores, way.rounding.count_above(squares, way.length(rows), tolerance)

    def run_bound(self, rows: Rows, tolerance: FloatArray | None = None) -> FloatArray:
        """The rounding bound of `run`, without running it: shape (m, k).

        With a tolerance, that of `run_within`: a row that single precision serves is off by that at
        most. Whether it serves may depend on the rows around it, so it counts for all.
        """
        way, rows = self._way(rows)
        bounds: FloatArray = way.rounding.bounds(way.squares(rows), way.length(rows))
        if tolerance is not None and self._single_for_values(way) is not None:
            bounds = np.maximum(bounds, tolerance)
        return bounds

    def _scores(
        self, way: Any, rows: Rows, out: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        scores, squares = way.scores(rows, out)
        far = way.rounding.far(squares)
        if far.any():
            scores[far] = self.expansion.intercept
        return scores, squares

    def _way(self, rows: Rows) -> tuple[Any, Any]:
        """What serves these rows, and the rows as it takes them."""
        sparse = self.sparse
        if sparse is None:
            return self.dense, rows if isinstance(self.dense, LinearExact) else as_dense(rows)
        if is_sparse(rows):
            return sparse, rows
        if not sparse.serves_dense_rows:
            return self.dense, rows
        from scipy.sparse import csr_array

        return sparse, csr_array(rows)


def as_dense(rows: Rows) -> FloatArray:
    """Rows as a dense array, on all threads where kernels can be had."""
    if not is_sparse(rows):
        return rows
    if not jit_available():
        return np.asarray(rows.toarray())
    from kernelite.cpu.kernels.densify import dense_rows

    return dense_rows(rows)
