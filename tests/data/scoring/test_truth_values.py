"""`True` and `False` in CSV, in any case, for models that were fitted on truth values."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import kernelite as kl
from kernelite.data.tables.data import read_data
from kernelite.support.errors import FileFormatError

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"flag": RNG.random(300) < 0.5, "size": RNG.normal(size=300)})
LABELS = np.where(FRAME["size"] + FRAME["flag"] > 0.3, "up", "down")
MODELS = {
    "plain": SVC(),
    "scaled": make_pipeline(StandardScaler(), SVC()),
    "encoded": make_pipeline(
        make_column_transformer((OneHotEncoder(), ["flag"]), remainder="passthrough"), SVC()
    ),
}


@cache
def machine(name: str) -> tuple[Any, kl.CompiledModel]:
    fitted = MODELS[name].fit(FRAME, LABELS)
    return fitted, kl.compile(fitted, FRAME)


def written(path: Path, true: str, false: str) -> Path:
    FRAME.assign(flag=np.where(FRAME["flag"], true, false)).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("words", ["True False", "true false", "TRUE FALSE"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("lenient", [False, True])
def test_files(tmp_path: Path, name: str, words: str, lenient: bool) -> None:
    fitted, fast = machine(name)
    rows, out = written(tmp_path / "rows.csv", *words.split()), tmp_path / "out.csv"
    kl.predict_files(fast, rows, out, on_bad_row="skip" if lenient else "stop")
    with out.open() as file:
        assert [row[0] for row in csv.reader(file)][1:] == list(fitted.predict(FRAME))


def test_without_columns_as_streams(tmp_path: Path) -> None:
    """The reader of `kernelite check` and of samples, which needs no pyarrow."""
    found = read_data(written(tmp_path / "rows.csv", " True", "false "))
    assert (np.asarray(found.rows) == FRAME.to_numpy(dtype=float)).all()
    (tmp_path / "none.csv").write_text("True,1.5\nFALSE,2\n")  # no header
    bare = read_data(tmp_path / "none.csv")
    assert np.asarray(bare.rows).tolist() == [[1.0, 1.5], [0.0, 2.0]]


def test_a_cell_that_is_neither_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("flag,size\nTrue,1\nmaybe,2\n")
    with pytest.raises(FileFormatError, match="`maybe` is not"):
        kl.predict_files(machine("plain")[1], tmp_path / "rows.csv", tmp_path / "out.csv")
