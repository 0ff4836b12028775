"""What the figures show: the series' error, bound and error, gamma's sweep, time and n_sv."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import kernelite as kl
from benchmarks.exact import exact_scores
from benchmarks.modes import compiled
from benchmarks.paper.accuracy import MODES
from benchmarks.paper.subjects import Subject, drawn, training_rows
from benchmarks.scaling import point
from benchmarks.settings import Settings
from benchmarks.trained import trained
from benchmarks.workloads import generated
from kernelite.data.gamma import gamma_max

__all__ = ["bound_against_error", "series_error", "sweep", "time_against_vectors"]

OnProgress = Callable[[str], None]
RATIOS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
POINTS = 400
VECTORS = (500, 1_000, 2_000, 4_000, 8_000, 16_000)
DIMENSION = 22


def series_error(points: int = 81) -> dict[str, Any]:
    """Relative error of 1 + x + x^2/2 against e^x; within the bound |x| < 1/2 it is below 3.05%.

    Examples
    --------
    >>> found = series_error(5)
    >>> found["x"][1], round(found["error"][1], 5)
    (-0.5, 0.03045)
    """
    x = np.linspace(-1.0, 1.0, points)
    error = np.abs(1.0 - (1.0 + x + x * x / 2) * np.exp(-x))
    return {"x": x.tolist(), "error": error.tolist(), "valid": 0.5}


def bound_against_error(subject: Subject, points: int = POINTS) -> dict[str, Any]:
    """The certified bound and the true error of some test rows, about the default point."""
    workload = subject.workload
    guarantee, options = MODES["default"]
    model, _ = compiled(workload, guarantee, **options)
    drawn = np.random.default_rng(1).permutation(len(workload.rows))[:points]
    rows = workload.rows[drawn]
    errors = np.abs(model.scores(rows, on_invalid="ignore") - workload.scores[drawn])
    bounds = model.score_bound(rows)
    return {
        "name": subject.row.name,
        "error": errors[:, 0].tolist(),
        "bound": bounds[:, 0].tolist(),
        "violations": int((errors > bounds).sum()),
    }


def sweep(
    subject: Subject,
    *,
    rows: int = 3_000,
    ratios: Sequence[float] = RATIOS,
    tell: OnProgress = lambda line: None,
) -> dict[str, Any]:
    """Certified share and label differences against gamma / gamma_max, models trained anew.

    gamma_max is that of the training rows about the origin, as in the paper; the form is about the
    default point. Plans have one cell: more would cost minutes a point.
    """
    X, y = training_rows(subject.row)
    chosen = drawn(X, rows)
    X, y = X[chosen], y[chosen]
    test = subject.workload.rows[drawn(subject.workload.rows, rows)]
    if test.shape[1] < X.shape[1]:
        test = np.pad(test, ((0, 0), (0, X.shape[1] - test.shape[1])))
    limit = gamma_max(X).value
    found = []
    for ratio in ratios:
        tell(f"{subject.row.name}: gamma {ratio:g} times gamma_max")
        source = trained(f"sweep {subject.row.data}", X, y, gamma=ratio * limit, C=subject.row.C)
        found.append({"ratio": ratio, **_shares(source, X.toarray(), test)})
    return {"name": subject.row.data, "train_rows": X.shape[0], "rows": len(test), "points": found}


def time_against_vectors(
    settings: Settings, vectors: Sequence[int] = VECTORS, tell: OnProgress = lambda line: None
) -> list[dict[str, Any]]:
    """Microseconds per row against the number of support vectors; generated models."""
    found = []
    for n in vectors:
        name = f"generated, {n:,} support vectors"
        workload = generated(name, n, DIMENSION, 0.5, m=20_000, sample_rows=4_000)
        found.append({"support_vectors": n, **point(workload, settings, tell)})
    return found


def _shares(source: Any, sample: np.ndarray, test: np.ndarray) -> dict[str, float]:
    scores = exact_scores(source.expansion, test)
    labels = source.head.predict(scores)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        form = kl.compile(source, sample, guarantee="none", rank="full", certificate=True)
        plan = kl.compile(source, sample, guarantee="certified")
    approximate = form.scores(test, on_invalid="ignore")
    bound = form.score_bound(test)
    decided, stats = plan.predict(test, return_stats=True)
    return {
        "differ": float((source.head.predict(approximate) != labels).mean()),
        "certified_by_bound": float((np.abs(approximate) > bound).mean()),
        "certified_by_plan": 1.0 - stats.open_share,
        "certified_differ": float((decided != labels).mean()),
        "valid": float(form.valid(test).mean()),
        "support_vectors": source.expansion.n_centers,
    }
