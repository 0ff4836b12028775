"""The example server under load: every rate has its figures."""

from __future__ import annotations

from benchmarks import server as module
from benchmarks.__main__ import main
from benchmarks.results import load as kept


def test_every_rate_has_its_figures(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(module, "RATES", (20,))
    assert main(["server", "--seconds", "0.2", "--out", str(tmp_path)]) == 0
    assert "p99.9 ms" in capsys.readouterr().out
    document = kept("server", tmp_path)
    assert document is not None
    figures = document["content"]["rates"]["20"]
    assert 0 < figures["p50"] <= figures["p99"] <= figures["worst"]
