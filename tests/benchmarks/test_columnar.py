"""The benchmark of a large file, on a small one."""

from __future__ import annotations

import pytest

from benchmarks.columnar import _compare, columnar
from kernelite.data.tables.columnar.reading import FORMATS


def test_it_compares_and_measures(tmp_path) -> None:
    found = columnar(tmp_path, 2_500, 3, 1_000, "none", ["csv"])
    (run,) = found["runs"]
    assert (found["rows"], run["output"]) == (2_500, "csv")
    assert run["rows_a_second"] > 0
    assert 0 < run["peak_megabytes"] < found["memory_limit_megabytes"]
    assert set(FORMATS) >= {run["output"]}


def test_a_wrong_label_is_seen(tmp_path) -> None:
    import numpy as np

    out = tmp_path / "labels.csv"
    out.write_text("id,label\n0,1\n1,-1\n2,1\n")
    _compare(out, np.array([1, -1, 1]), 3)
    for labels, rows in ((np.array([1, 1, 1]), 3), (np.array([1, -1, 1]), 4)):
        with pytest.raises(RuntimeError, match=r"labels\.csv"):
            _compare(out, labels, rows)
