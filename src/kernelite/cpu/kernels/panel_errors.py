"""Scores and bounds from sums over blocks of panels.

In: sums of |a| K per block and norms per row. Out: f and how far it may be off.
"""

from __future__ import annotations

import math
from typing import Any

from kernelite.cpu.kernels.compiling import array_type, helper, kernel

__all__ = ["bounded_sums", "growth"]


@helper
def growth(error: float) -> float:
    """2^error - 1, rounded up; infinite where the exponent may be off by more than 20."""
    if error <= 0.01:
        return 0.7 * error  # 2^0.01 - 1 < 0.00696
    if error <= 20.0:
        return 1.001 * (2.0**error - 1.0)
    return math.inf  # NaN too


@kernel(
    *(array_type(2), array_type(2), array_type(1), array_type(2), array_type(1)),
    *(array_type(2, writable=True), array_type(2, writable=True)),
)
def bounded_sums(
    sums: Any, norms: Any, signs: Any, terms: Any, constants: Any, scores: Any, bounds: Any
) -> None:
    """scores = sum of signed blocks + b; bounds as `fused_sums` derives them."""
    relative, cut_off, intercept, fixed, most, safety = constants
    for i in range(len(sums)):
        square, chain = norms[i, 0], norms[i, 1]
        norm = math.sqrt(square)
        score, size, error = 0.0, 0.0, 0.0
        for b in range(sums.shape[1]):
            found = sums[i, b]
            e = terms[b, 0] * chain + terms[b, 1] + terms[b, 2] * norm + terms[b, 3] * square
            score += signs[b] * found
            size += found
            error += (found + cut_off) * (growth(e) + relative)
        bound = safety * (error + cut_off) + 1e-15 * (size + abs(intercept)) + fixed
        if square <= most and bound < math.inf:
            scores[i, 0], bounds[i, 0] = score + intercept, bound
        else:
            scores[i, 0], bounds[i, 0] = intercept, math.inf
