"""|f - computed f| <= bound for every kernel and layout, against ball arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.machine import kernels as kl
from kernelite.machine.expansion import KernelExpansion
from tests.helpers import scores_and_bounds
from tests.oracle import error_ratios, true_scores
from tests.random_models import HOW_MANY, KINDS, hard_rows, made_hard

Scale = Callable[[np.random.Generator, int, float], kl.Kernel]


def scales(rng: np.random.Generator, d: int, size: float) -> tuple[float, ...]:
    """One length scale, or one per feature."""
    if rng.random() < 0.5:
        return (float(size),)
    return tuple(float(s) for s in size * 10.0 ** rng.uniform(-1, 1, d))


KERNELS: dict[str, Scale] = {
    "matern 1/2": lambda rng, d, size: kl.Matern(scales(rng, d, size), 0.5),
    "matern 3/2": lambda rng, d, size: kl.Matern(scales(rng, d, size), 1.5),
    "matern 5/2": lambda rng, d, size: kl.Matern(scales(rng, d, size), 2.5),
    "rbf": lambda rng, d, size: kl.Rbf(scales(rng, d, size)),
    "gaussians": lambda rng, d, size: kl.ProductKernel(
        (kl.Gaussian(1.0 / size**2), kl.Gaussian(0.1 / size**2))
    ),
    "rational": lambda rng, d, size: kl.RationalQuadratic(
        scales(rng, d, size), 10 ** rng.uniform(-3, 4)
    ),
    "periodic": lambda rng, d, size: kl.ExpSineSquared(10 ** rng.uniform(-2, 2), float(size)),
    "laplacian": lambda rng, d, size: kl.Laplacian(1.0 / size),
    "thin plate": lambda rng, d, size: kl.ThinPlateSpline(1.0 / size),
    "linear spline": lambda rng, d, size: kl.PowerSpline(1.0 / size, 1),
    "cubic spline": lambda rng, d, size: kl.PowerSpline(1.0 / size, 3),
    "quintic spline": lambda rng, d, size: kl.PowerSpline(1.0 / size, 5),
    "multiquadric": lambda rng, d, size: kl.Multiquadric(1.0 / size),
    "inverse multiquadric": lambda rng, d, size: kl.InverseMultiquadric(1.0 / size),
    "inverse quadratic": lambda rng, d, size: kl.InverseQuadratic(1.0 / size),
    "linear": lambda rng, d, size: kl.PolynomialKernel(
        1, 1.0 / size**2, rng.choice([0.0, 1.0, -0.3])
    ),
    "cubic": lambda rng, d, size: kl.PolynomialKernel(
        3, 1.0 / size**2, rng.choice([0.0, 1.0, -0.3])
    ),
    "quartic": lambda rng, d, size: kl.PolynomialKernel(
        4, 1.0 / size**2, rng.choice([0.0, 1.0, -0.3])
    ),
    "degree 7": lambda rng, d, size: kl.PolynomialKernel(
        7, 1.0 / size**2, rng.choice([0.0, 1.0, -0.3])
    ),
    "sigmoid": lambda rng, d, size: kl.SigmoidKernel(1.0 / size**2, rng.choice([0.0, 1.0, -0.3])),
    "cosine": lambda rng, d, size: kl.CosineKernel(),
    "product": lambda rng, d, size: kl.ProductKernel(
        (kl.Rbf(scales(rng, d, size)), kl.PolynomialKernel(1, 1.0 / size**2, 1.0))
    ),
    "sum": lambda rng, d, size: kl.SumKernel(
        (float(10.0 ** rng.uniform(-6, 6)), 0.5),
        (kl.Matern(scales(rng, d, size), 1.5), kl.Laplacian(1.0 / size)),
        0.0,
    ),
}
GROWING = ("poly2", "linear", "cubic", "quartic", "degree 7", "product")


def fused_loops(plain: DenseExact) -> list[Callable[..., None]]:
    """What adds sums by compiled loops."""
    fused = plain.loops
    if fused is None:
        return []
    return [fused.add]


def random_model(kind: str, seed: int) -> tuple[KernelExpansion, np.ndarray]:
    """A model of up to 20 features, and rows that are hard on it."""
    rng = np.random.default_rng(seed)
    d, n, k = int(rng.integers(1, 21)), int(rng.integers(1, 120)), int(rng.integers(1, 4))
    width = 10.0 ** rng.uniform(-3, 3)
    spread = width * 10.0 ** rng.uniform(-2, 1.5) / np.sqrt(d)
    centers = rng.normal(size=(n, d)) * spread
    size = 10.0 ** rng.uniform(-4, 4)
    A = rng.choice([-1.0, 1.0], (n, k)) * size * 10.0 ** rng.uniform(-2, 0, (n, k))
    hard = KINDS[seed % len(KINDS)]
    growing = "poly2" if kind in GROWING or "spline" in kind or "plate" in kind else "rbf"
    centers, A = made_hard(hard, rng, centers, A, spread, growing)
    kernel = KERNELS[kind](rng, d, width)
    model = KernelExpansion(centers, A, rng.normal(size=k) * size, kernel=kernel)
    like = KernelExpansion(centers, A, np.zeros(k), gamma=1.0 / width**2)
    return model, hard_rows(rng, like, np.zeros(d))


@pytest.mark.parametrize("kind", KERNELS)
@settings(
    max_examples=max(6, HOW_MANY // 8),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32 - 1))
def test_errors_are_within_bounds(kind: str, seed: int) -> None:
    model, rows = random_model(kind, seed)
    truth = true_scores(model, rows)
    engine = ExactEngine.prepare(model)
    ways = [scores_and_bounds(engine.run(rows))]
    if engine.single is not None:
        ways.append(engine.single.run(rows))
    plain = DenseExact.by_values(model)  # also where the polynomial collapses
    squares = plain.squares(rows)
    bounds = plain.rounding.bounds(squares)
    with np.errstate(all="ignore"):
        for add in (plain.add_tiles, *fused_loops(plain)):
            sums = np.zeros((len(rows), model.n_outputs))
            add(rows, sums)
            ways.append((sums + model.intercept, bounds))
    for scores, bounds in ways:
        assert error_ratios(truth, scores, bounds).max() <= 1.0


@pytest.mark.parametrize("kind", KERNELS)
def test_bounds_are_of_use(kind: str) -> None:
    """On plain models a bound is a small share of what the sum is made of."""
    rng = np.random.default_rng(0)
    centers, A = rng.normal(size=(60, 4)), rng.normal(size=(60, 1))
    kernel = KERNELS[kind](rng, 4, 2.0)
    model = KernelExpansion(centers, A, 0.0, kernel=kernel)
    rows = rng.normal(size=(50, 4))
    _, bounds = scores_and_bounds(ExactEngine.prepare(model).run(rows))
    sizes = np.abs(kernel.values(rows, centers)) @ np.abs(A)
    assert (bounds / sizes).max() < (1e-10 if kind not in ("degree 7", "quintic spline") else 1e-5)


@pytest.mark.parametrize("alpha", [1e-30, 1e-18, 1e-5])
def test_far_rows_of_a_tiny_power(alpha: float) -> None:
    centers = np.array([[0.0, 1.0], [2.0, -1.0]])
    kernel = kl.RationalQuadratic((1.0,), alpha)
    model = KernelExpansion(centers, [1.0, 0.5], 0.25, kernel=kernel)
    rows = np.array([[1.0, 1.0], [1e130, 0.0], [1e140, 1e140], [1e144, 0.0], [1e200, 0.0]])
    scores, bounds = scores_and_bounds(ExactEngine.prepare(model).run(rows))
    assert (error_ratios(true_scores(model, rows), scores, bounds) <= 1.0).all()
    assert bounds[0] < 1e-12


def test_a_direction_that_a_map_may_have_lost_can_be_any_other() -> None:
    """Cosines of two directions differ by 2 at most, and that is what can be said of them."""
    mapped = kl.Reach(np.array([1e-150, 1.0, np.inf]), 1.0, 0.0, 3, moves=4.0)
    errors = kl.CosineKernel().error(mapped)
    assert errors[0] == 2.0
    assert 0.0 < errors[1] < 1e-13
    assert errors[2] == np.inf
    assert kl.CosineKernel().error(kl.Reach(np.array([1e-150]), 1.0, 0.0, 3))[0] < 1e-13
