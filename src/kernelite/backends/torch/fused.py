"""Exact sums on tensor cores with a proven bound: products, exp2 and sums in one kernel.

In: rows. Out: scores and bounds. It needs Triton; the tests have the same in torch operations, the
twin of the kernels. With one output, centers of positive coefficients come first and negative ones
after them, so that one sum per tile serves f and sum |A| K. With several, centers are grouped so
that their coefficients fit a narrow table: one-vs-one machines have nonzero coefficients only in
the pairs of their own class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.cpu.exact_rounding import ExactRounding
from kernelite.backends.torch.exact import ExactBound
from kernelite.backends.torch.forms import padded
from kernelite.backends.torch.tensors import Buffers, Tensor
from kernelite.data.rows.inputs import FloatArray
from kernelite.program.bounded import Bounded
from kernelite.series.rounding import SAFETY, SINGLE_UNIT

if TYPE_CHECKING:
    from kernelite.backends.torch.kernels.rows import OpenRows

__all__ = [
    "CHUNK",
    "FARTHEST",
    "LOG2E",
    "NEAREST",
    "RowSlices",
    "SliceSums",
    "bound_constants",
    "by_side",
]

# What the fused sums may err by: half-precision slices on tensor cores, inside a proven bound.
#
#     f(z) = sum_i A_i 2^(e_i) + b,    e_i = y_i.u - g |s_i|^2 - g |u|^2,    g = gamma log2(e)
#
# with s_i = x_i - p, u = z - p and y_i = 2 g s_i, in doubles.
#
# *Slices.* The entries of a row u are scaled by a power of two until the largest lies in
# [2^(b-1), 2^b), and cut into three numbers of half precision: u1, a whole number, |u1| <= 2^b;
# u2, a multiple of 2^-b, |u2| <= 1/2; u3, what is left, |u3| <= 2^-(b+1), rounded to 11 bits. So
# |u - u1 - u2 - u3| <= 2^-(b+12) + 2^-25. The centers' y likewise, with one scale for all. In these
# units a product over L features is replaced by three accumulators
#
#     a1 = u1.y1,    a2 = u1.y2 + u2.y1,    a3 = u2.y2 + u1.y3 + u3.y1
#
# with L 2^(2b) <= 2^24. (tf32x3 has the same 11 bits per number, half the rate of half precision,
# and no exact sums, so that its bound is several times larger at the same cost.)
#
# *Tensor cores.* ASSUMED, and attacked by `benchmarks gpu`: products of halves are exact; a sum of
# integer multiples of a unit, none of whose partial sums exceeds 2^24 units, is exact; and adding l
# products to an accumulator in any order, truncating instead of rounding, errs by at most
# l 2^-22 times the sum of their absolute values. That holds for any unit that aligns addends to the
# largest and keeps 24 bits or more, whatever it does below; Volta to Hopper keep more. Hence a1 and
# a2 are exact, and with |a3| <= 1.26 L, a3 errs by 3 L 2^-22 1.26 L. What a1 + a2 + a3 leaves
# out is u2.y3 + u3.y2 + u3.y3 <= L 2^-(b+1) (1 + 2^-b), and the rests, 2 L 2^b (2^-(b+12) + 2^-25).
#
# *The exponent.* With P = 2 g R |u| >= the sum of all |products|, R = max |s_i|: adding the
# accumulators, scaling back and adding -g |s|^2 and -g |u|^2, both rounded, in single precision
# costs 2^-24 (4 P + 3 g R^2 + 2 g |u|^2). So
#
#     |e^ - e| <= eps = unit slices(L, b) + 2^-24 1.01 (4 P + 3 g R^2 + 2 g |u|^2)
#
# where `unit` is the product of both scales: a power of two, known per row.
#
# *exp2.* ASSUMED to err by 2^-22 relatively where its value is normal, and to give at most 2^-125
# below, as PTX documents ex2.approx; `benchmarks gpu` tries all its inputs. So K^ = K (1 + t) with
# |t| <= 0.7 eps + 2^-22 for eps <= `MOST_ERROR`.
#
# *Sums.* With one output: coefficients and products round by 2^-24 each, CENTERS / 8 of them are
# summed in single precision, in any order; all else is added in doubles. With several, K <= 1 and A
# are cut into slices in the same way (b = 9, 64 centers a time) and summed on the tensor cores;
# what that leaves out is at most 2^-26 of the largest coefficient for each center. Of votes, two
# slices are taken, the second rounded to 11 bits, so |rest| <= 2^-12: that leaves out
# 2 * 2^9 * 2^-12 = 0.25 units squared for each center, and three products in one accumulator err by
# 3 * 64 * 2^-22 * 64 * 2^9 in a tile, together less than 0.3 * 2^-17 of the largest coefficient.
# Tiles are added in single precision. sum_i |A_i| K_i is summed beside, with several outputs by its
# bound sum_i (max_j |A_ij|) K_i, one number per group.
#
# *Doubles.* All that remains (s, u, |u|^2, the last sums) is in the bound of the exact engine,
# `cpu.exact_rounding`, which is added.

TENSOR = 2.0**-22  # per product that a tensor core adds to an accumulator
FUSED_EXP2 = 2.0**-22
CENTERS, CHUNK = 128, 64  # centers and features of a tile, at most
MOST_ERROR = 0.01  # of an exponent; beyond, nothing is known
SINGLE_UNDERFLOW = 2.0**-124  # what a kernel value or a product may lose by underflow
LOG2E = math.log2(math.e)
MOST_SLICED_FEATURES = 4096  # features: so that slices have six bits
MOST_EXPONENT = 4e3  # g R^2, so that constants and scales stay well inside single precision
LEFT_OUT = {True: 2.0**-26, False: 0.3 * 2.0**-17}  # of the largest coefficient, per center,
# in sums of several outputs: from three slices (fine), or two


def slice_bits(length: int) -> int:
    """b, the largest with L 2^(2b) <= 2^24, at most 9.

    Examples
    --------
    >>> slice_bits(22), slice_bits(122), slice_bits(776)
    (9, 8, 7)
    """
    return min(9, (24 - max(length - 1, 0).bit_length()) // 2)


def in_range(rounding: ExactRounding) -> bool:
    """Whether an expansion is within the range that the proof covers."""
    if rounding.polynomial or rounding.by_differences or not rounding.expansion.n_centers:
        return False
    gamma = rounding.expansion.gamma
    near = rounding.largest * LOG2E <= MOST_EXPONENT
    return 1e-12 <= gamma <= 1e12 and near and rounding.expansion.n_features <= MOST_SLICED_FEATURES


def slice_errors(length: int, n_centers: int, *, several: bool) -> tuple[float, float]:
    """What a unit of products errs by, and exp2 and the sums; from features and centers."""
    b, L = slice_bits(length), float(length)
    left_out = L * (2.0 ** -(b + 1) * 1.01 + 2.0 ** (b + 1) * (2.0 ** -(b + 12) + 2.0**-25))
    sums = SINGLE_UNIT * (CENTERS / 8 + 4.0)
    if several:  # slices of K and A, and additions of the padded tiles of a group or two
        sums = SINGLE_UNIT * (n_centers / 64 + 24.0) + 2.0**-25
    return 1.01 * (left_out + 4.0 * TENSOR * L * L), SAFETY * (FUSED_EXP2 + sums)


def bound_constants(
    rounding: ExactRounding,
    unit: float,
    errors: tuple[float, float],
    *,
    tiny: float,
    exponent: int,
    floor: float,
) -> FloatArray:
    """What kernels make a bound of, as `SliceSums._bounded` does: shape (10,).

        eps = c_0 |u| + c_1 |u|^2 + c_2 + c_3 (the row's unit), and nothing is known beyond c_4
        bound = (c_5 eps + c_6) c_7 sum |A| K + c_9,    score = c_7 sum A K + c_8

    Parameters
    ----------
    rounding : ExactRounding
    unit : float
        By which products are rounded when they are scaled back and norms are added.
    errors : (float, float)
        As `slice_errors` gives them.
    tiny : float
        More of eps, for rows whose entries are all tiny.
    exponent : int
        Sums are those of coefficients divided by 2^exponent.
    floor : float
        What underflows.
    """
    gamma, largest, step = rounding.expansion.gamma, rounding.largest, unit * LOG2E
    per_norm = step * 8.0 * math.sqrt(gamma * largest)  # gamma R = sqrt(gamma gamma R^2)
    known = (per_norm, step * 2.0 * gamma, step * 3.0 * largest + tiny, errors[0], MOST_ERROR)
    intercept = float(rounding.expansion.intercept[0])
    ends = (0.7 * SAFETY * SAFETY, SAFETY * errors[1], 2.0**exponent, intercept, floor)
    return np.array([*known, *ends])


# The layout: centers cut into slices, in tiles, grouped by the outputs that they add to.

TILE, GROUP_TILE = 128, 64  # centers: one output's, and a group's, are padded to whole tiles
OUTPUTS_PER_GROUP = 64  # outputs of a group
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


def by_side(a: FloatArray) -> tuple[NDArray[np.int64], int, FloatArray, int]:
    """Positive coefficients first, in whole tiles: indices, how many; |a| 2^-e, below 1, and e."""
    exponent = math.frexp(float(np.abs(a).max()))[1]
    order = [in_tiles(np.flatnonzero(side), TILE) for side in (a > 0.0, a < 0.0)]
    index = np.concatenate(order)
    weights = np.where(index >= 0, np.abs(np.ldexp(a[index], -exponent)), 0.0)
    return index, len(order[0]), weights, exponent


def groups_of(coefficients: FloatArray, families: Sequence[Any] = ()) -> list[Group]:
    """Centers and outputs in groups of at most `OUTPUTS_PER_GROUP` outputs.

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
    narrow = families and max(len(outputs) for outputs in families) <= OUTPUTS_PER_GROUP
    if narrow and (family_of >= 0).all():
        found = [
            Group(np.flatnonzero(family_of == index), np.asarray(outputs, dtype=np.int64))
            for index, outputs in enumerate(families)
        ]
        return [group for group in found if len(group.centers)]
    return [
        Group(everyone, np.arange(start, min(start + OUTPUTS_PER_GROUP, k)))
        for start in range(0, k, OUTPUTS_PER_GROUP)
    ]


# The sums.

GROUP_BITS = slice_bits(GROUP_TILE)  # of kernel values and coefficients, with several outputs
MOST_FUSED_ENTRIES = 1 << 29  # of centers, and of coefficients
FARTHEST, NEAREST = 60, -60  # exponents of a row's largest entry that its slices can hold


class RowSlices(NamedTuple):
    """u in three slices of half precision (3, m, D), and what scales products back.

    units, norms : float32 of shape (m,)
        What a product is multiplied with, and -g |u|^2.
    squares : float64 of shape (m,)
        |u|^2; infinite where a row is out of range.
    """

    table: Tensor
    units: Tensor
    norms: Tensor
    squares: Tensor


class SliceSums(Buffers):
    """An expansion laid out for tensor cores.

    Parameters
    ----------
    dense : DenseExact
        That `serves` accepts.
    families : sequence of arrays of int
        Sets of outputs that a center may add to, as `groups_of` takes them.
    """

    def __init__(self, dense: DenseExact, families: Sequence[Any] = ()) -> None:
        super().__init__()
        expansion, rounding = dense.expansion, dense.rounding
        slices = center_slices(dense)
        assert slices is not None
        n, k = expansion.coefficients.shape
        self.width, self.several, self.scale = slices.table.shape[2], k > 1, slices.scale
        self.gamma, self.n_outputs = expansion.gamma, k
        columns = dense.layout.order
        self.bits = slice_bits(len(columns))
        self.hold(point=dense.point, columns=columns, intercept=expansion.intercept)
        self.bound = ExactBound(rounding)
        largest = np.abs(expansion.coefficients).max(axis=0)
        with np.errstate(under="ignore"):
            floors = (n + 256) * largest * SINGLE_UNDERFLOW
        self.hold(rate=np.array([expansion.gamma * LOG2E]))
        if self.several:
            self._lay_out_several(expansion.coefficients, slices, families)
            held = self._centers_of_outputs(expansion.coefficients.shape[1])
            floors = held * largest * LEFT_OUT[self.fine]
            self.exponent = 0
        else:
            self._lay_out_one(expansion.coefficients[:, 0], slices)
        constants = bound_constants(
            rounding,
            1.01 * SINGLE_UNIT,
            slice_errors(len(columns), n, several=self.several),
            tiny=2.0**-30,
            exponent=self.exponent,
            floor=float(floors[0]),
        )
        self.hold(finish=constants, floors=floors)

    @staticmethod
    def serves(dense: DenseExact) -> bool:
        """Whether the proof covers an expansion, and its arrays fit half precision."""
        A = dense.expansion.coefficients
        sizes = np.abs(A).max(axis=0, initial=0.0)
        if (
            dense.factors.size > MOST_FUSED_ENTRIES or A.size > MOST_FUSED_ENTRIES
        ):  # kernels count in 32 bits
            return False
        if not (in_range(dense.rounding) and A.shape[1] and (sizes < 1e200).all()):
            return False
        return bool((sizes > 1e-200).all()) and center_slices(dense) is not None

    def _lay_out_one(self, a: Any, slices: Slices) -> None:
        """Coefficients by their sign, in single precision."""
        index, self.positive, weights, self.exponent = by_side(a)
        self._hold_centers(slices, index)
        self.hold(weights=weights.astype(np.float32))

    def _lay_out_several(self, A: Any, slices: Slices, families: Sequence[Any]) -> None:
        """Coefficients in slices, group by group; where each output's sums are found."""
        k, largest = A.shape[1], np.abs(A).max(axis=0)
        exponents = np.array([exponent_of(float(size), GROUP_BITS) for size in largest])
        scaled = np.ldexp(A, exponents)
        groups = groups_of(A, families)
        self.fine = not (len(families) and len(groups) == len(families))
        W = padded(max(len(group.outputs) for group in groups))
        order = [in_tiles(group.centers, GROUP_TILE) for group in groups]
        tables: list[Any] = []
        slots: list[list[int]] = [[] for _ in range(k)]
        for number, (group, index) in enumerate(zip(groups, order)):
            table = np.zeros((len(index), W))
            own = scaled[np.ix_(np.maximum(index, 0), group.outputs)]
            table[:, : len(group.outputs)] = np.where(index[:, None] >= 0, own, 0.0)
            tables.append(table)
            for place, output in enumerate(group.outputs):
                slots[output].append(number * W + place)
        starts = np.append(0, np.cumsum([len(index) for index in order]))
        deepest = max(len(found) for found in slots)
        nothing = len(groups) * W  # a column of zeros
        places = [found + [nothing] * (deepest - len(found)) for found in slots]
        self.table_width, self.n_groups = W, len(groups)
        self.most_tiles = int(np.diff(starts).max()) // GROUP_TILE
        self.padded_places = any(len(found) < deepest for found in slots)
        self._hold_centers(slices, np.concatenate(order))
        self.hold(
            weights=sliced(np.concatenate(tables), GROUP_BITS, fine=self.fine),
            sizes=(np.abs(np.concatenate(tables)).max(axis=1) * (1 + 1e-6)).astype(np.float32),
            starts=starts.astype(np.int32),
            places=np.array(places).T,
            factors=np.ldexp(1.0, -exponents - GROUP_BITS),
        )

    def _centers_of_outputs(self, k: int) -> Any:
        """How many centers, those that pad included, add to each output: shape (k,)."""
        counts = np.append(np.diff(self.starts.numpy()), 0)
        return np.array(
            [counts[self.places[:, j].numpy() // self.table_width].sum() for j in range(k)]
        )

    def _hold_centers(self, slices: Slices, index: Any) -> None:
        kept = index >= 0
        self.hold(
            table=np.where(kept[:, None], slices.table[:, index], np.float16(0)),
            shifts=np.where(kept, slices.shifts[index], np.float32(0)),
        )

    def forward(
        self,
        rows: Tensor,
        *,
        into: tuple[Tensor, Tensor] | None = None,
        still: OpenRows | None = None,
        keep: bool = False,
    ) -> Bounded:
        """Scores and bounds of shape (m, k); infinite bounds where nothing is known.

        Of one output, `kernels.fused.run_one` says what the other arguments are.
        """
        from kernelite.backends.torch.kernels.fused import run_one, run_several
        from kernelite.backends.torch.kernels.rows import run_split

        slices = run_split(self, rows.contiguous(), still)
        if self.several:
            shares = run_several(self, slices)
            sums, sizes = (one[0] if len(one) == 1 else one.sum(dim=0) for one in shares)
            return self._bounded(slices, *self.unscaled_several(sums, sizes))
        return Bounded(*run_one(self, slices, into=into, still=still, keep=keep))

    def unscaled_several(self, sums: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        """Sums by output, shape (m, k), from those by group: (m, groups * W) and (m, groups)."""
        groups = self.places // self.table_width
        # Sums of so many numbers in single precision err by less than a thousandth.
        return self._by_output(sums, self.places), self._by_output(sizes, groups) * (1.0 + 2.0**-8)

    def _by_output(self, groups: Tensor, places: Tensor) -> Tensor:
        if self.padded_places:
            groups = torch.nn.functional.pad(groups, (0, 1))
        total = groups[:, places[0]].double()
        for place in places[1:]:
            total += groups[:, place]
        return total * self.factors

    def row_terms(self, slices: RowSlices) -> tuple[Tensor, Tensor]:
        """What sum |A| K is multiplied with, and what `ExactBound` multiplies its weights with.

        Both of shape (m,); the first is infinite where nothing is known.
        """
        c, squares = self.finish, slices.squares
        eps = c[0] * squares.sqrt() + c[1] * squares + c[2] + c[3] * slices.units
        relative = c[5] * eps + c[6]
        relative = torch.where(eps <= MOST_ERROR, relative, math.inf)
        return relative, self.bound.relative(squares)

    def _bounded(self, slices: RowSlices, sums: Tensor, sizes: Tensor) -> Bounded:
        relative = self.row_terms(slices)[0]
        bounds = relative[:, None] * sizes + self.floors + self.bound(slices.squares)
        known = (relative < math.inf)[:, None]
        # Where nothing is known sums may be NaN, of which heads would make a label.
        scores = torch.where(known, sums, 0.0) + self.intercept
        return Bounded(scores, torch.where(known, bounds, math.inf))
