"""ONNX graphs against the models they came from, run by onnxruntime."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelite.backends.onnx import OPSET, to_onnx
from kernelite.machine.heads import (
    ClassifierHead,
    DensityHead,
    NamedInverse,
    RegressorHead,
    TargetHead,
)
from kernelite.model import CompiledModel
from kernelite.support.errors import UnsupportedModelError
from tests.model.export.cases import (
    CASES,
    FEATURES,
    certified_with,
    far_away,
    random_rows,
    same_scores,
    usable_rows,
)
from tests.models import MODELS, fitted
from tests.models import compiled as table_model
from tests.store.models import HEADS, compiled

onnx = pytest.importorskip("onnx", reason="the onnx extra is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def run(graph: Any, rows: np.ndarray) -> dict[str, np.ndarray]:
    """All outputs by name."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(
        graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": rows})))


def answers(model: CompiledModel, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What `predict` and `decision_function` (or the scores) say, on two axes."""
    scores = model.scores(rows, on_invalid="ignore")
    return model.head.predict(scores), np.asarray(model.head.decision(scores))


def served(got: dict[str, np.ndarray]) -> str:
    """The output that `decision_function`, or `predict` of values, gives."""
    return next(name for name in ("decision", "scores", "variable") if name in got)


@pytest.mark.parametrize("name", CASES)
def test_labels_and_scores_are_the_models_own(name: str) -> None:
    model = CASES[name]
    rows = usable_rows(model)
    got = run(to_onnx(model), rows)
    labels, scores = answers(model, rows)
    value = got[served(got)]
    assert value.ndim == 2
    if "label" in got:
        assert got["scores"].shape == (len(rows), model.head.n_scores)
    if "label" in got:
        np.testing.assert_array_equal(got["label"].reshape(-1), labels)
    if model.guarantee != "certified":
        same_scores(value, scores.reshape(value.shape))
    elif model.tolerance is not None:
        # Rows may be served by different tiers here and there: both are within the tolerance.
        assert np.abs(value - scores.reshape(value.shape)).max() <= 2 * model.tolerance.max()


@pytest.mark.parametrize("name", CASES)
def test_no_rows_are_answered_with_none(name: str) -> None:
    got = run(to_onnx(CASES[name]), np.zeros((0, FEATURES)))
    assert all(len(value) == 0 for value in got.values())


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].expansion is not None])
def test_the_exact_part_is_the_exact_model(name: str) -> None:
    model = CASES[name]
    rows = usable_rows(model)
    got = run(to_onnx(model, part="exact"), rows)
    mapped = model.preparation.apply(rows)
    want = model.head.decision(model.expansion.scores(mapped))
    value = got[served(got)]
    same_scores(value, np.asarray(want).reshape(value.shape))


def test_the_graph_knows_the_second_word_of_a_shift() -> None:
    model, rows = far_away(CASES["certified, mapped"])
    got = run(to_onnx(model, part="exact"), rows)
    want = model.expansion.scores(model.preparation.apply(rows))
    same_scores(got["scores"], want)
    decision = np.asarray(model.head.decision(want))
    same_scores(got["decision"], decision.reshape(got["decision"].shape))


PROVABLE = [
    name
    for name, model in CASES.items()
    if model.approximation is not None and model.approximation.certified
]


@pytest.mark.parametrize("name", PROVABLE)
def test_decided_rows_have_the_exact_models_answer(name: str) -> None:
    model, rows = CASES[name], random_rows(m=200)
    got = run(to_onnx(model, part="approximation", decided=True), rows)
    decided = got["decided"]
    assert decided.dtype == bool
    assert decided.any()
    mapped = model.preparation.apply(rows)
    exact = model.expansion.scores(mapped)
    bounds = got["error_bound"]
    if "label" in got:
        want = model.head.predict(exact)
        np.testing.assert_array_equal(got["label"].reshape(-1)[decided], want[decided])
    else:
        assert (np.abs(got["variable"] - exact) <= bounds).all()
        assert (bounds[decided] <= model.tolerance * (1.0 + 1e-12)).all()
        assert not (bounds <= model.tolerance).all(axis=1)[~decided].any()


# A second tier has tighter bounds than the first one's, which `error_bound` tells.
FIRST_TIERS = [name for name in PROVABLE if not CASES[name].approximation.has_second_form]


@pytest.mark.parametrize("name", FIRST_TIERS)
def test_bounds_hold_and_are_hardly_above_ours(name: str) -> None:
    model, rows = CASES[name], random_rows(m=100)[4:]
    found = run(to_onnx(model, part="approximation", decided=True), rows)
    form = replace(model, guarantee="none", on_invalid="ignore")  # which the graph is, alone
    got, ours = found["error_bound"], form.score_bound(rows)
    bounded = next(name for name in ("decision", "variable", "scores") if name in found)
    assert got.shape == found[bounded].shape
    if getattr(model.head, "shape", None) == "ovr":  # votes and squashed sums
        scores = form.scores(rows)
        ours = model.head.answer_bound("decision_function", scores, ours)
    # 1e-7: the margin of the fused kernel, which the graph has not.
    assert (got >= ours * (1 - 2e-7)).all()
    assert (got <= ours * 1.01 + 1e-9).all()


def test_bounds_of_votes_hold_where_a_vote_is_open() -> None:
    model, rows = CASES["certified, ovr"], random_rows(m=3000)
    got = run(to_onnx(model, part="approximation", decided=True), rows)
    exact = model.head.decision(model.expansion.scores(model.preparation.apply(rows)))
    assert (np.abs(got["decision"] - exact) <= got["error_bound"]).all()
    assert got["error_bound"].max() >= 1.0  # of a vote


@pytest.mark.parametrize(
    "head", [TargetHead(RegressorHead(), NamedInverse("exp")), DensityHead(-1.5)]
)
def test_bounds_are_those_of_the_values_given(head: Any) -> None:
    model, rows = certified_with(head), random_rows(m=200)[4:]
    got = run(to_onnx(model, part="approximation", decided=True), rows)
    exact = head.predict(model.expansion.scores(model.preparation.apply(rows)))
    known = np.isfinite(got["error_bound"][:, 0])
    assert known.any()
    errors = np.abs(got["variable"][:, 0] - exact)[known]
    assert (errors <= got["error_bound"][known, 0]).all()


def test_without_a_proof_nothing_is_decided() -> None:
    model = certified_with(HEADS["integers"])
    rows = np.full((3, FEATURES), np.nan)
    rows[1, 1:] = 0.0
    assert not run(to_onnx(model, part="approximation", decided=True), rows)["decided"].any()


@pytest.mark.parametrize("name", [name for name in CASES if "predict_proba" in CASES[name].offers])
def test_probabilities_where_no_iteration_is_needed(name: str) -> None:
    model, rows = CASES[name], random_rows(m=100)
    got = run(to_onnx(model), rows)
    coupled = isinstance(model.head, ClassifierHead) and model.head.coupled
    if coupled or "predict_proba" in model.head.needs_posterior:
        assert "probabilities" not in got
        return
    want = model.predict_proba(rows, on_invalid="ignore")
    room = 2e-3 if model.guarantee == "certified" else 1e-12
    np.testing.assert_allclose(got["probabilities"], want, atol=room, rtol=0)
    assert "probabilities" not in run(to_onnx(model, probabilities=False), rows)


@pytest.mark.parametrize("by_probability", [False, True])
def test_coupled_probabilities_come_on_request(by_probability: bool) -> None:
    platt = {"platt_a": np.linspace(-1.0, -2.0, 3), "platt_b": np.linspace(-0.1, 0.3, 3)}
    head = ClassifierHead(np.array([1, 2, 3]), labels_by_probability=by_probability, **platt)
    model, rows = compiled(head), random_rows()
    assert "probabilities" not in run(to_onnx(model), rows)
    found, scores = run(to_onnx(model, probabilities=True), rows), model.scores(rows)
    np.testing.assert_allclose(found["probabilities"], head.probabilities(scores), atol=1e-13)
    np.testing.assert_array_equal(found["label"], head.predict(scores))
    assert not len(run(to_onnx(model, probabilities=True), rows[:0])["probabilities"])


def test_probabilities_that_a_model_lacks_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="trained without"):
        to_onnx(compiled(), probabilities=True)


def test_half_a_letter_is_no_label_of_a_graph() -> None:
    with pytest.raises(UnsupportedModelError, match="halves of letters"):
        to_onnx(compiled(ClassifierHead(np.array(["\ud800", "b"]))))


@pytest.mark.parametrize("part", ["all", "exact"])
def test_float32_states_its_measured_error(part: Any) -> None:
    model = compiled(HEADS["three"]) if part == "all" else compiled(HEADS["three"], exact=True)
    rows = random_rows(m=300)[4:]
    graph = to_onnx(model, part=part, dtype="float32", sample=rows)
    facts = {entry.key: entry.value for entry in graph.metadata_props}
    assert "rows of the sample, not a bound" in facts["float32_error"]
    got = run(graph, rows.astype(np.float32))
    assert got["scores"].dtype == np.float32
    stated = float(facts["float32_error"].split()[1].rstrip(","))
    single = rows.astype(np.float32).astype(np.float64)
    want = run(to_onnx(model, part=part), single)["scores"]
    # Votes jump where a score is near zero; what remains is of the size that was stated.
    assert np.median(np.abs(got["scores"] - want)) <= 10 * stated
    assert 0 < stated < 1e-3


def test_the_file_says_what_it_is() -> None:
    graph = to_onnx(certified_with(HEADS["integers"]))
    facts = {entry.key: entry.value for entry in graph.metadata_props}
    assert facts["guarantee_of_the_model"] == "certified"
    assert facts["promise"].startswith("Certified: all labels are the exact model's")
    assert facts["promise"] in graph.graph.doc_string
    assert facts["scores"].startswith("Scores may be inaccurate")
    assert "scores" not in {e.key for e in to_onnx(CASES["certified, regressor"]).metadata_props}
    assert graph.producer_name == "kernelite"


@pytest.mark.parametrize("name", CASES)
def test_standard_operators_only(name: str) -> None:
    graph = to_onnx(CASES[name])
    assert {entry.domain for entry in graph.opset_import} == {""}
    for node in graph.graph.node:
        assert onnx.defs.has(node.op_type, OPSET, "")
        assert node.domain == ""


SKLEARN = [
    "svc binary strings, raw scale",
    "svc binary booleans",
    "svc iris break ties",
    "svc iris poly ovo",
    "svc words sparse",
    "svr diabetes poly",
    "oneclass friedman sparse",
]


@pytest.mark.parametrize("name", [name for name in SKLEARN if name in MODELS])
@pytest.mark.parametrize("guarantee", ["none", "certified"])
def test_scikit_learns_own_labels(name: str, guarantee: str) -> None:
    model, X = fitted(name)
    fast = table_model(name, guarantee)
    dense = np.asarray(X.todense() if hasattr(X, "todense") else X, dtype=np.float64)
    got = run(to_onnx(fast), dense)
    want = model.predict(X) if guarantee == "certified" else fast.predict(X, on_invalid="ignore")
    if "label" in got:
        np.testing.assert_array_equal(got["label"].reshape(-1), want)
    else:
        room = 1e-12 if guarantee == "none" else fast.tolerance.max()
        np.testing.assert_allclose(got["variable"][:, 0], want, atol=room, rtol=1e-12)
