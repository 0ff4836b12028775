"""Bounds of exact sums where maps before them lose digits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import kernelite
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import PolynomialKernel
from kernelite.program.bounded import spelled_out


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
