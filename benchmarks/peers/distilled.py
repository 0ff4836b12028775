"""Features and a linear map fitted to the exact model's scores on the sample; shared by peers."""

from __future__ import annotations

import pickle
from time import perf_counter
from typing import Any

from benchmarks.contestant import Contestant
from benchmarks.workloads import Workload

__all__ = ["distilled"]


def distilled(workload: Workload, name: str, features: Any, note: str) -> Contestant:
    """Ridge regression on `features` (a transformer), towards the exact scores."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    start = perf_counter()
    pipeline = make_pipeline(features, Ridge(alpha=1e-6))
    pipeline.fit(workload.sample, workload.sample_scores)
    head = workload.source.head

    def predict(rows: Any) -> Any:
        return head.predict(pipeline.predict(rows).reshape(len(rows), -1))

    return Contestant(
        name=name,
        kind="approximate",
        predict=predict,
        must_agree=False,
        nbytes=len(pickle.dumps(pipeline)),
        decide=pipeline.predict,
        prepared=perf_counter() - start,
        note=f"{note}, fitted to the exact scores of {len(workload.sample):,} rows",
    )
