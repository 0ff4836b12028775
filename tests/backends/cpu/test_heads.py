"""Kernels that judge rows say what criteria, heads and bounds say by NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import kernelite as kl
from kernelite.backends.cpu import heads
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.heads import decisions_of, judge
from kernelite.backends.cpu.kernels.providers import jit_available
from kernelite.backends.cpu.one_pass import labels_of
from kernelite.backends.cpu.rows import Damped, OutsideRows
from kernelite.machine.heads import ClassifierHead, Head, LinearHead, OutlierHead
from kernelite.program.bounded import Bounded, Factored, spelled_out
from kernelite.program.cascade import holds, judged
from kernelite.program.criteria import (
    And,
    Close,
    Criterion,
    LabelMargin,
    Margin,
    Proven,
    SameAnswer,
    Within,
    predict_criterion,
)
from tests.helpers import random_expansion

pytestmark = pytest.mark.skipif(not jit_available(), reason="no kernels here")

AWKWARD = [0.0, -0.0, 0.25, -0.25, 5e-324, -5e-324, np.inf, -np.inf, np.nan, 1e308, 0.3, -7.0]
HEADS: dict[str, Head] = {
    "second positive": ClassifierHead(np.array(["no", "yes"]), first_positive=False),
    "first positive": ClassifierHead(np.array([3, 7])),
    "threshold": ClassifierHead(np.array([0.5, 1.5]), threshold=0.25),
    "closed": ClassifierHead(np.array([False, True]), zero_is_first=True, threshold=0.25),
    "closed, second": ClassifierHead(np.array([1, 2]), first_positive=False, zero_is_first=True),
    "small": ClassifierHead(np.array([1, 2], dtype=np.int16)),
    "objects": ClassifierHead(np.array(["a", "more"], dtype=object)),
    "long texts": ClassifierHead(np.array(["some", "thirty letters and a few more"])),
    "days": ClassifierHead(np.array(["2026-01-01", "2026-01-02"], dtype="M8[D]")),
    "outlier": OutlierHead(),
    "inlier at zero": OutlierHead(zero_is_inlier=True),
    "linear": LinearHead(np.array(["a", "b"])),
}


def found(m: int = 1000, k: int = 1, seed: int = 0) -> Bounded:
    rng = np.random.default_rng(seed)
    scores, bounds = rng.normal(size=(m, k)), 0.3 * np.abs(rng.normal(size=(m, k)))
    squares = rng.random(m)
    grid = np.array([(s, b) for s in AWKWARD for b in (0.0, 0.25, np.inf, np.nan)])[:m]
    scores[: len(grid), 0], bounds[: len(grid), 0] = grid.T
    return Bounded(scores, bounds, squares)


def criteria(head: Head) -> list[Criterion]:
    same = SameAnswer(head, "decision_function")
    return [
        predict_criterion(head, None),
        same,
        Proven(same),
        Margin(head, 0.4),
        LabelMargin(head, 0.4),
        And(same, Within(np.array([0.2]))),
        Within(np.array([0.2])),
    ]


@pytest.mark.parametrize("name", HEADS)
def test_rows_are_settled_as_the_criterion_says(name: str) -> None:
    head = HEADS[name]
    for criterion in criteria(head):
        assert criterion.rule is not None
        for given in (found(), found()._replace(sq_norms=None), found(3), found(0)):
            with np.errstate(invalid="ignore"):
                expected, got = judged(criterion, given, 0.5), judge(criterion, given, 0.5)
            np.testing.assert_array_equal(got.rows, expected.rows)
            assert (got.n_open, got.outside) == (expected.n_open, expected.outside)
            assert got.finite == expected.finite
            for i in range(min(len(given.scores), 60)):
                settled = criterion.rule.settles(given.scores[i, 0], given.bounds[i, 0])
                assert settled == expected.rows[i]


@pytest.mark.parametrize("name", HEADS)
def test_labels_are_those_of_the_head(name: str) -> None:
    head, scores = HEADS[name], found().scores
    finish = labels_of(head)
    assert finish != head.predict
    for some in (scores, scores[:0], *(scores[i : i + 1] for i in range(60))):
        expected = head.predict(some)
        np.testing.assert_array_equal(finish(some), expected)
        assert finish(some).dtype == expected.dtype


@pytest.mark.parametrize("name", HEADS)
def test_without_bounds_the_margin_decides(name: str) -> None:
    head, given = HEADS[name], found()._replace(bounds=None)
    for criterion in (Margin(head, 0.4), LabelMargin(head, 0.4)):
        got = judge(criterion, given, np.inf)
        np.testing.assert_array_equal(got.rows, head.margin(given.scores) > 0.4)
        np.testing.assert_array_equal(got.rows, judged(criterion, given).rows)
    for criterion in (Proven(head.decided), Within(np.array([0.2]))):
        assert not judge(criterion, given, np.inf).rows.any()


def test_several_outputs_within_a_tolerance() -> None:
    for tolerance in (np.array([0.3, 0.2, 0.5]), np.array([0.3])):
        criterion = Within(tolerance)
        expected, got = judged(criterion, found(k=3)), judge(criterion, found(k=3), np.inf)
        np.testing.assert_array_equal(got.rows, expected.rows)


@pytest.mark.parametrize("k", [3, 190, 4950])
def test_the_lock_is_kept_for_few_numbers(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Votes of twenty classes held it for half a millisecond a block, which others waited for."""
    K = round((1 + (1 + 8 * k) ** 0.5) / 2)
    asked, head = [], ClassifierHead(np.arange(K), shape="ovr")
    own, scores = heads.share_rows, np.ones((100, k))

    def counted(kernel: object, m: int, least: int, *given: object) -> None:
        asked.append(least)
        own(kernel, m, least, *given)

    monkeypatch.setattr(heads, "share_rows", counted)
    decisions_of(head)(scores)
    judge(Within(np.array([0.2])), Bounded(scores, 0.1 * scores), np.inf)
    assert len(asked) == 2
    assert all(least * k <= 1 << 16 or least == 64 for least in asked)


