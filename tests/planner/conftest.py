"""Here plans are timed, where estimates are close."""

from __future__ import annotations

import pytest

from kernelite.planner import measure


@pytest.fixture(autouse=True)
def _plans_by_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "CLOSE", 3.0)
