"""The certificate of each row of a tile, and the remainders that certificates are summed from.

The first costs little more than what the form computed anyway:

    bound = rho sqrt(P(3, 2 gamma |u|^2)) + rounding      (see `series`)

with exp(-2 gamma |u|^2) = E^2, so a certificate costs two square roots and no exponential. What
comes out is 1e-7 above the formula, relatively: that covers the rounding of these lines, the
remainder of the short series below, and the (d + 4) u by which |u|^2 may be off (d < 10^7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.compiling import (
    OutMatrix,
    OutVector,
    Vector,
    helper,
    jit_available,
    kernel,
)
from kernelite.backends.cpu.kernels.exp import exp_nonpositive
from kernelite.data.rows.inputs import FloatArray
from kernelite.series import remainder
from kernelite.series.approximation import Certificate
from kernelite.series.remainder import SERIES_BELOW, needs_closed_form, series_coefficients
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
    >>> from kernelite.series.approximation import certify
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


# R_m and R_{m+1} of a block of pairs of centers, in one pass: what certificates are summed from.
#
# In: t = 2 gamma s_i.s_j of a block, gamma |s|^2 of both sides. Out: both remainders, as accurate
# as `series.remainder` counts. Twin: `series.remainder.remainders`.


def remainders(
    t: FloatArray, left: FloatArray, right: FloatArray, *, order: int = 3, size: float
) -> tuple[FloatArray, FloatArray]:
    """R_m and R_{m+1}, each of shape (a, b).

    Parameters
    ----------
    t : ndarray of shape (a, b)
        Overwritten.
    left, right : ndarray of shape (a,) and (b,)
    order : int
        m.
    size : float
        No |t| is above it.

    Examples
    --------
    >>> third, fourth = remainders(np.ones((1, 1)), np.array([0.5]), np.array([0.5]), size=1.0)
    >>> bool(np.isclose(third - fourth, np.exp(-1.0) / 6.0))
    True
    """
    if not jit_available():
        return remainder.remainders(t, left, right, order=order, size=size)
    fourth = np.empty(t.shape)
    damping = np.exp(-left), np.exp(-right)
    closed = needs_closed_form(order, size)
    coefficients = series_coefficients(order + 1, SERIES_BELOW if closed else size)
    # Horner's rule takes four at a time; zeros before the first change nothing.
    coefficients = np.concatenate([coefficients, np.zeros(-len(coefficients) % 4)])
    scratch = np.empty(t.shape[1])
    given = np.ascontiguousarray(left), np.ascontiguousarray(right), *damping
    remainder_kernel(*given, coefficients, order, closed, scratch, t, fourth)
    return t, fourth


@kernel()
def remainder_kernel(
    left: Vector,
    right: Vector,
    damping_left: Vector,
    damping_right: Vector,
    coefficients: Vector,
    order: int,
    closed: bool,
    series: OutVector,
    values: OutMatrix,
    higher: OutMatrix,
) -> Any:
    """R_m of t = `values` takes its place, R_{m+1} goes to `higher`."""
    factor, count = 1.0, values.shape[1]
    for j in range(2, order + 1):
        factor /= j
    for i in range(values.shape[0]):
        t, out, damping = values[i], higher[i], damping_left[i]
        for j in range(count):
            series[j] = 0.0
            out[j] = factor
        for place in range(len(coefficients) - 4, -1, -4):
            c0, c1 = coefficients[place], coefficients[place + 1]
            c2, c3 = coefficients[place + 2], coefficients[place + 3]
            for j in range(count):
                x = t[j]
                series[j] = (((series[j] * x + c3) * x + c2) * x + c1) * x + c0
        for _ in range(order):
            for j in range(count):
                out[j] *= t[j]  # t^m / m!
        above = 1.0 / (order + 1)
        if closed:  # of orders 3 and 4
            for j in range(count):
                x, power, both = t[j], out[j], damping * damping_right[j]
                near = -SERIES_BELOW <= x <= SERIES_BELOW
                exact = exp_nonpositive(x - left[i] - right[j])
                exact -= both * (1.0 + x * (1.0 + 0.5 * x) + power)
                rest = series[j] * power * x * above * both if near else exact
                out[j] = rest
                t[j] = power * both + rest
        else:
            for j in range(count):
                x, power, both = t[j], out[j], damping * damping_right[j]
                rest = series[j] * power * x * above * both
                out[j] = rest
                t[j] = power * both + rest
