"""Dask collections against the model's own answers, without and with a cluster of processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC

import kernelite as kl
import kernelite.data.scoring.shipping as shipping
from kernelite.backends.cpu.threads import thread_count
from kernelite.support.errors import InputError, MissingExtraError
from tests.models import fitted

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
dask = pytest.importorskip("dask", reason="dask is not installed")
pytest.importorskip("distributed", reason="distributed is not installed")

import dask.array as da  # noqa: E402
import dask.bag as db  # noqa: E402
import dask.dataframe as dd  # noqa: E402
from dask.dataframe.dask_expr.io import ReadParquet  # noqa: E402

import kernelite.dask as kd  # noqa: E402
from kernelite.dask.cluster import connect  # noqa: E402
from tests.dask.clusters import cluster  # noqa: E402

SCHEDULERS = ["synchronous", "threads"]
NAMES = ["svc iris strings, frame", "svc wine probability", "svr diabetes", "pca iris"]


@pytest.fixture(scope="module")
def model() -> kl.CompiledModel:
    X = np.random.default_rng(0).normal(size=(60, 3))
    return kl.compile(SVC(gamma=0.1).fit(X, np.where(X[:, 0] > 0, "up", "down")), X)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster(2) as client:
        yield client


def same(found: Any, expected: Any) -> None:
    """Equal labels; values up to the rounding of sums, which blocks of rows may reorder."""
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found.astype(float), expected, rtol=1e-10, atol=1e-13)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("name", NAMES)
def test_arrays(name: str, scheduler: str) -> None:
    source, X = fitted(name)
    model, rows = kl.compile(source, X), np.asarray(X)
    lazy = kd.predict(model, da.from_array(rows, chunks=(17, 2)))
    method = model.transform if model.head.kind == "transform" else model.predict
    expected = method(rows)
    assert lazy.shape == expected.shape
    assert lazy.dtype == expected.dtype
    assert lazy.chunks[0] == da.from_array(rows, chunks=(17, 2)).chunks[0]
    same(lazy.compute(scheduler=scheduler), expected)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_other_outputs_of_arrays(scheduler: str) -> None:
    source, X = fitted("svc wine probability")
    model = kl.compile(source, X)
    rows = da.from_array(X, chunks=(40, -1))
    chances = kd.predict(model, rows, outputs=("probability",))
    assert chances.shape == (len(X), 3)
    np.testing.assert_allclose(
        chances.compute(scheduler=scheduler), model.predict_proba(X), rtol=1e-12
    )
    scores = kd.predict(model, rows[rows[:, 0] > 0], outputs="score")
    assert np.isnan(scores.shape[0])  # how many rows there are is not known before
    np.testing.assert_allclose(
        scores.compute(scheduler=scheduler), model.decision_function(X[X[:, 0] > 0]), rtol=1e-12
    )


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("name", NAMES)
def test_frames(name: str, scheduler: str) -> None:
    source, X = fitted(name)
    model = kl.compile(source, X)
    frame = pd.DataFrame(np.asarray(X), columns=list(getattr(X, "columns", range(X.shape[1]))))
    frame.insert(1, "who", [f"row {i}" for i in range(len(frame))])
    frame.index = 3 * np.arange(len(frame))
    lazy = dd.from_pandas(frame, npartitions=4)
    found = kd.predict(model, lazy, keep=["who"])
    assert found.divisions == lazy.divisions
    scored = found.compute(scheduler=scheduler)
    pd.testing.assert_index_equal(scored.index, frame.index)
    assert scored["who"].tolist() == frame["who"].tolist()
    assert (scored.dtypes == found.dtypes).all()
    method = model.transform if model.head.kind == "transform" else model.predict
    expected = method(np.asarray(X)).reshape(len(X), -1)
    same(scored.iloc[:, 1:].to_numpy(), expected)


def test_empty_partitions_are_typed(model: kl.CompiledModel) -> None:
    frame = pd.DataFrame(np.random.default_rng(1).normal(size=(40, 3)), columns=list("abc"))
    frame["row"] = np.arange(40)
    lazy = dd.from_pandas(frame, npartitions=4)
    lazy = lazy[lazy["row"] < 15][list("abc")]
    found = kd.predict(model, lazy, outputs=("label", "score", "decided"))
    parts = dask.compute(*found.to_delayed(), scheduler="synchronous")
    assert [len(part) for part in parts] == [10, 5, 0, 0]
    for part in parts:
        assert (part.dtypes == found.dtypes).all()
    assert set(found.dtypes.astype(str)) >= {"float64", "bool"}


def test_bags_of_record_batches(model: kl.CompiledModel) -> None:
    rng = np.random.default_rng(2)
    batches = [
        pa.record_batch({name: rng.normal(size=rows) for name in "abc"}) for rows in (5, 0, 7, 1)
    ]
    found = kd.predict(model, db.from_sequence(batches, npartitions=2), keep="all")
    scored = found.compute(scheduler="synchronous")
    assert [batch.num_rows for batch in scored] == [5, 0, 7, 1]
    assert len({batch.schema for batch in scored}) == 1
    rows = np.stack([np.asarray(batches[2].column(name)) for name in "abc"], axis=1)
    assert scored[2].column("label").to_pylist() == model.predict(rows).tolist()


def test_what_cannot_be_is_refused_at_once(model: kl.CompiledModel) -> None:
    rows = da.zeros((4, 5))
    with pytest.raises(InputError, match=r"shape \(m, 3\), got \(4, 5\)"):
        kd.predict(model, rows)
    with pytest.raises(InputError, match="one of `outputs` at a time"):
        kd.predict(model, rows[:, :3], outputs=("label", "score"))
    with pytest.raises(InputError, match="no output 'probability'"):
        kd.predict(model, rows[:, :3], outputs=("probability",))
    with pytest.raises(InputError, match="must be a Dask array"):
        kd.predict(model, np.zeros((4, 3)))
    with pytest.raises(InputError, match="must be a CompiledModel, got SVC"):
        kd.predict(SVC(), rows)  # type: ignore[arg-type]
    frame = dd.from_pandas(pd.DataFrame(np.zeros((4, 2)), columns=["a", "b"]), npartitions=1)
    with pytest.raises(InputError, match="there are 2 numeric columns"):
        kd.predict(model, frame)


def test_only_the_columns_needed_are_read(model: kl.CompiledModel, tmp_path: Path) -> None:
    frame = pd.DataFrame(np.random.default_rng(5).normal(size=(20, 4)), columns=list("abcd"))
    frame.insert(0, "id", range(20))
    frame.to_parquet(tmp_path / "rows.parquet")
    lazy = kd.predict(model, dd.read_parquet(tmp_path), columns=["d", "a", "c"], keep=["id"])
    read = lazy.optimize(fuse=False).expr.find_operations(ReadParquet)
    assert [list(found.columns) for found in read] == [["id", "a", "c", "d"]]
    scored = lazy.compute(scheduler="synchronous")
    assert scored["label"].tolist() == model.predict(frame[["d", "a", "c"]].to_numpy()).tolist()


def test_a_missing_library_names_its_extra(
    model: kl.CompiledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(MissingExtraError, match=r"the extra .dask."):
        kd.predict(model, da.zeros((4, 3)))
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"the extra .dask."), connect():
        pass


def test_a_client_does_not_bind_other_schedulers(client: Any, model: kl.CompiledModel) -> None:
    X = np.random.default_rng(6).normal(size=(30, 3))
    lazy = kd.predict(model, da.from_array(X, chunks=(10, 3)))
    np.testing.assert_array_equal(lazy.compute(scheduler="threads"), model.predict(X))


def test_tasks_use_one_thread(model: kl.CompiledModel, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    predict = type(model).predict

    def watched(self: Any, *args: Any, **named: Any) -> Any:
        seen.append(thread_count())
        return predict(self, *args, **named)

    lazy = kd.predict(model, da.zeros((40, 3), chunks=(10, 3)))
    monkeypatch.setattr(type(model), "predict", watched)
    lazy.compute(scheduler="threads")
    assert seen == [1] * 4


def test_a_model_with_python_objects_in_front_travels_too() -> None:
    source, X = fitted("pipeline pca frame")
    model = kl.compile(source, X)
    found = kd.predict(model, dd.from_pandas(X, npartitions=2)).compute(scheduler="synchronous")
    assert found["label"].tolist() == model.predict(X).tolist()


def test_the_model_goes_to_each_worker_once(client: Any, model: kl.CompiledModel) -> None:
    X = np.random.default_rng(3).normal(size=(400, 3))
    digest = shipping.ship(model).digest
    for _ in range(2):
        lazy = kd.predict(model, da.from_array(X, chunks=(10, 3)))
        np.testing.assert_array_equal(lazy.compute(), model.predict(X))
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abc")), npartitions=20)
    assert kd.predict(model, frame).compute()["label"].tolist() == model.predict(X).tolist()
    counts = kd.model_counts(client)
    assert len(counts) == 2
    for worker in counts.values():
        assert worker[digest] == {"received": 1, "unpacked": 1}
    kd.forget(model, client)
    assert all(digest not in shipping for shipping in client.run(_kept).values())


def test_graphs_made_without_a_client_carry_the_model(client: Any) -> None:
    X = np.random.default_rng(4).normal(size=(200, 4))
    other = kl.compile(SVC(gamma=0.05).fit(X, X[:, 0] > 0), X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kernelite.dask.cluster._current", lambda: None)
        lazy = kd.predict(other, da.from_array(X, chunks=(5, 4)))
    np.testing.assert_array_equal(lazy.compute(), other.predict(X))
    digest = shipping.ship(other).digest
    for worker in kd.model_counts(client).values():
        counts = worker.get(digest, {"received": 0, "unpacked": 0})
        assert counts["received"] <= 1
        assert counts["unpacked"] <= 1


def _kept() -> list[str]:
    return list(shipping._shipments)
