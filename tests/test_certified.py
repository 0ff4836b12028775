"""guarantee="certified", end to end: labels are the exact model's, values within the tolerance."""

from __future__ import annotations

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, QuantileTransformer, StandardScaler, scale
from sklearn.svm import SVC, SVR, OneClassSVM

import kernelite as kl
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ClassifierHead, OutlierHead, RegressorHead
from kernelite.series.rounding import LOST_TERMS
from kernelite.sources import Machine, read
from tests.models import MODELS, SVMS, compiled, fitted
from tests.oracle import at_most, error_ratios, real, true_scores


def certified(model: Any, X: Any = None, **options: Any) -> kl.CompiledModel:
    """Compile silently."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return kl.compile(model, X, **options)


def source(expansion: KernelExpansion, head: Any) -> Machine:
    """A source made of arrays."""
    return Machine(expansion, head, "a test model", "arrays", "KernelExpansion")


# Models of the table --------------------------------------------------------------------


@pytest.mark.parametrize("with_sample", [True, False], ids=["X", "no X"])
@pytest.mark.parametrize("name", MODELS)
def test_certified_answers_are_the_exact_models(name: str, with_sample: bool) -> None:
    model, rows = fitted(name)
    fast, exact = compiled(name, sample=with_sample), compiled(name, "exact")
    assert fast.guarantee == "certified"
    if "predict" in fast.offers and fast.head.kind != "regressor":
        answers, stats = fast.predict(rows, return_stats=True)
        np.testing.assert_array_equal(answers, exact.predict(rows))
        assert sum(stats.stages.values()) == stats.early + stats.exact == stats.rows == len(answers)
        if name in SVMS:  # the others are compared with scikit-learn where they are read
            # Its own sums round elsewhere, so labels inside rounding may differ from its.
            assert np.count_nonzero(answers != model.predict(rows)) <= stats.undecidable
            assert stats.undecidable <= len(answers) // 10
    elif "predict" in fast.offers:
        assert fast.tolerance is not None
        gaps = np.abs(fast.predict(rows) - exact.predict(rows))
        assert (gaps <= 1.0001 * fast.tolerance.max() * _output_scale(fast)).all()


def _output_scale(fast: kl.CompiledModel) -> float:
    """Tolerances are those of the scores; a head may scale them back to the target's units."""
    scale = getattr(fast.head, "scale", None)
    return 1.0 if scale is None else float(np.max(scale))


@pytest.mark.parametrize("name", [name for name in MODELS if "svc" in name or "oneclass" in name])
def test_decision_values_err_by_no_more_than_the_bound(name: str) -> None:
    _, rows = fitted(name)
    fast, exact = compiled(name), compiled(name, "exact")
    got, wanted = fast.decision_function(rows), exact.decision_function(rows)
    votes_show = getattr(fast.head, "shape", None) == "ovr" and got.ndim > 1
    if not votes_show:
        bounds = fast.error_bound(rows) + exact.error_bound(rows)
        assert (np.abs(got - wanted).reshape(bounds.shape) <= bounds).all()
    else:  # "ovr": votes and less than 1/3
        np.testing.assert_array_equal(np.round(got), np.round(wanted))


@pytest.mark.parametrize("name", [name for name in MODELS if "probability" in name])
def test_probabilities_are_within_a_thousandth(name: str) -> None:
    _, rows = fitted(name)
    fast, exact = compiled(name), compiled(name, "exact")
    gaps = np.abs(fast.predict_proba(rows) - exact.predict_proba(rows))
    assert gaps.max() <= 1e-3


# Random machines against real arithmetic ------------------------------------------------


def true_label(head: ClassifierHead, scores: list[Any]) -> Any:
    """The label of real scores, by LIBSVM's and scikit-learn's rules, or None on a tie."""
    K = head.n_classes
    votes, sums = [0] * K, [real(0.0)] * K
    pairs = [(i, j) for i in range(K) for j in range(i + 1, K)]
    for score, (i, j) in zip(scores, pairs):
        towards = score if head.first_positive else -score
        votes[i if towards > 0 else j] += 1
        sums[i] += towards
        sums[j] -= towards
    best = max(votes)
    winners = [c for c in range(K) if votes[c] == best]
    if not head.break_ties:
        return head.classes[winners[0]]
    top = winners[0]
    for c in winners[1:]:
        if sums[c] > sums[top]:
            top = c
    return head.classes[top]


