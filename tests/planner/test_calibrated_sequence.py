"""Fixed-sequence testing: exact binomial bounds, the first failure stops, the promise is kept."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from kernelite.planner.calibrated import (
    calibrate,
    largest_rate,
    rows_needed,
    threshold_grid,
)
from kernelite.support.errors import InputError


@pytest.mark.parametrize(("differences", "rows"), [(0, 100), (3, 500), (50, 60), (60, 60)])
def test_the_bound_is_clopper_and_pearsons(differences: int, rows: int) -> None:
    interval = binomtest(differences, rows, alternative="less").proportion_ci(0.99, "exact")
    assert largest_rate(differences, rows, 0.99) == pytest.approx(interval.high)


def test_as_many_rows_are_needed_as_no_difference_proves() -> None:
    for rate, confidence in ((1e-3, 0.99), (0.05, 0.9), (0.2, 0.5)):
        needed = rows_needed(rate, confidence)
        assert largest_rate(0, needed, confidence) <= rate
        assert largest_rate(0, needed - 1, confidence) > rate
    with pytest.raises(InputError, match="4603"):
        calibrate(np.array([np.inf]), np.ones(100), np.zeros(100, bool),
                  max_disagreement=1e-3, confidence=0.99)  # fmt: skip


def test_the_grid_runs_from_everything_to_nothing() -> None:
    grid = threshold_grid(np.random.default_rng(0).normal(size=1000))
    assert grid[0] == np.inf
    assert grid[-1] == -np.inf
    assert (np.diff(grid) <= 0).all()


def test_the_walk_stops_at_the_first_failure() -> None:
    """Below 0.5 all labels differ, above none; thresholds after a failure are not looked at."""
    margins = np.linspace(0, 1, 2000)
    grid = np.array([np.inf, 0.6, 0.3, 0.9])
    found = calibrate(grid, margins, margins < 0.5, max_disagreement=0.01, confidence=0.9)
    assert found.threshold == 0.6
    assert found.differences == 0
    assert found.fallback == pytest.approx(0.6, abs=0.01)
    assert found.rate_bound <= 0.01


def test_the_promise_is_broken_no_more_often_than_promised() -> None:
    """Labels differ with a probability that falls with the margin; the true rate is known."""
    rng = np.random.default_rng(1)

    def rate(threshold: float) -> float:  # margins uniform on [0, 1], P(differs) = 0.2 (1 - m)^4
        return 0.2 / 5 * (1 - max(threshold, 0.0)) ** 5 if threshold < 1 else 0.0

    broken = 0
    for _ in range(300):
        grid = threshold_grid(rng.uniform(size=200))
        margins = rng.uniform(size=800)
        differs = rng.uniform(size=800) < 0.2 * (1 - margins) ** 4
        found = calibrate(grid, margins, differs, max_disagreement=0.01, confidence=0.9)
        broken += rate(found.threshold) > 0.01
    assert broken <= 45  # 30 expected at most; 45 is three deviations above


def test_rows_at_the_threshold_are_the_exact_models() -> None:
    margins = np.repeat([0.5, 1.0], [500, 9500])
    found = calibrate(
        np.array([np.inf, 0.5]), margins, margins == 0.5, max_disagreement=1e-3, confidence=0.99
    )
    assert (found.threshold, found.differences, found.fallback) == (0.5, 0, pytest.approx(0.05))
