"""A certificate: constants of one expansion about one point that bound every row's error in O(1).

    |f(z) - computed f^(z)|  <=  rho_m sqrt(P(m, 2 gamma |u|^2)) + rounding(|u|)

m = 3 for the quadratic form, 4 for the cubic one. A degree-2 polynomial has rho = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernelite.approximation.remainder import lower_gamma, remainder_norms
from kernelite.approximation.rounding import TINY, RoundingTerms, round_up, row_rounding
from kernelite.errors import InputError
from kernelite.expansion import KernelExpansion
from kernelite.inputs import FloatArray, dense_block, row_blocks

__all__ = ["Certificate", "certify", "rounding_terms"]

BLOCK_ELEMENTS = 1 << 20


@dataclass(frozen=True, eq=False)
class Certificate:
    """Bounds of the quadratic and the cubic form of every output.

    Parameters
    ----------
    rho : ndarray of shape (2, k)
        rho_3 and rho_4, rounded up.
    rounding : RoundingTerms
    """

    rho: FloatArray
    rounding: RoundingTerms

    def __post_init__(self) -> None:
        if self.rho.ndim != 2 or self.rho.shape != (2, len(self.rounding.magnitude)):
            raise InputError(f"`rho` must have two rows, one column an output: {self.rho.shape}.")
        if not (np.isfinite(self.rho).all() and (self.rho >= 0).all()):
            raise InputError("`rho` of a certificate must be finite and not negative.")

    def bound(self, sq_norms: FloatArray, scores: FloatArray, degree: int = 2) -> FloatArray:
        """The error of computed scores of the form of `degree` 2 or 3, shape (m, k)."""
        rounding = self.rounding
        total = rounding.bound(sq_norms, scores, degree)
        if self.rho.any():
            # |u|^2 errs by (d + 5) u relatively and P grows with it.
            with np.errstate(over="ignore"):
                x = 2.0 * rounding.gamma * sq_norms * (1.0 + 1e-12)
            total += np.sqrt(lower_gamma(degree + 1, x))[:, None] * self.rho[degree - 2]
        return total


def certify(
    expansion: KernelExpansion,
    point: FloatArray,
    *,
    progress: Callable[[float], None] | None = None,
) -> Certificate:
    """Compute the certificate of `expansion` about `point`.

    Examples
    --------
    >>> one = KernelExpansion([[1.0]], [1.0], 0.0, gamma=0.5)
    >>> bool(certify(one, np.zeros(1)).rho[0, 0] > certify(one, np.full(1, 0.9)).rho[0, 0])
    True
    """
    if expansion.kernel == "poly2":
        rho = np.zeros((2, expansion.n_outputs))
    else:
        rho = remainder_norms(expansion, point, progress=progress)
    return Certificate(rho, rounding_terms(expansion, point))


def rounding_terms(expansion: KernelExpansion, point: FloatArray) -> RoundingTerms:
    """Absolute moments of the centers about `point`, and the lengths of the sums over them."""
    n, d, gamma = expansion.n_centers, expansion.n_features, expansion.gamma
    polynomial = expansion.kernel == "poly2"
    sums = np.zeros((4, expansion.n_outputs))
    radius_sq = 0.0
    for block in row_blocks(n, max(1, BLOCK_ELEMENTS // max(d, 1))):
        S = dense_block(expansion.centers, block) - point
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", S, S)
            size = np.ones(len(S)) if polynomial else np.exp(-gamma * squares)
            norms = np.sqrt(squares)
            powers = np.stack([np.where(size > 0, size * norms**m, 0.0) for m in range(4)])
        sums += powers @ np.abs(expansion.coefficients[block])
        radius_sq = max(radius_sq, float(squares.max(initial=0.0)))
    if polynomial:
        beta = abs(expansion.coef0)
        factors = [beta**2, 2.0 * beta * gamma, gamma**2, 0.0]
    else:
        factors = [(2.0 * gamma) ** m / math.factorial(m) for m in range(4)]
    total = np.abs(expansion.coefficients).sum(axis=0)
    absolute = TINY * (1.0 + total)
    if not polynomial:
        reach = math.sqrt(radius_sq) + math.hypot(*point)
        absolute = absolute + row_rounding(total, gamma, reach)
    return RoundingTerms(
        moments=round_up(sums * np.array(factors)[:, None]) * (1.0 + 1e-9),
        # 72: exponentials, and for a polynomial the two roundings of a mapped row, squared.
        # 4 sqrt(d) (d + 5): products with a basis V, whose rounding grows like sqrt(r) |u|.
        sums=float(n + 3 * d + 72 + 4.0 * math.sqrt(d) * (d + 5)),
        per_square=float(d + 5),
        radius_sq=min(radius_sq, 1e300),
        gamma=0.0 if polynomial else gamma,
        magnitude=np.abs(expansion.intercept),
        underflow=absolute,
    )
