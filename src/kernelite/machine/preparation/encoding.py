"""Columns of categories or numbers to codes: one-hot, ordinal, bins. All of it is exact.

What a category becomes is a table that was made when the encoder was read: dropped categories,
infrequent ones grouped together and unknown ones are entries of it like all others. A row's one-hot
features are stored as the few places of its ones (`Hot`).
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

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
from kernelite.data.rows.inputs import Rows
from kernelite.machine.ops import NumpyOps, ops
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.records import dataclass

__all__ = ["Bins", "Categories", "Hot", "OneHot", "Ordinal", "Piece"]

NOTHING, REFUSED = -1, -2  # places of a category
SPARE_PLACES = 2  # beside those of the categories: for unknown values, and for missing ones


@dataclass(frozen=True, eq=False, slots=True)
class Hot:
    """A feature per category, of which at most one is 1 per row and the others are 0.

    Parameters
    ----------
    places : int array of shape (m,)
        Which one is 1; negative where none is.
    width : int
    """

    places: NDArray[np.integer]
    width: int


Piece: TypeAlias = "Column | Hot | Rows"
"""What a step makes of columns: numbers, places of ones, or a block."""


@dataclass(frozen=True, eq=False)
class Categories:
    """What each value of one column becomes.

    Parameters
    ----------
    values : tuple of str, int, float, bool or None
        The categories.
    places : int array of shape (categories,)
        The place of each; -1: none.
    width : int
        Places there are.
    unknown : int
        The place of all other values; -1: none; -2: they are refused.

    Examples
    --------
    >>> sizes = Categories(("large", "small"), np.array([0, 1]), 2, -1)
    >>> sizes.find(Coded(np.array([1, 0, 2]), ["large", "small", "tiny"]))
    array([ 1,  0, -1])
    """

    values: tuple[str | int | float | bool | None, ...]
    places: NDArray[np.int64]
    width: int
    unknown: int = REFUSED

    def __post_init__(self) -> None:
        places = np.array(self.places, dtype=np.int64)
        if places.shape != (len(self.values),):
            raise InputError("`places` of categories must hold one number per category.")
        lowest = min(places.min(initial=0), self.unknown + 1)
        if lowest < NOTHING or max(places.max(initial=-1), self.unknown) >= max(self.width, 0):
            raise InputError(f"`places` of categories must lie between -1 and {self.width - 1}.")
        if self.width > len(places) + SPARE_PLACES:  # before rows of that width are asked for
            raise InputError(f"{len(places)} categories cannot have {self.width} places.")
        object.__setattr__(self, "places", places)

    @cached_property
    def _table(self) -> dict[Any, int]:
        found = dict(zip(self.values, self.places.tolist(), strict=True))
        return {value: place for value, place in found.items() if not is_nan(value)}

    @cached_property
    def _of_nan(self) -> int:
        held = [i for i, value in enumerate(self.values) if is_nan(value)]
        return int(self.places[held[0]]) if held else self.unknown

    @cached_property
    def _numbers(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Categories that are numbers, in order, and their places."""
        held = [
            (value, int(place))
            for value, place in zip(self.values, self.places, strict=True)
            if isinstance(value, int | float) and not is_nan(value)
        ]
        held.sort()
        whole = all(isinstance(value, int) for value, _ in held)
        values = np.array([value for value, _ in held], dtype=np.int64 if whole else np.float64)
        return values, np.array([place for _, place in held], dtype=np.int64)

    def find(self, column: Column, name: str | int = 0) -> NDArray[np.int64]:
        """The place of each row's value, shape (m,); `name` is the column's, for messages."""
        if isinstance(column, Coded):
            table, unknown = self._table, self.unknown
            places = np.array(
                [
                    self._of_nan if is_nan(value) else table.get(value, unknown)
                    for value in self._as_known(column.values)
                ],
                dtype=np.int64,
            )
            found = column.spread(places)
            if self._missing is not None and self.unknown != REFUSED:
                self._check_kind(column, places, name)
        else:
            found = self._find_numbers(column)
        if self.unknown == REFUSED and (found == REFUSED).any():
            self._refuse(column, found, name)
        return np.asarray(found)

    @property
    def is_text(self) -> bool:
        """Whether the categories are texts."""
        return any(isinstance(value, str) for value in self.values)

    def line(self, column: Any) -> Any:
        """The line of a table with `width` places, and one more for none: (m,), over `machine.ops`.

        Values that are refused have a line beyond the table, which stops who asks for it.
        """
        xp, lines = ops(column), self.places % (self.width + 1)  # none is the last line
        unknown, missing = (
            self.width + 1 if place == REFUSED else place % (self.width + 1)
            for place in (self.unknown, self._of_nan)
        )
        if unknown > self.width and not getattr(type(xp), "stops", xp is NumpyOps):
            raise UnsupportedModelError(
                "an encoder refuses what it does not know, and a C function cannot; fit it with "
                "handle_unknown='ignore', or export to ONNX or JavaScript"
            )
        if self.is_text:
            if any(isinstance(value, int | float) and not is_nan(value) for value in self.values):
                raise UnsupportedModelError("a column has texts and numbers as categories")
            known = [(v, int(p)) for v, p in zip(self.values, lines) if isinstance(v, str)]
            return xp.lookup(column, *zip(*known), unknown)
        numbers, places = self._numbers
        if not len(numbers):
            found = xp.full((column.shape[0],), unknown)
        else:
            same = column[:, None] == numbers[None, :]
            found = xp.take(places % (self.width + 1), xp.argmax(same, axis=1))
            found = xp.where(xp.any(same, axis=1), found, unknown)
        return xp.where(xp.isnan(column), missing, found)

    def _as_known(self, values: list[Any]) -> list[Any]:
        """Values, nulls among them as the missing value that is a category, or else as NaN."""
        if NULL not in values[-1:]:
            return values
        return [*values[:-1], None if self._missing == "None" else np.nan]

    @cached_property
    def _missing(self) -> str | None:
        """The kind of missing value that is a category."""
        return next(filter(None, map(missing_kind, self.values)), None)

    def _check_kind(self, column: Coded, places: NDArray[np.int64], name: str | int) -> None:
        """Tell of missing values that count as unknown, because the category is of another kind."""
        for place, value in enumerate(column.values):
            kind = missing_kind(value)
            other = kind not in (None, self._missing) and places[place] == self.unknown
            if other and column.uses(place):
                warn_of_missing(name, str(kind), str(self._missing))

    def _find_numbers(self, column: NDArray[Any]) -> NDArray[np.int64]:
        refuse_infinite(column)
        values, places = self._numbers
        if not len(values):
            found = np.full(len(column), self.unknown, dtype=np.int64)
        else:
            at = np.minimum(np.searchsorted(values, column), len(values) - 1)
            found = np.where(values[at] == column, places[at], self.unknown)
        if column.dtype.kind == "f":
            found[np.isnan(column)] = self._of_nan
        return found

    def _refuse(self, column: Column, found: NDArray[Any], name: str | int) -> None:
        rows = np.flatnonzero(found == REFUSED)
        if isinstance(column, Coded):
            seen = [column.values[int(column.codes[row])] for row in rows[:1000]]
        else:
            seen = column[rows[:1000]].tolist()
        some = list(dict.fromkeys(map(repr, seen)))[:5]
        raise InputError(
            f"unknown categories [{', '.join(some)}] in column `{name}`; drop such rows, or fit "
            "the encoder with handle_unknown='ignore'.",
            row=int(rows[0]),
        )