@st.composite
def machines(draw) -> tuple[KernelExpansion, ClassifierHead, np.ndarray]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    K, d = draw(st.integers(2, 5)), draw(st.integers(1, 8))
    k, n = K * (K - 1) // 2, draw(st.integers(5, 40))
    expansion = KernelExpansion(
        rng.normal(size=(n, d)),
        rng.normal(size=(n, k)) * (rng.random((n, k)) < 0.6),
        rng.normal(size=k) * 0.3,
        gamma=10.0 ** draw(st.floats(-4, 0.3)),
    )
    classes = rng.permutation(10)[:K]
    order = draw(st.sampled_from(["libsvm", "sorted"]))
    head = ClassifierHead(
        classes if order == "libsvm" else np.sort(classes),
        first_positive=draw(st.booleans()),
        shape=draw(st.sampled_from(["ovo", "ovr"])) if K > 2 else "ovo",
        break_ties=draw(st.booleans()) if K > 2 else False,
    )
    rows = np.concatenate(
        [rng.normal(size=(12, d)), expansion.dense_centers()[:4], rng.normal(size=(2, d)) * 9]
    )
    return expansion, head, rows


@settings(max_examples=40, deadline=None)
@given(machines())
def test_labels_of_random_machines_are_those_of_real_arithmetic(
    machine: tuple[KernelExpansion, ClassifierHead, np.ndarray],
) -> None:
    expansion, head, rows = machine
    truth = true_scores(expansion, rows)
    wanted = [true_label(head, scores) for scores in truth]
    for fast in (certified(source(expansion, head), rows),):
        labels, stats = fast.predict(rows, return_stats=True)
        assert stats.undecidable == 0
        np.testing.assert_array_equal(labels, wanted)
        for row, label in zip(rows, wanted):  # one row takes a path of its own
            assert fast.predict(row[None, :])[0] == label


@settings(max_examples=25, deadline=None)
@given(machines(), st.floats(-6, -1))
def test_decision_values_keep_a_tolerance(
    machine: tuple[KernelExpansion, ClassifierHead, np.ndarray], power: float
) -> None:
    expansion, head, rows = machine
    head = ClassifierHead(head.classes, first_positive=head.first_positive, shape="ovo")
    tolerance = 10.0**power
    fast = certified(source(expansion, head), rows, tolerance=tolerance)
    got = fast.decision_function(rows).reshape(len(rows), -1)
    room = np.full(got.shape, tolerance)
    assert error_ratios(true_scores(expansion, rows), got, room).max() <= 1.0


@settings(max_examples=25, deadline=None)
@given(machines(), st.sampled_from([None, 1e-5, 1e-2]))
def test_values_keep_their_tolerance(
    machine: tuple[KernelExpansion, ClassifierHead, np.ndarray], tolerance: float | None
) -> None:
    expansion, _, rows = machine
    fast = certified(
        source(expansion, RegressorHead(expansion.n_outputs)), rows, tolerance=tolerance
    )
    assert fast.tolerance is not None
    got = fast.predict(rows).reshape(len(rows), -1)
    room = np.broadcast_to(fast.tolerance, got.shape)
    assert error_ratios(true_scores(expansion, rows), got, room).max() <= 1.0


@settings(max_examples=25, deadline=None)
@given(machines())
def test_one_class_signs(machine: tuple[KernelExpansion, ClassifierHead, np.ndarray]) -> None:
    expansion, _, rows = machine
    first = KernelExpansion(
        expansion.centers, expansion.coefficients[:, 0], expansion.intercept[0], expansion.gamma
    )
    fast = certified(source(first, OutlierHead()), rows)
    wanted = [1 if scores[0] > 0 else -1 for scores in true_scores(first, rows)]
    np.testing.assert_array_equal(fast.predict(rows), wanted)


def test_the_error_bound_covers_what_is_answered() -> None:
    """Whatever tier served a row, `decision_function` errs by at most `error_bound`."""
    rng = np.random.default_rng(3)
    for gamma in (0.01, 0.05, 0.3):
        expansion = KernelExpansion(rng.normal(size=(60, 5)), rng.normal(size=60), 0.1, gamma=gamma)
        rows = rng.normal(size=(40, 5))
        fast = certified(source(expansion, ClassifierHead(np.array([1, -1]))), rows)
        got = fast.decision_function(rows)[:, None]
        assert (
            error_ratios(true_scores(expansion, rows), got, fast.error_bound(rows)[:, None]).max()
            <= 1.0
        )


