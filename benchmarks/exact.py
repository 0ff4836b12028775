"""The exact model in plain NumPy: a matrix product, an exponential, a weighted sum.

Written apart from kernelite's engines, it is the reference that every answer is compared with.
"""

from __future__ import annotations

import numpy as np

from kernelite.machine.expansion import KernelExpansion

__all__ = ["exact_scores"]

TILE = 1 << 21  # kernel values held at once: 16 MB


def exact_scores(expansion: KernelExpansion, rows: np.ndarray) -> np.ndarray:
    """f(z) = sum_i A_i k(x_i, z) + b for dense rows: shape (m, k).

    Examples
    --------
    >>> bump = KernelExpansion([[0.0, 0.0]], [2.0], 0.5, gamma=1.0)
    >>> exact_scores(bump, np.zeros((1, 2)))
    array([[2.5]])
    """
    centers = expansion.dense_centers()
    norms = np.einsum("ij,ij->i", centers, centers)
    step = max(1, TILE // max(len(centers), 1))
    out = np.empty((len(rows), expansion.n_outputs))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        values = part @ centers.T
        if expansion.kernel.quadratic:
            values = np.square(expansion.gamma * values + expansion.coef0)
        else:
            values *= 2.0
            values -= norms
            values -= np.einsum("ij,ij->i", part, part)[:, None]
            values *= expansion.gamma
            np.exp(values, out=values)
        out[start : start + step] = values @ expansion.coefficients + expansion.intercept
    return out
