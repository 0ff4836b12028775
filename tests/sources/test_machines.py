"""Every kernel machine of the table, compiled, against its own library's answers."""

from __future__ import annotations

import numpy as np
import pytest

import kernelite
from kernelite.store.files import dumps, loads
from kernelite.support.errors import UnsupportedModelError
from tests.answers import answers, deviation, is_label
from tests.models import MACHINES, MODELS, compiled, fitted, library_answers

EXACT = 1e-8


def test_the_table_is_large_enough():
    assert len(MODELS) >= 60


@pytest.mark.parametrize("name", MACHINES)
def test_exact_answers_are_the_librarys(name):
    model, X = fitted(name)
    exact = compiled(name, "exact")
    for method, theirs in library_answers(name).items():
        ours = getattr(exact, method)(X)
        assert ours.dtype == theirs.dtype
        if is_label(model, method):
            np.testing.assert_array_equal(ours, theirs)
        else:
            assert deviation(ours, theirs) < EXACT


@pytest.mark.parametrize("name", MACHINES)
def test_certified_answers_are_within_the_tolerance(name):
    model, X = fitted(name)
    fast = compiled(name)
    for method, theirs in library_answers(name).items():
        ours = getattr(fast, method)(X)
        if is_label(model, method):
            np.testing.assert_array_equal(ours, theirs)
        elif method == "predict_proba":
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-3 + EXACT)
        else:
            assert fast.tolerance is not None
            gap = np.abs(ours - theirs).reshape(len(ours), -1).max(axis=0)
            assert (gap <= fast.tolerance + EXACT * np.abs(theirs).max()).all()


@pytest.mark.parametrize("name", [name for name in MACHINES if " one vs " not in name])
def test_forms_alone_answer_too(name):
    _model, X = fitted(name)
    form = compiled(name, "none")
    mine = dict(answers(form, X))
    if form.expansion is not None:  # a kernel without a form: exact under every guarantee
        assert not form.expansion.has_series
    theirs = library_answers(name)
    # Probabilities of a Gaussian process need its training rows.
    assert mine.keys() == theirs.keys() - ({"predict_proba"} if name.startswith("gpc") else set())
    for method, answer in mine.items():
        assert answer.shape == theirs[method].shape


@pytest.mark.parametrize("name", [name for name in MACHINES if " one vs " in name])
def test_labels_that_need_variances_need_training_rows(name):
    with pytest.raises(UnsupportedModelError, match="depend on its variance"):
        kernelite.compile(fitted(name)[0], guarantee="none")


@pytest.mark.parametrize("name", [name for name in MACHINES if "generated" not in name])
@pytest.mark.parametrize("guarantee", ["certified", "none"])
def test_files_hold_every_machine(name, guarantee):
    _, X = fitted(name)
    if guarantee == "none" and " one vs " in name:
        guarantee = "exact"
    fast = compiled(name, guarantee)
    again = loads(dumps(fast))
    for method, mine in answers(fast, X):
        np.testing.assert_array_equal(getattr(again, method)(X), mine)
