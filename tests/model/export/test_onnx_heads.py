"""Heads in ONNX: their formulas on a graph's values against the same formulas on arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import kernelite
from kernelite.backends.onnx import to_onnx
from kernelite.machine.affine import AffineMap
from kernelite.machine.heads import (
    ClassifierHead,
    DensityHead,
    Head,
    KeptInverse,
    LatentClassesHead,
    LatentHead,
    Member,
    MomentsHead,
    OneVsRestHead,
    RegressorHead,
    TargetHead,
)
from kernelite.machine.machine import PolynomialTail
from kernelite.machine.preparation import Preparation, Selection
from kernelite.model import CompiledModel, ModelPart
from kernelite.support.errors import UnsupportedModelError
from tests.machine.heads.table import HEADS
from tests.machine.heads.test_base import ranged, scores_and_bounds
from tests.model.export.cases import FEATURES, certified_with, random_rows, same_scores
from tests.store.models import compiled

onnx = pytest.importorskip("onnx", reason="the onnx extra is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from kernelite.backends.onnx import (  # noqa: E402
    IR_VERSION,
    OPSET,
    described,
    written,
)
from kernelite.model.export.graph import Graph  # noqa: E402
from kernelite.model.export.nodes import Value  # noqa: E402


def run(graph: Any, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All outputs by name."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    # Not rewritten, which takes most of the time: graphs of whole models are, in `test_table`.
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(
        graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds)))


def answers_of(head: Head, scores: Any, bounds: Any) -> dict[str, Any]:
    """All that a criterion or an export asks of a head, on arrays or on a graph's values."""
    found = {"predict": head.predict(scores), "decided": head.decided(scores, bounds)}
    if head.proves_labels:
        found["margin"] = head.margin(scores)
    for method in ranged(head):
        found[method] = head.answer(method, scores)
        found[f"{method}_low"], found[f"{method}_high"] = head.answer_range(method, scores, bounds)
        found[f"{method}_close"] = head.within(method, scores, bounds, 0.05)
    return found


def graph_of(head: Head) -> Any:
    graph, helper = Graph(), onnx.helper
    values = answers_of(head, graph.input("scores"), graph.input("bounds"))
    types = {"f": "float64", "i": "int64", "b": "bool", "O": "object"}
    outputs = []
    for name, value in values.items():
        graph.named(value, name)
        outputs.append(described(name, types[value.kind], [None] * value.ndim))
    inputs = [described(name, "float64", [None, head.n_scores]) for name in ("scores", "bounds")]
    return helper.make_model(
        written(graph, "head", inputs, outputs),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )


@pytest.mark.parametrize("name", HEADS)
def test_a_graph_answers_as_the_head(name: str) -> None:
    head = HEADS[name]
    scores, bounds = scores_and_bounds(head)
    want = answers_of(head, scores, bounds)
    got = run(graph_of(head), {"scores": scores, "bounds": bounds})
    assert got.keys() == want.keys()
    for key, value in want.items():
        assert got[key].shape == value.shape, key
        if value.dtype.kind == "f":
            np.testing.assert_allclose(got[key], value, rtol=1e-11, atol=1e-12, err_msg=key)
        elif key == "decided" or key.endswith("_close"):
            assert not (got[key] & ~value).any(), key  # its ends lie a little farther apart
            assert (got[key] == value).mean() > 0.98, key
        else:
            np.testing.assert_array_equal(got[key], value, err_msg=key)


@pytest.mark.parametrize("name", [name for name in HEADS if HEADS[name].proves_labels])
def test_ties_and_scores_that_are_no_numbers(name: str) -> None:
    """Few distinct values, so that ties, zeros and scores equal to their bound are frequent."""
    head = HEADS[name]
    rng = np.random.default_rng(11)
    scores = rng.integers(-3, 4, (400, head.n_scores)) / 2.0
    bounds = rng.integers(0, 4, scores.shape) / 2.0
    if name == "largest share":  # a sum of zero has no shares
        scores, bounds = np.abs(scores) + 0.5, bounds / 10.0
    with np.errstate(all="ignore"):
        want = head.predict(scores), head.decided(scores, bounds)
    got = run(graph_of(head), {"scores": scores, "bounds": bounds})
    np.testing.assert_array_equal(got["predict"], want[0])
    assert not (got["decided"] & ~want[1]).any()
    for bad in (np.nan, np.inf):
        feeds = {"scores": scores, "bounds": np.full_like(bounds, bad)}
        assert not run(graph_of(head), feeds)["decided"].any()


SERVED = [
    name
    for name in HEADS
    if not name.startswith("target, ") or name in ("target, expm1", "target, outputs")
]


def whole(name: str) -> CompiledModel:
    """A certified model of that head: a form, a certificate and the exact model behind it."""
    return certified_with(HEADS[name])