@pytest.mark.parametrize("m", [0, 1, 3, 1000])
def test_the_second_of_two_criteria_is_asked_where_the_first_accepts(m: int) -> None:
    """Ends of decision values take forty times as long as signs, and most rows that are asked of
    both have no sure sign."""
    seen, given = [], found(m, 3)
    signs, small = SameAnswer(HEADS["outlier"]), Within(np.array([0.2]))

    class Counted(Criterion):
        def __call__(self, scores: np.ndarray, bounds: np.ndarray) -> np.ndarray:
            seen.append(len(scores))
            return small(scores, bounds)

    with np.errstate(invalid="ignore"):
        both = And(signs, Counted())(given.scores, given.bounds)
        first = signs(given.scores, given.bounds)
        np.testing.assert_array_equal(both, first & small(given.scores, given.bounds))
    wanted = int(np.count_nonzero(first))
    assert seen == ([wanted] if wanted or first.all() else [])
    scores, bounds = np.ones((4, 3)), np.full((4, 3), 0.25)  # signs are sure, values are not
    bounds[1] = 0.1
    assert And(signs, Counted())(scores, bounds).tolist() == [False, True, False, False]


def test_a_row_that_is_not_finite_is_seen() -> None:
    criterion = Within(np.array([0.2]))
    clean = Bounded(np.zeros((9, 1)), np.zeros((9, 1)), np.ones(9))
    assert judge(criterion, clean, np.inf).finite
    for value in (np.nan, np.inf):
        squares = np.ones(9)
        squares[7] = value
        assert not judge(criterion, clean._replace(sq_norms=squares), np.inf).finite
        bounds = np.zeros((9, 1))
        bounds[7] = value
        unknown = clean._replace(sq_norms=None, bounds=bounds, finite_if_bounded=True)
        assert not judge(criterion, unknown, np.inf).finite
    assert not judge(criterion, clean._replace(sq_norms=None), np.inf).finite


def test_without_a_validity_bound_nothing_lies_outside() -> None:
    """Not even rows so far away that |u|^2 overflows: these are asked whether they are finite."""
    criterion = Within(np.array([0.2]))
    far = Bounded(np.zeros((3, 1)), np.zeros((3, 1)), np.array([1.0, np.inf, np.nan]))
    for way in (judge, judged):
        assert (way(criterion, far, np.inf).outside, way(criterion, far, 0.5).outside) == (0, 3)


