"""The recorder: a replay by the same code differs nowhere, and what differs is told by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.recorder.__main__ import main
from tests.recorder.compare import Difference, differences
from tests.recorder.record import entries

PLACE = "certified, dense, "


def test_a_replay_differs_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(tmp_path), "--models", "svc iris o", "--jobs", "1"]
    assert main(["record", *arguments]) == 0
    assert main(["replay", *arguments]) == 0
    assert "0 allowed differences, 0 others" in capsys.readouterr().out
    path = tmp_path / "svc-iris-ovr.npz"
    with np.load(path) as file:
        kept = {name: file[name] for name in file.files}
    labels = kept["exact, single, predict"]
    labels[0] = 7
    np.savez(path, **kept)
    assert main(["replay", *arguments]) == 1
    assert "DIFFERS  svc iris ovr: exact, single, predict: 1 of 12" in capsys.readouterr().out
    path.unlink()
    assert main(["replay", *arguments, "--allow", "rewritten"]) == 1
    assert "svc iris ovr: was not recorded" in capsys.readouterr().out


def test_everything_is_recorded() -> None:
    from tests.models import fitted

    found = entries(*fitted("svc binary"))
    for guarantee in ("certified", "calibrated", "none", "exact"):
        for container in ("dense", "sparse", "frame", "single"):
            assert found[f"{guarantee}, {container}, predict"].size > 0
            assert found[f"{guarantee}, {container}, scores"].dtype == np.float64
        assert "rows 106" in str(found[f"{guarantee}, dense, stats"])
        assert str(found[f"{guarantee}, plan"]).startswith(guarantee)
    assert all(array.dtype != object for array in found.values())


def changed(what: str, before: object, after: object, *, old: float, new: float) -> Difference:
    """The one difference of an entry that stands beside these bounds."""
    bounds = {"kind": np.array("classifier")}
    one = {f"{PLACE}error_bound": np.full((2, 1), old), "certified, kind": bounds["kind"]}
    two = {f"{PLACE}error_bound": np.full((2, 1), new), "certified, kind": bounds["kind"]}
    one[PLACE + what], two[PLACE + what] = np.array(before), np.array(after)
    return next(one for one in differences(one, two) if one.name == PLACE + what)


@pytest.mark.parametrize(
    ("what", "before", "after", "allowed"),
    [
        ("scores", [[1.0], [2.0]], [[1.0], [2.5]], True),
        ("scores", [[1.0], [2.0]], [[1.0], [2.7]], False),
        ("scores", [[1.0], [2.0]], [[1.0], [np.nan]], False),
        ("scores", [[1.0], [2.0]], [[1.0]], False),
        ("predict", [1.0, 2.0], [1.0, 2.1], False),
        ("predict", ["a", "b"], ["a", "c"], False),
        ("predict_proba", [[0.5], [0.5]], [[0.5], [0.501]], True),
        ("predict_proba", [[0.5], [0.5]], [[0.5], [0.6]], False),
        ("stats", "form 3", "forms 3", True),
    ],
)
def test_what_a_rewritten_kernel_may_change(
    what: str, before: object, after: object, allowed: bool
) -> None:
    assert changed(what, before, after, old=0.4, new=0.2).allowed is allowed


def test_bounds_may_be_a_hundredth_looser() -> None:
    name = f"{PLACE}error_bound"
    for factor, allowed in ((0.5, True), (1.009, True), (1.02, False), (np.inf, False)):
        (found,) = differences({name: np.ones((2, 1))}, {name: np.full((2, 1), factor)})
        assert found.allowed is allowed
    assert [one.why for one in differences({"a": np.ones(1)}, {"b": np.ones(1)})] == ["gone", "new"]
