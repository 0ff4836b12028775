"""Spark on two local cores against the model's own answers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC

import kernelite as kl
import kernelite.spark as ks
from kernelite.support.errors import InputError
from tests.models import fitted

pd = pytest.importorskip("pandas")
pytest.importorskip("pyspark", reason="pyspark is not installed (extra `spark`)")
if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
    pytest.skip("there is no Java on this machine, which Spark needs", allow_module_level=True)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from tests.spark_session import spark_session

    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="module")
def data() -> Any:
    X = np.random.default_rng(0).normal(size=(500, 3))
    frame = pd.DataFrame(X, columns=list("abc"))
    frame.insert(0, "id", np.arange(500))
    frame["who"] = [f"row {i}" for i in range(500)]
    return frame


@pytest.fixture(scope="module")
def model(data: Any) -> kl.CompiledModel:
    X = data[list("abc")]
    return kl.compile(SVC(gamma=0.1).fit(X, np.where(X["a"] > 0, "up", "down")), X)


def test_map_in_arrow(session: Any, data: Any, model: kl.CompiledModel) -> None:
    frame = session.createDataFrame(data).repartition(4, "id")
    scored = ks.predict(model, frame, outputs=("label", "score", "decided"))
    assert scored.columns == [*data.columns, "label", "score", "decided"]
    rows = scored.toPandas().sort_values("id", ignore_index=True)
    X = data[list("abc")]
    assert rows["label"].tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(rows["score"], model.decision_function(X), rtol=1e-12)
    assert rows["decided"].all()
    assert rows["who"].tolist() == data["who"].tolist()


def test_no_rows_keep_their_types(session: Any, data: Any, model: kl.CompiledModel) -> None:
    frame = session.createDataFrame(data).where("a > 1e9")
    scored = ks.predict(model, frame, keep=["id"])
    assert [kind for _, kind in scored.dtypes] == ["bigint", "string"]
    assert scored.count() == 0


def test_udfs(session: Any, data: Any, model: kl.CompiledModel) -> None:
    frame = session.createDataFrame(data)
    label, score = ks.predict_udf(model), ks.predict_udf(model, output="score")
    both = frame.select("id", label("a", "b", "c").alias("l"), score("a", "b", "c").alias("s"))
    rows = both.toPandas().sort_values("id", ignore_index=True)
    X = data[list("abc")]
    assert rows["l"].tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(rows["s"], model.decision_function(X), rtol=1e-12)


def test_udfs_of_several_columns(session: Any) -> None:
    source, X = fitted("svc wine probability")
    model = kl.compile(source, X)
    names = [f"c{i}" for i in range(X.shape[1])]
    frame = session.createDataFrame(pd.DataFrame(X[:20], columns=names)).coalesce(1)
    chances = ks.predict_udf(model, output="probability")
    rows = frame.select(chances(*names).alias("p")).toPandas()
    np.testing.assert_allclose(np.stack(rows["p"]), model.predict_proba(X[:20]), rtol=1e-10)


def test_bad_columns_are_refused_before_anything_runs(
    session: Any, data: Any, model: kl.CompiledModel
) -> None:
    frame = session.createDataFrame(data)
    with pytest.raises(InputError, match="no column `b`"):
        ks.predict(model, frame.drop("b"))
    with pytest.raises(InputError, match="`who` is of type"):
        ks.predict(model, frame, columns=["a", "b", "who"])
