"""The exact engine: its answers, its bounds alone, its memory, its threads."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.svm import SVC

import kernelite as kl
from kernelite.backends.cpu import exact_rounding as module
from kernelite.backends.cpu.exact import DoublePrecision, ExactEngine
from kernelite.backends.cpu.exact_rounding import ExactRounding
from kernelite.backends.cpu.panels import shown_centers
from kernelite.backends.cpu.staging import stage_engine
from kernelite.backends.cpu.threads import limit_threads
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.expansion import KernelExpansion
from kernelite.program.bounded import EXACT_SINGLE, Factored, spelled_out
from kernelite.program.cascade import holds
from kernelite.program.criteria import Criterion, Proven, Within
from kernelite.series.rounding import SAFETY, UNIT
from tests.helpers import random_expansion, scores_and_bounds
from tests.oracle import error_ratios, true_scores


@pytest.mark.parametrize("kernel", ["rbf", "poly2"])
@pytest.mark.parametrize("k", [1, 4])
def test_scores_are_the_expansions(kernel: str, k: int) -> None:
    rng = np.random.default_rng(0)
    model = random_expansion(rng, n=1500, d=7, k=k, kernel=kernel)
    rows = rng.normal(size=(300, 7))
    scores, bounds = scores_and_bounds(ExactEngine.prepare(model).run(rows))
    np.testing.assert_allclose(scores, model.scores(rows), rtol=1e-9, atol=1e-9)
    assert (np.abs(scores - model.scores(rows)) <= 3 * bounds).all()
    assert (bounds < 1e-8).all()


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1e9, 1e15])
def test_data_far_from_the_origin_lose_nothing(offset: float) -> None:
    rng = np.random.default_rng(1)
    centers = np.round(rng.normal(size=(30, 3)) * 8) / 8 + offset
    model = KernelExpansion(centers, rng.normal(size=30), 0.0, gamma=0.3)
    rows = np.round(rng.normal(size=(10, 3)) * 8) / 8 + offset
    scores, bounds = scores_and_bounds(ExactEngine.prepare(model).run(rows))
    assert error_ratios(true_scores(model, rows), scores, bounds).max() <= 1.0
    assert bounds.max() < 1e-11


def test_the_bound_alone_is_no_smaller() -> None:
    rng = np.random.default_rng(2)
    for kernel in ("rbf", "poly2"):
        model = random_expansion(rng, n=50, d=4, k=2, kernel=kernel)
        rows = np.concatenate([rng.normal(size=(40, 4)), np.full((1, 4), 1e3)])
        engine = ExactEngine.prepare(model)
        # |u|^2 may be summed up in another order.
        bounds = scores_and_bounds(engine.run(rows))[1]
        assert (engine.bound(rows) >= bounds * (1.0 - 1e-14)).all()


def test_differences_are_taken_where_products_cancel() -> None:
    near = KernelExpansion([[0.0], [1.0]], [1.0, 1.0], 0.0, gamma=1.0)
    far = KernelExpansion([[0.0], [1e9]], [1.0, 1.0], 0.0, gamma=1.0)
    assert not ExactEngine.prepare(near).dense.rounding.by_differences
    assert ExactEngine.prepare(far).dense.rounding.by_differences


def test_both_ways_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    model = random_expansion(rng, n=700, d=5, k=2)
    rows = rng.normal(size=(150, 5))
    products = scores_and_bounds(ExactEngine.prepare(model).run(rows))
    monkeypatch.setattr(module, "CANCELLATION", -1.0)
    engine = ExactEngine.prepare(model)
    assert engine.dense.rounding.by_differences
    differences = scores_and_bounds(engine.run(rows))
    assert (np.abs(products[0] - differences[0]) <= products[1] + differences[1]).all()


def test_rows_far_from_all_centers_get_the_intercept() -> None:
    model = KernelExpansion([[0.0, 0.0]], [5.0], -0.25, gamma=1.0)
    rows = np.array([[1e200, 0.0], [1e308, -1e308], [40.0, 0.0]])
    scores, bounds = scores_and_bounds(ExactEngine.prepare(model).run(rows))
    np.testing.assert_array_equal(scores, np.full((3, 1), -0.25))
    assert (bounds < 1e-15).all()


@pytest.mark.parametrize(
    ("gamma", "center", "row"),
    [(1e250, 1e-200, 1e50), (1e250, 1e50, 1e-200), (1e120, 1e-165, 1e60), (1e300, 1e-163, 1e-162)],
)
def test_squares_that_underflow_stay_in_the_bound(gamma: float, center: float, row: float) -> None:
    centers = [[center, 0.0], [1.37 * center, center]]
    model = KernelExpansion(centers, [1.0, -1.3], 0.0, gamma=gamma, kernel="poly2", coef0=1e-4)
    rows = np.array([[1.1, 1.0], [0.7, 1.3]]) * row
    scores, bounds = scores_and_bounds(ExactEngine.prepare(model).run(rows))
    assert error_ratios(true_scores(model, rows), scores, bounds).max() <= 1.0


def test_coefficients_whose_sum_overflows_leave_nothing_known() -> None:
    model = KernelExpansion([[0.0], [1.0]], [1.7e308, -1.7e308], 0.0, gamma=1.0)
    found = ExactEngine.prepare(model).run(np.array([[0.5], [1e9], [1e200]]))
    bounds = scores_and_bounds(found)[1]
    np.testing.assert_array_equal(bounds, np.full((3, 1), np.inf))


def test_a_kernel_value_that_overflows_is_not_hidden_by_its_coefficient() -> None:
    model = KernelExpansion([[1e80]], [1e-100], 0.0, gamma=1.0, kernel="poly2")
    scores, bounds = scores_and_bounds(ExactEngine.prepare(model).run(np.array([[1e80], [1e60]])))
    assert bounds[0, 0] == np.inf
    assert np.isfinite(scores[1, 0])
    assert np.isfinite(bounds[1, 0])


def test_a_polynomial_that_overflows_says_so() -> None:
    model = KernelExpansion([[1.0], [2.0]], [1.0, -1.0], 0.0, gamma=1.0, kernel="poly2")
    engine = ExactEngine.prepare(model)
    bounds = scores_and_bounds(engine.run(np.array([[1e200], [1.0]])))[1]
    assert np.isinf(bounds[0, 0])
    assert bounds[1, 0] < 1e-13


def test_no_rows_and_no_centers() -> None:
    empty = KernelExpansion(np.zeros((0, 3)), np.zeros((0, 2)), [1.0, -1.0], gamma=1.0)
    scores = ExactEngine.prepare(empty).run(np.ones((2, 3))).scores
    np.testing.assert_array_equal(scores, [[1.0, -1.0]] * 2)
    some = random_expansion(np.random.default_rng(4))
    assert ExactEngine.prepare(some).run(np.empty((0, 5))).scores.shape == (0, 1)


@pytest.mark.parametrize("kernel", ["rbf", "poly2"])
def test_memory_is_bounded_by_tiles(kernel: str) -> None:
    """20,000 rows times 3,000 centers would be 480 MB of kernel values."""
    rng = np.random.default_rng(5)
    model = random_expansion(rng, n=3000, d=2, kernel=kernel)
    rows = rng.normal(size=(20_000, 2))
    engine = ExactEngine.prepare(model)
    engine.run(rows[:10])
    tracemalloc.start()
    with limit_threads(2):  # each of which has a tile of its own
        engine.run(rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * 2**20


def test_threads_do_not_change_the_answer() -> None:
    rng = np.random.default_rng(6)
    model = random_expansion(rng, n=900, d=6, k=2)
    rows = rng.normal(size=(700, 6))
    engine = ExactEngine.prepare(model)
    answers = []
    for threads in (1, 2, 5):
        with limit_threads(threads):
            answers.append(scores_and_bounds(engine.run(rows)))
    for scores, _ in answers[1:]:
        assert (np.abs(scores - answers[0][0]) <= answers[0][1]).all()


@pytest.mark.parametrize("kernel", ["rbf", "poly2"])
def test_rows_above_the_tolerance_are_counted_without_bounds(kernel: str) -> None:
    rng = np.random.default_rng(11)
    engine = ExactEngine.prepare(random_expansion(rng, n=40, d=3, k=5, kernel=kernel))
    rows = rng.normal(size=(80, 3)) * rng.uniform(0.1, 10.0, size=(80, 1))
    scores, bounds = scores_and_bounds(engine.run(rows))
    for share in (0.0, 0.5, 0.9, 1.0):
        tolerance = np.quantile(bounds, share, axis=0) * (1 + 1e-6)
        room = np.full_like(scores, np.nan)
        found = engine.run(rows, room)
        assert found.scores is room
        assert isinstance(found.bounds, Factored) == (kernel == "rbf")
        np.testing.assert_array_equal(room, scores)
        inside = holds(Within(tolerance), found)
        np.testing.assert_array_equal(inside, (bounds <= tolerance).all(axis=1))


def test_an_output_without_coefficients_is_within_any_tolerance() -> None:
    model = KernelExpansion([[0.0], [1.0]], [[1.0, 0.0], [1.0, 0.0]], [0.0, 0.0], gamma=1.0)
    engine = ExactEngine.prepare(model)
    found = engine.run(np.array([[0.5]]))
    assert holds(Within(np.array([1e-3, 1e-200])), found).all()
    assert not holds(Within(np.array([1e-3, 1e-310])), found).any()


@pytest.mark.parametrize("constant", [(1, 3), (0, 1, 2, 3, 4)])
def test_features_in_which_centers_agree_are_left_out(constant: tuple[int, ...]) -> None:
    rng = np.random.default_rng(9)
    centers = rng.normal(size=(40, 5))
    centers[:, constant] = 0.1  # whose mean is another number
    model = KernelExpansion(centers, rng.normal(size=(40, 2)), [0.5, 0.0], gamma=0.3)
    rows = rng.normal(size=(30, 5))
    engine = ExactEngine.prepare(model)
    assert engine.dense.factors.shape == (40, 5 - len(constant) + 2)
    scores, bounds = scores_and_bounds(engine.run(rows))
    assert error_ratios(true_scores(model, rows), scores, bounds).max() <= 1.0
    assert bounds.max() < 1e-11


def test_rows_that_no_digits_are_lost_for_need_no_differences() -> None:
    """Raw features: exponents by products cancel, but their bounds settle nearly all labels."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 6)) * [1.0, 10.0, 100.0, 1e3, 1e4, 1.0] + 1e3
    y = X[:, 4] > 1e3
    for labels in (y, y + (X[:, 3] > 1e3)):
        svc = SVC(gamma=0.2).fit(X, labels)
        fast = kl.compile(svc, X)
        engine = fast._runner.exact
        assert engine.dense.rounding.by_differences
        if engine.quick is not None:  # of one output: one set of panels for both
            assert engine.quickest.panels.lines is engine.quick.panels.lines
        rows = np.concatenate([X, X * (1 + 1e-4), rng.normal(size=(200, 6))])
        found, stats = fast.predict(rows, return_stats=True)
        np.testing.assert_array_equal(found, svc.predict(rows))
        assert stats.stages["exact"] < 0.5 * len(rows)
        alone = np.concatenate([fast.predict(row[None]) for row in rows[::7]])
        np.testing.assert_array_equal(alone, found[::7])


