"""Bounds of exact sums where maps before them lose digits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import kernelite


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
