"""Sparse rows, and rows behind an affine map, made dense where an engine asks for them.

The map is applied just as a form reads the rows: a mapped block would travel to memory and back, so
a folded scaler costs little. The arithmetic is that of `AffineMap`, or rounds once less.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.data.rows.inputs import FloatArray, Rows, is_sparse
from kernelite.machine.affine import AffineMap
from kernelite.support.records import dataclass

__all__ = ["MappedRows", "as_dense"]


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


def as_dense(rows: Rows | MappedRows) -> FloatArray:
    """Rows as a dense array, on all threads where kernels can be had."""
    if isinstance(rows, MappedRows):
        return rows[:]
    if not is_sparse(rows):
        return rows
    if not jit_available():
        return np.asarray(rows.toarray())
    from kernelite.backends.cpu.kernels.densify import dense_rows

    return dense_rows(rows)