def test_the_error_bound_covers_values_that_are_within_a_tolerance() -> None:
    """Of which the exact engine serves some in single precision."""
    rng = np.random.default_rng(3)
    expansion = KernelExpansion(rng.normal(size=(60, 5)), rng.normal(size=60), 0.1, gamma=2.0)
    rows = rng.normal(size=(40, 5))
    for tolerance in (1e-3, 1e-9):
        fast = certified(source(expansion, RegressorHead()), rows, tolerance=tolerance, max_bytes=1)
        assert fast.approximation is None
        true, bounds = true_scores(expansion, rows), fast.error_bound(rows)[:, None]
        for got in (fast.predict(rows)[:, None], fast.scores(rows)):
            assert error_ratios(true, got, bounds).max() <= 1.0
        assert (bounds <= tolerance).all()


@pytest.mark.parametrize("gamma", [0.02, 0.2, 2.0])
def test_the_error_bound_of_values_is_within_the_tolerance_whichever_stage_gives_them(
    gamma: float,
) -> None:
    """A form's own bound may be far larger where it leaves the row to others."""
    rng = np.random.default_rng(4)
    expansion = KernelExpansion(rng.normal(size=(80, 4)), rng.normal(size=80), 0.1, gamma=gamma)
    rows = 2.0 * rng.normal(size=(60, 4))
    fast = certified(source(expansion, RegressorHead()), rows, tolerance=1e-3, plan="form")
    assert fast.approximation is not None
    form = replace(fast, guarantee="none", on_invalid="ignore")
    bounds = fast.error_bound(rows)[:, None]
    assert (bounds <= 1e-3).all()
    assert (
        error_ratios(true_scores(expansion, rows), fast.predict(rows)[:, None], bounds).max() <= 1
    )
    assert (form.error_bound(rows) > 1e-3).any()
    strict = certified(source(expansion, RegressorHead()), rows, tolerance=1e-18, plan="form")
    values, bounds = strict.predict(rows)[:, None], strict.error_bound(rows)[:, None]
    assert error_ratios(true_scores(expansion, rows), values, bounds).max() <= 1.0
    assert (bounds > 1e-18).all()  # what rounds is more than that


# Undecidable rows -----------------------------------------------------------------------


def test_a_row_on_the_boundary_is_counted_as_undecidable() -> None:
    """f = K(z, 1) - K(z, -1) is exactly zero at 0, and nobody can prove its sign."""
    pair = KernelExpansion([[1.0], [-1.0]], [1.0, -1.0], 0.0, gamma=0.5)
    fast = certified(
        source(pair, ClassifierHead(np.array([7, 8]))), np.linspace(-1, 1, 50)[:, None]
    )
    labels, stats = fast.predict(np.array([[0.0], [0.5], [-0.5]]), return_stats=True)
    assert stats.undecidable == 1
    np.testing.assert_array_equal(labels, [8, 7, 8])  # zero goes to the second class


def test_a_row_inside_rounding_is_undecidable_and_one_outside_is_not() -> None:
    """The intercept is moved until f is 1e-18, or 1e-10, at the row."""
    for offset, expected in ((1e-18, 1), (1e-10, 0)):
        base = KernelExpansion([[1.0], [-0.5]], [1.0, -0.7], 0.0, gamma=0.3)
        value = true_scores(base, np.array([[0.2]]))[0][0]
        intercept = -float(value) + offset
        model = KernelExpansion([[1.0], [-0.5]], [1.0, -0.7], intercept, gamma=0.3)
        fast = certified(source(model, ClassifierHead(np.array([7, 8]))))
        stats = fast.predict(np.array([[0.2], [3.0]]), return_stats=True)[1]
        assert stats.undecidable == expected, offset


def test_no_row_is_undecidable_for_want_of_a_floor() -> None:
    assert LOST_TERMS < 1e-200  # the underflow term must never decide anything of ordinary size


# What a compiled model is ---------------------------------------------------------------


@pytest.fixture(scope="module")
def cancer() -> tuple[np.ndarray, SVC]:
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    return X, SVC(gamma=0.005, C=10.0).fit(X, y)


def test_concurrent_predictions_agree(cancer: tuple[np.ndarray, SVC]) -> None:
    X, svc = cancer
    fast = certified(svc, X)
    wanted = certified(svc, X).predict(X)
    start = threading.Barrier(8)

    def work(seed: int) -> bool:
        order = np.random.default_rng(seed).permutation(len(X))
        start.wait()
        return all(np.array_equal(fast.predict(X[order]), wanted[order]) for _ in range(3))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


