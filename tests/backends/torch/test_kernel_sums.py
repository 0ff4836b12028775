"""Kernels without a series: labels and values of the CPU, bounds that hold, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge
from sklearn.neighbors import KernelDensity
from sklearn.svm import SVC

import kernelite as kl
from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.torch.evidence import deviations
from kernelite.backends.torch.exact import KernelSums
from kernelite.backends.torch.kernels.doubles import run_distances
from kernelite.backends.torch.program import Program
from kernelite.backends.torch.tensors import TensorValue, TorchOps
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import (
    CosineKernel,
    ExpSineSquared,
    FunctionKernel,
    InverseMultiquadric,
    Kernel,
    Laplacian,
    Matern,
    Multiquadric,
    PolynomialKernel,
    PowerSpline,
    ProductKernel,
    RationalQuadratic,
    Rbf,
    SigmoidKernel,
    SumKernel,
    ThinPlateSpline,
)
from kernelite.support.errors import UnsupportedModelError
from tests.backends.torch.devices import DEVICE, kernels_run, there
from tests.models import MODELS, compiled, fitted

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning")

WORDS = ("linear", "cubic", "quartic", "degree 5", "sigmoid", "laplacian", "cosine", "matern")
WORDS += ("rational", "line", "periodic", "mixture", "product")
NAMES = [
    name
    for name, recipe in MODELS.items()
    if any(word in name.split() or word in name for word in WORDS)
    and recipe.form != "frame"
    and not name.startswith(("pipeline", "gpc iris"))
]


@pytest.mark.parametrize("name", NAMES)
def test_models_answer_like_the_cpu(name: str) -> None:
    fast, rows = compiled(name, "certified"), fitted(name)[1]
    rows = rows.toarray() if hasattr(rows, "toarray") else rows
    program = Program(fast).to(DEVICE)
    found = program(there(rows))
    method = next(m for m in ("predict", "transform") if m in fast.head.offers)
    expected, got = getattr(fast, method)(rows), found.labels.cpu().numpy()
    if fast.head.kind in ("classifier", "outlier"):
        labels = got if program.head.has_numbers else np.asarray(fast.classes_)[got]
        np.testing.assert_array_equal(labels, expected)
    else:
        assert got.shape == expected.shape
        assert (np.abs(got - expected) <= 2.0 * np.max(fast.tolerance)).all()
    if fast.posterior is not None and fast.head.kind == "regressor":
        spread = deviations(fast, program, there(rows)).cpu().numpy()
        np.testing.assert_allclose(spread, fast.predict(rows, return_std=True)[1], atol=1e-6)


KERNELS: dict[str, Kernel] = {
    "linear": PolynomialKernel(1),
    "cubic": PolynomialKernel(3, 0.3, 1.0),
    "degree 7": PolynomialKernel(7, 0.1, 0.5),
    "sigmoid": SigmoidKernel(0.2, -0.3),
    "cosine": CosineKernel(),
    "laplacian": Laplacian(0.4),
    "matern 1/2": Matern((2.0,), 0.5),
    "matern 5/2, scales": Matern((2.0, 0.5, 3.0), 2.5),
    "matern 9/2": Matern((2.0,), 4.5),
    "rational quadratic": RationalQuadratic((1.5,), 0.6),
    "periodic": ExpSineSquared(0.8, 3.0),
    "multiquadric": Multiquadric(0.7),
    "inverse multiquadric": InverseMultiquadric(0.7),
    "thin plate": ThinPlateSpline(1.3),
    "quintic": PowerSpline(0.9, 5),
    "sum": SumKernel((2.0, 0.1), (Matern((1.0,), 1.5), PolynomialKernel(1, 1.0, 0.3))),
    "product": ProductKernel((Rbf((2.0,)), PolynomialKernel(2, 0.5, 1.0))),
}


def expansion_of(kernel: Kernel, seed: int, spread: float = 1.0) -> KernelExpansion:
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 40)), int(rng.integers(1, 4))
    A = rng.normal(size=(n, k)) * 10.0 ** rng.uniform(-3, 3)
    return KernelExpansion(rng.normal(size=(n, 3)) * spread, A, rng.normal(size=k), kernel=kernel)


@pytest.mark.parametrize("name", KERNELS)
@given(seed=st.integers(0, 1 << 20), spread=st.sampled_from([1e-6, 0.1, 1.0, 30.0, 1e5]))
@settings(max_examples=12, deadline=None)
def test_bounds_hold_and_are_the_cpus(name: str, seed: int, spread: float) -> None:
    """Two sums in doubles, each within its own bound of the real one."""
    expansion = expansion_of(KERNELS[name], seed, spread)
    engine = DenseExact.by_values(expansion)
    rng = np.random.default_rng(seed + 1)
    rows = rng.normal(size=(12, 3)) * spread * 10.0 ** rng.uniform(-3, 2, (12, 1))
    rows[0], rows[1], rows[2] = expansion.dense_centers()[0], 0.0, 1e200
    own, squares = engine.scores(rows)
    bounds = engine.rounding.bounds(squares)
    found = KernelSums(expansion, mapped=False).to(DEVICE)(there(rows))
    scores, theirs = found.scores.cpu().numpy(), found.bounds.cpu().numpy()
    known = np.isfinite(bounds) & np.isfinite(theirs)
    assert known[:2].all()
    assert (np.abs(scores - own)[known] <= (bounds + theirs)[known]).all()
    if not isinstance(expansion.kernel, CosineKernel) and name != "linear":  # one product, not n
        np.testing.assert_allclose(theirs, bounds, rtol=1e-9)


@kernels_run
@pytest.mark.parametrize("city", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1), (70, 65, 7), (3, 130, 0)])
def test_the_kernel_of_distances_is_its_definition(shape: Any, city: bool) -> None:
    m, n, d = shape
    rng = np.random.default_rng(d)
    rows, centers = there(rng.normal(size=(m, d))), there(rng.normal(size=(n, d)))
    found = run_distances(rows, centers, city=city).cpu().numpy()
    gaps = rows.cpu().numpy()[:, None] - centers.cpu().numpy()
    plain = np.abs(gaps).sum(axis=2) if city else np.square(gaps).sum(axis=2)
    np.testing.assert_allclose(found, plain, rtol=1e-14 * (d + 3))
    here = TorchOps(rows.device)
    name = "city_distances" if city else "squared_distances"
    own = getattr(here, name)(TensorValue(rows), TensorValue(centers)).tensor.cpu().numpy()
    np.testing.assert_allclose(own, plain, rtol=1e-14 * (d + 3))


def toy() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(90, 3))
    return X, (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)


@pytest.mark.parametrize("guarantee", ["certified", "exact"])
def test_methods_other_than_predict_answer_too(guarantee: str) -> None:
    X, y = toy()
    fast = kl.compile(SVC(kernel="sigmoid", gamma=0.1).fit(X, y), X, guarantee=guarantee)
    program = Program(fast).to(DEVICE)
    found = program(there(X), labels_only=False)
    slack = found.bounds.cpu().numpy()[:, 0] + fast.error_bound(X)
    assert (np.abs(found.scores.cpu().numpy()[:, 0] - fast.decision_function(X)) <= slack).all()
    assert not bool(program.predict(there(X)).undecidable.any())


def test_far_exponential_densities_are_summed_in_logarithms() -> None:
    X, _ = toy()
    fast = kl.compile(KernelDensity(kernel="exponential", bandwidth=0.1).fit(X), X)
    far = np.full((2, 3), 300.0)
    found = Program(fast).to(DEVICE)(there(far)).labels.cpu().numpy()
    np.testing.assert_allclose(found, fast.score_samples(far), rtol=1e-9)


@pytest.mark.parametrize("kernel", ["laplacian", "rational", "matern"])
def test_derivatives_are_those_of_finite_differences(kernel: str) -> None:
    own: Any = {"laplacian": Laplacian(0.4), "rational": RationalQuadratic((1.5,), 0.6)}
    expansion = expansion_of(own.get(kernel, Matern((2.0,), 1.5)), 3)
    sums = KernelSums(expansion, mapped=False)
    rows = torch.from_numpy(np.random.default_rng(5).normal(size=(4, 3)))
    rows[0] = torch.from_numpy(expansion.dense_centers()[0]) if kernel != "laplacian" else rows[0]
    leaf = rows.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(sums(leaf).scores.sum(), leaf)
    step = 1e-6
    for feature in range(3):
        ahead, behind = rows.clone(), rows.clone()
        ahead[:, feature] += step
        behind[:, feature] -= step
        gap = (sums(ahead).scores - sums(behind).scores).sum(dim=1) / (2.0 * step)
        size = float(np.abs(expansion.coefficients).sum())
        np.testing.assert_allclose(slopes[:, feature], gap, atol=1e-5 * size)


def test_kernels_that_no_tensor_can_take_are_refused_by_name() -> None:
    X, y = toy()
    counts = np.abs(X)
    refused = {
        "additive chi-squared": (KernelRidge(kernel="additive_chi2"), counts),
        "the function plain": (SVC(kernel=plain), X),
    }
    for name, (model, rows) in refused.items():
        fast = kl.compile(model.fit(rows, y), rows, guarantee="exact")
        with pytest.raises(UnsupportedModelError, match=rf"kernel of this model \({name}\) is not"):
            Program(fast)
    by_bessel = KernelExpansion(X, y * 1.0, 0.0, kernel=Matern((1.0,), 0.7))
    with pytest.raises(UnsupportedModelError, match=r"Matern 0\.7"):
        KernelSums(by_bessel, mapped=False)
    with pytest.raises(UnsupportedModelError, match="the function"):
        KernelSums(KernelExpansion(X, y, 0.0, kernel=FunctionKernel(plain)), mapped=False)


def plain(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    return one @ two.T
