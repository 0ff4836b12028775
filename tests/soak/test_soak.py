"""A short run in a process of its own, whose memory nobody else uses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kernelite import __version__
from tests.helpers import PATIENCE
from tests.reliability.runs import add_run, keep, kept, runs
from tests.soak.chores import CHORES
from tests.soak.run import _joined, _nothing
from tests.soak.watch import Held, growth


@pytest.mark.campaign
@pytest.mark.skipif(sys.platform != "linux", reason="memory is watched through /proc")
def test_nothing_grows_in_a_short_run() -> None:
    command = [sys.executable, "-m", "tests.soak", "--seconds", "inf", "--most", "300"]
    ran = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=PATIENCE
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)
    assert found["grew"] == []
    assert set(found["done"]) == {chore.__name__ for chore in CHORES}


def test_what_grows_is_found() -> None:
    leaks = [Held((100 + i) << 20, 9 + i // 9, 4) for i in range(60)]
    assert [line.split(":")[0] for line in growth(leaks)] == ["memory", "descriptors"]
    noise = [Held((100 + i % 7) << 20, 9 + i % 2, 4) for i in range(60)]
    assert growth(noise) == []
    assert growth(leaks[:3]) == ["there were too few looks to tell"]


def test_pieces_are_one_run(tmp_path: Path) -> None:
    looks, state = [Held(100 << 20, 9, 4)] * 16, tmp_path / "state.json"
    keep(state, _joined(_nothing(), Counter(fork=2, spawn=1), looks, 60.0, 5.0))
    before = kept(state, {"version": __version__})
    assert before is not None
    both = _joined(before, Counter(fork=3), looks, 30.0, 2.5)
    assert (both["pieces"], both["seconds"], both["processor_seconds"]) == (2, 90.0, 7.5)
    assert (both["chores"], both["done"]) == (6, {"fork": 5, "spawn": 1})
    assert both["began"] == before["began"]
    file = tmp_path / "runs.json"
    for one in (before, both):
        add_run("soak", one, file)
    assert [one["seconds"] for one in runs(file)["soak"]] == [90.0]
