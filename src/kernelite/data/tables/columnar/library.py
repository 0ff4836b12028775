"""pyarrow, imported when the first columnar file is met.

Also what is wrong with columnar data, and how many bytes columns stand for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.tables.parsing import quote
from kernelite.support.errors import (
    FileFormatError,
    InputError,
    KerneliteError,
    MissingExtraError,
    optional,
)

__all__ = [
    "TablePart",
    "arrow",
    "bad_cell",
    "check_kinds",
    "checked_schema",
    "first_defect",
    "is_numeric",
    "naming_defects",
    "naming_file",
    "reason_of",
    "require_pyarrow",
    "spelled_out",
    "value_lengths",
    "without_stop",
]


def require_pyarrow() -> Any:
    """The `pyarrow` package, or an error that names the extra.

    Examples
    --------
    >>> require_pyarrow().__name__
    'pyarrow'
    """
    return optional("pyarrow", "record batches and columnar files need pyarrow", "pyarrow", "arrow")


def arrow(part: str = "") -> Any:
    """pyarrow, or one of its modules.

    Parameters
    ----------
    part : str
        E.g. "parquet", "csv", "compute".

    Returns
    -------
    module

    Raises
    ------
    MissingExtraError
        If it is not installed.

    Examples
    --------
    >>> arrow("compute").__name__
    'pyarrow.compute'
    """
    library = require_pyarrow()
    return import_module(f"pyarrow.{part}") if part else library


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


# What is wrong with columnar data: an error of pyarrow or of the model in, file, part, column out.
#
# Messages read `FILE: row group 2 of 5, column `x`, row 17: what is wrong; the cure`. Rows are
# counted from 1 in the file.


_OF_ROWS_BEFORE = "of the type of the rows before"
_CONVERSION = re.compile(r"In CSV column #(\d+): .*?invalid value '(.*)'", re.S)
_LONGEST = 200  # characters of a library's message that ours repeats


@dataclass(frozen=True, eq=False)
class TablePart:
    """Consecutive rows of a file.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
    where : str
        What messages call the place, e.g. "row group 2 of 5"; empty for CSV.
    first_row : int
        Position of the first row in the file, from 0.
    places : ndarray of shape (rows,), optional
        Position of each row, where rows between them were left out.
    """

    batch: Any
    where: str
    first_row: int
    places: NDArray[np.int64] | None = None

    def row_numbers(self) -> NDArray[np.int64]:
        """The position of each row in the file, from 0."""
        if self.places is not None:
            return self.places
        return self.first_row + np.arange(self.batch.num_rows)

    def some(self, rows: slice) -> TablePart:
        """Consecutive rows of this part."""
        batch = self.batch.slice(rows.start, rows.stop - rows.start)
        places = None if self.places is None else self.places[rows]
        return TablePart(batch, self.where, self.first_row + rows.start, places)


@contextmanager
def naming_file(path: str, where: str = "") -> Iterator[None]:
    """Turn whatever pyarrow raises while it reads into one sentence about the file.

    Examples
    --------
    >>> with naming_file("a.parquet", "row group 1 of 2"):
    ...     raise OSError("Corrupt snappy compressed data.")
    Traceback (most recent call last):
    kernelite.FileFormatError: a.parquet: row group 1 of 2: cannot be read (Corrupt ... data)
    """
    try:
        yield
    except KerneliteError:
        raise
    except FileNotFoundError:
        raise FileFormatError(path, "there is no such file") from None
    except Exception as error:  # hostile bytes raise anything; lengths may ask for all memory
        problem = f"cannot be read ({reason_of(error)})"
        raise FileFormatError(path, f"{where}: {problem}" if where else problem) from None


def reason_of(error: BaseException) -> str:
    """A library's message as part of a sentence: one line, of bounded length.

    Examples
    --------
    >>> reason_of(OSError("Not a\\n  Parquet file."))
    'Not a Parquet file'
    """
    text = " ".join((str(error) or type(error).__name__).split()).rstrip(". ")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def without_stop(sentence: str) -> str:
    """A sentence to be continued: without its full stop, but with the dots of a cut list.

    Examples
    --------
    >>> without_stop("it is empty."), without_stop("there are `a`, `b`, ...")
    ('it is empty', 'there are `a`, `b`, ...')
    """
    return sentence if sentence.endswith("...") else sentence.removesuffix(".")


def bad_cell(error: BaseException, names: Sequence[str]) -> tuple[str, str, str] | None:
    """The cell of a CSV file that does not convert: its column, its text, what was expected.

    Examples
    --------
    >>> message = "In CSV column #1: CSV conversion error to double: invalid value 'x'"
    >>> bad_cell(ValueError(message), ["a", "b"])
    ('b', 'x', 'a number')
    """
    found = _CONVERSION.search(str(error))
    if found is None or int(found[1]) >= len(names):
        return None
    kinds = {"to double": "a number", "to bool": "true or false, as in the rows before"}
    wanted = next((said for kind, said in kinds.items() if kind in found[0]), _OF_ROWS_BEFORE)
    return names[int(found[1])], found[2], wanted


def checked_schema(schema: Any) -> Any:
    """The schema itself, after its names and types were looked at: a file may hold any bytes."""
    for field in schema:
        _ = field.name, str(field.type)
    return schema


@contextmanager
def naming_defects(path: str, part: TablePart, columns: Sequence[str]) -> Iterator[None]:
    """Turn a model's refusal of a batch into a sentence that names file, part, column and row.

    Parameters
    ----------
    path : str
    part : TablePart
    columns : sequence of str
        The features that must be finite numbers; what is wrong is looked for in them.
    """
    try:
        yield
    except MissingExtraError:
        raise
    except (ValueError, TypeError) as error:  # kernelite's, or of a transformer in front
        problem = first_defect(part, columns)
        if problem is None:
            reason = str(error) if isinstance(error, KerneliteError) else reason_of(error)
            place = part.where
            if isinstance(error, InputError) and error.row is not None:
                place = f"{f'{place}, ' if place else ''}row {part.row_numbers()[error.row] + 1}"
                reason = error.problem
            problem = f"{place}: {reason}" if place else reason
        raise FileFormatError(path, without_stop(problem)) from None


def first_defect(part: TablePart, columns: Sequence[str], *, at: bool = True) -> str | None:
    """The first cell that no model takes, in words; with its row, unless not `at`."""
    place = f"{part.where}, " if part.where else ""
    for name in columns:
        index = part.batch.schema.get_field_index(name)
        found = None if index < 0 else _defect_of(part.batch.column(index))
        if found is not None:
            row, problem = found
            said = f", row {part.row_numbers()[row] + 1}" if at and row is not None else ""
            return f"{place}column {quote(name)}{said}: {problem}"
    return None


def _defect_of(column: Any) -> tuple[int | None, str] | None:
    """The first row of a column that no model takes, and why."""
    compute, kind = arrow("compute"), column.type
    if not is_numeric(kind):
        return None, f"it holds {kind}, expected numbers"
    if column.null_count:
        row = compute.index(compute.is_null(column), True).as_py()
        return row, "the value is missing (null); fill such rows or leave them out"
    if arrow().types.is_floating(kind):
        finite = compute.is_finite(column)
        row = compute.index(finite, False).as_py()
        if row >= 0:
            value = column[row].as_py()
            return row, f"the value is {value}, expected a finite number"
    return None


# Bytes that columns stand for: each of a few codes or views may be a text of megabytes.


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
