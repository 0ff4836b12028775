"""Files that are sound safetensors, but whose parts somebody has changed."""

from __future__ import annotations

import json
import math
import tracemalloc
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save as serialize
from sklearn.svm import SVC

import kernelite as kl
from kernelite.machine.heads import RegressorHead
from kernelite.machine.kernels import ExpSineSquared, Matern, RationalQuadratic, Rbf
from kernelite.store import files
from kernelite.store.document import content_digest
from kernelite.store.files import _try_out, dumps, loads
from kernelite.store.packing import csr_of, text_array, texts_of
from kernelite.support.errors import FileFormatError, InputError, KerneliteError
from tests.helpers import CHANGES, VALUES
from tests.models import compiled, fitted
from tests.store.models import proven

NAMES = (
    "one vs rest generated",
    "one vs one calibrated",
    "calibrated scales sparse",
    "gpr linnerud three targets",
    "gpr linnerud sum, three targets",
    "density wine",
    "svc words sparse",
    "svc iris break ties",
)


@cache
def stored(name: str, guarantee: str) -> bytes:
    """A model's bytes."""
    return dumps(compiled(name, guarantee))


def parts(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The document and the tensors of a file."""
    from safetensors.numpy import load

    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return json.loads(header["__metadata__"]["kernelite"]), load(data)


def leaves(tree: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all values of a tree."""
    if not isinstance(tree, dict | list):
        yield way
        return
    for key, item in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield from leaves(item, (*way, key))


def rebuilt(document: dict[str, Any], tensors: dict[str, np.ndarray]) -> bytes:
    """A file of these parts, with their digest: whoever changes a file can do that too."""
    whole = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    own = content_digest(document["version"], document["model"], whole)
    document = document | {"digest": own}
    return serialize(whole, metadata={"kernelite": json.dumps(document)})


def use(model: kl.CompiledModel) -> None:
    """All that a user would do first."""
    assert str(model.plan)
    assert repr(model)
    if model.n_features_in_ > 10_000:
        return
    rows = np.vstack([np.eye(3, model.n_features_in_), np.full((1, model.n_features_in_), 1e200)])
    for name in ("predict", "decision_function", "predict_proba", "score_samples", "transform"):
        if name in model.offers:
            getattr(model, name)(rows)
            getattr(model, name)(rows[:1])


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(NAMES), st.sampled_from(["certified", "none"]), st.data())
def test_changed_parts_are_refused_or_served(
    name: str, guarantee: str, data: st.DataObject
) -> None:
    document, tensors = parts(stored(name, guarantee))
    if data.draw(st.booleans()):
        *way, last = data.draw(st.sampled_from(list(leaves(document["model"]))))
        node = document["model"]
        for step in way:
            node = node[step]
        node[last] = data.draw(st.sampled_from(VALUES))
    else:
        key = data.draw(st.sampled_from(sorted(tensors)))
        tensors[key] = CHANGES[data.draw(st.sampled_from(sorted(CHANGES)))](tensors[key])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            use(loads(rebuilt(document, tensors)))
        except KerneliteError as error:
            assert "\n" not in str(error)  # noqa: PT017 - either outcome is right


def _fewer_classes(document: dict[str, Any], tensors: dict[str, Any]) -> None:
    tensors["head.classes"] = tensors["head.classes"][:-1]


def _two_tolerances(document: dict[str, Any], tensors: dict[str, Any]) -> None:
    tensors["tolerance"] = np.ones(6)


def _a_negative_tolerance(document: dict[str, Any], tensors: dict[str, Any]) -> None:
    tensors["tolerance"] = -np.ones(1)


def _columns(document: dict[str, Any], tensors: dict[str, Any]) -> None:
    document["model"]["expansion"]["centers"]["csr"][1] = 2**63


def _a_wider_part(document: dict[str, Any], tensors: dict[str, Any]) -> None:
    key = max(name for name in tensors if name.endswith("model.expansion.centers"))
    tensors[key] = np.tile(tensors[key], (1, 7))


def _of_a_polynomial(document: dict[str, Any], tensors: dict[str, Any]) -> None:
    kernel = {"class": "PolynomialKernel", "degree": 3, "gamma": 1.0, "coef0": 0.0}
    document["model"]["expansion"]["kernel"] = kernel
    document["model"]["approximation"] = None


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("density wine", _of_a_polynomial),
        ("gpr linnerud sum, three targets", _a_wider_part),
        ("one vs rest generated", _fewer_classes),
        ("calibrated scales sparse", _fewer_classes),
        ("gpr linnerud sum, three targets", _two_tolerances),
        ("density wine", _a_negative_tolerance),
        ("svc words sparse", _columns),
    ],
)
def test_parts_that_do_not_fit_are_refused(name: str, change: Any) -> None:
    document, tensors = parts(stored(name, "certified"))
    change(document, tensors)
    with pytest.raises(FileFormatError):
        loads(rebuilt(document, tensors))


