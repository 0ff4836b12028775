"""The benchmark of Dask workers, on few rows."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("distributed", reason="distributed is not installed")
resource = pytest.importorskip("resource", reason="this system does not tell peak memory")

from benchmarks.dask_scaling import compare, scaling  # noqa: E402


def test_it_compares_and_measures(tmp_path: Path) -> None:
    args = argparse.Namespace(
        rows=2_500,
        features=3,
        files=2,
        row_group=500,
        workers=[1, 2],
        rounds=1,
        guarantee="none",
    )
    found = scaling(tmp_path, args)
    one, two = found["runs"]
    assert (one["workers"], two["workers"]) == (1, 2)
    assert (one["ratio"], found["rows"]) == (1.0, 2_500)
    assert two["model_sent_to_each_worker"] == [1, 1]
    assert all(run["rows_a_second"] > 0 and run["pieces"] == 2 for run in (one, two))
    assert min(two["worker_peak_megabytes"]) > 0
    assert not (tmp_path / "scored").exists()


def test_a_wrong_label_is_seen(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"id": [1, 0], "label": [-1, 1]}), tmp_path / "a.parquet")
    compare(tmp_path, np.array([1, -1]), 2)
    with pytest.raises(RuntimeError, match="labels differ"):
        compare(tmp_path, np.array([1, 1]), 2)
    with pytest.raises(RuntimeError, match="not each of 3 once"):
        compare(tmp_path, np.array([1, -1]), 3)
