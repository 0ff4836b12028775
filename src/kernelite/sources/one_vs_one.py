"""LIBSVM's coefficients of one-vs-one classifiers, unfolded into a column a pair.

LIBSVM stores K - 1 coefficients a support vector, the vectors sorted by class: a vector of class i
takes part only in the pairs (i, j), and column j (less one if j > i) is its coefficient there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelite.errors import UnsupportedModelError
from kernelite.machine.heads.votes import pairs
from kernelite.rows.inputs import FloatArray

__all__ = ["MAX_COEFFICIENT_BYTES", "pairwise_coefficients"]

MAX_COEFFICIENT_BYTES = 2 * 2**30
"""Most memory that the unfolded coefficients may take: n K (K - 1) / 2 numbers, where the model
holds n (K - 1), so that a small file with very many classes could ask for all there is."""


def pairwise_coefficients(folded: FloatArray, counts: Sequence[int]) -> FloatArray:
    """Coefficients of shape (n, K (K - 1) / 2) from LIBSVM's (n, K - 1).

    Parameters
    ----------
    folded : ndarray of shape (n, K - 1)
        A row a support vector, rows sorted by class (the transpose of `dual_coef_`).
    counts : sequence of K ints
        Support vectors of each class; their sum is n.

    Returns
    -------
    ndarray of shape (n, K (K - 1) / 2)
        Columns in the order (0,1), (0,2), ..., zero where a vector takes no part.

    Examples
    --------
    >>> pairwise_coefficients(np.array([[1.0, 2.0], [-1.0, 3.0], [-2.0, -3.0]]), [1, 1, 1])
    array([[ 1.,  2.,  0.],
           [-1.,  0.,  3.],
           [ 0., -2., -3.]])
    """
    K = len(counts)
    n, columns = len(folded), K * (K - 1) // 2
    if 8 * n * columns > MAX_COEFFICIENT_BYTES:
        raise UnsupportedModelError(
            f"{K} classes make {columns} pairs, whose coefficients for {n} support vectors need "
            f"{8 * n * columns / 2**30:,.1f} GB, more than the {MAX_COEFFICIENT_BYTES >> 30} GB "
            "accepted."
        )
    unfolded = np.zeros((n, columns))
    ends = np.cumsum([0, *counts])
    for column, (i, j) in enumerate(pairs(K)):
        of_i, of_j = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
        unfolded[of_i, column] = folded[of_i, j - 1]
        unfolded[of_j, column] = folded[of_j, i]
    return unfolded
