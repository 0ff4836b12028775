"""Rows behind an affine map that is applied just as a form reads them.

A mapped block would travel to memory and back; so a folded scaler costs little. The arithmetic is
that of `AffineMap`, or rounds once less.
"""

from __future__ import annotations

from typing import Any

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.affine import AffineMap
from kernelite.support.records import dataclass

__all__ = ["MappedRows"]


@dataclass(frozen=True, eq=False)
class MappedRows:
    """What `input_map` makes of dense rows of shape (m, d), when it is asked for.

    Examples
    --------
    >>> import numpy as np
    >>> rows = MappedRows(np.array([[3.0, 5.0], [1.0, 2.0]]), AffineMap([2.0, 1.0], [1.0, 0.0]))
    >>> rows[[1]]
    array([[0., 2.]])
    """

    rows: FloatArray
    input_map: AffineMap

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d)."""
        return len(self.rows), self.rows.shape[1]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> FloatArray:
        """Some rows, mapped."""
        return self._mapped(self.rows[index])

    def _mapped(self, rows: FloatArray) -> FloatArray:
        if not jit_available():
            return self.input_map(rows)
        from kernelite.backends.cpu.kernels.densify import map_rows

        return map_rows(self.input_map, rows)
