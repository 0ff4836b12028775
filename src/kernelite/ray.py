"""Ray: the function for `map_batches`, a pyarrow table in, a pyarrow table out.

Workers need kernelite installed; the model is unpacked once per worker process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from kernelite.backends.cpu.threads import one_thread
from kernelite.data.scoring.shipping import ShippedScorer
from kernelite.data.tables.columnar.library import require_pyarrow
from kernelite.model import CompiledModel

__all__ = ["TableScorer", "predict", "table_scorer"]


def predict(
    model: CompiledModel,
    dataset: Any,
    /,
    *,
    columns: Sequence[str] | None = None,
    outputs: Sequence[str] = ("label",),
    keep: Sequence[str] | Literal["all"] = "all",
    prefix: str = "",
) -> Any:
    """A Ray dataset with the model's answers appended, lazily.

    Parameters
    ----------
    model : CompiledModel
    dataset : ray.data.Dataset
    columns, outputs, keep, prefix
        As in `kernelite.data.scoring.BatchScorer`; all columns are kept by default.

    Returns
    -------
    ray.data.Dataset
    """
    function = table_scorer(model, columns=columns, outputs=outputs, keep=keep, prefix=prefix)
    return dataset.map_batches(function, batch_format="pyarrow", zero_copy_batch=True)


def table_scorer(
    model: CompiledModel,
    /,
    *,
    columns: Sequence[str] | None = None,
    outputs: Sequence[str] = ("label",),
    keep: Sequence[str] | Literal["all"] = "all",
    prefix: str = "",
) -> TableScorer:
    """The function for `dataset.map_batches(..., batch_format="pyarrow")`.

    Parameters
    ----------
    model : CompiledModel
    columns, outputs, keep, prefix
        As in `predict`.

    Returns
    -------
    TableScorer

    Examples
    --------
    >>> import pyarrow
    >>> from sklearn.svm import SVC
    >>> import kernelite
    >>> fast = kernelite.compile(SVC().fit([[0.0, 1.0], [1.0, 0.0]], ["no", "yes"]))
    >>> table_scorer(fast, keep=())(pyarrow.table({"a": [0.1], "b": [1.0]})).to_pydict()
    {'label': ['no']}
    """
    return TableScorer.of(model, columns, outputs, keep, prefix)


class TableScorer(ShippedScorer):
    """A model as a function of pyarrow tables; see `table_scorer`."""

    def __call__(self, table: Any) -> Any:
        """Score a table, on one thread: Ray runs a task per core."""
        scorer = self.scorer
        with one_thread():
            batches = [scorer(batch) for batch in table.to_batches()]
        return require_pyarrow().Table.from_batches(batches, scorer.schema(table.schema))
