"""What a report is made of: a model's answers on rows, next to the exact model's.

In: a compiled model and rows. Out: scores, bounds and tiers row by row, and timings. Everything is
measured here and now; nothing is taken from the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, is_sparse, rows_at, some_rows
from kernelite.model import CompiledModel
from kernelite.model.predicting import rule_of
from kernelite.model.serving import rows_and_runner
from kernelite.program.bounded import EXACT, FULL, THIRD, Bounded, spelled_out
from kernelite.program.criteria import label_criterion
from kernelite.support.errors import InputError, KerneliteError

__all__ = [
    "TIERS",
    "Compared",
    "Held",
    "Measured",
    "compare",
    "held_rows",
    "margins_of",
    "measure",
    "nearest_rows",
]

TIERS = ("form", "second form", "exact model")
MOST_COMPARED_ROWS = 5000  # compared with the exact model
TIMED_ROWS = 2000
TIMED_TURNS = 3
DENSE_BYTES = 2**28


@dataclass(frozen=True)
class Timed:
    """Seconds a row of the compiled and of the exact model, best of several turns."""

    compiled: float
    exact: float | None
    rows: int
    turns: int = TIMED_TURNS

    @property
    def speed_up(self) -> float | None:
        """Times that the compiled model is faster."""
        return None if self.exact is None else self.exact / max(self.compiled, 1e-12)


@dataclass(frozen=True, eq=False)
class Measured:
    """A model on m rows.

    Parameters
    ----------
    given : int
        Rows that the caller had.
    chosen : ndarray of shape (m,)
        Which of them were looked at.
    served, form : ndarray of shape (m, k)
        Scores that the model answers from, and those of its first tier.
    bounds : ndarray of shape (m, k), optional
        The certificate of `form`.
    exact : ndarray of shape (m, k), optional
        The exact model's scores.
    tier : ndarray of shape (m,)
        Index into `TIERS`.
    differ : int, optional
        Rows whose label is not the exact model's.
    timed : Timed
    """

    given: int
    chosen: NDArray[np.intp]
    served: FloatArray
    form: FloatArray
    bounds: FloatArray | None
    exact: FloatArray | None
    tier: NDArray[np.int8]
    differ: int | None
    outside_validity: int
    timed: Timed

    @property
    def rows(self) -> int:
        """m."""
        return len(self.tier)

    def share(self, tier: int) -> float:
        """The share of rows that a tier served."""
        return float(np.mean(self.tier == tier)) if self.rows else 0.0

    def errors(self) -> FloatArray:
        """How far the first tier's scores are from the exact ones, shape (m, k)."""
        assert self.exact is not None
        return np.abs(self.form - self.exact)


def measure(model: CompiledModel, X: Any, /, *, exact: CompiledModel | None = None) -> Measured:
    """Run a model on rows and note everything.

    Parameters
    ----------
    model : CompiledModel
    X : array-like of shape (m, d)
        At most 5,000 of its rows, evenly spread, are looked at.
    exact : CompiledModel, optional
        The exact model, where `model` does not hold its support vectors.

    Returns
    -------
    Measured

    Examples
    --------
    >>> import kernelite
    >>> bump = kernelite.KernelExpansion([[0.0], [1.0]], [2.0, 1.0], 0.5, gamma=0.1)
    >>> measure(kernelite.compile(bump, guarantee="exact"), [[0.0], [0.5]]).rows
    2
    """
    if model.parts:
        raise InputError("a report is about one machine; this model is made of several.")
    given = X.shape[0] if hasattr(X, "shape") else len(X)
    if not given:
        raise InputError("`X` has no rows to report on.")
    some = some_rows(X, MOST_COMPARED_ROWS)
    rows, runner = rows_and_runner(model, some)
    every = slice(0, rows.shape[0])
    rule = rule_of(model, label_criterion(model.head, model.tolerance))
    served = runner.evaluate(rows, every, rule)
    first = served if model.approximation is None else runner.evaluate(rows, every, None)
    truth = None
    if exact is not None:
        truth = exact.scores(some, on_invalid="ignore")
    elif model.expansion is not None:
        truth = _as_exact(model).scores(some)
    return Measured(
        given=given,
        # The same even spread as `some_rows`.
        chosen=np.unique(np.linspace(0, given - 1, min(given, MOST_COMPARED_ROWS)).astype(np.intp)),
        served=served.scores,
        form=first.scores,
        bounds=None if first.bounds is None else spelled_out(first.bounds),
        exact=truth,
        tier=_tiers(runner.cascade.names, served),
        differ=_differ(model, served.scores, truth),
        outside_validity=int(np.count_nonzero(~runner.valid(rows))),
        timed=_timed(model, exact, some_rows(some, TIMED_ROWS)),
    )


def _tiers(names: Sequence[str], served: Bounded) -> NDArray[np.int8]:
    """The tier of each row: an index into `TIERS`."""
    second = (FULL, THIRD)
    of_stage = [2 if n.startswith(EXACT) else int(n in second) for n in names]
    return np.array(of_stage, dtype=np.int8)[served.stage]