def test_a_gamma_whose_square_overflows_is_served() -> None:
    bump = kl.KernelExpansion([[0.0], [1.0]], [2.0, 1.0], 0.5, gamma=1.0)
    document, tensors = parts(dumps(kl.compile(bump, guarantee="none", on_invalid="ignore")))
    document["model"]["approximation"]["form"]["gamma"] = 1e300
    model = loads(rebuilt(document, tensors))
    with np.errstate(all="ignore"):
        assert model.predict([[5.0]], on_invalid="ignore").shape == (1,)
        assert model.predict(np.array([[5.0]]), on_invalid="ignore").shape == (1,)


def test_many_scores_take_no_memory() -> None:
    document, tensors = parts(stored("calibrated scales sparse", "exact"))
    model = document["model"]
    assert model["parts"]
    model["head"] = {"class": "TransformHead", "n_scores": 2**24, "kind": "transform"}
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match="parts do not reach each score"):
            loads(rebuilt(document, tensors))
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("labels", [["no", "\ud800"], ["\udcff", "yes"]])
def test_half_a_letter_is_no_label(labels: list[str]) -> None:
    rows = np.array([[0.0], [1.0], [2.0], [3.0]])
    svc = SVC(gamma=1.0).fit(rows, ["no", "no", "yes", "yes"])
    document, tensors = parts(dumps(kl.compile(svc, guarantee="exact")))
    texts = document["model"]["head"]["classes"]
    assert texts["texts"] == ["no", "yes"]
    texts["texts"] = labels
    with pytest.raises(FileFormatError, match="is not Unicode text"):
        loads(rebuilt(document, tensors))
    svc = SVC(gamma=1.0).fit(rows, np.array(labels)[[0, 0, 1, 1]])
    with pytest.raises(InputError, match="is not Unicode text"):
        dumps(kl.compile(svc, guarantee="exact"))


