"""Latencies under load: every plan and number of threads has its figures."""

from __future__ import annotations

import pytest

from benchmarks import load as module
from benchmarks.__main__ import main
from benchmarks.results import load as kept


def test_every_plan_has_its_figures(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(module, "THREADS", (1, 2))
    monkeypatch.setattr(module, "TRAINED", 300)
    assert main(["load", "--seconds", "0.05", "--out", str(tmp_path)]) == 0
    assert "p99.9 us" in capsys.readouterr().out
    document = kept("load", tmp_path)
    assert document is not None
    plans = document["content"]["plans"]
    assert set(plans) == {"form", "cascade", "exact", "exact, six classes"}
    assert plans["exact"]["exact_share"] == 1.0
    for plan in plans.values():
        assert list(plan["threads"]) == ["1", "2", "8, short interval", "8 processes"]
        one = plan["threads"]["1"]
        assert 0 < one["p50"] <= one["p99"] <= one["p99.9"] <= one["worst"]
        assert one["calls"] > 1
        assert 0 <= one["slow_preempted"] <= 1


def test_load_has_options_of_its_own() -> None:
    with pytest.raises(SystemExit) as stop:
        main(["load", "--models", "x"])
    assert stop.value.code == 2
