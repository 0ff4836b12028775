"""Which columns of a file are features, which are kept and which holds the truth."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kernelite.errors import InputError
from kernelite.tables.columnar.columns import is_numeric, resolve_columns
from kernelite.tables.layout import LABEL_NAMES
from kernelite.tables.numbers import quote

__all__ = ["Selection", "expand_columns", "select"]

_INDEX = re.compile(r"__index_level_\d+__")  # how pandas stores the index of a frame


@dataclass(frozen=True)
class Selection:
    """Columns of one file, by name.

    Parameters
    ----------
    features : tuple of str
        In the model's order.
    kept : tuple of str
        To be written again.
    label : str, optional
        With the right answers.
    """

    features: tuple[str, ...]
    kept: tuple[str, ...]
    label: str | None = None

    @property
    def read(self) -> list[str]:
        """Every column that is needed, once."""
        label = () if self.label is None else (self.label,)
        return list(dict.fromkeys((*self.kept, *self.features, *label)))


def select(
    model: Any,
    schema: Any,
    *,
    columns: Sequence[str] | None = None,
    keep: Sequence[str] | Literal["all"] = (),
    label: int | str | None = "auto",
    typed: bool = True,
) -> Selection:
    """Find the columns of a file.

    Parameters
    ----------
    model : CompiledModel
    schema : pyarrow.Schema
    columns : sequence of str, optional
        Names or ranges, see `expand_columns`. By default the names that the model was fitted on;
        where it has none, all numeric columns that are neither kept nor the label, if there are as
        many as the model has features.
    keep : sequence of str, or "all"
    label : int, str or None
        Name or position of the column with the right answers; "auto" takes the one called label,
        target, class or y, where it is not a feature and of the kind that the model answers.
    typed : bool
        Whether types are the file's own. Those of CSV are a guess from the first rows, so features
        that are known by name are taken for numbers.

    Examples
    --------
    >>> import pyarrow
    >>> import kernelite
    >>> bump = kernelite.compile(kernelite.KernelExpansion([[0.0, 0.0]], [2.0], 0.5, gamma=1.0))
    >>> names = pyarrow.schema([(name, pyarrow.float64()) for name in ("id", "a", "b", "y")])
    >>> select(bump, names, keep=["id"])
    Selection(features=('a', 'b'), kept=('id',), label='y')
    """
    kept = tuple(schema.names) if keep == "all" else tuple(keep)
    for name in kept:
        _check_single(name, schema, "to keep")
    truth = _label(label, schema)
    wanted = None if columns is None else expand_columns(columns, schema.names)
    if wanted is None and model.origin.feature_names is None:
        features = _all_numeric(model, schema, () if keep == "all" else kept, truth)
    else:
        features = resolve_columns(model, schema if typed else schema.names, wanted)
    if label == "auto" and (truth in features or not _comparable(model, schema, truth)):
        truth = None
    return Selection(tuple(features), kept, truth)


def expand_columns(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Ranges as the names that they stand for.

    Parameters
    ----------
    columns : sequence of str
        Names; `first:last`, both included, by names or by positions from 0; or single positions.
        What is a column's name is never taken for anything else.
    names : sequence of str
        The columns of the file, in order.

    Examples
    --------
    >>> expand_columns(["b:d", "a"], ["a", "b", "c", "d"])
    ['b', 'c', 'd', 'a']
    >>> expand_columns(["1:2", "0"], ["a", "b", "c", "d"])
    ['b', 'c', 'a']
    """
    if isinstance(columns, str):
        raise InputError(f"`columns` must be a list of names, got the string {columns!r}.")
    found: list[str] = []
    for column in columns:
        if column in names:
            found.append(column)
            continue
        first, colon, last = column.partition(":")
        ends = [_position(end, names) for end in ((first, last) if colon else (column,))]
        if None in ends:
            found.append(column)  # said to be missing where columns are looked up
            continue
        start, stop = ends[0], ends[-1]
        assert start is not None
        assert stop is not None
        if start > stop:
            raise InputError(f"`columns` has {quote(column)}, but {first} comes after {last}.")
        found += names[start : stop + 1]
    return found


def _position(end: str, names: Sequence[str]) -> int | None:
    if end in names:
        return list(names).index(end)
    number = int(end) if re.fullmatch(r"[0-9]{1,9}", end) else len(names)
    return number if number < len(names) else None


def _all_numeric(model: Any, schema: Any, kept: Sequence[str], label: str | None) -> list[str]:
    numeric = [field.name for field in schema if is_numeric(field.type)]
    numeric = [name for name in numeric if name not in kept and not _INDEX.fullmatch(name)]
    others = [name for name in numeric if name != label]
    for found in (others, numeric):  # a column called `y` may be a feature like the others
        if len(found) == model.n_features_in_:
            return resolve_columns(model, schema, found)
    raise InputError(
        f"this model has {model.n_features_in_} features and knows no column names, but there are "
        f"{len(others)} numeric columns ({_listed(others)}); say which to take with `--columns` "
        "(`columns=`)."
    )


def _label(label: int | str | None, schema: Any) -> str | None:
    if label is None:
        return None
    if isinstance(label, int):
        if not -len(schema.names) <= label < len(schema.names):
            raise InputError(f"`label_column` is {label}, but there are {len(schema)} columns.")
        return str(schema.names[label])
    if label != "auto":
        _check_single(label, schema, "with labels")
        return label
    found = [name for name in schema.names if name.lower() in LABEL_NAMES]
    return found[0] if len(found) == 1 else None


def _comparable(model: Any, schema: Any, label: str | None) -> bool:
    """Whether a column that nobody named may well hold what the model answers."""
    if label is None:
        return False
    classes = getattr(model.head, "classes", None)
    if isinstance(classes, list):
        return False
    return is_numeric(schema.field(label).type) == (classes is None or classes.dtype.kind in "biuf")


def _check_single(name: str, schema: Any, purpose: str) -> None:
    count = schema.names.count(name)
    if count == 1:
        return
    if count > 1:
        raise InputError(f"there are {count} columns `{name}`; rename them.")
    there = _listed(schema.names)
    raise InputError(f"there is no column `{name}` {purpose}; those there are: {there}.")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quote, names[:10])) + (", ..." if len(names) > 10 else "")
