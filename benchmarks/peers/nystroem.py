"""Nystroem features of the same kernel, and a linear map."""

from __future__ import annotations

from benchmarks.contestant import Contestant
from benchmarks.peers.distilled import distilled
from benchmarks.workloads import Workload

__all__ = ["prepare"]

COMPONENTS = 256


def prepare(workload: Workload) -> Contestant:
    """Landmarks drawn from the sample."""
    from sklearn.kernel_approximation import Nystroem

    count = min(COMPONENTS, len(workload.sample))
    features = Nystroem(
        kernel="rbf", gamma=workload.expansion.gamma, n_components=count, random_state=0
    )
    return distilled(workload, "Nystroem + linear", features, f"{count} landmarks")
