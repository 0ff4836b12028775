"""The floating-point model, and the terms that put rounding inside the proof.

The exact model is f in real arithmetic on the stored doubles. With u = 2^-53:

- a sum or dot product of length k, in any order, errs by at most k u (sum of |terms|), to first
  order; `SAFETY` covers the higher orders (k u < 1e-6 for every k here);
- x - p errs by u |x - p| in each entry, so |s|^2 and |u|^2 err by (d + 4) u relatively;
- exp errs by 4 ulp, and by the error of its argument times its value;
- rows may have come through an affine map, which rounds twice an entry: `row_rounding`;
- what underflows is below `TINY` times the sum of |A_i| (see `underflow`).

Majorant. All second-order quantities are bounded by absolute moments of the centers,
a_m = (2 gamma)^m / m! sum_i |w_i| |s_i|^m: |c| <= a_0, |v| <= a_1, ||M||_F <= a_2, and so the form
is bounded by amplitude(|u|) = exp(-gamma |u|^2) (a_0 + a_1 |u| + a_2 |u|^2 [+ a_3 |u|^3]). Compile-
time sums over n centers and run-time sums over d features each add their length to one factor:

    |computed - real| <= u K(|u|) amplitude(|u|) + 2 u (|b| + |f^|) + underflow
    K(|u|) = lengths + (d + 5) (8 + 2 gamma (R^2 + |u|^2)),    R = max |s_i|

where (d + 5) gamma R^2 is the relative error of the w_i, (d + 5) gamma |u|^2 that of the final
exponential, and 8 (d + 5) covers the shifts, v.u and u'Mu (or T(u,u,u)), of at most 3 factors each.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from kernelite.errors import InputError
from kernelite.inputs import FloatArray

__all__ = ["SAFETY", "TINY", "UNIT", "RoundingTerms", "round_up", "row_rounding"]

UNIT = 2.0**-53
SAFETY = 1.05
TINY = 1e-290


def round_up(value: FloatArray) -> FloatArray:
    """A value not below the real result of a few roundings that produced `value`."""
    return value * (1.0 + 16 * UNIT) + 1e-300


def row_rounding(weight: FloatArray, gamma: float, reach: float) -> FloatArray:
    """What rows whose entries are off by a relative 2u can change in f: shape (k,).

    |grad f| <= sum_i |A_i| max_r 2 gamma r exp(-gamma r^2) = sqrt(2 gamma / e) sum_i |A_i|, and the
    row moves by at most 2u |z|. Rows with |z| > reach + sqrt(800 / gamma) are so far from every
    center that f is b up to an underflow, before and after; so |z| counts up to there only.

    Parameters
    ----------
    weight : ndarray of shape (k,)
        sum_i |A_i|.
    gamma : float
    reach : float
        max_i |x_i|, or more.

    Examples
    --------
    >>> bool(row_rounding(np.ones(1), 0.5, 10.0)[0] < 1e-13)
    True
    """
    farthest = min(reach + float(np.sqrt(800.0 / gamma)), 1e300)
    return weight * (3.0 * UNIT * np.sqrt(2.0 * gamma / np.e) * farthest)


@dataclass(frozen=True, eq=False)
class RoundingTerms:
    """What the run-time rounding bound of one form needs.

    Parameters
    ----------
    moments : ndarray of shape (4, k)
        a_0, a_1, a_2, a_3 (rounded up).
    sums : float
        Lengths of the compile-time and run-time sums: n + d-dependent constants.
    per_square : float
        (d + 5): what gamma (R^2 + |u|^2) is multiplied with in K.
    radius_sq : float
        R^2.
    gamma : float
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

    def bound(self, sq_norms: FloatArray, scores: FloatArray, order: int = 2) -> FloatArray:
        """The rounding error of computed scores, shape (m, k).

        Parameters
        ----------
        sq_norms : ndarray of shape (m,)
            |u|^2 as computed.
        scores : ndarray of shape (m, k)
            The computed scores.
        order : {2, 3}
            The degree of the form that was evaluated.
        """
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            squares = self.gamma * sq_norms
            norms = np.sqrt(sq_norms)
            powers = np.stack([norms**m for m in range(order + 1)], axis=1)
            amplitude = powers @ self.moments[: order + 1]
            amplitude *= np.exp(-squares)[:, None]
            factor = self.sums + self.per_square * (
                8.0 + 2.0 * (self.gamma * self.radius_sq + squares)
            )
            grown = factor[:, None] * amplitude
        # exp(-gamma |u|^2) = 0: whatever stood beside it, the product is in the underflow term.
        grown[squares > 740.0] = 0.0
        return SAFETY * UNIT * (grown + 4.0 * (self.magnitude + np.abs(scores))) + self.underflow
