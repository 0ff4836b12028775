"""Kernels in ONNX, C and JavaScript: the formulas of `machine.kernels` against those in NumPy."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator
from scipy.stats import gaussian_kde
from sklearn.neighbors import KernelDensity

import kernelite
from kernelite.backends.c import to_c
from kernelite.backends.javascript import to_javascript
from kernelite.backends.onnx import to_onnx
from kernelite.machine import kernels as kl
from kernelite.machine.expansion import KernelExpansion, kernel_values
from kernelite.support.errors import UnsupportedModelError
from tests.backends.javascript.node import NODE, Node
from tests.machine.kernels.test_kernel_bounds import KERNELS
from tests.model.export.cases import constant_bytes
from tests.model.export.test_c import answers, build

D = 3
gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def machine(kernel: Any, n: int = 30, k: int = 2, **options: Any) -> KernelExpansion:
    """Random centers under a kernel, two outputs."""
    rng = np.random.default_rng(n)
    centers, intercept = rng.normal(size=(n, D)), np.arange(1.0, k + 1.0)
    return KernelExpansion(centers, rng.normal(size=(n, k)), intercept, kernel=kernel, **options)


def rows_of(expansion: KernelExpansion) -> np.ndarray:
    """Rows near and far, some centers (a kink for many kernels) and the origin."""
    rng = np.random.default_rng(1)
    near = rng.normal(size=(40, D))
    return np.vstack([near, 30.0 * near[:4], expansion.centers[:5], np.zeros((1, D))])


def in_onnx(model: Any, rows: np.ndarray, **options: Any) -> np.ndarray:
    pytest.importorskip("onnx", reason="the onnx extra is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    graph = to_onnx(model, **options)
    session = runtime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"X": rows})[0]


def in_c(model: Any, rows: np.ndarray, folder: Path, **options: Any) -> np.ndarray:
    return np.array(answers(build(model, folder, **options), rows), dtype=np.float64)


def same(got: np.ndarray, expansion: KernelExpansion, rows: np.ndarray) -> None:
    """Equal to a few roundings of what is summed; a single precision anywhere would show."""
    sizes = np.abs(kernel_values(expansion, rows)) @ np.abs(expansion.coefficients)
    assert (np.abs(got - expansion.scores(rows)) <= 1e-12 * (sizes + 1.0)).all()


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_in_onnx(name: str) -> None:
    for seed in range(2):  # one length scale, and one per feature
        expansion = machine(KERNELS[name](np.random.default_rng(seed), D, 2.0))
        rows = rows_of(expansion)
        fast = kernelite.compile(expansion, guarantee="exact")
        same(in_onnx(fast, rows), expansion, rows)
        assert len(in_onnx(fast, rows[:0])) == 0


@gcc
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_in_c(name: str, tmp_path: Path) -> None:
    expansion = machine(KERNELS[name](np.random.default_rng(1), D, 2.0))
    rows = rows_of(expansion)
    same(in_c(kernelite.compile(expansion, guarantee="exact"), rows, tmp_path), expansion, rows)


@pytest.mark.parametrize(
    "kernel", [kl.Matern((1.0,), 0.7), kl.SumKernel((1.0, 2.0), (kl.Rbf(), kl.Matern(nu=3.0)))]
)
def test_bessel_functions_are_refused_in_a_sentence(kernel: kl.Kernel) -> None:
    fast = kernelite.compile(machine(kernel), guarantee="exact")
    for target, write in {"ONNX": to_onnx, "C": to_c, "JavaScript": to_javascript}.items():
        with pytest.raises(UnsupportedModelError, match=r"Matern .* rests on SciPy's Bessel"):
            write(fast)
        assert "Bessel" in fast.export_refusals()[target]
    assert "Exports: ONNX no (the kernel of this model (" in str(fast.plan)


# From scikit-learn's kernels to rows that are far from all centers.
DENSITIES = {
    "tophat": 1.5,
    "epanechnikov": 1.5,
    "linear": 1.5,
    "exponential": 0.01,
    "gaussian": 0.02,
}


@pytest.mark.parametrize("kernel", DENSITIES)
def test_densities_of_every_kernel(kernel: str, tmp_path: Path) -> None:
    """Only some have logarithms that do not underflow; the others are zero far away."""
    rng = np.random.default_rng(7)
    centers, bandwidth = rng.normal(size=(60, D)), DENSITIES[kernel]
    density = KernelDensity(kernel=kernel, bandwidth=bandwidth).fit(centers)
    rows = np.vstack([centers[:20] + 0.1, 3.0 * centers[:10], 100.0 * centers[:2]])
    want = density.score_samples(rows)
    assert np.isinf(want).any() == (kernel in ("tophat", "epanechnikov", "linear"))
    fast = kernelite.compile(density, centers, guarantee="exact")
    found = {"ONNX": in_onnx(fast, rows)}
    if shutil.which("gcc") is not None:
        found["C"] = in_c(fast, rows, tmp_path)
    if NODE is not None:
        with Node(tmp_path) as node:
            told = node.ask(to_javascript(fast), rows, "predict")
        found["JavaScript"] = np.array([float(str(v).replace("Infinity", "inf")) for v in told])
    for target, values in found.items():
        np.testing.assert_allclose(values.reshape(-1), want, rtol=1e-9, err_msg=target)


@gcc
def test_a_cosine_in_a_sum(tmp_path: Path) -> None:
    expansion = machine(kl.SumKernel((1.0, 2.0), (kl.Rbf(), kl.CosineKernel())))
    fast, rows = kernelite.compile(expansion, guarantee="exact"), rows_of(expansion)
    same(in_onnx(fast, rows), expansion, rows)
    same(in_c(fast, rows, tmp_path), expansion, rows)


@gcc
@pytest.mark.parametrize("gamma", [0.5, 1e9])
def test_narrow_bumps_are_summed_by_differences(gamma: float, tmp_path: Path) -> None:
    """Where products would lose the digits of small distances."""
    expansion = machine("rbf", gamma=gamma)
    rows = np.vstack([expansion.centers, expansion.centers + 1e-5])
    fast = kernelite.compile(expansion, guarantee="exact")
    want = expansion.scores(rows)
    for got in (in_onnx(fast, rows), in_c(fast, rows, tmp_path)):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("degree", "numbers"), [(1, 2 * D), (3, 2 * 20), (4, 2 * 55)])
def test_polynomials_need_no_support_vectors(degree: int, numbers: int) -> None:
    expansion = machine(kl.PolynomialKernel(degree, 0.5, 1.0), n=200)
    fast = kernelite.compile(expansion, guarantee="exact")
    assert constant_bytes(to_c(fast)) == 8 * (numbers + 2)  # and b
    rows = rows_of(expansion)
    same(in_onnx(fast, rows), expansion, rows)


@pytest.mark.parametrize("name", ["matern 5/2", "laplacian", "linear", "cubic", "cosine", "sum"])
def test_single_precision_states_what_it_measures(name: str, tmp_path: Path) -> None:
    expansion = machine(KERNELS[name](np.random.default_rng(1), D, 2.0), n=100)
    rows = rows_of(expansion)[:40]
    fast = kernelite.compile(expansion, guarantee="exact")
    single = rows.astype(np.float32)
    got = in_onnx(fast, single, dtype="float32", sample=rows)
    size = np.abs(expansion.scores(rows)).max()
    assert 0.0 < np.abs(got - expansion.scores(single.astype(np.float64))).max() < 1e-4 * size
    header = to_c(fast, dtype="float32", sample=rows)
    assert "not a bound" in header
    assert "double" not in header
    stated = float(header.partition("float32 error: largest ")[2].split(",")[0])
    assert 0.0 < stated < 1e-4 * size


RADIAL = [
    *("thin_plate_spline", "linear", "cubic", "quintic", "multiquadric"),
    *("inverse_multiquadric", "inverse_quadratic", "gaussian"),
]


@gcc
@pytest.mark.parametrize("shape", RADIAL)
def test_interpolants_have_their_polynomial(shape: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, D))
    model = RBFInterpolator(X, np.cos(X[:, :2]), kernel=shape, epsilon=0.7, degree=2)
    fast, rows = kernelite.compile(model, X), np.vstack([X[:9], rng.normal(size=(30, D))])
    want, ours = model(rows), fast.predict(rows)
    for got in (in_onnx(fast, rows), in_c(fast, rows, tmp_path)):
        assert np.abs(got - want).max() <= fast.tolerance.max() + 1e-7
        assert np.abs(got - ours).max() <= 2.0 * fast.tolerance.max()


@gcc
def test_densities_are_summed_in_logarithms_behind_a_linear_map(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, D)) @ rng.normal(size=(D, D))
    model = gaussian_kde(X.T)
    fast, rows = kernelite.compile(model, X), np.vstack([X[:20], 40.0 * X[:5]])
    want = model.logpdf(rows.T)
    assert want.min() < -1000.0
    for got in (in_onnx(fast, rows), in_c(fast, rows, tmp_path)):
        np.testing.assert_allclose(got[:, 0], want, rtol=1e-12)
    far = np.full((1, D), 1e200)
    assert in_c(fast, far, tmp_path)[0, 0] == -np.inf
    form = kernelite.compile(model, X, plan="form")
    with pytest.raises(UnsupportedModelError, match="the form of a density is not written in C"):
        to_c(form, part="approximation")


def test_bounds_beside_a_polynomial_are_left_to_onnx() -> None:
    X = np.random.default_rng(0).normal(size=(60, D))
    model = RBFInterpolator(X, X[:, 0], kernel="gaussian", epsilon=0.1, degree=1)
    fast = kernelite.compile(model, X, plan="form")
    with pytest.raises(UnsupportedModelError, match="beside a polynomial are not"):
        to_c(fast, part="approximation", decided=True)
    assert "The exact model in float64" in to_c(fast)
