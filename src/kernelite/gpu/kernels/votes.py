"""One pass over sums by class: the score and bound of every pair, votes, and whether they prove."""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

    from kernelite.gpu.votes import PairVotes

__all__ = ["run_votes"]

ROWS = 2


def run_votes(
    votes: PairVotes,
    sums: torch.Tensor,
    sizes: torch.Tensor,
    relative: torch.Tensor,
    far: torch.Tensor,
    width: int,
    winners: torch.Tensor,
    proven: torch.Tensor,
) -> None:
    """Fill winners and whether they are proven; arguments as in `gpu.votes`."""
    m = len(sums)
    if m:
        _votes[(triton.cdiv(m, ROWS),)](
            sums,
            sizes,
            relative,
            far,
            *votes.tables,
            winners,
            proven,
            m,
            votes.n_classes,
            votes.sign,
            W=width,
            S=votes.tables.shape[1],
            BM=ROWS,
            num_warps=4,
        )


@triton.jit
def _votes(
    sums, sizes, relative, far, factors, intercepts, fixed, weights, winners, proven, m, K, sign,
    W: tl.constexpr, S: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    row, i, j = r[:, None, None], tl.arange(0, S)[None, :, None], tl.arange(0, S)[None, None, :]
    pair = (i < K) & (j < K) & (i != j)
    here = (row < m) & pair
    # The opponents of a class, in order, without itself.
    own = tl.load(sums + row * (K * W) + i * W + (j - (j > i)), mask=here, other=0.0)
    other = tl.permute(own, (0, 2, 1))  # what the centers of j add to the pair (i, j)
    size = tl.load(sizes + row * K + i, mask=here, other=0.0)
    size += tl.load(sizes + row * K + j, mask=here, other=0.0)
    at = i * S + j
    factor, b = tl.load(factors + at), tl.load(intercepts + at)
    score = (own + other) * factor + b
    slack = tl.load(relative + row, mask=row < m, other=0.0) + 2.384185791015625e-7
    bound = slack * size * factor * 1.00390625 + tl.load(fixed + at)
    bound += tl.load(far + row, mask=row < m, other=0.0) * tl.load(weights + at)
    bound = (bound + 2.384185791015625e-7 * (tl.abs(score) + tl.abs(b))) * 1.0009765625
    sure = (tl.abs(score) > bound) & pair
    ahead = (score * sign > 0.0) == (i < j)
    low = tl.sum((sure & ahead).to(tl.int32), 2)
    high = tl.sum((pair & ~(sure & ~ahead)).to(tl.int32), 2)
    # Among equal votes the earlier class wins: K votes + (K - 1 - class) has no ties.
    c = tl.arange(0, S)[None, :]
    ranked = tl.where(c < K, low * K + (K - 1 - c), -1)
    mine = tl.max(ranked, 1)
    rivals = tl.sum(((high * K + (K - 1 - c) >= mine[:, None]) & (c < K)).to(tl.int32), 1)
    tl.store(winners + r, K - 1 - mine % K, mask=r < m)
    tl.store(proven + r, rivals <= 1, mask=r < m)
