"""The logarithm of a sum of positive bumps, where the sum itself would underflow.

    log sum_i A_i exp(-gamma |x_i - z|^2) = m + log sum_i exp(e_i - m),    e_i = log A_i - gamma D_i

with m the largest e_i: at least one term is 1, however far z is.
"""

from __future__ import annotations

import numpy as np

from kernelite.machine.expansion import KernelExpansion, squared_distances
from kernelite.rows.inputs import FloatArray, Rows, row_blocks

__all__ = ["log_sums"]

TILE_ELEMENTS = 1 << 20


def log_sums(expansion: KernelExpansion, rows: Rows) -> FloatArray:
    """Of an expansion with one output and no negative coefficient: shape (m,).

    Examples
    --------
    >>> bump = KernelExpansion([[0.0]], [1.0], [0.0], gamma=1.0)
    >>> log_sums(bump, np.array([[100.0]]))
    array([-10000.])
    """
    out = np.empty(rows.shape[0])
    with np.errstate(divide="ignore"):
        logarithms = np.log(expansion.coefficients[:, 0])
    for block in row_blocks(rows.shape[0], max(16, TILE_ELEMENTS // max(expansion.n_centers, 1))):
        e = squared_distances(expansion, rows[block])
        e *= -expansion.gamma
        e += logarithms
        m = e.max(axis=1)
        e -= np.where(np.isfinite(m), m, 0.0)[:, None]
        with np.errstate(under="ignore", divide="ignore"):
            out[block] = np.log(np.exp(e, out=e).sum(axis=1)) + np.where(np.isfinite(m), m, 0.0)
    return out
