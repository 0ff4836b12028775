"""Cells and tiers as ONNX nodes: each row goes to its cell, open rows to the next tier.

Rows are picked with NonZero and Gather and put back with ScatterND, so that a tier costs only the
rows that reach it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from kernelite.export.onnx_bounds import form_bounds, second_tier
from kernelite.export.onnx_forms import evaluate_form
from kernelite.export.onnx_graph import Value
from kernelite.series.cells import Approximation, Cell

__all__ = ["Settles", "evaluate_approximation"]

Settles: TypeAlias = Callable[[Value, Value], Value]


def evaluate_approximation(
    approximation: Approximation, rows: Value, settles: Settles | None
) -> tuple[Value, Value | None]:
    """Scores, and bounds where a certificate is there, each of shape (m, k).

    Parameters
    ----------
    approximation : Approximation
    rows : Value
        X of shape (m, d).
    settles : callable of (scores, bounds), optional
        Rows that need no second tier. None: the form serves all rows, and bounds are not wanted.
    """
    cells = approximation.cells
    if len(cells) == 1:
        return _evaluate_cell(cells[0], rows, settles)
    graph, points = rows.graph, approximation.points
    nearness = rows @ points.T - 0.5 * np.einsum("ij,ij->i", points, points)
    cell_of_row = nearness.argmax()
    places, answers = [], []
    for index, cell in enumerate(cells):
        mine = cell_of_row.equals(graph.index(index)).places()
        scores, bounds = _evaluate_cell(cell, rows.rows(mine), settles)
        places.append(mine)
        answers.append(scores if bounds is None else graph.stack(scores, bounds, axis=1))
    k = approximation.form.n_outputs
    bounded = settles is not None
    empty = graph.zeros(rows, 2 * k if bounded else k)
    both = empty.updated(graph.stack(*places), graph.stack(*answers))
    if not bounded:
        return both, None
    return both.columns(np.arange(k)), both.columns(np.arange(k, 2 * k))


def _evaluate_cell(cell: Cell, rows: Value, settles: Settles | None) -> tuple[Value, Value | None]:
    evaluated = evaluate_form(cell.form, rows)
    if settles is None:
        return evaluated.scores, None
    scores, bounds = evaluated.scores, form_bounds(cell, evaluated)
    if not cell.has_second_tier:
        return scores, bounds
    still_open = (~settles(scores, bounds)).places()
    better = second_tier(cell, rows.rows(still_open), evaluated.rows(still_open))
    return scores.updated(still_open, better[0]), bounds.updated(still_open, better[1])
