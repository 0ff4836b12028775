"""Results: bounds as one number per row say what they say spelled out."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelite.program.bounded import STAGES, Bounded, Factored, Stats, spelled_out


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(0, 40),
    k=st.integers(1, 5),
    size=st.sampled_from([1e-300, 1e-12, 1.0, 1e200]),
    share=st.floats(0.0, 1.0),
)
def test_within_agrees_with_bounds_spelled_out(
    seed: int, m: int, k: int, size: float, share: float
) -> None:
    rng = np.random.default_rng(seed)
    weight = size * rng.random(k) * (rng.random(k) < 0.8)
    bounds = Factored(10.0 ** rng.uniform(-6, 3, m), weight, size * rng.random(k) * 1e-3)
    spelled = spelled_out(bounds)
    assert spelled.shape == (m, k)
    tolerance = np.quantile(spelled, share, axis=0) if m else np.ones(k)
    within = bounds.within(tolerance)
    assert not (within & (spelled > tolerance).any(axis=1)).any()  # never too generous,
    # and too strict by its safety alone, which is relative to what the row adds.
    clear = (spelled * (1.0 + 1e-8) <= tolerance).all(axis=1)
    assert within[clear].all()


def test_an_output_without_weight_has_its_constant_alone() -> None:
    bounds = Factored(np.array([1.0, 1e300]), np.array([0.0, 0.0]), np.array([1e-3, 0.0]))
    assert bounds.within(np.array([1e-3, 0.0])).tolist() == [True, True]
    assert bounds.within(np.array([0.9e-3, 1.0])).tolist() == [False, False]
    np.testing.assert_array_equal(spelled_out(bounds), [[1e-3, 0.0]] * 2)


@pytest.mark.parametrize("row", [np.nan, np.inf])
def test_rows_of_which_nothing_is_known_are_within_nothing(row: float) -> None:
    bounds = Factored(np.array([row, 1.0]), np.array([1.0]), np.array([0.0]))
    assert bounds.within(np.array([1e300])).tolist() == [False, True]
    assert not spelled_out(bounds)[0, 0] <= 1e300


def test_coefficients_that_overflow_leave_nothing_known() -> None:
    bounds = Factored(np.array([0.0, 2.0]), np.array([np.inf, 1.0]), np.array([np.inf, 0.0]))
    np.testing.assert_array_equal(spelled_out(bounds), [[np.inf, 0.0], [np.inf, 2.0]])
    assert not bounds.within(np.full(2, 1e308)).any()


def test_bounds_that_are_spelled_out_stay_as_they_are() -> None:
    bounds = np.ones((3, 2))
    assert spelled_out(bounds) is bounds


def test_a_quotient_that_rounds_up_lets_no_row_pass() -> None:
    """room / weight may be above the real one by its rounding: a billionth is left over."""
    for tolerance, weight, constant in ((1.0, 1.0, 0.0), (1e-3, 3.0, 1e-4), (0.7, 0.1, 0.2)):
        most = (tolerance - constant) / weight
        rows = most * (1.0 + np.array([-1e-6, 0.0, 5e-10]))
        bounds = Factored(rows, np.array([weight]), np.array([constant]))
        assert bounds.within(np.array([tolerance])).tolist() == [True, False, False]


def test_some_rows_keep_all_but_their_stages() -> None:
    part = Bounded(np.arange(3.0)[:, None], np.ones((3, 1)))
    whole = Bounded(
        np.arange(6.0).reshape(3, 2),
        Factored(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0]), np.array([0.0, 1.0])),
        np.array([4.0, 5.0, 6.0]),
        np.array([1.0, 2.0, 3.0]),
        stage=np.zeros(3, dtype=np.int8),
        settled=np.ones(3, dtype=np.bool_),
        parts=(part,),
    )
    some = whole.rows(np.array([2, 0]))
    np.testing.assert_array_equal(some.scores, [[4.0, 5.0], [0.0, 1.0]])
    np.testing.assert_array_equal(some.bounds, [[3.0, 7.0], [1.0, 3.0]])
    np.testing.assert_array_equal(some.sq_norms, [6.0, 4.0])
    np.testing.assert_array_equal(some.kept, [3.0, 1.0])
    np.testing.assert_array_equal(some.parts[0].scores, [[2.0], [0.0]])
    assert some.stage is None
    assert some.settled is None
    bare = Bounded(np.zeros((3, 1))).rows(np.array([1]))
    assert (bare.bounds, bare.sq_norms, bare.kept) == (None, None, None)


def test_the_guide_explains_every_stage() -> None:
    page = Path(__file__).parents[2] / "docs" / "guide" / "serving.md"
    rows = re.findall(r"^\| `([^`]+)` \| (.*) \|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(rows) == STAGES


def test_printed_statistics_say_what_stages_do() -> None:
    stats = Stats(rows=3, stages={"form": 1, "exact": 2, "third order": 0}, undecidable=1)
    lines = str(stats).splitlines()
    assert lines[0] == "3 rows"
    assert [line.split()[:2] for line in lines[1:]] == [
        ["1", "form"],
        ["2", "exact"],
        ["1", "undecidable"],
    ]
