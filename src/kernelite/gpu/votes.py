"""Votes of all pairs from sums by class: winners that are proven, without spelling scores out.

The score of a pair (i, j) is G_ij + G_ji + b_ij, G_ij what the centers of class i add to it; T_i
bounds sum |A| K of class i. In single precision, with what that rounds inside the bound:

    bound = (rel + 2^-22) (T_i + T_j) (1 + 2^-8) + fixed + far weight + 2^-22 (|b| + |score|)

rel as in `FusedSums._bounded`, far and weight as in `ExactBound`; `winner_decided` says who wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from kernelite.gpu.buffers import Buffers, Tensor
from kernelite.gpu.fused import FusedSums
from kernelite.gpu.heads import Votes
from kernelite.machine.heads.pairwise import pairs

if TYPE_CHECKING:
    from kernelite.gpu.fused import RowSlices

__all__ = ["PairVotes"]

MOST_CLASSES = 32
LARGEST, SMALLEST = 1e30, 1e-30  # of a constant, which is held in single precision


class PairVotes(Buffers):
    """Constants of all pairs, as matrices of classes.

    Parameters
    ----------
    fused : FusedSums
    head : Votes
    """

    def __init__(self, fused: FusedSums, head: Votes) -> None:
        super().__init__()
        K = self.n_classes = head.n_classes
        self.sign = head.sign
        tables = np.zeros((4, MOST_CLASSES, MOST_CLASSES))
        listed = (
            fused.factors,
            fused.intercept,
            fused.floors + fused.bound.constant,
            fused.bound.weight,
        )
        for table, values in zip(tables, listed):
            for pair, (i, j) in enumerate(pairs(K)):
                table[i, j] = table[j, i] = values[pair]
        tables[2:] *= 1.0 + 2.0**-20  # rounded up
        self.hold(tables=tables.astype(np.float32))

    @staticmethod
    def serves(fused: FusedSums | None, head: object) -> bool:
        """Whether sums lie class by class, and all constants fit single precision."""
        if not isinstance(head, Votes) or fused is None or not fused.several or fused.fine:
            return False
        largest = max(
            float(part.abs().max()) for part in (fused.factors, fused.intercept, fused.floors)
        )
        fits = float(fused.factors.min()) > SMALLEST and largest < LARGEST
        return head.n_classes <= MOST_CLASSES and fused.n_groups == head.n_classes and fits

    def forward(
        self, fused: FusedSums, slices: RowSlices, sums: Tensor, sizes: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Winners, shape (m,), and whether they are proven, shape (m,)."""
        from kernelite.gpu.kernels.fused import run_votes

        relative, far = fused.row_terms(slices)
        relative = (relative * (1.0 + 2.0**-20)).float()
        far = (far * (1.0 + 2.0**-20)).float()
        winners = torch.empty(len(sums), dtype=torch.int64, device=sums.device)
        proven = torch.empty(len(sums), dtype=torch.bool, device=sums.device)
        run_votes(self, sums, sizes, relative, far, fused.table_width, winners, proven)
        return winners, proven
