"""R_3 and R_4 of a block of pairs of centers, in one pass: what certificates are summed from.

In: t = 2 gamma s_i.s_j of a block, gamma |s|^2 of both sides. Out: both remainders, as accurate as
`series.remainder` counts. Twin: `series.remainder.remainders`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernelite.cpu.kernels.compiling import array_type, kernel, ready
from kernelite.cpu.kernels.exp import exp_nonpositive
from kernelite.rows.inputs import FloatArray
from kernelite.series import remainder
from kernelite.series.remainder import SERIES_BELOW

__all__ = ["remainders"]

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


@kernel(
    array_type(1),
    array_type(1),
    array_type(1),
    array_type(1),
    array_type(2, writable=True),
    array_type(2, writable=True),
)
def _remainder_kernel(
    left: FloatArray,
    right: FloatArray,
    damping_left: FloatArray,
    damping_right: FloatArray,
    values: FloatArray,
    fourth: FloatArray,
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
