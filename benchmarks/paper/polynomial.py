"""The degree-2 polynomial kernel beside the RBF kernel on the same rows, both compiled.

Its models have the compiled form exactly, without the exponential; the paper asks what the factor
exp(-gamma |z|^2) adds. Within validity it lies in (e^-0.25, 1].
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import kernelite as kl
from benchmarks.exact import exact_scores
from benchmarks.paper.subjects import Subject, drawn, training_rows
from benchmarks.timing import race
from benchmarks.trained import trained

__all__ = ["polynomial"]

ROWS = 5_000


def polynomial(
    subject: Subject,
    *,
    rows: int = ROWS,
    rounds: int = 5,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Both kernels trained on some of the rows, with gamma at most gamma_max and the same C."""
    X, y = training_rows(subject.row, subject.workload.expansion.n_features)
    chosen = drawn(X, rows)
    X, y = X[chosen], y[chosen]
    test, truth = subject.workload.rows, subject.workload.truth
    assert truth is not None
    gamma = min(subject.workload.expansion.gamma, subject.gamma_max)
    kernels = {"rbf": ("rbf", 0.0), "degree 2": ("poly", 1.0)}
    models, found = {}, {}
    for name, (kernel, coef0) in kernels.items():
        tell(f"{subject.row.name}: {name} kernel")
        source = trained(
            f"{kernel} {subject.row.data}",
            X,
            y,
            gamma=gamma,
            C=subject.row.C,
            kernel=kernel,
            coef0=coef0,
        )
        models[name] = _form(source, X.toarray())
        found[name] = _compare(source, models[name], test, truth)
    calls = {name: _call(model, test) for name, model in models.items()}
    for call in calls.values():
        call()
    for name, timing in race(calls, rounds=rounds).items():
        found[name]["microseconds"] = 1e6 * timing.best / len(test)
    return {
        "name": subject.row.name,
        "gamma": gamma,
        "train_rows": X.shape[0],
        "rows": len(test),
        "kernels": found,
        "factor": _factor(subject),
    }


def _form(source: Any, sample: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kl.compile(source, sample, guarantee="none", rank="full", on_invalid="ignore")


def _compare(source: Any, model: Any, test: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    labels = source.head.predict(exact_scores(source.expansion, test))
    answers = model.predict(test)
    return {
        "support_vectors": source.expansion.n_centers,
        "accuracy": float((labels == truth).mean()),
        "compiled_accuracy": float((answers == truth).mean()),
        "differ": int((answers != labels).sum()),
    }


def _call(model: Any, rows: np.ndarray) -> Callable[[], Any]:
    return lambda: model.predict(rows)


def _factor(subject: Subject) -> dict[str, float]:
    """exp(-gamma |z|^2) over the test rows, gamma that of the row's own model."""
    rows, gamma = subject.workload.rows, subject.workload.expansion.gamma
    factor = np.exp(-gamma * np.einsum("ij,ij->i", rows, rows))
    lower = math.exp(-0.25)
    return {
        "gamma": gamma,
        "smallest": float(factor.min()),
        "median": float(np.median(factor)),
        "largest": float(factor.max()),
        "inside": float((factor > lower).mean()),
        "lower": lower,
    }
