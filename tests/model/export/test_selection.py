"""An export is never weaker than the model unless the caller chose so."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, SVR

import kernelite
from kernelite.backends.c import to_c
from kernelite.backends.javascript import to_javascript
from kernelite.backends.onnx import to_onnx
from kernelite.machine.heads import RegressorHead
from kernelite.model import CompiledModel, ModelPart
from kernelite.model.export.selection import select
from kernelite.support.errors import InputError, UnsupportedModelError
from tests.model.export.cases import CASES, certified_with
from tests.store.models import HEADS, compiled

CERTIFIED = CASES["certified, binary"]
FORM = compiled()
EXACT = compiled(exact=True)


def test_all_takes_what_the_guarantee_needs() -> None:
    assert select(CERTIFIED).falls_back
    assert select(CASES["calibrated, three"]).falls_back
    assert select(FORM).expansion is None
    assert select(EXACT).approximation is None
    # A model without a guarantee that happens to hold its vectors does not gain a fallback.
    odd = replace(CERTIFIED, guarantee="none")
    assert not select(odd).falls_back


@pytest.mark.parametrize(
    ("model", "options", "says"),
    [
        (FORM, {"part": "exact"}, "holds no support vectors"),
        (EXACT, {"part": "approximation"}, "no form to export"),
        (FORM, {"part": "approximation", "decided": True}, "no certificate"),
        (CERTIFIED, {"dtype": "float32"}, "cannot keep its guarantee in float32"),
        (
            CERTIFIED,
            {"part": "approximation", "decided": True, "dtype": "float32"},
            "nothing is proven in float32",
        ),
        (
            replace(certified_with(RegressorHead()), guarantee="none", tolerance=None),
            {"part": "approximation", "decided": True},
            "within a tolerance",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused(model, options, says) -> None:
    with pytest.raises(UnsupportedModelError, match=says):
        select(model, **options)


@pytest.mark.parametrize(
    ("model", "options", "says"),
    [
        (CERTIFIED, {"decided": True}, "every answer is settled"),
        (EXACT, {"decided": True}, "every answer is settled"),
        (CERTIFIED, {"part": "half"}, "all, approximation, exact"),
        (CERTIFIED, {"dtype": "float16"}, "float64, float32"),
        ("model", {}, "must be a CompiledModel"),
    ],
)
def test_wrong_arguments_are_named(model, options, says) -> None:
    with pytest.raises(InputError, match=says):
        select(model, **options)


def test_models_with_kept_transformers_are_refused() -> None:
    X, y = load_iris(return_X_y=True)
    kept = make_pipeline(FunctionTransformer(np.abs), SVC(gamma=0.01)).fit(X, y)
    with pytest.raises(UnsupportedModelError, match=r"not exported \(FunctionTransformer\)"):
        select(kernelite.compile(kept, X, guarantee="exact"))
    scaled = make_pipeline(StandardScaler(), SVC(gamma=0.01)).fit(X, y)
    assert (
        select(kernelite.compile(scaled, X, guarantee="exact")).model.preparation.input_map
        is not None
    )


def test_several_machines_are_taken_together() -> None:
    several = CompiledModel(
        head=EXACT.head,
        approximation=None,
        expansion=None,
        guarantee="exact",
        plan=EXACT.plan,
        origin=EXACT.origin,
        parts=(ModelPart(EXACT, np.array([0])), ModelPart(EXACT, np.array([0]))),
    )
    selection = select(several)
    assert [piece.outputs.tolist() for piece in selection.pieces] == [[0], [0]]
    assert selection.promise == "The exact model in float64."


def test_every_part_of_a_model_was_thought_of() -> None:
    """A field that the exports do not know would be left out without a word: refuse it there."""
    assert {field.name for field in fields(CompiledModel)} == {
        *("head", "approximation", "expansion", "guarantee", "tolerance", "threshold"),
        *("plan", "origin", "on_invalid"),  # not needed to answer
        *("posterior", "local"),  # variances are not exported; all centers are taken
        "score_tolerance",  # scores of exports are as good as their labels, as their docs say
        *("preparation", "parts", "tail"),
    }


def test_promises_say_what_is_proven() -> None:
    assert "only there" in select(CERTIFIED, "approximation", decided=True).promise
    assert "nothing is proven" in select(CERTIFIED, "approximation").promise
    assert "within the tolerance" in select(certified_with(HEADS["regressor"])).promise
    assert select(CERTIFIED, "exact", dtype="float32").promise == "The exact model in float32."


def test_files_say_what_their_scores_are() -> None:
    """Beside labels, scores are no better than these unless more was asked for."""
    assert "may be inaccurate" in select(CERTIFIED).scores
    assert "may be inaccurate" in select(CASES["calibrated, three"]).scores
    within = replace(CERTIFIED, tolerance=np.full(1, 0.1))
    assert "within the tolerance" in select(within).scores
    assert "up to the rounding" in select(CERTIFIED, "exact").scores
    assert "`score_bound`" in select(CERTIFIED, "approximation", decided=True).scores
    assert select(FORM).scores == "Scores are the form's."
    assert select(CERTIFIED).scores in to_c(CERTIFIED)


@pytest.mark.parametrize("ending", ["onnx", "h", "js"])
def test_steps_that_are_not_exported_are_refused_in_a_sentence(tmp_path, ending) -> None:
    X, y = load_iris(return_X_y=True)
    normal = QuantileTransformer(n_quantiles=20, output_distribution="normal")
    fast = kernelite.compile(make_pipeline(normal, SVC(gamma=0.1)).fit(X, y), X)
    with pytest.raises(UnsupportedModelError, match="before this model is not exported: its Quant"):
        fast.export(tmp_path / f"model.{ending}")
    assert not list(tmp_path.iterdir())
    assert "Exports: ONNX, C and JavaScript no (what rows go through before" in str(fast.plan)


def test_rows_that_a_projection_would_round_are_not_decided() -> None:
    """They may lie far off in directions that are dropped, and look near afterwards."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), PCA(2), SVC(gamma=0.02)).fit(X, y)
    fast = kernelite.compile(pipeline, X, plan="form")
    graph = to_onnx(fast, part="approximation", decided=True)
    session = runtime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    far = X + 1e12 * pipeline[1].components_[0][None, ::-1]
    for rows, some in ((X, True), (far, False)):
        label, decided = session.run(["label", "decided"], {"X": rows})
        assert decided.any() == some
        np.testing.assert_array_equal(label[decided], pipeline.predict(rows)[decided])
    assert "The exact model in float64" in to_c(fast)
    with pytest.raises(UnsupportedModelError, match="behind projections"):
        to_c(fast, part="approximation", decided=True)


