"""Random Fourier features of the same kernel, and a linear map."""

from __future__ import annotations

from benchmarks.contestant import Contestant
from benchmarks.peers.distilled import distilled
from benchmarks.workloads import Workload

__all__ = ["prepare"]

COMPONENTS = 1024


def prepare(workload: Workload) -> Contestant:
    """scikit-learn's RBFSampler."""
    from sklearn.kernel_approximation import RBFSampler

    features = RBFSampler(gamma=workload.expansion.gamma, n_components=COMPONENTS, random_state=0)
    return distilled(workload, "Fourier features + linear", features, f"{COMPONENTS} features")
