"""Missing values: filled in, or told of by features of their own. All of it is exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.columns import (
    NULL,
    Coded,
    Column,
    is_nan,
    missing_kind,
    numbers,
    refuse_infinite,
    warn_of_missing,
)
from kernelite.machine.ops import ops
from kernelite.machine.preparation.encoding import Piece
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.records import dataclass

__all__ = ["Impute", "Missing"]


@dataclass(frozen=True, eq=False)
class Missing:
    """Which values count as missing, and the features that say so (MissingIndicator).

    Parameters
    ----------
    marker : str, int, float or None
        What stands for a missing value; NaN is every NaN.
    any_kind : bool
        Whether None, NaN and pandas' NA all count instead (`missing_values=pandas.NA`).
    shown : int array
        The columns whose mask becomes a feature.
    n_features : int
    refuses_new : bool
        Whether missing values in other columns are an error.
    """

    marker: str | int | float | bool | None
    any_kind: bool
    shown: NDArray[np.int64]
    n_features: int
    refuses_new: bool = False
    rowwise: ClassVar[bool] = False
    takes_columns: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        shown = np.array(self.shown, dtype=np.int64)
        if shown.ndim != 1 or ((shown < 0) | (shown >= self.n_features)).any():
            raise InputError(f"`shown` must lie between 0 and {self.n_features - 1}.")
        object.__setattr__(self, "shown", shown)

    @property
    def n_out(self) -> int:
        """How many features come out."""
        return len(self.shown)

    def made_of(self, given: Sequence[frozenset[int]]) -> list[frozenset[int]]:
        """The columns whose masks they are."""
        return [given[column] for column in self.shown]

    def mask(self, column: Column) -> NDArray[np.bool_]:
        """Which rows are missing, shape (m,)."""
        if isinstance(column, Coded):
            return column.spread(np.array([self._is(value) for value in column.values]))
        refuse_infinite(column)
        if self.any_kind or is_nan(self.marker):
            none = column.dtype.kind != "f"
            return np.zeros(len(column), np.bool_) if none else np.isnan(column)
        if not isinstance(self.marker, int | float):
            return np.zeros(len(column), np.bool_)
        return np.asarray(column == self.marker)

    @property
    def texts(self) -> list[bool]:
        """Which columns surely hold texts."""
        return [isinstance(self.marker, str)] * self.n_features

    def absent(self, column: Any) -> Any:
        """As `mask`, over `machine.ops`, where a text is never missing unless one stands for it."""
        xp, text = ops(column), isinstance(self.marker, str)
        if _is_text(column) or text:
            if not (_is_text(column) and text):
                return xp.full((column.shape[0],), False)
            return xp.lookup(column, (self.marker,), (1,), 0) == 1
        if self.any_kind or is_nan(self.marker):
            return xp.isnan(column)
        if not isinstance(self.marker, int | float):
            return xp.full((column.shape[0],), False)
        return column == float(self.marker)

    def formula(self, columns: Sequence[Any]) -> list[tuple[Any, int]]:
        """A feature per column that is shown, over `machine.ops`."""
        if self.refuses_new:
            raise UnsupportedModelError(
                "its MissingIndicator refuses columns in which fit saw nothing missing; fit it "
                "with error_on_new=False"
            )
        shown = [columns[j] for j in self.shown]
        return [(ops(one).astype(self.absent(one), np.float64)[:, None], 1) for one in shown]

    def _is(self, value: Any) -> bool:
        if self.any_kind:
            return missing_kind(value) is not None
        if is_nan(self.marker):
            return missing_kind(value) == "NaN"
        return value is None or value is NULL if self.marker is None else bool(value == self.marker)

    def _check_kind(self, column: Column, name: str | int) -> None:
        """Tell of missing values that this step, which knows NaN alone, does not see."""
        if not isinstance(column, Coded) or self.any_kind or not is_nan(self.marker):
            return
        for place, value in enumerate(column.values):
            kind = missing_kind(value)
            if kind in (None, "NaN") or not column.uses(place):
                continue
            if kind == "NA":  # scikit-learn raises too: whether NA is NaN is not to be told
                raise InputError(
                    f"column `{name}` holds pandas' NA, but the model was fitted on NaN; convert "
                    f"it: `X.assign({name}=X[{name!r}].astype(object).fillna(float('nan')))`."
                )
            warn_of_missing(name, str(kind), "NaN")

    def run(self, columns: Sequence[Column], names: Sequence[str | int]) -> list[Piece]:
        """A column of zeros and ones per column that is shown."""
        for column, name in zip(columns, names):
            self._check_kind(column, name)
        masks = [self.mask(column) for column in columns]
        if self.refuses_new:
            new = {j for j, mask in enumerate(masks) if mask.any()} - set(self.shown.tolist())
            if new:
                called = [names[j] for j in sorted(new)]
                raise InputError(f"`X` has missing values in columns {called}, where fit saw none.")
        return [masks[j].astype(np.float64) for j in self.shown]


@dataclass(frozen=True, eq=False)
class Impute:
    """Missing values filled in, as SimpleImputer does.

    Columns without a value to fill in are left out.

    Parameters
    ----------
    missing : Missing
        Its shown columns come after the filled ones.
    columns : int array
        Those that are filled.
    fills : tuple of str, int, float, bool or None
        With what, each.
    numeric : bool
        Whether all values are numbers.
    """

    missing: Missing
    columns: NDArray[np.int64]
    fills: tuple[str | int | float | bool | None, ...]
    numeric: bool
    rowwise: ClassVar[bool] = False
    takes_columns: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        columns = np.array(self.columns, dtype=np.int64)
        if columns.shape != (len(self.fills),):
            raise InputError("an imputation needs a value per column.")
        if ((columns < 0) | (columns >= self.missing.n_features)).any():
            raise InputError(f"`columns` must lie between 0 and {self.missing.n_features - 1}.")
        if self.numeric and not all(isinstance(fill, int | float) for fill in self.fills):
            raise InputError("an imputation of numbers fills in numbers.")
        object.__setattr__(self, "columns", columns)

    @property
    def n_features(self) -> int:
        """How many columns come in."""
        return self.missing.n_features

    @property
    def n_out(self) -> int:
        """How many come out."""
        return len(self.columns) + self.missing.n_out

    def made_of(self, given: Sequence[frozenset[int]]) -> list[frozenset[int]]:
        """The columns that are filled, then those of masks."""
        return [given[column] for column in self.columns] + self.missing.made_of(given)

    @property
    def texts(self) -> list[bool]:
        """Which columns surely hold texts."""
        found = self.missing.texts
        for j, fill in zip(self.columns, self.fills, strict=True):
            found[j] = found[j] or isinstance(fill, str)
        return found

    def formula(self, columns: Sequence[Any]) -> list[tuple[Any, int]]:
        """Filled columns, then those that tell what was missing, over `machine.ops`."""
        found = []
        for j, fill in zip(self.columns, self.fills, strict=True):
            column, xp = columns[j], ops(columns[j])
            if _is_text(column) != isinstance(fill, str):
                raise UnsupportedModelError("an imputer fills texts in among numbers")
            found.append((xp.where(self.missing.absent(column), fill, column), 0))
        return [*found, *self.missing.formula(columns)]

    def run(self, columns: Sequence[Column], names: Sequence[str | int]) -> list[Piece]:
        """Filled columns, then those that tell what was missing."""
        if self.numeric:
            columns = [numbers(column) for column in columns]
        filled = [
            self._filled(columns[j], fill) for j, fill in zip(self.columns, self.fills, strict=True)
        ]
        return [*filled, *self.missing.run(columns, names)]

    def _filled(self, column: Column, fill: Any) -> Column:
        if isinstance(column, Coded):
            values = [fill if self.missing._is(value) else value for value in column.values]
            return Coded(column.codes, values)
        mask = self.missing.mask(column)
        if not mask.any():
            return column
        if isinstance(fill, int | float):
            return np.where(mask, fill, column)
        held, codes = np.unique(column, return_inverse=True)  # numbers with a text among them
        return Coded(np.where(mask, len(held), codes), [*held.tolist(), fill])


def _is_text(column: Any) -> bool:
    """Whether a column of any target holds texts."""
    kind = column.dtype.kind if isinstance(column, np.ndarray) else column.kind
    return kind in "OU"
