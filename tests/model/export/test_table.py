"""Every model of the shared table, exported: against its own library and against the compiled one.

What a target refuses is listed here, by the words that name it; nothing else may be refused.
"""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelite.backends.c import to_c
from kernelite.backends.onnx import to_onnx
from kernelite.model import CompiledModel
from kernelite.support.errors import UnsupportedModelError
from tests.answers import log_density
from tests.model.export.test_c import answers as answers_of_program
from tests.model.export.test_c import build, told
from tests.models import MODELS, compiled, fitted

ROWS = 200  # of a table, at most
STEPS = {  # what stands before a model and is not exported
    "pipeline clipped": "MinMaxScaler",
    "pipeline normalizer": "Normalize",
    "pipeline imputer": "encoders or imputers",
    "pipeline columns": "ColumnTransformer",
}
VARIANCES = (
    "gpc iris one vs rest",
    "gpc wine one vs rest",
    "gpc iris one vs one",
    "gpc iris matern one vs rest",
    "gpc iris one vs one, matern and line",
)
IN_ONNX = (
    {name: f"a step that is not exported ({step})" for name, step in STEPS.items()}
    | {"gpc iris one vs one, matern and line": "exported where the kernel is a function of x - z"}
    | {"target quantiles": "pass through a QuantileTransformer"}
)
LISTS = ("outputs wine", "outputs labels", "outputs generated", "one vs rest labels")
IN_C = (
    dict.fromkeys(LISTS, "Head) is not written in C: labels are not one of a list")
    | {"target quantiles": "(TargetHead) is not written in C: its values pass through"}
    | dict.fromkeys(VARIANCES, "(LatentClassesHead) is not written in C: labels need variances")
    | {name: f"a step that is not exported ({step})" for name, step in STEPS.items()}
)


def subject(name: str) -> tuple[Any, CompiledModel, Any, np.ndarray]:
    """The model, compiled with its default guarantee, rows as it takes them, and dense."""
    model, X = fitted(name)
    fast, X = compiled(name), X[:ROWS]
    dense = X.toarray() if hasattr(X, "toarray") else X
    return model, fast, X, np.asarray(dense, dtype=np.float64)


def theirs(model: Any, method: str, X: Any) -> Any:
    """What the model's own library answers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # 0 / 0 far from all labels
        return getattr(model, method)(X)


def check_refused(fast: CompiledModel, target: str, write: Any, says: str) -> None:
    """In one sentence, which the plan has too."""
    with pytest.raises(UnsupportedModelError) as refusal:
        write(fast)
    said = str(refusal.value)
    assert says in said
    assert said.count(". ") == 0
    assert fast.export_refusals()[target] == said.rstrip(".")
    assert any(said.rstrip(".") in note or "Kept as it is" in note for note in fast.plan.notes)


def check_values(got: np.ndarray, name: str) -> None:
    """Within the tolerance of the model's own library, and so of the compiled model's."""
    model, fast, X, dense = subject(name)
    method = next(m for m in ("predict", "transform", "score_samples") if hasattr(model, m))
    want = log_density(model, dense) if method == "score_samples" else theirs(model, method, X)
    got, ours = got.reshape(want.shape), getattr(fast, method)(X)
    room = fast.tolerance.max() * (1.0 + 1e-6)
    known = np.isfinite(want)
    assert np.abs(got - want)[known].max(initial=0.0) <= room
    assert np.abs(got - ours)[known].max(initial=0.0) <= 2.0 * room


@pytest.mark.parametrize("name", MODELS)
def test_onnx(name: str) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnx", reason="the onnx extra is not installed")
    model, fast, X, dense = subject(name)
    if name in IN_ONNX:
        check_refused(fast, "ONNX", to_onnx, IN_ONNX[name])
        return
    assert "ONNX" not in fast.export_refusals()
    graph = to_onnx(fast)
    check_all_is_used(graph.graph)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(
        graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    outputs = [output.name for output in session.get_outputs()]
    got = dict(zip(outputs, session.run(outputs, {"X": dense})))
    if "label" not in got:
        check_values(got["variable"], name)
        return
    want = theirs(model, "predict", X)
    np.testing.assert_array_equal(got["label"].reshape(want.shape), want)
    np.testing.assert_array_equal(fast.predict(X), want)
    if "probabilities" in got:
        likely = theirs(model, "predict_proba", X)
        likely = np.hstack(likely) if isinstance(likely, list) else likely
        known = np.isfinite(likely)
        assert np.abs(got["probabilities"] - likely)[known].max() <= 1e-3 + 1e-9


def test_labels_that_need_variances_need_doubles() -> None:
    pytest.importorskip("onnx", reason="the onnx extra is not installed")
    fast = compiled("gpc wine one vs rest")
    with pytest.raises(UnsupportedModelError, match="variances, which are exported in float64"):
        to_onnx(fast, dtype="float32")
    outputs = {output.name for output in to_onnx(fast).graph.output}
    assert outputs == {"label", "probabilities", "scores"}


def check_all_is_used(graph: Any) -> None:
    """No node and no constant is left over, of which runtimes would complain."""
    used = {name for node in graph.node for name in node.input} | {o.name for o in graph.output}
    assert {tensor.name for tensor in graph.initializer} <= used
    assert {name for node in graph.node for name in node.output} <= used


def test_every_kind_has_its_probabilities() -> None:
    """Where they are a formula of the scores: by sigmoids, isotonic steps, means and shares."""
    pytest.importorskip("onnx", reason="the onnx extra is not installed")
    for name in ("calibrated sigmoid", "calibrated isotonic wine", "voting soft", "spreading iris"):
        outputs = {output.name for output in to_onnx(compiled(name)).graph.output}
        assert "probabilities" in outputs, name


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("name", MODELS)
def test_c(name: str, tmp_path: Path) -> None:
    model, fast, X, dense = subject(name)
    if name in IN_C:
        check_refused(fast, "C", to_c, IN_C[name])
        return
    assert "C" not in fast.export_refusals()
    got = answers_of_program(build(fast, tmp_path), dense)
    if not fast.head.proves_labels:
        check_values(np.array(got, dtype=np.float64), name)
        return
    assert [line[0] for line in got] == [told(v) for v in theirs(model, "predict", X).tolist()]