def test_differences_by_the_kernel_are_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    weights = rng.normal(size=(70, 2))
    model = KernelExpansion(1e6 * rng.normal(size=(70, 7)), weights, np.zeros(2), gamma=0.3)
    rows = np.concatenate([model.centers[:9] * (1.0 + 1e-7), rng.normal(size=(3, 7))])
    scores, bounds = scores_and_bounds(ExactEngine.prepare(model).run(rows))
    monkeypatch.setattr("kernelite.backends.cpu.exact_dense.jit_available", lambda: False)
    plain = scores_and_bounds(ExactEngine.prepare(model).run(rows))[0]
    assert (np.abs(scores - plain) <= bounds).all()
    assert (np.abs(scores[:9]) > 0.01).any()


def test_sums_that_cancel_to_nothing_are_the_same_alone() -> None:
    """Raw features, each center with both signs: a product of other shape does not cancel so."""
    rng = np.random.default_rng(0)
    X, a = rng.normal(size=(10, 5)) * 300.0 + 1e4, rng.uniform(0.1, 1.0, size=10)
    centers, weights = np.concatenate([X, X]), np.concatenate([a, -a])
    stage = DoublePrecision(ExactEngine.prepare(KernelExpansion(centers, weights, 0.0, gamma=5.0)))
    rows = np.concatenate([X + 0.2 * rng.normal(size=X.shape), X + 1e3])
    criterion = Proven(lambda scores, bounds: (np.abs(scores) > bounds)[:, 0])
    alone = np.concatenate([stage.run(row[None], criterion).scores for row in rows])
    np.testing.assert_array_equal(stage.run(rows, criterion).scores, alone)


