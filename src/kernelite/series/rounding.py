"""The floating-point model, and the terms that put rounding inside the proof.

The exact model is the user's estimator, computed in real arithmetic from its stored doubles. If
nothing was folded into other numbers when it was read, f is that model; otherwise `folding` bounds
how far f is from it. With u = 2^-53, to first order:

- a sum or dot product of length l, in any order and with or without fused multiply-adds, errs by at
  most l u (sum of |terms|); `SAFETY` covers the higher orders (l u < 1e-6 for every l here);
- x - p errs by u |x - p| in each entry, so |s|^2 and |u|^2 err by (d + 2) u relatively;
- exp errs by 4 ulp, that is 8 u, and by the absolute error of its argument times its value; below
  1e-300 it may be anything from 0 to 1e-300;
- LAPACK's symmetric eigenvalues and norms of an (l, l) matrix err by at most 4 l^2 u of its norm.
- rows that came through an affine map are off by 5 u in each entry (`machine.affine`), and what was
  folded into the stored numbers is off by what the expansion says: `folding`.

Majorant. With a_m = (2 gamma)^m / m! sum_i |w_i| |s_i|^m, all that is summed in c, v.u, u'Mu and
T(u,u,u), term by term and in absolute value, is at most a_m |u|^m: a form is bounded by
amplitude(|u|) = exp(-gamma |u|^2) (a_0 + a_1 |u| + a_2 |u|^2 [+ a_3 |u|^3]). Hence

    |computed - real| <= u K(|u|) amplitude(|u|) + 2 u (|b| + |f^|) + underflow
    K(|u|) = lengths + (d + 5) (8 + 2 gamma (R^2 + |u|^2)),    R = max |s_i|

Of K, the compile-time sums take n + 2; the w_i, whose exponent errs by (d + 3) u gamma |s_i|^2,
take (d + 3) gamma R^2 + 9; powers of 2 gamma s_i up to 9; the products at run time with u up to
3 d + 9 (order 3; a basis V adds 3 sqrt(d) (d + 1)); the exponential (d + 3) gamma |u|^2 + 8; the
sums of orders 4. Together that is less than K.

Underflow. gamma lies within `GAMMA_RANGE`, else there is no form. A center with gamma |s|^2 > 690,
or a row with gamma |u|^2 > 690, has terms below exp(-690) (4 * 690)^(3/2) |A_i|; products of
ordinary ones lose at most 5e-324 each, times (2 gamma |u|)^3 <= (8 * 690 gamma)^(3/2) when they
meet u. Together below LOST_TERMS (1 + sum |A_i|) for n d^3 < 1e20. So gamma R^2 counts up to 750
in K. Norms below 1e-154, whose squares underflow, change terms that are below u a_0 by far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.affine import AFFINE_UNITS
from kernelite.machine.exactly import UNIT
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.ops import NUMPY, Arithmetic, ops
from kernelite.support.errors import InputError, UnsupportedModelError

__all__ = [
    "ABOVE",
    "GAMMA_RANGE",
    "LOG2_E",
    "LOST_TERMS",
    "SAFETY",
    "SINGLE_UNIT",
    "SUMS_OVERFLOW",
    "UNIT",
    "VALUES_OVERFLOW",
    "RoundingTerms",
    "check_range",
    "damped",
    "damping",
    "eigenvalue_error",
    "folded_hidden_square",
    "folded_square",
    "folding",
    "hidden_square",
    "intercept_error",
    "polynomial_error",
    "polynomial_units",
    "round_up",
    "square_error",
    "sum_error",
]

SAFETY = 1.05
ABOVE = 1.0 + 1e-9  # what norms are multiplied with, so that they are not below the real ones
LOG2_E = math.log2(math.e)  # exponents of e times this are those of 2
SINGLE_UNIT = 2.0**-24
LOST_TERMS = 1e-250
VALUES_OVERFLOW = 1e300  # a kernel value below it surely did not
SUMS_OVERFLOW = 1e285  # a bound is at least 2^-53 of the sums, which may have from there on
GAMMA_RANGE = (1e-30, 1e30)  # where powers of gamma, |s| and |u| neither over- nor underflow


def check_range(expansion: KernelExpansion) -> None:
    """Refuse what would under- or overflow inside a form or its certificate, unseen."""
    low, high = GAMMA_RANGE
    if not low <= expansion.gamma <= high:
        raise UnsupportedModelError(
            f"`gamma` must lie between {low:g} and {high:g} for a quadratic form, got "
            f"{expansion.gamma!r}; scale the features before training, or use guarantee='exact'."
        )
    if abs(expansion.coef0) > high:
        raise UnsupportedModelError(
            f"`coef0` must be at most {high:g} for a quadratic form, got {expansion.coef0!r}; use "
            "guarantee='exact'."
        )


def round_up(value: FloatArray) -> FloatArray:
    """A value not below the real result of a few roundings that produced `value`."""
    return value * (1.0 + 16 * UNIT) + 1e-300


def hidden_square(n_features: int, rank: int) -> float:
    """What |u|^2 - |y|^2 may be off by, as a share of |u|^2: y = Q'u with r columns of length 1.

    To first order: y errs by sqrt(r) (d + 1) u |u|, hence |y|^2 by 2 sqrt(r) (d + 1) u |u|^2 and by
    its own sum's r u |u|^2 <= sqrt(r) (d + 1) u |u|^2; |u|^2 errs by (d + 2) u. Together that is
    less than 4 (d + 8) (sqrt(r) + 4) u.

    Parameters
    ----------
    n_features : int
        d.
    rank : int
        r.

    Examples
    --------
    >>> hidden_square(2, 1) == 4 * 10 * 5 * 2.0**-53
    True
    """
    return 4.0 * (n_features + 8) * (math.sqrt(rank) + 4.0) * UNIT


def folded_square(n_features: int) -> float:
    """L u: |u|^2 of a sparse row errs by at most this times its reach (|z| + |p|)^2.

    `cpu.kernels.quadratic_sparse` has the proof.

    Examples
    --------
    >>> folded_square(123) < 1e-13
    True
    """
    return 2.0 * (n_features + 5) * UNIT


def folded_hidden_square(n_features: int, rank: int) -> float:
    """What |u|^2 - |y|^2 of a sparse row may be off by, in units of its reach.

    `cpu.kernels.spectral_sparse` has the proof.
    """
    return 6.0 * (n_features + 8) * (math.sqrt(rank) + 2.0) * UNIT


def square_error(per_square: float) -> float:
    """What 2 gamma |u|^2 may be off by, relatively: |u|^2 errs by (d + 2) u, its product by one.

    Parameters
    ----------
    per_square : float
        (d + 5), as `RoundingTerms` has it.
    """
    return 4.0 * per_square * UNIT


def eigenvalue_error(n_features: int) -> float:
    """What the largest eigenvalue of a Gram matrix of trace 1 may be off by.

    The rounding of the matrix, of its projection and of the eigenvalue, and at run time of y = Q'u
    and of y'(Q'GQ)y.
    """
    return 64.0 * (n_features + 8) ** 2 * UNIT


def sum_error(n_parts: int) -> float:
    """What a sum over parts may be off by, as a share of the sum of their sizes.

    Scores of n parts are added in n - 1 roundings, and so are their sizes and their bounds, which
    are then multiplied: 2 (n + 4) u covers all of them.

    Examples
    --------
    >>> sum_error(2) == 12 * 2.0**-53
    True
    """
    return 2.0 * (n_parts + 4) * UNIT


def intercept_error(intercept: FloatArray) -> FloatArray:
    """What adding the intercept to a sum of kernel values rounds, besides the sum's own share."""
    return 8.0 * SAFETY * UNIT * np.abs(intercept)


