"""BatchScorer: a record batch in, a record batch out; nothing else is asked of any engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from kernelite.errors import InputError
from kernelite.model import CompiledModel
from kernelite.model.validity import OnInvalid
from kernelite.program.stats import Stats
from kernelite.scoring.outputs import (
    answer,
    check_outputs,
    column_names,
    example,
    keeps_transformer,
)
from kernelite.tables.columnar.columns import feature_blocks, require_pyarrow, resolve_columns

__all__ = ["BatchScorer"]


@dataclass(frozen=True, eq=False)
class BatchScorer:
    """A model as a function of record batches; it can be pickled.

    Parameters
    ----------
    model : CompiledModel
    columns : sequence of str, optional
        Feature columns; see `kernelite.scoring.resolve_columns`.
    outputs : sequence of {"label", "score", "probability", "decided"}
        What is appended, in this order: `label` (`prediction` of a regressor, `component_0`, ... of
        a transform, `score` of a density); `score`, or `score_<class>` each; `probability_<class>`
        each; `decided`, true where the label is proven to be the exact model's.
    keep : sequence of str, or "all"
        Input columns that come before them.
    prefix : str
        Put before the appended names, for data that have columns of such names already.
    on_invalid : {"warn", "raise", "ignore"}, optional
        As for `CompiledModel.predict`.

    Examples
    --------
    >>> import pyarrow
    >>> from sklearn.svm import SVC
    >>> import kernelite
    >>> fast = kernelite.compile(SVC().fit([[0.0, 1.0], [1.0, 0.0]], ["no", "yes"]))
    >>> scorer = BatchScorer(fast, columns=["a", "b"], keep=["id"])
    >>> batch = pyarrow.record_batch({"id": [7, 8], "a": [0.1, 0.9], "b": [1.0, 0.2]})
    >>> scorer(batch).to_pydict()
    {'id': [7, 8], 'label': ['no', 'yes']}
    """

    model: CompiledModel
    columns: Sequence[str] | None = None
    outputs: Sequence[str] = ("label",)
    keep: Sequence[str] | Literal["all"] = ()
    prefix: str = ""
    on_invalid: OnInvalid | None = None
    _appended: tuple[tuple[str, list[str], Any], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        outputs = check_outputs(self.model, self.outputs)
        object.__setattr__(self, "outputs", outputs)
        object.__setattr__(self, "_appended", tuple(map(self._describe, outputs)))

    def __call__(self, batch: Any) -> Any:
        """The kept columns and the answers, shape (m, columns).

        Parameters
        ----------
        batch : pyarrow.RecordBatch

        Returns
        -------
        pyarrow.RecordBatch
        """
        return self.score(batch)[0]

    def score(self, batch: Any) -> tuple[Any, Stats]:
        """The same, with how many rows each tier decided (where labels were asked for).

        Parameters
        ----------
        batch : pyarrow.RecordBatch

        Returns
        -------
        (pyarrow.RecordBatch, Stats)
        """
        pyarrow = require_pyarrow()
        schema = self.schema(batch.schema)
        features = resolve_columns(self.model, batch.schema, self.columns)
        parts, stats = self._answers(batch, features)
        kept = [batch.column(batch.schema.get_field_index(name)) for name in self._kept(batch)]
        arrays = []
        for (_, names, kind), found in zip(self._appended, parts):
            whole = np.concatenate(found) if found else np.empty((0, len(names)))
            for column in whole.reshape(len(whole), len(names)).T:
                values: Any = np.ascontiguousarray(column) if len(column) else []
                arrays.append(pyarrow.array(values, type=kind))
        return pyarrow.RecordBatch.from_arrays([*kept, *arrays], schema=schema), stats

    def schema(self, input_schema: Any) -> Any:
        """What comes out of batches of a schema, without any data.

        Parameters
        ----------
        input_schema : pyarrow.Schema

        Returns
        -------
        pyarrow.Schema
        """
        pyarrow = require_pyarrow()
        resolve_columns(self.model, input_schema, self.columns)
        fields = [input_schema.field(name) for name in self._kept(input_schema)]
        taken = {column.name for column in fields}
        for _, names, kind in self._appended:
            for name in names:
                if name in taken:
                    raise InputError(
                        f"there is a column `{name}` already, kept from the input; give the "
                        "appended ones a `prefix`, or do not keep it."
                    )
                fields.append(pyarrow.field(name, kind))
                taken.add(name)
        return pyarrow.schema(fields)  # what pandas wrote about the input is no longer true

    def _answers(self, batch: Any, features: list[str]) -> tuple[list[list[Any]], Stats]:
        parts: list[list[Any]] = [[] for _ in self.outputs]
        total, nulls_pass = Stats(), keeps_transformer(self.model)
        for first, block in feature_blocks(batch, features, nulls_pass=nulls_pass):
            try:
                for found, output in zip(parts, self.outputs):
                    values, stats = answer(self.model, output, block, self.on_invalid)
                    found.append(values)
                    total += stats if stats is not None else Stats()
            except ValueError:
                _explain(block, features, first)
                raise
        return parts, total

    def _kept(self, batch_or_schema: Any) -> list[str]:
        schema = getattr(batch_or_schema, "schema", batch_or_schema)
        if self.keep == "all":
            return list(schema.names)
        for name in self.keep:
            if schema.get_field_index(name) < 0:
                raise InputError(
                    f"there is no column `{name}` to keep; those there are: "
                    f"{', '.join(schema.names[:10])}."
                )
        return list(self.keep)

    def _describe(self, output: str) -> tuple[str, list[str], Any]:
        """Names and type of an output's columns, as one row of zeros shows them."""
        pyarrow = require_pyarrow()
        values = example(self.model, output)
        columns = column_names(
            self.model, output, None if values.ndim == 1 else values.reshape(1, -1).shape[1]
        )
        return output, [self.prefix + name for name in columns], pyarrow.array(values.ravel()).type


def _explain(block: Any, features: Sequence[str], first_row: int) -> None:
    """Name the first value that is NaN or infinite, if one is why the model refused."""
    bad = np.argwhere(~np.isfinite(block))
    if len(bad):
        row, column = bad[0]
        raise InputError(
            f"column `{features[column]}` has NaN or infinity (first in row {first_row + row}, "
            "counted from 0); fill or drop such rows before predicting."
        ) from None
