"""What steps make of columns, before it is put together: numbers, blocks, places of ones.

A row of one-hot features is stored as the few places of its ones. `assemble` puts pieces side by
side: as a sparse matrix where most features would be zero, else as a dense one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.columns import Coded, Column, numbers
from kernelite.data.rows.inputs import FloatArray, Rows, is_sparse
from kernelite.support.records import dataclass

__all__ = ["Hot", "Piece", "Pieces", "as_columns", "assemble"]

FILLED_AT_MOST = 0.5  # of the features: sparse from there on,
FEWEST_FEATURES = 16  # if there are so many


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
