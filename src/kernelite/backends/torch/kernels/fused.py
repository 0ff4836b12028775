"""The fused kernels: products of pairs on tensor cores, exp2, sums; nothing of size m n is stored.

In: rows and centers in slices of half precision. Out: scores and bounds of one output, or sums of
A K and of |A| K by group, and one pass over such sums that counts the votes of all pairs.
`gpu.fused_layout` has the model of the arithmetic and the proof; what stands in one accumulator
matters there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl

from kernelite.backends.torch.fused_layout import CHUNK
from kernelite.backends.torch.kernels.doubles import exact_bound

if TYPE_CHECKING:
    from kernelite.backends.torch.fused import FusedSums, RowSlices
    from kernelite.backends.torch.heads import PairVotes

__all__ = ["Tiles", "run_one", "run_several", "run_votes", "tiles_for"]


class Tiles(NamedTuple):
    """Rows, centers, warps and stages of a kernel, and the most registers of a thread."""

    rows: int
    centers: int
    warps: int
    stages: int
    registers: int | None = None


WHOLE = 128  # features of rows that stay beside the tensor cores while centers pass by


def chunk_of(width: int) -> int:
    """Features of a tile: all of them, or 32 at a time.

    Examples
    --------
    >>> chunk_of(32), chunk_of(128), chunk_of(832)
    (32, 128, 32)
    """
    return width if width <= WHOLE and width & (width - 1) == 0 else 32


def tiles_for(width: int, several: bool) -> Tiles:
    """What ran fastest on an H200, as `python -m benchmarks gpu` measured it."""
    if several:
        return Tiles(128, 64, 8, 2) if width <= CHUNK else Tiles(64, 64, 4, 2)
    if width <= 16:
        return Tiles(64, 128, 4, 3, 168)  # three programs on a multiprocessor
    if width <= CHUNK:
        return Tiles(64, 64, 4, 3)
    return Tiles(128, 64, 8, 2) if width <= WHOLE else Tiles(128, 128, 8, 4)


def run_one(
    layout: FusedSums, slices: RowSlices, tiles: Tiles | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores and bounds of one output: shapes (m, 1)."""
    m = len(slices.units)
    tiles = tiles or tiles_for(layout.width, False)
    scores, bounds = torch.empty(2, m, 1, dtype=torch.float64, device=slices.units.device)
    if m:
        _one[(triton.cdiv(m, tiles.rows),)](
            *slices.table,
            slices.units,
            slices.norms,
            slices.squares,
            *layout.table,
            layout.shifts,
            layout.weights,
            layout.finish,
            layout.bound.finish,
            scores,
            bounds,
            m,
            layout.positive,
            len(layout.shifts),
            D=layout.width,
            BM=tiles.rows,
            BN=tiles.centers,
            BK=chunk_of(layout.width),
            num_warps=tiles.warps,
            num_stages=tiles.stages,
            maxnreg=tiles.registers,
        )
    return scores, bounds


