"""Memory of large models while they compile, as NumPy's arrays are counted."""

import tracemalloc

import numpy as np
import pytest
from sklearn.neighbors import KernelDensity

import kernelite
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ClassifierHead, OutlierHead, RegressorHead
from kernelite.machine.machine import Machine

MOST_MODELS = 3.5  # that arrays may grow by: libraries that are loaded take their share


def machine(kind, X, gamma):
    n = len(X)
    if kind == "density":
        return KernelDensity(bandwidth=1.0 / np.sqrt(2.0 * gamma), rtol=1e-2).fit(X)
    if kind == "one class":
        coefficients, head = np.full(n, 1.0 / n), OutlierHead()
    elif kind == "two classes":
        coefficients, head = np.where(X[:, 0] > 0.1, 1.0, -1.0), ClassifierHead(np.array([1, -1]))
        coefficients -= coefficients.mean()
    else:
        coefficients, head = np.sin(9.0 * X[:, 0]), RegressorHead()
    expansion = KernelExpansion(X, coefficients, 0.0, gamma=gamma)
    middle = np.quantile(expansion.scores(X[:40]), 0.3)
    expansion = KernelExpansion(X, coefficients, -middle, gamma=gamma)
    return Machine(expansion, head, "made up", "arrays", "KernelExpansion")


@pytest.mark.parametrize(
    ("kind", "n", "d", "gamma"),
    [
        ("density", 200_000, 3, 50.0),
        ("density", 200_000, 3, 1.0),
        ("density", 80_000, 10, 5.0),
        ("one class", 200_000, 3, 500.0),  # near centers
        ("two classes", 150_000, 3, 500.0),
        ("two classes", 80_000, 10, 1.0),
        ("values", 100_000, 5, 1.0),
    ],
)
def test_compiling_takes_four_times_the_model_at_most(kind, n, d, gamma):
    rng = np.random.default_rng(0)
    X, rows = rng.normal(size=(n, d)), rng.normal(size=(1000, d))
    kernelite.compile(machine(kind, X[:2000], gamma), rows)  # what is loaded once is not counted
    model = machine(kind, X, gamma)
    tracemalloc.start()
    try:
        fast = kernelite.compile(model, rows)
        grown = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (fast.local is not None) == (gamma > 20.0)
    assert grown <= MOST_MODELS * 8 * n * (d + 1), f"{grown / (8 * n * (d + 1)):.2f} times"
