"""A tenth of the support vectors, those with the largest coefficients, reweighted.

A simple pruning of our own, not a published method: the weights are refitted by least squares to
the exact scores of the sample, and the rest is evaluated as the exact model is.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.contestant import Contestant
from benchmarks.exact import exact_scores
from benchmarks.workloads import Workload
from kernelite.machine.expansion import KernelExpansion

__all__ = ["prepare"]

SHARE = 0.1
MAX_VECTORS = 1_000
MAX_ROWS = 5_000


def prepare(workload: Workload) -> Contestant:
    """Least squares with a little ridge."""
    start = perf_counter()
    whole = workload.expansion
    count = max(1, min(MAX_VECTORS, int(SHARE * whole.n_centers)))
    kept = np.argsort(-np.abs(whole.coefficients).max(axis=1), kind="stable")[:count]
    centers = whole.dense_centers()[kept]
    rows, target = workload.sample[:MAX_ROWS], workload.sample_scores[:MAX_ROWS]
    ones = KernelExpansion(centers, np.eye(count), np.zeros(count), gamma=whole.gamma)
    features = np.column_stack([exact_scores(ones, rows), np.ones(len(rows))])
    normal = features.T @ features
    normal.flat[:: count + 2] += 1e-8 * np.trace(normal) / (count + 1)
    weights = np.linalg.solve(normal, features.T @ target)
    small = KernelExpansion(centers, weights[:-1], weights[-1], gamma=whole.gamma)
    head = workload.source.head

    def decide(batch: Any) -> Any:
        return exact_scores(small, batch)

    return Contestant(
        name="pruned",
        kind="approximate",
        predict=lambda batch: head.predict(exact_scores(small, batch)),
        must_agree=False,
        nbytes=small.nbytes,
        decide=decide,
        prepared=perf_counter() - start,
        note=f"own simple pruning to {count:,} support vectors, weights refitted",
    )
