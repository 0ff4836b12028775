"""How far a compiled machine is from the original, and how much faster.

In: the name of a subject and of its data. Out: a `Measured`, whose `broken` says which promise was
not kept. Deviations are relative to the original's largest value.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import kernelite
from benchmarks.supported.subjects import GENERATED, fitted
from benchmarks.supported.twins import compilable
from kernelite.model.predicting import answer
from kernelite.program.criteria import label_criterion
from kernelite.support.errors import UnsupportedModelError
from tests.answers import METHODS, answers, deviation, is_label

__all__ = ["Measured", "measure", "methods_of", "speed_up"]

EXACT = 1e-8
PROBABILITY = 1e-3


@dataclass(frozen=True)
class Measured:
    """One estimator on one data set.

    Parameters
    ----------
    rows : int
        How many were predicted.
    exact, certified, none : float
        The largest relative deviation of all values; NaN where guarantee "none" is refused.
    labels_certified, labels_none : int
        Labels that differ.
    fell_back : float
        The share of rows that guarantee "certified" evaluated exactly.
    broken : str
        Promises that were not kept; empty if all were.
    """

    rows: int
    exact: float
    certified: float
    none: float
    labels_certified: int
    labels_none: int
    fell_back: float
    broken: str


def measure(name: str, data: str) -> Measured:
    """Compile with each guarantee, and compare every answer with the original's."""
    model, X = fitted(name, data)
    theirs = {method: their for method, their in answers(model, X) if method in methods_of(name)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few support vectors, rows outside validity
        exact = kernelite.compile(compilable(model), X, guarantee="exact")
        certified = kernelite.compile(compilable(model), X)
        gaps = {"exact": _gaps(model, exact, X, theirs)}
        gaps["certified"] = _gaps(model, certified, X, theirs)
        try:
            alone = kernelite.compile(compilable(model), X, guarantee="none", on_invalid="ignore")
            gaps["none"] = _gaps(model, alone, X, theirs)
        except UnsupportedModelError:
            gaps["none"] = (np.nan, 0)
    broken = [] if gaps["exact"][0] < EXACT else [f"exact deviates by {gaps['exact'][0]:.1e}"]
    broken += [f"{key} labels differ" for key in ("exact", "certified") if gaps[key][1]]
    broken += _outside(model, certified, X, theirs)
    criterion = label_criterion(certified.head, certified.tolerance)
    stats = answer(certified, X, lambda scores: scores, criterion, None, None)[1]
    return Measured(
        len(X),
        gaps["exact"][0],
        gaps["certified"][0],
        gaps["none"][0],
        gaps["certified"][1],
        gaps["none"][1],
        stats.open_share,
        "; ".join(broken),
    )


def methods_of(name: str) -> list[str]:
    """What is compared: all methods, except for what a compiled model cannot have."""
    model = fitted(name, GENERATED)[0]
    # A mean of regressors is folded into one output: what each member says is gone.
    gone = ("transform",) if name == "VotingRegressor" else ()
    return [method for method in METHODS if hasattr(model, method) and method not in gone]


def speed_up(name: str, *, seconds: float = 0.5, train: int = 1000) -> float:
    """How many times faster certified is than the original's own method, on 20,000 rows."""
    model, X = fitted(name, GENERATED, train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fast = kernelite.compile(compilable(model), X)
    methods = ("predict", "transform", "score_samples")
    method = next(one for one in methods if hasattr(model, one))
    ours, theirs = (getattr(each, method) for each in (fast, model))
    best = {id(call): np.inf for call in (ours, theirs)}
    ours(X)
    until = time.perf_counter() + 2 * seconds
    for turn in range(50):  # taking turns, so that a busy moment hurts both
        if turn >= 2 and time.perf_counter() > until:
            break
        for call in (ours, theirs):
            best[id(call)] = min(best[id(call)], _seconds(lambda call=call: call(X)))
    return float(best[id(theirs)] / best[id(ours)])


def _gaps(model: Any, compiled: Any, X: Any, theirs: dict[str, np.ndarray]) -> tuple[float, int]:
    """The largest deviation of values, and the number of labels that differ."""
    values, labels = 0.0, 0
    for method, their in theirs.items():
        if not hasattr(compiled, method):  # variances need training rows
            continue
        our = np.asarray(getattr(compiled, method)(X))
        if is_label(model, method):
            wrong = our != their
            labels += int((wrong if wrong.ndim == 1 else wrong.any(axis=1)).sum())
        else:
            values = max(values, deviation(our, their))
    return values, labels


def _outside(model: Any, certified: Any, X: Any, theirs: dict[str, np.ndarray]) -> list[str]:
    """Values that are not within what "certified" promises of them."""
    found = []
    for method, their in theirs.items():
        if is_label(model, method):
            continue
        our = np.asarray(getattr(certified, method)(X))
        gap = np.abs(our - their).reshape(len(our), -1)
        slack = EXACT * np.abs(their[np.isfinite(their)]).max(initial=0.0)
        if method == "predict_proba":
            limit: Any = PROBABILITY
        elif certified.tolerance is not None:
            limit = certified.tolerance
        else:  # decision values carry a bound each; ensembles count votes in theirs
            limit = certified.error_bound(X).reshape(len(X), -1)
            if limit.shape != gap.shape:
                limit = PROBABILITY if hasattr(certified.head, "members") else np.inf
        inside = (gap <= limit + slack) | ~np.isfinite(their).reshape(gap.shape)
        if not inside.all():
            found.append(f"{method} is outside its tolerance")
    return found


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
