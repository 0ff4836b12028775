"""Columns of a table, one by one: numbers as they are, everything else as codes.

In: a data frame, an array or a list of rows. Out: per column an array of numbers, or a `Coded`: a
few distinct values and, per row, which of them it has. What follows then works on the values, not
on the rows: text columns are never turned into arrays of Python objects.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.frames import (
    as_numpy,
    column_names,
    first_names,
    is_frame,
    is_pandas,
    narwhals_frame,
)
from kernelite.data.rows.inputs import FloatArray, is_sparse, refuse_no_rows
from kernelite.support.errors import InputError, InputTypeError
from kernelite.support.records import dataclass

__all__ = [
    "NULL",
    "Coded",
    "Column",
    "is_nan",
    "missing_kind",
    "numbers",
    "read_columns",
    "refuse_infinite",
    "warn_of_missing",
]

NUMERIC = "fiub"
NO_NUMBER = (TypeError, ValueError, OverflowError)  # what `float` says of 10**400 too


class Null:
    """A missing value of a container that scikit-learn does not take: missing for every step."""

    def __repr__(self) -> str:
        return "null"


NULL = Null()
FEW_OBJECT_ROWS = 16  # rows, that are looked at one by one


@dataclass(frozen=True, eq=False, slots=True)
class Coded:
    """A column of m rows by its distinct values.

    Parameters
    ----------
    codes : int array of shape (m,)
        The place of each row's value; -1 is the last one.
    values : list
        At least one, Python's own scalars; a value may be there twice.

    Examples
    --------
    >>> Coded(np.array([0, 1, 0]), ["no", "yes"]).spread(np.array([5.0, 7.0]))
    array([5., 7., 5.])
    """

    codes: NDArray[np.integer]
    values: list[Any]

    def uses(self, place: int) -> bool:
        """Whether any row has the value at a place."""
        last = place == len(self.values) - 1
        return bool((self.codes == place).any() or (last and (self.codes == -1).any()))

    def spread(self, per_value: NDArray[Any]) -> NDArray[Any]:
        """What each row gets, from what each value gets."""
        return per_value[self.codes]


Column: TypeAlias = "NDArray[Any] | Coded"


def is_nan(value: object) -> bool:
    """Whether a scalar is NaN, as scikit-learn asks: a number that is not itself.

    Examples
    --------
    >>> is_nan(float("nan")), is_nan(None), is_nan("nan")
    (True, False, False)
    """
    return isinstance(value, float | np.floating) and bool(value != value)


def missing_kind(value: object) -> str | None:
    """How a scalar says that a value is missing, "None", "NaN" or "NA"; None if it is there.

    Examples
    --------
    >>> [missing_kind(value) for value in (None, float("nan"), "nan", 0)]
    ['None', 'NaN', None, None]
    """
    if value is None:
        return "None"
    if is_nan(value) or value is NULL:
        return "NaN"
    return "NA" if type(value).__name__ in ("NAType", "NaTType") else None


def warn_of_missing(name: str | int, kind: str, known: str) -> None:
    """Warn that a column's missing values are of another kind than those that the model knows."""
    warnings.warn(
        f"column `{name}` has missing values as {kind}, but the model was fitted on {known}: they "
        "count as an unknown value, as in scikit-learn. Pass the rows as they were in fit, e.g. "
        "`X.to_pandas()`.",
        stacklevel=2,
    )


def numbers(column: Column, name: str = "X") -> FloatArray:
    """A column as doubles, None as NaN; texts that spell numbers count as those.

    Examples
    --------
    >>> numbers(Coded(np.array([0, 1, 1]), ["1.5", None]))
    array([1.5, nan, nan])
    """
    if not isinstance(column, Coded):
        with np.errstate(over="ignore"):
            return column.astype(np.float64, copy=False)
    try:
        found = [_number(value) for value in column.values]
    except NO_NUMBER:  # values that no row has are no matter
        found = [np.nan] * len(column.values)
        for code in np.unique(column.codes).tolist():
            try:
                found[code] = _number(column.values[code])
            except NO_NUMBER as error:
                raise InputError(f"`{name}` must hold numbers here ({error}).") from None
    return np.asarray(column.spread(np.array(found)), dtype=np.float64)


def _number(value: Any) -> float:
    return np.nan if value is None or value is NULL else float(value)


def refuse_infinite(values: NDArray[Any], *, nan: bool = False) -> None:
    """Refuse infinity, and NaN where that is asked, before a step that would hide it.

    Examples
    --------
    >>> refuse_infinite(np.array([1.0, np.inf]))
    Traceback (most recent call last):
    kernelite.InputError: `X` contains infinity, which this model does not take; drop it.
    """
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    if nan and np.isnan(values).any():
        raise InputError("`X` contains NaN, which this model does not take; impute it.")
    if np.isinf(values).any():
        raise InputError("`X` contains infinity, which this model does not take; drop it.")


