"""Columns of a table: some are kept, or each group through its own steps (ColumnTransformer).

What steps make of columns is put side by side: as a sparse matrix where most features would be
zero, else as a dense one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.columns import Coded, Column, numbers, read_columns
from kernelite.data.rows.inputs import FloatArray, Rows, is_sparse
from kernelite.machine.ops import ops
from kernelite.machine.preparation.encoding import Bins, Hot, OneHot, Ordinal, Piece
from kernelite.machine.preparation.missing import Impute, Missing
from kernelite.machine.preparation.numeric import NumberStep, check_width
from kernelite.machine.preparation.projection import Projection
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["Branch", "Columns", "Pieces", "Selection", "assemble", "chain_width"]

# Some features of a row, in a given order: what feature selectors keep.


@dataclass(frozen=True, eq=False)
class Selection:
    """Some features of a row, in a given order.

    Parameters
    ----------
    columns : array of int, shape (r,)
        May name a feature twice.
    n_features : int
        The width of the rows that come in.
    either : bool
        Whether rows may also come with the chosen features alone, in their order.

    Examples
    --------
    >>> Selection([2, 0], 3)(np.array([[1.0, 2.0, 3.0]]))
    array([[3., 1.]])
    """

    columns: NDArray[np.int64]
    n_features: int
    either: bool = False
    rowwise: ClassVar[bool] = True
    takes_columns: ClassVar[bool] = False
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        columns = np.array(self.columns, dtype=np.int64)
        if columns.ndim != 1 or (columns < 0).any() or (columns >= self.n_features).any():
            raise InputError(f"`columns` must lie between 0 and {self.n_features - 1}.")
        object.__setattr__(self, "columns", columns)

    def __pack__(self) -> dict[str, Any]:
        """For files: `either` only where it is so."""
        stored = {"columns": self.columns, "n_features": self.n_features}
        return stored | {"either": True} if self.either else stored

    @property
    def n_out(self) -> int:
        """r."""
        return len(self.columns)

    def made_of(self, given: Sequence[frozenset[int]]) -> list[frozenset[int]]:
        """Each of the columns of the feature that it is."""
        return [given[column] for column in self.columns]

    def formula(self, rows: Any) -> Any:
        """The selected features of dense rows, over `machine.ops`."""
        return rows[:, self.columns]

    def __call__(self, rows: Any) -> Any:
        """The selected features."""
        rows = rows if is_sparse(rows) else np.asarray(rows)
        if self.either and rows.shape[1] == self.n_out:
            return rows
        check_width(rows, self.n_features)
        if not is_sparse(rows):  # `take` keeps rows contiguous, which indexing need not
            return np.take(rows, self.columns, axis=1)
        chosen = rows.tocsr()[:, self.columns]
        chosen.sort_indices()  # the columns may come in any order
        return chosen


# Groups of columns, each through its own steps, then side by side.


@dataclass(frozen=True, eq=False)
class Branch:
    """Some columns, and the steps that they go through together.

    Parameters
    ----------
    columns : int array
        May name a column twice.
    steps : tuple of steps
        None: numbers as they are.
    """

    columns: NDArray[np.int64]
    steps: tuple[
        OneHot | Ordinal | Bins | Impute | Missing | Selection | NumberStep | Projection, ...
    ] = ()

    def __post_init__(self) -> None:
        columns = np.array(self.columns, dtype=np.int64)
        if columns.ndim != 1 or (columns < 0).any():
            raise InputError("`columns` of a branch must be a list of whole numbers.")
        object.__setattr__(self, "columns", columns)
        chain_width(self.steps, len(columns))

    @property
    def n_out(self) -> int:
        """How many features come out."""
        return chain_width(self.steps, len(self.columns))

    def made_of(self, given: Sequence[frozenset[int]]) -> list[frozenset[int]]:
        """The columns that each feature is made of, from those of all columns of the table."""
        found = [given[column] for column in self.columns]
        for step in self.steps:
            found = step.made_of(found)
        return found

    def texts(self) -> list[bool]:
        """Which columns hold texts, as far as its steps tell; where none does, numbers."""
        found = [False] * len(self.columns)
        for step in self.steps:
            own = getattr(step, "texts", None)
            if own is None or len(own) != len(found):
                break
            found = [one or other for one, other in zip(found, own)]
            if step.n_out != len(found):
                break
        return found

    def formula(self, columns: Sequence[Any]) -> list[tuple[Any, int]]:
        """Blocks of features and their widths (0: a single column), over `machine.ops`."""
        pieces: list[tuple[Any, int]] = [(column, 0) for column in columns]
        for step in self.steps:
            made: Any = step
            if step.takes_columns:
                pieces = made.formula(_apart(pieces))
            else:
                pieces = [(made.formula(_together(pieces)), step.n_out)]
        return pieces

    def run(
        self, columns: Sequence[Column], m: int, names: Sequence[str] | None = None
    ) -> list[Piece]:
        """The features of m rows, in pieces; `names` are those of the whole table."""
        pieces: list[Piece] = list(columns)
        places = self.columns.tolist()
        called: list[str | int] = places if names is None else [names[j] for j in places]
        for step in self.steps:
            if step.takes_columns:
                pieces = step.run(as_columns(pieces, m), called)  # type: ignore[union-attr]
            else:
                pieces = [step(assemble(pieces, m))]  # type: ignore[operator]
            if not _keeps_columns(step):
                called = list(range(step.n_out))
        return pieces


@dataclass(frozen=True, eq=False)
class Columns:
    """Rows of numbers from the columns of a table.

    Parameters
    ----------
    branches : tuple of Branch
        In the order of what they give.
    n_features : int
        Columns of the table in fit.
    by_name : bool or "only"
        Whether a frame may have its columns in another order, and more of them. "only" takes
        nothing but frames: columns were chosen by names in fit.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    >>> Columns((Branch([0]),), 2)(frame, ("a", "b"))
    array([[1.],
           [2.]])
    """

    branches: tuple[Branch, ...]
    n_features: int
    by_name: bool | Literal["only"] = True
    rowwise: ClassVar[bool] = False
    takes_columns: ClassVar[bool] = False
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for branch in self.branches:
            if (branch.columns >= self.n_features).any():
                raise InputError(f"a branch takes columns beyond the {self.n_features} there are.")

    @property
    def n_out(self) -> int:
        """How many features come out."""
        return sum(branch.n_out for branch in self.branches)

    def made_of(self, given: Sequence[frozenset[int]]) -> list[frozenset[int]]:
        """Those of all branches, side by side."""
        return [one for branch in self.branches for one in branch.made_of(given)]

    def texts(self) -> dict[int, bool]:
        """Which of the columns that are used hold texts, as far as is known."""
        found: dict[int, bool] = {}
        for branch in self.branches:
            for j, text in zip(branch.columns.tolist(), branch.texts(), strict=True):
                found[j] = found.get(j, False) or text
        return found

    def formula(self, rows: Any) -> Any:
        """Of rows whose columns are `rows[:, j]`, over `machine.ops`; a table if texts are left."""
        pieces: list[tuple[Any, int]] = []
        for branch in self.branches:
            pieces += branch.formula([rows[:, j] for j in branch.columns.tolist()])
        columns = [piece for piece, width in pieces if not width]
        if any(not isinstance(one, np.ndarray) and one.kind == "O" for one in columns):
            return ops(rows).table(_apart(pieces))
        return _together(pieces)

    def __call__(self, X: Any, names: Sequence[str] | None = None) -> Rows:
        """Rows, dense or sparse as they are shorter."""
        return self.pieces(X, names).assembled()

    def pieces(self, X: Any, names: Sequence[str] | None = None) -> Pieces:
        """What each branch makes of its columns, not yet put together."""
        if isinstance(X, Pieces):
            columns, m = dict(enumerate(as_columns(X.pieces, X.m))), X.m
        else:
            wanted = sorted({int(j) for branch in self.branches for j in branch.columns})
            columns, m = read_columns(X, wanted, self.n_features, names)
        found: list[Piece] = []
        for branch in self.branches:
            found += branch.run([columns[int(j)] for j in branch.columns], m, names)
        return Pieces(found, m)


def _apart(pieces: Sequence[tuple[Any, int]]) -> list[Any]:
    """A column per feature of blocks with their widths."""
    found = []
    for piece, width in pieces:
        found += [piece[:, j] for j in range(width)] if width else [piece]
    return found


def _together(pieces: Sequence[tuple[Any, int]]) -> Any:
    """Blocks and columns side by side, over `machine.ops`."""
    blocks = [piece if width else piece[:, None] for piece, width in pieces]
    return ops(blocks[0]).concat(blocks, axis=1)


def _keeps_columns(step: Any) -> bool:
    """Whether a step gives the columns that it takes, in their order."""
    kept = getattr(step, "columns", None)
    return isinstance(kept, np.ndarray) and step.n_out == step.n_features == len(kept)


def chain_width(steps: Sequence[Any], width: int) -> int:
    """The width behind steps that take each other's rows, which is checked."""
    for step in steps:
        expected = step.n_features
        if expected != width:
            kind = type(step).__name__
            raise InputError(f"a {kind} of {expected} features stands behind {width}.")
        width = step.n_out
    return width


