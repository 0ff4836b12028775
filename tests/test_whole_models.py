"""Whole pipelines against themselves in real arithmetic: bounds hold, and proven labels are right.

What sources fold when a model is read (scalers, ranges, constants, length scales, linear layers) is
seen here from outside. `KERNELITE_PIPELINES=2000 python -m pytest tests/test_whole_models.py` makes
the deep run; `KERNELITE_PIPELINES_FROM` is its first seed.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest
from flint import arb
from scipy.interpolate import RBFInterpolator
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA, KernelPCA, TruncatedSVD
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, LinearSVC

import kernelite
from kernelite.model.serving import rows_and_runner
from kernelite.program.criteria import label_criterion, never
from kernelite.sources import read
from kernelite.sources.least_squares import from_lssvmlab, from_shogun
from kernelite.sources.nearest_means import discriminant_classifier, kernel_kmeans
from kernelite.sources.svm_scale import SvmRange, with_range
from kernelite.store.files import dumps, loads
from kernelite.support.errors import UnsupportedModelError
from tests.oracle import error_ratios, exponential, real
from tests.whole_models import Known, Ranged, squared, true_outputs

PIPELINES = int(os.environ.get("KERNELITE_PIPELINES", "30"))
FIRST_SEED = int(os.environ.get("KERNELITE_PIPELINES_FROM", "0"))
SCALERS = {
    "standard": StandardScaler,
    "min-max": MinMaxScaler,
    "max-abs": MaxAbsScaler,
    "robust": RobustScaler,
}


def rows_at(rng: np.random.Generator, offset: float, n: int = 60, d: int = 3) -> np.ndarray:
    """Rows that vary by 1 or so, far from the origin."""
    return offset * np.linspace(1.0, -0.3, d) + rng.normal(size=(n, d)) * rng.uniform(0.5, 2.0, d)


def values_of(X: np.ndarray) -> np.ndarray:
    """A smooth function of the rows, wherever they are."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    return np.sin(Z[:, 0]) + np.tanh(Z[:, 1:]).sum(axis=1)


def labels_of(X: np.ndarray) -> np.ndarray:
    values = values_of(X)
    return (values > np.median(values)).astype(int)


