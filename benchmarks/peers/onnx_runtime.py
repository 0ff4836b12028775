"""onnxruntime on the model converted by skl2onnx: every support vector, in single precision."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.contestant import Absent, Contestant
from benchmarks.workloads import Workload

__all__ = ["prepare"]


def prepare(workload: Workload, *, threads: int = 0) -> Contestant:
    """Its labels may differ by rounding, which is counted; `threads` 0 are all."""
    try:
        import onnxruntime
        from skl2onnx import to_onnx
        from skl2onnx.common.data_types import FloatTensorType
    except ImportError:
        raise Absent("pip install onnxruntime skl2onnx") from None
    svc = workload.svc
    kind = FloatTensorType([None, workload.expansion.n_features])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = to_onnx(
            svc,
            initial_types=[("X", kind)],
            options={id(svc): {"zipmap": False, "raw_scores": True}},
        ).SerializeToString()
    choices = onnxruntime.SessionOptions()
    choices.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(graph, choices, providers=["CPUExecutionProvider"])

    def predict(rows: Any) -> Any:
        return session.run(["label"], {"X": rows})[0]

    def decide(rows: Any) -> Any:
        return session.run(["probabilities"], {"X": rows})[0]

    return Contestant(
        name="onnxruntime",
        kind="exact",
        predict=predict,
        must_agree=False,
        nbytes=len(graph),
        convert=lambda rows: rows.astype(np.float32),
        decide=decide,
        note="single precision",
    )