def test_what_cannot_be_saved_is_said_when_compiling() -> None:
    X, y = load_iris(return_X_y=True)
    model = TransformedTargetRegressor(SVR(), transformer=QuantileTransformer(n_quantiles=9))
    said = str(kernelite.compile(model.fit(X, y), X).plan)
    assert "Cannot be saved: this model keeps a QuantileTransformer behind it" in said
    assert "Exports: ONNX and JavaScript no (" in said
    assert "saved" not in str(kernelite.compile(SVC().fit(X, y), X).plan)


@pytest.mark.parametrize(
    ("target", "write"), [("ONNX", to_onnx), ("C", to_c), ("JavaScript", to_javascript)]
)
def test_what_is_too_large_is_refused_before_it_is_made(target: str, write: Any) -> None:
    """Sparse centers of many features would be dense in a file."""
    centers = scipy.sparse.random_array((20_000, 20_000), density=1e-6, rng=0, format="csr")
    huge = kernelite.KernelExpansion(centers, np.ones((20_000, 1)), 0.0, gamma=1.0)
    model = kernelite.compile(huge, guarantee="exact")
    says = f"would take 400 million numbers, more than a file for {target} can hold"
    with pytest.raises(UnsupportedModelError, match=says):
        write(model)
    assert says in model.export_refusals()[target]


def test_a_plan_says_which_target_refuses_a_model() -> None:
    X, y = load_iris(return_X_y=True)
    fast = kernelite.compile(SVC(gamma=0.1).fit(X, y.astype(np.int64) + 2**53), X)
    assert fast.export_refusals().keys() == {"JavaScript"}
    assert "Exports: JavaScript no (labels of 2^53 and more are no exact" in str(fast.plan)


def test_labels_beyond_whole_numbers_of_64_bits_are_refused() -> None:
    X, y = load_iris(return_X_y=True)
    fast = kernelite.compile(SVC(gamma=0.1).fit(X, y.astype(np.uint64) + np.uint64(2**63)), X)
    for write in (to_onnx, to_c, to_javascript):
        with pytest.raises(UnsupportedModelError, match=r"labels of 2\^(63|53) and more"):
            write(fast)
    assert fast.export_refusals().keys() == {"ONNX", "C", "JavaScript"}


def test_exports_are_tried_when_the_plan_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """They write a program in C and throw it away, which compiling need not wait for."""
    X, y = load_iris(return_X_y=True)
    model = TransformedTargetRegressor(SVR(), transformer=QuantileTransformer(n_quantiles=9))
    tried: list[CompiledModel] = []
    monkeypatch.setattr("kernelite.model.export.select", lambda model: tried.append(model) or 1)
    fast = kernelite.compile(model.fit(X, y), X)
    assert not tried
    assert "Exports: " in str(fast.plan)
    assert len(tried) == 3
    copy = pickle.loads(pickle.dumps(fast)).plan  # with its notes, and without the model
    assert (copy.late, copy.said) == (None, fast.plan.said)
    assert str(copy) == str(fast.plan)
    assert len(tried) == 3
