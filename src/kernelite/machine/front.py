"""What happens to rows before a model sees them, step by step.

Most steps are data (`machine.preparation`) and can be stored in a file. A `Kept` transformer,
whatever else stood in a pipeline, sees the rows as they came, all at once, and cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from kernelite.errors import InputError
from kernelite.machine.affine import AffineMap
from kernelite.machine.preparation.columns import Columns, chain_width
from kernelite.machine.preparation.numeric import (
    Normalize,
    OwnScaling,
    Polynomial,
    PowerMap,
    QuantileMap,
    Threshold,
)
from kernelite.machine.preparation.pieces import Pieces
from kernelite.machine.preparation.projection import Projection
from kernelite.machine.preparation.selection import Selection
from kernelite.rows.frames import check_names
from kernelite.rows.inputs import Rows, check_rows

__all__ = ["Front", "Kept", "Selection", "Step"]


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
    rowwise: ClassVar[bool] = False

    @property
    def __unstorable__(self) -> str:
        return (
            f"this model keeps a {self.name} in front of it as it is, and a .kernelite file holds "
            "no Python objects; joblib.dump(model, path) stores it, for readers who trust the file."
        )

    def __call__(self, X: Any) -> Any:
        """What the transformer makes of `X`."""
        return self.transformer.transform(X)


Step: TypeAlias = (
    "AffineMap | Selection | Columns | OwnScaling | Polynomial | Normalize | Threshold | "
    "PowerMap | QuantileMap | Projection | Kept"
)


@dataclass(frozen=True, eq=False)
class Front:
    """Steps in order, before a model and its `input_map`.

    Parameters
    ----------
    steps : tuple of steps
    n_features : int, optional
        The width of the rows that come in; None where they are not rows of numbers (text).

    Examples
    --------
    >>> import numpy as np
    >>> front = Front((Selection([1], 2), AffineMap([2.0], [0.0])), 2)
    >>> front(np.array([[5.0, 7.0]])), front.rowwise
    (array([[14.]]), True)
    """

    steps: tuple[
        AffineMap
        | Selection
        | Columns
        | OwnScaling
        | Polynomial
        | Normalize
        | Threshold
        | PowerMap
        | QuantileMap
        | Projection
        | Kept,
        ...,
    ]
    n_features: int | None

    def __post_init__(self) -> None:
        if not self.steps:
            raise InputError("a front needs at least one step.")
        if self.n_features is None and not isinstance(self.steps[0], Kept):
            raise InputError("`n_features` of a front of numbers cannot be None.")
        if not self.keeps and self.n_features is not None:
            chain_width(self.steps, self.n_features)

    @property
    def keeps(self) -> tuple[str, ...]:
        """Names of the transformers that are kept as they are."""
        return tuple(step.name for step in self.steps if isinstance(step, Kept))

    @property
    def rowwise(self) -> bool:
        """Whether rows may be taken in blocks: all steps are functions of a row of numbers."""
        return all(step.rowwise for step in self.steps)

    @property
    def width(self) -> int:
        """`n_features`; an AttributeError where there is none, as in scikit-learn."""
        if self.n_features is None:
            raise AttributeError(f"a {type(self.steps[0]).__name__} step takes no rows of numbers")
        return self.n_features

    @property
    def n_out(self) -> int | None:
        """The width of the rows that come out; None where a kept transformer may say anything."""
        if self.keeps or self.n_features is None:
            return None
        return chain_width(self.steps, self.n_features)

    def __call__(self, X: Any, /, feature_names: Sequence[str] | None = None) -> Rows:
        """Rows after all steps.

        A kept transformer in first place sees `X` as it came, and checks it in its own way; so do
        columns, which a frame may have in any order.
        """
        first = self.steps[0]
        if isinstance(first, Columns):
            if not first.by_name:
                check_names(X, feature_names)
            return self._run(first.pieces(X, feature_names), self.steps[1:])
        if not isinstance(first, Kept):
            X = check_rows(X, n_features=self.n_features, feature_names=feature_names)
        return self.apply(X)

    def apply(self, rows: Any) -> Rows:
        """The steps alone, for rows that were checked."""
        return self._run(rows, self.steps)

    def _run(self, rows: Any, steps: Sequence[Step]) -> Rows:
        for step in steps:
            if isinstance(step, Columns):
                rows = step.pieces(rows)
            else:
                rows = step(rows.assembled() if isinstance(rows, Pieces) else rows)
        assembled: Rows = rows.assembled() if isinstance(rows, Pieces) else rows
        return assembled
