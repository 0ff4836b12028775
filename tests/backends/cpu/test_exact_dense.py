"""The exponentials and their sums against NumPy twins."""

from __future__ import annotations

import numpy as np
import pytest

from kernelite.backends.cpu.exact_dense import add_kernel_sums
from kernelite.backends.cpu.exact_rounding import CENTERS


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 200, CENTERS + 1, 3 * CENTERS])
def test_sums_equal_the_twin(n: int, k: int) -> None:
    rng = np.random.default_rng(n + k)
    tile = -rng.exponential(scale=5.0, size=(7, n))
    tile[:, : n // 3] = rng.choice([0.0, 1e-9, -707.9, -800.0, -np.inf], size=(7, n // 3))
    coefficients = rng.normal(size=(n, k))
    out = np.ones((7, k))
    # Below exp(-708) the kernel gives zero where NumPy gives a denormal.
    expected = 1.0 + np.exp(np.minimum(tile, 0.0)) @ coefficients
    size = np.abs(coefficients).sum() + 1.0
    add_kernel_sums(tile, coefficients, out)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-15 * size * (n + 4))