def margins_of(model: CompiledModel, scores: FloatArray) -> FloatArray | None:
    """How far each row is from another label, shape (m,); None where there are no labels."""
    if not model.head.proves_labels:
        return None
    return np.abs(model.head.margin(scores))


def _as_exact(model: CompiledModel) -> CompiledModel:
    """The same model with nothing but its support vectors."""
    return replace(model, guarantee="exact", approximation=None, local=None)


def _differ(model: CompiledModel, served: FloatArray, truth: FloatArray | None) -> int | None:
    if truth is None or not model.head.proves_labels:
        return None
    return int(np.count_nonzero(model.head.predict(served) != model.head.predict(truth)))


def _timed(model: CompiledModel, exact: CompiledModel | None, rows: Any) -> Timed:
    """Both models on the same rows, taking turns, so that a busy moment hurts both."""
    if exact is None and model.expansion is not None:
        exact = _as_exact(model)
    calls: list[Callable[[], Any]] = [lambda: model.scores(rows, on_invalid="ignore")]
    if exact is not None:
        reference = exact
        calls.append(lambda: reference.scores(rows, on_invalid="ignore"))
    best, count = _best_of_turns(calls, rows)
    best = [seconds / count for seconds in best]
    return Timed(best[0], best[1] if len(best) > 1 else None, count)


@dataclass(frozen=True)
class Compared:
    """The model that was compiled, beside ours on the same rows.

    Parameters
    ----------
    name : str
        What it is, e.g. "SVC".
    rows : int
    differ : int, optional
        Labels that are not the same; None where answers are values.
    largest : float, optional
        The largest difference of values.
    seconds : float
        Per row, best of several turns.
    compiled : float
        Ours, in the same turns.
    """

    name: str
    rows: int
    differ: int | None
    largest: float | None
    seconds: float
    compiled: float

    @property
    def speed_up(self) -> float:
        """Times that the compiled model is faster."""
        return self.seconds / max(self.compiled, 1e-12)


def compare(model: CompiledModel, original: Any, X: Any, /) -> Compared:
    """Ask the original model the same as ours.

    Parameters
    ----------
    model : CompiledModel
    original : estimator, or callable
        With the same `predict` (`transform`, `score_samples`); a callable is asked itself.
    X : array-like of shape (m, d)
        At most 5,000 of its rows are asked, and 2,000 timed.

    Returns
    -------
    Compared

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> import kernelite
    >>> svc = SVC().fit([[0.0], [1.0]], ["no", "yes"])
    >>> compare(kernelite.compile(svc), svc, [[0.2], [0.7]]).differ
    0
    """
    method = next(m for m in ("predict", "transform", "score_samples") if m in model.offers)
    ask = original if callable(original) else getattr(original, method, None)
    if ask is None:
        raise InputError(f"`model` must be the model that was compiled; it has no `{method}`.")
    some = _taken(some_rows(X, MOST_COMPARED_ROWS))
    ours = partial(getattr(model, method), on_invalid="ignore")
    try:
        theirs = np.asarray(ask(some))
    except (ValueError, TypeError) as error:
        raise InputError(f"the original model refuses these rows ({error}).") from None
    found = np.asarray(ours(some))
    if theirs.shape != found.shape:
        raise InputError(
            f"`model` must be the model that was compiled; its answers have shape {theirs.shape}, "
            f"ours {found.shape}."
        )
    labels = model.head.proves_labels
    different = (theirs != found).reshape(len(found), -1).any(axis=1) if labels else None
    few = some_rows(some, TIMED_ROWS)
    seconds, count = _best_of_turns([partial(ask, few), partial(ours, few)], few)
    return Compared(
        name=getattr(original, "__name__", type(original).__name__),
        rows=len(found),
        differ=None if different is None else int(np.count_nonzero(different)),
        largest=None if labels else float(np.abs(theirs - found).max(initial=0.0)),
        seconds=seconds[0] / count,
        compiled=seconds[1] / count,
    )


def _taken(rows: Any) -> Any:
    """Rows as estimators take them: many were fitted on dense ones, and text files are sparse."""
    if is_sparse(rows) and 8 * rows.shape[0] * rows.shape[1] <= DENSE_BYTES:
        return rows.toarray()
    return rows


def _best_of_turns(calls: list[Callable[[], Any]], rows: Any) -> tuple[list[float], int]:
    """Seconds of each call, taking turns, so that a busy moment hurts all; and how many rows."""
    best = [np.inf] * len(calls)
    for call in calls:
        call()  # prepares the engines
    for _ in range(TIMED_TURNS):
        for index, call in enumerate(calls):
            started = perf_counter()
            call()
            best[index] = min(best[index], perf_counter() - started)
    return best, rows.shape[0] if hasattr(rows, "shape") else len(rows)


# The rows that came nearest to failing, and those whose label changes soonest when they move.


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
