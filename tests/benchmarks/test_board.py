"""The board: any table is taken, answers are verified, goals are judged. No time is asserted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import results
from benchmarks.__main__ import main
from benchmarks.board import command
from benchmarks.board.cases import Case, cases_of
from benchmarks.board.goals import Judgement, geometric_mean, judge
from benchmarks.board.large import LARGE, LargeCase, large_part, measure_large
from benchmarks.board.measure import measure
from benchmarks.board.page import busy
from benchmarks.board.players import Player, players, verify
from benchmarks.board.sets import load_set, table
from benchmarks.board.settings import PRESETS
from benchmarks.contestant import Absent
from benchmarks.machine import describe

TINY = PRESETS["tiny"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELITE_BENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def flowers(tmp_path: Path) -> Path:
    """Iris as CSV with a line of names, a column of words and a hole."""
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    lines = ["a,b,c,d,colour,what"]
    for i, row in enumerate(X):
        cells = ["?" if i == 7 else f"{row[0]}", *(f"{value}" for value in row[1:])]
        lines.append(",".join([*cells, ("red", "blue")[i % 2], f"kind {y[i]}"]))
    path = tmp_path / "flowers.csv"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    """A regression."""
    X = np.random.default_rng(0).normal(size=(160, 3))
    path = tmp_path / "prices.csv"
    np.savetxt(path, np.column_stack([X, np.sin(X[:, 0])]), delimiter=",")
    return path


def test_a_table_of_words_and_numbers(flowers: Path) -> None:
    X, labels = table(flowers.read_text())
    assert X.shape == (150, 6)
    assert X[7, 0] == pytest.approx(np.delete(X[:, 0], 7).mean())
    assert set(labels) == {"kind 0", "kind 1", "kind 2"}
    found = load_set(str(flowers), 50)
    assert (found.train.shape, found.test.shape) == ((50, 6), (37, 6))
    assert found.train.mean(axis=0) == pytest.approx(np.zeros(6), abs=1e-12)
    with pytest.raises(Absent, match="at least three lines"):
        table("1,2\n")
    with pytest.raises(Absent, match="no file"):
        load_set("nowhere.csv")


def test_a_case_is_verified_and_timed(flowers: Path) -> None:
    default, tuned = cases_of(str(flowers), 100)
    assert (default.name, tuned.name) == ("flowers default", "flowers tuned")
    found = measure(default, TINY)
    assert found["classes"] == 3
    assert {"scikit-learn", "exact", "certified"} <= set(found["microseconds"])
    assert found["verdicts"]["certified"] == {"rows": 37, "differ": 0, "ties": 0}
    assert set(found["choice"]) >= {"certified", "exact"}
    assert set(found["methods"]) == {"decision_function"}
    assert set(found["methods"]["decision_function"]) == {"differ", "scikit-learn", "certified"}
    assert sum(found["stages"].values()) == pytest.approx(1.0)
    assert found["bytes"]["exact"] > 0
    json.dumps(found)


def test_wrong_answers_are_found(flowers: Path, prices: Path) -> None:
    case = next(cases_of(str(flowers), 100))
    takes_part, _ = players(case, TINY)
    fast = takes_part["certified"]
    liar = Player("certified", fast.model, lambda rows: np.roll(fast.call(rows), 1))
    assert verify(case, fast, None)["differ"] == 0
    wrong = verify(case, liar, None)
    assert wrong["differ"] > wrong["ties"] == 0
    svr = next(cases_of(str(prices), 100))
    takes_part, _ = players(svr, TINY)
    fast, exact = takes_part["certified"], takes_part["exact"]
    assert verify(svr, fast, exact)["differ"] == 0
    off = 1.5 * fast.model.tolerance
    liar = Player("certified", fast.model, lambda rows: exact.call(rows) + off)
    assert verify(svr, liar, exact)["differ"] == len(svr.rows)


def test_models_are_kept(flowers: Path) -> None:
    first, second = (next(cases_of(str(flowers), 100)) for _ in range(2))
    model = first.model

    def refuse(X: Any, y: Any) -> Any:
        raise AssertionError("fitted again")

    again = Case(**{**vars(second), "fit": refuse})
    assert (again.model.dual_coef_ == model.dual_coef_).all()


def test_the_command_writes_what_it_found(
    flowers: Path,
    prices: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(command.PRESETS, "quick", TINY)
    monkeypatch.delenv("KERNELITE_KERNELS", raising=False)
    out = tmp_path / "out"
    arguments = ["board", "--quick", "--out", str(out)]
    assert main([*arguments, "--csv", str(flowers)]) == 0
    assert "holds  labels differ nowhere" in capsys.readouterr().out
    assert main([*arguments, "--csv", str(prices), "--keep", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    names = [case["name"] for case in document["content"]]
    assert names == [
        *("flowers default", "flowers tuned"),
        *("prices SVR", "prices KernelRidge", "prices GPR"),
    ]
    assert document["machine"]["versions"]["numpy"] == np.__version__
    text = (out / "board.md").read_text()
    assert "| SVC, several classes | 2 |" in text
    assert str(tmp_path) not in text


def test_goals() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    case = {
        "name": "letter default",
        "set": "letter",
        "group": "labels",
        "estimator": "SVC",
        "classes": 26,
        "support_vectors": 100,
        "features": 16,
        "plan": "exact",
        "microseconds": {"scikit-learn": 90.0, "certified": 1.0, "none": 2.0},
        "methods": {"decision_function": {"differ": 0}},
        "choice": {"certified": 1.2, "exact": 1.0},
        "verdicts": {"certified": {"rows": 5, "differ": 1, "ties": 1}},
        "compile_seconds": {"certified": 4.0},
        "one_row": {"scikit-learn": 50.0, "certified": 100.0},
        "bytes": {"exact": 8 * 100 * 41},
        "none_notes": "",
    }
    found = {one.goal: one for one in judge([case])}
    wanted = {
        "certified: geometric mean at least 70 times scikit-learn": True,
        "certified: geometric mean at least 7 times scikit-learn-intelex": None,
        "labels differ nowhere, values are within their tolerance": True,
        "the chosen plan is at most 15% slower than the exact plan": False,
        "26 classes: at least 80 times scikit-learn": True,
        "compile: at most 5 s": True,
        "one row: faster than scikit-learn": False,
        "a saved exact plan: at most 1.2 times its centers and k-1 coefficients per SV": True,
    }
    assert {goal: found[goal].holds for goal in wanted} == wanted
    assert isinstance(found["compile: at most 5 s"], Judgement)
    assert "letter default" in found["one row: faster than scikit-learn"].found


def test_disturbed_cases_are_named() -> None:
    assert busy([{"name": "a", "load": 1.5}, {"name": "b", "load": None}]) == ""
    assert busy([{"name": "a", "load": 9.0}, {"name": "b", "load": 1.0}]).endswith("work: a.")


def test_an_unknown_set_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["board", "--sets", "moons"])
    assert "no such set: moons; there are: optdigits" in capsys.readouterr().err


@pytest.mark.parametrize("case", LARGE, ids=lambda case: case.name)
def test_large_models_answer_as_numpy_does(case: LargeCase) -> None:
    found = results.plain(measure_large(case, shrink=1000))
    assert found["centers"] == case.n_centers // 1000
    assert found["differ"] == 0
    document = {"content": [found], "machine": describe()}
    text = "\n".join(large_part(document))
    assert f"{found['centers']:,} x {case.n_features}" in text
    assert "another machine" in text
