"""Every model of the shared table is explained within its bounds, or refused by a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelite.explain.shapley import shap_values
from kernelite.support.errors import InputError, UnsupportedModelError
from tests.models import MODELS, compiled, fitted

REFUSED = (InputError, UnsupportedModelError)


def some(rows: Any, part: slice) -> Any:
    return rows.iloc[part] if hasattr(rows, "iloc") else rows[part]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_shapley_values_add_up_to_scores(name: str) -> None:
    _, rows = fitted(name)
    fast, x = compiled(name, "exact"), some(rows, slice(0, 1))
    try:
        found = shap_values(fast, x, some(rows, slice(4, 7)), output="scores")
    except UnsupportedModelError as error:
        assert str(error).endswith(".")  # noqa: PT017
        return
    total = found.base_values + found.values.sum(axis=1)
    slack = found.base_bounds + found.bounds.sum(axis=1)
    slack = slack + np.asarray(fast.score_bound(x)).reshape(total.shape)
    off = np.abs(total - np.asarray(fast.scores(x)).reshape(total.shape))
    assert (off <= 1.0001 * slack + 1e-300).all()
    assert slack.max() < 1e-4 * (1.0 + np.abs(total).max())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_gradients_and_radii_are_numbers(name: str) -> None:
    _, rows = fitted(name)
    fast, x = compiled(name, "exact"), some(rows, slice(0, 1))
    for of in ("score", "std"):
        try:
            found, bounds = fast.gradient(x, of=of, return_bound=True)
        except REFUSED as error:
            assert str(error).endswith(".")  # noqa: PT017
            continue
        assert np.isfinite(found).all()
        assert (bounds >= 0.0).all()
        assert np.allclose(fast.gradient(x, of=of), found)
    try:
        radius = fast.radius(x)
    except REFUSED as error:
        assert str(error).endswith(".")  # noqa: PT017
        return
    assert 0.0 <= radius[0] < np.inf