def compiled(model: Any, sample: np.ndarray, **options: Any) -> Any:
    found = model.model if isinstance(model, Known) else model
    if isinstance(model, Ranged):
        found = with_range(read(model.model), model.found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kernelite.compile(found, sample, on_invalid="ignore", **options)


def ways_of(model: Any, sample: np.ndarray) -> list[Any]:
    """The model under every guarantee that has bounds: its own plan, no form, a form alone."""
    exact = compiled(model, sample, guarantee="exact")
    try:
        form = [compiled(model, sample, guarantee="none", certificate=True)]
    except UnsupportedModelError:  # labels of a Gaussian process need its variance
        form = []
    return [compiled(model, sample), exact, *form]


def served(model: Any, rows: np.ndarray, criterion: Any = never) -> np.ndarray:
    """Scores as they are served; by default nothing settles a row before its last tier."""
    placed_rows, runner = rows_and_runner(model, rows)
    rule = None if model.guarantee == "none" else criterion
    return runner.run(placed_rows, lambda scores: scores, rule)[0]


def near_boundary(model: Any, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows whose score is as near to zero as doubles allow, and their neighbours."""
    signs = served(model, rows)[:, 0] > 0
    if signs.all() or not signs.any():
        return rows[:0]
    count = min(int(signs.sum()), int((~signs).sum()), 12)
    low, high = rows[~signs][:count].copy(), rows[signs][:count].copy()
    for _ in range(80):
        middle = low + 0.5 * (high - low)
        above = served(model, middle)[:, 0] > 0
        low[~above], high[above] = middle[~above], middle[above]
    return np.concatenate([low, high, low + np.spacing(low) * rng.integers(-2, 3, low.shape)])


def assert_holds(model: Any, sample: np.ndarray, rows: np.ndarray, *, labels: bool) -> None:
    """Errors within bounds, of every guarantee; proven labels right."""
    truth = true_outputs(model, rows)
    for way in ways_of(model, sample):
        bounds, said = way.score_bound(rows), f"{way.guarantee}: {way.plan.chosen.name}"
        assert error_ratios(truth, served(way, rows), bounds).max(initial=0.0) <= 1.0, said
        if way.guarantee == "certified":  # now by whichever tier settles a row
            criterion = label_criterion(way.head, way.tolerance)
            assert error_ratios(truth, served(way, rows, criterion), bounds).max() <= 1.0, said
        if labels and way.guarantee != "none":
            assert_labels(way, truth, rows)


def assert_labels(way: Any, truth: list[list[Any]], rows: np.ndarray) -> None:
    """Rows by themselves and all at a time: what is not undecidable is the exact model's label."""
    together, stats = way.predict(rows, return_stats=True)
    wrong = 0
    for row, (score,), label in zip(rows, truth, together):
        right = way.classes_[1 if score > 0 else 0]
        alone, own = way.predict(row[None], return_stats=True)
        assert own.undecidable or alone[0] == right
        wrong += label != right
    assert wrong <= stats.undecidable


def check(model: Any, rng: np.random.Generator, X: np.ndarray, *, labels: bool = False) -> None:
    rows = X[:6] + rng.normal(size=(6, X.shape[1]))
    if labels:
        edge = compiled(model, X, guarantee="exact")
        rows = np.concatenate([rows, near_boundary(edge, X, rng)])
    assert_holds(model, X, rows, labels=labels)


# The table of what was violated ------------------------------------------------------------------


@pytest.mark.parametrize("offset", [1e6, 1e7, 1e9])
@pytest.mark.parametrize(
    "chain",
    [("max-abs", "standard"), ("min-max",), ("min-max", "standard"), ("robust", "min-max")],
)
def test_scalers_of_data_far_from_the_origin(chain, offset):
    rng = np.random.default_rng(7)
    X = rows_at(rng, offset)
    model = make_pipeline(*(SCALERS[name]() for name in chain), SVC(gamma=0.4, C=10.0))
    check(model.fit(X, labels_of(X)), rng, X, labels=True)


@pytest.mark.parametrize("offset", [1e6, 1e8])
@pytest.mark.parametrize("target", [None, (-1.0, 1.0, 1e6, 1e6 + 3.0)])
def test_svm_scale_ranges_of_data_far_from_the_origin(offset, target):
    rng = np.random.default_rng(8)
    X = rows_at(rng, offset)
    found = SvmRange(-1.0, 1.0, np.arange(3), X.min(axis=0), X.max(axis=0), target)
    scaled = 2.0 * (X - found.minimum) / (found.maximum - found.minimum) - 1.0
    model = SVC(gamma=0.4, C=10.0).fit(scaled, labels_of(X))
    if target is not None:
        model = SVR(gamma=0.4, C=10.0).fit(scaled, values_of(X))
    check(Ranged(model, found), rng, X, labels=target is None)


LARGE = ConstantKernel(1e6, "fixed")
WIDE = LARGE + RBF(2.0, "fixed")
ARD = LARGE + 0.3 * RBF([0.7, 1.3, 2.1], "fixed") + 1.7 * RBF(3.0, "fixed")


@pytest.mark.parametrize("kernel", [WIDE, ARD, LARGE * RBF(1.1) * RBF([1.7, 0.9, 3.0]) ** 1.7])
@pytest.mark.parametrize("kind", ["ridge", "regressor", "classifier"])
def test_constants_that_cancel(kind, kernel):
    rng = np.random.default_rng(9)
    X = rows_at(rng, 0.0)
    if kind == "ridge":
        model: Any = KernelRidge(kernel=kernel, alpha=1e-3).fit(X, values_of(X))
    elif kind == "regressor":
        noisy = kernel + WhiteKernel(1e-3, "fixed")
        model = GaussianProcessRegressor(noisy, optimizer=None, normalize_y=True)
        model.fit(X, 1e4 + values_of(X))
    else:
        model = GaussianProcessClassifier(kernel, optimizer=None).fit(X, labels_of(X))
    check(model, rng, X, labels=kind == "classifier")


@pytest.mark.parametrize("scalers", [(), (StandardScaler(),), (MinMaxScaler(), StandardScaler())])
@pytest.mark.parametrize("last", [Ridge(1e-3), LogisticRegression(), LinearSVC()])
def test_linear_layers_on_kernel_features(scalers, last):
    rng = np.random.default_rng(10)
    X = rows_at(rng, 1e3, n=70)
    features = Nystroem(gamma=1e-3, n_components=60, random_state=0)
    model = make_pipeline(StandardScaler(), features, *scalers, last)
    classes = not isinstance(last, Ridge)
    check(model.fit(X, labels_of(X) if classes else values_of(X)), rng, X, labels=classes)


def test_a_large_linear_layer():
    rng = np.random.default_rng(11)
    X = rows_at(rng, 0.0, n=350, d=5)
    model = make_pipeline(Nystroem(gamma=1e-3, n_components=350, random_state=0), Ridge())
    assert_holds(model.fit(X, values_of(X)), X, X[:4] + 0.1, labels=False)


# Others of the kind ------------------------------------------------------------------------------

OTHERS = {
    "kernel PCA": KernelPCA(4, kernel="rbf", gamma=0.05),
    "kernel PCA, polynomial": KernelPCA(3, kernel="poly", degree=2, gamma=0.3, coef0=0.7),
    "kernel PCA, ridge": make_pipeline(KernelPCA(9, kernel="rbf", gamma=0.05), Ridge(1e-3)),
    "Nystroem, polynomial": make_pipeline(
        Nystroem(kernel="poly", degree=2, gamma=None, n_components=9, random_state=0), Ridge()
    ),
    "scaled polynomial": make_pipeline(
        MinMaxScaler((0.1, 0.7)), StandardScaler(), SVR(kernel="poly", degree=2, gamma=0.3)
    ),
    "density": KernelDensity(bandwidth=0.7),
    "1 / d": KernelRidge(kernel="rbf", alpha=0.1),
    "scaled target": TransformedTargetRegressor(
        make_pipeline(StandardScaler(), SVR(gamma=0.3)), transformer=StandardScaler()
    ),
    "target between bounds": TransformedTargetRegressor(
        SVR(gamma=0.3), transformer=MinMaxScaler((0.1, 0.4))
    ),
    "vote": VotingRegressor(
        [("a", SVR(gamma=0.3)), ("b", SVR(gamma=0.3, C=9.0)), ("c", SVR(gamma=0.1))],
        weights=[0.1, 0.7, 0.3],
    ),
    "bagging": BaggingRegressor(SVR(gamma=0.3), 7, random_state=0),
    "bagged scalers": BaggingRegressor(
        make_pipeline(StandardScaler(), MinMaxScaler(), SVR(gamma=0.3)), 3, random_state=0
    ),
    "selection": make_pipeline(
        MinMaxScaler(), SelectKBest(f_regression, k=2), StandardScaler(), SVR(gamma=0.3)
    ),
    "length scales behind scalers": make_pipeline(
        MaxAbsScaler(),
        StandardScaler(),
        GaussianProcessRegressor(RBF([0.7, 1.3, 2.1]) + 2.0 * RBF(3.0), alpha=1e-2, optimizer=None),
    ),
}


OTHERS |= {
    f"{kernel}, {kind}": make_pipeline(StandardScaler(), model)
    for kernel, options in {
        "linear": {"kernel": "linear"},
        "cubic": {"kernel": "poly", "degree": 3, "gamma": 0.3, "coef0": 0.7},
        "quartic": {"kernel": "poly", "degree": 4, "gamma": None, "coef0": 1.0},
        "degree 6": {"kernel": "poly", "degree": 6, "gamma": 0.1, "coef0": 1.0},
        "sigmoid": {"kernel": "sigmoid", "gamma": None, "coef0": 0.1},
        "laplacian": {"kernel": "laplacian", "gamma": None},
        "cosine": {"kernel": "cosine"},
    }.items()
    for kind, model in {
        "ridge": KernelRidge(alpha=0.1, **options),
        "Nystroem": make_pipeline(Nystroem(n_components=9, random_state=0, **options), Ridge(1e-3)),
    }.items()
}
OTHERS |= {
    f"process, {name}": make_pipeline(
        MaxAbsScaler(),
        StandardScaler(),
        GaussianProcessRegressor(kernel, alpha=1e-2, normalize_y=True, optimizer=None),
    )
    for name, kernel in {
        "Matern 1/2": 2.0 * Matern(1.3, nu=0.5) + WhiteKernel(0.1),
        "Matern 3/2": ConstantKernel(1e6) + 0.3 * Matern([0.7, 1.3, 2.1], nu=1.5),
        "Matern 5/2": 1e6 * Matern([0.7, 1.3, 2.1], nu=2.5),
        "rational": 0.1 * RationalQuadratic(1.3, 0.7) ** 2,
        "line": 0.1 * DotProduct(0.7) + WhiteKernel(0.5),
        "cubic line": (0.1 * DotProduct(0.7)) ** 3 + WhiteKernel(0.5),
        "square line": (0.1 * DotProduct(0.7)) ** 2 + WhiteKernel(0.5),
        "mixture": 0.3 * Matern(1.7) + 0.1 * DotProduct(0.3) * RBF([0.7, 1.3, 2.1]) + 0.7,
    }.items()
}


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("name", OTHERS)
def test_other_folds(name, offset):
    rng = np.random.default_rng(12)
    X = rows_at(rng, offset, n=40)
    model = OTHERS[name]
    if offset and not hasattr(model, "named_steps"):
        model = make_pipeline(RobustScaler(), model)
    check(model.fit(X, 1e3 * offset + values_of(X)), rng, X)


PREPARED = {
    "PCA": [PCA(2)],
    "scaled PCA": [StandardScaler(), PCA(2)],
    "PCA, whitened": [MinMaxScaler(), RobustScaler(), PCA(2, whiten=True)],
    "PCA between scalers": [StandardScaler(), PCA(2), MinMaxScaler((1.0, 3.0)), StandardScaler()],
    "selected components": [PCA(3), SelectKBest(f_regression, k=2), StandardScaler()],
    "TruncatedSVD": [StandardScaler(), TruncatedSVD(2, random_state=0)],
    "polynomial features": [StandardScaler(), PolynomialFeatures(3)],
    "scaled polynomial features": [MinMaxScaler(), PolynomialFeatures(2), StandardScaler()],
    "columns": [
        ColumnTransformer(
            [("a", StandardScaler(), [2, 0]), ("b", MinMaxScaler(), [1]), ("c", "passthrough", [2])]
        ),
        RobustScaler(),
    ],
    "PCA of columns": [
        ColumnTransformer([("a", MinMaxScaler(), [1, 2]), ("b", RobustScaler(), [0, 1])]),
        PCA(2),
        StandardScaler(),
    ],
}


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e8])
@pytest.mark.parametrize("name", PREPARED)
def test_prepared_rows(name, offset):
    rng = np.random.default_rng(13)
    X = rows_at(rng, offset, n=40)
    classes = name in ("scaled PCA", "columns", "polynomial features")
    machine = SVC(gamma=0.4, C=10.0) if classes else SVR(gamma=0.3)
    model = make_pipeline(*PREPARED[name], machine)
    model.fit(X, labels_of(X) if classes else values_of(X))
    assert not read(model).notes, "all that rounds is counted"
    check(model, rng, X, labels=classes)