def folding(
    expansion: KernelExpansion, weight: FloatArray, reach: float, *, mapped: bool
) -> FloatArray:
    """How far f of a computed row is from the exact model of the row as it came: shape (k,).

    Of an RBF kernel, all that reading a model rounded, and that mapping a row rounds:

    - |grad f| <= sum_i |A_i| max_r 2 gamma r exp(-gamma r^2) = sqrt(2 gamma / e) sum_i |A_i|, and a
      mapped row moves by at most 5u |z|. Rows with |z| > reach + sqrt(800 / gamma) are so far from
      every center that f is b up to an underflow, before and after; so |z| counts up to there only;
    - centers move likewise, by a relative error of at most reach; so do rows behind a projection or
      polynomial, by `rows` and by a relative error of |z|;
    - gamma, or all squared distances, off by a relative e change a kernel value by at most
      e max_t t exp(-t) = e / exp(1);
    - no kernel value moves by more than 1;
    - errors of A_i count once each, since no kernel value is above 1; so does that of b.

    Of a polynomial it is the error of b alone: see `polynomial_units` and `polynomial_error`.

    Parameters
    ----------
    expansion : KernelExpansion
    weight : ndarray of shape (k,)
        sum_i |A_i|.
    reach : float
        max_i |x_i|, or more.
    mapped : bool
        Whether rows come through an affine map.

    Examples
    --------
    >>> from kernelite.machine.expansion import KernelExpansion
    >>> bump = KernelExpansion([[10.0]], [1.0], [0.0], gamma=0.5)
    >>> float(folding(bump, np.ones(1), 10.0, mapped=False)[0])
    0.0
    >>> bool(folding(bump, np.ones(1), 10.0, mapped=True)[0] < 1e-13)
    True
    """
    known = expansion.uncertainty
    absolute = np.zeros(len(weight)) if known is None else np.array(known.intercept)
    if expansion.kernel.quadratic:
        return absolute
    with np.errstate(over="ignore", invalid="ignore"):
        steepness = float(np.sqrt(2.0 * expansion.gamma / math.e))
        moved = 0.0
        if mapped:  # 6: the second order, and what underflows
            moved += 6.0 * UNIT * (steepness * reach + math.sqrt(1600.0 / math.e))
        if known is not None:
            absolute += known.coefficients
            moved += SAFETY * (known.gamma / math.e + steepness * known.centers * reach)
            if known.rows or known.relative:
                moved += SAFETY * steepness * (known.rows + known.relative * reach)
                moved += SAFETY * known.relative * math.sqrt(1600.0 / math.e)
        # Infinity times a relative error of zero: nothing is known of rows so far away.
        return absolute + weight * (moved if moved < 1.0 else 1.0)