@pytest.mark.parametrize("guarantee", ["none", "exact"])
@pytest.mark.parametrize("name", ["svc iris break ties", "density wine"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_huge_numbers_are_refused_or_answered_by_numbers(name: str, guarantee: str) -> None:
    document, tensors = parts(stored(name, guarantee))
    _, rows = fitted(name)
    method = "score_samples" if name.startswith("density") else "decision_function"
    refused = 0
    for key, tensor in tensors.items():
        for huge in (1e308, -1e308):
            if tensor.dtype.kind != "f" or not tensor.size:
                continue
            changed = tensors | {key: np.full_like(tensor, huge)}
            try:
                model = loads(serialize(changed, metadata={"kernelite": json.dumps(document)}))
                answers = getattr(model, method)(rows[:5], on_invalid="ignore")
            except KerneliteError:
                refused += 1
                continue
            assert not np.isnan(answers).any(), key
    assert refused


def test_coefficients_that_overflow_are_refused() -> None:
    with pytest.raises(InputError, match="so large that scores overflow"):
        kl.compile(kl.KernelExpansion([[0.0], [1.0]], [1e308, 1e308], 0.0, gamma=1.0))


@pytest.mark.parametrize("size", [5e-324, 1e-320, 1e-160, 1e160, 1e308])
def test_a_period_of_any_size_has_answers(size: float) -> None:
    """Its slope is 2 / length_scale^2, which is no reason to divide by zero or to overflow."""
    for kernel in (ExpSineSquared(size, 1.0), ExpSineSquared(1.0, size)):
        model = kl.KernelExpansion([[0.0], [1.0]], [2.0, 1.0], 0.5, kernel=kernel)
        rows = np.array([[0.0], [0.3], [1e200]])
        with np.errstate(all="ignore"):
            found = loads(dumps(kl.compile(model, guarantee="exact"))).predict(rows)
        assert np.isfinite(found).all()


def test_length_scales_of_another_width_are_refused_when_loading() -> None:
    kernel = Matern((1.0, 2.0), 0.5)
    bump = kl.KernelExpansion([[0.0, 1.0]], [2.0], 0.5, kernel=kernel)
    document, tensors = parts(dumps(kl.compile(bump, guarantee="exact")))
    product = {"class": "ProductKernel", "kernels": [{"class": "CosineKernel"}, None]}
    for scales in ([1.0, 2.0, 3.0], [1.0] * 9):
        own = document["model"]["expansion"]["kernel"] | {"length_scale": scales}
        for hostile in (own, product | {"kernels": [{"class": "CosineKernel"}, own]}):
            document["model"]["expansion"]["kernel"] = hostile
            with pytest.raises(FileFormatError, match="length scales does not fit rows of 2"):
                loads(rebuilt(document, tensors))
        document["model"]["expansion"]["kernel"] = own


@cache
def heads() -> dict[str, tuple[Any, dict[str, np.ndarray]]]:
    """A head of each class, and its tensors."""
    found: dict[str, tuple[Any, dict[str, np.ndarray]]] = {}
    for name in (*NAMES, "svr diabetes", "oneclass cancer", "pca iris", "gpc cancer"):
        document, tensors = parts(stored(name, "exact"))
        for way in {way[:-1] for way in leaves(document["model"]["head"]) if way[-1] == "class"}:
            node = document["model"]["head"]
            for step in way:
                node = node[step]
            if node["class"].endswith("Head"):
                own = ".".join(map(str, ("head", *way, "")))
                mine = {key: array for key, array in tensors.items() if key.startswith(own)}
                found.setdefault(node["class"], (node, mine))
    return found


@pytest.mark.parametrize("name", ["one vs rest generated", "one vs one scales", "voting soft"])
def test_heads_of_any_kind_in_another(name: str) -> None:
    """A regressor that is asked for votes, a density for probabilities, and so on."""
    assert len(heads()) >= 8
    for kind, (head, own) in heads().items():
        for response in ("decision", "probability", "value"):
            document, tensors = parts(stored(name, "certified"))
            member = document["model"]["head"]["members"][-1]
            member |= {"head": head, "response": response}
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    use(loads(rebuilt(document, tensors | own)))
                except KerneliteError as error:
                    assert "\n" not in str(error), kind  # noqa: PT017 - either outcome is right


@pytest.mark.parametrize("kernel", [RationalQuadratic, Matern, Rbf])
def test_an_infinite_length_scale_is_a_constant(kernel: Any) -> None:
    bump = kl.KernelExpansion([[0.0], [1.0]], [2.0, 1.0], 0.5, kernel=kernel((math.inf,)))
    for guarantee in ("certified", "exact"):
        fast = loads(dumps(kl.compile(bump, guarantee=guarantee)))
        rows = np.array([[0.0], [0.3], [1e200]])
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(fast.predict(rows[:2]), 3.5)
            assert (np.abs(fast.scores(rows) - 3.5) <= fast.score_bound(rows)).all()


def test_texts_take_no_more_room_than_they_may() -> None:
    """A width in a file makes NumPy allocate, whatever texts there are."""
    most = 2**22  # letters of four bytes
    assert text_array({"texts": ["a"], "width": most}, "classes").nbytes == 2**24
    for count, width in ((1, most + 1), (2, most // 2 + 1), (1000, 2**40)):
        with pytest.raises(InputError, match="do not fit the width"):
            text_array({"texts": [""] * count, "width": width}, "classes")
        if width < 2**23:
            with pytest.raises(InputError, match="too long to be stored"):
                texts_of(np.zeros(count, dtype=f"U{width}"), "classes")


def test_each_part_is_tried_out() -> None:
    class Broken(RegressorHead):
        def predict(self, scores: Any) -> Any:
            raise LookupError("no such output")

    whole = compiled("gpr linnerud sum, three targets", "exact")
    assert whole.parts
    _try_out(whole)
    part = replace(whole.parts[-1], model=replace(whole.parts[-1].model, head=Broken(3)))
    with pytest.raises(LookupError, match="no such output"):
        _try_out(replace(whole, parts=(*whole.parts[:-1], part)))


def test_a_guarantee_needs_what_it_rests_on() -> None:
    certified = proven()
    assert certified.approximation is not None
    bare = replace(certified.approximation, certificate=None)
    with pytest.raises(InputError, match="needs a certificate of its form"):
        replace(certified, approximation=bare)
    value = compiled("svr diabetes", "certified")
    for tolerance in (0.0, -1.0, math.nan):
        with pytest.raises(InputError, match="must hold 1 positive numbers"):
            replace(value, tolerance=np.full(1, tolerance))


def test_a_model_is_tried_out_when_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = stored("svr diabetes", "certified")

    def fail(model: kl.CompiledModel) -> None:
        raise LookupError("no such output")

    monkeypatch.setattr(files, "_try_out", fail)
    with pytest.raises(FileFormatError, match=r"do not fit together \(no such output\)"):
        loads(data)


def test_arrays_that_no_writer_makes_are_refused() -> None:
    one, ends = np.ones(1), np.array([0, 1])
    with pytest.raises(InputError, match="2147483648 columns, expected at most"):
        csr_of((one, np.array([0]), ends), [1, 2**31], "centers")
    with pytest.raises(InputError, match="decreases"):
        csr_of((np.ones(2), np.array([0, 1]), np.array([0, 2, 1, 2])), [3, 2], "centers")
    with pytest.raises(InputError, match="neither 0 nor 1"):
        files._array({"dtype": "BOOL", "data": b"\x01\x02", "shape": [2]}, "flags")
    assert files._array({"dtype": "BOOL", "data": b"\x01\x00", "shape": [2]}, "flags")[0]
