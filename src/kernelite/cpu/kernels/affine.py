"""An affine map of the rows in one pass: as `AffineMap` computes it.

In: a map and dense rows of shape (m, d). Out: mapped rows. Twin: `AffineMap.__call__`.
"""

from __future__ import annotations

import numpy as np

from kernelite.cpu.kernels.compiling import array_type, kernel, ready
from kernelite.machine.affine import AffineMap
from kernelite.rows.inputs import FloatArray

__all__ = ["map_rows"]


def map_rows(input_map: AffineMap, rows: FloatArray) -> FloatArray:
    """Mapped rows.

    Examples
    --------
    >>> map_rows(AffineMap([2.0, 1.0], [1.0, 0.0]), np.array([[3.0, 5.0]]))
    array([[4., 5.]])
    """
    if not ready(_map_kernel):
        return np.asarray(input_map(rows))
    out = np.empty(rows.shape)
    low = _NOTHING if input_map.low is None else input_map.low
    _map_kernel(np.ascontiguousarray(rows), input_map.shift, low, input_map.scale, out)
    return out


_NOTHING = np.empty(0)


@kernel(array_type(2), array_type(1), array_type(1), array_type(1), array_type(2, writable=True))
def _map_kernel(
    rows: FloatArray, shift: FloatArray, low: FloatArray, scale: FloatArray, out: FloatArray
) -> None:
    m, d = rows.shape
    for i in range(m):
        if len(low) > 0:
            for j in range(d):
                out[i, j] = ((rows[i, j] - shift[j]) - low[j]) * scale[j]
        else:
            for j in range(d):
                out[i, j] = (rows[i, j] - shift[j]) * scale[j]
