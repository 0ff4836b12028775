"""`scores` is one thing: of `fast.scores`, of graphs, of C headers and of JavaScript modules.

They are the raw sums, a column for each pair of classes in one-vs-one; `decision` is what
`decision_function` gives, and probabilities are those of `predict_proba`. Exact models, so that all
four agree up to rounding.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelite.backends.c import to_c
from kernelite.backends.javascript import to_javascript
from kernelite.backends.onnx import to_onnx
from tests.backends.javascript.node import NODE, Node
from tests.model.export.test_c import answers, compiled_c
from tests.models import compiled, fitted

ROWS = 40
LABELS = {  # columns of the scores
    "svc binary": 1,
    "svc iris ovr": 3,
    "svc iris ovo": 3,
    "svc digits": 45,
    "svc binary probability": 1,
    "svc wine probability": 3,
    "oneclass cancer": 1,
    "gpc cancer": 1,
    "spreading iris": 3,
    "calibrated sigmoid": 3,
    "one vs one wine": 3,
    "voting soft": 15,
}
VALUES = (
    "svr diabetes",
    "gpr diabetes",
    "ridge linnerud three targets",
    "pca iris",
    "density iris",
)
PROGRAM = """#include <stdio.h>
#include "m.h"

static void print(const double *values, int count)
{
    int i;
    for (i = 0; i < count; i++)
        printf("%s%.17g", i ? " " : "", values[i]);
    printf("\\n");
}

int main(void)
{
    double x[m_FEATURES], scores[m_OUTPUTS];
    MORE
    for (;;) {
        int i;
        for (i = 0; i < m_FEATURES; i++)
            if (scanf("%lf", &x[i]) != 1)
                return 0;
        m_score(x, scores);
        print(scores, m_OUTPUTS);
        PRINT
    }
}
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    if NODE is None:
        pytest.skip("Node.js is not installed")
    with Node(tmp_path_factory.mktemp("node")) as process:
        yield process


def subject(name: str) -> tuple[Any, np.ndarray]:
    fast, rows = compiled(name, "exact"), fitted(name)[1][:ROWS]
    return fast, np.asarray(rows, dtype=np.float64)


def of_graph(fast: Any, rows: np.ndarray) -> dict[str, np.ndarray]:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnx", reason="the onnx extra is not installed")
    graph = to_onnx(fast, probabilities=True if "predict_proba" in fast.head.offers else None)
    session = runtime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    outputs = [output.name for output in session.get_outputs()]
    return dict(zip(outputs, session.run(outputs, {"X": rows})))


def of_program(fast: Any, rows: np.ndarray, folder: Path) -> dict[str, np.ndarray]:
    likely = "predict_proba" in fast.head.offers
    header = to_c(fast, name="m", probabilities=likely)
    (folder / "m.h").write_text(header)
    said = "void m_score(const double *x, double *scores)  m_OUTPUTS raw sums of a row x"
    assert said in header
    pairs = f"{said}\n       as scores(X) in Python; one-vs-one has one for each pair of classes"
    assert (pairs in header) == ("m_label(" in header)
    more = "double p[m_PROBABILITIES];" if likely else ""
    ask = "m_probability(x, p); print(p, m_PROBABILITIES);" if likely else ""
    (folder / "m.c").write_text(PROGRAM.replace("MORE", more).replace("PRINT", ask))
    lines = [np.array(line, dtype=float) for line in answers(compiled_c(folder, "m"), rows)]
    if likely:
        return {"scores": np.array(lines[::2]), "probabilities": np.array(lines[1::2])}
    return {"scores": np.array(lines)}


def same(got: Any, want: np.ndarray) -> None:
    found = np.asarray(got, dtype=np.float64).reshape(want.shape)
    np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-11 * np.abs(want).max())


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("name", LABELS)
def test_scores_decisions_and_probabilities_mean_one_thing(
    name: str, node: Node, tmp_path: Path
) -> None:
    fast, rows = subject(name)
    scores = fast.scores(rows)
    assert scores.shape == (len(rows), LABELS[name])
    likely = "predict_proba" in fast.head.offers
    text = to_javascript(fast, probabilities=likely or None)
    module = node.ask(text, rows)
    same(node.ask(text, rows, "scores"), scores)
    graph, program = of_graph(fast, rows), of_program(fast, rows, tmp_path)
    for found in (graph, module, program):
        same(found["scores"], scores)
        if likely:
            same(found["probabilities"], fast.predict_proba(rows))
    if "decision_function" in fast.head.offers:
        for found in (graph, module):
            same(found["decision"], np.asarray(fast.decision_function(rows)))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("name", VALUES)
def test_values_stand_beside_no_scores(name: str, node: Node, tmp_path: Path) -> None:
    """Of regressors, transforms and densities graphs and modules give `variable` alone."""
    fast, rows = subject(name)
    kinds = ("predict", "score_samples", "transform")
    values = getattr(fast, next(kind for kind in kinds if kind in fast.head.offers))(rows)
    for found in (of_graph(fast, rows), node.ask(to_javascript(fast), rows)):
        assert "scores" not in found
        same(found["variable"], values)
    if fast.head.kind == "density":  # in C its sums are logarithms, and not called scores
        assert "_score(" not in to_c(fast, name="m")
    else:
        same(of_program(fast, rows, tmp_path)["scores"], fast.scores(rows))