# What steps made of columns, put together.

FILLED_AT_MOST = 0.5  # of the features: sparse from there on,
FEWEST_FEATURES = 16  # if there are so many


@dataclass(frozen=True, eq=False, slots=True)
class Pieces:
    """Pieces of m rows, on their way from columns to columns: texts may be among them."""

    pieces: list[Piece]
    m: int

    def assembled(self) -> Rows:
        """As rows of numbers."""
        return assemble(self.pieces, self.m)


def width_of(piece: Piece) -> int:
    """How many features a piece has."""
    if isinstance(piece, Hot):
        return piece.width
    return 1 if isinstance(piece, Coded) or piece.ndim == 1 else int(piece.shape[1])


def as_columns(pieces: Sequence[Piece], m: int) -> list[Column]:
    """A column per feature."""
    found: list[Column] = []
    for piece in pieces:
        if isinstance(piece, Coded) or (isinstance(piece, np.ndarray) and piece.ndim == 1):
            found.append(piece)
        else:
            dense = _dense([piece], m)
            found += [dense[:, j] for j in range(dense.shape[1])]
    return found


def assemble(pieces: Sequence[Piece], m: int) -> Rows:
    """Pieces of m rows side by side.

    Examples
    --------
    >>> assemble([np.array([5.0, 6.0]), Hot(np.array([1, -1]), 2)], 2)
    array([[5., 0., 1.],
           [6., 0., 0.]])
    """
    if len(pieces) == 1 and getattr(pieces[0], "ndim", 1) == 2:
        return pieces[0]
    width = sum(map(width_of, pieces))
    entries = sum(1 if isinstance(piece, Hot) else width_of(piece) for piece in pieces)
    sparse = any(is_sparse(piece) for piece in pieces)
    hot = width >= FEWEST_FEATURES and entries <= FILLED_AT_MOST * width
    if sparse:
        from scipy.sparse import hstack

        stacked = [p if is_sparse(p) else _sparse([p], m) for p in pieces]
        return hstack(stacked, format="csr")
    return _sparse(pieces, m) if hot else _dense(pieces, m)