def test_the_smallest_gamma_has_no_half() -> None:
    model = KernelExpansion([[1e150], [-1e150]], [1.0, -1.0], 0.0, gamma=5e-324)
    stage = DoublePrecision(ExactEngine.prepare(model))
    criterion = Proven(lambda scores, bounds: (np.abs(scores) > bounds)[:, 0])
    assert (stage.run(np.zeros((3, 1)), criterion).scores == 0.0).all()


def test_bounds_of_sums_are_their_formula() -> None:
    """Of rows among the centers, far from all of them, and beyond all kernel values."""
    centers, squares = np.array([[0.0], [3.0]]), np.array([0.0, 4.0, 64.0, 900.0, 4000.0])
    model = KernelExpansion(centers, np.array([[1.0], [-2.0]]), np.zeros(1), gamma=0.5)
    rounding = ExactRounding(model, 3.0, 4.5, 1, False)
    nearest = 0.5 * np.maximum(np.sqrt(squares) - 3.0, 0.0) ** 2
    units = np.exp(-nearest) * (rounding._lengths + 27.0 * (4.5 + 0.5 * squares))
    units[-1] = 0.0
    found = spelled_out(rounding.bounds(squares, 1))[:, 0]
    np.testing.assert_allclose(found, SAFETY * UNIT * 3.0 * units, rtol=1e-5, atol=1e-200)
    moved = ExactRounding(
        KernelExpansion(centers, model.coefficients, np.full(1, -7.0), gamma=0.5),
        *(rounding.reach, 4.5, 1, False),
    )
    extra = spelled_out(moved.bounds(squares, 1))[:, 0] - found
    np.testing.assert_allclose(extra, 56.0 * SAFETY * UNIT, rtol=1e-5)


