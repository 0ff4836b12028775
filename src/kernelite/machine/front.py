"""What happens to rows before a model sees them, step by step.

Three kinds of step: an `AffineMap`, a `Selection` of features, and a `Kept` transformer, which is
whatever else stood in a pipeline. The first two work on any block of rows and can be stored in a
file; a kept transformer sees the rows as they came, all at once, and cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.machine.affine import AffineMap
from kernelite.machine.whitening import Whitening
from kernelite.rows.inputs import Rows, check_rows, is_sparse

__all__ = ["Front", "Kept", "Selection", "Step"]


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

    def __post_init__(self) -> None:
        columns = np.array(self.columns, dtype=np.int64)
        if columns.ndim != 1 or (columns < 0).any() or (columns >= self.n_features).any():
            raise InputError(f"`columns` must lie between 0 and {self.n_features - 1}.")
        object.__setattr__(self, "columns", columns)

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


@dataclass(frozen=True, eq=False)
class Kept:
    """A fitted transformer, kept as it is.

    Parameters
    ----------
    transformer : object
        With `transform`.
    name : str
        What messages call it.
    n_features : int, optional
        The width of the rows it was fitted on.
    """

    transformer: Any
    name: str
    n_features: int | None = None

    @property
    def __unstorable__(self) -> str:
        return (
            f"this model keeps a {self.name} in front of it as it is, and a .kernelite file holds "
            "no Python objects; joblib.dump(model, path) stores it, for readers who trust the file."
        )

    def __call__(self, X: Any) -> Any:
        """What the transformer makes of `X`."""
        return self.transformer.transform(X)


Step: TypeAlias = "AffineMap | Selection | Kept | Whitening"


@dataclass(frozen=True, eq=False)
class Front:
    """Steps in order, before a model and its `input_map`.

    Parameters
    ----------
    steps : tuple of AffineMap, Selection or Kept
    n_features : int, optional
        The width of the rows that come in; None where they are not rows of numbers (text).

    Examples
    --------
    >>> front = Front((Selection([1], 2), AffineMap([2.0], [0.0])), 2)
    >>> front(np.array([[5.0, 7.0]])), front.rowwise
    (array([[14.]]), True)
    """

    steps: tuple[AffineMap | Selection | Kept | Whitening, ...]
    n_features: int | None

    def __post_init__(self) -> None:
        if not self.steps:
            raise InputError("a front needs at least one step.")
        if self.n_features is None and not isinstance(self.steps[0], Kept):
            raise InputError("`n_features` of a front of numbers cannot be None.")

    @property
    def rowwise(self) -> bool:
        """Whether rows may be taken in blocks: no step is a kept transformer."""
        return not any(isinstance(step, Kept) for step in self.steps)

    @property
    def width(self) -> int:
        """`n_features`; an AttributeError where there is none, as in scikit-learn."""
        if self.n_features is None:
            raise AttributeError(f"a {type(self.steps[0]).__name__} step takes no rows of numbers")
        return self.n_features

    def __call__(self, X: Any, /, feature_names: Sequence[str] | None = None) -> Rows:
        """Rows after all steps.

        A kept transformer in first place sees `X` as it came, and checks it in its own way.
        """
        if not isinstance(self.steps[0], Kept):
            X = check_rows(X, n_features=self.n_features, feature_names=feature_names)
        return self.apply(X)

    def apply(self, rows: Any) -> Rows:
        """The steps alone, for rows that were checked."""
        for step in self.steps:
            rows = step(rows)
        return rows
