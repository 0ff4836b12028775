"""The certificate's rounding terms, made small for targets that pay for every operation.

    rounding(|u|, f^)  <=  absolute + linear |u| + square |u|^2 + relative |f^|

With the RBF kernel, E = exp(-gamma |u|^2) stands before every power of |u|, and |u|^j E is at most
(j / (2 gamma e))^(j/2): the powers become constants. Rounding is far below the remainder's term, so
what is lost by that is not seen. All terms carry the factor `FOREIGN`, for compilers and runtimes
that kernelite does not control.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kernelite.rows.inputs import FloatArray
from kernelite.series.certificate import Certificate
from kernelite.series.rounding import ABOVE, SAFETY, UNIT, square_error

__all__ = ["FOREIGN", "RoundingConstants", "largest_power", "rounding_constants", "twice_gamma"]

FOREIGN = 4.0


@dataclass(frozen=True, eq=False)
class RoundingConstants:
    """The four coefficients above; arrays of shape (k,)."""

    absolute: FloatArray
    linear: FloatArray
    square: FloatArray
    relative: float

    @property
    def constant(self) -> bool:
        """Whether the powers of |u| drop out."""
        return not (self.linear.any() or self.square.any())

    def bound(self, norms: FloatArray, scores: FloatArray) -> FloatArray:
        """The twin in NumPy, shape (m, k)."""
        column = norms[:, None]
        powers = self.absolute + column * (self.linear + column * self.square)
        return powers + self.relative * np.abs(scores)


def largest_power(power: int, gamma: float) -> float:
    """The largest value of t^power exp(-gamma t^2), not below it.

    Examples
    --------
    >>> round(largest_power(2, 0.5), 6)  # at t = sqrt(2)
    0.735759
    """
    if power == 0:
        return 1.0
    return (power / (2.0 * gamma * math.e)) ** (0.5 * power) * ABOVE


def twice_gamma(certificate: Certificate) -> float:
    """2 gamma, enough too large to cover the error of |u|^2 that it is multiplied with.

    Examples
    --------
    >>> from kernelite.series.certificate import certify
    >>> from kernelite.machine.expansion import KernelExpansion
    >>> twice_gamma(certify(KernelExpansion([[1.0]], [1.0], 0.0, gamma=0.5), np.zeros(1)))
    1.000000000001
    """
    terms = certificate.rounding
    return 2.0 * terms.gamma * (1.0 + max(1e-12, FOREIGN * square_error(terms.per_square)))


def rounding_constants(certificate: Certificate, degree: int = 2) -> RoundingConstants:
    """Coefficients of the rounding bound of the form of `degree` 2 or 3.

    Parameters
    ----------
    certificate : Certificate
    degree : {2, 3}

    Examples
    --------
    >>> from kernelite.series.certificate import certify
    >>> from kernelite.machine.expansion import KernelExpansion
    >>> one = KernelExpansion([[1.0]], [1.0], 0.0, gamma=0.5)
    >>> rounding_constants(certify(one, np.zeros(1))).constant
    True
    """
    terms = certificate.rounding
    unit = FOREIGN * SAFETY * UNIT
    gamma, moments = terms.gamma, terms.moments[: degree + 1]
    growth = 2.0 * terms.per_square * gamma
    absolute = 4.0 * unit * terms.magnitude + FOREIGN * terms.underflow
    none = np.zeros_like(absolute)
    with np.errstate(over="ignore"):
        if gamma == 0.0:  # a polynomial kernel: nothing decays
            powers = unit * terms.at_center * moments
            return RoundingConstants(absolute + powers[0], powers[1], powers[2], 4.0 * unit)
        for power, moment in enumerate(moments):
            size = terms.at_center * largest_power(power, gamma)
            size += growth * largest_power(power + 2, gamma)
            absolute = absolute + unit * size * moment
    return RoundingConstants(absolute, none, none, 4.0 * unit)
