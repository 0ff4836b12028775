"""Bytes that columns stand for: each of a few codes or views may be a text of megabytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.tables.columnar.library import arrow
from kernelite.data.tables.parsing import quote
from kernelite.support.errors import FileFormatError

__all__ = ["check_kinds", "spelled_out", "value_lengths"]


def spelled_out(column: Any) -> int:
    """Bytes of a column, were each code or view the value that it stands for.

    Parameters
    ----------
    column : pyarrow.Array
        Of a type that `check_kinds` lets pass.

    Examples
    --------
    >>> import pyarrow
    >>> codes = pyarrow.array([0, 0, 0, None], pyarrow.int8())
    >>> spelled_out(pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array(["a" * 100])))
    300
    """
    types = arrow().types
    if isinstance(column, arrow().ExtensionArray):
        column = column.storage
    kind = column.type
    if types.is_dictionary(kind):
        lengths = np.append(value_lengths(column.dictionary), 0)
        codes = column.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
        return int(lengths[codes].sum())
    if types.is_struct(kind):
        return sum(map(spelled_out, column.flatten()))
    if types.is_map(kind):
        both = column.keys, column.items
        inner = slice(column.offsets[0].as_py(), column.offsets[-1].as_py())
        return 8 * len(column) + sum(spelled_out(part[inner]) for part in both)
    if _is_list(kind):
        return 8 * len(column) + spelled_out(column.flatten())
    if _is_view(kind):
        return 8 * len(column) + int(value_lengths(column).sum())
    return int(column.nbytes)


def value_lengths(values: Any) -> NDArray[np.int64]:
    """Bytes of each value of a dictionary, or of each view."""
    if _is_view(values.type):  # 16 bytes each, of which the first four are the length
        views = values.buffers()[1]
        lengths = np.frombuffer(views or b"", np.int32)[::4]
        lengths = lengths[values.offset : values.offset + len(values)]
        return np.where(values.is_valid().to_numpy(zero_copy_only=False), lengths, 0).astype(
            np.int64
        )
    try:
        found = arrow("compute").binary_length(values).fill_null(0)
    except arrow().ArrowNotImplementedError:  # numbers, dates and the like: no longer than codes
        return np.full(len(values), 8, dtype=np.int64)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def check_kinds(path: str, schema: Any) -> None:
    """Refuse columns of types whose values share numbers in ways that are not counted."""
    for field in schema:
        if not _is_counted(field.type):
            raise FileFormatError(
                path,
                f"column {quote(field.name)} holds {field.type}, of which a few bytes may stand "
                "for gigabytes; cast it, or leave it out",
            )


def _is_counted(kind: Any) -> bool:
    types = arrow().types
    if isinstance(kind, arrow().BaseExtensionType):
        kind = kind.storage_type
    if types.is_dictionary(kind):
        return not types.is_nested(kind.value_type)
    if types.is_struct(kind) or types.is_map(kind) or _is_list(kind):
        inner = [kind.field(i).type for i in range(kind.num_fields)]
        return all(map(_is_counted, inner))
    return not types.is_nested(kind) and not str(kind).startswith("run_end_encoded")


def _is_list(kind: Any) -> bool:
    types = arrow().types
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _is_view(kind: Any) -> bool:
    """Whether a type's texts lie elsewhere, several in one place perhaps; polars writes such."""
    return str(kind) in ("string_view", "binary_view")  # older libraries have neither
