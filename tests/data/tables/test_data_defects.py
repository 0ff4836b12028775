"""All defects are listed, in order, and a file without any is one that can be read."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from kernelite.data.tables.data import defects
from kernelite.support.errors import InputError


def test_every_defect_of_libsvm_text(tmp_path: Path) -> None:
    path = tmp_path / "a.svm.gz"
    lines = [b"1 1:1", b"x 0:nan 2:1 2:1", b"", b"1 1:\xff", b"# fine", b"1 7", b"1 1:1e999"]
    path.write_bytes(gzip.compress(b"\n".join(lines)))
    found = [(defect.line, defect.token) for defect in defects(path)]
    assert found == [
        (2, "x"),
        (2, "0:nan"),
        (2, "0:nan"),
        (2, "2:1"),
        (4, "1 1:\\xff"),
        (6, "7"),
        (7, "1:1e999"),
    ]


def test_every_defect_over_many_parts(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("".join("1 0:1\n" if i % 1000 == 0 else "1 1:1\n" for i in range(1, 20_001)))
    assert [defect.line for defect in defects(path)] == list(range(1000, 20_001, 1000))


def test_every_defect_of_delimited_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,a,b\n1,2,3\ncat,x,y\n1,2\n1,,2\n")
    found = [(defect.line, defect.token) for defect in defects(path)]
    assert found == [(3, "cat"), (3, "x"), (3, "y"), (4, "1,2"), (5, "")]


def test_a_cut_stream_keeps_the_defects_before_it(tmp_path: Path) -> None:
    path = tmp_path / "a.svm.gz"
    whole = gzip.compress(b"1 0:1\n" + b"1 1:1\n" * 30_000, mtime=0)
    path.write_bytes(whole[:-12])
    found = list(defects(path))
    assert found[0].line == 1
    assert "corrupt or cut off" in found[-1].problem
    assert len(found) == 2


def test_entries_that_are_not_finite(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    rows = np.zeros((300, 2))
    rows[[3, 290], 1] = np.nan, -np.inf
    np.save(path, rows)
    assert [defect.token for defect in defects(path)] == ["nan", "-inf"]
    np.save(path, rows * np.nan)
    found = list(defects(path))
    assert len(found) == 101
    assert "500 more entries" in found[-1].problem


def test_options_are_checked_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`format`"):
        defects(tmp_path, format="pdf")  # type: ignore[arg-type]
