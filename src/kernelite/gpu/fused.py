"""Exact sums on tensor cores with a proven bound: products, exp2 and sums in one kernel.

In: rows. Out: scores and bounds (`fused_rounding` says why they are bounds). `definition` is the
same in torch operations: the twin of the kernel, and what runs where there is no Triton.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from kernelite.approximation.rounding import SAFETY
from kernelite.engines.exact_dense import DenseExact
from kernelite.gpu.buffers import Bounded, Buffers, Tensor
from kernelite.gpu.exact import ExactBound
from kernelite.gpu.form_layout import padded
from kernelite.gpu.fused_layout import (
    GROUP_TILE,
    TILE,
    Pairs,
    center_pairs,
    exponent_of,
    groups_of,
    halves,
    in_tiles,
)
from kernelite.gpu.fused_rounding import CHUNK, LOG2E, MOST_ERROR, TINY, FusedRounding

__all__ = ["FusedSums", "RowPairs"]

KERNEL_SCALE = 2.0**14  # of kernel values as pairs
FARTHEST, NEAREST = 60, -60  # exponents of a row's largest entry that its pairs can hold


class RowPairs(NamedTuple):
    """u as pairs of half precision (m, D), and what scales them back.

    scales, norms : float32 of shape (m,)
        What a product is multiplied with, and -g |u|^2.
    squares : float64 of shape (m,)
        |u|^2; infinite where a row is out of range.
    """

    high: Tensor
    low: Tensor
    scales: Tensor
    norms: Tensor
    squares: Tensor


class FusedSums(Buffers):
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
        pairs = center_pairs(dense)
        assert pairs is not None
        n, k = expansion.coefficients.shape
        self.width, self.several, self.scale = pairs.high.shape[1], k > 1, pairs.scale
        self.gamma, self.n_outputs = expansion.gamma, k
        varying, d = dense.varying, expansion.n_features
        columns = np.arange(d)[varying] if isinstance(varying, slice) else varying
        self.hold(point=dense.point, columns=columns, intercept=expansion.intercept)
        self.bound = ExactBound(rounding)
        self.terms = FusedRounding.of(
            expansion.gamma, rounding.largest, len(columns), n, several=self.several
        )
        largest = np.abs(expansion.coefficients).max(axis=0)
        with np.errstate(under="ignore"):
            floors = n * largest * (2.0**-35 if self.several else TINY)
        self.hold(floors=floors, rate=np.array([expansion.gamma * LOG2E]))
        if self.several:
            self._lay_out_several(expansion.coefficients, pairs, families)
        else:
            self._lay_out_one(expansion.coefficients[:, 0], pairs)

    @staticmethod
    def serves(dense: DenseExact) -> bool:
        """Whether the proof covers an expansion, and its arrays fit half precision."""
        A = dense.expansion.coefficients
        sizes = np.abs(A).max(axis=0, initial=0.0)
        if not (FusedRounding.serves(dense.rounding) and A.shape[1] and (sizes < 1e200).all()):
            return False
        return bool((sizes > 1e-200).all()) and center_pairs(dense) is not None

    def _lay_out_one(self, a: Any, pairs: Pairs) -> None:
        """Positive coefficients first, in whole tiles; their absolute values, scaled to 1."""
        self.exponent = math.frexp(float(np.abs(a).max()))[1]
        order = [in_tiles(np.flatnonzero(side), TILE) for side in (a > 0.0, a < 0.0)]
        self.positive = len(order[0])
        index = np.concatenate(order)
        weights = np.where(index >= 0, np.abs(np.ldexp(a[index], -self.exponent)), 0.0)
        self._hold_centers(pairs, index)
        self.hold(weights=weights.astype(np.float32))

    def _lay_out_several(self, A: Any, pairs: Pairs, families: Sequence[Any]) -> None:
        """Coefficients as pairs, group by group; where each output's sums are found."""
        k = A.shape[1]
        exponents = np.array([exponent_of(float(size)) for size in np.abs(A).max(axis=0)])
        scaled = np.ldexp(A, exponents)
        groups = groups_of(A, families)
        W = padded(max(len(group.outputs) for group in groups))
        order = [in_tiles(group.centers, GROUP_TILE) for group in groups]
        tables, slots = [], [[] for _ in range(k)]
        for number, (group, index) in enumerate(zip(groups, order)):
            table = np.zeros((len(index), W))
            own = scaled[np.ix_(np.maximum(index, 0), group.outputs)]
            table[:, : len(group.outputs)] = np.where(index[:, None] >= 0, own, 0.0)
            tables.append(table)
            for place, output in enumerate(group.outputs):
                slots[output].append(number * W + place)
        high, low = halves(np.concatenate(tables))
        starts = np.append(0, np.cumsum([len(index) for index in order]))
        deepest = max(len(found) for found in slots)
        nothing = len(groups) * W  # a column of zeros
        places = [found + [nothing] * (deepest - len(found)) for found in slots]
        self.table_width, self.n_groups = W, len(groups)
        self._hold_centers(pairs, np.concatenate(order))
        self.hold(
            a_high=high,
            a_low=low,
            a_size=np.abs(np.concatenate(tables)).astype(np.float16),
            starts=starts.astype(np.int32),
            places=np.array(places).T,
            factors=np.ldexp(1.0 / KERNEL_SCALE, -exponents),
        )

    def _hold_centers(self, pairs: Pairs, index: Any) -> None:
        kept = (index >= 0)[:, None]
        self.hold(
            high=np.where(kept, pairs.high[index], np.float16(0)),
            low=np.where(kept, pairs.low[index], np.float16(0)),
            shifts=np.where(kept[:, 0], pairs.shifts[index], np.float32(0)),
        )

    def forward(self, rows: Tensor, *, kernel: bool = True) -> Bounded:
        """Scores and bounds of shape (m, k); infinite bounds where nothing is known."""
        if not kernel:
            pairs = self.split(rows)
            return self._bounded(pairs.squares, *self.definition(pairs))
        from kernelite.gpu.kernels.fused import run_one, run_several
        from kernelite.gpu.kernels.split import run_split

        pairs = run_split(self, rows.contiguous())
        run = run_several if self.several else run_one
        return self._bounded(pairs.squares, *run(self, pairs))

    def split(self, rows: Tensor) -> RowPairs:
        """Rows as pairs, in torch operations."""
        u = rows.double() - self.point
        squares = (u * u).sum(dim=1)
        exponents = torch.frexp(u.abs().amax(dim=1))[1].clamp(min=NEAREST)
        lost = (exponents > FARTHEST) | ~(squares < math.inf)
        exponents = torch.where(lost, 0, exponents)
        u = torch.where(lost[:, None], 0.0, u)
        scaled = torch.zeros(len(u), self.width, dtype=torch.float64, device=u.device)
        scaled[:, : len(self.columns)] = torch.ldexp(u[:, self.columns], (14 - exponents)[:, None])
        high = scaled.half()
        scales = torch.ldexp(torch.ones_like(squares), exponents - (14 + self.scale))
        squares = torch.where(lost, math.inf, squares)
        norms = torch.where(lost, 0.0, -self.gamma * LOG2E * squares)
        return RowPairs(high, (scaled - high).half(), scales.float(), norms.float(), squares)

    def definition(self, pairs: RowPairs) -> tuple[Tensor, Tensor]:
        """Sums of A K and of |A| K, in the kernel's own arithmetic: shapes (m, k), doubles."""
        products = torch.zeros(len(pairs.high), len(self.high), device=pairs.high.device)
        step = min(CHUNK, self.width)
        for chunk in (slice(i, i + step) for i in range(0, self.width, step)):
            zh, zl = pairs.high[:, chunk].float(), pairs.low[:, chunk].float()
            xh, xl = self.high[:, chunk].float().T, self.low[:, chunk].float().T
            products += zl @ xh + zh @ xl + zh @ xh
        exponents = products * pairs.scales[:, None] + self.shifts + pairs.norms[:, None]
        K = torch.exp2(exponents)
        if not self.several:
            parts = (K * self.weights).view(len(K), -1, TILE).sum(dim=2).double()
            half = self.positive // TILE
            first, second = parts[:, :half].sum(dim=1), parts[:, half:].sum(dim=1)
            return self.unscaled_one(first - second, first + second)
        K = K * KERNEL_SCALE
        kh = K.half().float()
        kl = (K - kh).half().float()
        sums, sizes = [], []
        bounds = self.starts.tolist()
        for part in (slice(*ends) for ends in zip(bounds, bounds[1:])):
            ah, al = self.a_high[part].float(), self.a_low[part].float()
            sums.append(kl[:, part] @ ah + kh[:, part] @ al + kh[:, part] @ ah)
            sizes.append(kh[:, part] @ self.a_size[part].float())
        return self.unscaled_several(torch.cat(sums, dim=1), torch.cat(sizes, dim=1))

    def unscaled_one(self, sums: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        """Sums of shape (m,) as the bound wants them: (m, 1)."""
        factor = 2.0**self.exponent
        return (sums * factor)[:, None], (sizes * factor)[:, None]

    def unscaled_several(self, sums: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        """Sums by group, shape (m, groups * W) in single precision, as sums by output: (m, k)."""
        return self._by_output(sums), self._by_output(sizes) * (1.0 + 2.0**-8)

    def _by_output(self, groups: Tensor) -> Tensor:
        if len(self.places) == 1:
            return groups[:, self.places[0]].double() * self.factors
        if (self.places == groups.shape[1]).any():
            groups = torch.nn.functional.pad(groups, (0, 1))
        total = sum(groups[:, place].double() for place in self.places)
        return total * self.factors  # type: ignore[no-any-return]

    def _bounded(self, squares: Tensor, sums: Tensor, sizes: Tensor) -> Bounded:
        terms = self.terms
        eps = terms.per_norm * squares.sqrt() + terms.per_square * squares + terms.fixed
        relative = SAFETY * (0.7 * SAFETY * eps + terms.relative)
        bounds = relative[:, None] * sizes + self.floors + self.bound(squares)
        known = (eps <= MOST_ERROR)[:, None]
        # Where nothing is known sums may be NaN, of which heads would make a label.
        scores = torch.where(known, sums, 0.0) + self.intercept
        return Bounded(scores, torch.where(known, bounds, math.inf))
