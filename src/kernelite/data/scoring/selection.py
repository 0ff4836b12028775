"""Which columns of a file are features, which are kept and which holds the truth."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kernelite.data.rows.frames import check_single
from kernelite.data.scoring.expected import expected_of
from kernelite.data.tables.columnar.library import is_numeric
from kernelite.data.tables.columnar.reading import Kind
from kernelite.data.tables.delimited import LABEL_NAMES
from kernelite.data.tables.parsing import quote
from kernelite.support.errors import InputError

__all__ = ["ColumnSelection", "expand_columns", "listed", "resolve_columns", "select"]

_INDEX = re.compile(r"__index_level_\d+__")  # how pandas stores the index of a frame


@dataclass(frozen=True)
class ColumnSelection:
    """Columns of one file, by name.

    Parameters
    ----------
    features : tuple of str
        In the model's order.
    kept : tuple of str
        To be written again.
    label : str, optional
        With the right answers.
    kinds : dict of str to {"number", "text", "shown"}
        How a format without types reads the features: as doubles, as text, as its first rows look.
    """

    features: tuple[str, ...]
    kept: tuple[str, ...]
    label: str | None = None
    kinds: Mapping[str, Kind] = field(default_factory=dict)

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
) -> ColumnSelection:
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
    ColumnSelection(features=('a', 'b'), kept=('id',), label='y', kinds={'a': 'number', ...})
    """
    kept = tuple(schema.names) if keep == "all" else tuple(keep)
    for name in kept:
        _check_single(name, schema, "to keep")
    truth = _label(label, schema)
    wanted = None if columns is None else expand_columns(columns, schema.names)
    if wanted is None and model.origin.feature_names is None:
        features = _all_numeric(model, schema, () if keep == "all" else kept, truth, typed)
    else:
        features = resolve_columns(model, schema if typed else schema.names, wanted)
    if label == "auto" and (truth in features or not _comparable(model, schema, truth)):
        truth = None
    return ColumnSelection(tuple(features), kept, truth, _kinds(model, features))


def resolve_columns(
    model: Any, names_or_schema: Any, columns: Sequence[str] | None = None
) -> list[str]:
    """The names of a model's feature columns, in the model's order.

    Parameters
    ----------
    model : CompiledModel
    names_or_schema : sequence of str, or pyarrow.Schema
        The columns there are. Of a schema, types are looked at too.
    columns : sequence of str, optional
        The columns to take, in the model's order. By default those that the model was fitted on;
        where it knows no names, all numeric ones, if there are as many as it has features.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> import kernelite
    >>> fast = kernelite.compile(SVC().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1]))
    >>> resolve_columns(fast, ["a", "b"])
    ['a', 'b']
    >>> resolve_columns(fast, ["id", "a", "b"], columns=["b", "a"])
    ['b', 'a']
    """
    schema: Any = None if _is_names(names_or_schema) else names_or_schema
    present = list(names_or_schema if schema is None else schema.names)
    wanted = _wanted(model, columns)
    if wanted is None:
        wanted = present if schema is None else [f.name for f in schema if is_numeric(f.type)]
        if len(wanted) != model.n_features_in_:
            kind = "columns" if schema is None else "numeric columns"
            raise InputError(
                f"this model knows no column names and has {model.n_features_in_} features, but "
                f"there are {len(wanted)} {kind}; name those to use with `columns`."
            )
    _check_present(wanted, present)
    expected = expected_of(model)
    numbers = [not expected.frames] * len(wanted)
    if expected.frames and expected.names is not None:
        numbers = [name in expected.numbers for name in expected.names]
    for name, number in zip(wanted if schema is not None else (), numbers):
        kind = schema.field(name).type
        if number and not is_numeric(kind):
            raise InputError(
                f"column `{name}` is of type {kind}, not numeric; encode it as the model's "
                "training data were, or name other `columns`."
            )
    return wanted


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


def _kinds(model: Any, features: Sequence[str]) -> dict[str, Kind]:
    expected = expected_of(model)
    if not expected.frames:
        return dict.fromkeys(features, "number")
    kinds: dict[str, Kind] = {}
    for name, known in zip(features, expected.names or features):
        as_text = known in expected.text or known in expected.unused  # which may hold anything
        kinds[name] = "text" if as_text else "shown"
        if known in expected.numbers:
            kinds[name] = "number"
    return kinds


def _position(end: str, names: Sequence[str]) -> int | None:
    if end in names:
        return list(names).index(end)
    number = int(end) if re.fullmatch(r"[0-9]{1,9}", end) else len(names)
    return number if number < len(names) else None


def _all_numeric(
    model: Any, schema: Any, kept: Sequence[str], label: str | None, typed: bool
) -> list[str]:
    free = [f for f in schema if f.name not in kept and not _INDEX.fullmatch(f.name)]
    numeric = [field.name for field in free if is_numeric(field.type)]
    others = [name for name in numeric if name != label]
    if len(others) == model.n_features_in_:
        return resolve_columns(model, schema, others)
    if not typed:
        # A cell that is no number makes a column look like text: whoever reads it names the cell.
        columns = [field.name for field in free if field.name != label]
        if len(columns) == model.n_features_in_:
            return resolve_columns(model, schema.names, columns)
    if len(numeric) == len(free) == model.n_features_in_:
        return resolve_columns(model, schema, numeric)  # one called `y` is a feature like others
    which = f" ({listed(others)})" if others else ""
    raise InputError(
        f"this model has {model.n_features_in_} features and knows no column names, but there are "
        f"{len(others)} numeric columns{which}; name those to take "
        "(`columns=`, or `--columns` of `predict` and `compile`)."
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
    classes = model.head.classes
    if isinstance(classes, list):
        return False
    return is_numeric(schema.field(label).type) == (classes is None or classes.dtype.kind in "biuf")


def _check_single(name: str, schema: Any, purpose: str) -> None:
    count = schema.names.count(name)
    if count == 1:
        return
    if count > 1:
        raise InputError(f"there are {count} columns `{name}`; rename them.")
    there = listed(schema.names)
    raise InputError(f"there is no column `{name}` {purpose}; those there are: {there}.")


def listed(names: Sequence[str]) -> str:
    """The first few names, for a message."""
    return ", ".join(map(quote, names[:10])) + (", ..." if len(names) > 10 else "")


def _is_names(given: Any) -> bool:
    return not hasattr(given, "names") or isinstance(given, list | tuple)


def _wanted(model: Any, columns: Sequence[str] | None) -> list[str] | None:
    if columns is None:
        names = model.origin.feature_names
        return None if names is None else list(names)
    if isinstance(columns, str):
        raise InputError(f"`columns` must be a list of names, got the string {columns!r}.")
    wanted, d = list(columns), model.n_features_in_
    if len(wanted) != d and not (model.origin.width_is_open and len(wanted) > d):
        raise InputError(f"`columns` names {len(wanted)} columns, but this model has {d} features.")
    return wanted


def _check_present(wanted: Sequence[str], present: Sequence[str]) -> None:
    known = set(present)
    missing = [name for name in wanted if name not in known]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise InputError(
            f"there is no column {quote(missing[0])}{more}; those there are: "
            f"{listed(present) or 'none'}. Rename "
            "it, or name the columns to use (`columns=`, or `--columns` on the command line)."
        )
    check_single(wanted, present)