def test_rows_far_off_in_a_direction_that_is_dropped():
    rng = np.random.default_rng(14)
    X = rows_at(rng, 5.0, n=40) * [1.0, 1.0, 1e-3]
    model = make_pipeline(PCA(2), SVR(gamma=0.3)).fit(X, values_of(X))
    across = np.cross(*model[0].components_)
    far = np.array([10.0, 1e6, 1e12, 1e30, 1e100])[:, None] * across
    assert_holds(model, X, np.concatenate([X[:5] + far, X[:2]]), labels=False)


def gaussians(X: np.ndarray, gamma: Any, z: list[Any]) -> list[Any]:
    return [exponential(-gamma * squared([real(a) for a in row], z)) for row in X]


def total(weights: Any, values: Any) -> Any:
    return sum((real(w) * value for w, value in zip(weights, values)), real(0.0))


def test_kernel_kmeans():
    rng = np.random.default_rng(15)
    X, labels, weights = rows_at(rng, 1e3, n=40), rng.integers(0, 3, 40), rng.uniform(0.1, 1, 40)
    gamma = real(0.3)

    def outputs(z):
        found = []
        for c in range(3):
            mine, w = X[labels == c], weights[labels == c]
            whole = sum((real(one) for one in w), real(0.0))
            norm = total(w, [total(w, gaussians(mine, gamma, [real(a) for a in x])) for x in mine])
            mean = total(w, gaussians(mine, gamma, z)) / whole
            found.append(real(2.0) * mean - norm / (whole * whole))
        return found

    check(Known(kernel_kmeans(X, labels, 0.3, weights=weights), outputs), rng, X)


