"""Small tables and models that the tests of columnar files share."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, feather, parquet
from sklearn.datasets import load_iris
from sklearn.svm import SVC, SVR

import kernelite as kl

NAMES = ["sepal length", "sepal width", "petal length", "petal width"]


@cache
def rows() -> np.ndarray:
    return load_iris().data


@cache
def classifier(names: bool = True, text: bool = False) -> kl.CompiledModel:
    """Iris, compiled; with feature names, and with text for labels."""
    import pandas

    X, y = load_iris(return_X_y=True)
    labels = np.array(["setosa", "versicolor", "virginica"])[y] if text else y
    frame = pandas.DataFrame(X, columns=NAMES) if names else X
    return kl.compile(SVC(gamma=0.02, C=10).fit(frame, labels), frame)


@cache
def regressor() -> kl.CompiledModel:
    X, y = load_iris(return_X_y=True)
    return kl.compile(SVR(gamma=0.02, C=10).fit(X, y * 1.5), X)


def table(start: int = 0, stop: int = 150, **more: object) -> pa.Table:
    """Rows of iris behind an id and with a remark after them."""
    X = rows()[start:stop]
    columns = {name: X[:, i] for i, name in enumerate(NAMES)}
    ids = np.arange(start, min(stop, 150)) + 1000
    remark = [f"flower {i}" for i in ids]
    return pa.table({"id": ids, **columns, "remark": remark, **more})


def write(content: pa.Table, path: Path, *, chunk: int = 40) -> Path:
    """Write by the name's ending, in row groups or batches of `chunk` rows."""
    if path.suffix == ".parquet":
        parquet.write_table(content, path, row_group_size=chunk)
    elif path.suffix in (".feather", ".arrow"):
        feather.write_feather(content, path, chunksize=chunk, compression="uncompressed")
    else:
        csv.write_csv(content, path)
    return path


def read(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return parquet.read_table(path)
    if path.suffix in (".feather", ".arrow"):
        return feather.read_table(path)
    return csv.read_csv(path)
