"""Table 1: accuracy of the exact and of the approximated model, and labels that differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.contestant import Absent
from benchmarks.modes import compiled
from benchmarks.paper.subjects import Subject

__all__ = ["accuracy"]

MODES: dict[str, tuple[str, dict[str, Any]]] = {
    "origin": ("none", {"expansion_point": "origin", "rank": "full"}),
    "default": ("none", {"certificate": True, "rank": "full"}),
    "certified": ("certified", {}),
    "calibrated": ("calibrated", {}),
}
"""Column -> guarantee and options; "origin" is the paper."""


def accuracy(subject: Subject, tell: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """One row. Real data only: a stand-in has no accuracy."""
    workload, row = subject.workload, subject.row
    if workload.generated or workload.truth is None:
        raise Absent(
            f"its data are absent here (`kernelite fetch {row.data}`), so there is no accuracy"
        )
    found: dict[str, Any] = {
        "name": row.name,
        "features": row.features,
        "gamma": workload.expansion.gamma,
        "gamma_max": subject.gamma_max,
        "gamma_max_mean": subject.gamma_max_mean,
        "rows": len(workload.rows),
        "support_vectors": workload.expansion.n_centers,
        "accuracy": _share(workload.labels == workload.truth),
        "notes": list(subject.notes),
        "modes": {},
    }
    for column, (guarantee, options) in MODES.items():
        tell(f"{row.name}: labels, {column}")
        try:
            found["modes"][column] = _mode(subject, guarantee, options)
        except Absent as error:
            found["modes"][column] = {"absent": str(error)}
    found["looseness"] = _looseness(subject)
    return found


def _mode(subject: Subject, guarantee: str, options: dict[str, Any]) -> dict[str, Any]:
    workload = subject.workload
    assert workload.truth is not None
    model, _ = compiled(workload, guarantee, **options)
    labels, stats = model.predict(workload.rows, return_stats=True, on_invalid="ignore")
    differ = labels != workload.labels
    return {
        "accuracy": _share(labels == workload.truth),
        "differ": int(differ.sum()),
        "differ_share": _share(differ),
        "differ_and_wrong": int((differ & (labels != workload.truth)).sum()),
        "outside_validity": stats.outside_validity,
        "fallback_share": stats.open_share,
        "plan": model.plan.chosen.name,
    }


def _looseness(subject: Subject) -> dict[str, float]:
    """How many times the true error the proven bound is, and whom it certifies, O(1) alone."""
    workload = subject.workload
    guarantee, options = MODES["default"]
    model, _ = compiled(workload, guarantee, **options)
    scores = model.scores(workload.rows, on_invalid="ignore")
    bounds = model.score_bound(workload.rows)
    errors = np.abs(scores - workload.scores)
    ratio = bounds / np.maximum(errors, 1e-300)
    return {
        "median_error": float(np.median(errors)),
        "median_bound": float(np.median(bounds)),
        "median_ratio": float(np.median(ratio)),
        "smallest_ratio": float(ratio.min()),
        "certified_share": _share(np.abs(scores) > bounds),
    }


def _share(mask: Any) -> float:
    return float(np.mean(mask))
