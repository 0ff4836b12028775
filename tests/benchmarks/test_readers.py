"""The race of readers compares what they read, and times both."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.readers import main, race


def test_both_readers_are_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.svm"
    path.write_text("+1 1:0.5 3:2\n-1 2:1e-3\n" * 50)
    assert all(seconds >= 0 for seconds in race(str(path), rounds=1).values())
    assert main([str(path), "--rounds", "1", "--wall"]) == 0
    assert "scikit-learn MB/s" in capsys.readouterr().out
