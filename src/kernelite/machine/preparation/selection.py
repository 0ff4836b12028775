"""Some features of a row, in a given order: what feature selectors keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.rows.inputs import is_sparse

__all__ = ["Selection"]


@dataclass(frozen=True, eq=False)
class Selection:
    """Some features of a row, in a given order.

    Parameters
    ----------
    columns : array of int, shape (r,)
        May name a feature twice.
    n_features : int
        The width of the rows that come in.

    Examples
    --------
    >>> Selection([2, 0], 3)(np.array([[1.0, 2.0, 3.0]]))
    array([[3., 1.]])
    """

    columns: NDArray[np.int64]
    n_features: int
    rowwise: ClassVar[bool] = True
    takes_columns: ClassVar[bool] = False
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        columns = np.array(self.columns, dtype=np.int64)
        if columns.ndim != 1 or (columns < 0).any() or (columns >= self.n_features).any():
            raise InputError(f"`columns` must lie between 0 and {self.n_features - 1}.")
        object.__setattr__(self, "columns", columns)

    @property
    def n_out(self) -> int:
        """r."""
        return len(self.columns)

    def __call__(self, rows: Any) -> Any:
        """The selected features."""
        rows = rows if is_sparse(rows) else np.asarray(rows)
        if rows.shape[1] != self.n_features:
            raise InputError(
                f"`X` has {rows.shape[1]} features, but this model was compiled for "
                f"{self.n_features}."
            )
        if not is_sparse(rows):  # `take` keeps rows contiguous, which indexing need not
            return np.take(rows, self.columns, axis=1)
        chosen = rows.tocsr()[:, self.columns]
        chosen.sort_indices()  # the columns may come in any order
        return chosen
