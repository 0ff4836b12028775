"""Compiled models over xarray's arrays, in memory and lazy."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.svm import SVC

import kernelite as kl

xarray = pytest.importorskip("xarray", reason="xarray is not installed: extra `xarray`")

from kernelite.xarray import predict  # noqa: E402

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(300, 3)), columns=["red", "green", "blue"])
LABELS = X.to_numpy().argmax(axis=1)
WORDS = np.array(["fire", "grass", "sea"])


@cache
def machine(text: bool = False) -> tuple[Any, kl.CompiledModel]:
    fitted = SVC(gamma=0.3, probability=not text).fit(X, WORDS[LABELS] if text else LABELS)
    return fitted, kl.compile(fitted, X)


def image() -> Any:
    values = np.random.default_rng(1).normal(size=(3, 20, 30))
    values[1, 4, 7] = np.nan
    place = {"y": np.arange(20.0), "x": np.arange(30.0)}
    return xarray.DataArray(values, dims=("band", "y", "x"), coords=place)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("lazy", [False, True])
def test_labels(text: bool, lazy: bool) -> None:
    fitted, fast = machine(text)
    data = image().chunk({"band": 1, "y": 7, "x": 30}) if lazy else image()
    found = predict(fast, data)
    assert found.dims == ("y", "x")
    assert (found.chunks is not None) == lazy
    assert (found.x == np.arange(30.0)).all()
    rows = pd.DataFrame(image().values.reshape(3, -1).T, columns=X.columns)
    there = rows.notna().all(axis=1).to_numpy()
    answers = found.values.ravel()
    assert pd.isna(answers[~there]).all()
    assert there.sum() == 599
    assert (answers[there] == fitted.predict(rows[there])).all()


def test_probabilities_have_names() -> None:
    _, fast = machine()
    found = predict(fast, image().transpose("y", "x", "band"), output="probability")
    assert found.dims == ("y", "x", "class")
    assert found["class"].values.tolist() == [f"probability_{n}" for n in range(3)]
    assert np.nansum(found.values) == pytest.approx(599)


def test_variables_are_found_by_name() -> None:
    _, fast = machine()
    bands = dict(zip(("red", "green", "blue"), image()))
    mixed = xarray.Dataset({name: bands[name] for name in ("blue", "red", "green")})
    assert predict(fast, mixed).equals(predict(fast, image()))
    with pytest.raises(kl.InputError, match="lacks the variables 'blue'"):
        predict(fast, mixed.drop_vars("blue"))


def test_what_is_wrong_is_said() -> None:
    _, fast = machine()
    with pytest.raises(kl.InputError, match=r"no dimension `band`.* are y, x, channel"):
        predict(fast, image().transpose("y", "x", "band").rename(band="channel"))
    with pytest.raises(kl.InputError, match="2 features along `band`"):
        predict(fast, image()[:2])
    with pytest.raises(kl.InputError, match="must be an xarray"):
        predict(fast, np.zeros((3, 2)))
    with pytest.raises(kl.InputError, match="real numbers, got complex128"):
        predict(fast, image() * 1j)
