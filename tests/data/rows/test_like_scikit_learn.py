"""Rows in every container, asked of models and of what they were compiled from.

Where scikit-learn answers, the labels are the same; where it raises, so do we, by an error of the
same class. What we answer all the same is named in `BEYOND`, what we refuse in `REFUSED`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from kernelite.support.errors import InputError
from tests.models import compiled, fitted

METHODS = ("predict", "decision_function", "predict_proba", "score_samples", "transform")
SUBJECTS = (
    "svc binary",
    "svc iris ovr",
    "svc binary probability",
    "nusvc wine ovo",
    "svr diabetes",
    "oneclass cancer",
    "ridge diabetes",
    "gpr diabetes",
    "gpc iris one vs rest",
    "density iris",
    "pca iris",
    "nystroem logistic",
    "pipeline imputer",
    "calibrated sigmoid",
    "bagging digits",
)


def with_entry(X: np.ndarray, value: Any, dtype: Any = float) -> np.ndarray:
    array = X.astype(dtype)
    array[1, 0] = value
    return array


def read_only(X: np.ndarray) -> np.ndarray:
    array = X.copy()
    array.flags.writeable = False
    return array


def mapped(X: np.ndarray) -> np.ndarray:
    return np.memmap("rows.bin", dtype=float, mode="w+", shape=X.shape).__iadd__(X)


def masked(X: np.ndarray) -> np.ma.MaskedArray[Any, Any]:
    array = np.ma.masked_array(X.copy())
    array[0, 0] = np.ma.masked
    return array


def absent(X: np.ndarray) -> pd.DataFrame:
    frame = pd.DataFrame(X).astype("Float64")
    frame.iloc[1, 0] = pd.NA
    return frame


CONTAINERS: dict[str, Callable[[np.ndarray], Any]] = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "float16": lambda X: X.clip(-6e4, 6e4).astype(np.float16),
    "int64": lambda X: np.round(X * 3).astype(np.int64),
    "uint8": lambda X: np.round(np.abs(X) * 3).clip(0, 200).astype(np.uint8),
    "bool": lambda X: X.mean(axis=0) < X,
    "big endian": lambda X: X.astype(">f8"),
    "object": lambda X: X.astype(object),
    "list": lambda X: X.tolist(),
    "list of arrays": list,
    "tuple": lambda X: tuple(map(tuple, X.tolist())),
    "one row": lambda X: X[:1],
    "one row, a list": lambda X: X[:1].tolist(),
    "fortran": np.asfortranarray,
    "read-only": read_only,
    "memmap": mapped,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X: X[::-1],
    "every other": lambda X: X[::2],
    "pandas": pd.DataFrame,
    "pandas, float32": lambda X: pd.DataFrame(X).astype(np.float32),
    "pandas, Float64": lambda X: pd.DataFrame(X).astype("Float64"),
    "pandas, objects": lambda X: pd.DataFrame(X).astype(object),
    "pandas, mixed": lambda X: pd.DataFrame(X).astype({0: np.float32}),
    "csr": sparse.csr_array,
    "csc": sparse.csc_matrix,
    "coo": sparse.coo_matrix,
    "csr, NaN": lambda X: sparse.csr_array(with_entry(X, np.nan)),
    "csr, too wide": lambda X: sparse.csr_array(np.hstack([X, X])),
    "no rows": lambda X: X[:0],
    "no rows, sparse": lambda X: sparse.csr_array((0, X.shape[1])),
    "matrix": np.asmatrix,
    "text": lambda X: X.astype(str),
    "one dimension": lambda X: X[0],
    "one dimension, a list": lambda X: X[0].tolist(),
    "none": lambda X: np.float64(3.0),
    "three dimensions": lambda X: X[None],
    "an empty list": lambda X: [],
    "no columns": lambda X: np.empty((3, 0)),
    "too wide": lambda X: np.hstack([X, X[:, :1]]),
    "too narrow": lambda X: X[:, :-1],
    "one row, too wide": lambda X: np.hstack([X, X[:, :1]])[:1],
    "NaN": lambda X: with_entry(X, np.nan),
    "NaN in one row": lambda X: with_entry(X, np.nan)[1:2],
    "NaN, float32": lambda X: with_entry(X, np.nan, np.float32),
    "infinity": lambda X: with_entry(X, -np.inf),
    "infinity in one row": lambda X: with_entry(X, np.inf)[1:2],
    "pandas, NA": absent,
    "a word": lambda X: with_entry(X, "x", object),
    "a word among text": lambda X: with_entry(X.astype("U30"), "x", "U30"),
    "None among objects": lambda X: with_entry(X, None, object),
    "a dict among objects": lambda X: with_entry(X, {}, object),
    "complex": lambda X: X.astype(complex),
    "a series": lambda X: pd.Series(X[:, 0]),
    "ragged": lambda X: [X[0].tolist(), X[1, 1:].tolist()],
    "records": lambda X: np.zeros(5, dtype=[("a", float)]),
    "None": lambda X: None,
    "a path": lambda X: "rows.csv",
    "a dict": lambda X: {"a": [1, 2]},
    "a generator": iter,
    "masked": masked,
    "dates": lambda X: np.zeros(X.shape, "M8[s]"),
}
BEYOND = {"csr", "csc", "coo", "csr, NaN", "no rows", "no rows, sparse", "matrix", "text"}
REFUSED = {"masked", "dates"}


@cache
def rows_of(name: str) -> np.ndarray:
    return np.asarray(fitted(name)[1], dtype=np.float64)[:40]


def asked(model: Any, method: str, rows: Any) -> tuple[Any, Exception | None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(model, method)(rows), None
    except Exception as error:  # whatever it is, it is compared
        return None, error


@pytest.mark.parametrize("container", CONTAINERS)
def test_answers_and_errors_are_scikit_learns(
    container: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in SUBJECTS:
        model, fast = fitted(name)[0], compiled(name)
        for method in METHODS:
            if not hasattr(model, method):
                continue
            want, refused = asked(model, method, CONTAINERS[container](rows_of(name)))
            got, error = asked(fast, method, CONTAINERS[container](rows_of(name)))
            where = f"{name}, {method}: {refused!r}, {error!r}"
            if error is not None:
                assert isinstance(error, InputError), where
                # Of sparse rows we refuse what lies within, and scikit-learn perhaps all such rows.
                assert refused is None or alike(error, refused) or container.startswith("csr"), (
                    where
                )
                assert refused is not None or container in REFUSED, where
            elif refused is not None:
                assert container in BEYOND, where
            elif method == "predict" and fast.head.proves_labels:
                np.testing.assert_array_equal(got, want, err_msg=where)
                assert np.asarray(got).dtype == np.asarray(want).dtype, where
            else:
                assert np.shape(got) == np.shape(want), where


def alike(error: Exception, refused: Exception) -> bool:
    """Whether who catches the one by its class catches the other; NumPy has finer classes."""
    kind = TypeError if isinstance(refused, TypeError) else type(refused)
    return isinstance(error, kind)