def test_what_cannot_be_told_in_numbers_is_asked_of_the_criterion() -> None:
    three = ClassifierHead(np.array([0, 1, 2]))
    assert predict_criterion(three, None).rule is None
    given = found(k=3)
    got = judge(predict_criterion(three, None), given, np.inf)
    np.testing.assert_array_equal(got.rows, three.decided(given.scores, given.bounds))
    factored = Bounded(np.zeros((4, 2)), Factored(np.arange(4.0), np.ones(2), np.zeros(2)))
    assert judge(Within(np.array([1.5, 2.5])), factored, np.inf).rows.tolist() == [
        *(True, True, False, False)
    ]


@pytest.mark.parametrize("gamma", [1e-3, 0.3, 5.0])
def test_bounds_of_exact_sums_are_the_formulas(gamma: float) -> None:
    rng = np.random.default_rng(3)
    engine = ExactEngine.prepare(random_expansion(rng, n=50, d=4, gamma=gamma))
    rounding = engine.dense.rounding
    squares = np.array([0.0, 1.0, 1e-300, 4.0, 900.0, 1e6, 1e200, 1e308, np.inf, np.nan])
    scores = rng.normal(size=(len(squares), 1))
    before = scores.copy()
    got, expected = rounding.bounded(scores, squares, 4), spelled_out(rounding.bounds(squares, 4))
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    far = rounding.far(squares)
    assert far.any()
    np.testing.assert_array_equal(
        scores[far], np.repeat(engine.expansion.intercept[None], far.sum(), 0)
    )
    np.testing.assert_array_equal(scores[~far], before[~far])


def test_a_wide_row_is_answered_as_among_others(tmp_path) -> None:
    rng = np.random.default_rng(0)
    lines = [
        f"{weight} " + " ".join(f"{i + 1}:{entry}" for i, entry in enumerate(center))
        for weight, center in zip([*[1.0] * 20, *[-1.0] * 20], rng.normal(size=(40, 3)).tolist())
    ]
    head = "svm_type c_svc\nkernel_type rbf\ngamma 0.1\nnr_class 2\ntotal_sv 40\nrho 0.1\n"
    text = head + "label 1 -1\nnr_sv 20 20\nSV\n" + "\n".join(lines) + "\n"
    (tmp_path / "model").write_text(text)
    plan = "quadratic form about the mean of X"  # one form: a second one may answer rows in a batch
    fast = kl.compile(tmp_path / "model", rng.normal(size=(50, 3)), plan=plan)
    rows = rng.normal(size=(60, 5))
    rows[::3, 3:] = 0.0
    for method in ("predict", "decision_function"):
        together = getattr(fast, method)(rows)
        alone = np.concatenate([getattr(fast, method)(row[None]) for row in rows])
        np.testing.assert_allclose(alone, together, rtol=1e-9, atol=1e-12)
    for bad in (np.nan, np.inf):
        for place in (1, 4):
            row = np.zeros((1, 5))
            row[0, place] = bad
            with pytest.raises(kl.InputError, match="NaN or infinity"):
                fast.predict(row)
    assert fast.predict(np.array([[0.0, 0.0, 0.0, 1e200, 0.0]])).shape == (1,)


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("k", [1, 3])
def test_damping_is_its_definition(k: int, bounded: bool) -> None:
    given = found(300, k)
    beyond = np.random.default_rng(5).exponential(30.0, size=300)
    beyond[:6] = [0.0, 1e-300, 7000.0, 8000.0, 1e308, np.inf]
    rows = OutsideRows(np.zeros((300, 2)), beyond, 70 * 2.0**-53)
    stage = Damped(None, 0.1, np.linspace(-1.0, 2.0, k), None)  # type: ignore[arg-type]
    bounds = given.bounds if bounded else None
    expected = stage.defined(rows, given.scores, bounds)
    got = stage._damp(rows, given.scores, bounds)
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-13, atol=1e-15)
    if bounded:
        np.testing.assert_allclose(got[1], expected[1], rtol=1e-12)
    else:
        assert got[1] is expected[1] is None