@pytest.mark.parametrize("name", SERVED)
def test_certified_models_answer_as_they_do_here(name: str) -> None:
    model, rows = whole(name), random_rows(m=200)
    got = run(to_onnx(model), {"X": rows})
    exact = model.expansion.scores(rows)
    if model.head.proves_labels:
        want = model.head.predict(exact)
        np.testing.assert_array_equal(got["label"].reshape(want.shape), want)
        np.testing.assert_array_equal(model.predict(rows), want)
        if "probabilities" in got:
            gap = got["probabilities"] - model.head.probabilities(exact)
            assert np.abs(gap).max() <= 1e-3 + 1e-9
        return
    want = columns(model.score_samples(rows) if name == "density" else model.head.predict(exact))
    far = np.abs(want) > 1e6  # doubles of that size are farther apart than the tolerance
    assert (np.abs(got["variable"] - want)[~far] <= 2e-3).all()
    np.testing.assert_allclose(got["variable"][far], want[far], rtol=1e-9)


def columns(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), -1)


@pytest.mark.parametrize("name", SERVED)
def test_rows_that_say_decided_are(name: str) -> None:
    model, rows = whole(name), random_rows(m=300)
    got = run(to_onnx(model, part="approximation", decided=True), {"X": rows})
    decided, exact = got["decided"], model.expansion.scores(rows)
    assert decided.any() or not model.head.proves_labels
    want = model.head.predict(exact)
    if model.head.proves_labels:
        np.testing.assert_array_equal(got["label"].reshape(want.shape)[decided], want[decided])
    else:
        gap = np.abs(got["variable"] - columns(want))[decided]
        assert gap.max(initial=0.0) <= 1e-3 * (1 + 1e-6)


def sum_of(first: CompiledModel, second: CompiledModel, head: Head, *outputs: Any) -> CompiledModel:
    """Two machines whose scores are added up."""
    parts = tuple(ModelPart(m, np.array(own)) for m, own in zip((first, second), outputs))
    return CompiledModel(
        head=head,
        approximation=None,
        expansion=None,
        guarantee=first.guarantee,
        plan=first.plan,
        origin=first.origin,
        tolerance=None if head.proves_labels else np.full(head.n_values, 1e-3),
        parts=parts,
    )


def in_parts(kind: str) -> CompiledModel:
    value = RegressorHead()
    one, other = (
        certified_with(value),
        replace(
            certified_with(value, third=FEATURES),
            preparation=Preparation.of(AffineMap(np.full(FEATURES, 0.5), np.ones(FEATURES))),
        ),
    )
    if kind == "sum of kernels":
        return sum_of(one, other, value, [0], [0])
    if kind == "one machine is exact":
        alone = replace(one, approximation=None)
        return sum_of(alone, other, value, [0], [0])
    if kind == "selected features":
        chosen = replace(other, preparation=Preparation.of(Selection([1, 0, 3, 2], FEATURES)))
        return sum_of(one, chosen, RegressorHead(2), [1], [0])
    return sum_of(one, other, HEADS["codes"], [0], [1])


PARTS = ["sum of kernels", "one machine is exact", "selected features", "codes"]


@pytest.mark.parametrize("kind", PARTS)
def test_sums_of_machines_keep_their_guarantee(kind: str) -> None:
    model, rows = in_parts(kind), random_rows(m=200)
    exact = run(to_onnx(model, part="exact"), {"X": rows})
    got = run(to_onnx(model), {"X": rows})
    if model.head.proves_labels:
        np.testing.assert_array_equal(got["label"], model.predict(rows))
        np.testing.assert_array_equal(exact["label"], model.predict(rows))
        return
    assert np.abs(got["variable"] - columns(model.predict(rows))).max() <= 2e-3
    always = replace(model, guarantee="exact", parts=tuple(_exactly(part) for part in model.parts))
    same_scores(exact["variable"], columns(always.predict(rows)))


def _exactly(part: ModelPart) -> ModelPart:
    return replace(part, model=replace(part.model, guarantee="exact", approximation=None))


@pytest.mark.parametrize("kind", ["sum of kernels", "selected features", "codes"])
def test_bounds_of_sums_hold_and_are_hardly_above_ours(kind: str) -> None:
    model, rows = in_parts(kind), random_rows(m=100)[4:]
    plain = replace(
        model,
        parts=tuple(replace(p, model=_without_third(p.model)) for p in model.parts),
    )
    got = run(to_onnx(plain, part="approximation", decided=True), {"X": rows})
    ours = plain.score_bound(rows)
    assert (got["error_bound"] >= ours * (1 - 2e-7)).all()
    assert (got["error_bound"] <= ours * 1.01 + 1e-9).all()


def _without_third(model: CompiledModel) -> CompiledModel:
    return replace(model, approximation=replace(model.approximation, cubic=None, full=None))


def test_one_machine_alone_cannot_be_the_form_of_a_sum() -> None:
    with pytest.raises(UnsupportedModelError, match="no form to export"):
        to_onnx(in_parts("one machine is exact"), part="approximation")


