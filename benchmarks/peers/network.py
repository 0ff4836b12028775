"""A small neural network trained on the exact model's scores (scikit-learn's MLPRegressor)."""

from __future__ import annotations

import pickle
import warnings
from time import perf_counter
from typing import Any

from benchmarks.contestant import Contestant
from benchmarks.workloads import Workload

__all__ = ["prepare"]

HIDDEN = (64,)
MAX_ROWS = 10_000
EPOCHS = 40


def prepare(workload: Workload) -> Contestant:
    """Inputs and scores are standardised; training stops when it no longer improves."""
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    start = perf_counter()
    rows, scores = workload.sample[:MAX_ROWS], workload.sample_scores[:MAX_ROWS]
    scale = scores.std(axis=0)
    network = MLPRegressor(
        hidden_layer_sizes=HIDDEN, max_iter=EPOCHS, early_stopping=True, random_state=0
    )
    pipeline = make_pipeline(StandardScaler(), network)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline.fit(rows, (scores / scale).squeeze())
    head = workload.source.head

    def predict(batch: Any) -> Any:
        return head.predict(pipeline.predict(batch).reshape(len(batch), -1) * scale)

    return Contestant(
        name="neural network",
        kind="approximate",
        predict=predict,
        must_agree=False,
        nbytes=len(pickle.dumps(pipeline)),
        decide=pipeline.predict,
        prepared=perf_counter() - start,
        note=f"{HIDDEN[0]} hidden units, trained on the exact scores of {len(rows):,} rows",
    )
