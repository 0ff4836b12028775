"""A compiled model has the methods its source had, and no others."""

from __future__ import annotations

import pytest

import kernelite
from kernelite.model import CompiledModel
from tests.models import MODELS, fitted

METHODS = (
    "predict",
    "decision_function",
    "predict_proba",
    "predict_log_proba",
    "score_samples",
    "transform",
)


@pytest.mark.parametrize("name", MODELS)
def test_methods_are_the_sources(name):
    model, X = fitted(name)
    compiled = kernelite.compile(model, X, guarantee="exact")
    for method in METHODS:
        if name.startswith("voting values") and method == "transform":
            continue  # a mean of regressors is folded: what each says alone is gone
        if name.startswith("gpc iris one vs one") and method == "predict_proba":
            continue  # scikit-learn has the method, which always raises
        assert hasattr(compiled, method) == hasattr(model, method), method
        if hasattr(compiled, method) and not compiled.preparation.keeps:  # which refuse no rows
            answers = getattr(compiled, method)(X[:0])
            for answer in answers if isinstance(answers, list) else [answers]:
                assert len(answer) == 0, method


def test_the_message_says_what_there_is():
    compiled = kernelite.compile(fitted("svr diabetes")[0], guarantee="exact")
    with pytest.raises(AttributeError, match=r"has no `decision_function`.* it has: predict"):
        compiled.decision_function([[0.0] * 10])


def test_the_class_documents_all_methods():
    for method in METHODS:
        assert getattr(CompiledModel, method).__doc__
