"""What a fitted model answers, method by method, and how far a compiled one is from it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.neighbors import KernelDensity

__all__ = ["METHODS", "answers", "deviation", "is_label", "log_density"]

METHODS = ("predict", "decision_function", "predict_proba", "score_samples", "transform")


def answers(model: Any, X: Any) -> Iterator[tuple[str, np.ndarray]]:
    """(method, what it answers), for every method the model has."""
    if isinstance(model, KernelDensity):
        yield "score_samples", log_density(model, np.asarray(X))
        return
    for method in METHODS:
        if method == "predict_proba" and getattr(model, "multi_class", "") == "one_vs_one":
            continue  # scikit-learn has the method, which always raises
        if hasattr(model, method):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # 0 / 0 far from all labels
                yield method, np.asarray(getattr(model, method)(X))


def log_density(model: KernelDensity, X: np.ndarray) -> np.ndarray:
    """Log-densities without scikit-learn's tree, which cuts corners far from all rows."""
    rows, weights = np.asarray(model.tree_.data), model.tree_.sample_weight
    weights = np.ones(len(rows)) if weights is None else np.asarray(weights)
    h = model.bandwidth_
    out = np.empty(len(X))
    for i in range(0, len(X), 500):
        exponents = -cdist(X[i : i + 500], rows, "sqeuclidean") / (2 * h * h)
        out[i : i + 500] = logsumexp(exponents, axis=1, b=weights / weights.sum())
    return out - X.shape[1] * np.log(h * np.sqrt(2 * np.pi))


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