@pytest.mark.parametrize("away", [0.0, 1e4])
def test_kernel_discriminants(away):
    rng = np.random.default_rng(16)
    X, A, b = rows_at(rng, 0.0, n=30), rng.normal(size=(30, 2)), away * rng.normal(size=2)
    means, priors = b + rng.normal(size=(3, 2)), np.array([0.2, 0.3, 0.5])

    def outputs(z):
        values = gaussians(X, real(0.3), z)
        y = [total(column, values) + real(c) for column, c in zip(A.T, b)]
        return [
            sum((real(2.0) * real(m) * v - real(m) * real(m) for m, v in zip(mean, y)), real(0.0))
            + real(2.0) * real(prior).log()
            for mean, prior in zip(means, priors)
        ]

    source = discriminant_classifier(X, A, 0.3, range(3), means, intercept=b, priors=priors)
    check(Known(source, outputs), rng, X)


def test_least_squares_svms():
    rng = np.random.default_rng(17)
    X, alphas, sig2 = rng.normal(size=(30, 3)), rng.normal(size=30), 2.3
    mean, std = 1e6 * rng.normal(size=3), rng.uniform(0.5, 2.0, 3)

    def lssvmlab(z):
        z = [(a - real(m)) / real(s) for a, m, s in zip(z, mean, std)]
        values = gaussians(X, real(1.0) / (real(2.0) * real(sig2)), z)
        density = total(alphas, values) / (real(2.0) * arb.pi()).sqrt()
        return [(density + real(0.1)) * real(3.7) + real(1e5)]

    options = {"version": "1.7", "x_mean": mean, "x_std": std, "y_mean": 1e5, "y_std": 3.7}
    source = from_lssvmlab(X, alphas, 0.1, sig2, **options)
    check(Known(source, lssvmlab), rng, mean + std * X)

    def shogun(z):
        return [total(alphas, gaussians(X, real(1.0) / real(sig2), z)) + real(0.1)]

    source = from_shogun(X, alphas, 0.1, sig2, kind="regression")
    check(Known(source, shogun), rng, X)