class _ByColumn:
    """A step that works on columns one by one."""

    rowwise: ClassVar[bool] = False
    takes_columns: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    @property
    @abstractmethod
    def widths(self) -> list[int]:
        """How many features come out of each column."""

    @property
    def n_features(self) -> int:
        """How many columns come in."""
        return len(self.widths)

    @property
    def n_out(self) -> int:
        """How many features come out."""
        return sum(self.widths)

    def made_of(self, given: Sequence[frozenset[int]]) -> list[frozenset[int]]:
        """Each of what its column is made of."""
        pairs = zip(given, self.widths, strict=True)
        return [one for one, width in pairs for _ in range(width)]


@dataclass(frozen=True, eq=False)
class OneHot(_ByColumn):
    """A feature per category, as OneHotEncoder makes them.

    Parameters
    ----------
    columns : tuple of Categories
        Of each column.
    warns : bool
        Whether unknown categories are worth a warning.
    """

    columns: tuple[Categories, ...]
    warns: bool = False

    @property
    def widths(self) -> list[int]:
        """A feature per category."""
        return [categories.width for categories in self.columns]

    @property
    def texts(self) -> list[bool]:
        """Which columns hold texts."""
        return [categories.is_text for categories in self.columns]

    def formula(self, columns: Sequence[Any]) -> list[tuple[Any, int]]:
        """A block of features per column, and its width, over `machine.ops`."""
        return [
            (ops(column).take(np.eye(own.width + 1, own.width), own.line(column)), own.width)
            for own, column in zip(self.columns, columns, strict=True)
        ]

    def run(self, columns: Sequence[Column], names: Sequence[str | int]) -> list[Piece]:
        """Places of ones, per column; messages call the columns by their names."""
        found: list[Piece] = []
        unknown = []
        for categories, column, name in zip(self.columns, columns, names, strict=True):
            places = categories.find(column, name)
            found.append(Hot(places, categories.width))
            if self.warns and _has_unknown(categories, column):
                unknown.append(name)
        if unknown:
            warnings.warn(
                f"unknown categories in columns {unknown}; they are encoded as the "
                "infrequent category, or as all zeros where there is none.",
                stacklevel=2,
            )
        return found


