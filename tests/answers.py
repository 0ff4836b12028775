"""What a fitted model answers, method by method, and how far a compiled one is from it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["METHODS", "answers", "deviation", "is_label"]

METHODS = ("predict", "decision_function", "predict_proba", "score_samples", "transform")


def answers(model: Any, X: Any) -> Iterator[tuple[str, np.ndarray]]:
    """(method, what it answers), for every method the model has."""
    for method in METHODS:
        if hasattr(model, method):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # 0 / 0 far from all labels
                yield method, np.asarray(getattr(model, method)(X))


def is_label(model: Any, method: str) -> bool:
    """Whether answers are right or wrong, with nothing between."""
    return method == "predict" and (hasattr(model, "classes_") or hasattr(model, "offset_"))


def deviation(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, relative to the largest value; infinite if NaN or shapes differ."""
    if ours.shape != theirs.shape or (np.isnan(ours) != np.isnan(theirs)).any():
        return np.inf
    both = np.isfinite(theirs)
    if (ours[~both] != theirs[~both])[~np.isnan(theirs[~both])].any():
        return np.inf
    scale = np.abs(theirs[both]).max(initial=1e-300)
    return float(np.abs(ours[both] - theirs[both]).max(initial=0.0) / scale)