SEVERAL: dict[str, Head] = {
    "ovr": ClassifierHead(np.arange(4), shape="ovr"),
    "ovo": ClassifierHead(np.arange(4)),
    "ties broken": ClassifierHead(np.arange(4), break_ties=True, shape="ovr"),
    "by probability": ClassifierHead(
        np.arange(4), platt_a=-np.ones(6), platt_b=np.zeros(6), labels_by_probability=True
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("rows", [1, 3, 500])
def test_several_scores_are_settled_as_the_criterion_says(name: str, rows: int) -> None:
    head, rng = SEVERAL[name], np.random.default_rng(rows)
    same = SameAnswer(head, "decision_function")
    asked = [
        *(same, SameAnswer(head), Proven(SameAnswer(head)), Within(np.full(6, 0.2))),
        *(And(same, Within(np.full(6, 0.2))), And(same, Close(head, "decision_function", 0.3))),
    ]
    assert (asked[-1].enough is not None) == (name in ("ovr", "ties broken"))
    for size in (1e-3, 0.1, 1.0):
        scores = rng.choice([0.0, -1.0, 1.0], (rows, 6)) + size * rng.normal(size=(rows, 6))
        bounds = size * rng.random((rows, 6))
        bounds[::7, 2], scores[::5, 1], scores[1::9, 3] = np.inf, np.nan, -0.0
        factored = Factored(size * rng.random(rows), rng.random(6), np.full(6, 1e-9))
        for own in (bounds, factored):
            given = Bounded(scores, own, rng.random(rows))
            for criterion in asked:
                with np.errstate(invalid="ignore"):
                    expected, got = judged(criterion, given, 0.5), judge(criterion, given, 0.5)
                    settled = holds(criterion, given._replace(bounds=spelled_out(own)))
                np.testing.assert_array_equal(got.rows, expected.rows)
                np.testing.assert_array_equal(got.rows, settled)
                assert (got.n_open, got.outside) == (expected.n_open, expected.outside)


@pytest.mark.parametrize("method", ["predict_proba", "decision_function"])
@pytest.mark.parametrize("classes", [2, 3, 6])
def test_what_is_enough_for_linear_heads_is(classes: int, method: str) -> None:
    head, rng = LinearHead(np.arange(classes), logistic=True), np.random.default_rng(classes)
    k, criterion = head.n_scores, Close(head, method, 1e-3)
    assert criterion.enough is not None
    limit = criterion.enough.tolerance[0]
    scores = rng.normal(size=(400, k)) * 10.0 ** rng.uniform(-3, 3, (400, 1))
    for share in (0.3, 1.0, 1.3):
        spelled = share * limit * rng.random((400, k)) ** 0.1
        for bounds in (spelled, Factored(spelled[:, 0], np.ones(k), np.zeros(k))):
            found = Bounded(scores, bounds, np.ones(400))
            expected, got = judged(criterion, found, np.inf), judge(criterion, found, np.inf)
            np.testing.assert_array_equal(got.rows, expected.rows)
            assert got.n_open == expected.n_open
            assert not got.n_open or share > 1.0
    moved = scores + limit * rng.choice([-1.0, 1.0], scores.shape)
    off = np.abs(head.answer(method, moved) - head.answer(method, scores))
    assert off.max() <= 1e-3
    assert off.max() > 0.5e-3


@pytest.mark.parametrize("classes", [3, 4, 7, 20])
def test_votes_are_those_of_the_head(classes: int) -> None:
    rng = np.random.default_rng(classes)
    head = ClassifierHead(np.arange(classes), shape="ovr")
    decisions = decisions_of(head)
    assert decisions != head.decision
    for rows in (0, 1, 40, 3000):
        scores = rng.normal(size=(rows, head.n_scores))
        scores[::3] = rng.choice([*AWKWARD[:-3], 1e300, 0.5], scores[::3].shape)
        for given in (scores, np.asfortranarray(scores)):
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(decisions(given), head.decision(scores))
    for other in (ClassifierHead(np.arange(classes)), HEADS["first positive"]):
        assert decisions_of(other) == other.decision
