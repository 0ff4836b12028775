"""Data frames of any library: their column names, and their values as an array.

In: a pandas, polars, pyarrow, modin, ... table. Out: names (None where they are not all strings)
and values. pandas needs nothing else; the others are read through narwhals (extra `frames`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.support.errors import InputError, InputTypeError, optional

__all__ = [
    "as_numpy",
    "check_names",
    "check_single",
    "column_names",
    "first_names",
    "frame_values",
    "is_frame",
    "is_pandas",
    "narwhals_frame",
]


FRAME_ATTRIBUTES = ("__dataframe__", "__arrow_c_stream__", "column_names", "collect")


def is_frame(X: object) -> bool:
    """Whether `X` is a table with named columns (no library is imported to see that).

    Examples
    --------
    >>> is_frame(np.zeros((2, 2))), is_frame([[1.0]])
    (False, False)
    """
    if isinstance(X, np.ndarray | list | tuple):
        return False
    kind = type(X)
    return any(hasattr(kind, mark) for mark in FRAME_ATTRIBUTES) and not hasattr(kind, "nnz")


def column_names(X: Any, name: str = "X") -> list[str] | None:
    """The names of a frame's columns; None where none is a string, as scikit-learn sees it.

    Parameters
    ----------
    X : data frame
    name : str
        How messages call the argument.

    Examples
    --------
    >>> import pandas
    >>> column_names(pandas.DataFrame({"a": [1.0]})), column_names(pandas.DataFrame([[1.0]]))
    (['a'], None)
    """
    if getattr(X, "ndim", 2) != 2:  # a series, which is a column or a row
        raise InputError(
            f"`{name}` must have two dimensions, got a {type(X).__name__}; one row of a frame is "
            "`frame.iloc[[0]]`."
        )
    # narwhals takes longer to wrap a frame of one row than such a row takes to predict.
    known = is_pandas(X) or _library(X) == "polars"
    eager = known and not hasattr(type(X), "collect")
    names = list(X.columns if eager else narwhals_frame(X, name).columns)
    strings = [isinstance(column, str) for column in names]
    if not any(strings):
        return None
    if not all(strings):
        raise InputError(
            f"`{name}` has column names that are strings and others that are not; make all of them "
            "strings, e.g. `X.columns = X.columns.astype(str)`."
        )
    check_single(names, names)
    return names


def frame_values(X: Any, name: str = "X", *, checked: bool = False) -> NDArray[Any]:
    """The values of a frame, shape (m, d), of whatever dtype holds them.

    Parameters
    ----------
    X : data frame
    name : str
        How messages call the argument.
    checked : bool
        Whether its names are known to be good: `check_names` looked at them.

    Examples
    --------
    >>> import pandas
    >>> frame_values(pandas.DataFrame({"a": [1.0], "b": [2]}))
    array([[1., 2.]])
    """
    if not checked:
        column_names(X, name)  # refuses names that are there twice
    if is_pandas(X):
        return np.asarray(X)
    frame = narwhals_frame(X, name)
    for column, dtype in frame.schema.items():
        if dtype.is_temporal():  # which beside floats would become such
            raise InputTypeError(f"`{name}` must hold numbers, got {dtype} in column `{column}`.")
    return as_numpy(frame, name)


def as_numpy(data: Any, name: str) -> NDArray[Any]:
    """A frame or a column of narwhals as an array; what NumPy has no type for is refused."""
    try:
        return np.asarray(data.to_numpy())
    except MemoryError:
        raise
    except Exception as error:  # each library has errors of its own
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InputError(
            f"`{name}` has a column that is no array of numbers or texts ({reason}); cast it."
        ) from None


def check_names(X: Any, feature_names: Sequence[str] | None, name: str = "X") -> None:
    """Refuse a frame whose columns are not those that a model was fitted on, in their order.

    Parameters
    ----------
    X : anything
        What has no names passes.
    feature_names : sequence of str, optional
        Those of the model; without them everything passes.
    name : str
        How messages call the argument.

    Examples
    --------
    >>> import pandas
    >>> check_names(pandas.DataFrame({"b": [1.0], "a": [2.0]}), ("a", "b"))
    Traceback (most recent call last):
    kernelite.InputError: The feature names should match ... same order as they were in fit.
    """
    if feature_names is None or not is_frame(X):
        return
    got, expected = column_names(X, name), list(feature_names)
    if got is None or got == expected:
        return
    missing = [column for column in expected if column not in set(got)]
    unseen = [column for column in got if column not in set(expected)]
    problems = []
    if unseen:
        problems.append(f"`{name}` has feature names unseen at fit time, {first_names(unseen)}")
    if missing:
        problems.append(f"seen at fit time, yet now missing are {first_names(missing)}")
    if not problems:
        problems.append(f"those of `{name}` must be in the same order as they were in fit")
    raise InputError(
        f"The feature names should match those that were passed during fit: {'; '.join(problems)}."
    )


def check_single(wanted: Sequence[str], present: Sequence[str]) -> None:
    """Refuse columns that are there more than once: which of them is meant nobody can tell.

    Examples
    --------
    >>> check_single(["age"], ["age", "city", "age"])
    Traceback (most recent call last):
    kernelite.InputError: there are 2 columns `age`; rename them.
    """
    if len(set(present)) == len(present):
        return
    counts = Counter(present)
    for column in wanted:
        if counts[column] > 1:
            raise InputError(f"there are {counts[column]} columns `{column}`; rename them.")


def first_names(names: Sequence[str], most: int = 5) -> str:
    """The first few names, and how many more there are, for a message."""
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _library(X: object) -> str:
    return type(X).__module__.partition(".")[0]


def is_pandas(X: object) -> bool:
    """Whether `X` is a frame of pandas, or of a class derived from it."""
    return any(kind.__module__.partition(".")[0] == "pandas" for kind in type(X).__mro__)


def narwhals_frame(X: Any, name: str) -> Any:
    """A frame of another library as narwhals shows it (extra `frames`)."""
    if hasattr(type(X), "collect"):
        raise InputError(f"`{name}` is a lazy frame, whose rows are not there yet; collect it.")
    kind = f"{type(X).__module__}.{type(X).__qualname__}"
    need = f"`{name}` is a {kind}; reading it needs narwhals"
    narwhals = optional("narwhals", need, "narwhals", "frames")
    try:
        return narwhals.from_native(X, eager_only=True)
    except narwhals.exceptions.DuplicateError:
        names = list(getattr(X, "column_names", ()))
        check_single(names, names)
        raise
    except TypeError as error:
        raise InputError(
            f"`{name}` is a {type(X).__module__}.{type(X).__qualname__}, which cannot be read "
            f"as a table ({error})."
        ) from None