def _dense(pieces: Sequence[Piece], m: int) -> FloatArray:
    out = np.zeros((m, sum(map(width_of, pieces))))
    at = 0
    for piece in pieces:
        width = width_of(piece)
        if isinstance(piece, Hot):
            rows = np.flatnonzero(piece.places >= 0)
            out[rows, at + piece.places[rows]] = 1.0
        elif is_sparse(piece):
            out[:, at : at + width] = piece.toarray()
        elif isinstance(piece, Coded) or piece.ndim == 1:
            out[:, at] = numbers(piece)
        else:
            out[:, at : at + width] = piece
        at += width
    return out


def _sparse(pieces: Sequence[Piece], m: int) -> Any:
    """As a canonical csr_array, each row with as many entries: numbers and ones, even if zero."""
    from scipy.sparse import csr_array

    pieces = [piece for piece in pieces if width_of(piece)]
    counts = [1 if isinstance(piece, Hot) else width_of(piece) for piece in pieces]
    total, width = sum(counts), sum(map(width_of, pieces))
    # Column by column is how both are filled, row by row is how they are read.
    indices, data = np.empty((m, total), np.int32), np.empty((m, total))
    at = feature = 0
    for piece, count in zip(pieces, counts, strict=True):
        if isinstance(piece, Hot):
            places = piece.places
            absent = places < 0
            if absent.any():  # a zero, anywhere
                places = np.maximum(places, 0)
                data[:, at] = ~absent
            else:
                data[:, at] = 1.0
            np.add(places, feature, out=indices[:, at], casting="unsafe")
        else:
            indices[:, at : at + count] = np.arange(feature, feature + count)
            single = isinstance(piece, Coded) or piece.ndim == 1
            data[:, at : at + count] = numbers(piece)[:, None] if single else piece  # type: ignore[assignment]
        at, feature = at + count, feature + width_of(piece)
    indptr = np.arange(m + 1) * total
    made = csr_array((data.reshape(-1), indices.reshape(-1), indptr), shape=(m, width))
    made.has_canonical_format = True
    return made
