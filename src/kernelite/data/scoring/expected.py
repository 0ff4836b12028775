"""What a model takes of each column, numbers or text, and a record batch as the rows it takes.

In: a model; a batch of columns. Out: float64 blocks of shape (rows, d), C-contiguous, or data
frames of shape (rows, d) where a transformer in front of the model sees columns by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, row_blocks, rows_within
from kernelite.data.tables.columnar.library import arrow, is_numeric, require_pyarrow
from kernelite.support.errors import InputError, MissingExtraError

__all__ = [
    "Expected",
    "check_takes_rows",
    "example_rows",
    "expected_of",
    "feature_blocks",
    "named_rows",
]

_BLANKS = (  # what pandas and pyarrow take for missing in CSV
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("N/A", "NA", "NULL", "NaN", "n/a", "nan", "null", "<NA>", "None"),
)


@dataclass(frozen=True, eq=False)
class Expected:
    """What a model takes of its columns.

    Parameters
    ----------
    names : tuple of str, optional
        The columns it was fitted on.
    frames : bool
        Whether a transformer sees the rows first, by the names of columns; it decides about text
        and missing values. Otherwise rows are finite numbers.
    text : dict of str to ndarray, or None
        Columns that hold text, with the categories that are known; None where any text will do.
    numbers : dict of str to float
        Columns that must hold numbers, each with one that is known. Of those in neither, the file's
        own type counts.
    unused : frozenset of str
        Columns that were there in fit and that no transformer looks at.
    typed : bool
        Whether the format has types. In CSV an empty cell, or NA, stands for a missing text, as
        for pandas, unless it is a category that is known.
    by_name : bool
        Whether nothing but columns with names will do.
    """

    names: tuple[str, ...] | None = None
    frames: bool = False
    text: Mapping[str, NDArray[Any] | None] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    unused: frozenset[str] = frozenset()
    typed: bool = True
    by_name: bool = False

    def blanks(self, name: str) -> list[str]:
        """Texts that stand for a missing one, where the format cannot tell."""
        known = self.text.get(name)
        taken = set() if known is None else {c for c in known.tolist() if isinstance(c, str)}
        return [text for text in _BLANKS if text not in taken]

    def missing(self, name: str) -> Any:
        """What stands for a missing text: the encoder's own category for it, or NaN."""
        known = self.text.get(name)
        if known is None or any(value != value for value in known):
            return np.nan
        return next((value for value in known if value is None or value == ""), np.nan)


def expected_of(model: Any) -> Expected:
    """What a model takes of its columns, as far as its transformers tell.

    Parameters
    ----------
    model : CompiledModel, or anything with its `origin`, `preparation` and `parts`

    Returns
    -------
    Expected

    Examples
    --------
    >>> import numpy as np, pandas, kernelite
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> from sklearn.svm import SVC
    >>> frame = pandas.DataFrame({"city": ["Rome", "Oslo", "Rome"]})
    >>> fast = kernelite.compile(make_pipeline(OneHotEncoder(), SVC()).fit(frame, [0, 1, 0]), frame)
    >>> expected_of(fast).text
    {'city': array(['Oslo', 'Rome'], dtype=object)}
    """
    names = model.origin.feature_names
    machines = [model, *(part.model for part in getattr(model, "parts", ()))]
    steps = [one.preparation.steps[0] for one in machines if not one.preparation.rowwise]
    if not steps:
        return Expected(names)
    text: dict[str, NDArray[Any] | None] = {}
    numbers: dict[str, float] = {}
    unused = set(names or ())
    for first in steps if names is not None else ():
        step = getattr(first, "transformer", first)
        found = _categories(step, names)
        for name, categories in found.items():
            if categories is not None and _are_numbers(categories):
                numbers[name] = float(categories[0])
            elif categories is None or _is_text(categories):
                text[name] = categories
        numbers = dict.fromkeys(_scaled(step, names) - found.keys(), 0.0) | numbers
        unused -= _seen(step, names)
    by_name = any(getattr(first, "by_name", False) == "only" for first in steps)
    return Expected(names, True, text, numbers, frozenset(unused), by_name=by_name)


def named_rows(rows: Any, names: Sequence[str]) -> Any:
    """Rows of numbers as a data frame."""
    return _pandas().DataFrame(rows, columns=list(names))


