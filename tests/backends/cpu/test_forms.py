"""Certificates on kernels and threads are those of the definition, up to rounding."""

from __future__ import annotations

import numpy as np
import pytest

from kernelite.backends.cpu import forms
from kernelite.backends.cpu.kernels.bounds import remainders
from kernelite.machine.expansion import KernelExpansion
from kernelite.series import approximation, remainder


@pytest.mark.parametrize("n", [1, 383, 384, 385, 1000, 2051])
@pytest.mark.parametrize("scale", [0.1, 1.0, 4.0])
def test_certificates_agree_with_the_definition(n: int, scale: float) -> None:
    rng = np.random.default_rng(n)
    centers, A = scale * rng.normal(size=(n, 5)), rng.normal(size=(n, 2))
    expansion = KernelExpansion(centers, A, [0.0, 0.0], gamma=0.3)
    told: list[float] = []
    fast = forms.certify(expansion, centers.mean(axis=0), progress=told.append)
    slow = approximation.certify(expansion, centers.mean(axis=0))
    np.testing.assert_allclose(fast.rho, slow.rho, rtol=1e-9)
    assert told[-1] == pytest.approx(1.0)
    assert sorted(told) == told


@pytest.mark.parametrize(
    ("size", "first"),
    [*((size, 3) for size in (1e-3, 0.5, 1.9, 2.1, 8.0, 8.5, 40.0)), (1.0, 5), (8.0, 6), (8.0, 9)],
)
def test_a_block_errs_no_more_than_the_proof_allows(size: float, first: int) -> None:
    """320 units of sqrt(P_i P_j) are allowed, and (d + 6) (m + 4 L) + 28 L for the exponents."""
    rng = np.random.default_rng(3)
    S = rng.normal(size=(60, 4))
    S *= np.sqrt(size / np.einsum("ij,ij->i", S, S))[:, None]
    exponents = 0.5 * np.einsum("ij,ij->i", S, S)
    t = S @ S.T
    largest = float(np.abs(t).max())
    fast = remainders(t.copy(), exponents, exponents, order=first, size=largest)
    slow = remainder.remainders(t.copy(), exponents, exponents, order=first, size=largest)
    for order, mine, twin in zip((first, first + 1), fast, slow):
        root = np.sqrt(remainder.lower_gamma(order, 2.0 * exponents))
        allowed = (320.0 + 28.0 * size) * 2.0**-53 * np.multiply.outer(root, root)
        assert (np.abs(mine - twin) <= allowed).all()


def test_no_closed_form_of_another_order_is_taken_for_that_of_the_third() -> None:
    far = np.full((1, 1), 9.0), np.array([4.5]), np.array([4.5])
    for twin in (remainders, remainder.remainders):
        with pytest.raises(ValueError, match="no closed form of order 5"):
            twin(*far, order=5, size=9.0)