@pytest.mark.parametrize(
    "step",
    [
        FunctionTransformer(np.log1p),
        QuantileTransformer(n_quantiles=50),
        StandardScaler(),
        PCA(10),
        SelectKBest(k=10),
    ],
    ids=lambda step: type(step).__name__,
)
def test_one_row_passes_through_the_same_steps_as_many(step: Any) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    pipeline = make_pipeline(step, SVC(gamma=0.01)).fit(X, y)
    fast = certified(pipeline, X)
    wanted = certified(pipeline, guarantee="exact").predict(X)
    np.testing.assert_array_equal(fast.predict(X), wanted)
    alone = [fast.predict(X[i : i + 1])[0] for i in range(0, len(X), 3)]
    np.testing.assert_array_equal(alone, wanted[::3])


def test_inputs_are_left_alone(cancer: tuple[np.ndarray, SVC]) -> None:
    X, svc = cancer
    kept = X.copy()
    X.setflags(write=False)
    try:
        fast = certified(svc, X)
        fast.predict(X)
        fast.decision_function(X)
        fast.error_bound(X)
    finally:
        X.setflags(write=True)
    np.testing.assert_array_equal(X, kept)


def test_answers_do_not_change_between_calls(cancer: tuple[np.ndarray, SVC]) -> None:
    X, svc = cancer
    fast = certified(svc, X)
    first = fast.decision_function(X)
    fast.predict(X[:3])
    np.testing.assert_array_equal(fast.decision_function(X), first)


def test_changing_the_source_arrays_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    centers, coefficients = rng.normal(size=(30, 4)), rng.normal(size=30)
    rows = rng.normal(size=(50, 4))
    model = KernelExpansion(centers, coefficients, 0.1, gamma=0.05)
    fast = certified(source(model, RegressorHead()), rows)
    before = fast.predict(rows)
    centers[:], coefficients[:] = 0.0, 0.0
    np.testing.assert_array_equal(fast.predict(rows), before)


def test_saved_models_keep_their_promise(cancer: tuple[np.ndarray, SVC], tmp_path: Any) -> None:
    X, svc = cancer
    fast = certified(svc, X)
    fast.save(tmp_path / "m.kernelite")
    back = kl.load(tmp_path / "m.kernelite")
    np.testing.assert_array_equal(back.predict(X), fast.predict(X))
    np.testing.assert_array_equal(back.error_bound(X), fast.error_bound(X))


def test_error_bound_needs_no_support_vectors(cancer: tuple[np.ndarray, SVC]) -> None:
    X, svc = cancer
    bare = certified(svc, X, guarantee="none", certificate=True, rank="full")
    assert bare.expansion is None
    expansion = read(svc).expansion
    some = X[::97]
    got = bare.decision_function(some, on_invalid="ignore")[:, None]
    assert (
        error_ratios(true_scores(expansion, some), got, bare.error_bound(some)[:, None]).max()
        <= 1.0
    )
    with pytest.raises(kl.InputError, match="certificate=True"):
        certified(svc, X, guarantee="none").error_bound(X)


def test_multi_class_rows_are_decided_by_votes_not_by_pairs() -> None:
    """Design part 3: on digits nearly no row has all pairs proven, but most winners are."""
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    svc = SVC(gamma=0.05).fit(X[:900], y[:900])
    fast = certified(svc, X[:900], expansion_point="mean", plan="form")
    assert fast.approximation is not None
    labels, stats = fast.predict(X[900:], return_stats=True)
    np.testing.assert_array_equal(labels, svc.predict(X[900:]))
    assert stats.undecidable == 0


def test_regressors_and_one_class_against_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=300)
    svr = SVR(gamma=0.02, C=5.0).fit(X, y)
    fast = certified(svr, X)
    assert fast.tolerance is not None
    assert np.abs(fast.predict(X) - svr.predict(X)).max() <= fast.tolerance[0] + 1e-12
    assert fast.tolerance[0] == pytest.approx(1e-3 * svr.predict(X).std(), rel=1e-6)
    one = OneClassSVM(gamma=0.02, nu=0.1).fit(X)
    np.testing.assert_array_equal(certified(one, X).predict(X), one.predict(X))


def test_oracle_and_engine_agree() -> None:
    """The oracle itself: real arithmetic is what the exact engine approximates."""
    rng = np.random.default_rng(5)
    model = KernelExpansion(rng.normal(size=(20, 3)), rng.normal(size=20), 0.2, gamma=0.4)
    rows = rng.normal(size=(5, 3))
    truth = true_scores(model, rows)
    for row, value in zip(model.scores(rows), truth):
        assert at_most(abs(value[0] - real(row[0]))) < 1e-13
