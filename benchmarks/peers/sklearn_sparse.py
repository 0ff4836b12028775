"""scikit-learn's SVC.predict on CSR rows."""

from __future__ import annotations

import pickle

from scipy import sparse

from benchmarks.contestant import Absent, Contestant
from benchmarks.rebuild import rebuilt_svc
from benchmarks.workloads import Workload

__all__ = ["prepare"]


def prepare(workload: Workload) -> Contestant:
    """Only where users would hold the rows in CSR."""
    if not workload.is_sparse:
        raise Absent("the rows are dense")
    svc = rebuilt_svc(workload.source, for_sparse=True)
    return Contestant(
        name="scikit-learn, CSR",
        kind="exact",
        predict=svc.predict,
        must_agree=True,
        nbytes=len(pickle.dumps(svc)),
        convert=sparse.csr_matrix,
        note="SVC rebuilt from the model's arrays",
    )
