"""Exact sums on tensor cores with a proven bound: products, exp2 and sums in one kernel.

In: rows. Out: scores and bounds (`fused_layout` says why they are bounds). It needs Triton; the
tests have the same in torch operations, the twin of the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.torch.buffers import Buffers, Tensor
from kernelite.backends.torch.exact import ExactBound
from kernelite.backends.torch.forms import padded
from kernelite.backends.torch.fused_layout import (
    GROUP_TILE,
    LEFT_OUT,
    LOG2E,
    MOST_ERROR,
    SINGLE_UNDERFLOW,
    TILE,
    FusedRounding,
    Slices,
    center_slices,
    exponent_of,
    groups_of,
    in_tiles,
    slice_bits,
    sliced,
)
from kernelite.data.rows.inputs import FloatArray
from kernelite.program.bounded import Bounded
from kernelite.series.rounding import SAFETY

if TYPE_CHECKING:
    from kernelite.backends.torch.kernels.lists import OpenRows

__all__ = ["FARTHEST", "NEAREST", "RowSlices", "SliceSums"]

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
        self.terms = FusedRounding.of(
            expansion.gamma, rounding.largest, len(columns), n, several=self.several
        )
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
        self.hold(finish=self._constants(float(floors[0])))
        self.hold(floors=floors)

    @staticmethod
    def serves(dense: DenseExact) -> bool:
        """Whether the proof covers an expansion, and its arrays fit half precision."""
        A = dense.expansion.coefficients
        sizes = np.abs(A).max(axis=0, initial=0.0)
        if (
            dense.factors.size > MOST_FUSED_ENTRIES or A.size > MOST_FUSED_ENTRIES
        ):  # kernels count in 32 bits
            return False
        if not (FusedRounding.serves(dense.rounding) and A.shape[1] and (sizes < 1e200).all()):
            return False
        return bool((sizes > 1e-200).all()) and center_slices(dense) is not None

    def _lay_out_one(self, a: Any, slices: Slices) -> None:
        """Positive coefficients first, in whole tiles; their absolute values, scaled to 1."""
        self.exponent = math.frexp(float(np.abs(a).max()))[1]
        order = [in_tiles(np.flatnonzero(side), TILE) for side in (a > 0.0, a < 0.0)]
        self.positive = len(order[0])
        index = np.concatenate(order)
        weights = np.where(index >= 0, np.abs(np.ldexp(a[index], -self.exponent)), 0.0)
        self._hold_centers(slices, index)
        self.hold(weights=weights.astype(np.float32))

    def _constants(self, floor: float) -> FloatArray:
        """What kernels make a bound of, as `_bounded` does: shape (10,)."""
        terms = self.terms
        listed = (
            *(terms.per_norm, terms.per_square, terms.fixed, terms.per_unit, MOST_ERROR),
            *(0.7 * SAFETY * SAFETY, SAFETY * terms.relative),
            *(2.0**self.exponent, float(self.intercept[0]), floor),
        )
        return np.array(listed)

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

    def forward(self, rows: Tensor) -> Bounded:
        """Scores and bounds of shape (m, k); infinite bounds where nothing is known."""
        from kernelite.backends.torch.kernels.fused import run_one, run_several
        from kernelite.backends.torch.kernels.split import run_split

        slices = run_split(self, rows.contiguous())
        if self.several:
            shares = run_several(self, slices)
            sums, sizes = (one[0] if len(one) == 1 else one.sum(dim=0) for one in shares)
            return self._bounded(slices, *self.unscaled_several(sums, sizes))
        return Bounded(*run_one(self, slices))

    def improve(
        self, rows: Tensor, still: OpenRows, scores: Tensor, bounds: Tensor, *, keep: bool
    ) -> None:
        """Scores and bounds, in place, of the rows that a list names; one output.

        Parameters
        ----------
        rows : tensor of shape (m, d)
        still : OpenRows
        scores, bounds : tensors of shape (m, 1)
        keep : bool
            Leave scores whose bound is smaller already.
        """
        from kernelite.backends.torch.kernels.fused import run_one
        from kernelite.backends.torch.kernels.split import run_split

        slices = run_split(self, rows, still)
        run_one(self, slices, into=(scores, bounds), still=still, keep=keep)

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
        terms, squares = self.terms, slices.squares
        eps = terms.per_norm * squares.sqrt() + terms.per_square * squares + terms.fixed
        eps = eps + terms.per_unit * slices.units
        relative = SAFETY * (0.7 * SAFETY * eps + terms.relative)
        relative = torch.where(eps <= MOST_ERROR, relative, math.inf)
        return relative, self.bound.relative(squares)

    def _bounded(self, slices: RowSlices, sums: Tensor, sizes: Tensor) -> Bounded:
        relative = self.row_terms(slices)[0]
        bounds = relative[:, None] * sizes + self.floors + self.bound(slices.squares)
        known = (relative < math.inf)[:, None]
        # Where nothing is known sums may be NaN, of which heads would make a label.
        scores = torch.where(known, sums, 0.0) + self.intercept
        return Bounded(scores, torch.where(known, bounds, math.inf))
