"""The tiers: a form with its O(1) bound, then cubic, then exact; each for the rows still open.

In: dense rows and a criterion that says which rows are settled. Out: scores, bounds, and the tier
that settled each row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from kernelite.approximation.cells import Approximation, Cell
from kernelite.approximation.cubic import CubicForm
from kernelite.approximation.spectral import SpectralForm
from kernelite.engines.blas import Evaluated, cubic_values, form_scores
from kernelite.engines.exact import ExactEngine
from kernelite.inputs import FloatArray

__all__ = ["CUBIC", "EXACT", "FORM", "Criterion", "Outcome", "evaluate", "form_bounds"]

FORM, CUBIC, EXACT = 0, 1, 2
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
    seconds : ndarray of shape (3,)
        Time spent in each tier.
    """

    scores: FloatArray
    bounds: FloatArray | None
    tier: NDArray[np.int8]
    valid: NDArray[np.bool_]
    seconds: FloatArray


def evaluate(
    approximation: Approximation,
    exact: ExactEngine | None,
    rows: FloatArray,
    settled: Criterion | None,
) -> Outcome:
    """Run the tiers on a block of rows.

    Parameters
    ----------
    approximation : Approximation
    exact : ExactEngine, optional
        The last tier; without it open rows keep their last scores.
    rows : ndarray of shape (m, d)
    settled : callable of (scores, bounds), optional
        Which rows need no further tier. None: the form's scores serve all rows.
    """
    started = perf_counter()
    m, k = len(rows), approximation.form.n_outputs
    scores, bounds = np.empty((m, k)), np.zeros((m, k))
    tier, valid = np.zeros(m, dtype=np.int8), np.empty(m, dtype=np.bool_)
    seconds = np.zeros(3)
    cell_of_row = approximation.assign(rows)
    for index, cell in enumerate(approximation.cells):
        mine = _members(cell_of_row, index, len(approximation.cells))
        outcome = _evaluate_cell(cell, rows[mine], settled, seconds)
        scores[mine], bounds[mine], tier[mine], valid[mine] = outcome
    seconds[FORM] += perf_counter() - started - seconds.sum()
    if settled is not None and exact is not None:
        started = perf_counter()
        open_rows = np.flatnonzero(tier == EXACT)
        if len(open_rows):
            scores[open_rows], bounds[open_rows] = exact.run(rows[open_rows])
        seconds[EXACT] += perf_counter() - started
    return Outcome(scores, bounds if approximation.certified else None, tier, valid, seconds)


def form_bounds(cell: Cell, evaluated: Evaluated, degree: int = 2) -> FloatArray:
    """The certificate of evaluated scores, the truncation of the spectrum included: (m, k)."""
    assert cell.certificate is not None
    bounds = cell.certificate.bound(evaluated.sq_norms, evaluated.scores, degree)
    if isinstance(cell.form, SpectralForm) and evaluated.kept is not None:
        bounds += cell.form.truncation_bound(evaluated.sq_norms, evaluated.kept)
    return bounds


def _members(cell_of_row: NDArray[np.intp], index: int, count: int) -> slice | NDArray[np.intp]:
    return slice(None) if count == 1 else np.flatnonzero(cell_of_row == index)


def _evaluate_cell(
    cell: Cell, rows: FloatArray, settled: Criterion | None, seconds: FloatArray
) -> tuple[FloatArray, FloatArray, NDArray[np.int8], NDArray[np.bool_]]:
    evaluated = form_scores(cell.form, rows)
    scores = evaluated.scores
    tier = np.zeros(len(rows), dtype=np.int8)
    valid = cell.form.valid(evaluated.sq_norms)
    if cell.certificate is None:
        bounds = np.zeros_like(scores)
    else:
        bounds = form_bounds(cell, evaluated)
    if settled is None:
        return scores, bounds, tier, valid
    tier[~settled(scores, bounds)] = EXACT
    if cell.has_second_tier:
        started = perf_counter()
        still = np.flatnonzero(tier == EXACT)
        if len(still):
            better = _second_tier(cell, rows[still], _part(evaluated, still))
            # Not where its bound is the looser one: `error_bound` promises the first tier's.
            done = settled(*better) & (better[1] <= bounds[still]).all(axis=1)
            scores[still[done]], bounds[still[done]] = better[0][done], better[1][done]
            tier[still[done]] = CUBIC
        seconds[CUBIC] += perf_counter() - started
    return scores, bounds, tier, valid


def _part(evaluated: Evaluated, rows: NDArray[np.intp]) -> Evaluated:
    kept = None if evaluated.kept is None else evaluated.kept[rows]
    return Evaluated(evaluated.scores[rows], evaluated.sq_norms[rows], kept)


def _second_tier(
    cell: Cell, rows: FloatArray, evaluated: Evaluated
) -> tuple[FloatArray, FloatArray]:
    """Scores and bounds from the untruncated form and the third order, as far as the cell has them.

    The third order is evaluated, or bounded along each row's direction.
    """
    if cell.full is not None:
        evaluated = form_scores(cell.full, rows)
        cell = replace(cell, form=cell.full)
    cubic = cell.cubic
    if cubic is None:
        return evaluated.scores, form_bounds(cell, evaluated)
    U = rows - cell.form.point
    with np.errstate(over="ignore", under="ignore"):
        damping = np.exp(-cell.form.gamma * evaluated.sq_norms)
    if not isinstance(cubic, CubicForm):
        bounds = form_bounds(cell, evaluated, degree=3)
        return evaluated.scores, bounds + cubic.bound(U, evaluated.sq_norms, damping)
    Y = U if cubic.basis is None else U @ cubic.basis
    third = cubic_values(cubic.packed, Y)
    with np.errstate(over="ignore", invalid="ignore"):
        third *= damping[:, None]
    third[damping == 0.0] = 0.0
    scores = evaluated.scores + third
    bounds = form_bounds(cell, evaluated._replace(scores=scores), degree=3)
    norms, kept = np.sqrt(evaluated.sq_norms), np.sqrt(np.einsum("ij,ij->i", Y, Y))
    return scores, bounds + cubic.tail_bound(norms, kept, damping)
