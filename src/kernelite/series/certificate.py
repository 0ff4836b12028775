"""A certificate: constants of one expansion about one point that bound every row's error in O(1).

    |f(z) - computed f^(z)|  <=  rho_m sqrt(P(m, 2 gamma |u|^2)) + rounding(|u|)

m = 3 for the quadratic form, 4 for the cubic one. A degree-2 polynomial has rho = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from kernelite.data.rows.inputs import FloatArray, dense_block, row_blocks, rows_within
from kernelite.machine.exactly import NORM_LOSS
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.ops import NUMPY, Arithmetic, ops
from kernelite.series.remainder import (
    DoubleSums,
    Each,
    lower_gamma,
    one_by_one,
    remainder_norms,
)
from kernelite.series.rounding import (
    ABOVE,
    LOST_TERMS,
    UNIT,
    RoundingTerms,
    check_range,
    folding,
    polynomial_error,
    polynomial_units,
    round_up,
    square_error,
)
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.records import dataclass

__all__ = ["Certificate", "certify", "rounding_terms"]

ARRAYS_PER_BLOCK = 8  # as large as a block of centers, that are made of it
LARGEST_EXPONENT = 750.0  # gamma |s|^2 beyond which a center's weight is zero


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

    def bound(
        self,
        sq_norms: FloatArray,
        scores: FloatArray,
        degree: int = 2,
        arithmetic: Arithmetic = NUMPY,
    ) -> FloatArray:
        """The error of computed scores of the form of `degree` 2 or 3, shape (m, k).

        Parameters
        ----------
        sq_norms : ndarray of shape (m,)
            |u|^2 as computed.
        scores : ndarray of shape (m, k)
        degree : {2, 3}
        arithmetic : Arithmetic
            Of the target that computed them.
        """
        xp, rounding, rho = ops(scores), self.rounding, self.rho[degree - 2]
        total = rounding.bound(sq_norms, scores, degree, arithmetic)
        if not rho.any():
            return total
        # |u|^2 errs by (d + 2) u relatively, 2 gamma |u|^2 by one more, and P grows with it.
        above = 1.0 + arithmetic.worse * square_error(rounding.per_square)
        with np.errstate(over="ignore"):
            x = sq_norms[:, None] * (2.0 * rounding.gamma * above)
        total = total + xp.sqrt(lower_gamma(degree + 1, x, arithmetic)) * rho
        return xp.where(xp.isnan(total), np.inf, total)


def certify(
    expansion: KernelExpansion,
    point: FloatArray,
    *,
    mapped: bool = False,
    progress: Callable[[float], None] | None = None,
    sums: DoubleSums | None = None,
    each: Each = one_by_one,
) -> Certificate:
    """Compute the certificate of `expansion` about `point`.

    Parameters
    ----------
    expansion : KernelExpansion
    point : ndarray of shape (d,)
        p.
    mapped : bool
        Whether rows come through an affine map, whose rounding then counts.
    progress : callable, optional
        Told the share that is done, from time to time.
    sums, each : callable, optional
        As for `remainder_norms`.

    Examples
    --------
    >>> one = KernelExpansion([[1.0]], [1.0], 0.0, gamma=0.5)
    >>> bool(certify(one, np.zeros(1)).rho[0, 0] > certify(one, np.full(1, 0.9)).rho[0, 0])
    True
    """
    check_range(expansion)
    if expansion.kernel.quadratic:
        rho = np.zeros((2, expansion.n_outputs))
    else:
        rho = remainder_norms(expansion, point, progress=progress, sums=sums, each=each)
    if not np.isfinite(rho).all():
        raise UnsupportedModelError(
            "the certificate of this model overflows: its coefficients are too large; divide them "
            "and the intercept by a common factor."
        )
    return Certificate(rho, rounding_terms(expansion, point, mapped=mapped))


def rounding_terms(
    expansion: KernelExpansion, point: FloatArray, *, mapped: bool = False
) -> RoundingTerms:
    """Absolute moments of the centers about `point`, and the lengths of the sums over them."""
    n, d = expansion.n_centers, expansion.n_features
    gamma = 0.0 if expansion.kernel.quadratic else expansion.gamma
    sums, radius_sq = _absolute_sums(expansion, point, gamma)
    with np.errstate(over="ignore"):
        # An overflow to infinity is sound. The floor is for products that underflow in a
        # polynomial, where no exponential keeps |u| small: u times it is
        # LOST_TERMS (1 + |u| + |u|^2).
        total = np.abs(expansion.coefficients).sum(axis=0)
        moments = round_up(sums * np.array(_factors(expansion))[:, None]) * ABOVE
        reach = math.sqrt(radius_sq) + math.hypot(*point)
        # 72: exponentials. 4 sqrt(d) (d + 5): products with a basis V, whose rounding grows like
        # sqrt(r) |u|.
        lengths = n + 3 * d + 72 + 4.0 * math.sqrt(d) * (d + 5)
        if not gamma:
            lengths += polynomial_units(expansion, mapped=mapped)
            error = polynomial_error(expansion) / (UNIT * lengths)  # the least that meets a moment
            if error.any():
                for m, factor in enumerate(_factors(expansion)[:3]):
                    moments[m] += error * (factor * (reach + NORM_LOSS) ** m)
            # a_1 |u| + a_2 |u|^2 where |u| is larger than it seems by as much.
            moments[0] += NORM_LOSS * (moments[1] + NORM_LOSS * moments[2])
            moments[1] += 2.0 * NORM_LOSS * moments[2]
        moments += LOST_TERMS / UNIT * (1.0 + total)
        absolute = LOST_TERMS * (1.0 + total)
        absolute += folding(expansion, total, reach, mapped=mapped)
    return RoundingTerms(
        moments=moments,
        sums=float(lengths),
        per_square=float(d + 5),
        radius_sq=min(radius_sq, LARGEST_EXPONENT / gamma) if gamma else 0.0,
        gamma=gamma,
        magnitude=np.abs(expansion.intercept),
        underflow=absolute,
    )


def _absolute_sums(
    expansion: KernelExpansion, point: FloatArray, gamma: float
) -> tuple[FloatArray, float]:
    """sum_i |w_i| |s_i|^m for m = 0 to 3 (2 without an exponential), and max |s_i|^2."""
    sums = np.zeros((4, expansion.n_outputs))
    radius_sq = 0.0
    orders = 4 if gamma else 3
    for block in row_blocks(
        expansion.n_centers, rows_within(ARRAYS_PER_BLOCK * expansion.n_features)
    ):
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            S = dense_block(expansion.centers, block) - point
            squares = np.einsum("ij,ij->i", S, S)
            size = np.exp(-gamma * squares) if gamma else np.ones(len(S))
            norms = np.sqrt(squares) + (0.0 if gamma else NORM_LOSS)
            powers = np.stack([np.where(size > 0, size * norms**m, 0.0) for m in range(orders)])
            sums[:orders] += powers @ np.abs(expansion.coefficients[block])
        radius_sq = max(radius_sq, float(squares.max(initial=0.0)))
    return sums, radius_sq


def _factors(expansion: KernelExpansion) -> list[float]:
    """What the sums are multiplied with to give the moments."""
    gamma = expansion.gamma
    if expansion.kernel.quadratic:
        beta = abs(expansion.coef0)
        return [beta**2, 2.0 * beta * gamma, gamma**2, 0.0]
    return [(2.0 * gamma) ** m / math.factorial(m) for m in range(4)]