def _has_unknown(categories: Categories, column: Column) -> bool:
    known = Categories(categories.values, np.zeros(len(categories.values), np.int64), 2, 1)
    return bool((known.find(column) == 1).any())


@dataclass(frozen=True, eq=False)
class Ordinal(_ByColumn):
    """A number per category, as OrdinalEncoder gives them.

    Parameters
    ----------
    columns : tuple of Categories
        Places are those in `numbers`.
    numbers : tuple of tuples of float
        Of each column; NaN may be among them.
    """

    columns: tuple[Categories, ...]
    numbers: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if [categories.width for categories in self.columns] != [*map(len, self.numbers)]:
            raise InputError("an ordinal encoding needs a number per place of each column.")
        if any((c.places < 0).any() or c.unknown == NOTHING for c in self.columns):
            raise InputError("an ordinal encoding has a place for every category.")

    @property
    def widths(self) -> list[int]:
        """One each."""
        return [1] * len(self.columns)

    @property
    def texts(self) -> list[bool]:
        """Which columns hold texts."""
        return [categories.is_text for categories in self.columns]

    def formula(self, columns: Sequence[Any]) -> list[tuple[Any, int]]:
        """A feature per column, over `machine.ops`."""
        each = zip(self.columns, self.numbers, columns, strict=True)
        return [
            (ops(column).take(np.array([*values, 0.0])[:, None], own.line(column)), 1)
            for own, values, column in each
        ]

    def run(self, columns: Sequence[Column], names: Sequence[str | int]) -> list[Piece]:
        """A column of numbers each; messages call the columns by their names."""
        return [
            np.asarray(values, dtype=np.float64)[categories.find(column, name)]
            for categories, values, column, name in zip(
                self.columns, self.numbers, columns, names, strict=True
            )
        ]


@dataclass(frozen=True, eq=False)
class Bins(_ByColumn):
    """The bin that each number lies in, as KBinsDiscretizer finds it.

    Parameters
    ----------
    edges : tuple of float arrays
        Between the bins of each column, in order; a number on an edge lies above it.
    onehot : bool
        A feature per bin, or the number of the bin.
    """

    edges: tuple[NDArray[np.float64], ...]
    onehot: bool

    def __post_init__(self) -> None:
        for edges in self.edges:
            if edges.ndim != 1 or not (np.diff(edges) >= 0).all():
                raise InputError("the edges of bins must be a list of numbers that do not fall.")

    @property
    def widths(self) -> list[int]:
        """A feature per bin, or one."""
        return [len(edges) + 1 if self.onehot else 1 for edges in self.edges]

    def formula(self, columns: Sequence[Any]) -> list[tuple[Any, int]]:
        """A block of features per column, and its width, over `machine.ops`."""
        found = []
        for edges, column in zip(self.edges, columns, strict=True):
            xp, count = ops(column), len(edges) + 1
            held = np.eye(count) if self.onehot else np.arange(float(count))[:, None]
            place = xp.full((column.shape[0],), 0)
            if count > 1:
                above = xp.sum(xp.astype(column[:, None] >= edges[None, :], np.float64), axis=1)
                place = xp.astype(above, np.int64)
            found.append((xp.take(held, place), held.shape[1]))
        return found

    def run(self, columns: Sequence[Column], names: Sequence[str | int]) -> list[Piece]:
        """Places of ones, or columns of numbers."""
        found: list[Piece] = []
        for edges, column in zip(self.edges, columns, strict=True):
            values = numbers(column)
            refuse_infinite(values, nan=True)  # which lie in no bin
            bins = np.searchsorted(edges, values, side="right")
            found.append(Hot(bins, len(edges) + 1) if self.onehot else bins.astype(np.float64))
        return found