@pytest.mark.parametrize("degree", [-1, 0, 1])
def test_interpolators(degree):
    rng = np.random.default_rng(18)
    X = rows_at(rng, 0.0, n=25, d=2)
    model = RBFInterpolator(X, values_of(X), kernel="gaussian", epsilon=0.3, degree=degree)
    check(model, rng, X)


@pytest.mark.parametrize(
    "kernel", ["thin_plate_spline", "linear", "cubic", "multiquadric", "inverse_quadratic"]
)
def test_interpolators_of_other_kernels(kernel):
    rng = np.random.default_rng(18)
    X = rows_at(rng, 0.0, n=25, d=2)
    check(RBFInterpolator(X, values_of(X), kernel=kernel, epsilon=0.3, smoothing=0.1), rng, X)


@pytest.mark.parametrize("kernel", ["linear", "poly", "sigmoid"])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_labels_of_other_kernels(kernel, offset):
    rng = np.random.default_rng(19)
    X = rows_at(rng, offset)
    model = make_pipeline(MinMaxScaler(), StandardScaler(), SVC(kernel=kernel, coef0=0.3))
    check(model.fit(X, labels_of(X)), rng, X, labels=True)


def test_nothing_is_kept_apart_that_can_be_joined():
    rng = np.random.default_rng(13)
    X = rows_at(rng, 1e6)
    model = OTHERS["selection"].fit(X, values_of(X))
    source = read(model)
    assert [type(step).__name__ for step in source.preparation.steps] == ["Selection", "AffineMap"]
    assert source.preparation.input_map is not None
    assert source.preparation.input_map.n_features == 2


