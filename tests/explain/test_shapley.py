"""Exact Shapley values: against all coalitions, in ball arithmetic, and on careless input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

import kernelite as kl
from kernelite.explain.quadrature import FEWER, rule
from kernelite.explain.shapley import shap_values
from kernelite.machine.kernels import (
    Matern,
)
from kernelite.support.errors import InputError, UnsupportedModelError
from tests.explain.coalitions import (
    by_coalitions,
    check_bounds,
    far_twins,
    random_expansion,
    real_products,
)

KINDS = ("rbf", "laplacian", "linear", "quadratic", "product", "sum")
MODELS = 34  # of each kind: 204 in all


def random_groups(rng: np.random.Generator, d: int) -> dict[str, list[int]] | None:
    if d < 3 or rng.random() < 0.5:
        return None
    chosen = rng.permutation(d)[: rng.integers(2, d)]
    return {"a": chosen[:2].tolist(), "b": chosen[2:].tolist()} if len(chosen) > 2 else None


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_of_all_coalitions(kind: str) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    for number in range(MODELS):
        d = 12 if number == 0 else int(rng.integers(1, 9))
        expansion = random_expansion(kind, rng, d)
        fast = kl.compile(expansion, guarantee="exact")
        x, background = rng.normal(size=(1, d)), rng.normal(size=(int(rng.integers(1, 5)), d))
        groups = random_groups(rng, d)
        found = shap_values(fast, x, background, groups=groups)
        members = {f"x{j}": [j] for j in range(d)} | (groups or {})
        owners = [members[name] for name in found.feature_names]

        def mix(
            inside: np.ndarray, x: Any = x, rest: Any = background, owners: Any = owners
        ) -> np.ndarray:
            made = rest.copy()
            for own, kept in zip(owners, inside):
                if kept:
                    made[:, own] = x[:, own]
            return made

        true = by_coalitions(expansion.scores, mix, len(owners))
        size = np.abs(expansion.coefficients).sum(axis=0).max() * (1.0 + np.abs(true).max())
        values = found.values.reshape(1, len(owners), -1)[0]
        assert np.abs(values - true).max() <= 1e-12 * size
        total = found.base_values + found.values.sum(axis=1)
        slack = found.base_bounds + found.bounds.sum(axis=1) + 1e-12 * size
        assert (np.abs(total - expansion.scores(x).reshape(total.shape)) <= slack).all()


@pytest.mark.parametrize("d", [1, 3, 8, 40])
@pytest.mark.parametrize("kind", ["rbf", "laplacian", "product"])
def test_bounds_hold_in_ball_arithmetic(kind: str, d: int) -> None:
    """40 features take rules with fewer nodes than the exact one; far rows lose most digits."""
    before, ctx.prec = ctx.prec, 300
    try:
        for seed in range(6 if d < 40 else 3):
            rng = np.random.default_rng(seed)
            expansion = random_expansion(kind, rng, d)
            if seed == 1:
                expansion = far_twins(expansion)
            check_bounds(kind, expansion, rng, None if seed % 2 else 1e-4)
    finally:
        ctx.prec = before


def test_rules_are_exact_to_the_last_digit() -> None:
    before, ctx.prec = ctx.prec, 200
    try:
        for q in sorted({*FEWER, *range(1, 40), 200}):
            nodes, weights = rule(q)
            for place in range(q // 2):
                x, weight = arb.legendre_p_root(q, place, weight=True)
                for found, real in ((nodes[place], (1 - x) / 2), (weights[place], weight / 2)):
                    assert abs(arb(float(found)) / real - 1) < 2.0**-52
            if q % 2:
                _, weight = arb.legendre_p_root(q, q // 2, weight=True)
                assert abs(arb(float(4.0 * weights[-1])) / weight - 1) < 2.0**-52
    finally:
        ctx.prec = before


def test_a_tolerance_saves_nodes_and_holds() -> None:
    rng = np.random.default_rng(5)
    expansion = kl.KernelExpansion(rng.normal(size=(50, 60)), rng.normal(size=50), 0.0, gamma=0.01)
    fast = kl.compile(expansion, guarantee="exact")
    rows, background = rng.normal(size=(4, 60)), rng.normal(size=(3, 60))
    exact = shap_values(fast, rows, background)
    rough = shap_values(fast, rows, background, tolerance=1e-3)
    assert (np.abs(exact.values - rough.values) <= exact.bounds + rough.bounds).all()
    assert 1e-9 < rough.bounds.max() <= 1e-3
    assert exact.bounds.max() < 1e-11


# Models as people fit them.


def mixed_frames(X: Any, row: int, background: Any, columns: list[list[str]]) -> Any:
    def mix(inside: np.ndarray) -> Any:
        made = background.copy()
        for own, kept in zip(columns, inside):
            if kept:
                for name in own:
                    made[name] = X[name].iloc[row]
        return made

    return mix


def tables() -> tuple[Any, Any, np.ndarray]:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    frame = pandas.DataFrame(
        {
            "age": rng.uniform(20, 70, 150),
            "city": rng.choice(["Rome", "Oslo", "Lima"], 150),
            "income": rng.lognormal(8, 1, 150),
            "rooms": rng.integers(1, 6, 150).astype(float),
        }
    )
    y = (frame["age"] / 50 + (frame["city"] == "Oslo") + rng.normal(0, 0.3, 150)).to_numpy()
    return frame, frame.sample(5, random_state=0).reset_index(drop=True), y


def fitted_pipeline(last: Any, *, classify: int = 0) -> tuple[Any, Any, Any]:
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    frame, background, y = tables()
    if classify:
        y = np.digitize(y, np.quantile(y, np.arange(1, classify) / classify))
    columns = make_column_transformer(
        (StandardScaler(), ["income", "age"]), (OneHotEncoder(), ["city"]), remainder="passthrough"
    )
    return make_pipeline(columns, last).fit(frame, y), frame, background


def served() -> dict[str, Any]:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, DotProduct, WhiteKernel
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.svm import SVC, SVR, OneClassSVM

    ard = RBF([1.0] * 6) + WhiteKernel(0.1)
    two = RBF(1.0) + 0.5 * RBF([2.0] * 5 + [1.0]) + 0.1 * DotProduct() + WhiteKernel(0.1)
    return {
        "svc": (SVC(gamma=0.2), 2, "decision_function"),
        "svc pairs": (SVC(gamma=0.2, decision_function_shape="ovo"), 3, "decision_function"),
        "svr": (SVR(gamma=0.1), 0, "predict"),
        "laplacian ridge": (KernelRidge(kernel="laplacian", gamma=0.2), 0, "predict"),
        "linear svr": (SVR(kernel="linear"), 0, "predict"),
        "quadratic svc": (SVC(kernel="poly", degree=2, coef0=1.0), 2, "decision_function"),
        "gp ard": (GaussianProcessRegressor(ard, optimizer=None), 0, "predict"),
        "gp sum": (GaussianProcessRegressor(two, optimizer=None), 0, "predict"),
        "one class": (OneClassSVM(gamma=0.2, nu=0.2), 0, "decision_function"),
    }


@pytest.mark.parametrize("name", served())
def test_pipelines_with_encoders_have_a_player_per_column(name: str) -> None:
    last, classes, method = served()[name]
    model, frame, background = fitted_pipeline(last, classify=classes)
    fast = kl.compile(model, frame, guarantee="exact")
    groups = {"person": ["age", "income"]} if name in ("svc", "gp sum") else None
    found = shap_values(fast, frame[:2], background, groups=groups)
    columns = [["age"], ["city"], ["income"], ["rooms"]]
    if groups:
        columns = [["age", "income"], ["city"], ["rooms"]]
        assert found.feature_names == ["person", "city", "rooms"]
    else:
        assert found.feature_names == ["age", "city", "income", "rooms"]
        assert found.data is not None
        assert found.data[0, 1] == frame["city"][0]
    values = found.values.reshape(2, len(columns), -1)
    for row in range(2):
        mix = mixed_frames(frame, row, background, columns)
        true = by_coalitions(getattr(model, method), mix, len(columns))
        assert np.allclose(values[row], true, atol=1e-10 * (1 + np.abs(true).max()))


def test_an_interpolator_with_a_line_beside_it() -> None:
    from scipy.interpolate import RBFInterpolator

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    model = RBFInterpolator(X, y, kernel="gaussian", epsilon=0.7, degree=1, smoothing=0.1)
    fast = kl.compile(model, guarantee="exact")
    found = shap_values(fast, X[:1], X[5:9])
    true = by_coalitions(model, lambda inside: np.where(inside, X[:1], X[5:9]), 3)
    assert np.allclose(found.values[0], true[:, 0], atol=1e-10)


def test_certified_models_are_explained_by_their_exact_scores() -> None:
    from sklearn.svm import SVC

    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 5))
    model = SVC(gamma=0.05).fit(X, X[:, 0] * X[:, 1] > 0)
    fast = kl.compile(model, X, guarantee="certified")
    found = fast.shap_values(X[:3], X[:20])
    true = by_coalitions(model.decision_function, lambda a: np.where(a, X[:1], X[:20]), 5)
    assert np.allclose(found.values[0], true[:, 0], atol=1e-11)


def test_shap_plots_take_what_comes_back() -> None:
    shap = pytest.importorskip("shap", reason="shap is not installed")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    rng = np.random.default_rng(1)
    fast = kl.compile(random_expansion("rbf", rng, 4), guarantee="exact")
    found = fast.shap_values(rng.normal(size=(20, 4)), rng.normal(size=(9, 4)))
    assert isinstance(found, shap.Explanation)
    one = found if found.values.ndim == 2 else found[..., 0]
    shap.plots.beeswarm(one, show=False)
    shap.plots.waterfall(one[0], show=False)
    assert found.bounds.shape == found.values.shape


# Careless input.


@pytest.fixture
def small() -> Any:
    return kl.compile(random_expansion("rbf", np.random.default_rng(0), 3), guarantee="exact")


@pytest.mark.parametrize(
    ("background", "said"),
    [
        (None, "`background` is missing"),
        (np.zeros((0, 3)), "`background` has no rows"),
        (np.zeros((4, 2)), "`background`"),
        (np.full((2, 3), np.nan), "`background`"),
        (np.broadcast_to(np.zeros(3), (10_000_000, 3)), "10,000,000 rows"),
        ("train.csv", "`background`"),
        (5, "`background` must be rows, got one int"),
        (iter([[1.0, 2.0, 3.0]]), "`background` must be rows, got one list_iterator"),
        (np.array(5.0), "`background` must be rows, got one ndarray"),
    ],
)
def test_careless_backgrounds_get_a_sentence(small: Any, background: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        small.shap_values(np.zeros((1, 3)), background)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"groups": [["x0", "x1"]]}, "`groups` must be a dictionary"),
        ({"groups": {"a": ["nothing"]}}, "unknown column"),
        ({"groups": {"a": [0, 1], "b": [1]}}, "in two groups"),
        ({"groups": {"a": [7]}}, "names column 7"),
        ({"groups": {"a": "x0"}}, "must be a list of columns"),
        ({"groups": {"x2": [0, 1]}}, "name of another column"),
        ({"tolerance": 0.0}, "`tolerance` must be"),
        ({"output": "probability"}, "`output` must be"),
    ],
)
def test_careless_options_get_a_sentence(small: Any, options: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        small.shap_values(np.zeros((1, 3)), np.ones((2, 3)), **options)


def test_a_device_without_torch_gets_a_sentence(
    small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    for name in ("torch", "kernelite.backends.torch.shapley"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install"):
        small.shap_values(np.zeros((1, 3)), np.ones((2, 3)), device="cuda")


def test_other_columns_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    from sklearn.svm import SVR

    X = pandas.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["a", "b"])
    fast = kl.compile(SVR().fit(X, X["a"]), X)
    other = X.rename(columns={"b": "c"})
    with pytest.raises(InputError, match="`background`"):
        fast.shap_values(X[:1], other)
    with pytest.raises(InputError, match="`X`"):
        fast.shap_values(other[:1], X)
    with pytest.raises(InputError, match="`background` must be in the same order"):
        fast.shap_values(X[:1], X[["b", "a"]])


def test_rows_with_nan_and_other_widths_are_refused(small: Any) -> None:
    with pytest.raises(InputError, match="`X`"):
        small.shap_values(np.full((1, 3), np.nan), np.ones((2, 3)))
    with pytest.raises(InputError, match="`X`"):
        small.shap_values(np.zeros((1, 4)), np.ones((2, 3)))


def test_rows_beyond_all_measure_get_bounds_that_say_so(small: Any) -> None:
    found = shap_values(small, np.full((1, 3), 1e200), np.ones((2, 3)))
    assert np.isfinite(found.values).all()
    assert not np.isnan(found.bounds).any()


def test_what_cannot_be_explained_says_what_to_do_instead() -> None:
    from sklearn.decomposition import PCA
    from sklearn.neighbors import KernelDensity
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] > 0
    matern = kl.KernelExpansion(X, y * 1.0, 0.0, kernel=Matern((1.0,), 1.5))
    with pytest.raises(UnsupportedModelError, match="Matern"):
        kl.compile(matern, guarantee="exact").shap_values(X[:1], X)
    mixed = kl.compile(make_pipeline(PCA(2), SVC()).fit(X, y), X)
    with pytest.raises(UnsupportedModelError, match="groups="):
        mixed.shap_values(X[:1], X)
    together = mixed.shap_values(X[:1], X, groups={"all": [0, 1, 2]})
    assert together.feature_names == ["all"]
    density = kl.compile(KernelDensity().fit(X), X)
    with pytest.raises(UnsupportedModelError, match="output='scores'"):
        density.shap_values(X[:1], X)
    assert density.shap_values(X[:1], X, output="scores").values.shape == (1, 3)
    bare = kl.compile(SVC(gamma=0.01).fit(X, y), X, guarantee="none")
    with pytest.raises(InputError, match="holds no support vectors"):
        bare.shap_values(X[:1], X)


def test_columns_behind_a_transformer_that_was_kept_are_one_player() -> None:
    """Nobody knows which features it makes of which columns, or how many."""
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler
    from sklearn.svm import SVR

    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 3))
    clipped = MinMaxScaler(clip=True)
    some = make_column_transformer((clipped, [0, 1]), (StandardScaler(), [2]))
    for first in (clipped, some, make_pipeline(clipped, StandardScaler())):
        model = make_pipeline(first, SVR()).fit(X, X[:, 0])
        fast = kl.compile(model, X, guarantee="exact")
        with pytest.raises(UnsupportedModelError, match="groups="):
            fast.shap_values(X[:2], X)
        found = fast.shap_values(X[:2], X, groups={"all": [0, 1, 2]})
        total = found.base_values + found.values.sum(axis=1)
        assert np.allclose(total, model.predict(X[:2]))


@pytest.mark.parametrize("offset", [1e6, 1e13, 1e16])
def test_bounds_hold_behind_a_scaler_of_data_far_from_zero(offset: float) -> None:
    """The exact model scales rows in real arithmetic; a mapped row is off by 5 units."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVR

    before, ctx.prec = ctx.prec, 300
    try:
        rng = np.random.default_rng(4)
        X = offset + rng.normal(size=(12, 3)) * [1.0, 1e-3, 1e4]
        model = make_pipeline(StandardScaler(), SVR(gamma=0.5)).fit(X, rng.normal(size=12))
        found = shap_values(kl.compile(model, X, guarantee="exact"), X[:1], X[4:6])
        scaler, svr = model[0], model[1]

        def scaled(row: np.ndarray) -> list[Any]:
            numbers = zip(row, scaler.mean_, scaler.scale_)
            return [(arb(float(z)) - arb(float(t))) / arb(float(s)) for z, t, s in numbers]

        true = real_products(
            lambda z, s, place: arb(0.5) * (z - s) ** 2,
            scaled(X[0]),
            [scaled(row) for row in X[4:6]],
            [[arb(float(value)) for value in row] for row in svr.support_vectors_],
            [arb(float(a)) for a in svr.dual_coef_[0]],
            [[0], [1], [2]],
        )
        for value, bound, real in zip(found.values[0], found.bounds[0], true):
            assert abs(arb(float(value)) - real) <= arb(float(bound))
            assert offset > 1e6 or bound < 1e-9
    finally:
        ctx.prec = before


