"""What a model answers, as named columns; and `BatchScorer`: record batch in, record batch out.

In: a model and rows. Out: `label` (of regressors `prediction`, of transforms `component_0`, ...),
`score` or `score_<class>`, `probability_<class>`, `decided`. Nothing else is asked of any engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.data.scoring.expected import (
    Expected,
    check_takes_rows,
    example_rows,
    expected_of,
    feature_blocks,
    named_rows,
)
from kernelite.data.scoring.selection import listed, resolve_columns
from kernelite.data.tables.columnar.library import require_pyarrow
from kernelite.data.tables.parsing import quote
from kernelite.model import CompiledModel
from kernelite.model.serving import OnInvalid
from kernelite.program.bounded import Stats
from kernelite.support.errors import InputError

__all__ = [
    "OUTPUTS",
    "BatchScorer",
    "answer",
    "check_outputs",
    "column_names",
    "example",
    "label_text",
]

OUTPUTS = ("label", "score", "probability", "decided")
Answer: TypeAlias = tuple[NDArray[Any], Stats | None]
Method: TypeAlias = "Callable[..., Answer]"  # of rows, and on_invalid and beyond by name


def check_outputs(model: CompiledModel, outputs: Sequence[str]) -> tuple[str, ...]:
    """The names of the wanted outputs, or an error that says which the model has.

    Parameters
    ----------
    model : CompiledModel
    outputs : sequence of {"label", "score", "probability", "decided"}

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> import kernelite
    >>> fast = kernelite.compile(SVC().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1]))
    >>> check_outputs(fast, ["label", "probability"])
    Traceback (most recent call last):
    kernelite.InputError: this model has no output 'probability'; ... label, score, decided.
    """
    if isinstance(outputs, str):
        outputs = (outputs,)
    if not outputs:
        raise InputError(f"`outputs` must name at least one of {', '.join(OUTPUTS)}.")
    known = [name for name in OUTPUTS if _METHODS[name](model) is not None]
    for name in outputs:
        if name not in known:
            raise InputError(
                f"this model has no output {name!r}; those it has are: {', '.join(known)}."
            )
    return tuple(dict.fromkeys(outputs))


def answer(
    model: CompiledModel,
    output: str,
    rows: Any,
    on_invalid: OnInvalid | None = None,
    beyond: FloatArray | None = None,
) -> Answer:
    """One output for a block of rows, shape (m,) or (m, columns), and stats where it has them.

    Parameters
    ----------
    model : CompiledModel
    output : {"label", "score", "probability", "decided"}
    rows : array, sparse array or data frame of shape (m, d)
    on_invalid : {"warn", "raise", "ignore"}, optional
    beyond : ndarray of shape (m,), optional
        Squared norms of the features beyond the model's width.
    """
    method = _METHODS[output](model)
    assert method is not None
    if isinstance(rows, np.ndarray):
        expected = expected_of(model)
        if expected.frames and expected.names is not None:  # a transformer may select by name
            rows = named_rows(rows, expected.names)
    options = {"on_invalid": on_invalid} | ({} if beyond is None else {"beyond": beyond})
    return method(rows, **options)


def example(model: CompiledModel, output: str) -> NDArray[Any]:
    """An output for one row of any content: what shows its shape and type.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> import kernelite
    >>> fast = kernelite.compile(SVC().fit([[0.0, 1.0], [1.0, 0.0]], ["no", "yes"]))
    >>> example(fast, "label").dtype
    dtype('<U3')
    """
    return answer(model, output, example_rows(model), "ignore")[0]


def column_names(model: CompiledModel, output: str, n_columns: int | None) -> list[str]:
    """The columns of one output.

    Parameters
    ----------
    model : CompiledModel
    output : str
    n_columns : int, optional
        How many there are; None for an answer of one dimension.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> import kernelite
    >>> X, y = load_iris(return_X_y=True)
    >>> fast = kernelite.compile(SVC().fit(X, y), X)
    >>> column_names(fast, "label", None), column_names(fast, "score", 3)
    (['label'], ['score_0', 'score_1', 'score_2'])
    """
    stem = _stem(model, output)
    if n_columns is None:
        return [stem]
    names = _class_names(model, output)
    if names is None or len(names) != n_columns or len(set(names)) != n_columns:
        names = [str(number) for number in range(n_columns)]
    return [f"{stem}_{name}" for name in names]


def _stem(model: CompiledModel, output: str) -> str:
    if output != "label":
        return output
    names = {"regressor": "prediction", "transform": "component", "density": "score"}
    return names.get(model.head.kind, "label")


def _class_names(model: CompiledModel, output: str) -> list[str] | None:
    head = model.head
    if head.kind == "outlier":
        return ["normal", "outlier"]  # svm-predict's words
    classes = head.classes
    if classes is None or output == "label":
        return None
    if isinstance(classes, list):  # several outputs, each with labels of its own
        return [f"{i}_{label}" for i, labels in enumerate(classes) for label in labels.tolist()]
    labels = [label_text(label) for label in classes.tolist()]
    pairs = head.scores_are_pairs and head.decides_by_scores
    if output == "score" and pairs and len(labels) > 2:
        return [f"{a}_vs_{b}" for i, a in enumerate(labels) for b in labels[i + 1 :]]
    return labels


def label_text(label: Any) -> str:
    """A label or value with all its digits, as svm-predict's %.17g.

    Examples
    --------
    >>> label_text(1.0), label_text(0.1), label_text("yes")
    ('1', '0.10000000000000001', 'yes')
    """
    return f"{label:.17g}" if isinstance(label, float) else str(label)


# How each output is had; None where the model has it not ------------------------------------------


def _label(model: CompiledModel) -> Method | None:
    if "predict" in model.offers:
        return lambda rows, **options: model.predict(rows, return_stats=True, **options)
    name = "transform" if "transform" in model.offers else "score_samples"
    method = getattr(model, name)
    return lambda rows, **options: (np.asarray(method(rows, **options)), None)


def _score(model: CompiledModel) -> Method | None:
    if "decision_function" not in model.offers:
        return None
    return lambda rows, **options: (model.decision_function(rows, **options), None)


def _probability(model: CompiledModel) -> Method | None:
    if "predict_proba" not in model.offers:
        return None

    def probabilities(rows: Any, **options: Any) -> Answer:
        found: Any = model.predict_proba(rows, **options)
        return (np.hstack(found) if isinstance(found, list) else found), None

    return probabilities


def _decided(model: CompiledModel) -> Method | None:
    """Rows whose label is proven to be the exact model's."""
    if not model.head.proves_labels:
        return None
    if "predict" in model.head.needs_posterior:
        return None  # such labels are computed exactly, and not proven
    forms = [model.approximation, *(part.model.approximation for part in model.parts)]
    uncertified = any(form is not None and not form.certified for form in forms)
    if model.guarantee == "calibrated" or (model.guarantee == "none" and uncertified):
        return None  # statistical, or nothing is known
    return lambda rows, beyond=None, **_: (model.decided(rows, beyond=beyond), None)


