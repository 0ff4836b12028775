"""Votes of all pairs: who wins, and whether that is proven; open rows are listed on the device.

One pass over sums by class (`fused`), which spells no score out; and one over the scores of the
rows that doubles answered. `machine.heads.pairwise.winner_decided` is the definition of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from kernelite.backends.torch.kernels.doubles import relative_bound
from kernelite.backends.torch.kernels.rows import OpenRows, enter, places_of

if TYPE_CHECKING:
    from kernelite.backends.torch.fused import RowSlices, SliceSums
    from kernelite.backends.torch.heads import PairVotes, TorchHead
    from kernelite.backends.torch.stages import Found

__all__ = ["run_couple", "run_pair_labels", "run_votes"]

VOTED_ROWS = 2


def run_votes(
    votes: PairVotes,
    head: TorchHead,
    fused: SliceSums,
    slices: RowSlices,
    sums: tuple[torch.Tensor, torch.Tensor],
    found: Found,
    stages: tuple[int, int],
    count: torch.Tensor,
    rows: torch.Tensor | None = None,
) -> OpenRows:
    """Fill labels and stages, and list the rows whose winner is open.

    Parameters
    ----------
    votes, head, fused : PairVotes, TorchHead, SliceSums
        Constants of the pairs, labels, and constants of the bound.
    slices : RowSlices
    sums : (sums of A K, sums of |A| K)
        As `run_several` gives them.
    found : Found
        Whose labels and stage are written.
    stages : (int, int)
        This stage, and the one that answers what is open.
    count : int32 tensor of shape (1,)
        Zero; how many are open is added to it.
    rows : int32 tensor of shape (1,), optional
        How many rows there are, where others pad.
    """
    m, shares = len(slices.units), len(sums[0])
    listed = OpenRows(torch.empty(m, dtype=torch.int64, device=count.device), count)
    terms = torch.empty(2, m, dtype=torch.float32, device=count.device)
    if m:
        _terms[(triton.cdiv(m, 256),)](
            slices.units, slices.squares, fused.finish, fused.bound.finish, *terms, m, BM=256,
            num_warps=4,
        )  # fmt: skip
        _votes[(triton.cdiv(m, VOTED_ROWS),)](
            *sums, *terms, *votes.tables, head.kinds, found.labels, found.stage, *listed,
            count if rows is None else rows, m, shares,
            K=votes.n_classes, SIGN=votes.sign, W=fused.table_width, S=votes.tables.shape[1],
            STAGE=stages[0], NEXT=stages[1], PADDED=rows is not None, BM=VOTED_ROWS, num_warps=4,
        )  # fmt: skip
    return listed


@triton.jit
def _terms(units, squares, finish, exact, relative, far, m, BM: tl.constexpr):
    """`SliceSums.row_terms`, rounded up to single precision."""
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    square = tl.load(squares + r, mask=r < m, other=0.0)
    eps = tl.load(finish) * tl.sqrt(square) + tl.load(finish + 1) * square + tl.load(finish + 2)
    eps += tl.load(finish + 3) * tl.load(units + r, mask=r < m, other=0.0).to(tl.float64)
    slack = (tl.load(finish + 5) * eps + tl.load(finish + 6)) * 1.000001
    slack = tl.where(eps <= tl.load(finish + 4), slack, float("inf"))
    tl.store(relative + r, slack.to(tl.float32), mask=r < m)
    tl.store(far + r, (relative_bound(square, exact) * 1.000001).to(tl.float32), mask=r < m)


@triton.jit
def _ranks(sure, ahead, pair, K: tl.constexpr, S: tl.constexpr):
    """The rank of the class that surely has most votes, and how many can have as many: (BM,)."""
    low = tl.sum((sure & ahead).to(tl.int32), 2)
    high = tl.sum((pair & ~(sure & ~ahead)).to(tl.int32), 2)
    # Among equal votes the earlier class wins: K votes + (K - 1 - class) has no ties.
    c = tl.arange(0, S)[None, :]
    mine = tl.max(tl.where(c < K, low * K + (K - 1 - c), -1), 1)
    rivals = tl.sum(((high * K + (K - 1 - c) >= mine[:, None]) & (c < K)).to(tl.int32), 1)
    return mine, rivals


@triton.jit
def _votes(
    sums, sizes, relative, far, factors, intercepts, fixed, weights, kinds, labels, stage, listed,
    count, rows, m, shares, K: tl.constexpr, SIGN: tl.constexpr, W: tl.constexpr,
    S: tl.constexpr, STAGE: tl.constexpr, NEXT: tl.constexpr, PADDED: tl.constexpr,
    BM: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    row, i, j = r[:, None, None], tl.arange(0, S)[None, :, None], tl.arange(0, S)[None, None, :]
    pair = (i < K) & (j < K) & (i != j)
    here = (row < m) & pair
    # The opponents of a class, in order, without itself.
    at = row * (K * W) + i * W + (j - (j > i))
    own = tl.load(sums + at, mask=here, other=0.0)
    size = tl.load(sizes + row * K + i, mask=here, other=0.0)
    size += tl.load(sizes + row * K + j, mask=here, other=0.0)
    for share in range(1, shares):
        line = share * m + row
        own += tl.load(sums + line * (K * W) + i * W + (j - (j > i)), mask=here, other=0.0)
        size += tl.load(sizes + line * K + i, mask=here, other=0.0)
        size += tl.load(sizes + line * K + j, mask=here, other=0.0)
    other = tl.permute(own, (0, 2, 1))  # what the centers of j add to the pair (i, j)
    of = i * S + j
    factor, b = tl.load(factors + of), tl.load(intercepts + of)
    score = (own + other) * factor + b
    slack = tl.load(relative + row, mask=row < m, other=0.0) + 2.384185791015625e-7
    bound = slack * size * factor * 1.00390625 + tl.load(fixed + of)
    bound += tl.load(far + row, mask=row < m, other=0.0) * tl.load(weights + of)
    bound = (bound + 2.384185791015625e-7 * (tl.abs(score) + tl.abs(b))) * 1.0009765625
    sure = (tl.abs(score) > bound) & pair
    ahead = (score * SIGN > 0.0) == (i < j)
    mine, rivals = _ranks(sure, ahead, pair, K, S)
    if PADDED:
        m = tl.minimum(m, tl.load(rows))
    inside = r < m
    is_open = inside & (rivals > 1)
    tl.store(labels + r, tl.load(kinds + (K - 1 - mine % K)), mask=inside)
    tl.store(stage + r, tl.where(is_open, NEXT, STAGE).to(tl.int8), mask=inside)
    enter(r, is_open, listed, count)


def run_pair_labels(
    votes: PairVotes, head: TorchHead, found: Found, still: OpenRows, tally: torch.Tensor
) -> None:
    """Labels of the rows that a list names, from their scores and bounds.

    Parameters
    ----------
    votes, head : PairVotes, TorchHead
    found : Found
        Whose labels and undecidable rows are written.
    still : OpenRows
    tally : int32 tensor of shape (1,)
        To which the number of undecidable rows is added.
    """
    m = len(found.stage)
    if m:
        _pair_labels[(triton.cdiv(m, VOTED_ROWS),)](
            found.scores, found.bounds, *still, head.kinds, found.labels, found.undecidable, tally,
            K=votes.n_classes, SIGN=votes.sign, S=votes.tables.shape[1], BM=VOTED_ROWS, num_warps=4,
        )  # fmt: skip


@triton.jit
def _pair_labels(
    scores, bounds, listed, count, kinds, labels, undecidable, tally, K: tl.constexpr,
    SIGN: tl.constexpr, S: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0) * BM + tl.arange(0, BM)
    m = tl.load(count)
    if tl.program_id(0) * BM < m:
        inside = place < m
        r = places_of(listed, place, inside, True)
        row, i, j = r[:, None, None], tl.arange(0, S)[None, :, None], tl.arange(0, S)[None, None, :]
        pair = (i < K) & (j < K) & (i != j)
        low, high = tl.minimum(i, j), tl.maximum(i, j)
        at = row * (K * (K - 1) // 2) + low * K - low * (low + 1) // 2 + high - low - 1
        here = inside[:, None, None] & pair
        score = tl.load(scores + at, mask=here, other=0.0)
        sure = (tl.abs(score) > tl.load(bounds + at, mask=here, other=0.0)) & pair
        ahead = (score * SIGN > 0.0) == (i < j)
        winner, _ = _ranks(pair, ahead, pair, K, S)
        best, rivals = _ranks(sure, ahead, pair, K, S)
        lost = inside & (rivals > 1)
        tl.store(labels + r, tl.load(kinds + (K - 1 - winner % K)), mask=inside)
        tl.store(undecidable + r, lost, mask=inside)
        tl.atomic_add(tally, tl.sum((lost & (best == best)).to(tl.int32), 0))


# Class probabilities from pairwise ones: LIBSVM's iteration, some rows per program.
#
# `machine.heads.coupling.couple` is the definition. Q is never stored: an entry of its row t is
# -r (1 - r) of one pairwise probability r, which is read where it is needed.


ENTRIES_PER_PROGRAM = 256  # of p that a program holds


def run_couple(first: torch.Tensor, n_classes: int) -> torch.Tensor:
    """Probabilities of shape (m, K), from those of the first class of each pair, (m, pairs)."""
    m, first = len(first), first.contiguous()
    found = torch.empty(m, n_classes, dtype=torch.float64, device=first.device)
    size = triton.next_power_of_2(max(n_classes, 2))
    tall = max(1, ENTRIES_PER_PROGRAM // size)
    if m:
        _couple[(triton.cdiv(m, tall),)](
            first, found, m, K=n_classes, ROUNDS=max(100, n_classes), S=size, BM=tall, num_warps=4
        )
    return found


@triton.jit
def _chances(first, r, j, t, inside, K: tl.constexpr):
    """r_tj, the probability of class t given that the class is t or j: shape (BM, S)."""
    low, high = tl.minimum(j, t), tl.maximum(j, t)
    pair = low * K - low * (low + 1) // 2 + high - low - 1
    here = inside[:, None] & ((j < K) & (j != t))[None, :]
    at = first + r[:, None] * (K * (K - 1) // 2) + pair[None, :]
    found = tl.load(at, mask=here, other=0.0)
    return tl.where(here & (j < t)[None, :], 1.0 - found, found)


@triton.jit
def _entry(x, j, t):
    """Column t of x: shape (BM, 1)."""
    return tl.sum(tl.where((j == t)[None, :], x, 0.0), 1)[:, None]


@triton.jit
def _line(first, diagonal, r, j, t, inside, K: tl.constexpr):
    """Row t of Q: shape (BM, S)."""
    chance = _chances(first, r, j, t, inside, K)
    return tl.where((j == t)[None, :], diagonal, -chance * (1.0 - chance))


@triton.jit
def _couple(
    first, found, m, K: tl.constexpr, ROUNDS: tl.constexpr, S: tl.constexpr, BM: tl.constexpr
):
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    j, inside = tl.arange(0, S), r < m
    diagonal = tl.zeros((BM, S), tl.float64)
    for t in range(K):
        chance = _chances(first, r, j, t, inside, K)
        diagonal += chance * chance
    p = tl.where((j < K)[None, :], tl.full((BM, S), 1.0, tl.float64) / K, 0.0)
    left, turn = BM, 0
    while (left > 0) & (turn < ROUNDS):
        Qp = tl.zeros((BM, S), tl.float64)
        for t in range(K):
            Qp += _entry(p, j, t) * _line(first, diagonal, r, j, t, inside, K)
        pQp = tl.sum(p * Qp, 1)[:, None]
        apart = tl.max(tl.where((j < K)[None, :], tl.abs(Qp - pQp), 0.0), 1)
        running = inside & ~(apart < 0.005 / K)
        left, turn = tl.sum(running.to(tl.int32), 0), turn + 1
        if left > 0:
            moved = p
            for t in range(K):
                line = _line(first, diagonal, r, j, t, inside, K)
                own, here = _entry(diagonal, j, t), _entry(Qp, j, t)
                # Rows that pad have no chances: their Q is zero, and a quotient no number.
                delta = tl.where(inside[:, None], (pQp - here) / own, 0.0)
                scale = 1.0 + delta
                pQp = (pQp + delta * (delta * own + 2.0 * here)) / scale / scale
                Qp = (Qp + delta * line) / scale
                moved = (moved + tl.where((j == t)[None, :], delta, 0.0)) / scale
            p = tl.where(running[:, None], moved, p)
    at = found + r[:, None] * K + j[None, :]
    tl.store(at, p, mask=inside[:, None] & (j < K)[None, :])
