"""The page says what was recorded, and what was recorded is what is promised."""

from __future__ import annotations

from pathlib import Path

from tests.reliability.__main__ import main
from tests.reliability.flips import flips
from tests.reliability.page import END, START, advice_with, page_with
from tests.reliability.runs import add_run, runs


def test_the_page_is_up_to_date() -> None:
    assert main(["--check"]) == 0, "run python -m tests.reliability"


def test_recorded_runs_found_nothing() -> None:
    kept = runs()
    assert all(one["failed"] == 0 for one in kept.get("fuzz", ()))
    assert all(one["grew"] == [] for one in kept.get("soak", ()))
    assert all(one["violations"] == [] for one in kept.get("attack", ()))
    assert all(one["wrong"] == [] for one in kept.get("flips", ()))


def test_no_flipped_bit_changes_an_answer() -> None:
    found = flips(330, seed=4)
    assert found["wrong"] == []
    assert found["refused"] + found["same"] == 330
    assert found["refused"] > 300


def test_the_latest_run_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "runs.json"
    record = {"flips": 10, "refused": 9, "same": 1, "wrong": [], "seed": 0}
    for count in (10, 1234):
        add_run("flips", record | {"flips": count}, file)
    text = page_with(f"above\n{START}old\n{END}below\n", runs(file))
    assert text.startswith("above\n")
    assert text.endswith(f"{END}below\n")
    assert "1,234 single bits | 9 refused, 1 without effect, 0 wrong" in text
    assert "not recorded yet" in text
    assert "old" not in text


def test_the_advice_to_servers_has_its_figures() -> None:
    calls = {"p50": 4.0, "p99": 7.9, "p99.9": 34.2, "worst": 305286.0}
    apart = calls | {"p99.9": 1234.0, "worst": 4626.0}
    plan = {"support_vectors": 1383, "threads": {"8": calls, "8 processes": apart}}
    plans = {"exact": plan, "exact, six classes": plan}
    load = {"machine": {"cores": 2}, "content": {"plans": plans}}
    text = advice_with(f"above\n{START}old\n{END}below\n", load)
    model = "two classes, 1,383 support vectors"
    assert f"| {model} | 8 threads | 4 µs | 8 µs | 34 µs | 305 ms |" in text
    assert f"| {model} | 8 processes | 4 µs | 8 µs | 1.2 ms | 4.6 ms |" in text
    assert "eight callers on 2 cores" in text
    assert "old" not in text
