"""Centers laid out in panels, rows made ready for them, and how far exponents may be off.

With s = x - p, u = z - p and g = gamma log2 e, the exponent of two of a kernel value is

    y = x.w + c + r,    x = 2 g s,   w = u,   c = -g |s|^2 [+ log2 |a|],   r = -g |u|^2.

All four are rounded to the precision of the panels, whose unit is v; the product is summed up
from zero, feature by feature, then c and r are added. In the l-th of L places a product is rounded
with all sums that follow, L - l + 1 times, so that (Cauchy-Schwarz) the sum errs by at most
v |x|' |w|' with |x|'^2 = sum_l (L - l + 1) x_l^2: half of the usual L v |x| |w|. Together

    |error of y| <= v (|x|' |w|' + 4 |x| |w| + 2 |c| + |log2 a| + g (R + |u|)^2 + g |u|^2)
                    + u (d + 8) (g R^2 + g |u|^2 + |x| |u|)

where R = max |s| of a block of centers, and u = 2^-53 is for what was computed in doubles before.
A kernel value found as k is at most k 2^error, whatever the error is.

Panels of doubles (v = u) begin with c + r, so that every term of y may be rounded L + 1 times:

    |error of y| <= u (L + 1) (|x| |w| + |c| + g |u|^2) + what is rounded before

at most the formula above with v = (L + 4) u, which is what `error_terms` gets for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import (
    FloatArray,
    Rows,
    dense_block,
    is_sparse,
    row_blocks,
    some_rows,
)
from kernelite.series.rounding import LOG2_E, UNIT
from kernelite.support.records import dataclass

__all__ = [
    "BLOCK_PANELS",
    "LOG2_E",
    "Layout",
    "Panels",
    "aligned",
    "error_terms",
    "feature_order",
    "feature_sums",
    "middle",
    "shown_centers",
]

SHARED_MAJORITY = 0.5  # of the centers that share a value for it to be the origin of a feature
SAME_PLACE = 1e-12  # of a feature's reach, that a row may be off its origin and count as there
ENTRIES_PAY = 0.5  # rows with fewer of all features are taken entry by entry
FEWEST_PANEL_FEATURES = 16  # of narrower rows, entries are never taken one by one
SHOWN_ROWS = 16  # so many rows of a block show how many entries rows have
BLOCK_BYTES, BLOCK_PANELS = 1 << 18, 8  # of panels that many rows meet in turn
COPIED_NUMBERS = 1 << 17  # of centers, that are copied at a time, since all may be many
SHOWN_CENTERS = 64  # that show what rows are like
CACHE_LINE_BYTES = 64  # bytes that a processor takes from memory at once


@dataclass(frozen=True, eq=False)
class Layout:
    """Centers about a point, features in the order in which products are summed.

    Shifted centers are made some at a time, when they are asked for: all would take as much memory
    as the model.

    Parameters
    ----------
    point : ndarray of shape (d,)
        p.
    order : ndarray of shape (L,)
        Features in which centers differ from p, those with small entries first: what is added
        first is rounded most often.
    centers : ndarray or csr_array of shape (n, d)
        x, as they are.
    gamma : float
    filled : float
        The share of entries of s that are not zero.
    """

    point: FloatArray
    order: NDArray[np.int64]
    centers: Rows
    gamma: float
    filled: float

    @classmethod
    def about_middle(cls, centers: Rows, gamma: float) -> Layout:
        """About the value that most centers share, per feature, else about their mean."""
        return cls.about(middle(dense_block(centers, slice(None))), centers, gamma)

    @classmethod
    def about_origin(cls, centers: FloatArray, gamma: float) -> Layout:
        """About zero, for kernels of x.z."""
        return cls.about(np.zeros(centers.shape[1]), centers, gamma)

    @classmethod
    def about(cls, point: FloatArray, centers: Rows, gamma: float) -> Layout:
        """About a point."""
        squares, filled = feature_sums(point, centers)
        order = feature_order(squares)
        return cls(point, order, centers, gamma, filled / max(centers.shape[0] * len(order), 1))

    @classmethod
    def without_centers(cls, point: FloatArray, gamma: float) -> Layout:
        """Where centers are met as they are."""
        d = len(point)
        return cls(point, np.arange(d), np.empty((0, d)), gamma, 1.0)

    @property
    def n_centers(self) -> int:
        """n."""
        return int(self.centers.shape[0])

    @property
    def size(self) -> int:
        """Numbers of all shifted centers, n L."""
        return self.n_centers * len(self.order)

    def shifted(self, some: slice | NDArray[np.intp]) -> FloatArray:
        """s of some centers, shape (some, L)."""
        found = np.take(dense_block(self.centers, some), self.order, axis=1)
        found -= self.point[self.order]
        return found

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """All shifted centers, some at a time."""
        for block in row_blocks(self.n_centers, _rows_copied(len(self.order))):
            yield block, self.shifted(block)

    def weighted(self, weights: FloatArray) -> FloatArray:
        """sum_i w_i s_i, shape (L,); of weights of several outputs, (n, k): shape (L, k)."""
        total = np.zeros((len(self.order), *weights.shape[1:]))
        for block, s in self.blocks():
            total += s.T @ weights[block]
        return total

    @property
    def g(self) -> float:
        """gamma log2 e."""
        return self.gamma * LOG2_E

    @cached_property
    def squares(self) -> FloatArray:
        """|s|^2, shape (n,)."""
        squares = np.empty(self.n_centers)
        for block, s in self.blocks():
            np.einsum("ij,ij->i", s, s, out=squares[block])
        return squares

    def reach(self, centers: NDArray[np.intp]) -> float:
        """R = max |s| of some centers."""
        return math.sqrt(float(self.squares[centers].max()))

    def chains(self) -> FloatArray:
        """|s|' = sqrt(sum_l (L - l + 1) s_l^2), shape (n,): roundings of products grow with it."""
        chains, weights = np.empty(self.n_centers), np.arange(len(self.order), 0, -1.0)
        for block, s in self.blocks():
            chains[block] = np.sqrt(np.square(s, out=s) @ weights)
        return chains

    @property
    def sparse(self) -> bool:
        """Whether rows like the centers had better be taken entry by entry."""
        return self.filled <= ENTRIES_PAY and len(self.order) >= FEWEST_PANEL_FEATURES

    def few_entries(self, rows: Rows) -> bool:
        """Whether rows had better be taken entry by entry, as some of them show."""
        if not self.sparse or not rows.shape[0]:
            return False
        if is_sparse(rows):
            most = rows.nnz / rows.shape[0] + len(self.always)
            return bool(most <= ENTRIES_PAY * len(self.order))
        if len(rows) == 1:
            return True  # asking would take as long as summing it up
        some = rows[:: max(1, len(rows) // SHOWN_ROWS)][:, self.order]
        filled = np.abs(some - self.point[self.order]) > self.least
        return bool(filled.mean() <= ENTRIES_PAY)

    @cached_property
    def always(self) -> NDArray[np.int64]:
        """Features in which the point is not zero: a sparse row is off it without an entry."""
        return np.flatnonzero(self.point)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Where each feature stands in the order, shape (d,); -1 for none."""
        places = np.full(len(self.point), -1)
        places[self.order] = np.arange(len(self.order))
        return places

    @cached_property
    def least(self) -> FloatArray:
        """How far a row's feature may be off p and count as there, shape (L,)."""
        reach = np.zeros(len(self.order))
        for _, s in self.blocks():
            np.maximum(reach, np.abs(s, out=s).max(axis=0, initial=0.0), out=reach)
        return SAME_PLACE * reach


@dataclass(frozen=True, eq=False)
class Panels:
    """Some centers of a layout, in an order, padded to whole panels; blocks of panels.

    Parameters
    ----------
    layout : Layout
    precision : Precision
        Of `kernels.exp2`.
    lines : ndarray of shape (panels L width,)
    exponents : ndarray of shape (panels width,)
        c; minus infinity where there is no center.
    starts : ndarray of shape (B + 1,)
        The first panel of each block.
    """

    layout: Layout
    precision: Any
    lines: NDArray[Any]
    exponents: NDArray[Any]
    starts: NDArray[np.int64]

    @classmethod
    def lay_out(
        cls,
        layout: Layout,
        precision: Any,
        groups: list[NDArray[np.intp]],
        weights: FloatArray | None = None,
    ) -> Panels:
        """One or more blocks per group of centers; log2 of |weights| (n,) is added to exponents."""
        width, length = precision.panel, len(layout.order)
        most = max(1, min(BLOCK_PANELS, BLOCK_BYTES // max(1, width * length * precision.size)))
        counts = [-(-len(group) // width) for group in groups]
        starts, first = [0], 0
        for count in counts:
            starts += [min(first + step, first + count) for step in range(most, count + most, most)]
            first += count
        c = _aligned_room((first * width,), precision.dtype)
        c[:] = -np.inf
        lines = _aligned_room((first, length, width), precision.dtype)
        at, step = 0, _rows_copied(width * length)
        for group, count in zip(groups, counts):
            for part in row_blocks(len(group), COPIED_NUMBERS):
                some, place = group[part], at * width + part.start
                exponents = -layout.g * layout.squares[some]
                if weights is not None:
                    exponents += np.log2(np.abs(weights[some]))
                c[place : place + len(some)] = exponents
            for part in row_blocks(count, step):
                some, panels = group[part.start * width : part.stop * width], part.stop - part.start
                x = np.zeros((panels * width, length))
                np.multiply(layout.shifted(some), 2.0 * layout.g, out=x[: len(some)])
                x = x.reshape(panels, width, length).transpose(0, 2, 1)
                lines[at + part.start : at + part.stop] = x
            at += count
        return cls(layout, precision, lines.reshape(-1), c, np.array(starts, np.int64))

    @classmethod
    def by_sign(
        cls, layout: Layout, precision: Any, weights: FloatArray, *, inside: bool = False
    ) -> tuple[Panels, list[NDArray[np.intp]], FloatArray]:
        """Centers of one sign stand together, by their norms: panels, centers and sign of a block.

        Logarithms of |weights| (n,) are part of the exponents if these are `inside`; else |weights|
        stand in the place of exponents.
        """
        near = np.argsort(layout.squares, kind="stable")
        groups = [near[own[near]] for own in (weights > 0.0, weights < 0.0)]
        del near
        made = cls.lay_out(layout, precision, groups, weights if inside else None)
        second = -(-len(groups[0]) // precision.panel) * precision.panel
        if not inside:
            held = np.zeros(len(made.exponents), precision.dtype)
            for start, group in zip((0, second), groups):
                held[start : start + len(group)] = np.abs(weights[group])
            made = replace(made, exponents=aligned(held))
        ends = (made.starts * precision.panel).tolist()
        blocks = [
            groups[0][a:b] if a < second else groups[1][a - second : b - second]
            for a, b in pairwise(ends)
        ]
        return made, blocks, np.array([math.copysign(1.0, weights[block[0]]) for block in blocks])

    @property
    def n_blocks(self) -> int:
        """B."""
        return len(self.starts) - 1


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """A copy that begins with a cache line: loads that straddle two take twice as long.

    Examples
    --------
    >>> found = aligned(np.arange(5.0)[1:])
    >>> found.ctypes.data % 64, found
    (0, array([1., 2., 3., 4.]))
    """
    made = _aligned_room(array.shape, array.dtype)
    made[...] = array
    return made


def _aligned_room(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """As `aligned`, with no numbers in it yet."""
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(nbytes + CACHE_LINE_BYTES, np.uint8)
    start = -room.ctypes.data % CACHE_LINE_BYTES
    made: NDArray[Any] = room[start : start + nbytes].view(dtype).reshape(shape)
    return made


def error_terms(
    layout: Layout, groups: list[NDArray[np.intp]], unit: float, weights: FloatArray | None = None
) -> FloatArray:
    """The exponent's error per group, shape (groups, 5).

    |error| <= t_0 |w|' + t_1 + t_2 |u| + t_3 |u|^2, and t_4 n |w| where only n entries were
    multiplied, instead of t_0 |w|'.
    """
    d, g, chains = len(layout.point), layout.g, layout.chains()
    dropped = float(np.linalg.norm(layout.least))
    terms = np.zeros((len(groups), 5))
    for number, group in enumerate(groups):
        if not len(group):
            continue
        square = float(layout.squares[group].max())
        reach = math.sqrt(square)
        x, log = 2.0 * g * reach, 0.0
        if weights is not None:
            log = float(np.abs(np.log2(np.abs(weights[group]))).max())
        sure = UNIT * (d + 8)
        terms[number] = (
            unit * 2.0 * g * float(chains[group].max()),
            unit * (2.0 * (g * square + log) + log + g * square)
            + sure * g * square
            + x * dropped
            + 1e-15,  # entries too small for the precision: see MOST_NORM
            unit * (4.0 * x + 2.0 * g * reach) + sure * x,
            unit * 2.0 * g + sure * g,
            unit * x,
        )
    return terms * (1.0 + 1e-3)  # the terms' own roundings, and products of roundings


def shown_centers(centers: Rows) -> FloatArray:
    """Some centers, as rows like those to come."""
    return dense_block(some_rows(centers, SHOWN_CENTERS), slice(None))


def _rows_copied(width: int) -> int:
    """How many rows of so many numbers are copied at a time."""
    return max(1, COPIED_NUMBERS // max(1, width))


def feature_sums(point: FloatArray, centers: Rows) -> tuple[FloatArray, int]:
    """The sum of (x_j - p_j)^2 of each feature, shape (d,), and how many of all are not zero."""
    squares, filled = np.zeros(len(point)), 0
    for block in row_blocks(centers.shape[0], _rows_copied(len(point))):
        s = dense_block(centers, block) - point
        squares += np.einsum("ij,ij->j", s, s)
        filled += int(np.count_nonzero(s))
    return squares, filled


def feature_order(squares: FloatArray) -> NDArray[np.int64]:
    """Features that differ anywhere, those with small sums of squares first."""
    order = np.argsort(squares, kind="stable")
    return order[squares[order] > 0.0]


def middle(centers: FloatArray) -> FloatArray:
    """Per feature the value that most centers share, else their mean: shape (d,)."""
    n, d = centers.shape
    if not n:
        return np.zeros(d)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = centers.mean(axis=0)
    median, shared = np.empty(d), np.empty(d, np.bool_)
    for block in row_blocks(d, max(1, COPIED_NUMBERS // n)):
        some = centers[:, block]
        median[block] = np.partition(some, n // 2, axis=0)[n // 2]
        shared[block] = np.count_nonzero(some == median[block], axis=0) > SHARED_MAJORITY * n
    return np.where(shared | ~np.isfinite(mean), median, mean)
