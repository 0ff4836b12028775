"""Reading ahead keeps order, passes errors on and ends with its caller."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kernelite
from kernelite.cli import main
from kernelite.data.scoring import files
from kernelite.support.files import read_ahead


def test_order_is_kept() -> None:
    assert list(read_ahead(range(1000), depth=3)) == list(range(1000))


def test_errors_come_after_the_items_before_them() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise OSError("disk gone")

    items = read_ahead(source())
    assert next(items) == 1
    with pytest.raises(OSError, match="disk gone"):
        next(items)


def test_the_thread_ends_when_the_caller_stops() -> None:
    items = read_ahead(iter(range(10**9)), depth=1)
    assert next(items) == 0
    items.close()  # type: ignore[attr-defined]
    names = [thread.name for thread in threading.enumerate()]
    assert "kernelite-reader" not in names


def test_the_limit_on_threads_reaches_the_reader() -> None:
    from kernelite.backends.cpu.threads import limit_threads, thread_count

    with limit_threads(3):
        assert list(read_ahead(thread_count() for _ in range(2))) == [3, 3]


def _no_thread(*_: object) -> None:
    raise RuntimeError("can't start new thread")


def test_without_a_thread_that_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = tmp_path / "bump.kernelite", tmp_path / "rows.npy"
    bump = kernelite.KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0)
    kernelite.compile(bump, guarantee="exact").save(model)
    np.save(data, np.zeros((3, 1)))
    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    monkeypatch.setattr(files, "thread_count", lambda: 2)
    assert main(["predict", str(data), str(model), str(tmp_path / "out.txt")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("kernelite: error: not enough memory (no thread can be started;")
    assert said.count("\n") == 1
    assert not (tmp_path / "out.txt").exists()
