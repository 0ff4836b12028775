"""A short campaign, and every file that once broke something.

A regression file lies in `regressions/FORMAT/`, with the blanks of the format's name as hyphens.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.campaign import Options, campaign
from tests.fuzz.corpus import ENDINGS, TURNS, corpus
from tests.fuzz.targets import BY_COMMAND
from tests.fuzz.worker import BLOCK, Input, _turn, attempt, attempt_freely, made, numbers
from tests.helpers import PATIENCE

SLUGS = {name.replace(", ", "-").replace(" ", "-"): name for name in ENDINGS}
REGRESSIONS = sorted(
    path for path in (Path(__file__).parent / "regressions").rglob("*") if path.is_file()
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is watched through /proc")


@linux
@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.name)
def test_what_broke_once_is_answered_or_refused(path: Path, tmp_path: Path) -> None:
    name = SLUGS[path.parent.name]
    for seed in corpus(name):  # what libraries take when they are first used is not the file's
        attempt_freely(Input(name, seed.data, seed), tmp_path)
    outcome, _ = attempt(Input(name, path.read_bytes(), corpus(name)[0]), tmp_path)
    assert outcome in ("answered", "refused")


def test_inputs_are_made_again_by_their_numbers() -> None:
    some = [made(3, number) for number in range(50)]
    again = [made(3, number).data for number in range(50)]
    assert [one.data for one in some] == again
    assert {one.name for one in some} == set(ENDINGS)
    assert len(set(again)) > 40


def test_every_format_has_its_share() -> None:
    """Of two million inputs at least 50,000 each; and each by the command line now and then."""
    order = [_turn(number, tuple(ENDINGS)) for number in range(sum(TURNS.values()) * BY_COMMAND)]
    shares = Counter(name for name, _ in order)
    assert min(shares[name] for name in ENDINGS) / len(order) > 0.026
    asked = Counter(name for name, which in order if which % BY_COMMAND == 0)
    assert asked == TURNS


@pytest.mark.campaign
@linux
def test_a_short_campaign_finds_nothing(tmp_path: Path) -> None:
    options = Options(math.inf, 17, 1, tmp_path / "failures", time_limit=PATIENCE, most=4000)
    found = campaign(options)
    kept = [path.read_text() for path in (tmp_path / "failures").glob("*.txt")]
    assert found["failed"] == 0, kept[:3]
    assert found["inputs"] == 4000
    assert found["answered"] > 0


@pytest.mark.campaign
@linux
def test_a_campaign_goes_on_where_it_stopped(tmp_path: Path) -> None:
    options = Options(math.inf, 5, 1, tmp_path / "failures", ("npy", "range"))
    options = replace(options, time_limit=PATIENCE, state=tmp_path / "state")
    first = campaign(replace(options, most=BLOCK + 1))
    assert (first["inputs"], first["next"], first["left"]) == (BLOCK + 1, BLOCK + 1, [])
    # As a campaign leaves it that is killed in the middle of a block.
    killed = first | {"next": 2 * BLOCK, "left": [[BLOCK + 1, 2 * BLOCK]]}
    (tmp_path / "state").write_text(json.dumps(killed))
    both = campaign(replace(options, most=2 * BLOCK + 7))
    assert both["inputs"] == both["next"] == 2 * BLOCK + 7
    for name in options.formats:
        tried = [_turn(number, options.formats)[0] for number in range(2 * BLOCK + 7)].count(name)
        assert sum(both["formats"][name].values()) == tried
    with pytest.raises(SystemExit, match="another run"):
        campaign(replace(options, seed=6))


def hang_and_die(state: Any, options: Any) -> None:
    """As `work`, but input 1 never ends, and the process dies of input 2."""
    state.ready = 1
    for number in numbers(state):
        state.since = time.monotonic() if number else 0.0
        if number == 1:
            time.sleep(PATIENCE)
        if number == 2:
            os.abort()


@pytest.mark.campaign
@linux
def test_what_hangs_or_dies_is_kept_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fuzz.campaign.work", hang_and_die)
    options = Options(math.inf, 1, 1, tmp_path, ("csv",), time_limit=0.1, most=3)
    found = campaign(options)
    assert found["failed"] == 2
    hung, died = found["died_or_hung"]
    assert hung.startswith("input 1 took over")
    assert died.startswith("input 2 ")
    kept = {path.name: path.read_bytes() for path in tmp_path.glob("csv-1-*.csv")}
    assert kept == {f"csv-1-{number}.csv": made(1, number, ("csv",)).data for number in (1, 2)}


def die_between(state: Any, options: Any) -> None:
    """As `work`, but the process dies before it begins its second block."""
    state.ready = 1
    for number in numbers(state):
        if number == BLOCK:
            os.abort()


def die_of_a_valid_file(state: Any, options: Any) -> None:
    """As `work`, but no input is reached."""
    state.tried += 1
    os.abort()


@pytest.mark.campaign
@linux
@pytest.mark.parametrize(
    ("process", "said"),
    [
        (die_of_a_valid_file, r"valid csv file.* -6\): b'"),
        (die_between, rf"before input {BLOCK} .* -6"),
    ],
)
def test_a_process_that_dies_elsewhere_ends_the_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: Any, said: str
) -> None:
    monkeypatch.setattr("tests.fuzz.campaign.work", process)
    options = Options(math.inf, 1, 2, tmp_path, ("csv",), time_limit=PATIENCE)
    with pytest.raises(RuntimeError, match=said):
        campaign(options)