def run_several(
    layout: FusedSums, slices: RowSlices, tiles: Tiles | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums of A K by group, (m, groups * W), and of |A| K, (m, groups), for `unscaled_several`."""
    m, W = len(slices.units), layout.table_width
    tiles = tiles or tiles_for(layout.width, True)
    device = slices.units.device
    sums = torch.empty(m, layout.n_groups * W, dtype=torch.float32, device=device)
    sizes = torch.empty(m, layout.n_groups, dtype=torch.float32, device=device)
    if m:
        _several[(layout.n_groups, triton.cdiv(m, tiles.rows))](
            *slices.table,
            slices.units,
            slices.norms,
            *layout.table,
            layout.shifts,
            *layout.weights,
            layout.sizes,
            layout.starts,
            sums,
            sizes,
            m,
            D=layout.width,
            W=W,
            FINE=layout.fine,
            BM=tiles.rows,
            BN=tiles.centers,
            BK=chunk_of(layout.width),
            num_warps=tiles.warps,
            num_stages=tiles.stages,
            maxnreg=tiles.registers,
        )
    return sums, sizes


@triton.jit
def _slice_product(z1, z2, z3, y1, y2, y3, a1, a2, a3):
    """The three accumulators of z.y, of which the first two are exact."""
    a3 = tl.dot(z2, y2, a3, out_dtype=tl.float32)
    a3 = tl.dot(z1, y3, a3, out_dtype=tl.float32)
    a3 = tl.dot(z3, y1, a3, out_dtype=tl.float32)
    a2 = tl.dot(z1, y2, a2, out_dtype=tl.float32)
    a2 = tl.dot(z2, y1, a2, out_dtype=tl.float32)
    a1 = tl.dot(z1, y1, a1, out_dtype=tl.float32)
    return a1, a2, a3


@triton.jit
def _products(
    Z1, Z2, Z3, Y1, Y2, Y3, r, c, m, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """y.u of a tile of rows and centers, in units."""
    a1 = tl.zeros((BM, BN), tl.float32)
    a2 = tl.zeros((BM, BN), tl.float32)
    a3 = tl.zeros((BM, BN), tl.float32)
    for start in range(0, D, BK):
        k = start + tl.arange(0, BK)
        at = r[:, None] * D + k[None, :]
        here = (r < m)[:, None]
        z1 = tl.load(Z1 + at, mask=here, other=0.0)
        z2 = tl.load(Z2 + at, mask=here, other=0.0)
        z3 = tl.load(Z3 + at, mask=here, other=0.0)
        of = c[None, :] * D + k[:, None]
        y1, y2, y3 = tl.load(Y1 + of), tl.load(Y2 + of), tl.load(Y3 + of)
        a1, a2, a3 = _slice_product(z1, z2, z3, y1, y2, y3, a1, a2, a3)
    return a1 + (a2 + a3)


@triton.jit
def _sums_over(
    Z1, Z2, Z3, Y1, Y2, Y3, unit, norm, shifts, weights, r, m, first, last,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """sum_i |A_i| K_i over some centers: BN / 8 at a time in single precision, those in doubles."""
    total = tl.zeros((BM, 8), tl.float64)
    for start in range(first, last, BN):
        c = start + tl.arange(0, BN)
        t = _products(Z1, Z2, Z3, Y1, Y2, Y3, r, c, m, D, BM, BN, BK)
        K = tl.exp2(t * unit + tl.load(shifts + c)[None, :] + norm)
        K *= tl.load(weights + c)[None, :]
        # Neighbours in registers are eight columns apart: no thread waits for another.
        total += tl.sum(tl.reshape(K, (BM, BN // 8, 8)), 1).to(tl.float64)
    return tl.sum(total, 1)


@triton.jit
def _one(
    Z1, Z2, Z3, units, norms, squares, Y1, Y2, Y3, shifts, weights, finish, exact, scores, bounds,
    m, positive, n, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    units = tl.load(units + r, mask=r < m, other=0.0)
    unit, norm = units[:, None], tl.load(norms + r, mask=r < m, other=0.0)[:, None]
    up = _sums_over(
        Z1, Z2, Z3, Y1, Y2, Y3, unit, norm, shifts, weights, r, m, 0, positive, D, BM, BN, BK
    )
    down = _sums_over(
        Z1, Z2, Z3, Y1, Y2, Y3, unit, norm, shifts, weights, r, m, positive, n, D, BM, BN, BK
    )
    # The bound, as `FusedSums._bounded` spells it out; unscaled, sums are multiplied by 2^e.
    square = tl.load(squares + r, mask=r < m, other=0.0)
    eps = tl.load(finish) * tl.sqrt(square) + tl.load(finish + 1) * square + tl.load(finish + 2)
    eps += tl.load(finish + 3) * units.to(tl.float64)
    known = eps <= tl.load(finish + 4)
    relative = tl.load(finish + 5) * eps + tl.load(finish + 6)
    scale, b = tl.load(finish + 7), tl.load(finish + 8)
    bound = relative * ((up + down) * scale) + tl.load(finish + 9) + exact_bound(square, exact)
    # Where nothing is known sums may be NaN, of which heads would make a label.
    tl.store(scores + r, tl.where(known, (up - down) * scale, 0.0) + b, mask=r < m)
    tl.store(bounds + r, tl.where(known, bound, float("inf")), mask=r < m)


@triton.jit
def _several(
    Z1, Z2, Z3, units, norms, Y1, Y2, Y3, shifts, A1, A2, A3, weights, starts, sums, sizes, m,
    D: tl.constexpr, W: tl.constexpr, FINE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0)
    r = tl.program_id(1).to(tl.int64) * BM + tl.arange(0, BM)
    w = tl.arange(0, W)
    unit = tl.load(units + r, mask=r < m, other=0.0)[:, None]
    norm = tl.load(norms + r, mask=r < m, other=0.0)[:, None]
    total = tl.zeros((BM, W), tl.float32)
    size = tl.zeros((BM, 8), tl.float32)
    for start in range(tl.load(starts + group), tl.load(starts + group + 1), BN):
        c = start + tl.arange(0, BN)
        t = _products(Z1, Z2, Z3, Y1, Y2, Y3, r, c, m, D, BM, BN, BK)
        K = tl.exp2(t * unit + tl.load(shifts + c)[None, :] + norm) * 512.0
        K = tl.minimum(K, 512.0)  # so that sums of whole numbers stay within 2^24
        # Slices of nine bits: x + c - c rounds x to the last place of c.
        k1 = (K + 12582912.0) - 12582912.0
        rest = K - k1
        of = c[:, None] * W + w[None, :]
        y1, y2 = tl.load(A1 + of), tl.load(A2 + of)
        b3 = tl.zeros((BM, W), tl.float32)
        if FINE:
            k2 = (rest + 24576.0) - 24576.0
            k3 = (rest - k2).to(tl.float16)
            h1, h2 = k1.to(tl.float16), k2.to(tl.float16)
            b3 = tl.dot(h2, y2, b3, out_dtype=tl.float32)
            b3 = tl.dot(h1, tl.load(A3 + of), b3, out_dtype=tl.float32)
            b3 = tl.dot(k3, y1, b3, out_dtype=tl.float32)
            b2 = tl.dot(h1, y2, out_dtype=tl.float32)
            b2 = tl.dot(h2, y1, b2, out_dtype=tl.float32)
            b3 += b2
        else:
            h1, h2 = k1.to(tl.float16), rest.to(tl.float16)
            b3 = tl.dot(h2, y2, b3, out_dtype=tl.float32)
            b3 = tl.dot(h1, y2, b3, out_dtype=tl.float32)
            b3 = tl.dot(h2, y1, b3, out_dtype=tl.float32)
        total += tl.dot(h1, y1, out_dtype=tl.float32) + b3
        K *= tl.load(weights + c)[None, :]
        size += tl.sum(tl.reshape(K, (BM, BN // 8, 8)), 1)
    at = r[:, None] * (tl.num_programs(0) * W) + (group * W + w)[None, :]
    tl.store(sums + at, total, mask=(r < m)[:, None])
    tl.store(sizes + r * tl.num_programs(0) + group, tl.sum(size, 1), mask=r < m)


# Votes, in one pass over sums by class: the score and bound of every pair, who wins, and whether
# that is proven.

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
    """Fill winners and whether they are proven; arguments as in `PairVotes`."""
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
