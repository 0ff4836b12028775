"""f in real arithmetic: the rigorous reference of every bound.

In: an expansion and rows of doubles. Out: f as balls (python-flint's arb, 400 bits), which contain
the real value; or, where python-flint is absent, as mpmath numbers of 120 digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from kernelite.machine.expansion import KernelExpansion

try:
    from flint import arb, ctx

    ctx.prec = 400

    @contextmanager
    def more_digits() -> Iterator[None]:
        """Ten times the bits: for sums that cancel far below their terms."""
        before, ctx.prec = ctx.prec, 4000
        try:
            yield
        finally:
            ctx.prec = before

    def real(value: float) -> Any:
        """A double as an exact real."""
        return arb(float(value))

    def exponential(value: Any) -> Any:
        """e to a real."""
        return value.exp()

    def root(value: Any) -> Any:
        """The root of a real, or 0 where that is negative."""
        above, below = value.upper(), value.lower()
        if not above > 0:
            return arb(0)
        return above.sqrt().union(below.sqrt() if below > 0 else arb(0))

    def at_most(value: Any) -> float:
        """A double not below a real (a bit more)."""
        return float(value.upper()) * (1.0 + 1e-15)

except ImportError:  # pragma: no cover - python-flint has no wheel for every platform
    import mpmath

    mpmath.mp.dps = 120

    def more_digits() -> Any:
        """Ten times the digits: for sums that cancel far below their terms."""
        return mpmath.workdps(1200)

    def real(value: float) -> Any:
        """A double as an exact real."""
        return mpmath.mpf(float(value))

    def exponential(value: Any) -> Any:
        """e to a real."""
        return mpmath.exp(value)

    def root(value: Any) -> Any:
        """The root of a real, or 0 where that is negative."""
        return mpmath.sqrt(value) if value > 0 else mpmath.mpf(0)

    def at_most(value: Any) -> float:
        """A double not below a real (a bit more)."""
        return float(value) * (1.0 + 1e-15)


__all__ = ["error_ratios", "more_digits", "root", "true_scores", "true_variances"]


def true_scores(expansion: KernelExpansion, rows: np.ndarray) -> list[list[Any]]:
    """f of each row and output, in real arithmetic on the doubles given."""
    centers = [[real(x) for x in row] for row in expansion.dense_centers()]
    coefficients = [[real(a) for a in row] for row in expansion.coefficients]
    kernel = _of_expansion(expansion)
    table = []
    for row in rows:
        z = [real(value) for value in row]
        sums = [real(b) for b in expansion.intercept]
        for x, weights in zip(centers, coefficients):
            value = kernel(expansion, x, z)
            for j, weight in enumerate(weights):
                sums[j] += weight * value
        table.append(sums)
    return table


def true_variances(posterior: Any, expansions: Any, rows: Any) -> list[Any]:
    """k(z, z) - |L^-1 (weights * k)|^2 of each row, for kernels of the distance alone.

    `rows` are those that each expansion sees.
    """
    L = [[real(value) for value in line[: i + 1]] for i, line in enumerate(posterior.factor)]
    weights = [real(value) for value in posterior.weights]
    amplitudes = [real(value) for value in np.atleast_1d(posterior.amplitude)]
    centers = [[[real(x) for x in row] for row in one.dense_centers()] for one in expansions]
    kernels = [_of_expansion(one) for one in expansions]
    found = []
    for i in range(len(rows[0])):
        seen = [[real(value) for value in part[i]] for part in rows]
        left = real(posterior.diagonal)
        v: list[Any] = []
        for j, weight in enumerate(weights):
            k = real(posterior.constant)
            for p, (amplitude, kernel) in enumerate(zip(amplitudes, kernels)):
                k += amplitude * kernel(expansions[p], centers[p][j], seen[p])
            rest = weight * k
            for a, b in zip(L[j], v):
                rest -= a * b
            v.append(rest / L[j][j])
            left -= v[-1] * v[-1]
        found.append(left)
    return found


def _of_expansion(expansion: KernelExpansion) -> Any:
    """k(expansion, x, z) in real arithmetic."""
    kernel = expansion.kernel
    if kernel.has_series:
        return _gaussian if kernel.damps else _polynomial
    from tests.real_kernels import real_kernel

    return lambda _expansion, x, z: real_kernel(kernel, x, z)


def _gaussian(expansion: KernelExpansion, x: list[Any], z: list[Any]) -> Any:
    distance = real(0.0)
    for a, b in zip(x, z):
        distance += (a - b) * (a - b)
    return exponential(-real(expansion.gamma) * distance)


def _polynomial(expansion: KernelExpansion, x: list[Any], z: list[Any]) -> Any:
    product = real(0.0)
    for a, b in zip(x, z):
        product += a * b
    inner = real(expansion.gamma) * product + real(expansion.coef0)
    return inner * inner


def error_ratios(truth: list[list[Any]], scores: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """|f - score| / bound of each row and output, rounded up; an infinite bound gives 0."""
    ratios = np.zeros(scores.shape)
    for i, row in enumerate(truth):
        for j, value in enumerate(row):
            bound = float(bounds[i, j])
            assert bound >= 0.0, f"the bound of row {i}, output {j} is {bound}"
            if bound == np.inf:
                continue
            assert np.isfinite(scores[i, j]), f"row {i} has a bound, but no score"
            error = abs(value - real(scores[i, j]))
            if bound:
                ratios[i, j] = at_most(error / real(bound))
            elif at_most(error) > 0:
                ratios[i, j] = np.inf
    return ratios
