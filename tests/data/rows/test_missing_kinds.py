"""Missing values of other containers: as in scikit-learn, told or refused, never silent."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC

import kernelite as kl

RNG = np.random.default_rng(0)
CITY = RNG.choice(np.array(["Oslo", "Rome", "Bari", np.nan], dtype=object), 300)
FRAME = pd.DataFrame({"city": CITY, "size": RNG.normal(size=300)})
LABELS = (FRAME["size"] + (FRAME["city"] == "Oslo")) > 0.3
ENCODE = OneHotEncoder(handle_unknown="ignore")
COLUMN_STEPS = {
    "imputed": make_pipeline(SimpleImputer(strategy="most_frequent"), ENCODE),
    "encoded": ENCODE,
}


@cache
def machine(steps: str) -> tuple[Any, kl.CompiledModel]:
    columns = make_column_transformer((COLUMN_STEPS[steps], ["city"]), remainder="passthrough")
    fitted = make_pipeline(columns, SVC()).fit(FRAME, LABELS)
    return fitted, kl.compile(fitted, FRAME)


@pytest.mark.parametrize("steps", COLUMN_STEPS)
@pytest.mark.parametrize(
    "rows",
    [FRAME, FRAME.astype({"city": "category"}), pa.Table.from_pandas(FRAME)],
    ids=["pandas", "categories", "arrow"],
)
def test_missing_values_that_the_model_knows(steps: str, rows: Any) -> None:
    fitted, fast = machine(steps)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (fast.predict(rows) == fitted.predict(FRAME)).all()


@pytest.mark.parametrize("steps", COLUMN_STEPS)
def test_nulls_of_polars_are_scikit_learns_and_told(steps: str) -> None:
    fitted, fast = machine(steps)
    rows = pl.from_pandas(FRAME)
    with pytest.warns(UserWarning, match="column `city` has missing values as None.* on NaN"):
        found = fast.predict(rows)
    assert (found == fitted.predict(rows)).all()
    assert (found != fitted.predict(FRAME)).any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fast.predict(rows.drop_nulls())  # what no row has is not told


@pytest.mark.parametrize("converted", [True, False])
def test_na_is_refused_where_scikit_learn_raises(converted: bool) -> None:
    fitted, fast = machine("imputed")
    texts = FRAME.astype({"city": pd.StringDtype("python")})
    rows = FRAME.convert_dtypes() if converted else texts
    with pytest.raises(TypeError):
        fitted.predict(rows)
    with pytest.raises(kl.InputError, match="column `city` holds pandas' NA"):
        fast.predict(rows)
    cured = rows.assign(city=rows["city"].astype(object).fillna(float("nan")))
    assert (fast.predict(cured) == fitted.predict(FRAME)).all()


def test_na_is_an_unknown_category_where_it_is_one_in_scikit_learn() -> None:
    fitted, fast = machine("encoded")
    rows = FRAME.astype({"city": pd.StringDtype("python")})
    with pytest.warns(UserWarning, match="missing values as NA"):
        assert (fast.predict(rows) == fitted.predict(rows)).all()
