"""Which columns are a model's features, and their values as blocks of rows.

In: a model, the columns of a batch. Out: their names in the model's order; float64 blocks of shape
(rows, d), C-contiguous, a few megabytes each, so that memory does not grow with the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kernelite.errors import InputError, MissingExtraError
from kernelite.rows.inputs import FloatArray, row_blocks

__all__ = ["feature_blocks", "is_numeric", "require_pyarrow", "resolve_columns"]

BLOCK_VALUES = 1 << 20  # doubles a block: 8 MB


def require_pyarrow() -> Any:
    """The `pyarrow` package, or an error that names the extra.

    Examples
    --------
    >>> require_pyarrow().__name__
    'pyarrow'
    """
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(
            "record batches and columnar files need pyarrow: pip install 'kernelite[arrow]'."
        ) from None
    return pyarrow


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
    for name in wanted if schema is not None else ():
        kind = schema.field(name).type
        if not is_numeric(kind):
            raise InputError(
                f"column `{name}` is of type {kind}, not numeric; encode it as the model's "
                "training data were, or name other `columns`."
            )
    return wanted


def is_numeric(kind: Any) -> bool:
    """Whether a pyarrow type holds numbers (truth values count, dictionaries by their values).

    Examples
    --------
    >>> import pyarrow
    >>> is_numeric(pyarrow.int8()), is_numeric(pyarrow.string())
    (True, False)
    """
    types = require_pyarrow().types
    if types.is_dictionary(kind):
        return is_numeric(kind.value_type)
    checks = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(check(kind) for check in checks)


def feature_blocks(
    batch: Any, columns: Sequence[str], *, nulls_pass: bool = False
) -> Iterator[tuple[int, FloatArray]]:
    """The values of some columns in blocks of rows, each with the number of its first row.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
    columns : sequence of str
    nulls_pass : bool
        Let nulls become NaN (for models that impute) instead of refusing them.

    Yields
    ------
    (int, ndarray of shape (rows, d))

    Examples
    --------
    >>> import pyarrow
    >>> batch = pyarrow.record_batch({"a": [1, 2], "b": [0.5, 1.5]})
    >>> [(first, block.tolist()) for first, block in feature_blocks(batch, ["b", "a"])]
    [(0, [[0.5, 1.0], [1.5, 2.0]])]
    """
    arrays = [batch.column(batch.schema.get_field_index(name)) for name in columns]
    for name, array in zip(columns, arrays):
        if array.null_count and not nulls_pass:
            first = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
            raise InputError(
                f"column `{name}` has {array.null_count:,} nulls (first in row {first}, counted "
                "from 0); fill or drop such rows before predicting."
            )
    for block in row_blocks(batch.num_rows, max(1, BLOCK_VALUES // max(1, len(columns)))):
        rows = block.stop - block.start
        values = [_floats(array.slice(block.start, rows)) for array in arrays]
        yield block.start, np.stack(values, axis=1) if values else np.empty((rows, 0))


def _floats(array: Any) -> FloatArray:
    """A column as float64; its own memory where it is that already and has no nulls."""
    pyarrow = require_pyarrow()
    if pyarrow.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type != pyarrow.float64():
        array = array.cast(pyarrow.float64(), safe=False)
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)


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
        there = ", ".join(present[:10]) + (", ..." if len(present) > 10 else "")
        raise InputError(
            f"there is no column `{missing[0]}`{more}; those there are: {there or 'none'}. Rename "
            "it, or name the columns to use with `columns`."
        )
    for name in wanted:
        if present.count(name) > 1:
            raise InputError(f"there are {present.count(name)} columns `{name}`; rename them.")
