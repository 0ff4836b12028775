"""Functions of products x.z in place, on a tile that is still in cache, as vectors.

Twins: `function` of the kernels in `machine.kernels.products`. Functions of distances are in
`radial`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernelite.cpu.kernels.compiling import OutVector, array_type, kernel
from kernelite.cpu.kernels.exp import exp_nonpositive, exp_nonpositive_single
from kernelite.rows.inputs import FloatArray

__all__ = ["affine", "sigmoid", "sigmoid_of_single"]

_ZERO, _ONE, _MINUS_TWO = np.float32(0.0), np.float32(1.0), np.float32(-2.0)


@kernel()
def affine(values: OutVector, gamma: float, coef0: float) -> Any:
    """gamma v + coef0."""
    for j in range(len(values)):
        values[j] = gamma * values[j] + coef0


@kernel(array_type(1, "float32"), "float32", "float32", array_type(1, writable=True))
def sigmoid_of_single(products: Any, gamma: Any, coef0: Any, values: FloatArray) -> Any:
    """As `sigmoid`, in single precision; values are doubles, for what is made of them."""
    for j in range(len(values)):
        v = gamma * products[j] + coef0
        e = exp_nonpositive_single(_MINUS_TWO * abs(v))
        t = (_ONE - e) / (_ONE + e)
        values[j] = t if v > _ZERO else -t


@kernel()
def sigmoid(values: OutVector, gamma: float, coef0: float) -> Any:
    """tanh(gamma v + coef0) as (1 - e) / (1 + e), e = exp(-2 |argument|)."""
    for j in range(len(values)):
        v = gamma * values[j] + coef0
        e = exp_nonpositive(-2.0 * math.fabs(v))
        t = (1.0 - e) / (1.0 + e)
        values[j] = t if v > 0.0 else -t
