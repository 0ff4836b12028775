"""Bounds of exact sums: where maps before them lose digits, of one row, in single precision."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import kernelite
from kernelite.backends.cpu import fused_pointwise, limits
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import Matern, PolynomialKernel, SigmoidKernel
from kernelite.program.bounded import spelled_out
from tests.machine.kernels.test_kernel_bounds import KERNELS


@pytest.mark.parametrize("guarantee", ["exact", "certified"])
def test_directions_that_a_map_loses_are_not_proven(guarantee: str) -> None:
    """A cosine has no scale: what a scaler underflows or overflows is no small error."""
    X = np.array([[1e3, 0.0], [0.0, 1e3], [500.0, -500.0]])
    y = np.array([1.0, -1.0, 3.0])
    for scale, z in ((1.0, [4.0e-321, 1.4e-320]), (5e-4, [1e308, 1e308])):
        machine = make_pipeline(MaxAbsScaler(), KernelRidge(kernel="cosine", alpha=0.1))
        fast = kernelite.compile(machine.fit(scale * X, y), scale * X, guarantee=guarantee)
        row = np.array([z])
        away = fast.predict(row * 2.0 ** (1000 if z[0] < 1 else -10))
        if guarantee == "certified":  # exact values have no tolerance to keep
            assert not fast.decided(row).any()
        with np.errstate(invalid="ignore"):
            off = np.abs(fast.predict(row) - away)
        assert (off <= fast.error_bound(row).ravel()).all() or not np.isfinite(off).all()
        assert fast.decided(scale * X).all()


@pytest.mark.parametrize("degree", [1, 3, 4])
@pytest.mark.parametrize("factor", [1e36, 1e38, 1e77, 1e100, 1e150])
def test_a_sum_that_overflows_has_no_bound(degree: int, factor: float) -> None:
    kernel = PolynomialKernel(degree, 0.1827, 0.0 if degree == 1 else -0.3)
    centers = np.array([[7.0, -890.0, 656.0, -8.0], [0.03, -0.005, -0.008, -0.002]])
    weights = np.array([[-29.8], [-23.4]])
    rows = np.array([[3.6, -445.0, 328.0, -4.1], [0.1, 0.2, 0.3, 0.4]])
    expansion = KernelExpansion(factor * centers, weights, 38.0, kernel=kernel)
    engine = ExactEngine.prepare(expansion)
    with np.errstate(all="ignore"):
        for scale in (1.0, factor, factor**2 if factor < 1e150 else factor):
            found = engine.run(scale * rows)
            bounds = spelled_out(found.bounds)
            assert np.isinf(bounds[~np.isfinite(found.scores)]).all()
            np.testing.assert_array_equal(np.isinf(engine.bound(scale * rows)), np.isinf(bounds))


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_the_bound_of_one_row_is_hardly_above_its_own(name: str) -> None:
    """It is that of a row a little farther away, where bounds grow with the distance."""
    rng = np.random.default_rng(3)
    kernel = KERNELS[name](rng, 3, 2.0)
    centers = np.abs(rng.normal(size=(20, 3)))
    engine = ExactEngine.prepare(KernelExpansion(centers, rng.normal(size=20), 0.5, kernel=kernel))
    rows = np.abs(rng.normal(size=(30, 3))) * 10.0 ** rng.uniform(-3, 3, (30, 1))
    together = spelled_out(engine.run(rows).bounds)
    for i in range(len(rows)):
        alone = spelled_out(engine.run(rows[i : i + 1]).bounds)[0]
        assert (alone >= together[i] * (1.0 - 1e-12)).all()
        assert (alone <= 1.35 * together[i]).all()  # of r^5, (33/32)^(5/2) and powers of log r


@pytest.mark.skipif(not jit_available(), reason="no compiled kernels")
@pytest.mark.parametrize("coef0", [0.0, 1.0, -0.7])
def test_sigmoids_in_single_precision_are_within_their_bound(coef0: float) -> None:
    rng = np.random.default_rng(4)
    for n, d, gamma in ((1, 1, 1.0), (40, 3, 0.3), (700, 20, 0.05), (33, 70, 3.0)):
        centers, a = rng.normal(size=(n, d)), rng.normal(size=n) * 10.0 ** rng.uniform(-3, 3, n)
        expansion = KernelExpansion(centers, a, 0.5, kernel=SigmoidKernel(gamma, coef0))
        engine = ExactEngine.prepare(expansion)
        rows = rng.normal(size=(50, d)) * 10.0 ** rng.uniform(-2, 3, (50, 1))
        single, bounds = engine.single.run(rows)  # type: ignore[union-attr]
        exact = np.tanh(gamma * rows @ centers.T + coef0) @ a[:, None] + 0.5
        assert (np.abs(single - exact) <= bounds).all()
        assert bounds.min() < 1e-4 * np.abs(a).sum()  # and it says something
        far, unknown = engine.single.run(np.full((2, d), 1e200))  # type: ignore[union-attr]
        assert np.isinf(unknown).all()
        assert np.isfinite(far).all()


@pytest.mark.skipif(not jit_available(), reason="no compiled kernels")
def test_sigmoids_that_single_precision_has_no_room_for_have_none() -> None:
    for size, gamma in ((1e25, 1.0), (1e-25, 1.0), (1.0, 1e20)):
        kernel = SigmoidKernel(gamma, 0.0)
        engine = ExactEngine.prepare(KernelExpansion([[1.0]], [size], 0.0, kernel=kernel))
        assert engine.single is None


@pytest.mark.skipif(not jit_available(), reason="no kernels here")
def test_threads_take_rows_of_other_kernels_inside_compiled_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The old way was a call of Python's for each 64 rows."""
    monkeypatch.setattr(limits, "available", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    rng = np.random.default_rng(0)
    centers, coefficients = rng.normal(size=(500, 8)), rng.normal(size=500)
    model = KernelExpansion(centers, coefficients, 0.5, kernel=Matern((2.0,), 2.5))
    rows, calls = rng.normal(size=(20_000, 8)), []
    own = fused_pointwise.share_rows
    monkeypatch.setattr(
        fused_pointwise, "share_rows", lambda *given: calls.append(given[1]) or own(*given)
    )
    found = ExactEngine.prepare(model).run(rows)
    assert calls == [4 * 4096, 20_000 - 4 * 4096]
    np.testing.assert_allclose(found.scores, model.scores(rows), rtol=1e-9, atol=1e-9)