class Asked(Criterion):
    """A criterion that no numbers tell."""

    asks_values = True

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance

    def __call__(self, scores: FloatArray, bounds: FloatArray) -> NDArray[np.bool_]:
        return (bounds <= self.tolerance).all(axis=1)


def test_few_rows_are_left_out_by_a_stage_that_would_leave_some_open() -> None:
    """Centers show how many; many rows show it themselves."""
    rng = np.random.default_rng(0)
    model = KernelExpansion(rng.normal(size=(700, 6)), rng.normal(size=700), 0.0, gamma=0.4)
    engine, rows = ExactEngine.prepare(model), rng.normal(size=(4000, 6))
    assert engine.tangent is None
    assert engine.single is not None
    bounds = engine.single.run(shown_centers(model.centers))[1]

    def answered(criterion: Criterion, m: int) -> int:
        """Rows that single precision answers, of a fresh runner's first call and its second."""
        runner = stage_engine(engine)
        for _ in range(2):
            _, counted = runner.run(rows[:m], lambda scores: scores, criterion)
        return int(counted.stages[EXACT_SINGLE])

    all_of_them, most, some = (1.01 * float(np.quantile(bounds, q)) for q in (1.0, 0.9, 0.3))
    for m in (1, 8, 30):
        assert answered(Within(np.full(1, all_of_them)), m) >= 0.9 * m
        assert answered(Within(np.full(1, most)), m) == 0
        assert answered(Within(np.full(1, some)), m) == 0
        assert answered(Asked(all_of_them), m) == 0
    assert answered(Within(np.full(1, most)), 4000) > 2000
    assert answered(Within(np.full(1, some)), 4000) == 0
