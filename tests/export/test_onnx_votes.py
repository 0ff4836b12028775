"""Votes as ONNX nodes against `kernelite.machine.heads.votes`, ties and open pairs included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelite.machine.heads import votes

onnx = pytest.importorskip("onnx", reason="the onnx extra is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from kernelite.export import onnx_votes  # noqa: E402
from kernelite.export.onnx_graph import IR_VERSION, OPSET, Graph  # noqa: E402


def run(function: str, n_classes: int, *arrays: np.ndarray) -> np.ndarray:
    """One function of `onnx_votes` on arrays."""
    graph, helper = Graph(), onnx.helper
    names = [f"input_{i}" for i in range(len(arrays))]
    made = getattr(onnx_votes, function)(*map(graph.input, names), n_classes)
    graph.named(made, "out")
    inputs: list[Any] = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), [None, array.shape[1]]
        )
        for name, array in zip(names, arrays)
    ]
    kind = onnx.TensorProto.BOOL if "decided" in function else onnx.TensorProto.DOUBLE
    output = helper.make_tensor_value_info("out", kind, [None, None])
    model = helper.make_model(
        helper.make_graph(graph.nodes, "votes", inputs, [output], graph.initializers),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(zip(names, arrays)))[0]


def scores_and_bounds(n_classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Few distinct values, so that ties, zeros and scores equal to their bound are frequent."""
    rng = np.random.default_rng(seed)
    shape = (400, n_classes * (n_classes - 1) // 2)
    return rng.integers(-3, 4, shape) / 2.0, rng.integers(0, 4, shape) / 2.0


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_counts_scores_and_margins(n_classes: int) -> None:
    scores, _ = scores_and_bounds(n_classes, n_classes)
    np.testing.assert_array_equal(
        run("count_votes", n_classes, scores > 0), votes.count_votes(scores > 0, n_classes)
    )
    np.testing.assert_allclose(
        run("ovr_scores", n_classes, scores), votes.ovr_scores(scores, n_classes), rtol=1e-15
    )
    np.testing.assert_array_equal(
        run("winner_margin", n_classes, scores)[:, 0], votes.winner_margin(scores, n_classes)
    )


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("function", ["winner_decided", "winner_decided_by_sums"])
def test_decided(function: str, n_classes: int) -> None:
    scores, bounds = scores_and_bounds(n_classes, 7 * n_classes)
    want = getattr(votes, function)(scores, bounds, n_classes)
    got = run(function, n_classes, scores, bounds)[:, 0]
    assert want.any()
    assert not want.all()
    np.testing.assert_array_equal(got, want)
