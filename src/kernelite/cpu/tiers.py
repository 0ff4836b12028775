"""The tiers: a form with its O(1) bound, then cubic, then exact; each for the rows still open.

In: dense rows and a criterion that says which rows are settled. Out: scores, bounds, and the tier
that settled each row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelite.cpu.blas import Evaluated
from kernelite.cpu.cell import CellEngine
from kernelite.cpu.exact import ExactEngine, as_dense
from kernelite.cpu.mapped import MappedRows
from kernelite.program.criteria import Within
from kernelite.rows.inputs import FloatArray, Rows, dense_block, is_sparse
from kernelite.series.cells import Approximation

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from kernelite.cpu.kernels.third_dense import JitThird

__all__ = ["CUBIC", "EXACT", "FORM", "MOSTLY", "Criterion", "Outcome", "Tiers", "evaluate"]

FORM, CUBIC, EXACT = 0, 1, 2
PROBED = 128  # rows that show whether the first tier leaves nearly all rows open
MOSTLY = 0.6  # the share of open rows from which both tiers in one pass are cheaper
Criterion = Callable[[FloatArray, FloatArray], NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a block of rows got.

    Parameters
    ----------
    scores : ndarray of shape (m, k)
    bounds : ndarray of shape (m, k), or None where nothing is proven
    tier : ndarray of shape (m,)
        FORM, CUBIC or EXACT.
    valid : ndarray of shape (m,)
        The paper's validity bound of the form that served.
    finite : bool
        Whether all squared norms are finite; if not, rows may hold NaN or infinity.
    seconds : ndarray of shape (3,)
        Time spent in each tier.
    undecidable : int, optional
        Rows that even exact scores do not settle, where they were counted without bounds.
    """

    scores: FloatArray
    bounds: FloatArray | None
    tier: NDArray[np.int8]
    valid: NDArray[np.bool_]
    finite: bool
    seconds: FloatArray
    undecidable: int | None = None


@dataclass(frozen=True, eq=False)
class Tiers:
    """An approximation made ready to run."""

    approximation: Approximation
    engines: tuple[CellEngine, ...]

    @classmethod
    def prepare(cls, approximation: Approximation, *, fused: bool = True) -> Tiers:
        """Choose and lay out an engine for each form; `fused=False` keeps to BLAS."""
        cells = approximation.cells
        return cls(approximation, tuple(CellEngine.prepare(cell, fused=fused) for cell in cells))

    def takes_sparse(self, rows: csr_array) -> bool:
        """Whether the first tier evaluates these sparse rows as they are."""
        return len(self.engines) == 1 and self.engines[0].first.takes_sparse(rows)


def evaluate(
    tiers: Tiers, exact: ExactEngine | None, rows: Rows | MappedRows, settled: Criterion | None
) -> Outcome:
    """Run the tiers on a block of rows.

    Parameters
    ----------
    tiers : Tiers
    exact : ExactEngine, optional
        The last tier; without it open rows keep their last scores.
    rows : ndarray, csr_array or MappedRows of shape (m, d)
        Sparse rows stay so in the first tier where that is cheaper; mapped ones serve one cell.
    settled : callable of (scores, bounds), optional
        Which rows need no further tier. None: the form's scores serve all rows.
    """
    started = perf_counter()
    if is_sparse(rows) and not tiers.takes_sparse(rows):
        rows = as_dense(rows)
    if len(tiers.engines) == 1 or isinstance(rows, MappedRows):
        outcome = _evaluate_cell(tiers.engines[0], rows, settled)
    else:
        outcome = _evaluate_cells(tiers, rows, settled)
    outcome.seconds[FORM] = perf_counter() - started - outcome.seconds[CUBIC]
    if settled is not None and exact is not None:
        started = perf_counter()
        still = np.flatnonzero(outcome.tier == EXACT)
        if len(still):
            outcome.scores[still], bounds = exact.run_for(rows[still], settled)
            if outcome.bounds is not None:
                outcome.bounds[still] = bounds
        outcome.seconds[EXACT] = perf_counter() - started
    return outcome


def _evaluate_cells(tiers: Tiers, rows: FloatArray, settled: Criterion | None) -> Outcome:
    """Rows grouped by cell, so that each cell runs as a block."""
    approximation = tiers.approximation
    m, k = len(rows), approximation.form.n_outputs
    whole = Outcome(
        np.empty((m, k)),
        np.empty((m, k)) if approximation.certified else None,
        np.empty(m, dtype=np.int8),
        np.empty(m, dtype=np.bool_),
        True,
        np.zeros(3),
    )
    cell_of_row = approximation.assign(rows)
    finite = True
    for index, engine in enumerate(tiers.engines):
        mine = np.flatnonzero(cell_of_row == index)
        part = _evaluate_cell(engine, rows[mine], settled)
        whole.scores[mine], whole.tier[mine], whole.valid[mine] = part.scores, part.tier, part.valid
        if whole.bounds is not None:
            whole.bounds[mine] = part.bounds
        whole.seconds[CUBIC] += part.seconds[CUBIC]
        finite = finite and part.finite
    return replace(whole, finite=finite)


