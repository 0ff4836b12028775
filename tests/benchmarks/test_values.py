"""The board of values: answers are verified, and a wrong one is said."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from benchmarks.values import measure as measuring
from benchmarks.values.cases import CASES, Case, make
from benchmarks.values.command import main
from benchmarks.values.page import page, summary, table
from benchmarks.values.peers import ELSEWHERE, gpytorch_elsewhere


def small(rows: int) -> Any:
    """One case that takes no time."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = KernelRidge(kernel="rbf", gamma=0.2).fit(X, np.sin(X[:, 0]))
    yield Case("KernelRidge, small", model, "predict", X, np.resize(X, (rows, 3)), 20.0, 5.0)


def test_figures_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CASES, "ridge", small)
    given = ["--groups", "ridge", "--quick", "--processor", "--rows", "300"]
    assert main([*given, "--out", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "values.json").read_text(encoding="utf-8"))
    (entry,) = document["content"]
    assert entry["name"] == "KernelRidge, small"
    assert entry["batch"]["scikit-learn"] > 0
    assert entry["one_row"]["kernelite"] > 0
    assert "KernelRidge, small" in page(document)
    assert len(table([entry])[0]) == 9
    assert "Geometric mean of 1 answers" in summary([entry])


def test_cases_are_found_by_a_part_of_their_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CASES, "ridge", small)
    assert [case.name for case in make(100, ["ridge"], "SMALL")] == ["KernelRidge, small"]
    assert not list(make(100, ["ridge"], "large"))


def test_a_wrong_answer_is_refused() -> None:
    (case,) = small(100)

    class Wrong:
        head = type("Head", (), {"kind": "regressor"})
        tolerance, score_tolerance = np.array([1e-3]), None

        def predict(self, rows: np.ndarray) -> np.ndarray:
            return case.model.predict(rows) + 0.01

    with pytest.raises(measuring.Wrong, match="beyond what is promised"):
        measuring.verify(case, Wrong())


def test_models_that_nothing_was_asked_of_have_a_sentence_of_their_own() -> None:
    entry = {
        "name": "one",
        "method": "predict",
        "batch": {"scikit-learn": 8.0, "kernelite": 2.0},
        "one_row": {"scikit-learn": 90.0, "kernelite": 10.0},
    }
    said = summary(
        [entry, entry | {"others": True, "batch": {"scikit-learn": 6.0, "kernelite": 2.0}}]
    )
    assert "1 answers: 4 times in batches (worst 4) and 9 times for one row" in said
    assert "1 models that nothing was asked of: 3 times in batches" in said


def test_gpytorch_in_another_python_is_left_out_where_none_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(ELSEWHERE, raising=False)
    (case,) = small(10)
    assert gpytorch_elsewhere(case) is None
    monkeypatch.setenv(ELSEWHERE, "python")
    assert gpytorch_elsewhere(case) is None  # no Gaussian process
