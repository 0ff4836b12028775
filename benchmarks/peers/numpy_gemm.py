"""The exact model as anybody would write it in NumPy: matrix product, exp, weighted sum."""

from __future__ import annotations

from typing import Any

from benchmarks.contestant import Contestant
from benchmarks.exact import exact_scores
from benchmarks.workloads import Workload

__all__ = ["prepare"]


def prepare(workload: Workload) -> Contestant:
    """The reference itself, so it agrees by construction."""
    expansion, head = workload.expansion, workload.source.head

    def decide(rows: Any) -> Any:
        return exact_scores(expansion, rows)

    return Contestant(
        name="NumPy GEMM",
        kind="exact",
        predict=lambda rows: head.predict(exact_scores(expansion, rows)),
        must_agree=True,
        nbytes=expansion.nbytes,
        decide=decide,
    )