def feature_blocks(
    batch: Any, columns: Sequence[str], expected: Expected | None = None
) -> Iterator[tuple[int, Any]]:
    """The values of some columns in blocks of rows, each with the number of its first row.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
    columns : sequence of str
    expected : Expected, optional
        Of the model; by default rows are numbers, none of them missing.

    Yields
    ------
    (int, ndarray or pandas.DataFrame of shape (rows, d))

    Examples
    --------
    >>> import pyarrow
    >>> batch = pyarrow.record_batch({"a": [1, 2], "b": [0.5, 1.5]})
    >>> [(first, block.tolist()) for first, block in feature_blocks(batch, ["b", "a"])]
    [(0, [[0.5, 1.0], [1.5, 2.0]])]
    """
    expected = expected or Expected()
    arrays = [batch.column(batch.schema.get_field_index(name)) for name in columns]
    if not expected.frames:
        _check_complete(columns, arrays)
    for block in row_blocks(batch.num_rows, rows_within(len(columns))):
        rows = block.stop - block.start
        parts = [array.slice(block.start, rows) for array in arrays]
        yield block.start, _rows(parts, rows, expected)


def check_takes_rows(model: Any) -> None:
    """Refuse a model of documents, which no table can hold."""
    if not hasattr(model, "n_features_in_"):
        raise InputError(
            "this model takes documents, not a table of columns, so files of columns cannot be "
            "predicted; pass lists of text to its `predict` in Python."
        )


def example_rows(model: Any) -> Any:
    """One row that the model takes, of whatever content: it shows the shape of answers."""
    expected = expected_of(model)
    if not expected.frames or expected.names is None:
        return np.zeros((1, model.n_features_in_))
    columns = {name: [expected.numbers.get(name, 0.0)] for name in expected.names}
    columns |= {name: [_first(known)] for name, known in expected.text.items()}
    return _pandas().DataFrame(columns)


# Columns of a batch as what a model takes ---------------------------------------------------------


def _check_complete(columns: Sequence[str], arrays: Sequence[Any]) -> None:
    for name, array in zip(columns, arrays):
        if array.null_count:
            first = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
            raise InputError(
                f"column `{name}` has {array.null_count:,} nulls (first in row {first}, counted "
                "from 0); fill or drop such rows."
            )


def _floats(array: Any) -> FloatArray:
    """A column as float64; its own memory where it is that already and has no nulls."""
    pyarrow = require_pyarrow()
    if pyarrow.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type != pyarrow.float64():
        array = array.cast(pyarrow.float64(), safe=False)
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)


def _rows(parts: Sequence[Any], n_rows: int, expected: Expected) -> Any:
    """Rows of numbers; or columns, by name if the model knows names."""
    if expected.frames and expected.names is not None:
        return _pandas().DataFrame(
            {name: _values(part, name, expected) for name, part in zip(expected.names, parts)}
        )
    if all(is_numeric(part.type) for part in parts):
        values = [_floats(part) for part in parts]
        return np.stack(values, axis=1) if values else np.empty((n_rows, 0))
    return np.stack([np.asarray(_values(p, "", expected), dtype=object) for p in parts], axis=1)


def _values(array: Any, name: str, expected: Expected) -> Any:
    pyarrow = require_pyarrow()
    if pyarrow.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pyarrow.types.is_string(array.type) or pyarrow.types.is_large_string(array.type):
        return _texts(array, name, expected)
    if name in expected.numbers or pyarrow.types.is_floating(array.type):
        return _floats(array)
    if is_numeric(array.type):
        # Whole numbers and truth values stay such, if none is missing.
        return _floats(array) if array.null_count else array.to_numpy(zero_copy_only=False)
    values = array.to_pandas()
    return values.where(values.notna(), np.nan) if values.dtype == object else values


def _texts(array: Any, name: str, expected: Expected) -> Any:
    """A column of text, what is missing as the model knows it."""
    if not expected.typed:
        blanks = arrow("compute").is_in(array, arrow().array(expected.blanks(name), array.type))
        array = arrow("compute").if_else(blanks, arrow().scalar(None, array.type), array)
    missing = expected.missing(name) if array.null_count else np.nan
    if missing == "":
        array = array.fill_null("")
    values = array.to_pandas()
    if missing is None or (values.dtype == object and array.null_count):
        values = values.astype(object).where(values.notna(), missing)
    return values


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise MissingExtraError(
            "this model takes columns by name, as a data frame: pip install pandas."
        ) from None
    return pandas


