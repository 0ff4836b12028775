"""Dask: arrays, frames, bags of record batches and folders of Parquet, scored where they lie.

The model goes to each worker once, by the SHA-256 of its bytes; tasks carry only its name. Order,
divisions and chunks of rows stay; partitions without rows have the right types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.threads import one_thread
from kernelite.dask.cluster import carry, forget, model_counts, predict_files, require_dask
from kernelite.data.scoring.batch import answer, check_outputs, example
from kernelite.data.scoring.selection import resolve_columns
from kernelite.data.scoring.shipping import Options, Ticket, ship
from kernelite.data.tables.columnar.library import require_pyarrow
from kernelite.model import CompiledModel
from kernelite.support.errors import InputError

__all__ = ["forget", "model_counts", "predict", "predict_files"]


def predict(
    model: CompiledModel,
    collection: Any,
    /,
    *,
    columns: Sequence[str] | None = None,
    outputs: Sequence[str] = ("label",),
    keep: Sequence[str] | Literal["all"] = (),
    prefix: str = "",
) -> Any:
    """Labels, scores or probabilities of a Dask collection, computed where its parts lie.

    With a current `distributed.Client` the model is sent to each worker once, now; otherwise it is
    part of the graph. Every task uses one thread: Dask runs as many as there are cores.

    Parameters
    ----------
    model : CompiledModel
    collection : dask.array.Array of shape (m, d), dask.dataframe.DataFrame, or dask.bag.Bag
        A bag's items are pyarrow record batches.
    columns, outputs, keep, prefix
        As in `kernelite.data.scoring.BatchScorer`. Of arrays, one output can be had at a time.

    Returns
    -------
    dask.array.Array of shape (m,) or (m, columns), dask.dataframe.DataFrame, or dask.bag.Bag

    Examples
    --------
    >>> import dask.array
    >>> from sklearn.svm import SVC
    >>> import kernelite
    >>> fast = kernelite.compile(SVC().fit([[0.0, 1.0], [1.0, 0.0]], ["no", "yes"]))
    >>> rows = dask.array.from_array(np.array([[0.1, 0.9], [1.0, 0.2]]), chunks=(1, 2))
    >>> predict(fast, rows).compute(scheduler="synchronous").tolist()
    ['no', 'yes']
    """
    require_dask()
    shipment = ship(model)
    options = Options.of(columns, outputs, keep, prefix)
    check_outputs(model, options.outputs)
    kind = type(collection).__module__.partition(".")[2].partition(".")[0]
    if kind == "array":
        return _array(model, collection, options, carry(shipment))
    if kind == "dataframe":
        needed = collection[_needed(model, collection._meta, options)]
        meta = _score_frame(needed._meta, shipment, options)
        return needed.map_partitions(_score_frame, carry(shipment), options, meta=meta)
    if kind == "bag":
        return collection.map_partitions(_score_batches, carry(shipment), options)
    raise InputError(
        "`collection` must be a Dask array, a Dask data frame or a Dask bag of pyarrow record "
        f"batches, got {type(collection).__module__}.{type(collection).__qualname__}."
    )


def _array(model: CompiledModel, rows: Any, options: Options, carried: Any) -> Any:
    if len(options.outputs) != 1 or options.keep or options.columns or options.prefix:
        raise InputError(
            "an array has no named columns: ask for one of `outputs` at a time, without `columns`, "
            "`keep` and `prefix`."
        )
    if rows.ndim != 2 or rows.shape[1] != model.n_features_in_:
        raise InputError(
            f"`collection` must have shape (m, {model.n_features_in_}), got {rows.shape}."
        )
    rows = rows.rechunk({1: -1})
    output = options.outputs[0]
    shown = example(model, output)
    width, dtype = (None if shown.ndim == 1 else shown.shape[1]), shown.dtype
    arguments: dict[str, Any] = {"drop_axis": 1}
    if width is not None:
        arguments = {"chunks": (rows.chunks[0], (width,))}
    meta = np.empty((0,) if width is None else (0, 0), dtype=dtype)
    return rows.map_blocks(
        _score_block, carried=carried, wanted=output, dtype=dtype, meta=meta, **arguments
    )


def _needed(model: CompiledModel, frame: Any, options: Options) -> list[Any]:
    """The columns to read, in the frame's order; a file's others then stay where they are."""
    names = list(frame.columns)
    if options.keep == "all":
        return names
    schema = require_pyarrow().Schema.from_pandas(frame, preserve_index=False)
    features = resolve_columns(model, schema, options.columns)
    positions = {schema.get_field_index(name) for name in features}
    kept = [i for i, name in enumerate(names) if name in options.keep]
    return [names[i] for i in sorted(positions.union(kept))]


def _score_block(block: NDArray[Any], *, carried: Ticket, wanted: str) -> NDArray[Any]:
    with one_thread():
        return answer(carried.model(), wanted, block)[0]


def _score_frame(frame: Any, carried: Ticket, options: Options) -> Any:
    """A pandas partition; kept columns stay as they are, whatever their types."""
    import pandas

    pyarrow = require_pyarrow()
    schema = pyarrow.Schema.from_pandas(frame, preserve_index=False)
    carried.scorer(options).schema(schema)  # refuses what cannot be kept
    scorer = carried.scorer(replace(options, keep=()))
    features = resolve_columns(scorer.model, schema, options.columns)
    part = frame.iloc[:, [schema.get_field_index(name) for name in features]]
    with one_thread():
        found = scorer(pyarrow.RecordBatch.from_pandas(part, preserve_index=False)).to_pandas()
    found = found.set_axis(frame.index, axis=0)
    kept = frame if options.keep == "all" else frame[list(options.keep)]
    return pandas.concat([kept, found], axis=1) if kept.shape[1] else found


def _score_batches(batches: Iterable[Any], carried: Ticket, options: Options) -> list[Any]:
    with one_thread():
        return [carried.scorer(options)(batch) for batch in batches]