_METHODS: dict[str, Callable[[CompiledModel], Method | None]] = {
    "label": _label,
    "score": _score,
    "probability": _probability,
    "decided": _decided,
}


@dataclass(frozen=True, eq=False)
class BatchScorer:
    """A model as a function of record batches; it can be pickled.

    Parameters
    ----------
    model : CompiledModel
    columns : sequence of str, optional
        Feature columns; see `kernelite.data.scoring.resolve_columns`.
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
    _expected: Expected = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_takes_rows(self.model)
        object.__setattr__(self, "outputs", check_outputs(self.model, self.outputs))
        object.__setattr__(self, "_expected", expected_of(self.model))

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
        """The same, with how many rows each stage decided (where labels were asked for).

        Parameters
        ----------
        batch : pyarrow.RecordBatch

        Returns
        -------
        (pyarrow.RecordBatch, Stats)
        """
        features = resolve_columns(self.model, batch.schema, self.columns)
        schema = self.schema(batch.schema)  # refuses what cannot be kept, before any work
        batches, total = [], Stats()
        for first, block in feature_blocks(batch, features, self._expected):
            try:
                answers, stats = self.answers(block)
            except ValueError:
                _explain(block, features, first)
                raise
            total += stats
            batches.append(self.assemble(batch.slice(first, len(block)), answers))
        whole = require_pyarrow().Table.from_batches(batches, schema).combine_chunks()
        return (whole.to_batches() or [self._empty(schema)])[0], total

    def answers(
        self, rows: Any, beyond: FloatArray | None = None
    ) -> tuple[list[NDArray[Any]], Stats]:
        """Every output for rows as the model takes them, and how they were decided.

        Parameters
        ----------
        rows : array, sparse array or data frame of shape (m, d)
        beyond : ndarray of shape (m,), optional
            Squared norms of the features beyond the model's width.

        Returns
        -------
        (list of ndarray of shape (m,) or (m, columns), Stats)
        """
        found, total = [], Stats()
        for output in self.outputs:
            values, stats = answer(self.model, output, rows, self.on_invalid, beyond)
            found.append(values)
            total += stats if stats is not None else Stats()
        return found, total

    def assemble(self, batch: Any, answers: Sequence[NDArray[Any]]) -> Any:
        """The kept columns of a batch (None: there are no columns) and its answers, as a batch."""
        pyarrow = require_pyarrow()
        kept = [] if batch is None else self._kept(batch.schema)
        arrays = [batch.column(batch.schema.get_field_index(name)) for name in kept]
        fields = [batch.schema.field(name) for name in kept]
        columns = (column for table in answers for column in table.reshape(len(table), -1).T)
        for appended, column in zip(self._appended, columns):
            arrays.append(pyarrow.array(np.ascontiguousarray(column), type=appended.type))
            fields.append(appended)
        return pyarrow.RecordBatch.from_arrays(arrays, schema=pyarrow.schema(fields))

    def schema(self, input_schema: Any = None) -> Any:
        """What comes out of batches of a schema, without any data.

        Parameters
        ----------
        input_schema : pyarrow.Schema, optional
            None for rows that are no columns.

        Returns
        -------
        pyarrow.Schema
        """
        fields = []
        if input_schema is not None:
            resolve_columns(self.model, input_schema, self.columns)
            fields = [input_schema.field(name) for name in self._kept(input_schema)]
        taken = {column.name for column in fields}
        for appended in self._appended:
            if appended.name in taken:
                raise InputError(
                    f"there is a column `{appended.name}` already, kept from the input; give the "
                    "appended ones a `prefix`, or do not keep it."
                )
            fields.append(appended)
            taken.add(appended.name)
        # What pandas wrote about the input is no longer true.
        return require_pyarrow().schema(fields)

    @cached_property
    def _appended(self) -> list[Any]:
        """The columns that answers become, as pyarrow fields, as one row shows them."""
        pyarrow, fields = require_pyarrow(), []
        for output in self.outputs:
            values = example(self.model, output)
            width = None if values.ndim == 1 else values.reshape(1, -1).shape[1]
            kind = pyarrow.array(values.ravel()).type
            for name in column_names(self.model, output, width):
                fields.append(pyarrow.field(self.prefix + name, kind))
        return fields

    def _empty(self, schema: Any) -> Any:
        pyarrow = require_pyarrow()
        arrays = [pyarrow.array([], type=field.type) for field in schema]
        return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)

    def _kept(self, schema: Any) -> list[str]:
        if self.keep == "all":
            return list(schema.names)
        for name in self.keep:
            if schema.get_field_index(name) < 0:
                raise InputError(
                    f"there is no column {quote(name)} to keep; those there are: "
                    f"{listed(schema.names)}."
                )
        return list(self.keep)


def _explain(block: Any, features: Sequence[str], first_row: int) -> None:
    """Name the first value that is NaN or infinite, if one is why the model refused."""
    if not isinstance(block, np.ndarray) or block.dtype.kind != "f":
        return  # a frame, of which a transformer decides what it takes
    bad = np.argwhere(~np.isfinite(block))
    if len(bad):
        row, column = bad[0]
        raise InputError(
            f"column `{features[column]}` has NaN or infinity (first in row {first_row + row}, "
            "counted from 0); fill or drop such rows."
        ) from None