def test_a_polynomial_beside_the_kernels() -> None:
    powers = np.array([[0] * FEATURES, [1, 0, 0, 0], [0, 2, 1, 0]])
    tail = PolynomialTail(
        powers, np.array([[0.5], [2.0], [-1.0]]), np.ones(FEATURES), np.full(FEATURES, 2.0)
    )
    model = replace(certified_with(RegressorHead()), tail=tail)
    rows = random_rows(m=100)[4:]
    got = run(to_onnx(model), {"X": rows})["variable"][:, 0]
    assert np.abs(got - model.predict(rows)).max() <= 2e-3
    exact = run(to_onnx(model, part="exact"), {"X": rows})["variable"]
    same_scores(exact, model.expansion.scores(rows) + tail.values(rows)[0])
    bounds = run(to_onnx(model, part="approximation", decided=True), {"X": rows})["error_bound"]
    assert (bounds >= model.score_bound(rows) * (1 - 2e-7)).all()


def test_densities_far_from_all_centers_are_summed_in_logarithms() -> None:
    from sklearn.neighbors import KernelDensity

    rows = np.random.default_rng(0).normal(size=(50, FEATURES))
    fast = kernelite.compile(KernelDensity(bandwidth=0.7).fit(rows), rows, guarantee="exact")
    far = np.vstack([rows[:5], 40.0 * rows[:5], np.full((1, FEATURES), 1e4)])
    got = run(to_onnx(fast), {"X": far})["variable"][:, 0]
    assert got.min() < -1e6
    np.testing.assert_allclose(got, fast.score_samples(far), rtol=1e-9)


def test_features_can_be_selected_before() -> None:
    chosen = Preparation.of(Selection([2, 0, 1, 3], FEATURES + 1))
    model = replace(compiled(HEADS["two classes"], exact=True), preparation=chosen)
    rows = random_rows(d=FEATURES + 1)
    np.testing.assert_array_equal(run(to_onnx(model), {"X": rows})["label"], model.predict(rows))


@dataclass(frozen=True, eq=False)
class Squares(RegressorHead):
    """A head that is written for arrays alone."""

    def predict(self, scores):
        return np.square(scores[:, 0])


class Doubler:
    """A transformer that a graph cannot hold."""

    def inverse_transform(self, values):
        return 2.0 * values


MOMENTS = tuple(
    Member(MomentsHead(LatentHead(np.array([0, 1]))), [i, 3 + i], "probability") for i in range(3)
)


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (Squares(), "Squares.* not written in the operations of graphs"),
        (TargetHead(RegressorHead(), KeptInverse(Doubler())), "pass through a Doubler"),
        (
            LatentClassesHead(OneVsRestHead(np.arange(3), MOMENTS, ("predict", "predict_proba"))),
            "holds no support vectors",
        ),
        (ClassifierHead(np.array([7])), "one class has no score"),
    ],
)
def test_what_is_no_formula_is_refused_in_one_sentence(head: Head, says: str) -> None:
    with pytest.raises(UnsupportedModelError, match=says) as refusal:
        to_onnx(compiled(head))
    assert str(refusal.value).count(".") <= 1 + str(refusal.value).count("numpy.")


@pytest.mark.parametrize(("start", "number"), [(0.0, 1e-300), (0.0, 1e-50), (1.0, 1.0 + 1e-9)])
def test_no_runtime_takes_a_margin_for_nothing(start: float, number: float) -> None:
    """onnxruntime drops what single precision cannot tell from adding 0 or multiplying by 1."""
    graph, helper = Graph(), onnx.helper
    x = graph.input("x")
    graph.named(x * number if start else x + number, "out")
    ends = [[described(n, "float64", [None, 1])] for n in ("x", "out")]
    model = helper.make_model(
        written(graph, "g", *ends),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    assert run(model, {"x": np.array([[start]])})["out"][0, 0] == number


def test_the_error_function_in_doubles() -> None:
    from scipy.special import erf

    graph, helper = Graph(), onnx.helper
    graph.named(graph.erf(graph.input("x")), "out")
    ends = [[described(n, "float64", [None, 1])] for n in ("x", "out")]
    model = helper.make_model(
        written(graph, "g", *ends),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    x = np.append(np.linspace(-8.0, 8.0, 5001), [0.0, 1e-300, -np.inf, np.inf])[:, None]
    assert np.abs(run(model, {"x": x})["out"] - erf(x)).max() <= 4e-16


def test_a_graph_has_each_node_once() -> None:
    graph = Graph()
    x = graph.input("x")
    assert (x + 1.0).name == (x + 1.0).name
    assert len(graph.nodes) == len(graph.constants) == 1
    with pytest.raises(TypeError, match="only when the graph runs"):
        bool(x > 0.0)
    assert isinstance(np.float64(2.0) * x, Value)


def test_densities_of_a_form_alone_are_its_logarithms() -> None:
    model = replace(certified_with(DensityHead(0.5)), expansion=None, guarantee="none")
    rows = random_rows(m=50)[4:]
    got = run(to_onnx(model), {"X": rows})["variable"][:, 0]
    want = model.score_samples(rows, on_invalid="ignore")
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
