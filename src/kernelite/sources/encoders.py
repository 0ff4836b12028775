"""scikit-learn's encoders, imputers and binners as steps on columns, and what files cannot hold.

In: a fitted transformer. Out: the step that does the same for all columns of a table.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.columns import is_nan
from kernelite.machine.preparation import Step
from kernelite.machine.preparation.columns import Branch, Columns
from kernelite.machine.preparation.encoding import Bins, Categories, OneHot, Ordinal
from kernelite.machine.preparation.missing import Impute, Missing

__all__ = [
    "NotFolded",
    "bins",
    "imputer_steps",
    "indicator_steps",
    "one_hot",
    "ordinal",
    "places_of",
]


class NotFolded(Exception):
    """A transformer that is kept as it is."""


def on_columns(step: Any) -> list[Step]:
    """A step that works on columns, for all columns of a table."""
    return [Columns((Branch(np.arange(step.n_features), (step,)),), step.n_features, by_name=False)]


def _scalar(value: Any) -> Any:
    """A category as a file can hold it."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise NotFolded from None
    elif isinstance(value, int):
        if abs(value) >= 2**63:
            raise NotFolded
    elif not (value is None or isinstance(value, float)):
        raise NotFolded
    return value


def one_hot(encoder: Any) -> list[Step]:
    infrequent = getattr(encoder, "infrequent_categories_", None)
    dropped = getattr(encoder, "drop_idx_", None)
    columns = []
    for i, categories in enumerate(encoder.categories_):
        values = tuple(_scalar(value) for value in categories)
        rare = None if infrequent is None else infrequent[i]
        places, width = _grouped(values, rare)
        unknown = -2 if encoder.handle_unknown == "error" else -1
        group = width - 1 if rare is not None else -1
        if encoder.handle_unknown in ("infrequent_if_exist", "warn"):
            unknown = group
        drop = None if dropped is None else dropped[i]
        if drop is not None:
            gone = places[drop]
            unknown = -1 if unknown == gone else unknown - (unknown > gone)
            places = np.where(places == gone, -1, places - (places > gone))
            width -= 1
        columns.append(Categories(values, places, width, int(unknown)))
    warns = encoder.handle_unknown == "warn"
    warns |= encoder.drop is not None and encoder.handle_unknown != "error"
    return on_columns(OneHot(tuple(columns), bool(warns)))


def _grouped(values: tuple[Any, ...], rare: Any) -> tuple[NDArray[np.int64], int]:
    """The place of each category, those that are rare together in the last one."""
    if rare is None:
        return np.arange(len(values)), len(values)
    group = {_scalar(value) for value in rare if not is_nan(value)}
    has_nan = any(is_nan(value) for value in rare)
    is_rare = np.array([has_nan if is_nan(value) else value in group for value in values])
    places = np.cumsum(~is_rare) - 1
    width = int(np.count_nonzero(~is_rare)) + 1
    return np.where(is_rare, width - 1, places), width


def ordinal(encoder: Any) -> list[Step]:
    infrequent = getattr(encoder, "infrequent_categories_", None)
    columns, numbers = [], []
    for i, categories in enumerate(encoder.categories_):
        values = tuple(_scalar(value) for value in categories)
        rare = None if infrequent is None else infrequent[i]
        has_nan = bool(values) and is_nan(values[-1])  # None is a category like others
        places, width = _grouped(values[:-1] if has_nan else values, rare)
        given = [float(number) for number in range(width)]
        if has_nan:
            places, width = np.append(places, width), width + 1
            given.append(float(encoder.encoded_missing_value))
        unknown = -2
        if encoder.handle_unknown == "use_encoded_value":
            unknown, width = width, width + 1
            given.append(float(encoder.unknown_value))
        dtype = np.dtype(encoder.dtype)
        if dtype.kind not in "fiu":
            raise NotFolded
        if dtype.kind == "f":
            given = [float(number) for number in np.array(given, dtype=dtype)]
        columns.append(Categories(values, places, width, unknown))
        numbers.append(tuple(given))
    return on_columns(Ordinal(tuple(columns), tuple(numbers)))


def bins(binner: Any) -> list[Step]:
    if np.dtype(binner.dtype or np.float64) != np.float64:
        raise NotFolded
    edges = tuple(np.asarray(edges, dtype=np.float64)[1:-1] for edges in binner.bin_edges_)
    return on_columns(Bins(edges, onehot=binner.encode != "ordinal"))


def _missing(values: Any, shown: Any, n_features: int, refuses_new: bool) -> Missing:
    if type(values).__name__ == "NAType":
        return Missing(math.nan, True, places_of(shown), n_features, refuses_new)
    return Missing(_scalar(values), False, places_of(shown), n_features, refuses_new)


def places_of(values: Any) -> NDArray[np.int64]:
    return np.asarray(values, dtype=np.int64).reshape(-1)


def imputer_steps(imputer: Any) -> list[Step]:
    statistics, d = imputer.statistics_, int(imputer.n_features_in_)
    kept = np.arange(d)
    if not getattr(imputer, "keep_empty_features", False):
        kept = np.array([j for j in range(d) if not is_nan(statistics[j])], dtype=np.int64)
    numeric = imputer._fit_dtype.kind != "O"
    cast = statistics[kept].astype(imputer._fill_dtype)
    fills = tuple(_scalar(value) for value in cast)
    indicator = imputer.indicator_ if imputer.add_indicator else None
    shown = [] if indicator is None else indicator.features_
    missing = _missing(imputer.missing_values, shown, d, False)
    return on_columns(Impute(missing, kept, fills, bool(numeric)))


def indicator_steps(indicator: Any) -> list[Step]:
    refuses = indicator.features == "missing-only" and bool(indicator.error_on_new)
    found = _missing(
        indicator.missing_values, indicator.features_, int(indicator.n_features_in_), refuses
    )
    return on_columns(found)
