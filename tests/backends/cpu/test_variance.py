"""Standard deviations are within their bounds of the real ones, whatever computes them."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

import kernelite as kl
from kernelite.backends.cpu import variance
from kernelite.backends.cpu.factors import (
    Eigenvectors,
    InverseFactor,
    deviation_bound,
)
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.moments import JointMoments
from kernelite.backends.cpu.short_rest import (
    ShortRest,
    _norm_of_rounding,
    _norm_of_sizes,
    leading_columns,
)
from kernelite.backends.cpu.variance import Variances
from kernelite.model import moments
from kernelite.model.moments import posterior_of
from tests.oracle import at_most, real, true_scores, true_variances

KERNELS = {
    "rbf": 1.5 * RBF(1.3) + WhiteKernel(0.1),
    "rbf, little noise": RBF(1.0) + WhiteKernel(1e-8),
    "length scales": RBF([0.7, 2.0, 1.1]) + WhiteKernel(0.05),
    "matern 1/2": Matern(1.2, nu=0.5) + WhiteKernel(0.01),
    "matern 3/2": 0.3 * Matern(1.2, nu=1.5) + WhiteKernel(0.1),
    "matern 5/2": Matern(2.0, nu=2.5) + ConstantKernel(0.5) + WhiteKernel(0.1),
    "rational": RationalQuadratic(1.0, 0.7) + WhiteKernel(0.1),
    "two rbf": RBF(0.5) + 2.0 * RBF(3.0) + WhiteKernel(0.2),
    "sum": 2.0 * Matern(1.0, nu=1.5) + RBF(2.0) + WhiteKernel(0.1),
    "product": RBF(2.0) * RationalQuadratic(1.0, 1.0) + WhiteKernel(0.1),
}


def fitted(name: str, n: int = 24, seed: int = 0) -> tuple[GaussianProcessRegressor, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[1] = X[0] + 1e-9
    model = GaussianProcessRegressor(KERNELS[name], alpha=1e-9, optimizer=None)
    rows = np.concatenate([rng.normal(size=(8, 3)), X[:2], 1e3 * rng.normal(size=(2, 3))])
    return model.fit(X, np.sin(X[:, 0])), rows


def ratio(truth: list, found: np.ndarray, errors: np.ndarray) -> float:
    """The largest |found - truth| / error."""
    assert (errors >= 0).all()
    return max(at_most(abs(t - real(f)) / real(e)) for t, f, e in zip(truth, found, errors))


@pytest.mark.parametrize("name", KERNELS)
def test_variances_are_within_their_bounds(name: str) -> None:
    model, rows = fitted(name)
    fast = kl.compile(model, model.X_train_, guarantee="exact")
    posterior, expansions = posterior_of(fast)
    engine = fast._variances
    seen = fast._runner.dense(fast_rows(fast, rows), slice(0, len(rows)))
    truth = true_variances(posterior, expansions, seen)
    inverse = InverseFactor.of(posterior.factor, engine.covariances.width)
    every = Eigenvectors.all_of(posterior.factor, engine.covariances.width)
    assert inverse is not None
    assert every is not None
    assert ratio(truth, *engine._by(inverse, seen)) <= 1.0
    assert ratio(truth, *one_by_one(engine, inverse, seen)) <= 1.0
    for m in (1, 5, 20, 23):
        leading = every.leading(m).kept()
        assert ratio(truth, *engine._by(leading, seen)) <= 1.0
        assert ratio(truth, *one_by_one(engine, leading, seen)) <= 1.0
    for columns in (0, 1, 5, 16):
        basis = leading_columns(posterior.factor, columns)
        for one in (basis, 1e3 * basis, np.random.default_rng(columns).normal(size=basis.shape)):
            short = ShortRest.of(inverse, one)
            if short is not None:
                assert ratio(truth, *engine._by(short, seen)) <= 1.0
                assert ratio(truth, *one_by_one(engine, short, seen)) <= 1.0


def one_by_one(engine: Variances, factor: object, seen: tuple) -> tuple[np.ndarray, np.ndarray]:
    """Variances of rows and their bounds, each row alone."""
    found = []
    for i in range(len(seen[0])):
        x, moved = engine._inputs([own[i : i + 1] for own in seen])
        found.append(engine._left(*factor.square(x[0], moved.item())))  # type: ignore[attr-defined]
    return tuple(np.array(found).T)  # type: ignore[return-value]


def fast_rows(fast: kl.CompiledModel, rows: np.ndarray) -> object:
    from kernelite.model.serving import rows_and_runner

    return rows_and_runner(fast, rows)[0]


@pytest.mark.parametrize("kernel", ["rbf", "length scales", "matern 5/2", "two rbf"])
@pytest.mark.parametrize("guarantee", ["certified", "exact"])
def test_deviations_are_within_std_bound(
    kernel: str, guarantee: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before an inverse is there, with it, with eigenvectors; a row alone and among others."""
    model, few = fitted(kernel, 120)
    rows = np.tile(few, (8, 1))
    fast = kl.compile(model, model.X_train_, guarantee=guarantee)
    posterior, expansions = posterior_of(fast)
    seen = fast._runner.dense(fast_rows(fast, few), slice(0, len(few)))
    truth = [t**0.5 for t in true_variances(posterior, expansions, seen)]
    first = fast.predict(few, return_std=True)[1]
    bounds = fast.std_bound(few)
    assert np.isfinite(bounds).all()
    if guarantee == "certified":
        np.testing.assert_allclose(bounds, float(fast.tolerance[0]), rtol=1e-6)
    else:
        assert bounds.max() < 1e-8
    for name in ("FEWEST_SHORTENED", "SHORTENED", "DECOMPOSED", "AGAIN"):
        monkeypatch.setattr(variance, name, 0)
    many = fast.predict(rows, return_std=True)[1][: len(few)]
    assert (fast._variances.quick is not None) == (guarantee == "certified")
    alone = np.concatenate([fast.predict(row[None], return_std=True)[1] for row in few])
    for found in (first, many, alone):
        assert ratio(truth, found, bounds) <= 1.0


