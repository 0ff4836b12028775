"""Spark: a data frame in, the same rows with answers out, through `mapInArrow` or as a function.

Executors need kernelite installed. The model travels with the task (Spark broadcasts what is large)
and is unpacked once per Python worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from kernelite.backends.cpu.threads import one_thread
from kernelite.data.scoring.batch import answer, check_outputs, example
from kernelite.data.scoring.expected import expected_of
from kernelite.data.scoring.shipping import Shipment, ShippedScorer, ship
from kernelite.model import CompiledModel
from kernelite.support.errors import InputError, optional

__all__ = ["batch_iterator", "predict", "predict_udf"]


def predict(
    model: CompiledModel,
    frame: Any,
    /,
    *,
    columns: Sequence[str] | None = None,
    outputs: Sequence[str] = ("label",),
    keep: Sequence[str] | Literal["all"] = "all",
    prefix: str = "",
) -> Any:
    """A Spark data frame with the model's answers appended, lazily.

    Parameters
    ----------
    model : CompiledModel
    frame : pyspark.sql.DataFrame
    columns, outputs, keep, prefix
        As in `kernelite.data.scoring.BatchScorer`; all columns are kept by default, since rows
        have no other identity in Spark.

    Returns
    -------
    pyspark.sql.DataFrame
    """
    function = batch_iterator(model, columns=columns, outputs=outputs, keep=keep, prefix=prefix)
    return frame.mapInArrow(function, output_schema(function, frame.schema))


def batch_iterator(
    model: CompiledModel,
    /,
    *,
    columns: Sequence[str] | None = None,
    outputs: Sequence[str] = ("label",),
    keep: Sequence[str] | Literal["all"] = "all",
    prefix: str = "",
) -> BatchIterator:
    """The function for `mapInArrow`: record batches in, record batches out.

    Parameters
    ----------
    model : CompiledModel
    columns, outputs, keep, prefix
        As in `predict`.

    Returns
    -------
    BatchIterator

    Examples
    --------
    >>> import pyarrow
    >>> from sklearn.svm import SVC
    >>> import kernelite
    >>> fast = kernelite.compile(SVC().fit([[0.0, 1.0], [1.0, 0.0]], ["no", "yes"]))
    >>> batch = pyarrow.record_batch({"a": [0.1], "b": [1.0]})
    >>> [found.to_pydict() for found in batch_iterator(fast)([batch])]
    [{'a': [0.1], 'b': [1.0], 'label': ['no']}]
    """
    return BatchIterator.of(model, columns, outputs, keep, prefix)


class BatchIterator(ShippedScorer):
    """A model as a function of iterators of record batches; see `batch_iterator`."""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Score batch after batch, on one thread: Spark runs a task per core."""
        for batch in batches:
            with one_thread():
                scored = self.scorer(batch)
            yield scored


def predict_udf(model: CompiledModel, /, *, output: str = "label") -> Any:
    """One output as a `pandas_udf` of the feature columns, in the model's order.

    Parameters
    ----------
    model : CompiledModel
    output : {"label", "score", "probability", "decided"}
        An output of several columns becomes an array.

    Returns
    -------
    function
        For `frame.withColumn("label", function(*columns))` and for SQL, after registration.
    """
    functions = _spark("sql.functions")
    check_outputs(model, (output,))
    return functions.pandas_udf(_of_series(ship(model), output), _type_of(example(model, output)))


def output_schema(function: BatchIterator, schema: Any) -> Any:
    """The Spark schema of scored batches, from that of the frame."""
    types, conversion = _spark("sql.types"), _spark("sql.pandas.types")
    scored = function.scorer.schema(conversion.to_arrow_schema(schema))
    known, keep = {field.name: field for field in schema.fields}, function.options.keep
    kept = set(known if keep == "all" else keep)
    return types.StructType(
        [
            known[field.name]
            if field.name in kept
            else types.StructField(field.name, conversion.from_arrow_type(field.type))
            for field in scored
        ]
    )


def _of_series(shipment: Shipment, output: str) -> Callable[..., Any]:
    import pandas

    def score(*columns: Any) -> Any:
        model = shipment.model()
        if len(columns) != model.n_features_in_:
            raise InputError(
                f"{len(columns)} columns were passed, but this model has {model.n_features_in_} "
                "features."
            )
        with one_thread():
            found = answer(model, output, _rows_of(model, columns))[0]
        return pandas.Series(found if found.ndim == 1 else list(found))

    # Spark reads what kind of function it is from the types; pandas is loaded only here.
    score.__annotations__ = {"columns": pandas.Series, "return": pandas.Series}
    return score


def _rows_of(model: CompiledModel, columns: Sequence[Any]) -> Any:
    """The columns as rows of numbers, or as a frame where the model takes text by name."""
    expected = expected_of(model)
    if not expected.frames or expected.names is None:
        return np.stack([column.to_numpy(np.float64) for column in columns], axis=1)
    import pandas

    return pandas.DataFrame(dict(zip(expected.names, columns)))


def _type_of(values: Any) -> Any:
    types = _spark("sql.types")
    kinds = {
        "f": types.DoubleType,
        "i": types.LongType,
        "u": types.LongType,
        "b": types.BooleanType,
    }
    kind = kinds.get(values.dtype.kind, types.StringType)()
    return kind if values.ndim == 1 else types.ArrayType(kind)


def _spark(part: str) -> Any:
    need = "scoring with Spark needs pyspark"
    return optional(f"pyspark.{part}", need, "pyspark pandas pyarrow", "spark")
