"""The certificate of each row of a tile, and the remainders that certificates are summed from.

The first costs little more than what the form computed anyway:

    bound = rho sqrt(P(3, 2 gamma |u|^2)) + rounding      (see `series`)

with exp(-2 gamma |u|^2) = E^2, so a certificate costs two square roots and no exponential. What
comes out is 1e-7 above the formula, relatively: that covers the rounding of these lines, the
remainder of the short series below, and the (d + 4) u by which |u|^2 may be off (d < 10^7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelite.cpu.kernels.compiling import OutMatrix, Vector, helper, kernel, ready
from kernelite.cpu.kernels.exp import exp_nonpositive
from kernelite.rows.inputs import FloatArray
from kernelite.series import remainder
from kernelite.series.certificate import Certificate
from kernelite.series.remainder import SERIES_BELOW
from kernelite.series.rounding import SAFETY, UNIT

__all__ = [
    "NO_CERTIFICATE",
    "JitCertificate",
    "bound_output_tile",
    "bound_tile",
    "prepare_certificate",
    "prepare_shared_certificate",
    "remainders",
    "second_roots_tile",
    "third_roots_tile",
]

_MARGIN = 1.0 + 1e-7
# P(3, t) e^t / t^3 = sum_j t^j / (j + 3)!; for t < 1 the terms from the tenth on are below 1e-8
# of the sum.
_S0, _S1, _S2, _S3, _S4 = 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040
_S5, _S6, _S7, _S8, _S9 = 1 / 40320, 1 / 362880, 1 / 3628800, 1 / 39916800, 1 / 479001600
_S10 = 1 / 6227020800


@dataclass(frozen=True, eq=False)
class JitCertificate:
    """What the bounds of one form need.

    Parameters
    ----------
    numbers : ndarray of shape (k, 8)
        An output's rho, a_0, a_1, a_2, K at |u| = 0, its growth with gamma |u|^2, and the
        factor of |f^| and the absolute term, the last six times the unit of rounding.
    """

    numbers: FloatArray


NO_CERTIFICATE = JitCertificate(np.empty((0, 8)))


def prepare_certificate(certificate: Certificate) -> JitCertificate:
    """Pack what bounds the second-order form.

    Examples
    --------
    >>> from kernelite.series.certificate import certify
    >>> from kernelite.machine.expansion import KernelExpansion
    >>> one = KernelExpansion([[1.0]], [1.0], 0.0, gamma=0.5)
    >>> prepare_certificate(certify(one, np.zeros(1))).numbers.shape
    (1, 8)
    """
    return JitCertificate(_numbers(certificate, 2))


def prepare_shared_certificate(certificate: Certificate, degree: int) -> JitCertificate:
    """Pack what `bound_output_tile` takes for the form of that degree: a_3 after a_2, or 0."""
    numbers = _numbers(certificate, degree)
    if degree == 2:
        numbers = np.insert(numbers, 4, 0.0, axis=1)
    return JitCertificate(np.ascontiguousarray(numbers))


def _numbers(certificate: Certificate, degree: int) -> FloatArray:
    rho, rounding = certificate.rho[degree - 2], certificate.rounding
    unit = SAFETY * UNIT
    ones = np.ones(len(rho))
    columns = np.column_stack(
        [
            rho,
            unit * rounding.moments[: degree + 1].T,
            rounding.at_center * ones,
            2.0 * rounding.per_square * ones,
            4.0 * unit * ones,
            4.0 * unit * rounding.magnitude + rounding.underflow,
        ]
    )
    return np.ascontiguousarray(columns)


@helper
def _second_series(t: float) -> float:
    """sum_j t^j / (j + 3)!, for t < 1: e^t without its first three terms is t^3 times that."""
    series = _S7 + t * (_S8 + t * _S9)
    series = _S4 + t * (_S5 + t * (_S6 + t * series))
    return _S0 + t * (_S1 + t * (_S2 + t * (_S3 + t * series)))


@helper
def bound_tile(
    sq_norms: FloatArray,
    reach: FloatArray,
    exponentials: FloatArray,
    scores: FloatArray,
    gamma: float,
    slack: float,
    numbers: FloatArray,
    width: int,
    bounds: FloatArray,
) -> None:
    """bounds[r] of the rows r < width of a tile; `numbers` are one output's.

    `reach` is |u|^2, or what stands for it where the shift is folded (see
    quadratic_sparse.py); there |u|^2 may be off by `slack` times it.
    """
    rho, a0, a1, a2 = numbers[0], numbers[1], numbers[2], numbers[3]
    at_zero, growth, relative, absolute = numbers[4], numbers[5], numbers[6], numbers[7]
    for r in range(width):
        square, E = reach[r], exponentials[r]
        exponent = gamma * square
        off = 2.0 * slack * exponent
        t = 2.0 * gamma * sq_norms[r] + off
        E2 = E * E
        series = _second_series(t)
        # sqrt(P) = t sqrt(t series E^2): t^3 would underflow for t < 1e-108.
        near = t < 1.0
        root = np.sqrt(
            t * series * E2 if near else 1.0 - E2 * (1.0 - off) * (1.0 + t * (1.0 + 0.5 * t))
        )
        remainder = rho * (t * root if near else root)
        amplitude = E * (a0 + a1 * np.sqrt(square) + a2 * square)
        grown = (at_zero + growth * exponent) * amplitude
        # E = 0: the products are 0 or in the absolute term, whatever overflowed beside it.
        far = E == 0.0
        remainder = rho if far else remainder
        grown = 0.0 if far else grown
        bounds[r] = _MARGIN * (remainder + grown + relative * abs(scores[r]) + absolute)


@helper
def second_roots_tile(
    sq_norms: FloatArray, exponentials: FloatArray, gamma: float, width: int, roots: FloatArray
) -> None:
    """roots[r] = sqrt(P(3, 2 gamma |u|^2)), which rho of each output is multiplied with."""
    for r in range(width):
        E = exponentials[r]
        t, E2 = 2.0 * gamma * sq_norms[r], E * E
        series = _second_series(t)
        near = t < 1.0
        root = np.sqrt(t * series * E2 if near else 1.0 - E2 * (1.0 + t * (1.0 + 0.5 * t)))
        roots[r] = 1.0 if E == 0.0 else (t * root if near else root)


@helper
def third_roots_tile(
    sq_norms: FloatArray, exponentials: FloatArray, gamma: float, width: int, roots: FloatArray
) -> None:
    """roots[r] = sqrt(P(4, 2 gamma |u|^2)), which rho_4 of each output is multiplied with."""
    for r in range(width):
        E = exponentials[r]
        t, E2 = 2.0 * gamma * sq_norms[r], E * E
        series = _S7 + t * (_S8 + t * (_S9 + t * _S10))
        series = _S4 + t * (_S5 + t * (_S6 + t * series))
        series = _S1 + t * (_S2 + t * (_S3 + t * series))
        near = t < 1.0
        head = 1.0 + t * (1.0 + t * (0.5 + t * _S0))
        root = np.sqrt(series * E2 if near else 1.0 - E2 * head)
        roots[r] = 1.0 if E == 0.0 else (t * t * root if near else root)


@helper
def bound_output_tile(
    sq_norms: FloatArray,
    norms: FloatArray,
    exponentials: FloatArray,
    roots: FloatArray,
    scores: FloatArray,
    gamma: float,
    numbers: FloatArray,
    width: int,
    bounds: FloatArray,
) -> None:
    """As `bound_tile`, where several outputs share the roots; `numbers` have a_3 after a_2."""
    rho, a0, a1, a2, a3 = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    at_zero, growth, relative, absolute = numbers[5], numbers[6], numbers[7], numbers[8]
    for r in range(width):
        square, norm, E = sq_norms[r], norms[r], exponentials[r]
        amplitude = E * (a0 + a1 * norm + square * (a2 + a3 * norm))
        grown = (at_zero + growth * (gamma * square)) * amplitude
        grown = 0.0 if E == 0.0 else grown
        bounds[r] = _MARGIN * (rho * roots[r] + grown + relative * abs(scores[r]) + absolute)


# R_3 and R_4 of a block of pairs of centers, in one pass: what certificates are summed from.
#
# In: t = 2 gamma s_i.s_j of a block, gamma |s|^2 of both sides. Out: both remainders, as accurate
# as `series.remainder` counts. Twin: `series.remainder.remainders`.

_C = tuple(24.0 / math.factorial(j + 4) for j in range(24))
"""sum_{j>=4} t^j / j! = t^4 / 24 sum_j c_j t^j; the first term left out is below 1e-18 of it."""
(_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11) = _C[:12]
(_C12, _C13, _C14, _C15, _C16, _C17, _C18, _C19, _C20, _C21, _C22, _C23) = _C[12:]


def remainders(t: FloatArray, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    """R_3 and R_4, each of shape (a, b).

    Parameters
    ----------
    t : ndarray of shape (a, b)
        Overwritten.
    left, right : ndarray of shape (a,) and (b,)

    Examples
    --------
    >>> third, fourth = remainders(np.array([[1.0]]), np.array([0.5]), np.array([0.5]))
    >>> bool(np.isclose(third - fourth, np.exp(-1.0) / 6.0))
    True
    """
    if not ready(_remainder_kernel):
        return remainder.remainders(t, left, right)
    fourth = np.empty(t.shape)
    damping = np.exp(-left), np.exp(-right)
    _remainder_kernel(np.ascontiguousarray(left), np.ascontiguousarray(right), *damping, t, fourth)
    return t, fourth


@kernel()
def _remainder_kernel(
    left: Vector,
    right: Vector,
    damping_left: Vector,
    damping_right: Vector,
    values: OutMatrix,
    fourth: OutMatrix,
) -> Any:
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            t = values[i, j]
            damping = damping_left[i] * damping_right[j]
            square = t * t
            cube = square * t * (1.0 / 6.0)
            s = _C22 + t * _C23
            s = _C21 + t * s
            s = _C20 + t * s
            s = _C19 + t * s
            s = _C18 + t * s
            s = _C17 + t * s
            s = _C16 + t * s
            s = _C15 + t * s
            s = _C14 + t * s
            s = _C13 + t * s
            s = _C12 + t * s
            s = _C11 + t * s
            s = _C10 + t * s
            s = _C9 + t * s
            s = _C8 + t * s
            s = _C7 + t * s
            s = _C6 + t * s
            s = _C5 + t * s
            s = _C4 + t * s
            s = _C3 + t * s
            s = _C2 + t * s
            s = _C1 + t * s
            s = _C0 + t * s
            series = s * square * square * (1.0 / 24.0) * damping
            closed = exp_nonpositive(t - left[i] - right[j])
            closed -= damping * (1.0 + t * (1.0 + 0.5 * t) + cube)
            near = -SERIES_BELOW <= t <= SERIES_BELOW
            rest = series if near else closed
            fourth[i, j] = rest
            values[i, j] = cube * damping + rest
