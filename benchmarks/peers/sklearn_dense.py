"""scikit-learn's SVC.predict on dense rows: LIBSVM's code, one thread."""

from __future__ import annotations

import pickle

from benchmarks.contestant import Contestant
from benchmarks.workloads import Workload

__all__ = ["prepare"]


def prepare(workload: Workload) -> Contestant:
    """The fitted SVC, or one rebuilt from LIBSVM's arrays."""
    svc = workload.svc
    return Contestant(
        name="scikit-learn",
        kind="exact",
        predict=svc.predict,
        must_agree=True,
        nbytes=len(pickle.dumps(svc)),
        decide=svc.decision_function,
        note="" if workload.fitted is not None else "SVC rebuilt from the model's arrays",
    )
