"""exp against a rigorous oracle."""

from __future__ import annotations

import flint
import numpy as np
import pytest

from kernelite.backends.cpu.kernels.compiling import array_type, kernel
from kernelite.backends.cpu.kernels.exp import SMALLEST_EXPONENT, exp_nonpositive


@kernel(array_type(1), array_type(1, writable=True))
def _exp_each(x, out):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        out[i] = exp_nonpositive(x[i])


def exp_each(x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    _exp_each(x, out)
    return out


def ulps_off(x: np.ndarray) -> float:
    """The largest error in units in the last place of the result."""
    worst = 0.0
    old = flint.ctx.prec
    flint.ctx.prec = 120
    try:
        for argument, value in zip(x.tolist(), exp_each(x).tolist()):
            error = abs(flint.arb(value) - flint.arb(argument).exp())
            worst = max(worst, float(error.upper()) / float(np.spacing(value)))
    finally:
        flint.ctx.prec = old
    return worst


@pytest.mark.parametrize("scale", [708.0, 100.0, 5.0, 0.5, 1e-3, 1e-10])
def test_within_two_ulp_on_random_arguments(scale: float) -> None:
    rng = np.random.default_rng(int(scale))
    assert ulps_off(-scale * rng.random(4000)) < 1.2


def test_within_two_ulp_where_the_reduction_turns() -> None:
    turns = -(np.arange(0, 1021) + 0.5) * np.log(2.0)
    around = np.concatenate([np.nextafter(turns, 0.0), turns, np.nextafter(turns, -np.inf)])
    assert ulps_off(around) < 1.2


def test_ends_of_the_range() -> None:
    x = np.array([0.0, -0.0, -5e-324, -1e-300, -1e-17, SMALLEST_EXPONENT])
    np.testing.assert_array_equal(exp_each(x)[:5], 1.0)
    assert ulps_off(x) < 1.2
    below = np.array([np.nextafter(SMALLEST_EXPONENT, -np.inf), -720.0, -746.0, -1e308, -np.inf])
    np.testing.assert_array_equal(exp_each(below), 0.0)
    assert np.isnan(exp_each(np.array([np.nan]))).all()
