"""Sums in registers: bounds that hold, scores that are their twin's, labels the exact model's."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.svm import SVC, SVR, OneClassSVM

import kernelite as kl
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.cpu.fused_sums import EXP2_ERROR, PanelSums, rbf_sums
from kernelite.backends.cpu.kernels.compiling import kernel
from kernelite.backends.cpu.kernels.exp2 import DOUBLE, QUICK, QUICKEST, SINGLE, Precision
from kernelite.backends.cpu.kernels.panels import over_rows, panel_types
from kernelite.backends.cpu.panels import Layout, middle
from kernelite.backends.cpu.staging import stage_engine
from kernelite.machine.exactly import Uncertainty
from kernelite.machine.expansion import KernelExpansion
from kernelite.program import bounded as stats
from kernelite.program.criteria import Proven, SameAnswer, Within, never
from kernelite.support.errors import InputError
from tests.helpers import scores_and_bounds
from tests.oracle import error_ratios, true_scores
from tests.random_models import HOW_MANY, Case, cases


def made(model: KernelExpansion, precision=SINGLE) -> PanelSums:
    exact = DenseExact.prepare(model)
    fused = rbf_sums(exact.rounding, exact.layout, precision)
    assert fused is not None
    return fused


models = {
    "seed": st.integers(0, 10_000),
    "n": st.integers(1, 40),
    "d": st.integers(1, 24),
    "scale": st.sampled_from([1e-9, 1e-3, 1.0, 10.0]),
    "gamma": st.sampled_from([1e-6, 1e-3, 0.2, 5.0]),
    "sparse": st.booleans(),
}


def random_model(
    seed: int, n: int, d: int, scale: float, gamma: float, sparse: bool
) -> tuple[KernelExpansion, np.ndarray]:
    """A model and rows: like its centers, near one, wild."""
    rng = np.random.default_rng(seed)
    filled = (rng.random((n + 4, d)) < 0.2) if sparse else np.ones((n + 4, d))
    points = scale * filled * (rng.normal(size=(n + 4, d)) + rng.normal(size=d))
    coefficients = rng.normal(size=(n, 1)) * 10.0 ** rng.integers(-3, 6, size=(n, 1))
    coefficients[rng.random(n) < 0.1] = 0.0
    model = KernelExpansion(points[:n], coefficients, rng.normal(size=1), gamma=gamma)
    wild = rng.normal(size=(3, d)) * 10.0 ** rng.integers(-200, 200, size=(3, 1))
    return model, np.concatenate([points[n:], points[:1] * (1 + 1e-9), wild])


@given(**models)
@settings(deadline=None, max_examples=150)
def test_no_score_is_further_off_than_its_bound(**given: object) -> None:
    model, rows = random_model(**given)
    true = true_scores(model, rows)
    for precision in (SINGLE, QUICK, QUICKEST):
        scores, bounds = made(model, precision).run(rows)
        known = np.isfinite(bounds).all(axis=1)
        assert known[:5].all() or given["gamma"] * given["scale"] ** 2 > 1
        some = [row for row, found in zip(true, known) if found]
        assert np.max(error_ratios(some, scores[known], bounds[known]), initial=0.0) <= 1.0


def test_quick_bounds_are_a_thousandth_of_single_precisions() -> None:
    rng = np.random.default_rng(0)
    model = KernelExpansion(rng.normal(size=(900, 8)), rng.normal(size=900), 0.3, gamma=0.1)
    rows = rng.normal(size=(50, 8))
    quick, single = (made(model, precision).run(rows)[1] for precision in (QUICK, SINGLE))
    assert (quick < 2e-3 * single).all()
    scores, bounds = scores_and_bounds(ExactEngine.prepare(model).run(rows))
    found = made(model, QUICK).run(rows)[0]
    assert (np.abs(found - scores) > bounds).any()  # there is something to bound


@given(case=cases())
@settings(deadline=None, max_examples=HOW_MANY)
def test_hard_models_hold_their_bounds_in_all_precisions(case: Case) -> None:
    """Near twins of opposite sign, far centers, offsets; rows that are far, huge or centers."""
    for column in range(min(case.expansion.n_outputs, 2)):
        model = replace(
            case.expansion,
            coefficients=case.expansion.coefficients[:, [column]],
            intercept=case.expansion.intercept[[column]],
        )
        exact, true = ExactEngine.prepare(model), true_scores(model, case.rows)
        assert np.max(error_ratios(true, *scores_and_bounds(exact.run(case.rows)))) <= 1.0
        for sums in (exact.single, exact.quick, exact.quickest):
            if sums is None:
                continue
            scores, bounds = sums.run(case.rows)
            known = np.isfinite(bounds[:, 0])
            some = [row for row, found in zip(true, known) if found]
            assert np.max(error_ratios(some, scores[known], bounds[known]), initial=0.0) <= 1.0


@given(**models)
@settings(deadline=None, max_examples=100)
def test_doubles_are_within_the_bound_that_needs_no_sums(**given: object) -> None:
    model, rows = random_model(**given)
    exact = ExactEngine.prepare(model)
    if not isinstance(exact.dense.fused, PanelSums):
        assert exact.dense.rounding.by_differences
        return
    scores, bounds = scores_and_bounds(exact.run(rows))
    assert np.max(error_ratios(true_scores(model, rows), scores, bounds)) <= 1.0


def test_rows_by_entries_answer_as_rows_do() -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((700, 50)) < 0.15) * rng.integers(1, 4, size=(700, 50)) + 0.5
    model = KernelExpansion(X[:600], rng.normal(size=600), 0.1, gamma=0.05)
    fused = made(model)
    rows = X[600:]
    assert fused.panels.layout.few_entries(rows)
    sparse = fused.run(rows)
    full = np.full(50, 1e-3)
    mixed = fused.run(np.concatenate([rows + full, rows + full]))
    assert not fused.panels.layout.few_entries(rows + full)
    for (scores, bounds), at in ((sparse, rows), (mixed, np.concatenate([rows + full] * 2))):
        assert (np.abs(scores - model.scores(at)) <= bounds).all()


def test_a_row_that_is_off_by_an_ulp_counts_as_there() -> None:
    rng = np.random.default_rng(1)
    X = np.where(rng.random((300, 40)) < 0.1, 1.0, 1 / 3)
    model = KernelExpansion(X[:250], rng.normal(size=250), 0.0, gamma=0.1)
    rows = np.where(X[250:] == 1 / 3, np.nextafter(1 / 3, 1), X[250:])
    fused = made(model)
    assert fused.panels.layout.few_entries(rows)
    scores, bounds = fused.run(rows)
    assert (error_ratios(true_scores(model, rows), scores, bounds) <= 1.0).all()


def test_a_worst_case_for_products() -> None:
    """Products of one sign, all rounded the same way, use most of what the bound allows."""
    d = 400
    x = np.full(d, 1.0 + 2.0**-24 * 0.999)  # rounds to 1
    model = KernelExpansion(np.stack([x, -x, x / 2]), [1e6, 1.0, 1.0], 0.0, gamma=1.0 / d)
    rows = np.stack([x, 3 * x, -x])
    scores, bounds = made(model).run(rows)
    exact = ExactEngine.prepare(model).run(rows).scores
    assert (np.abs(scores - exact) <= bounds).all()
    assert (bounds < 1e6 * 1e-3).all()


@pytest.mark.parametrize(
    "precision", [SINGLE, QUICK, QUICKEST], ids=["single", "quick", "quickest"]
)
def test_rows_that_a_precision_cannot_hold_stay_open(precision: Precision) -> None:
    model = KernelExpansion(np.eye(3), [1.0, 2.0, 3.0], 0.0, gamma=1.0)
    rows = np.array(
        [[1e39, 0, 0], [np.nan, 0, 0], [1e200, 1e200, 0], [np.inf, 1, -np.inf], [0.1, 0.2, 0.3]]
    )
    scores, bounds = made(model, precision).run(rows)
    assert (np.isfinite(bounds[:, 0]) == [False, False, False, False, True]).all()
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("m", [1, 2, 5, 6, 7, 239, 241, 1000])
def test_any_number_of_rows_and_centers(m: int) -> None:
    rng = np.random.default_rng(m)
    for n in (1, 31, 64, 65, 700):
        model = KernelExpansion(rng.normal(size=(n, 3)), rng.normal(size=n), 0.5, gamma=0.3)
        rows = rng.normal(size=(m, 3))
        scores, bounds = scores_and_bounds(ExactEngine.prepare(model).run(rows))
        np.testing.assert_allclose(scores, model.scores(rows), rtol=1e-11, atol=1e-12)
        single, wider = made(model).run(rows)
        assert (np.abs(single - scores) <= wider + bounds).all()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kernel": "poly2"}, "another kernel"),
        ({"gamma": 1e40}, "powers of gamma that overflow"),
        ({"weights": 1e30}, "coefficients beyond single precision"),
        ({"d": 1200}, "rows so wide that BLAS serves them"),
    ],
)
def test_where_it_is_not_used(change: dict, why: str) -> None:
    given = {"n": 500, "d": 60, "gamma": 0.01, "centers": 1.0, "weights": 1.0, "kernel": "rbf"}
    assert single_of(**given) is not None
    assert single_of(**given | change) is None, why


def single_of(n: int, d: int, gamma: float, centers: float, weights: float, kernel: str):
    rng = np.random.default_rng(0)
    some = centers * rng.normal(size=(n // 2, d))
    return ExactEngine.prepare(
        KernelExpansion(
            np.concatenate([some, some]),
            np.repeat([weights, -weights], n // 2),
            0.75,
            gamma=gamma,
            **({"coef0": 1.0, "kernel": kernel} if kernel == "poly2" else {}),
        )
    ).single


def test_only_labels_are_taken_from_single_precision() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 40))
    svc = SVC(gamma=0.05).fit(X, np.sin(X[:, 0]) + X[:, 1] > 0.2)
    fast = kl.compile(svc, guarantee="exact")
    rows = rng.normal(size=(3000, 40))
    exact = fast._runner.exact
    assert exact.single is not None
    np.testing.assert_array_equal(fast.predict(rows), svc.predict(rows))
    np.testing.assert_allclose(
        fast.decision_function(rows), svc.decision_function(rows), rtol=1e-9, atol=1e-12
    )
    scores, bounds = scores_and_bounds(exact.run(rows))
    np.testing.assert_array_equal(fast.scores(rows), scores)
    cascade = stage_engine(exact).cascade
    labels = cascade.run(rows, Proven(fast.head.decided))
    single = cascade.names.index(stats.EXACT_SINGLE)
    assert (labels.stage == single).mean() > 0.5
    for criterion in (None, never, SameAnswer(fast.head)):
        found = cascade.run(rows, criterion)
        assert not (found.stage == single).any()
        np.testing.assert_array_equal(scores_and_bounds(found)[1], bounds)
    found, wider = scores_and_bounds(labels)
    assert (wider >= bounds).all()
    assert (np.abs(found - scores) <= wider).all()


def test_values_within_a_tolerance_come_from_single_precision_where_it_suffices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kernelite.backends.cpu.exact.FEWEST_NUMBERS", 0)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(900, 5))
    svr = SVR(gamma=0.5).fit(X, np.sin(X[:, 0]) + X[:, 1])
    fast = kl.compile(svr, guarantee="exact")
    engine = fast._runner.exact
    tolerance = np.array([1e-2])
    rows = rng.normal(size=(2000, 5))
    cascade = stage_engine(engine).cascade
    found = cascade.run(rows, Within(tolerance))
    assert found.settled.all()
    exact = engine.run(rows).scores
    assert 0 < np.abs(found.scores - exact).max() <= tolerance[0]
    assert {cascade.names[i] for i in found.stage} == {stats.EXACT_SINGLE}
    assert Within(tolerance)(*engine.single.run(rows)).all()
    weight = float(np.abs(engine.expansion.coefficients).sum())
    for limit, stage in (
        (1e-7 * weight, stats.EXACT_QUICK),
        (1e-6, stats.EXACT_QUICK),
        (1e-10, stats.EXACT),
    ):
        within = Within(np.array([limit]))
        quick, _ = engine.fewer_digits(rows, within, quick=True)  # type: ignore[misc]
        assert quick is (engine.quickest if limit > 1e-6 else engine.quick)
        tight = cascade.run(rows, within)
        assert tight.settled.all()
        assert {cascade.names[i] for i in tight.stage} == {stage}
        assert (np.abs(tight.scores - exact).max() > 0.0) == (stage == stats.EXACT_QUICK)
        assert np.abs(tight.scores - exact).max() <= limit
        found, number = cascade.one(rows[:1], within)
        assert cascade.names[number] == stage
        assert abs(found.scores - exact[:1]) <= limit
        assert (cascade.bounds(rows[:3], within) <= limit).all()


def test_rows_left_open_are_summed_in_doubles() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(800, 60))
    svm = OneClassSVM(gamma=0.01, nu=0.5).fit(X)
    fast = kl.compile(svm, guarantee="certified")
    # Between a row inside and a row outside, where the score is zero to ten digits.
    inside, outside = X[svm.predict(X) == 1][0], np.full(60, 3.0)
    for _ in range(30):  # further, and doubles could not tell either
        between = (inside + outside) / 2
        if svm.decision_function([between])[0] > 0:
            inside = between
        else:
            outside = between
    rows = np.stack([inside, outside])
    engine = ExactEngine.prepare(fast.expansion)
    criterion = Proven(fast.head.decided)
    assert not criterion(*engine.single.run(rows)).any()
    found = stage_engine(engine).cascade.run(rows, criterion)
    np.testing.assert_array_equal(found.scores, engine.run(rows).scores)
    np.testing.assert_array_equal(fast.predict(rows), svm.predict(rows))


def test_undecidable_rows_get_the_same_scores_alone_and_among_others() -> None:
    """f is zero on a plane of symmetry: what is computed there is rounding alone."""
    rng = np.random.default_rng(0)
    X, A = rng.normal(size=(1500, 5)), rng.normal(size=1500)
    mirrored = X * [-1, 1, 1, 1, 1]
    centers = np.concatenate([X, mirrored])
    engine = ExactEngine.prepare(KernelExpansion(centers, np.concatenate([A, -A]), 0.0, gamma=0.2))
    rows = rng.normal(size=(300, 5)) * [0, 1, 1, 1, 1]
    criterion = Proven(kl.ClassifierHead(np.array([0, 1])).decided)
    cascade = stage_engine(engine).cascade
    together, bounds = scores_and_bounds(cascade.run(rows, criterion))
    assert not criterion(together, bounds).any()
    for m in (1, 2, 7, 100):
        parts = [cascade.run(rows[i : i + m], criterion).scores for i in range(0, 300, m)]
        np.testing.assert_array_equal(np.concatenate(parts), together)


def test_no_rows_and_no_weights() -> None:
    rng = np.random.default_rng(0)
    criterion = Proven(kl.ClassifierHead(np.array([0, 1])).decided)
    sparse = np.where(rng.random((50, 40)) < 0.1, 1.0, 0.0)
    for centers in (np.ones((5, 40)), rng.normal(size=(50, 40)), sparse):
        for weight in (0.0, 1.0):
            weights = np.full(len(centers), weight)
            engine = ExactEngine.prepare(KernelExpansion(centers, weights, 0.5, gamma=1e-3))
            cascade = stage_engine(engine).cascade
            assert cascade.run(np.empty((0, 40)), criterion).scores.shape == (0, 1)
            scores, bounds = scores_and_bounds(cascade.run(centers[:3], criterion))
            assert (np.abs(scores - engine.expansion.scores(centers[:3])) <= 2 * bounds).all()


def test_far_rows_keep_their_labels_by_probability() -> None:
    """Whose head would find a label in NaN."""
    rng = np.random.default_rng(5)
    model = KernelExpansion(rng.normal(size=(400, 60)), np.ones(400), -3.0, gamma=0.01)
    head = kl.ClassifierHead(
        np.array([1, 2]), platt_a=np.array([-1.0]), platt_b=np.zeros(1), labels_by_probability=True
    )
    engine = ExactEngine.prepare(model)
    rows = rng.normal(size=(3, 60)) * 1e39
    scores = stage_engine(engine).cascade.run(rows, Proven(head.decided)).scores
    np.testing.assert_array_equal(scores, np.full((3, 1), -3.0))


def test_the_middle_is_what_most_centers_share() -> None:
    X = np.array([[0.0, 1.0, 5.0], [0.0, 2.0, 5.0], [7.0, 6.0, 5.0]])
    np.testing.assert_array_equal(middle(X), [0.0, 3.0, 5.0])
    layout = Layout.about_middle(X, 1.0)
    assert set(layout.order) == {0, 1}  # in the third, all centers agree
    np.testing.assert_array_equal(middle(np.empty((0, 2))), [0.0, 0.0])


SUMS = {
    precision: kernel(*panel_types(precision.dtype))(over_rows(name, precision, summed=True))
    for name, precision in (("a", SINGLE), ("b", DOUBLE), ("c", QUICK), ("d", QUICKEST))
}

double_values = kernel(*panel_types("float64"))(over_rows("values", DOUBLE, summed=False))


def powers(exponents: np.ndarray, precision: Precision) -> np.ndarray:
    """2^y as the kernels take it: a row without features meets panels with one c = y each."""
    dtype, count = precision.dtype, len(exponents)
    w, shifts, lines = np.empty((1, 0), dtype), np.zeros(1, dtype), np.empty(0, dtype)
    alone = np.full((count, precision.panel), -np.inf, dtype)
    alone[:, 0] = exponents
    sums = np.empty((1, count))
    SUMS[precision](w, shifts, lines, alone.ravel(), np.arange(count + 1), sums)
    return sums[0]


def exponents_of_all_kinds() -> np.ndarray:
    """Fractions, numbers at random, and those at and beside multiples of 1/16."""
    rng = np.random.default_rng(0)
    steps = np.arange(-80 * 16, 60 * 16) / 16.0
    beside = [np.nextafter(steps, side * np.inf) for side in (-1, 1)]
    near = [steps * (1.0 + side * 2.0**-22) for side in (-1, 1)]
    tiny = 10.0 ** -np.arange(1.0, 300.0, 3.0)
    fractions = np.arange(-(2**16), 2**16) / 2.0**17
    return np.concatenate(
        [fractions, rng.uniform(-80, 60, 20_000), steps, *beside, *near, tiny, -tiny]
    )


def test_powers_of_two_err_by_less_than_the_bound_says() -> None:
    y = exponents_of_all_kinds()
    y32 = y.astype(np.float32)
    error = np.abs(powers(y32, SINGLE) / np.exp2(y32.astype(np.longdouble)) - 1).max()
    assert error <= EXP2_ERROR * 2.0**-24
    y = np.concatenate([y, np.random.default_rng(1).uniform(-1022, -79, 20_000)])
    exact = np.exp2(y.astype(np.longdouble))
    assert np.abs(powers(y, DOUBLE) / exact - 1).max() <= EXP2_ERROR * 2.0**-53
    assert 1e-9 < np.abs(powers(y, QUICK) / exact - 1).max() <= QUICK.error
    assert 1e-8 < np.abs(powers(y, QUICKEST) / exact - 1).max() <= QUICKEST.error


def test_powers_that_are_too_small_vanish() -> None:
    nothing = np.array([-1022.0, -1030.0, -1080.0, -1e5, -1e300, -np.inf, np.nan])
    assert (powers(nothing, DOUBLE) == 0.0).all()
    for precision in (QUICK, QUICKEST):
        small = powers(nothing[:-1], precision)
        assert (small >= 0.0).all()
        assert (small <= 2.0**-1021).all()
        assert not powers(nothing[-1:], precision) > 0.0
    single = powers(np.array([-126.0, -200.0, -1e30, -np.inf, np.nan], np.float32), SINGLE)
    assert (single <= 1e-36).all()


def test_kernel_values_are_the_sums_own() -> None:
    y = exponents_of_all_kinds()[::97]
    whole = np.full(-(-len(y) // DOUBLE.panel) * DOUBLE.panel, -np.inf)
    whole[: len(y)] = y
    out, starts = np.empty((1, len(whole))), np.array([0, len(whole) // DOUBLE.panel])
    double_values(np.empty((1, 0)), np.zeros(1), np.empty(0), whole, starts, out)
    np.testing.assert_array_equal(out[0, : len(y)], powers(y, DOUBLE))
    assert (out[0, len(y) :] == 0.0).all()


@given(**{**models, "d": st.integers(16, 40)})
@settings(deadline=None, max_examples=60)
def test_sparse_rows_are_taken_by_their_entries(**given: object) -> None:
    """Where most centers share a value that is not zero, a row is off it without an entry."""
    model, rows = random_model(**{**given, "sparse": True})
    rng = np.random.default_rng(given["seed"])
    centers = np.array(model.centers)
    centers[:, :2] = given["scale"] * (3.0 + (rng.random((len(centers), 2)) < 0.1))
    model = replace(model, centers=centers)
    if DenseExact.prepare(model).rounding.by_differences:
        return
    fused = made(model)
    layout = fused.panels.layout
    if not layout.sparse or not layout.few_entries(csr_array(rows)):
        return
    scores, bounds = fused.run(csr_array(rows))
    known = np.isfinite(bounds).all(axis=1)
    truth = true_scores(model, rows[known])
    assert np.max(error_ratios(truth, scores[known], bounds[known]), initial=0.0) <= 1.0


def test_sparse_rows_that_are_malformed_are_refused() -> None:
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(30, 40)) * (rng.random((30, 40)) < 0.1)
    fused = made(KernelExpansion(centers, rng.normal(size=30), 0.0, gamma=0.1))
    for indices, indptr in [([3, 40], [0, 2, 2]), ([3, 3], [0, 2, 2]), ([3, 5], [0, 2, 1])]:
        rows = csr_array((2, 40))
        rows.data, rows.indices, rows.indptr = np.ones(2), np.array(indices), np.array(indptr)
        with pytest.raises(InputError, match="not a canonical CSR matrix"):
            fused.run(rows)


def test_labels_of_sparse_centers_with_some_full_features_are_found_in_panels() -> None:
    """Numbers beside one-hot features: entries that meet are many, entries of a row are few."""
    rng = np.random.default_rng(1)
    hot = np.eye(150)[rng.integers(0, 150, 900)]
    X = np.concatenate([rng.normal(size=(900, 2)), hot], axis=1)
    model = SVC(gamma=0.2).fit(csr_array(X), X[:, 0] + hot[:, :40].sum(axis=1) > 0.2)
    fast = kl.compile(model, guarantee="exact")
    engine = fast._runner.exact
    assert engine is not None
    assert engine.sparse is not None
    assert engine.entries_pay
    np.testing.assert_array_equal(fast.predict(csr_array(X)), model.predict(csr_array(X)))
    np.testing.assert_array_equal(fast.predict(X[:5]), model.predict(csr_array(X[:5])))


def test_centers_are_laid_out_without_further_copies_of_all() -> None:
    """What stays is a shifted copy and the panels; on the way there, one more copy at most."""
    rng = np.random.default_rng(0)
    n, d = 60_000, 40
    model = KernelExpansion(rng.random((n, d)), rng.normal(size=n), 0.0, gamma=0.1)
    tracemalloc.start()
    fused = made(model, DOUBLE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert fused.panels.lines.nbytes >= 8 * n * d
    assert peak <= 2.6 * 8 * n * d + 16 * n + 2**23


@pytest.mark.parametrize("precision", [SINGLE, QUICK, DOUBLE])
def test_bounds_hold_what_every_row_adds(precision: Precision) -> None:
    """Where no kernel value is left, the intercept may still be off."""
    known = Uncertainty(np.zeros(1), np.full(1, 1e-3))
    given = np.zeros((3, 2)), np.ones((3, 1)), np.full(1, 0.5)
    fused = made(KernelExpansion(*given, gamma=1.0, uncertainty=known), precision)
    scores, bounds = fused.run(np.full((2, 2), 40.0))
    assert (scores == 0.5).all()
    assert (bounds >= 1e-3).all()
