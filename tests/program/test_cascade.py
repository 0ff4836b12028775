"""The cascade: stages in order, each for rows still open, and a record of who settled what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelite as kl
from kernelite.program.bounded import OPEN, Bounded, Factored, Tally, spelled_out
from kernelite.program.cascade import Cascade, holds
from kernelite.program.criteria import Criterion, Margin, Proven, Within, never

K = 2


@dataclass
class Told:
    """A stage that says what a table holds: rows are numbers of its lines.

    Scores are (number of the row) + 1000 x `number`, so that answers show where they come from.
    """

    number: int
    table: np.ndarray  # bounds of shape (m, k)
    accepts_all: bool = False
    serves: bool = True
    factored: bool = False
    fused: np.ndarray | None = None  # stages that this one stands for, with `tried` of them
    tried: int = 1
    asked: list[list[int]] = field(default_factory=list)
    previous: list[Bounded | None] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"stage {self.number}"

    def run(
        self, rows: Any, criterion: Any, previous: Bounded | None = None, into: Any = None
    ) -> Bounded | None:
        if not self.serves:
            return None
        self.asked.append(rows.tolist())
        self.previous.append(previous)
        scores = np.empty((len(rows), K)) if into is None else into
        scores[:] = rows[:, None] + 1000.0 * self.number
        bounds: Any = self.table[rows]
        if self.factored:
            bounds = Factored(bounds[:, 0].copy(), np.ones(K), np.zeros(K))
        stage = None if self.fused is None else self.fused[rows].copy()
        return Bounded(scores, bounds, stage=stage, tried=self.tried)

    def bound(self, rows: Any, criterion: Any) -> np.ndarray | None:
        return self.table[rows] if self.accepts_all or self.number == 0 else None


def table(*bounds: float) -> np.ndarray:
    return np.repeat(np.array(bounds)[:, None], K, axis=1)


TOLERANCE = Within(np.ones(K))


def where_from(found: Bounded, rows: np.ndarray) -> list[int]:
    return np.rint((found.scores[:, 0] - rows) / 1000.0).astype(int).tolist()


def test_each_stage_gets_the_rows_that_are_still_open() -> None:
    stages = (
        Told(0, table(0.5, 3.0, 3.0, 3.0)),
        Told(1, table(0.5, 0.5, 2.0, 2.0)),
        Told(2, table(0.1, 0.1, 0.1, 1.5), accepts_all=True),
    )
    rows, cascade = np.arange(4), Cascade(stages)
    tally = Tally(cascade.names)
    found = cascade.run(rows, TOLERANCE, tally)
    assert [stage.asked for stage in stages] == [[[0, 1, 2, 3]], [[1, 2, 3]], [[2, 3]]]
    assert found.stage.tolist() == where_from(found, rows) == [0, 1, 2, 2]
    assert found.settled.tolist() == [True, True, True, False]  # the last one answers all the same
    np.testing.assert_array_equal(found.bounds, table(0.5, 0.5, 0.1, 1.5))
    assert all(seconds > 0.0 for seconds in tally.seconds)
    stats = tally.stats()
    assert (stats.rows, stats.undecidable) == (4, 1)
    assert dict(stats.stages) == {"stage 0": 1, "stage 1": 1, "stage 2": 2}
    before = stages[1].previous[0]  # what was found for these rows, not for all
    np.testing.assert_array_equal(before.scores[:, 0], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(before.bounds, table(3.0, 3.0, 3.0))


def test_without_open_rows_later_stages_are_not_asked() -> None:
    later = Told(1, table(0.0, 0.0), accepts_all=True)
    found = Cascade((Told(0, table(0.5, 1.0)), later)).run(np.arange(2), TOLERANCE)
    assert found.stage.tolist() == [0, 0]
    assert not later.asked


def test_a_looser_bound_does_not_take_a_tighter_ones_place() -> None:
    """A criterion of scores may hold for them, but `error_bound` promises the first bound."""
    first, second = table(2.0, 2.0, 2.0), table(3.0, 2.0, 1.5)
    second[1, 1] = 2.5  # one output is enough

    class Far(Criterion):
        def __call__(self, scores: np.ndarray, bounds: np.ndarray) -> np.ndarray:
            return scores[:, 0] >= 1000.0

    far = Far()
    forms = Cascade((Told(0, first), Told(1, second)), answers_all=False)
    found = forms.run(np.arange(3), far)
    assert found.stage.tolist() == [OPEN, OPEN, 1]
    assert found.settled.tolist() == [False, False, True]
    assert where_from(found, np.arange(3)) == [0, 0, 1]
    np.testing.assert_array_equal(found.bounds, table(2.0, 2.0, 1.5))
    last = Told(2, table(9.0, 9.0, 9.0), accepts_all=True)
    found = Cascade((Told(0, first), Told(1, second), last)).run(np.arange(3), far)
    assert found.stage.tolist() == where_from(found, np.arange(3)) == [2, 2, 1]
    np.testing.assert_array_equal(found.bounds, table(9.0, 9.0, 1.5))


@pytest.mark.parametrize(("tried", "asked"), [(2, [False, True]), (1, [True, True])])
def test_a_stage_may_stand_for_two(tried: int, asked: list[bool]) -> None:
    fused = np.array([0, 1, OPEN, OPEN], dtype=np.int8)
    stages = (
        Told(0, table(0.5, 0.5, 3.0, 3.0), fused=fused, tried=tried),
        Told(1, table(0.5, 0.5, 0.5, 2.0)),
        Told(2, table(0.1, 0.1, 0.1, 0.1), accepts_all=True),
    )
    found = Cascade(stages).run(np.arange(4), TOLERANCE)
    assert [bool(stage.asked) for stage in stages[1:]] == asked
    assert found.stage.tolist() == ([0, 1, 2, 2] if tried == 2 else [0, 1, 1, 2])
    assert found.settled.all()


def test_numbers_of_a_fused_stage_count_from_its_own() -> None:
    fused = np.array([0, 1, OPEN], dtype=np.int8)
    stages = (
        Told(0, table(9.0, 9.0, 9.0), serves=False),
        Told(1, table(0.5, 0.5, 3.0), fused=fused, tried=2),
        Told(2, table(0.5, 0.5, 0.5)),
        Told(3, table(0.1, 0.1, 0.1), accepts_all=True),
    )
    found = Cascade(stages).run(np.arange(3), TOLERANCE)
    assert found.stage.tolist() == [1, 2, 3]
    assert not stages[2].asked


def test_stages_that_are_not_worth_it_are_passed_over() -> None:
    last = Told(3, table(0.1, 0.1), accepts_all=True)
    stages = (
        Told(0, table(9.0, 9.0), serves=False),
        Told(1, table(0.5, 2.0)),
        Told(2, table(0.1, 0.1), serves=False),
        last,
    )
    found = Cascade(stages).run(np.arange(2), TOLERANCE)
    assert found.stage.tolist() == [1, 3]
    assert last.asked == [[1]]


def test_without_a_criterion_the_first_stage_answers() -> None:
    stages = (Told(0, table(9.0, 9.0)), Told(1, table(0.1, 0.1), accepts_all=True))
    found = Cascade(stages).run(np.arange(2), None)
    assert found.stage.tolist() == [0, 0]
    assert found.settled is None
    assert not stages[1].asked


def test_the_last_stage_answers_what_nothing_settles() -> None:
    stages = (Told(0, table(0.1, 0.1)), Told(1, table(5.0, 5.0), accepts_all=True))
    found = Cascade(stages).run(np.arange(2), never)
    assert found.stage.tolist() == where_from(found, np.arange(2)) == [1, 1]
    assert found.settled is None  # nothing was asked of it
    assert not stages[0].asked
    alone = Cascade(stages[1:]).run(np.arange(2), never)
    assert alone.stage.tolist() == [0, 0]
    assert alone.settled is None
    forms = Cascade(stages[:1], answers_all=False).run(np.arange(2), never)
    assert forms.stage.tolist() == [OPEN, OPEN]


def test_factored_bounds_meet_bounds_that_are_spelled_out() -> None:
    stages = (
        Told(0, table(0.5, 3.0, 3.0), factored=True),
        Told(1, table(0.1, 0.7, 0.6), factored=True, accepts_all=True),
    )
    found = Cascade(stages).run(np.arange(3), TOLERANCE)
    assert found.stage.tolist() == [0, 1, 1]
    np.testing.assert_array_equal(spelled_out(found.bounds), table(0.5, 0.7, 0.6))


def test_scores_go_where_they_are_wanted() -> None:
    stages = (Told(0, table(0.5, 3.0)), Told(1, table(0.1, 0.1), accepts_all=True))
    room = np.full((2, K), np.nan)
    found = Cascade(stages).run(np.arange(2), TOLERANCE, into=room)
    assert found.scores is room
    np.testing.assert_array_equal(room[:, 0], [0.0, 1001.0])


def test_the_bound_of_any_answer_is_the_largest() -> None:
    stages = (
        Told(0, table(0.5, 3.0)),
        Told(1, table(9.0, 9.0)),  # says nothing: it never answers with a looser bound
        Told(2, table(1.0, 1.0), accepts_all=True),
    )
    np.testing.assert_array_equal(Cascade(stages).bounds(np.arange(2), None), table(1.0, 3.0))
    assert list(Cascade(stages).names) == ["stage 0", "stage 1", "stage 2"]


def test_no_rows() -> None:
    found = Cascade((Told(0, table(1.0)), Told(1, table(1.0), accepts_all=True))).run(
        np.arange(0), TOLERANCE
    )
    assert (found.scores.shape, found.stage.shape) == ((0, K), (0,))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 4), all_of_them=st.booleans())
def test_one_row_gets_what_it_gets_in_a_block(seed: int, count: int, all_of_them: bool) -> None:
    rng = np.random.default_rng(seed)
    tables = 10.0 ** rng.uniform(-1.0, 0.5, size=(count, 20, K))
    stages = [Told(i, tables[i], serves=i == count - 1 or rng.random() < 0.8) for i in range(count)]
    stages[-1].accepts_all = all_of_them
    cascade, rows = Cascade(tuple(stages), answers_all=all_of_them), np.arange(20)
    block = cascade.run(rows, TOLERANCE)
    np.testing.assert_array_equal(block.settled, (block.stage != OPEN) & holds(TOLERANCE, block))
    for i in rows:
        alone = cascade.run(rows[i : i + 1], TOLERANCE)
        np.testing.assert_array_equal(alone.scores[0], block.scores[i])
        np.testing.assert_array_equal(alone.bounds[0], block.bounds[i])
        assert (alone.stage[0], alone.settled[0]) == (block.stage[i], block.settled[i])
        quick = cascade.one(rows[i : i + 1], TOLERANCE)
        if not block.settled[i]:
            assert quick is None
            continue
        alone, number = quick
        np.testing.assert_array_equal(alone.scores[0], block.scores[i])
        assert number == block.stage[i]


@pytest.mark.parametrize("sq_norm", [np.nan, np.inf])
def test_one_row_that_is_not_finite_is_left_to_others(sq_norm: float) -> None:
    class Measured(Told):
        def run(self, *given: Any, **more: Any) -> Bounded | None:
            found = super().run(*given, **more)
            return None if found is None else found._replace(sq_norms=np.array([sq_norm]))

    last = Told(1, table(0.1), accepts_all=True)
    assert Cascade((Measured(0, table(0.1)), last)).one(np.arange(1), TOLERANCE) is None
    assert not last.asked


def test_nothing_is_proven_without_bounds() -> None:
    """Scores below zero must not pass for bounds."""
    head = kl.ClassifierHead(np.array([0, 1]))
    found = Bounded(np.array([[-3.0], [3.0]]))
    assert not holds(Proven(head.decided), found).any()
    assert not holds(Within(np.ones(1)), found).any()
    assert holds(Margin(head, 1.0), found).all()  # which asks for scores alone


def test_a_stage_may_find_labels_without_scores() -> None:
    class Labels(Told):
        def run(self, rows: Any, *given: Any, **more: Any) -> Bounded | None:
            winners = np.where(rows % 2, -1, rows)
            stage = np.where(winners < 0, OPEN, 0).astype(np.int8)
            return Bounded(np.full((len(rows), K), np.nan), stage=stage, winners=winners)

    last = Told(1, table(0.1, 0.1, 0.1, 2.0), accepts_all=True)
    cascade = Cascade((Labels(0, table()), last))
    tally = Tally(cascade.names)
    found = cascade.run(np.arange(4), TOLERANCE, tally)
    assert last.asked == [[1, 3]]
    assert found.stage.tolist() == [0, 1, 0, 1]
    assert found.settled.tolist() == [True, True, True, False]
    assert found.winners.tolist() == [0, -1, 2, -1]
    np.testing.assert_array_equal(found.scores[[1, 3], 0], [1001.0, 1003.0])
    assert (tally.answered, tally.undecidable) == ([2, 2], 1)
    assert cascade.one(np.array([2]), TOLERANCE)[1] == 0
    assert cascade.one(np.array([1]), TOLERANCE)[1] == 1
    assert cascade.one(np.array([3]), TOLERANCE) is None
