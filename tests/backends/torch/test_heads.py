"""Heads on tensors: their formulas against those on arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from kernelite.backends.torch import interchange
from kernelite.backends.torch.heads import TorchHead
from kernelite.backends.torch.tensors import TensorValue
from kernelite.machine.heads import (
    ClassifierHead,
    Head,
    KeptInverse,
    RegressorHead,
    TargetHead,
)
from kernelite.machine.heads.base import ANSWERS
from kernelite.program.criteria import decision_tolerance, predict_criterion
from kernelite.support.errors import UnsupportedModelError
from tests.backends.torch.devices import DEVICE, there
from tests.machine.heads.table import HEADS
from tests.machine.heads.test_base import ranged, scores_and_bounds
from tests.model.export.cases import certified_with, random_rows

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def close(found: torch.Tensor, expected: np.ndarray, what: str) -> None:
    """Equal; real numbers but for their last digits."""
    got = found.cpu().numpy()
    assert got.shape == expected.shape, what
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-12, err_msg=what)
    else:
        np.testing.assert_array_equal(got, expected, err_msg=what)


@pytest.mark.parametrize("name", HEADS)
def test_formulas_give_on_tensors_what_they_give_on_arrays(name: str) -> None:
    head: Any = HEADS[name]
    scores, bounds = scores_and_bounds(head)
    values = TensorValue(there(scores)), TensorValue(there(bounds))
    np.testing.assert_array_equal(
        head.decided(*values).tensor.cpu(), head.decided(scores, bounds), err_msg=name
    )
    if head.proves_labels:
        close(head.margin(values[0]).tensor, head.margin(scores), "margin")
    for method in ranged(head):
        close(head.answer(method, values[0]).tensor, head.answer(method, scores), method)
        ends = zip(head.answer_range(method, *values), head.answer_range(method, scores, bounds))
        for got, expected in ends:
            close(got.tensor, expected, f"ends of {method}")


def labels_of(lowered: Any, head: Head, scores: np.ndarray) -> np.ndarray:
    """What a lowered head answers, text too."""
    labels = lowered.labels(there(scores)).cpu().numpy()
    if head.kind == "classifier" and not lowered.has_numbers:
        labels = np.asarray(head.classes)[labels]
    return labels


@pytest.mark.parametrize("name", HEADS)
def test_lowered_heads_answer_and_settle_as_heads_do(name: str) -> None:
    head: Any = HEADS[name]
    scores, bounds = scores_and_bounds(head)
    tolerance = None if head.proves_labels else np.full(head.n_values, 0.05)
    with np.errstate(all="ignore"):
        expected = head.predict(scores)
        settled = predict_criterion(head, tolerance)(scores, bounds)
    lowered = TorchHead(head, tolerance).to(DEVICE)
    np.testing.assert_array_equal(lowered.settled(there(scores), there(bounds)).cpu(), settled)
    labels = labels_of(lowered, head, scores)
    if labels.dtype.kind == "f":
        np.testing.assert_allclose(labels, expected, rtol=1e-11, atol=1e-12)
    else:
        np.testing.assert_array_equal(labels, expected)


@pytest.mark.parametrize("name", [name for name in HEADS if HEADS[name].proves_labels])
def test_ties_and_scores_that_are_no_numbers(name: str) -> None:
    head: Any = HEADS[name]
    rng = np.random.default_rng(11)
    scores = rng.integers(-3, 4, (400, head.n_scores)) / 2.0
    bounds = rng.integers(0, 4, scores.shape) / 2.0
    if name == "largest share":  # a sum of zero has no shares
        scores, bounds = np.abs(scores) + 0.5, bounds / 10.0
    lowered = TorchHead(head, None).to(DEVICE)
    np.testing.assert_array_equal(labels_of(lowered, head, scores), head.predict(scores))
    settled = lowered.settled(there(scores), there(bounds)).cpu().numpy()
    assert not (settled & ~head.decided(scores, bounds)).any()
    for bad in (np.nan, np.inf):
        assert not lowered.settled(there(scores), there(np.full_like(bounds, bad))).any()
    nothing = there(np.full_like(scores, np.nan))
    assert len(lowered.labels(nothing)) == len(scores)  # no place beyond the classes


@pytest.mark.parametrize("name", HEADS)
def test_every_method_answers_where_the_rows_are(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast, rows = certified_with(HEADS[name]), random_rows(m=150)
    exact = fast.expansion.scores(rows)
    if "decision_function" in fast.offers:
        columns = np.atleast_2d(fast.head.decision(exact).T).shape[0]
        fast = replace(fast, score_tolerance=np.full(columns, 1e-2))
    monkeypatch.setattr(interchange, "CPU", -1)  # as if host memory were a GPU's
    for method in sorted(fast.offers & ANSWERS.keys()):
        if method in fast.head.needs_posterior:
            continue
        expected, answer = fast.head.answer(method, exact), getattr(fast, method)
        if expected.dtype.kind not in "biuf":
            with pytest.raises(UnsupportedModelError, match="labels of this model are not numbers"):
                answer(there(rows))
            continue
        found = answer(there(rows))
        found = torch.cat(found, dim=1) if isinstance(found, list) else found
        assert isinstance(found, torch.Tensor)
        got = found.cpu().numpy()
        assert got.shape == expected.shape
        if expected.dtype.kind != "f":
            np.testing.assert_array_equal(got, expected)
            continue
        limit: Any = 1e-3 if fast.tolerance is None else fast.tolerance
        if method in ("decision_function", "score_samples") and fast.head.proves_labels:
            limit = decision_tolerance(fast.head, fast.tolerance, fast.score_tolerance)
        assert (np.abs(got - expected) <= np.max(limit) * (1.0 + 1e-9)).all(), method


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_probabilities_are_coupled_as_on_arrays(classes: int) -> None:
    rng = np.random.default_rng(classes)
    count = classes * (classes - 1) // 2
    sigmoids = rng.normal(size=(2, count)) - np.array([[2.0], [0.0]])
    head = ClassifierHead(
        np.arange(classes), platt_a=sigmoids[0], platt_b=sigmoids[1], couple_two_classes=True
    )
    scores = rng.normal(size=(200, count)) * 3.0
    found = TorchHead(head, None).probabilities(there(scores)).cpu().numpy()
    np.testing.assert_allclose(found, head.probabilities(scores), atol=1e-9)


def test_what_has_no_formula_is_refused_in_one_sentence() -> None:
    kept = TargetHead(RegressorHead(), KeptInverse(object()))
    with pytest.raises(UnsupportedModelError, match=r"TargetHead\) is not lowered to torch"):
        TorchHead(kept, None)
