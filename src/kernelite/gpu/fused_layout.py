"""Centers as slices of half precision, in tiles, and which outputs each tile adds to.

In: an expansion as the CPU's exact engine lays it out. Out: arrays for `kernels.fused`. With one
output, centers of positive coefficients come first and negative ones after them, so that one sum
per tile serves f and sum |A| K. With several, centers are grouped so that their coefficients fit
a narrow table: one-vs-one machines have nonzero coefficients only in the pairs of their own class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelite.cpu.exact_dense import DenseExact
from kernelite.gpu.form_layout import padded
from kernelite.gpu.fused_rounding import CHUNK, LOG2E, slice_bits
from kernelite.rows.inputs import FloatArray

__all__ = [
    "Group",
    "Slices",
    "center_slices",
    "exponent_of",
    "groups_of",
    "in_tiles",
    "sliced",
    "width_of",
]

TILE, GROUP_TILE = 128, 64  # centers: one output's, and a group's, are padded to whole tiles
WIDEST = 64  # outputs of a group
SMALLEST, LARGEST = 2.0**-26, 2.0**46  # of an entry of 2 g s, so that scales stay in range


class Slices(NamedTuple):
    """2 g s scaled by 2^scale, in three slices (3, n, D), and -g |s|^2 (n,)."""

    table: NDArray[np.float16]
    shifts: NDArray[np.float32]
    scale: int


class Group(NamedTuple):
    """Centers and the outputs that they add to."""

    centers: NDArray[np.int64]
    outputs: NDArray[np.int64]


def width_of(length: int) -> int:
    """D: features padded to a tile's side, or to whole chunks.

    Examples
    --------
    >>> width_of(22), width_of(122), width_of(776)
    (32, 128, 832)
    """
    return padded(length) if length <= CHUNK else -(-length // CHUNK) * CHUNK


def sliced(values: FloatArray, bits: int, *, fine: bool = True) -> NDArray[np.float16]:
    """Whole numbers, multiples of 2^-bits, and the rests rounded to 11 bits: (3, *shape).

    If not `fine`, the second slice is all that is left, rounded to 11 bits, and the third is zero.
    """
    whole = np.rint(values)
    rest = values - whole
    if not fine:
        return np.stack([whole, rest, np.zeros_like(rest)]).astype(np.float16)
    fraction = np.ldexp(np.rint(np.ldexp(rest, bits)), -bits)
    return np.stack([whole, fraction, rest - fraction]).astype(np.float16)


def exponent_of(largest: float, bits: int) -> int:
    """e such that largest 2^e lies in [2^(bits-1), 2^bits); 0 for zero.

    Examples
    --------
    >>> exponent_of(1.0, 9)
    8
    """
    return bits - math.frexp(largest)[1] if largest else 0


def center_slices(dense: DenseExact) -> Slices | None:
    """The centers of an expansion; None where an entry is out of range."""
    width = dense.factors.shape[1] - 2
    factors = dense.factors[:, :width] * LOG2E
    largest = float(np.abs(factors).max(initial=0.0))
    if largest and not SMALLEST <= largest <= LARGEST:
        return None
    bits = slice_bits(width)
    scale = exponent_of(largest, bits)
    table = np.zeros((len(factors), width_of(width)))
    table[:, :width] = np.ldexp(factors, scale)
    shifts = (dense.factors[:, width] * LOG2E).astype(np.float32)
    return Slices(sliced(table, bits), shifts, scale)


def in_tiles(indices: NDArray[np.int64], tile: int) -> NDArray[np.int64]:
    """Indices of centers padded to whole tiles by -1."""
    missing = -len(indices) % tile
    return np.append(indices, np.full(missing, -1, dtype=np.int64))


def groups_of(coefficients: FloatArray, families: Sequence[Any] = ()) -> list[Group]:
    """Centers and outputs in groups of at most `WIDEST` outputs.

    Parameters
    ----------
    coefficients : ndarray of shape (n, k)
    families : sequence of arrays of int
        Sets of outputs; taken if each center's nonzero coefficients lie within one of them.

    Examples
    --------
    >>> A = np.array([[1.0, 1.0, 0.0], [2.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    >>> [group.centers.tolist() for group in groups_of(A, [[0, 1], [0, 2]])]
    [[0, 2], [1]]
    """
    n, k = coefficients.shape
    used, everyone = coefficients != 0.0, np.arange(n)
    family_of = np.full(n, -1)
    for index, outputs in enumerate(families):
        outside = np.ones(k, dtype=np.bool_)
        outside[outputs] = False
        family_of[(family_of < 0) & ~used[:, outside].any(axis=1)] = index
    narrow = families and max(len(outputs) for outputs in families) <= WIDEST
    if narrow and (family_of >= 0).all():
        found = [
            Group(np.flatnonzero(family_of == index), np.asarray(outputs, dtype=np.int64))
            for index, outputs in enumerate(families)
        ]
        return [group for group in found if len(group.centers)]
    return [
        Group(everyone, np.arange(start, min(start + WIDEST, k))) for start in range(0, k, WIDEST)
    ]
