"""`.kernelite` files of format 3 load, and answer as they did.

`format_3/` holds such files, and beside each an .npz with rows and what the version that compiled
the model answered. They are never written again: a change of the format is to be met by
an upgrade in `kernelite.store.files`, not by new files.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelite as kl

FOLDER = Path(__file__).parent / "format_3"
FILES = {
    "form": "quadratic form about the mean of X",
    "cubic": "quadratic form about the mean of the support vectors, cubic",
    "exact": "exact",
    "parts": "2 parts, each its own plan",
    "pipeline": "quadratic form about the mean of X",
}
"""Name -> the plan that the file states."""


def opened(name: str) -> tuple[Any, dict[str, np.ndarray]]:
    """The model, and rows with what the earlier version answered."""
    with np.load(FOLDER / f"{name}.npz") as file:
        recorded = {key: file[key] for key in file.files}
    return kl.load(FOLDER / f"{name}.kernelite"), recorded


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """Rows of an array stand for named columns: that is meant here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@pytest.mark.parametrize("name", FILES)
def test_answers_are_those_of_the_version_that_wrote_it(name: str) -> None:
    model, old = opened(name)
    answers = model.predict(old["rows"])
    if name == "parts":  # a regression: both are within the tolerance of the exact value
        assert (np.abs(answers - old["answers"]) <= 2 * model.tolerance).all()
    else:
        assert answers.dtype.kind == old["answers"].dtype.kind
        assert (answers == old["answers"]).all()
    one_by_one = [model.predict(old["rows"][i : i + 1])[0] for i in range(len(answers))]
    if name != "parts":
        assert (np.array(one_by_one) == old["answers"]).all()


@pytest.mark.parametrize("name", FILES)
def test_scores_lie_within_both_bounds(name: str) -> None:
    model, old = opened(name)
    bounds = model.score_bound(old["rows"])
    assert (np.abs(model.scores(old["rows"]) - old["scores"]) <= bounds + old["bounds"]).all()
    # What is counted of rounding may grow; what is left out of a series may not.
    assert (bounds <= 1.01 * old["bounds"] + 1e-9).all()


@pytest.mark.parametrize("name", FILES)
def test_the_plan_is_kept(name: str, tmp_path: Path) -> None:
    model, old = opened(name)
    assert model.plan.chosen.name == FILES[name]
    model.save(tmp_path / "again.kernelite")
    again = kl.load(tmp_path / "again.kernelite")
    assert (again.predict(old["rows"]) == model.predict(old["rows"])).all()
    assert str(again.plan) == str(model.plan)


def test_names_of_columns_are_kept() -> None:
    model, _ = opened("pipeline")
    assert list(model.feature_names_in_) == ["length", "width", "height"]
    assert "predict_proba" in model.offers


def test_forms_about_several_points_are_to_be_compiled_again() -> None:
    with pytest.raises(kl.FileFormatError, match=r"several points.*compile the model again"):
        kl.load(FOLDER / "cells.kernelite")