# What the transformers in front of a model know ---------------------------------------------------


def _categories(transformer: Any, names: Sequence[str]) -> dict[str, NDArray[Any] | None]:
    """Columns that an encoder sees, with its categories; None for those of which any text will do.

    Looks into pipelines, unions and column transformers.
    """
    found: dict[str, NDArray[Any] | None] = {}
    for inner, columns in _inside(transformer, names):
        for name, values in _categories(inner, columns).items():
            found[name] = found.get(name) if values is None else values
    known = _known(transformer)
    if known is not None and len(known) == len(names):
        found |= dict(zip(names, known))
    elif hasattr(transformer, "build_analyzer") and len(names) == 1:  # counts words
        found[names[0]] = None
    # Of an imputer.
    fills = getattr(transformer, "statistics_", getattr(transformer, "fills", None))
    if fills is not None and len(fills) == len(names):
        found |= {name: None for name, fill in zip(names, fills) if isinstance(fill, str)}
    return found


def _known(transformer: Any) -> list[NDArray[Any]] | None:
    """An encoder's categories, column by column: scikit-learn's, or those of a folded step."""
    known = getattr(transformer, "categories_", None)
    if isinstance(known, list):
        return [np.asarray(values) for values in known]
    tables = getattr(transformer, "columns", None)
    if isinstance(tables, tuple) and all(hasattr(table, "places") for table in tables):
        return [np.array(table.values, dtype=object) for table in tables]
    return None


def _inside(transformer: Any, names: Sequence[str]) -> Iterator[tuple[Any, Sequence[str]]]:
    """The transformers within one, with the columns that each is given."""
    if hasattr(transformer, "transformers_"):
        for _, inner, chosen in transformer.transformers_:
            if inner != "drop":
                yield inner, _chosen(chosen, names)
    elif hasattr(transformer, "branches"):  # the same, folded
        for branch in transformer.branches:
            yield branch, [names[place] for place in branch.columns.tolist()]
    elif hasattr(transformer, "transformer_list"):
        for _, inner in transformer.transformer_list:
            yield inner, names
    elif hasattr(transformer, "steps"):
        for step in reversed(transformer.steps):  # what the first one says counts
            inner = step[1] if isinstance(step, tuple) else step
            width = getattr(inner, "n_features_in_", getattr(inner, "n_features", len(names)))
            if width == len(names):
                yield inner, names


def _chosen(columns: Any, names: Sequence[str]) -> list[str]:
    if isinstance(columns, str):
        return [columns]
    if isinstance(columns, slice):
        start, stop = (
            list(names).index(end) + more if isinstance(end, str) else end
            for end, more in ((columns.start, 0), (columns.stop, 1))  # the last name is included
        )
        return list(names[start:stop])
    chosen = np.atleast_1d(np.asarray(columns))
    if chosen.dtype.kind in "biu":
        return [str(name) for name in np.asarray(names, dtype=object)[chosen]]
    return [str(name) for name in chosen]


def _scaled(transformer: Any, names: Sequence[str]) -> set[str]:
    """Columns that a scaler sees, or any folded step: they are numbers or categories."""
    found: set[str] = set()
    for inner, columns in _inside(transformer, names):
        found |= set(columns) if hasattr(transformer, "branches") else _scaled(inner, columns)
    return found | set(names) if hasattr(transformer, "scale_") else found


def _seen(transformer: Any, names: Sequence[str]) -> set[str]:
    """Columns that a column transformer gives to others; of anything else, all of them."""
    if not (hasattr(transformer, "transformers_") or hasattr(transformer, "branches")):
        return set(names)
    return {name for _, columns in _inside(transformer, names) for name in columns}


def _are_numbers(categories: NDArray[Any]) -> bool:
    kinds = {type(category) for category in categories.tolist()}
    return categories.dtype.kind in "iuf" or (bool(kinds) and kinds <= {int, float})


def _is_text(categories: NDArray[Any]) -> bool:
    return categories.dtype.kind in "US" or any(isinstance(c, str) for c in categories.tolist())


def _first(categories: NDArray[Any] | None) -> Any:
    """A category that is text."""
    known = [] if categories is None else categories.tolist()
    return next((value for value in known if isinstance(value, str)), "")