def read_columns(
    X: Any, wanted: Sequence[int], n_features: int, names: Sequence[str] | None, name: str = "X"
) -> tuple[dict[int, Column], int]:
    """Some columns of a table, by place; in a frame by name, in whatever order they stand.

    Parameters
    ----------
    X : data frame, array, sparse matrix or list of rows
    wanted : sequence of int
        Places among the columns of the fit.
    n_features : int
        How many those were.
    names : sequence of str, optional
        Their names.
    name : str
        How messages call the argument.

    Returns
    -------
    columns : dict of int to column
    m : int

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"b": [1.5], "more": [0], "a": ["x"]})
    >>> read_columns(frame, [1], 2, ["a", "b"])
    ({1: array([1.5])}, 1)
    """
    if is_frame(X):
        return _frame_columns(X, wanted, n_features, names, name)
    if is_sparse(X):
        _check_width(X.shape[1], n_features, name)
        dense = X.tocsc()[:, list(wanted)].toarray()
        return {place: dense[:, j] for j, place in enumerate(wanted)}, X.shape[0]
    refuse_no_rows(X, name)
    try:
        array = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
    except ValueError as error:
        raise InputError(f"`{name}` must be a rectangular table: {error}") from None
    if array.ndim != 2:
        raise InputError(f"`{name}` must have two dimensions, got shape {array.shape}.")
    _check_width(array.shape[1], n_features, name)
    return {place: _of_array(array[:, place], name) for place in wanted}, len(array)


def _frame_columns(
    X: Any, wanted: Sequence[int], n_features: int, names: Sequence[str] | None, name: str
) -> tuple[dict[int, Column], int]:
    there = column_names(X, name)
    pandas = is_pandas(X)
    frame = X if pandas else narwhals_frame(X, name)
    if names is None or there is None:
        _check_width(frame.shape[1], n_features, name)
        places = {place: place for place in wanted}
    else:
        first = {column: place for place, column in enumerate(there)}
        missing = [names[place] for place in wanted if names[place] not in first]
        if missing:
            raise InputError(
                f"`{name}` lacks columns that were there in fit: {first_names(missing)}."
            )
        places = {place: first[names[place]] for place in wanted}
    if not pandas:
        # scikit-learn takes no Arrow table: there a null is missing, however the model knows that.
        null = NULL if type(X).__module__.startswith("pyarrow") else None
        found = {place: _of_narwhals(frame[:, at], name, null) for place, at in places.items()}
    elif there is not None:  # by name is faster
        found = {place: _of_pandas(frame[there[at]], name) for place, at in places.items()}
    else:
        found = {place: _of_pandas(frame.iloc[:, at], name) for place, at in places.items()}
    return found, len(frame)


def _check_width(found: int, n_features: int, name: str) -> None:
    if found != n_features:
        raise InputError(f"`{name}` has {found} features, but this model takes {n_features}.")


def _of_pandas(series: Any, name: str) -> Column:
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return _of_array(series.to_numpy(), name)
    array = series.array
    if hasattr(dtype, "categories"):
        return Coded(array.codes, [*array.categories.tolist(), np.nan])
    arrow = getattr(dtype, "storage", "") == "pyarrow" or hasattr(dtype, "pyarrow_dtype")
    if arrow and len(array) > FEW_OBJECT_ROWS:
        found = _of_arrow(array.__arrow_array__(), dtype.na_value)
        if found is not None:
            return found
    if getattr(dtype, "kind", "O") in NUMERIC:  # with a mask for what is missing
        if not series.hasnans:
            return np.asarray(series.to_numpy(dtype=getattr(dtype, "numpy_dtype", np.float64)))
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return _of_array(series.to_numpy(dtype=object), name)


def _of_narwhals(series: Any, name: str, null: Null | None) -> Column:
    if str(series.dtype).partition("(")[0] in ("String", "Categorical", "Enum"):
        try:
            found = _of_arrow(series.to_arrow(), null)
        except ImportError:  # pyarrow, without which there are slower ways
            found = None
        if found is not None:
            return found
    return _of_array(as_numpy(series, name), name)


def _of_arrow(array: Any, missing: Any) -> Coded | None:
    """An Arrow column of texts by its own dictionary; None for other types."""
    from pyarrow import types

    if hasattr(array, "combine_chunks"):
        array = array.combine_chunks()
        if hasattr(array, "num_chunks"):  # several that do not fit together
            return None
    kind = array.type
    if not types.is_dictionary(kind):
        if not (types.is_string(kind) or types.is_large_string(kind)):
            return None
        array = array.dictionary_encode()
    if types.is_nested(array.type.value_type):
        return None
    indices = array.indices
    if types.is_unsigned_integer(indices.type):  # which has no -1, for what is missing
        indices = indices.cast("int64")
    codes = indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return Coded(codes, [*array.dictionary.to_pylist(), missing])


class _Numbering(dict[Any, int]):
    """Numbers values in the order in which they come."""

    def __missing__(self, value: Any) -> int:
        number = self[value] = len(self)
        return number


def _of_array(array: NDArray[Any], name: str) -> Column:
    if array.dtype.kind in NUMERIC:
        return array
    if array.dtype.kind == "c":
        raise InputError(f"`{name}` must hold real numbers. Complex data not supported.")
    if array.dtype.kind in "mM":  # whose `tolist` gives numbers, or not, by their unit
        raise InputTypeError(f"`{name}` must hold numbers or texts, got dtype {array.dtype}.")
    numbering = _Numbering()
    try:
        found = map(numbering.__getitem__, array.tolist() if array.dtype.kind != "O" else array)
        codes = np.fromiter(found, np.int32, len(array))
    except TypeError as error:
        raise InputTypeError(
            f"`{name}` holds a value that is neither text nor number ({error})."
        ) from None
    return Coded(codes, list(numbering) or [None])
