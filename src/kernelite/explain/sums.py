"""Shapley values of the terms of a model, added up: products of factors, polynomials, tails.

`shapley` has the formulas and the proof of the bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.threads import for_each_chunk, thread_count
from kernelite.data.rows.inputs import FloatArray, row_blocks
from kernelite.explain.kernels import TILE_CENTERS, factors, shapley_sums
from kernelite.explain.quadrature import Rules, rules
from kernelite.explain.terms import PolynomialTerm, ProductTerm, SeenBy
from kernelite.machine.exactly import UNIT
from kernelite.machine.machine import PolynomialTail
from kernelite.support.errors import UnsupportedModelError
from kernelite.support.terminal import Progress

__all__ = ["Sums", "Tiles", "add_polynomial", "add_products", "add_tail"]

ROOM = 1 << 22  # numbers held at once, of polynomial terms: 32 MB
ROWS_PER_BLOCK = 64  # rows of a block
FEW_PLAYERS = 24  # for so many the exact rule is as fast as choosing one
LEFT_OUT_SHARE = 2.0**-52  # of a product that a rule leaves out, unless a tolerance says more
HIGHER_ORDERS = 1.05  # higher orders


@dataclass(eq=False)
class Sums:
    """What is added up term by term: values, bounds, and the mean score of the background."""

    values: FloatArray  # (m, k, p)
    bounds: FloatArray
    base: FloatArray  # (k,)
    base_bounds: FloatArray
    background: int

    @classmethod
    def empty(cls, m: int, background: int, p: int, k: int) -> Sums:
        values, base = np.zeros((m, k, p)), np.zeros(k)
        return cls(values, np.zeros_like(values), base, np.zeros(k), background)

    def add_constant(self, own: SeenBy) -> None:
        """The intercept, which belongs to the mean of the background."""
        self.base[own.outputs] += own.expansion.intercept
        lost = own.expansion.known.intercept + 4.0 * UNIT * np.abs(own.expansion.intercept)
        self.base_bounds[own.outputs] += lost


# Products of factors, one per player.


class Products(Protocol):
    """Where products of factors are summed up: on processors, or by torch on a device.

    Factors of rows and centers are exp(-e), a player each; what they are held in is its own affair.
    """

    @property
    def line(self) -> int:
        """Numbers that the factors of a row take."""

    @property
    def room(self) -> int:
        """Numbers held at once, of rows and of the background each."""

    @property
    def lost(self) -> float:
        """More than all that underflows, per unit of a coefficient."""

    def factors(self, rows: FloatArray, moves: FloatArray) -> Any:
        """Of rows (m, d), whose coordinates may be off by `moves`, and all centers."""

    def base(self, v: Any, background: int) -> tuple[FloatArray, FloatArray]:
        """Sums of the background's own products, shape (k,), and how far they are off."""

    def sums(
        self, u: Any, v: Any, rules: Rules, background: int
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Values and sizes of shape (m, k, p), middles (m, k), over these background rows.

        `background` counts all of them. Sizes are what roundings grow with, and middles
        sum |A| prod (u + v) / 2: see `shapley`.
        """


LayOut: TypeAlias = Callable[[ProductTerm, NDArray[np.int64], int, float], Products]
"""Of a term whose `relative` says all that exponents err by, the player of each feature, how many
there are, and how far centers may be off, relatively."""


def add_products(
    total: Sums,
    term: ProductTerm,
    own: SeenBy,
    other: SeenBy,
    places: NDArray[np.int64],
    tolerance: float | None,
    lay_out: LayOut,
    bar: Progress,
) -> None:
    """Add what a sum of products gives to players, for all rows."""
    used, player = np.unique(places, return_inverse=True)
    p = max(1, len(used))
    largest = int(np.bincount(player, minlength=1).max(initial=1))  # features of a player
    relative = HIGHER_ORDERS * (term.relative + (largest + 8.0) * UNIT)
    term, moves = replace(term, relative=relative), own.expansion.known.centers
    products = lay_out(term, player.astype(np.int64), p, moves)
    sizes = np.abs(term.coefficients).sum(axis=0)
    share = LEFT_OUT_SHARE
    if tolerance is not None:
        largest_size = max(float(sizes.max(initial=0.0)), 1e-300)
        share = max(LEFT_OUT_SHARE, min(0.1, tolerance / (8.0 * largest_size)))
    nodes = rules(p, share, p > FEW_PLAYERS)
    m, at_once = len(own.rows), max(1, products.room // products.line)
    for others in row_blocks(len(other.rows), at_once):
        v = products.factors(other.rows[others], other.moves[others])
        base, grown = products.base(v, total.background)
        total.base[own.outputs] += base / total.background
        total.base_bounds[own.outputs] += HIGHER_ORDERS * grown / total.background
        for block in row_blocks(m, min(ROWS_PER_BLOCK, at_once)):
            u = products.factors(own.rows[block], own.moves[block])
            found = products.sums(u, v, nodes, total.background)
            _put(total, own.outputs, used, block, found, share if nodes.side else 0.0)
            if others.start == 0:
                bar.advance(len(range(m)[block]))
    lost = term.lost + products.lost * (1.0 + sizes)
    total.bounds[:, own.outputs] += lost[None, :, None]
    total.base_bounds[own.outputs] += lost


def _put(
    total: Sums,
    outputs: NDArray[np.int64],
    used: NDArray[np.int64],
    block: slice,
    found: tuple[FloatArray, FloatArray, FloatArray],
    share: float,
) -> None:
    values, sizes, middles = (array / total.background for array in found)
    at = np.ix_(np.arange(block.start, block.start + len(values)), outputs, used)
    total.values[at] += values
    left_out = HIGHER_ORDERS * (64.0 / 15.0) * share * middles
    total.bounds[at] += HIGHER_ORDERS * sizes + left_out[:, :, None]


# Polynomials of degree 1 and 2.


def add_polynomial(
    total: Sums, term: PolynomialTerm, own: SeenBy, other: SeenBy, places: NDArray[np.int64]
) -> None:
    """Add what a linear or quadratic term gives to players: closed forms, feature by feature.

    With m = sum_i A_i s_i and M = sum_i A_i s_i s_i', a quadratic term gives feature l

        mean_b (x_l - b_l) (gamma^2 [M (x + b)]_l + 2 coef0 gamma m_l),

    and a linear one gamma m_l (x_l - mean b_l). Rounding is u times a count of operations times the
    same expressions of absolute values.
    """
    x, b = own.rows, other.rows
    (m, d), n = x.shape, len(term.centers)
    # An error eta of a coordinate counts as eta / u more of its size: a unit of that is eta.
    ax, ab = np.abs(x) + own.moves / UNIT, np.abs(b) + other.moves / UNIT
    units = HIGHER_ORDERS * (UNIT * (n + 3.0 * d + len(b) + 32.0) + 2.0 * term.relative)
    farthest = np.abs(term.centers).max(axis=0, initial=0.0)[None, :]
    for output, place in enumerate(own.outputs):
        A, lost = term.coefficients[:, output], term.lost[output : output + 1]
        plain = _Moments.of(term, A, term.centers)
        sizes = _Moments.of(term, units * np.abs(A), np.abs(term.centers), sizes=True)
        slack = _Moments.of(term, lost, farthest, sizes=True)
        for block in row_blocks(m, max(1, ROOM // max(1, d * 4))):
            given = plain.given(x[block], b, -1.0)
            bounds = sizes.given(ax[block], ab, 1.0) + slack.given(ax[block], ab, 1.0)
            np.add.at(total.values[block, place].T, places, given.T)
            np.add.at(total.bounds[block, place].T, places, bounds.T)
        total.base[place] += float(np.mean(plain.at(b)))
        total.base_bounds[place] += float(np.mean(sizes.at(ab) + slack.at(ab)))


@dataclass(frozen=True, eq=False)
class _Moments:
    """A polynomial term of one output, by sums over its centers."""

    constant: float
    linear: FloatArray  # (d,)
    matrix: FloatArray | None  # (d, d), of degree 2

    @classmethod
    def of(
        cls, term: PolynomialTerm, A: FloatArray, centers: FloatArray, *, sizes: bool = False
    ) -> _Moments:
        """Of coefficients A; `sizes`: of absolute values."""
        gamma, coef0 = term.gamma, abs(term.coef0) if sizes else term.coef0
        first = A @ centers
        if term.degree == 1:
            return cls(coef0 * float(A.sum()), gamma * first, None)
        matrix = gamma * gamma * (centers.T * A) @ centers
        return cls(coef0 * coef0 * float(A.sum()), 2.0 * coef0 * gamma * first, matrix)

    def at(self, rows: FloatArray) -> FloatArray:
        """The term itself, shape (m,)."""
        found = self.constant + rows @ self.linear
        return found if self.matrix is None else found + ((rows @ self.matrix) * rows).sum(axis=1)

    def given(self, x: FloatArray, b: FloatArray, sign: float) -> FloatArray:
        """What each feature is given, shape (m, d); `sign` is -1 for values, 1 for their sizes."""
        mean = b.mean(axis=0)
        found = (x + sign * mean) * self.linear
        if self.matrix is not None:
            # mean_b (x + sign b) (M x + M b), taken apart
            own, others = x @ self.matrix, b @ self.matrix
            found = found + (x + sign * mean) * own
            found = found + x * others.mean(axis=0) + sign * (b * others).mean(axis=0)
        return found


def add_tail(
    total: Sums, tail: PolynomialTail, own: SeenBy, other: SeenBy, places: NDArray[np.int64]
) -> None:
    """Add the polynomial of an interpolator, as far as it is linear."""
    degrees = tail.powers.sum(axis=1)
    if (degrees > 1).any():
        raise UnsupportedModelError(
            "the polynomial beside this interpolator's kernel has degree 2 or more, whose Shapley "
            "values are not served; use degree=1 or smoothing without one."
        )
    slopes = np.zeros((tail.n_features, tail.n_outputs))
    for powers, coefficients in zip(tail.powers[degrees == 1], tail.coefficients[degrees == 1]):
        slopes[powers.argmax()] += coefficients
    x, b = ((one.rows - tail.shift) / tail.scale for one in (own, other))
    values, sizes = tail.values(other.rows)
    mean = b.mean(axis=0)
    units = HIGHER_ORDERS * UNIT * (len(b) + 16.0)
    for output, place in enumerate(own.outputs):
        given = (x - mean) * slopes[:, output]
        sizes_of = np.abs(x) + np.abs(b).mean(axis=0) + 2.0 * np.abs(tail.shift / tail.scale)
        reach = sizes_of * np.abs(slopes[:, output])
        np.add.at(total.values[:, place].T, places, given.T)
        np.add.at(total.bounds[:, place].T, places, units * reach.T)
        total.base[place] += float(values[:, output].mean())
        off = float(sizes[:, output].mean()) + units * float(np.abs(values[:, output]).mean())
        total.base_bounds[place] += off


# Shapley values of products on processors: factors and their quadrature, by compiled loops.
#
# In: a term, rows. Out: sums over centers and background rows, as `sums.Products` states them.


PARTS_AT_ONCE = 32  # pieces of the centers that threads can take


@dataclass(frozen=True, eq=False)
class Tiles:
    """The centers of a term in tiles of `TILE_CENTERS`, feature by feature.

    The term's `relative` says all that exponents err by.
    """

    centers: FloatArray  # (tiles, d TILE_CENTERS)
    weights: FloatArray  # (tiles, k TILE_CENTERS)
    term: ProductTerm
    player: NDArray[np.int64]
    count: int
    center_moves: float

    room = 1 << 22  # 32 MB
    lost = 1e-280

    @classmethod
    def of(cls, term: ProductTerm, player: NDArray[np.int64], p: int, moves: float) -> Tiles:
        """Laid out for p players; centers may be off by `moves`, relatively."""
        if not jit_available():
            raise UnsupportedModelError(
                "Shapley values need compiled kernels, and there are none: see `kernelite warm-up "
                "--help`."
            )
        n, d = term.centers.shape
        tiles = max(1, -(-n // TILE_CENTERS))
        k = term.coefficients.shape[1]
        centers, weights = np.zeros((tiles * TILE_CENTERS, d)), np.zeros((tiles * TILE_CENTERS, k))
        centers[:n], weights[:n] = term.centers, term.coefficients
        if n:
            centers[n:] = term.centers[-1]  # with a coefficient of zero

        def by_lanes(array: FloatArray) -> FloatArray:
            each = array.reshape(tiles, TILE_CENTERS, -1).transpose(0, 2, 1)
            return np.ascontiguousarray(each).reshape(tiles, -1)

        return cls(by_lanes(centers), by_lanes(weights), term, player, p, moves)

    @property
    def line(self) -> int:
        """Numbers that the factors of a row take."""
        return len(self.centers) * self.count * TILE_CENTERS

    def factors(self, rows: FloatArray, moves: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of each row, tile, player and lane, and what errors of exponents do to their products."""
        items = len(rows) * len(self.centers)
        out, errors = np.empty((items, self.count * TILE_CENTERS)), np.empty((items, TILE_CENTERS))

        def work(part: slice) -> None:
            factors(
                *(rows, moves, self.centers, self.term.square, self.term.city, self.player),
                *(self.term.relative, self.center_moves, part.start, part.stop),
                *(np.empty(self.count * TILE_CENTERS), out, errors),
            )

        for_each_chunk(work, items, max(1, items // (4 * thread_count())))
        return out, errors

    def base(
        self, v: tuple[FloatArray, FloatArray], background: int
    ) -> tuple[FloatArray, FloatArray]:
        """Sums of the background's own products, and their rounding."""
        T, p = len(self.centers), self.count
        products = v[0].reshape(-1, T, p, TILE_CENTERS).prod(axis=2)
        weights = self.weights.reshape(T, -1, TILE_CENTERS)
        units = UNIT * (6.0 * p + len(self.term.centers) + background + 32.0)
        off = products * (units + 1.01 * v[1].reshape(-1, T, TILE_CENTERS))
        return (
            np.einsum("btl,tkl->k", products, weights),
            np.einsum("btl,tkl->k", off, np.abs(weights)),
        )

    def sums(
        self,
        u: tuple[FloatArray, FloatArray],
        v: tuple[FloatArray, FloatArray],
        rules: Rules,
        background: int,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Values and sizes of shape (m, k, p) and middles (m, k), over these background rows."""
        T, p = len(self.centers), self.count
        k, m = self.weights.shape[1] // TILE_CENTERS, len(u[0]) // T
        parts = min(T, PARTS_AT_ONCE)
        per_item = -(-T // parts)
        parts = -(-T // per_item)
        units = UNIT * (8.0 * p + rules.most + background + per_item * TILE_CENTERS + parts + 32.0)
        out, sizes = np.empty((parts * m, k * p)), np.empty((parts * m, k * p))
        middles = np.empty((parts * m, k))

        def work(part: slice) -> None:
            shapley_sums(
                *(*u, *v, self.weights, rules.nodes, rules.weights, rules.starts, rules.choice),
                *(rules.side, rules.steps, units, m, T, per_item, part.start, part.stop),
                *(np.empty((5, p * TILE_CENTERS)), np.empty(5 * TILE_CENTERS)),
                *(out, sizes, middles),
            )

        for_each_chunk(work, parts * m, max(1, parts * m // (4 * thread_count())))
        return (
            out.reshape(parts, m, k, p).sum(axis=0),
            sizes.reshape(parts, m, k, p).sum(axis=0),
            middles.reshape(parts, m, k).sum(axis=0),
        )
