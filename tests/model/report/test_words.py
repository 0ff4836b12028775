"""Words of a report."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVC

import kernelite as kl
from kernelite.model.report import words
from kernelite.model.report.measure import measure
from tests.model.export.cases import CASES, FEATURES


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("certified, three", "Every label is proven"),
        ("certified, outputs", "within 0.001 of"),
        ("calibrated, three", "Statistical"),
        ("form, three", "Nothing is proven"),
        ("exact, three", "This is the exact model"),
    ],
)
def test_the_promise_fits_the_guarantee(name: str, says: str) -> None:
    model = CASES[name]
    assert says in words.promise(model)
    assert model.plan.chosen.name in words.plan_words(model)


@pytest.mark.parametrize("name", ["certified, three", "form, outputs", "exact, three"])
def test_every_number_says_how_it_was_measured(name: str) -> None:
    model = CASES[name]
    measured = measure(model, np.random.default_rng(0).normal(size=(30, FEATURES)))
    facts = words.facts(model, measured)
    assert all(fact.value and fact.how for fact in facts)
    assert sum(int(f.value) for f in facts if f.name.startswith("decided by")) == 30
    assert words.headline(model, measured)
    names = dict(words.model_facts(model))
    assert names["features"] == str(FEATURES)
    assert ("classes" in names) == (model.head.kind == "classifier")


def test_an_exact_plan_is_not_compared_with_itself() -> None:
    rows = np.random.default_rng(0).normal(size=(60, 3))
    model = kl.compile(SVC(kernel="sigmoid").fit(rows, rows[:, 0] > 0), rows)
    text = words.plan_words(model)
    assert text.startswith(
        "The compiler chose “summing all 23 support vectors”: this kernel has no form. It"
    )
    assert "exact model" not in text
    tiles = words.headline(model, measure(model, rows))
    assert not [meaning for _, meaning, _ in tiles if "faster" in meaning]
    assert ("support vectors", f"{model.origin.n_centers}, kept") in words.model_facts(model)
