"""Coupled probabilities in one compiled loop; the heads have the definition in NumPy."""

from __future__ import annotations

import numpy as np

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads.pairwise import couple_pairs

__all__ = ["couple_rows"]

LEAST_ROWS = 256  # that are worth a thread


def couple_rows(first: FloatArray, n_classes: int) -> FloatArray:
    """Class probabilities (m, K) from those of the first class of each pair.

    Examples
    --------
    >>> couple_rows(np.array([[0.9, 0.8, 0.5]]), 3).round(2)
    array([[0.74, 0.1 , 0.16]])
    """
    from kernelite.backends.cpu.kernels.coupling import coupled

    if not jit_available():
        return couple_pairs(first, n_classes)
    out = np.empty((len(first), n_classes))
    share_rows(coupled, len(first), LEAST_ROWS, np.ascontiguousarray(first), out)
    return out
