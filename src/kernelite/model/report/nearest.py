"""The rows that came nearest to failing, and those whose label changes soonest when they move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelite.data.rows.inputs import FloatArray, rows_at
from kernelite.model import CompiledModel
from kernelite.model.report.measure import TIERS, Measured, margins_of
from kernelite.support.errors import KerneliteError

__all__ = ["Held", "held_rows", "nearest_rows"]

MOST = 10
MOST_RADII = 400  # rows whose radius is looked at
RADIUS_WORK = 4e8  # rows times numbers of the centers, at most
NAMED_COLUMNS = 3  # columns named per row


@dataclass(frozen=True)
class NearRow:
    """One row.

    Parameters
    ----------
    number : int
        Of the data, from 1.
    room : float
        How many times its limit a row had: margin over bound, tolerance over bound, margin over
        threshold, or, where nothing is proven, minus its error.
    score, exact, error, bound : float or None
        The largest of several outputs' where there are several; margins for labels.
    answer : str
    tier : str
    """

    number: int
    answer: str
    room: float
    score: float
    exact: float | None
    error: float | None
    bound: float | None
    tier: str


def nearest_rows(model: CompiledModel, measured: Measured) -> tuple[str, list[NearRow]]:
    """What `room` means here, and the rows with least of it, among those the form decided.

    Parameters
    ----------
    model : CompiledModel
    measured : Measured
    """
    meaning, room = _room(model, measured)
    if room is None:
        return meaning, []
    eligible = np.flatnonzero((measured.tier == 0) & np.isfinite(room))
    order = eligible[np.argsort(room[eligible], kind="stable")][:MOST]
    answers = np.asarray(model.head.predict(measured.served))
    shown = _shown(model, measured.served)
    truth = None if measured.exact is None else _shown(model, measured.exact)
    error = None if measured.exact is None else measured.errors().max(axis=1)
    bound = None if measured.bounds is None else measured.bounds.max(axis=1)
    rows = [
        NearRow(
            number=int(measured.chosen[i]) + 1,
            answer=_text(answers[i]),
            room=float(room[i]),
            score=float(shown[i]),
            exact=None if truth is None else float(truth[i]),
            error=None if error is None else float(error[i]),
            bound=None if bound is None else float(bound[i]),
            tier=TIERS[int(measured.tier[i])],
        )
        for i in order
    ]
    return meaning, rows


@dataclass(frozen=True)
class HeldRow:
    """A row, how far its label holds, and the columns along which its score changes fastest."""

    number: int
    answer: str
    radius: float
    columns: str


@dataclass(frozen=True, eq=False)
class Held:
    """How far labels hold: radii of some rows, and the rows with the smallest.

    Parameters
    ----------
    radii : ndarray of shape (m,)
    rows : list of HeldRow
    """

    radii: FloatArray
    rows: list[HeldRow]


def held_rows(model: CompiledModel, X: Any, measured: Measured) -> Held | None:
    """How far the labels of some rows hold; None where that is not known of the model.

    Parameters
    ----------
    model : CompiledModel
    X : array-like of shape (m, d)
    measured : Measured
    """
    expansion = model.expansion
    if expansion is None or not model.head.proves_labels:
        return None
    numbers = max(1, expansion.n_centers * expansion.n_features)
    most = int(min(MOST_RADII, measured.rows, max(MOST, RADIUS_WORK // numbers)))
    places = measured.chosen[np.linspace(0, measured.rows - 1, most).astype(np.intp)]
    some = rows_at(X, places)
    try:
        radii = model.radius(some)
        order = np.argsort(radii, kind="stable")[:MOST]
        slopes = np.abs(model.gradient(some)).reshape(most, model.head.n_scores, -1).max(axis=1)
    except KerneliteError:
        return None
    names = model.origin.feature_names or [f"column {j}" for j in range(slopes.shape[1])]
    answers = np.asarray(model.predict(some))
    rows = [
        HeldRow(
            int(places[i]) + 1,
            _text(answers[i]),
            float(radii[i]),
            ", ".join(names[j] for j in np.argsort(-slopes[i], kind="stable")[:NAMED_COLUMNS]),
        )
        for i in order
    ]
    return Held(radii, rows)


def _room(model: CompiledModel, measured: Measured) -> tuple[str, FloatArray | None]:
    margin = margins_of(model, measured.served)
    if model.approximation is None:
        return "", None
    with np.errstate(divide="ignore", invalid="ignore"):
        if model.guarantee == "calibrated" and margin is not None and model.threshold:
            return "margin / threshold", margin / model.threshold
        if measured.bounds is not None and margin is not None:
            return "margin / bound", margin / measured.bounds.max(axis=1)
        if measured.bounds is not None and model.tolerance is not None:
            ratios = model.tolerance / measured.bounds
            return "tolerance / bound", ratios.min(axis=1)
    if measured.exact is not None:
        return "−error", -measured.errors().max(axis=1)
    return ("margin", margin) if margin is not None else ("", None)


def _shown(model: CompiledModel, scores: FloatArray) -> FloatArray:
    """One number per row: the score, or with several outputs the margin (labels) or the first."""
    if scores.shape[1] == 1:
        return scores[:, 0]
    margin = margins_of(model, scores)
    return scores[:, 0] if margin is None else margin


def _text(answer: object) -> str:
    values = np.asarray(answer)
    if values.ndim:
        return ", ".join(_text(value) for value in values.ravel()[:3]) + (
            ", …" if values.size > 3 else ""
        )
    value = values.item()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
