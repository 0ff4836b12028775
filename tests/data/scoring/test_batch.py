"""Record batches against the model's own methods, for every kind of model."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC

import kernelite as kl
from kernelite.data.scoring import BatchScorer, resolve_columns
from kernelite.data.scoring.batch import OUTPUTS, check_outputs
from kernelite.support.errors import InputError
from tests.models import compiled, fitted

pa = pytest.importorskip("pyarrow")

KINDS = [
    "svc binary strings, raw scale",
    "svc binary booleans",
    "svc iris ovo",
    "svc wine probability",
    "svc iris strings, frame",
    "oneclass cancer",
    "svr diabetes",
    "ridge linnerud three targets",
    "density iris",
    "pca iris",
    "gpc iris one vs rest",
    "pipeline pca frame",
    "pipeline columns",
    "outputs labels",
    "one vs rest labels",
]


def batch_of(X: Any) -> Any:
    values = np.asarray(X, dtype=np.float64)
    names = [str(name) for name in getattr(X, "columns", range(values.shape[1]))]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in values.T.copy()], names=names)


def possible(model: kl.CompiledModel) -> list[str]:
    found = []
    for output in OUTPUTS:
        try:
            found += check_outputs(model, (output,))
        except InputError:
            continue
    return found


@pytest.mark.parametrize("name", KINDS)
def test_columns_are_what_the_methods_return(name: str) -> None:
    X, model = fitted(name)[1], compiled(name)
    outputs = possible(model)
    assert "label" in outputs
    scorer = pickle.loads(pickle.dumps(BatchScorer(model, outputs=outputs)))
    batch = batch_of(X)
    result = scorer(batch)
    assert result.schema == scorer.schema(batch.schema)
    methods = {
        "label": next(m for m in ("predict", "transform", "score_samples") if m in model.offers),
        "score": "decision_function",
        "probability": "predict_proba",
    }
    expected = []
    for output in outputs:
        if output == "decided":
            expected.append(np.ones((len(X), 1), dtype=bool))
            continue
        values = getattr(model, methods[output])(X)
        values = np.hstack(values) if isinstance(values, list) else values
        expected.append(np.asarray(values).reshape(len(X), -1))
    columns = [column for table in expected for column in table.T]
    assert len(columns) == result.num_columns
    for column, got in zip(columns, result.columns):
        np.testing.assert_array_equal(np.asarray(got), column)


@pytest.mark.parametrize("name", KINDS)
def test_an_empty_batch_has_the_same_types(name: str) -> None:
    X, model = fitted(name)[1], compiled(name)
    scorer = BatchScorer(model, outputs=possible(model), keep="all")
    batch = batch_of(X)
    assert scorer(batch.slice(0, 0)).schema == scorer(batch).schema


@pytest.fixture(scope="module")
def model() -> kl.CompiledModel:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return kl.compile(SVC(gamma=0.1).fit(X, np.where(X[:, 0] > 0, "up", "down")), X)


@pytest.fixture(scope="module")
def batch() -> Any:
    rng = np.random.default_rng(1)
    columns = {name: rng.normal(size=1000) for name in "abc"}
    return pa.record_batch({"id": np.arange(1000), **columns})


def test_blocks_do_not_show(
    model: kl.CompiledModel, batch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = BatchScorer(model, columns=list("abc"), outputs=("label", "score"))
    whole = scorer(batch)
    monkeypatch.setattr("kernelite.data.rows.inputs.NUMBERS_PER_BLOCK", 100)
    assert scorer(batch).column("label") == whole.column("label")
    # Which stage settles a row depends on the rows beside it; all keep the tolerance.
    tolerance = model.score_tolerance
    assert tolerance is not None
    gaps = np.subtract(scorer(batch).column("score"), whole.column("score"))
    assert np.abs(gaps).max() <= 2 * tolerance[0]


def test_kinds_of_numbers_are_taken(model: kl.CompiledModel) -> None:
    mixed = pa.record_batch(
        {
            "a": pa.array([1, 2], pa.int8()),
            "b": pa.array([True, False]),
            "c": pa.array([0.5, 0.25], pa.float32()).dictionary_encode(),
        }
    )
    expected = model.predict(np.array([[1, 1, 0.5], [2, 0, 0.25]]))
    assert BatchScorer(model)(mixed).column("label").to_pylist() == expected.tolist()


def test_stats_say_how_rows_were_decided(model: kl.CompiledModel, batch: Any) -> None:
    stats = BatchScorer(model, columns=list("abc")).score(batch)[1]
    assert stats.rows == 1000 == sum(stats.stages.values())


def test_kept_columns_come_first(model: kl.CompiledModel, batch: Any) -> None:
    kept = BatchScorer(model, columns=list("abc"), keep=["id"], prefix="k_")(batch)
    assert kept.schema.names == ["id", "k_label"]
    assert kept.column("id") == batch.column("id")


def test_undecidable_rows_are_not_called_decided() -> None:
    source = SVC(gamma=0.5, C=1.0).fit([[-1.0, 0.0], [1.0, 0.0]], [0, 1])
    fast = kl.compile(source)
    rows = np.array([[0.0, 3.0], [0.9, 0.0], [0.0, -2.0], [-0.9, 0.1], [0.0, 0.0]])
    decided = BatchScorer(fast, outputs=("decided",))(batch_of(rows)).column("decided")
    assert decided.to_pylist() == [False, True, False, True, False]


def test_without_a_guarantee_the_bound_decides(batch: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    source = SVC(gamma=0.05).fit(X, X[:, 0] > 0)
    bare = kl.compile(source, X, guarantee="none", on_invalid="ignore")
    with pytest.raises(InputError, match="no output 'decided'"):
        BatchScorer(bare, outputs=("decided",))
    proven = kl.compile(source, X, guarantee="none", certificate=True, on_invalid="ignore")
    scorer = BatchScorer(proven, columns=list("abc"), outputs=("label", "decided"))
    found = scorer(batch)
    decided = np.asarray(found.column("decided"))
    rows = np.stack([np.asarray(batch.column(name)) for name in "abc"], axis=1)
    assert 0 < decided.sum() < len(decided)
    np.testing.assert_array_equal(
        np.asarray(found.column("label"))[decided], source.predict(rows)[decided]
    )


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": [1.0], "b": [None], "c": [1.0]}, "`b` has 1 nulls .*row 0"),
        ({"a": [1.0, 2.0], "b": [1.0, 2.0], "c": [1.0, np.nan]}, "`c` has NaN .*row 1"),
        ({"a": ["x"], "b": [1.0], "c": [1.0]}, "`a` is of type string"),
        ({"a": [1.0], "b": [1.0]}, "no column `c`"),
    ],
)
def test_bad_columns_are_named(
    model: kl.CompiledModel, columns: dict[str, list[Any]], words: str
) -> None:
    arrays = {
        name: pa.array(values, None if values[0] is not None else pa.float64())
        for name, values in columns.items()
    }
    with pytest.raises(InputError, match=words):
        BatchScorer(model, columns=list("abc"))(pa.record_batch(arrays))


def test_columns_are_found_or_asked_for(model: kl.CompiledModel, batch: Any) -> None:
    assert resolve_columns(model, batch.schema, ["c", "a", "b"]) == ["c", "a", "b"]
    with pytest.raises(InputError, match="there are 4 numeric columns; name those"):
        resolve_columns(model, batch.schema)
    named, X = fitted("svc iris strings, frame")
    assert resolve_columns(kl.compile(named, X), ["id", *X.columns]) == list(X.columns)
    with pytest.raises(InputError, match=r"no column `feature 0`.*`columns=`, or `--columns` on"):
        resolve_columns(kl.compile(named, X), ["id", *X.columns[1:]])
    with pytest.raises(InputError, match="2 columns, but this model has 3"):
        resolve_columns(model, batch.schema, ["a", "b"])


def test_a_taken_name_is_refused(model: kl.CompiledModel) -> None:
    schema = pa.schema([(name, pa.float64()) for name in ("a", "b", "c", "label")])
    with pytest.raises(InputError, match="column `label` already"):
        BatchScorer(model, columns=list("abc"), keep="all").schema(schema)
    with pytest.raises(InputError, match="no column `x` to keep"):
        BatchScorer(model, columns=list("abc"), keep=["x"]).schema(schema)
