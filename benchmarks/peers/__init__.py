"""What a user would pick instead, one file a peer.

Each module has `prepare(workload) -> Contestant`, and raises `Absent` where its library is missing
or cannot take the model. The table is of strings, so that nothing is imported before it is asked.
"""

from __future__ import annotations

from importlib import import_module

from benchmarks.contestant import Contestant
from benchmarks.workloads import Workload

__all__ = ["PEERS", "prepare"]

PEERS = {
    "scikit-learn": "sklearn_dense",
    "scikit-learn, CSR": "sklearn_sparse",
    "scikit-learn-intelex": "intelex",
    "onnxruntime": "onnx_runtime",
    "NumPy GEMM": "numpy_gemm",
    "Nystroem + linear": "nystroem",
    "Fourier features + linear": "fourier",
    "neural network": "network",
    "pruned": "pruned",
}
"""Name -> module. LIBSVM's svm-predict works on files and is timed there (`benchmarks.files`)."""


def prepare(name: str, workload: Workload) -> Contestant:
    """Make a peer ready for a workload."""
    if name not in PEERS:
        raise ValueError(f"`{name}` is not a peer; known are {', '.join(PEERS)}")
    contestant: Contestant = import_module(f"benchmarks.peers.{PEERS[name]}").prepare(workload)
    return contestant
