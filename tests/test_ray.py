"""Ray datasets against the model's own answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC

import kernelite
import kernelite as kl
import kernelite.ray as kr
from kernelite.support.errors import InputError

pa = pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray", reason="ray is not installed (extra `ray`)")
pytest.importorskip("ray.data", reason="ray is installed without its data library")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    source = str(Path(kernelite.__file__).parents[1])
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        configure_logging=False,
        log_to_driver=False,
        object_store_memory=100 << 20,
        runtime_env={"env_vars": {"PYTHONPATH": source}},
    )
    yield ray
    ray.shutdown()


def test_map_batches(cluster: Any) -> None:
    X = np.random.default_rng(0).normal(size=(400, 3))
    model = kl.compile(SVC(gamma=0.1).fit(X, np.where(X[:, 0] > 0, "up", "down")), X)
    table = pa.table({"id": np.arange(400), **{name: X[:, i] for i, name in enumerate("abc")}})
    dataset = cluster.data.from_arrow(table).repartition(4)
    scored = kr.predict(
        model, dataset, columns=list("abc"), outputs=("label", "score"), keep=["id"]
    )
    rows = scored.to_pandas().sort_values("id", ignore_index=True)
    assert rows.columns.tolist() == ["id", "label", "score"]
    assert rows["label"].tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(rows["score"], model.decision_function(X), rtol=1e-12)


def test_an_unknown_output_is_refused_at_once() -> None:
    model = kl.compile(SVC().fit([[0.0], [1.0]], [0, 1]))
    with pytest.raises(InputError, match="no output 'probability'"):
        kr.table_scorer(model, outputs=("probability",))
