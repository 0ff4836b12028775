"""What is recorded of one fitted model: answers, scores, bounds, statistics and plans.

In: a name of `tests.models`. Out: entries, by "guarantee, container, what": arrays, or text where
something has no answer (an error's type and message), statistics or plans.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

import kernelite as kl

__all__ = ["CONTAINERS", "OPTIONS", "Entries", "containers", "entries"]

Entries = dict[str, np.ndarray]

# Plans by estimated costs: timings would choose now this one, now that one. Few rows: so that
# "calibrated" can be had at all, it may promise little.
OPTIONS: dict[str, dict[str, Any]] = {
    "certified": {"guarantee": "certified", "plan": "estimate"},
    "form": {"guarantee": "certified", "plan": "form"},
    "calibrated": {"guarantee": "calibrated", "max_disagreement": 0.2, "confidence": 0.8},
    "none": {"guarantee": "none", "certificate": True, "on_invalid": "ignore"},
    "exact": {"guarantee": "exact"},
}
CONTAINERS = ("dense", "sparse", "frame", "single")
METHODS = ("predict", "decision_function", "predict_proba", "score_samples", "transform", "scores")
MOST_ROWS = 600  # that are answered; `compile` sees all
SINGLES = 12  # rows that are asked for one at a time


def entries(model: Any, rows: Any) -> Entries:
    """Everything about one model."""
    found: Entries = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for guarantee, options in OPTIONS.items():
            try:
                compiled = kl.compile(model, rows, **options)
            except Exception as error:  # refused, or a fault: recorded either way
                found[f"{guarantee}, compile"] = _refusal(error)
                continue
            found[f"{guarantee}, plan"] = np.array(str(compiled.plan))
            found[f"{guarantee}, kind"] = np.array(compiled.head.kind)
            for container, some in containers(rows).items():
                for what, value in _answers(compiled, some, container).items():
                    found[f"{guarantee}, {container}, {what}"] = value
    return found


def containers(rows: Any) -> dict[str, Any]:
    """The rows in each container; those of "single" are a list of rows."""
    import pandas as pd

    names = list(rows.columns) if hasattr(rows, "columns") else None
    dense = np.asarray(rows.toarray() if issparse(rows) else rows, dtype=np.float64)
    dense = dense[:: -(-len(dense) // MOST_ROWS)]
    frame = pd.DataFrame(dense, columns=names or [f"x{i}" for i in range(dense.shape[1])])
    step = max(1, len(dense) // SINGLES)
    single = [np.ascontiguousarray(dense[i : i + 1]) for i in range(0, len(dense), step)]
    return {"dense": dense, "sparse": csr_array(dense), "frame": frame, "single": single[:SINGLES]}


def _answers(compiled: Any, rows: Any, container: str) -> Entries:
    found: Entries = {}
    for method in METHODS:
        if method == "scores" or method in compiled.offers:
            found[method] = _asked(getattr(compiled, method), rows)
    found["error_bound"] = _asked(compiled.score_bound, rows)  # of `scores`
    if container != "single" and "predict" in compiled.offers:
        found["stats"] = _statistics(compiled, rows)
    return found


def _asked(method: Any, rows: Any) -> np.ndarray:
    """The answer as one array, or why there is none."""
    try:
        if isinstance(rows, list):
            return np.concatenate([_array(method(row)) for row in rows])
        return _array(method(rows))
    except Exception as error:  # kernelite's own, and whatever a transformer kept as it is raises
        return _refusal(error)


def _array(answer: Any) -> np.ndarray:
    """Without objects, which only pickle could keep; several outputs side by side."""
    if isinstance(answer, list):
        answer = np.concatenate([np.asarray(one) for one in answer], axis=1)
    array = np.asarray(answer)
    return array.astype(str) if array.dtype == object else array


def _statistics(compiled: Any, rows: Any) -> np.ndarray:
    """Counts by name, as text; seconds differ from run to run."""
    try:
        _, stats = compiled.predict(rows, return_stats=True)
    except Exception as error:
        return _refusal(error)
    names = ("rows", "exact", "undecidable", "outside_validity")
    told = [f"{name} {getattr(stats, name)}" for name in names]
    return np.array(", ".join(told))


def _refusal(error: Exception) -> np.ndarray:
    return np.array(f"{type(error).__name__}: {error}")
