"""What rows go through before a machine sees them: steps, each a small frozen dataclass of data.

`encoding` and `missing` work on columns of anything, `numeric` and `projection` on rows of numbers,
`columns` chooses columns and puts the results side by side. All of these are data and can be
stored in a file. A `Kept` transformer, whatever else stood in a pipeline, sees the rows as they
came, all at once, and cannot. `Preparation` is their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from kernelite.data.rows.frames import check_names, column_names, is_frame
from kernelite.data.rows.inputs import Rows, check_rows, is_sparse
from kernelite.machine.affine import AffineMap
from kernelite.machine.preparation.columns import Columns, Pieces, Selection, chain_width
from kernelite.machine.preparation.numeric import NumberStep
from kernelite.machine.preparation.projection import Projection
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["NO_STEPS", "Kept", "Preparation", "Selection", "Step"]


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


Step: TypeAlias = AffineMap | Selection | Columns | NumberStep | Projection | Kept


@dataclass(frozen=True, eq=False)
class Preparation:
    """What rows go through before a model, in order; nothing, if there are no steps.

    The last step, if it is an affine map, is part of the model: bounds count what it rounds, and
    kernels apply it as they read rows. What stands before it is taken as computed.

    Parameters
    ----------
    steps : tuple of steps
    n_features : int, optional
        The width of the rows that come in; None where they are not rows of numbers (text), or
        where there are no steps.

    Examples
    --------
    >>> import numpy as np
    >>> made = Preparation.of(Selection([1], 2), AffineMap([2.0], [0.0]))
    >>> made(np.array([[5.0, 7.0]])), made.rowwise, made.n_features, made.n_out
    (array([[14.]]), True, 2, 1)
    """

    steps: tuple[Step, ...] = ()
    n_features: int | None = None

    @classmethod
    def of(cls, *steps: Step | None) -> Preparation:
        """Of these steps; one that is None is nothing."""
        made = tuple(step for step in steps if step is not None)
        return cls(made, made[0].n_features) if made else NO_STEPS

    def __post_init__(self) -> None:
        if self.steps and self.n_features is None and not isinstance(self.steps[0], Kept):
            raise InputError("`n_features` cannot be None where rows of numbers are prepared.")
        _ = self.n_out  # which checks that steps take each other's rows

    @cached_property
    def input_map(self) -> AffineMap | None:
        """The last step, if it is an affine map."""
        last = self.steps[-1] if self.steps else None
        return last if isinstance(last, AffineMap) else None

    @cached_property
    def before_map(self) -> Preparation:
        """All steps but `input_map`."""
        return self if self.input_map is None else Preparation.of(*self.steps[:-1])

    @property
    def keeps(self) -> tuple[str, ...]:
        """Names of the transformers that are kept as they are."""
        return tuple(step.name for step in self.steps if isinstance(step, Kept))

    @cached_property
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
        """The width of the rows that come out; None behind a kept transformer, or no step."""
        known, width = list(self.steps), self.n_features
        while any(isinstance(step, Kept) for step in known):
            known, width = known[1:], known[1].n_features if known[1:] else None
        return chain_width(known, width) if known and width is not None else None

    def same_as(self, other: Preparation) -> bool:
        """Whether rows surely come out the same."""
        return len(self.steps) == len(other.steps) and all(
            one is two
            or (isinstance(one, AffineMap) and isinstance(two, AffineMap) and one.same_as(two))
            for one, two in zip(self.steps, other.steps)
        )

    def __call__(self, X: Any, /, feature_names: Sequence[str] | None = None) -> Rows:
        """Rows after all steps.

        A kept transformer in first place sees `X` as it came, and checks it in its own way; so do
        columns, which a frame may have in any order.
        """
        first = self.steps[0] if self.steps else None
        if isinstance(first, Columns):
            if not first.by_name:
                check_names(X, feature_names)
            elif is_frame(X):
                if feature_names is not None and column_names(X) is None:
                    raise InputError(
                        "`X` has no column names that are strings, but this model was fitted on "
                        "columns by their names; `X.set_axis([...], axis=1)` gives them."
                    )
            elif first.by_name == "only":
                raise InputError(
                    f"`X` must be a data frame, got a {type(X).__name__}: this model was fitted on "
                    "columns by their names; `pandas.DataFrame(X, columns=...)` gives them."
                )
            return self._run(first.pieces(X, feature_names), self.steps[1:])
        if not isinstance(first, Kept):
            X = check_rows(X, n_features=self.n_features, feature_names=feature_names)
        return self.apply(X)

    def apply(self, rows: Any) -> Rows:
        """The steps alone, for rows that were checked; whether they are finite may show later.

        Raises
        ------
        InputError
            If numbers of finite rows become so large on the way that no number is left.
        """
        made = self._run(rows, self.steps)
        if self._may_lose and _has_nan(made) and np.isfinite(_values(rows)).all():
            raise InputError(
                "`X` has numbers so large that the steps before the model overflow; drop such rows."
            )
        return made

    @cached_property
    def _may_lose(self) -> bool:
        """Whether a number may become NaN: not by one affine map, or by leaving out columns.

        What stands behind a transformer that takes anything is checked by who asks for it.
        """
        lossy = [step for step in self.steps if not isinstance(step, Selection)]
        return self.rowwise and bool(lossy) and lossy != [self.input_map]

    def _run(self, rows: Any, steps: Sequence[Step]) -> Rows:
        for step in steps:
            if isinstance(step, Columns):
                rows = step.pieces(rows)
            else:
                rows = step(rows.assembled() if isinstance(rows, Pieces) else rows)
        assembled: Rows = rows.assembled() if isinstance(rows, Pieces) else rows
        return assembled


def _values(rows: Any) -> Any:
    return rows.data if is_sparse(rows) else rows


def _has_nan(rows: Any) -> bool:
    values = _values(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        # One pass without a temporary: a sum is a number unless an entry is not, or it overflows.
        return bool(np.isnan(values.sum()) and np.isnan(values).any())


NO_STEPS = Preparation()
