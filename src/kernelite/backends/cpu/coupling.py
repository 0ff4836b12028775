"""Coupled probabilities in one compiled loop; `machine.heads.coupling` has the definition."""

from __future__ import annotations

import numpy as np

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads.coupling import couple, most_rounds, rounding

__all__ = ["couple_rows"]

LEAST_COUPLED_ROWS = 256  # that are worth a thread


def couple_rows(
    first: FloatArray, n_classes: int, moved: FloatArray | None = None
) -> tuple[FloatArray, FloatArray | None]:
    """As `couple`.

    Examples
    --------
    >>> couple_rows(np.array([[0.9, 0.8, 0.5]]), 3)[0].round(2)
    array([[0.74, 0.1 , 0.16]])
    """
    from kernelite.backends.cpu.kernels.coupling import coupled

    if n_classes == 1 or not jit_available():
        return couple(first, n_classes, moved)
    m, k = len(first), first.shape[1]
    out = np.empty((m, n_classes))
    errors = np.empty((0 if moved is None else m, n_classes))
    given = np.empty((0, k)) if moved is None else np.ascontiguousarray(moved)
    share_rows(
        *(coupled, m, LEAST_COUPLED_ROWS, np.ascontiguousarray(first), given),
        *(most_rounds(n_classes), rounding(n_classes), out, errors),
    )
    return out, None if moved is None else errors
