"""Probabilities of pairs, and coupled ones, in compiled loops.

`machine.heads.coupling` has the definitions.
"""

from __future__ import annotations

import numpy as np

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads.coupling import couple, most_rounds, pair_probabilities, rounding

__all__ = ["chances_of_pairs", "couple_rows"]

LEAST_COUPLED_ROWS = 256  # that are worth a thread
PAIRS_PER_THREAD = 1 << 14  # some twenty microseconds


def chances_of_pairs(scores: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """As `pair_probabilities`.

    Examples
    --------
    >>> chances_of_pairs(np.array([[0.0, 1.0]]), np.array([-1.0, 2.0]), np.zeros(2)).round(2)
    array([[0.5 , 0.12]])
    """
    from kernelite.backends.cpu.kernels.coupling import pair_chances

    if not (jit_available() and isinstance(scores, np.ndarray)):
        return pair_probabilities(scores, a, b)
    first, least = np.empty(scores.shape), max(1, PAIRS_PER_THREAD // len(a))
    share_rows(pair_chances, len(scores), least, np.ascontiguousarray(scores), a, b, first)
    return first


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
