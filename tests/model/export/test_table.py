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
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

import kernelite
from kernelite.backends.c import to_c
from kernelite.backends.onnx import to_onnx
from kernelite.model import CompiledModel
from kernelite.model.export import export
from kernelite.support.errors import UnsupportedModelError
from tests.answers import log_density
from tests.model.export.test_c import answers as answers_of_program
from tests.model.export.test_c import compiled_c, told
from tests.models import MODELS, compiled, fitted

ROWS = 200  # of a table, at most
IN_ONNX = {
    "pipeline clipped": "a step that is not exported (MinMaxScaler)",
    "target quantiles": "pass through a QuantileTransformer",
}
IN_C = IN_ONNX


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
    assert any(said.rstrip(".") in note or "Kept as it is" in note for note in fast.plan.said)


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


def besides(fast: CompiledModel) -> dict[str, Any]:
    """Options for all that a model gives."""
    deviates = fast.posterior is not None and fast.head.kind == "regressor"
    return {"probabilities": "predict_proba" in fast.head.offers, "std": deviates}


def check_probabilities(got: np.ndarray, name: str) -> None:
    """Within what the compiled model promises, of those of the model's own library."""
    model, _, X, _ = subject(name)
    likely = theirs(model, "predict_proba", X)
    likely = np.hstack(likely) if isinstance(likely, list) else likely
    known = np.isfinite(likely)
    assert np.abs(got - likely)[known].max() <= 1e-3 + 1e-9


def check_deviations(got: np.ndarray, name: str) -> None:
    """In doubles: within 1e-9 of the largest, of those of the model's own library."""
    model, _, X, _ = subject(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 0 / 0 far from all labels
        want = model.predict(X, return_std=True)[1].reshape(got.shape)
    np.testing.assert_allclose(got, want, rtol=0.0, atol=1e-9 * want.max())


@pytest.mark.parametrize("name", MODELS)
def test_onnx(name: str) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnx", reason="the onnx extra is not installed")
    model, fast, X, dense = subject(name)
    if name in IN_ONNX:
        check_refused(fast, "ONNX", to_onnx, IN_ONNX[name])
        return
    assert "ONNX" not in fast.export_refusals()
    graph = to_onnx(fast, **besides(fast))
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
        if "std" in got:
            check_deviations(got["std"], name)
        return
    want = theirs(model, "predict", X)
    np.testing.assert_array_equal(got["label"].reshape(want.shape), want)
    np.testing.assert_array_equal(fast.predict(X), want)
    if "predict_proba" in fast.head.offers:
        check_probabilities(got["probabilities"], name)


def test_variances_need_doubles_and_support_vectors() -> None:
    pytest.importorskip("onnx", reason="the onnx extra is not installed")
    fast = compiled("gpc wine one vs rest")
    with pytest.raises(UnsupportedModelError, match="variances, and float32 has too few digits"):
        to_onnx(fast, dtype="float32")
    outputs = {output.name for output in to_onnx(fast).graph.output}
    assert outputs == {"label", "probabilities", "scores"}
    model, X = fitted("gpr generated")
    formed = kernelite.compile(model, X, plan="form")
    for write in (to_onnx, to_c):
        with pytest.raises(UnsupportedModelError, match="need all support vectors"):
            write(formed, part="approximation", std=True)
        with pytest.raises(UnsupportedModelError, match="or they were not kept"):
            write(compiled("gpr generated", "none"), std=True)
        with pytest.raises(UnsupportedModelError, match="deviations cannot be exported: a class"):
            write(compiled("svc iris ovr"), std=True)
        with pytest.raises(UnsupportedModelError, match="not a Gaussian process"):
            write(compiled("svr diabetes"), std=True)


def test_deviations_where_the_factor_is_nearly_singular() -> None:
    """One correction gives back what the inverse loses."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    X = np.linspace(0.0, 1.0, 60)[:, None]
    model = GaussianProcessRegressor(RBF(0.3), alpha=1e-10, optimizer=None).fit(X, np.sin(X[:, 0]))
    fast, new = kernelite.compile(model, X), np.linspace(-0.5, 1.5, 97)[:, None]
    graph = to_onnx(fast, std=True).SerializeToString()
    session = runtime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    got = session.run(["std"], {"X": new})[0][:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = model.predict(new, return_std=True)[1]
    # Both lose some six digits of the variance: what K is off by, times its inverse.
    assert np.abs(got**2 - want**2).max() < 1e-9


def check_all_is_used(graph: Any) -> None:
    """No node and no constant is left over, of which runtimes would complain."""
    used = {name for node in graph.node for name in node.input} | {o.name for o in graph.output}
    inside = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    used |= {name for inner in inside for node in inner.node for name in node.input}
    assert {tensor.name for tensor in graph.initializer} <= used
    assert {name for node in graph.node for name in node.output} <= used


def test_every_kind_has_its_probabilities() -> None:
    """Where they are a formula of the scores: by sigmoids, isotonic steps, means and shares."""
    pytest.importorskip("onnx", reason="the onnx extra is not installed")
    for name in ("calibrated sigmoid", "calibrated isotonic wine", "voting soft", "spreading iris"):
        outputs = {output.name for output in to_onnx(compiled(name)).graph.output}
        assert "probabilities" in outputs, name


EXTRA = """static void both(const double *x)
{
    double more[COUNT];
    int i;
    m_print(x);
    m_WHAT(x, more);
    for (i = 0; i < COUNT; i++)
        printf("%s%.17g", i ? " " : "", more[i]);
    printf("\\n");
}

int main(void)
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("name", MODELS)
def test_c(name: str, tmp_path: Path) -> None:
    model, fast, X, dense = subject(name)
    if name in IN_C:
        check_refused(fast, "C", to_c, IN_C[name])
        return
    assert "C" not in fast.export_refusals()
    what = next((key for key, asked in besides(fast).items() if asked), None)
    export(fast, tmp_path / "m.h", main=True, **besides(fast))
    if what is not None:  # on a line of its own behind each answer
        which = {"std": "deviation", "probabilities": "probability"}[what]
        count = {"std": "m_DEVIATIONS", "probabilities": "m_PROBABILITIES"}[what]
        extra = EXTRA.replace("WHAT", which).replace("COUNT", count)
        source = (tmp_path / "m.c").read_text()
        (tmp_path / "m.c").write_text(
            source.replace("m_print(x);", "both(x);").replace("int main(void)\n", extra)
        )
    got = answers_of_program(compiled_c(tmp_path, "m"), dense)
    if what is not None:
        check = {"std": check_deviations, "probabilities": check_probabilities}[what]
        check(np.array(got[1::2], np.float64), name)
        got = got[::2]
    if not fast.head.proves_labels:
        check_values(np.array(got, dtype=np.float64), name)
        return
    want = theirs(model, "predict", X)
    rows = want.reshape(len(want), -1).tolist()
    assert got == [[told(v) for v in row] for row in rows]
