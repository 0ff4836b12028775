"""Scores as nodes: rows are prepared, and those that a form leaves open go on.

In: what is exported, X of shape (m, d), and what settles a row. Out: scores and bounds (m, k). Rows
are picked with NonZero and Gather and put back with ScatterND, so that a tier costs only the rows
that reach it. Several machines are added up; open rows are taken exactly by all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelite.model.export.exact import exact_scores, prepared
from kernelite.model.export.graph.graph import Formula, Value
from kernelite.model.export.selection import ExportSelection, Piece
from kernelite.program.criteria import label_criterion
from kernelite.series.approximation import Approximation
from kernelite.series.rounding import sum_error

__all__ = ["evaluate"]


def evaluate(
    selection: ExportSelection, X: Value, criterion: Formula | None, *, bounded: bool
) -> tuple[Value, Value | None]:
    """Scores as good as the selection promises, and bounds where they are asked for.

    Parameters
    ----------
    selection : ExportSelection
    X : Value
        Rows as they come.
    criterion : criterion, optional
        Rows that need no further tier.
    bounded : bool
        Whether bounds are computed; a calibrated rule looks at scores alone.
    """
    model, pieces = selection.model, selection.pieces
    far: list[Value] = []
    if model.parts:
        X = prepared(model, X, far)
    rows = [prepared(piece.model, X, far) for piece in pieces]
    each = []
    for piece, own in zip(pieces, rows):
        inner = criterion
        if model.parts and criterion is not None:
            inner = label_criterion(piece.model.head, piece.model.tolerance)
        each.append(_first(piece, own, inner if bounded else None))
    k = selection.head.n_scores
    scores, bounds = _total(pieces, each, k)
    if model.tail is not None:
        tail: Formula = model.tail
        values, rounding = tail.values(X, X.graph.arithmetic)
        scores, bounds = scores + values, None if bounds is None else bounds + rounding
    for beyond in far if bounds is not None else []:
        bounds = X.graph.where(beyond, np.inf, bounds)
    scores, bounds = scores.of_width(k), None if bounds is None else bounds.of_width(k)
    if not selection.falls_back:
        return scores, bounds
    assert criterion is not None
    still_open = (~criterion(scores, scores if bounds is None else bounds)).places()
    exact = _total(
        pieces, [_exactly(piece, own.rows(still_open)) for piece, own in zip(pieces, rows)], k
    )[0]
    if model.tail is not None:
        exact = exact + values.rows(still_open)
    return scores.updated(still_open, exact).of_width(k), None


def _first(piece: Piece, rows: Value, criterion: Formula | None) -> tuple[Value, Value | None]:
    if piece.approximation is None:
        return _exactly(piece, rows)
    return _formed(piece.approximation, rows, criterion)


def _exactly(piece: Piece, rows: Value) -> tuple[Value, None]:
    expansion = piece.expansion
    assert expansion is not None
    r, k = expansion.n_features + 1, expansion.n_outputs
    # A tensor of degree 3 takes three times its packed numbers here.
    fold = k * r * r * (r + 1) / 2 <= expansion.n_centers * (r + 15 + k)
    return exact_scores(expansion, rows, fold=fold), None


def _total(
    pieces: tuple[Piece, ...], each: Sequence[tuple[Value, Value | None]], n_scores: int
) -> tuple[Value, Value | None]:
    """Scores and bounds of all machines, added up; adding rounds, and the bounds hold that."""
    if len(pieces) == 1 and np.array_equal(pieces[0].outputs, np.arange(n_scores)):
        return each[0]
    xp = each[0][0].graph
    spread = [_spread(piece, own, n_scores) for piece, (own, _) in zip(pieces, each)]
    scores = sum(spread[1:], start=spread[0])
    if any(bounds is None for _, bounds in each):
        return scores, None
    wide = [_spread(p, own, n_scores) for p, (_, own) in zip(pieces, each) if own is not None]
    sizes = [xp.abs(own) for own in spread]
    unit = xp.arithmetic.worse * sum_error(len(pieces))
    bounds = sum(wide[1:], start=wide[0]) * (1.0 + unit)
    return scores, bounds + sum(sizes[1:], start=sizes[0]) * unit


def _spread(piece: Piece, own: Value, n_scores: int) -> Value:
    """A machine's values at its outputs, zero elsewhere."""
    xp, places = own.graph, {int(c): i for i, c in enumerate(piece.outputs)}
    none = xp.full((own.shape[0], 1), 0.0)
    return xp.concat([own, none], axis=1)[:, [places.get(c, len(places)) for c in range(n_scores)]]


def _formed(
    forms: Approximation, rows: Value, criterion: Formula | None
) -> tuple[Value, Value | None]:
    """Scores by the first form; bounds, and a second form, with a criterion."""
    definition: Formula = forms
    found = definition.form.evaluate(rows)
    if criterion is None:
        return found.scores, None
    k = forms.form.n_outputs
    bounds = definition.form.bounds(
        forms.certificate, found, arithmetic=rows.graph.arithmetic
    ).of_width(k)
    scores = found.scores.of_width(k)
    if not forms.has_second_form:
        return scores, bounds
    still_open = (~criterion(scores, bounds)).places()
    first = None
    if forms.full is None:
        first = found._replace(
            scores=scores.rows(still_open), sq_norms=found.sq_norms.rows(still_open)
        )
    better, better_bounds = definition.second(rows.rows(still_open), first, rows.graph.arithmetic)
    return (
        scores.updated(still_open, better.scores),
        bounds.updated(still_open, better_bounds),
    )
