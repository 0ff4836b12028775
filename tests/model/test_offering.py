"""A compiled model has the methods its source had, and no others."""

from __future__ import annotations

import pytest

from kernelite.model import CompiledModel
from tests.models import MODELS, compiled, fitted

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
    (model, X), exact = fitted(name), compiled(name, "exact")
    for method in METHODS:
        if name.startswith("voting values") and method == "transform":
            continue  # a mean of regressors is folded: what each says alone is gone
        if name.startswith("gpc iris one vs one") and method == "predict_proba":
            continue  # scikit-learn has the method, which always raises
        assert hasattr(exact, method) == hasattr(model, method), method
        if hasattr(exact, method) and not exact.preparation.keeps:  # which refuse no rows
            answers = getattr(exact, method)(X[:0])
            for answer in answers if isinstance(answers, list) else [answers]:
                assert len(answer) == 0, method


def test_the_message_says_what_there_is():
    exact = compiled("svr diabetes", "exact")
    with pytest.raises(AttributeError, match=r"has no `decision_function`.* it has: predict"):
        exact.decision_function([[0.0] * 10])


def test_the_class_documents_all_methods():
    for method in METHODS:
        assert getattr(CompiledModel, method).__doc__