def _evaluate_cell(
    engine: CellEngine, rows: Rows | MappedRows, settled: Criterion | None
) -> Outcome:
    cell = engine.cell
    if isinstance(settled, Within):
        way = _at_once(engine, rows, settled)
        if way is not None:
            return _evaluate_both(engine, way, rows, settled)
    certified = cell.certificate is not None
    if isinstance(rows, MappedRows):
        evaluated, bounds = rows.run(engine.first, bounded=certified)
    else:
        run = engine.first.run_sparse if is_sparse(rows) else engine.first.run
        evaluated, bounds = run(rows, bounded=certified)
    scores, seconds = evaluated.scores, np.zeros(3)
    tier = np.zeros(len(scores), dtype=np.int8)
    valid = cell.form.valid(evaluated.sq_norms)
    finite = bool(np.isfinite(evaluated.sq_norms.sum()))
    if settled is not None:
        tier[~settled(scores, scores if bounds is None else bounds)] = EXACT
        if cell.has_second_tier and bounds is not None:
            started = perf_counter()
            _try_second_tier(engine, rows, evaluated, bounds, tier, settled)
            seconds[CUBIC] = perf_counter() - started
    return Outcome(scores, bounds, tier, valid, finite, seconds)


def _at_once(engine: CellEngine, rows: Rows | MappedRows, settled: Within) -> JitThird | None:
    """What both tiers had better run in one pass, if some of the rows say that it pays.

    It does where the first tier leaves most of them open. A product stands for the third order
    where it leaves few enough.
    """
    whole = engine.third is not None and engine.full is None  # it has the first tier on its way
    if not whole or is_sparse(rows) or rows.shape[0] < 4 * PROBED or engine.third_now is None:
        return None
    from kernelite.cpu.kernels.third_dense import two_tiers

    paired = engine.paired
    if paired is None or paired.fused is None or paired.worth == 0.0:
        worth, way = 1.0, engine.third
    else:
        worth, way = paired.worth, paired.fused
    assert way is not None
    few = dense_block(rows, np.arange(0, rows.shape[0], rows.shape[0] // PROBED))
    tier = two_tiers(way, few, np.broadcast_to(settled.tolerance, way.form.n_outputs)).tier
    if np.mean(tier != FORM) <= MOSTLY:
        return None
    return way if np.mean(tier == EXACT) <= worth else engine.third


def _evaluate_both(
    engine: CellEngine, way: JitThird, rows: Rows | MappedRows, settled: Within
) -> Outcome:
    """Both tiers in one pass; after a product, the second tier for what it leaves open."""
    from kernelite.cpu.kernels import third_dense

    started = perf_counter()
    form = engine.cell.form
    limits = np.broadcast_to(settled.tolerance, form.n_outputs)
    dense = dense_block(rows, slice(None))
    found = third_dense.two_tiers(way, dense, limits)
    if way is not engine.third:
        evaluated = Evaluated(found.scores, found.sq_norms)
        _try_second_tier(engine, dense, evaluated, found.bounds, found.tier, settled)
    finite = bool(np.isfinite(found.sq_norms.sum()))
    seconds = np.array([0.0, perf_counter() - started, 0.0])
    valid = form.valid(found.sq_norms)
    return Outcome(found.scores, found.bounds, found.tier, valid, finite, seconds)


def _try_second_tier(
    engine: CellEngine,
    rows: Rows | MappedRows,
    evaluated: Evaluated,
    bounds: FloatArray,
    tier: NDArray[np.int8],
    settled: Criterion,
) -> None:
    """Improve the open rows in place."""
    still = np.flatnonzero(tier == EXACT)
    if not len(still):
        return
    part = None
    if is_sparse(rows):
        # The folded shift cost |u|^2 some digits; the second tier's bounds want it whole.
        dense = dense_block(rows, still)
    elif engine.third_now is not None:
        dense = rows[still]  # it takes nothing over from the first tier
    else:
        dense = rows[still]
        kept = None if evaluated.kept is None else evaluated.kept[still]
        part = Evaluated(evaluated.scores[still], evaluated.sq_norms[still], kept)
    better = engine.second(dense, part)
    # Not where its bound is the looser one: `error_bound` promises the first tier's.
    done = settled(*better) & (better[1] <= bounds[still]).all(axis=1)
    evaluated.scores[still[done]], bounds[still[done]] = better[0][done], better[1][done]
    tier[still[done]] = CUBIC
