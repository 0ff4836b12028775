"""A short run in a process of its own, whose memory nobody else uses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak.chores import CHORES
from tests.soak.watch import Held, growth


@pytest.mark.skipif(sys.platform != "linux", reason="memory is watched through /proc")
def test_nothing_grows_in_a_short_run() -> None:
    command = [sys.executable, "-m", "tests.soak", "--seconds", "20"]
    ran = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300
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
