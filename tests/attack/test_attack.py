"""The fast judge agrees with ball arithmetic, and a run goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kernelite.backends.cpu.exact import ExactEngine
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ClassifierHead
from tests.attack import judge as judge_module
from tests.attack.chances import ChanceJudge, bounded_chances, random_head
from tests.attack.judge import Judge, LeadJudge, VoteJudge
from tests.attack.run import BLOCK, attack, attacked
from tests.attack.subjects import SUBJECTS, answers, made
from tests.helpers import scores_and_bounds
from tests.oracle import real, true_scores


@pytest.mark.parametrize("first", [0, 40])
def test_extended_precision_errs_by_no_more_than_it_says(first: int) -> None:
    if not judge_module.EXTENDED:
        pytest.skip("this machine has no extended precision")
    for number in range(first, first + 40):
        case, _ = made(5, number)
        mine = Judge(case.expansion, case.rows)
        if not mine.extended:
            continue
        for i, row in enumerate(true_scores(case.expansion, case.rows)):
            for j, value in enumerate(row):
                high = float(mine._scores[i, j])
                low = float(mine._scores[i, j] - high)
                if not np.isfinite(high):
                    continue
                error = abs(value - real(high) - real(low))
                assert float(error.lower()) <= float(mine._errors[i, j]) + 1e-320


@pytest.mark.campaign
def test_ratios_are_not_below_those_of_ball_arithmetic() -> None:
    for number in range(30):
        case, rng = made(6, number)
        for name, judge, scores, bounds in answers(case, rng):
            sure = judge.exactly(scores, bounds)
            assert (judge.ratios(scores, bounds) >= sure * (1 - 1e-12)).all(), name


def test_a_bound_that_is_too_small_is_found() -> None:
    case, _ = made(0, 3)
    scores, bounds = scores_and_bounds(ExactEngine.prepare(case.expansion).run(case.rows))
    judge = Judge(case.expansion, case.rows)
    assert judge.ratios(scores, bounds).max() <= 1.0
    # Off by twice what is allowed, wherever anything is.
    assert judge.ratios(scores + 2.0 * bounds, bounds).max() > 1.0


def test_claims_about_pairs_that_are_wrong_are_found() -> None:
    """A lead beyond the truth, a winner that loses, a vote for the other class."""
    A = np.array([[1.0, 0.5, 0.0], [-0.7, 0.0, 2.0], [0.0, -0.5, -0.25]])
    model = KernelExpansion([[0.0], [1.0], [3.0]], A, [0.1, 0.2, -0.3], gamma=0.5)
    rows = np.array([[0.0], [2.0]])
    f = model.scores(rows)
    lead = LeadJudge(model, rows)
    assert lead.ratios(0.999 * f, f).max() <= 1.0
    assert lead.ratios(0.999 * f, f).min() > 0.99
    assert (lead.ratios(1.001 * f, f) > 1.0).all()
    assert (lead.ratios(-1e-9 * f, f) == np.inf).all()
    assert (lead.ratios(np.full_like(f, np.nan), f) == 0.0).all()
    head = ClassifierHead(np.arange(3), shape="ovr")
    votes, few = VoteJudge(model, rows), np.full((2, 3), 1e-12)
    assert votes.ratios(head.decision(f), few).max() <= 1.0
    assert votes.ratios(head.decision(f * [1, -1, 1]), few).max() > 1.0
    assert votes.ratios(head.decision(f) + 2e-12, few).min() > 1.0


def test_what_is_added_up_is_judged_as_a_sum() -> None:
    one = KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0)
    other = KernelExpansion([[1.0]], [-1.0], 0.25, gamma=3.0)
    rows = np.array([[0.5], [7.0]])
    judge, bounds = Judge(one, rows, other), np.full((2, 1), 1e-14)
    scores = one.scores(rows) + other.scores(rows)
    assert judge.ratios(scores, bounds).max() <= 1.0
    assert judge.ratios(scores + 3e-14, bounds).min() > 1.0


def test_every_subject_has_its_turn_and_holds() -> None:
    found = attacked(2, 0, 400)
    assert found["models"] == 400
    assert found["violations"] == []
    for name in (
        *SUBJECTS,
        "winners of pairs",
        "decision values",
        "kernel, loops",
        "kernel, single",
    ):
        assert any(subject.startswith(name) for subject in found["subjects"]), name


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    attack(BLOCK, jobs=1, state=state)
    kept = json.loads(state.read_text())
    assert (kept["next"], kept["models"]) == (BLOCK, BLOCK)
    found = attack(BLOCK + 20, jobs=1, state=state)
    assert (found["next"], found["models"]) == (BLOCK + 20, BLOCK + 20)
    assert found["violations"] == []
    with pytest.raises(SystemExit, match="another run"):
        attack(10, seed=9, state=state)


def test_exponents_that_lost_all_digits_have_no_small_bounds() -> None:
    """A center of 1e11 among others: exponents may come out as large as any, and must not wrap."""
    found = attacked(31, 1118, 1119)
    assert found["models"] == 1
    assert found["violations"] == []


def test_probabilities_and_deviations_hold_and_have_their_turn() -> None:
    found = attacked(3, 0, 60, chances=True)
    assert found["violations"] == []
    for name in ("platt", "coupled, 2", "logistic, 2", "logistic, 3", "calibrated", "isotonic"):
        assert any(subject.startswith(f"chances, {name}") for subject in found["subjects"]), name
    for name in ("inverse", "eigenvectors", "short rest"):
        assert f"deviations, {name}" in found["subjects"]


def test_probabilities_that_are_wrong_are_found() -> None:
    """A head's own bounds hold; a hundredth of them, or other scores, do not."""
    rng = np.random.default_rng(4)
    model = KernelExpansion([[0.0], [1.0]], [[1.0], [-2.0]], 0.25, gamma=0.5)
    rows = np.linspace(-2.0, 2.0, 9)[:, None]
    scores = model.scores(rows)
    off = 1e-3 * rng.uniform(0.5, 1.0, scores.shape)
    for seed in range(12):
        name, head, truth = random_head(np.random.default_rng(seed), False, 1, 1.0)
        judge = ChanceJudge(model, rows, truth)
        p, bounds = bounded_chances(head, scores + off, 2.0 * off)
        assert judge.ratios(p, bounds).max() <= 1.0, name
        if "isotonic" not in name:  # which is constant here and there
            assert judge.ratios(p, 0.01 * bounds).max() > 1.0, name
            assert judge.ratios(1.0 - p, bounds).max() > 1.0, name