ROW_KERNELS = {
    "rbf": (1.0 * RBF(1.3) + WhiteKernel(0.1), 1e-9),
    "little noise": (1.0 * RBF(1.0) + WhiteKernel(1e-5), 1e-9),
    "hardly any noise": (RBF(3.0) + WhiteKernel(1e-8), 1e-9),
    "length scales": (RBF([0.7, 2.0, 1.1]) + WhiteKernel(0.05), 1e-9),
    "matern 3/2": (0.3 * Matern(1.2, nu=1.5) + WhiteKernel(0.1), 1e-9),
    "with a constant": (Matern(2.0, nu=2.5) + ConstantKernel(0.5) + WhiteKernel(0.1), 1e-9),
    "rational": (2.0 * RationalQuadratic(1.0, 0.7) + WhiteKernel(0.1), 1e-9),
    "product": (RBF(2.0) * RationalQuadratic(1.0, 1.0) + WhiteKernel(0.1), 1e-9),
}


@pytest.mark.skipif(not jit_available(), reason="no compiled loops")
@pytest.mark.parametrize("name", ROW_KERNELS)
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("guarantee", ["certified", "exact"])
def test_one_row_has_mean_and_deviation_from_the_same_values(
    name: str, outputs: int, guarantee: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are within their bounds of the real ones, whichever product gives the variance."""
    kernel, alpha = ROW_KERNELS[name]
    rng = np.random.default_rng(7)
    X, Z = rng.normal(size=(90, 3)), rng.normal(size=(12, 3))
    y = np.stack([(k + 1.0) * np.sin(X[:, k]) for k in range(outputs)], axis=1)
    model = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None, normalize_y=True)
    fast = kl.compile(model.fit(X, y if outputs > 1 else y[:, 0]), X, guarantee=guarantee)
    for constant in ("FEWEST_SHORTENED", "SHORTENED", "LEAST_SETTLED"):
        monkeypatch.setattr(variance, constant, 0)
    fast.predict(np.tile(Z, (8, 1)), return_std=True)
    engine, answers = fast._variances, fast._row_moments
    assert isinstance(engine.alone, ShortRest if guarantee == "certified" else InverseFactor)
    if guarantee == "exact" and "noise" in name:  # digits are lost: equations are solved
        assert answers is None
        return
    assert answers is not None
    posterior, expansions = posterior_of(fast)
    seen = fast._runner.dense(fast_rows(fast, Z), slice(0, len(Z)))
    roots = [t**0.5 for t in true_variances(posterior, expansions, seen)]
    scores = true_scores(expansions[0], seen[0])
    scales, mean_bounds = posterior.output_scales, fast.error_bound(Z).reshape(-1, outputs)
    deviation_bounds = fast.std_bound(Z).reshape(-1, outputs)
    for factor in (engine.inverse, engine.alone):
        engine.alone = factor
        answered = 0
        for i, row in enumerate(Z):
            answered += answers(answers_row(fast, row)) is not None
            mean, deviation = fast.predict(row[None], return_std=True)
            assert mean.shape == deviation.shape == ((1,) if outputs == 1 else (1, outputs))
            for k in range(outputs):
                truth = [roots[i] * real(float(scales[k]))]
                found = deviation.reshape(-1)[k : k + 1]
                assert ratio(truth, found, deviation_bounds[i, k : k + 1]) <= 1.0
                found = mean.reshape(-1)[k : k + 1]
                assert ratio([scores[i][k]], found, mean_bounds[i, k : k + 1]) <= 1.0
        assert answered == len(Z)


def answers_row(fast: kl.CompiledModel, row: np.ndarray) -> np.ndarray:
    """As its expansion sees it."""
    input_map = fast.preparation.input_map
    return row[None] if input_map is None else input_map(row[None])


@pytest.mark.skipif(not jit_available(), reason="no compiled loops")
def test_one_row_that_is_far_or_no_number_goes_the_longer_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, rows = fitted("rbf", 120)
    fast = kl.compile(model, model.X_train_)
    for constant in ("FEWEST_SHORTENED", "SHORTENED"):
        monkeypatch.setattr(variance, constant, 0)
    expected = model.predict(rows, return_std=True)
    fast.predict(np.tile(rows, (8, 1)), return_std=True)
    answers = fast._row_moments
    assert answers is not None
    assert [answers(row[None]) is None for row in rows] == [False] * 10 + [True] * 2
    for i, row in enumerate(rows):
        mean, deviation = fast.predict(row[None], return_std=True)
        assert abs(mean[0] - expected[0][i]) <= fast.tolerance[0] + 1e-9
        assert abs(deviation[0] - expected[1][i]) <= fast.tolerance[0] + 1e-9
    for wrong in (np.nan, np.inf):
        with pytest.raises(kl.InputError, match="row"):
            fast.predict(np.array([[0.0, wrong, 0.0]]), return_std=True)


def test_a_root_is_settled_only_within_its_tolerance() -> None:
    """What takes few steps accepts nothing that `deviation_bound` does not."""
    model, _ = fitted("rbf")
    engine = kl.compile(model, model.X_train_)._variances
    rng = np.random.default_rng(0)
    accepted = []
    for _ in range(4_000):
        engine.tolerance = 10.0 ** rng.uniform(-6, 0)
        value = 10.0 ** rng.uniform(-8, 1) * (1.0 if rng.random() < 0.9 else -1.0)
        error = 10.0 ** rng.uniform(-2, 0.5) * engine.tolerance
        error *= math.sqrt(abs(value)) if rng.random() < 0.5 else engine.tolerance
        if engine._settles_one(value, error):
            accepted.append(math.copysign(1.0, value) * (abs(value) > engine.tolerance**2))
            assert deviation_bound(np.array([value]), np.array([error]))[0] <= engine.tolerance
    assert min(accepted.count(one) for one in (0.0, 1.0)) > 100
    assert not engine._settles_one(np.nan, np.nan)


@pytest.mark.skipif(not jit_available(), reason="no compiled loops")
@pytest.mark.parametrize("scale", [1e-6, 1.0])
def test_what_moves_a_row_moves_its_square_within_the_bound(scale: float) -> None:
    """In the direction that the inverse stretches most."""
    model, _ = fitted("rbf, little noise")
    factor = np.tril(model.L_)
    inverse = InverseFactor.of(factor)
    assert inverse is not None
    short = ShortRest.of(inverse, leading_columns(factor))
    assert short is not None
    x = np.random.default_rng(0).normal(size=len(factor))
    step = scale * np.linalg.svd(inverse.matrix)[2][0]
    truth = square_of(factor, x)
    for way in (inverse, short):
        found, error = way.square(x + step, float(np.linalg.norm(step)) * (1.0 + 1e-9))
        assert abs(real(found) - truth) <= real(error)
        many, errors = way.squares((x + step)[None], np.linalg.norm(step, keepdims=True) * 1.001)
        assert abs(real(float(many[0])) - truth) <= real(float(errors[0]))


def square_of(factor: np.ndarray, x: np.ndarray) -> real:
    """|L^-1 x|^2 in balls."""
    total, solved = real(0), []
    for i, line in enumerate(factor):
        rest = real(float(x[i])) - sum((real(float(a)) * b for a, b in zip(line, solved)), real(0))
        solved.append(rest / real(float(line[i])))
        total += solved[-1] ** 2
    return total


def test_outputs_have_bounds_of_their_own() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 2))
    y = np.stack([X[:, 0], 100.0 * X[:, 1]], axis=1)
    kernel = RBF(1.0) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True).fit(X, y)
    fast = kl.compile(model, X)
    deviations, bounds = fast.predict(X, return_std=True)[1], fast.std_bound(X)
    assert bounds.shape == deviations.shape == (30, 2)
    np.testing.assert_allclose(bounds[:, 1] / bounds[:, 0], deviations[:, 1] / deviations[:, 0])
    expected = model.predict(X, return_std=True)[1]
    assert (np.abs(deviations - expected) <= bounds + 1e-9).all()


def test_nothing_is_known_where_a_kernel_grows() -> None:
    X = np.random.default_rng(2).normal(size=(20, 2))
    kernel = DotProduct() + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, optimizer=None).fit(X, X[:, 0])
    assert (kl.compile(model, X).std_bound(X) == np.inf).all()


def test_a_factor_next_to_singular_is_not_inverted() -> None:
    factor = np.eye(40) + np.tril(np.full((40, 40), -1e3), -1)
    assert InverseFactor.of(factor) is None


def test_bounds_of_roots() -> None:
    found = deviation_bound(np.array([1.0, -0.1, 0.5]), np.array([0.1, 0.2, np.inf]))
    assert found[0] >= 1.0 - np.sqrt(0.9)
    assert found[1] >= np.sqrt(0.1)
    assert found[2] == np.inf


def test_the_norm_of_sizes_is_not_below() -> None:
    for seed in range(5):
        W = np.tril(np.random.default_rng(seed).normal(size=(30, 30)))
        W[:, 3] = 0.0
        assert _norm_of_sizes(W) >= np.linalg.norm(np.abs(W), 2)


@pytest.mark.parametrize("size", [1.0, 1e-12, 1e-160])
def test_the_norm_of_a_rounding_is_not_below(size: float) -> None:
    for seed in range(5):
        W = size * np.tril(np.random.default_rng(seed).normal(size=(30, 30)))
        D = W.astype(np.float32) - W
        D[:, 3] = 0.0
        truth = np.linalg.norm(D, 2)
        assert truth <= _norm_of_rounding(D) <= 10.0 * truth + 1e-140
    assert _norm_of_rounding(np.full((3, 3), np.inf)) == np.inf


@pytest.mark.skipif(not jit_available(), reason="no compiled loops")
def test_an_inverse_beyond_singles_is_not_rounded() -> None:
    factor = 1e-60 * np.eye(20)
    inverse = InverseFactor.of(factor)
    assert inverse is not None
    assert ShortRest.of(inverse, leading_columns(factor)) is None


@pytest.fixture(scope="module")
def rough() -> tuple[GaussianProcessRegressor, np.ndarray, np.ndarray]:
    """A rough kernel in many features: no small number of eigenvectors settles a row."""
    rng = np.random.default_rng(3)
    X, Z = rng.normal(size=(520, 12)), rng.normal(size=(700, 12))
    model = GaussianProcessRegressor(Matern(4.0, nu=0.5) + WhiteKernel(0.3), optimizer=None)
    return model.fit(X, X[:, 0]), X, Z


@pytest.mark.skipif(not jit_available(), reason="no compiled loops")
@pytest.mark.parametrize("shown", [700, 1])
def test_single_precision_serves_rough_kernels(rough, monkeypatch, shown: int) -> None:
    """Whether many rows show that it does, or the training rows for want of others."""
    model, X, Z = rough
    fast = kl.compile(model, X)
    monkeypatch.setattr(variance, "SHORTENED", 0.0)
    fast.predict(Z[:shown], return_std=True)
    assert isinstance(fast._variances.quick, ShortRest)
    monkeypatch.setattr(variance, "DECOMPOSED", 0.0)
    found = fast.predict(Z, return_std=True)[1]
    assert isinstance(fast._variances.quick, ShortRest)
    expected = model.predict(Z, return_std=True)[1]
    assert (np.abs(found - expected) <= fast.std_bound(Z)).all()
    alone = np.concatenate([fast.predict(row[None], return_std=True)[1] for row in Z[:20]])
    assert (np.abs(alone - expected[:20]) <= fast.std_bound(Z[:20])).all()


def test_single_precision_is_not_asked_in_vain(rough, monkeypatch: pytest.MonkeyPatch) -> None:
    """With hardly any noise W is large, and all rows would go on to doubles."""
    _, X, Z = rough
    model = GaussianProcessRegressor(RBF(6.0) + WhiteKernel(1e-6), optimizer=None)
    fast = kl.compile(model.fit(X, X[:, 0]), X)
    monkeypatch.setattr(variance, "SHORTENED", 0.0)
    found = fast.predict(Z, return_std=True)[1]
    assert fast._variances.inverse is not None
    assert fast._variances.quick is None
    expected = model.predict(Z, return_std=True)[1]
    assert (np.abs(found - expected) <= fast.std_bound(Z) + 1e-9).all()


def test_a_classifier_of_two_classes() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 2))
    model = GaussianProcessClassifier(RBF(1.0), optimizer=None).fit(X, X[:, 0] > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = kl.compile(model, X).predict_proba(X)
    np.testing.assert_allclose(found, model.predict_proba(X), atol=1e-9)


@pytest.fixture(scope="module")
def classifier() -> tuple[GaussianProcessClassifier, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2))
    y = np.digitize(X[:, 0] + 0.1 * rng.normal(size=60), [-0.5, 0.5])
    model = GaussianProcessClassifier(2.0 * RBF(1.5), optimizer=None).fit(X, y)
    return model, rng.normal(size=(300, 2))


def test_all_classes_share_kernel_values(classifier) -> None:
    """Once enough rows were asked; labels are those of the definition, and variances proven."""
    model, Z = classifier
    fast = kl.compile(model, model.base_estimator_.estimators_[0].X_train_)
    found, labels = fast.predict_proba(Z), fast.predict(Z)
    joint = fast.__dict__["_joint"]
    assert isinstance(joint, JointMoments)
    np.testing.assert_allclose(found, model.predict_proba(Z), atol=5e-4)
    np.testing.assert_array_equal(labels, model.predict(Z))
    alone = np.concatenate([fast.predict_proba(row[None]) for row in Z[:20]])
    np.testing.assert_allclose(alone, found[:20], atol=1e-3)
    means, variances, errors = joint(Z[:12])
    for i, part in enumerate(fast.parts):
        posterior, expansions = posterior_of(part.model)
        truth = true_variances(posterior, expansions, [Z[:12]])
        assert ratio(truth, variances[:, i], errors[:, i]) <= 1.0
        np.testing.assert_allclose(means[:, i], expansions[0].scores(Z[:12])[:, 0], atol=1e-12)


def test_rows_whose_classes_are_close_go_by_the_definition(
    classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, Z = classifier
    fast = kl.compile(model, model.base_estimator_.estimators_[0].X_train_)
    monkeypatch.setattr(moments, "STEEPEST_PROBABILITY", 1e6)  # nothing is settled
    fast.predict_proba(Z)
    np.testing.assert_allclose(fast.predict_proba(Z), model.predict_proba(Z), atol=1e-9)
    np.testing.assert_array_equal(fast.predict(Z), model.predict(Z))


def test_exact_classifiers_do_not_share(classifier) -> None:
    model, Z = classifier
    fast = kl.compile(model, guarantee="exact")
    np.testing.assert_allclose(fast.predict_proba(Z), model.predict_proba(Z), atol=1e-9)
    assert fast.__dict__.get("_joint") is None


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_bounds_of_rows_that_are_no_numbers_are_refused(wrong: float) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    fitted = GaussianProcessRegressor(alpha=0.1, optimizer=None).fit(X, X[:, 0])
    fast = kl.compile(fitted, X, guarantee="exact")
    X[1, 2] = wrong
    with pytest.raises(kl.InputError, match="row 1"):
        fast.std_bound(X)


def test_threads_have_equal_shares_of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old way gave a thread 480 rows: of a thousand, two threads had nearly all."""
    latent = kl.compile(fitted("rbf")[0], guarantee="exact")._latent
    shares = {}
    for threads in (1, 2, 16):
        monkeypatch.setattr(moments, "thread_count", lambda threads=threads: threads)
        shares[threads] = [moments._block(latent, n) for n in (1, 100, 1000, 100_000)]
    whole = latent.posterior.block()
    assert shares == {1: [whole] * 4, 2: [96, 96, 480, 480], 16: [96, 96, 96, 480]}