def polynomial_units(expansion: KernelExpansion, *, mapped: bool) -> float:
    """Relative roundings, in units of u, of (|coef0| + gamma |x_i| |z|)^2 by folding."""
    known = expansion.uncertainty
    relative = 0.0 if known is None else (known.gamma + known.centers) / UNIT
    return 2.0 * SAFETY * (relative + (AFFINE_UNITS if mapped else 0.0))


def polynomial_error(expansion: KernelExpansion) -> FloatArray:
    """What (|coef0| + gamma max |x_i| |z|)^2 is multiplied with for errors of A_i: shape (k,)."""
    return expansion.known.coefficients


@dataclass(frozen=True, eq=False)
class RoundingTerms:
    """What the run-time rounding bound of one form needs.

    Parameters
    ----------
    moments : ndarray of shape (4, k)
        a_0, a_1, a_2, a_3 (rounded up).
    sums : float
        Lengths of the compile-time and run-time sums.
    per_square : float
        (d + 5): what gamma (R^2 + |u|^2) is multiplied with in K.
    radius_sq : float
        R^2, at most 750 / gamma.
    gamma : float
        0 for a polynomial, which has no exponential.
    magnitude : ndarray of shape (k,)
        |b|.
    underflow : ndarray of shape (k,)
        An absolute term for all that underflowed.
    """

    moments: FloatArray
    sums: float
    per_square: float
    radius_sq: float
    gamma: float
    magnitude: FloatArray
    underflow: FloatArray

    def __post_init__(self) -> None:
        k = len(self.magnitude)
        for name, shape in (("moments", (4, k)), ("magnitude", (k,)), ("underflow", (k,))):
            if getattr(self, name).shape != shape:
                raise InputError(f"`{name}` of rounding terms must have shape {shape}.")
        for name in (field.name for field in fields(self)):
            # An infinite term is sound: it only sends rows to the next tier.
            if not np.all(getattr(self, name) >= 0):
                raise InputError(f"`{name}` of rounding terms must not be negative or NaN.")

    @property
    def at_center(self) -> float:
        """K(0)."""
        return self.sums + self.per_square * (8.0 + 2.0 * self.gamma * self.radius_sq)

    def bound(
        self,
        sq_norms: FloatArray,
        scores: FloatArray,
        order: int = 2,
        arithmetic: Arithmetic = NUMPY,
    ) -> FloatArray:
        """The rounding error of computed scores, shape (m, k).

        Parameters
        ----------
        sq_norms : ndarray of shape (m,)
            |u|^2 as computed.
        scores : ndarray of shape (m, k)
            The computed scores.
        order : {2, 3}
            The degree of the form that was evaluated.
        arithmetic : Arithmetic
            Of the target that computed them.
        """
        xp, squares = ops(scores), sq_norms[:, None]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            norms = xp.sqrt(squares)
            amplitude = norms * self.moments[order] + self.moments[order - 1]
            for power in range(order - 2, -1, -1):
                amplitude = amplitude * norms + self.moments[power]
            grown = amplitude * self.at_center
            if self.gamma:
                growth = squares * (2.0 * self.per_square * self.gamma) + self.at_center
                grown = growth * amplitude * damping(sq_norms, self.gamma)
                # Beside so small an exponential, the product is in the underflow term.
                grown = xp.where(squares * self.gamma > 700.0, 0.0, grown)
            total = grown + (xp.abs(scores) + self.magnitude) * 4.0
        bound = total * (arithmetic.worse * SAFETY * UNIT) + self.underflow * arithmetic.worse
        # A polynomial that overflowed: nothing is known.
        return xp.where(xp.isnan(bound), np.inf, bound)


def damping(sq_norms: FloatArray, gamma: float) -> FloatArray:
    """exp(-gamma |u|^2), shape (m, 1)."""
    with np.errstate(over="ignore", under="ignore"):
        return ops(sq_norms).exp(sq_norms[:, None] * -gamma)


def damped(values: FloatArray, factor: FloatArray) -> FloatArray:
    """The product; zero where the factor is, even if the values overflowed."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return ops(factor).where(factor > 0.0, values * factor, 0.0)
