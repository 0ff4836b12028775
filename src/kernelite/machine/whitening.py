"""A linear map of rows that is undone by another: z' = M (z - t), M near to the inverse of L.

Computed z' is off by at most u (d + 3) |M| |z - t| in each entry, and M, found by solving with a
triangular L, by u d |M| |L| |M|. Since z - t = L z', both are a share of |z'|: see `error`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernelite.errors import InputError
from kernelite.machine.exactly import UNIT
from kernelite.rows.inputs import FloatArray, Rows, dense_block

__all__ = ["Whitening"]


@dataclass(frozen=True, eq=False)
class Whitening:
    """z' = M (z - t).

    Parameters
    ----------
    matrix : ndarray of shape (d, d)
        M.
    shift : ndarray of shape (d,)
        t.

    Examples
    --------
    >>> Whitening.undoing(np.array([[2.0, 0.0], [0.0, 4.0]]), np.ones(2))(np.array([[3.0, 5.0]]))
    array([[1., 1.]])
    """

    matrix: FloatArray
    shift: FloatArray

    rowwise: ClassVar[bool] = True
    takes_columns: ClassVar[bool] = False
    exact: ClassVar[bool] = True  # what it rounds is counted: see `error`

    def __post_init__(self) -> None:
        d = len(self.shift)
        if self.shift.shape != (d,) or self.matrix.shape != (d, d) or not d:
            raise InputError("a whitening needs a square matrix and a shift of its width.")
        if not (np.isfinite(self.matrix).all() and np.isfinite(self.shift).all()):
            raise InputError("`matrix` and `shift` of a whitening must be finite.")

    @classmethod
    def undoing(cls, lower: FloatArray, shift: FloatArray) -> Whitening:
        """The map that takes L z' + t to z', for a lower triangle L."""
        from scipy.linalg import solve_triangular

        inverse = solve_triangular(lower, np.eye(len(lower)), lower=True)
        return cls(np.ascontiguousarray(inverse), np.array(shift, dtype=np.float64))

    @property
    def n_out(self) -> int:
        """As many features come out."""
        return len(self.shift)

    @property
    def n_features(self) -> int:
        """d."""
        return len(self.shift)

    def error(self, lower: FloatArray) -> float:
        """How far z' may be off, as a share of |z'|, where M should undo L."""
        d = len(lower)
        # |M| |z - t| <= |M| |L| |z'|, which no scale of a feature changes.
        meets = float(np.linalg.norm(np.abs(self.matrix) @ np.abs(lower)))
        return 1.1 * UNIT * (d + 3.0 + d * meets) * meets

    def __call__(self, rows: Rows) -> FloatArray:
        """Rows of shape (m, d) in the new coordinates."""
        rows = dense_block(rows, slice(None))
        if rows.shape[1] != self.n_features:
            raise InputError(
                f"`X` has {rows.shape[1]} features, but this model was compiled for "
                f"{self.n_features}."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray((rows - self.shift) @ self.matrix.T)