@pytest.mark.parametrize("kind", ["linear", "quadratic"])
def test_bounds_of_polynomials_hold_in_ball_arithmetic(kind: str) -> None:
    """Over all coalitions, in balls; some rows lie far away, where most digits cancel."""
    before, ctx.prec = ctx.prec, 300
    try:
        for seed in range(8):
            rng = np.random.default_rng(seed)
            d = int(rng.integers(1, 5))
            expansion = random_expansion(kind, rng, d)
            offset = 1e6 if seed % 2 else 0.0
            x, rest = offset + rng.normal(size=(1, d)), offset + rng.normal(size=(2, d))
            found = shap_values(kl.compile(expansion, guarantee="exact"), x, rest)
            for output in range(expansion.n_outputs):
                true = real_coalitions(kind, expansion, output, x[0], rest)
                values, bounds = (
                    a.reshape(1, d, -1)[0, :, output] for a in (found.values, found.bounds)
                )
                for value, bound, real in zip(values, bounds, true):
                    assert abs(arb(float(value)) - real) <= arb(float(bound))
    finally:
        ctx.prec = before


def real_coalitions(
    kind: str, expansion: kl.KernelExpansion, output: int, x: np.ndarray, rest: np.ndarray
) -> list[Any]:
    """phi of each column as balls, by the definition."""
    kernel = expansion.kernel
    gamma, coef0, degree = (
        (kernel.gamma, kernel.coef0, 1) if kind == "linear" else (expansion.gamma, 0.7, 2)
    )

    def worth(inside: int) -> Any:
        total = arb(0)
        for row in rest:
            z = [arb(float(x[j] if inside >> j & 1 else row[j])) for j in range(len(x))]
            for center, weight in zip(expansion.dense_centers(), expansion.coefficients[:, output]):
                product = sum((arb(float(s)) * t for s, t in zip(center, z)), arb(0))
                total += arb(float(weight)) * (arb(gamma) * product + arb(coef0)) ** degree
        return total / len(rest)

    p = len(x)
    values = [worth(number) for number in range(1 << p)]
    return [
        sum(
            (
                (values[number | 1 << j] - values[number])
                / (p * math.comb(p - 1, number.bit_count()))
                for number in range(1 << p)
                if not number >> j & 1
            ),
            arb(0),
        )
        for j in range(p)
    ]


@pytest.mark.parametrize("tolerance", ["x", -1.0, 0.0, math.nan, math.inf])
def test_a_tolerance_is_a_positive_number(tolerance: Any) -> None:
    fast = kl.compile(kl.KernelExpansion([[0.0]], [1.0], 0.0, gamma=1.0), guarantee="exact")
    with pytest.raises(InputError, match="`tolerance` must be a positive number"):
        fast.shap_values([[1.0]], [[2.0]], tolerance=tolerance)
