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
    assert few[-1].startswith(f"  and {len(plan.others) - 1} more; ")
    assert plan.others[1].verdict not in " ".join(few[:-1])


@pytest.mark.usefixtures("terminal")
def test_a_terminal_says_how_wide_it_is(plan: Plan) -> None:
    assert plan_text(plan) == plan.text(COLUMNS) != str(plan)
    assert max(map(len, plan_text(plan).splitlines())) <= COLUMNS
    assert plan_text(plan, most=1).splitlines()[-1].startswith("  and ")