def test_a_scaler_that_no_map_can_hold_runs_by_itself():
    X = np.array([[0.0, 1.0], [1e-150, 2.0], [2e-150, 4.0]])
    model = make_pipeline(StandardScaler(), SVR(gamma=0.3)).fit(X, [0.0, 1.0, 3.0])
    fast = kernelite.compile(model, guarantee="exact")
    assert not fast.preparation.rowwise
    np.testing.assert_allclose(fast.predict(X), model.predict(X), rtol=1e-12)


def test_errors_that_are_known_are_kept_in_files():
    rng = np.random.default_rng(14)
    X = rows_at(rng, 0.0)
    model = kernelite.compile(KernelRidge(kernel=ARD, alpha=1e-3).fit(X, values_of(X)), X)
    again = loads(dumps(model))
    np.testing.assert_array_equal(model.error_bound(X), again.error_bound(X))
    for part, kept in zip(model.parts, again.parts):
        ours, theirs = part.model.expansion.uncertainty, kept.model.expansion.uncertainty
        assert ours.gamma == theirs.gamma
        assert ours.centers == theirs.centers
        np.testing.assert_array_equal(ours.coefficients, theirs.coefficients)
        np.testing.assert_array_equal(ours.intercept, theirs.intercept)


# At random ---------------------------------------------------------------------------------------


def random_kernel(rng: np.random.Generator, d: int) -> Any:
    """A sum of kernels, some of them with a length scale per feature, and a constant."""
    kernel: Any = ConstantKernel(10.0 ** rng.uniform(-2, 7))
    for _ in range(rng.integers(1, 3)):
        scales = 10.0 ** rng.uniform(-0.3, 1.0, d if rng.integers(2) else 1)
        term = 10.0 ** rng.uniform(-3, 3) * RBF(scales if len(scales) > 1 else float(scales[0]))
        kernel += term * RBF(7.0) if rng.integers(2) else term
    return kernel


