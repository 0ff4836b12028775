"""A plan on a terminal: a table where there is room, else two lines for each candidate."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.svm import SVC

import kernelite as kl
from kernelite.cli.inspect import plan_text
from kernelite.planner.plan import Plan

COLUMNS = 80


@pytest.fixture(scope="module")
def plan() -> Plan:
    X = np.random.default_rng(0).normal(size=(400, 6))
    return kl.compile(SVC(gamma=0.01).fit(X, X[:, 0] > 0), X, plan="estimate").plan


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


def test_elsewhere_it_is_the_plans_own_text(plan: Plan) -> None:
    assert plan_text(plan) == str(plan)
    few = plan_text(plan, most=1).splitlines()
    assert few[:-1] == str(plan).splitlines()[: 1 - len(plan.others)]
    assert few[-1].startswith(f"  and {len(plan.others) - 1} more; ")


@pytest.mark.usefixtures("terminal")
def test_in_a_narrow_terminal_a_candidate_takes_two_lines(plan: Plan) -> None:
    assert max(map(len, str(plan).splitlines())) > COLUMNS
    lines = plan_text(plan).splitlines()
    assert max(map(len, lines)) <= COLUMNS
    told = " ".join(" ".join(lines).split())
    for name, nanoseconds, share, size, verdict in plan.rows():
        open_rows = "" if share == "-" else f"{share} fall back, "
        assert f"{name} {nanoseconds} ns per row, {open_rows}{size} bytes: {verdict}" in told
    assert " ".join(plan.said[0].split()) in told
    assert plan_text(plan, most=1).splitlines()[-1].startswith("  and ")


def test_in_a_wide_terminal_it_is_a_table(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert plan_text(plan) == str(plan)