def random_model(rng: np.random.Generator, X: np.ndarray) -> tuple[Any, bool]:
    """A chain of up to three scalers before some machine; whether it has labels."""
    names = rng.choice(list(SCALERS), size=rng.integers(0, 4))
    chain = [SCALERS[name]() for name in names]
    gamma, C = 10.0 ** rng.uniform(-3, 0.5), 10.0 ** rng.uniform(-1, 4)
    kernel = rng.choice(["rbf", "rbf", "poly"])
    machine = rng.choice(["svc", "svr", "ridge", "nystroem", "pca", "process", "classes"])
    if not chain or (kernel == "poly" and machine != "nystroem"):
        chain = [StandardScaler(), *chain]
    options: dict[str, Any] = {"kernel": kernel, "gamma": gamma, "degree": 2, "coef0": 0.5}
    y = values_of(X)
    if machine == "svc":
        return make_pipeline(*chain, SVC(C=C, **options)).fit(X, labels_of(X)), True
    if machine == "svr":
        return make_pipeline(*chain, SVR(C=min(C, 10.0), **options)).fit(X, y), False
    if machine == "ridge":
        return make_pipeline(*chain, KernelRidge(alpha=1.0 / C, **options)).fit(X, y), False
    if machine == "process":
        sums = random_kernel(rng, X.shape[1])
        process = GaussianProcessRegressor(sums, alpha=1e-2, optimizer=None, normalize_y=True)
        return make_pipeline(*chain, process).fit(X, 1e6 + y), False
    if machine == "classes":
        sums = random_kernel(rng, X.shape[1])
        latent = GaussianProcessClassifier(sums, optimizer=None)
        return make_pipeline(*chain, latent).fit(X, labels_of(X)), True
    features: Any = Nystroem(n_components=25, random_state=0, **options)
    if machine == "pca":
        features = KernelPCA(int(rng.integers(1, 9)), **options)
    between = [SCALERS[name]() for name in rng.choice(list(SCALERS), size=rng.integers(0, 3))]
    return make_pipeline(*chain, features, *between, Ridge(1.0 / C)).fit(X, y), False


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + PIPELINES))
def test_random_pipelines(seed):
    rng = np.random.default_rng(seed)
    offset = rng.choice([0.0, 1.0, 1e2, 1e4, 1e6, 1e9])
    X = rows_at(rng, offset, n=int(rng.integers(20, 50)), d=int(rng.integers(2, 6)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, labels = random_model(rng, X)
    check(model, rng, X, labels=labels)


def random_preparation(rng: np.random.Generator, d: int) -> list[Any]:
    """Scalers, a projection or products of features, scalers."""
    before, after = (rng.choice(list(SCALERS), size=rng.integers(0, 3)) for _ in range(2))
    few = int(rng.integers(1, d + 1))
    middle = [
        PCA(few, whiten=bool(rng.random() < 0.5)),
        TruncatedSVD(min(few, d - 1), random_state=0),
        PolynomialFeatures(int(rng.integers(2, 4))),
        ColumnTransformer(
            [("a", StandardScaler(), rng.permutation(d)[:few]), ("b", MinMaxScaler(), [0, d - 1])]
        ),
    ]
    first = [SCALERS[name]() for name in before] or [StandardScaler()]
    return [*first, middle[rng.integers(len(middle))], *(SCALERS[name]() for name in after)]


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + -(-PIPELINES // 2)))
def test_random_preparations(seed):
    rng = np.random.default_rng(seed)
    offset = rng.choice([0.0, 1.0, 1e2, 1e4, 1e6, 1e9])
    X = rows_at(rng, offset, n=int(rng.integers(20, 50)), d=int(rng.integers(2, 6)))
    gamma, C = 10.0 ** rng.uniform(-3, 0.5), 10.0 ** rng.uniform(-1, 3)
    labels = bool(rng.random() < 0.5)
    machine = SVC(gamma=gamma, C=C) if labels else SVR(gamma=gamma, C=min(C, 10.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(*random_preparation(rng, X.shape[1]), machine)
        model.fit(X, labels_of(X) if labels else values_of(X))
    assert not read(model).notes, "all that rounds is counted"
    check(model, rng, X, labels=labels)
