"""The fused kernels: products of pairs on tensor cores, exp2, sums; nothing of size m n is stored.

In: rows and centers as pairs of half precision. Out: sums of A K and of |A| K. `fused_rounding` has
the model of the arithmetic; its order matters: per chunk of features, the small products first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl

from kernelite.gpu.fused_rounding import CHUNK

if TYPE_CHECKING:
    from kernelite.gpu.fused import FusedSums, RowPairs

__all__ = ["Tiles", "run_one", "run_several", "tiles_for"]


class Tiles(NamedTuple):
    """Rows, centers, warps and stages of a kernel."""

    rows: int
    centers: int
    warps: int
    stages: int


def tiles_for(width: int, several: bool) -> Tiles:
    """What ran fastest on an H200, as `python -m benchmarks gpu` measured it."""
    if several:
        return Tiles(128, 64, 8, 2)
    if width <= CHUNK:
        return Tiles(128, 64, 4, 3)
    return Tiles(128, 64, 4, 3)


def run_one(
    layout: FusedSums, pairs: RowPairs, tiles: Tiles | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums of A K and |A| K of one output: shapes (m, 1)."""
    m = len(pairs.high)
    tiles = tiles or tiles_for(layout.width, False)
    sums = torch.empty(2, m, dtype=torch.float64, device=pairs.high.device)
    if m:
        _one[(triton.cdiv(m, tiles.rows),)](
            *pairs[:4],
            layout.high,
            layout.low,
            layout.shifts,
            layout.weights,
            sums[0],
            sums[1],
            m,
            layout.positive,
            len(layout.high),
            D=layout.width,
            BM=tiles.rows,
            BN=tiles.centers,
            BK=min(CHUNK, layout.width),
            num_warps=tiles.warps,
            num_stages=tiles.stages,
        )
    return layout.unscaled_one(sums[0], sums[1])


def run_several(
    layout: FusedSums, pairs: RowPairs, tiles: Tiles | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums of A K and |A| K of several outputs: shapes (m, k)."""
    m, W = len(pairs.high), layout.table_width
    tiles = tiles or tiles_for(layout.width, True)
    shape = (2, m, layout.n_groups * W)
    sums = torch.empty(shape, dtype=torch.float32, device=pairs.high.device)
    if m:
        _several[(layout.n_groups, triton.cdiv(m, tiles.rows))](
            *pairs[:4],
            layout.high,
            layout.low,
            layout.shifts,
            layout.a_high,
            layout.a_low,
            layout.a_size,
            layout.starts,
            sums[0],
            sums[1],
            m,
            D=layout.width,
            W=W,
            BM=tiles.rows,
            BN=tiles.centers,
            BK=min(CHUNK, layout.width),
            num_warps=tiles.warps,
            num_stages=tiles.stages,
        )
    return layout.unscaled_several(sums[0], sums[1])


@triton.jit
def _pair_product(zh, zl, xh, xl):
    """z.x of pairs: l h + h l + h h, in one accumulator."""
    t = tl.dot(zl, xh, out_dtype=tl.float32)
    t = tl.dot(zh, xl, t, out_dtype=tl.float32)
    return tl.dot(zh, xh, t, out_dtype=tl.float32)


@triton.jit
def _chunked_product(
    z_high, z_low, x_high, x_low, r, c, m, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, D, BK):
        k = start + tl.arange(0, BK)
        at = r[:, None] * D + k[None, :]
        zh = tl.load(z_high + at, mask=(r < m)[:, None], other=0.0)
        zl = tl.load(z_low + at, mask=(r < m)[:, None], other=0.0)
        of = c[None, :] * D + k[:, None]
        total += _pair_product(zh, zl, tl.load(x_high + of), tl.load(x_low + of))
    return total


@triton.jit
def _one(
    z_high, z_low, scales, norms, x_high, x_low, shifts, weights, sums, sizes, m, positive, n,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    k = tl.arange(0, BK)
    scale = tl.load(scales + r, mask=r < m, other=0.0)[:, None]
    norm = tl.load(norms + r, mask=r < m, other=0.0)[:, None]
    if D == BK:
        at = r[:, None] * D + k[None, :]
        zh = tl.load(z_high + at, mask=(r < m)[:, None], other=0.0)
        zl = tl.load(z_low + at, mask=(r < m)[:, None], other=0.0)
    total = tl.zeros((BM,), tl.float64)
    size = tl.zeros((BM,), tl.float64)
    for start in range(0, n, BN):
        c = start + tl.arange(0, BN)
        if D == BK:
            of = c[None, :] * D + k[:, None]
            t = _pair_product(zh, zl, tl.load(x_high + of), tl.load(x_low + of))
        else:
            t = _chunked_product(z_high, z_low, x_high, x_low, r, c, m, D, BM, BN, BK)
        K = tl.exp2(t * scale + tl.load(shifts + c)[None, :] + norm)
        part = tl.sum(K * tl.load(weights + c)[None, :], 1).to(tl.float64)
        size += part
        total += tl.where(start < positive, part, -part)
    tl.store(sums + r, total, mask=r < m)
    tl.store(sizes + r, size, mask=r < m)


@triton.jit
def _several(
    z_high, z_low, scales, norms, x_high, x_low, shifts, a_high, a_low, a_size, starts, sums, sizes,
    m, D: tl.constexpr, W: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0)
    r = tl.program_id(1).to(tl.int64) * BM + tl.arange(0, BM)
    k, w = tl.arange(0, BK), tl.arange(0, W)
    scale = tl.load(scales + r, mask=r < m, other=0.0)[:, None]
    norm = tl.load(norms + r, mask=r < m, other=0.0)[:, None]
    if D == BK:
        at = r[:, None] * D + k[None, :]
        zh = tl.load(z_high + at, mask=(r < m)[:, None], other=0.0)
        zl = tl.load(z_low + at, mask=(r < m)[:, None], other=0.0)
    total = tl.zeros((BM, W), tl.float32)
    size = tl.zeros((BM, W), tl.float32)
    for start in range(tl.load(starts + group), tl.load(starts + group + 1), BN):
        c = start + tl.arange(0, BN)
        if D == BK:
            of = c[None, :] * D + k[:, None]
            t = _pair_product(zh, zl, tl.load(x_high + of), tl.load(x_low + of))
        else:
            t = _chunked_product(z_high, z_low, x_high, x_low, r, c, m, D, BM, BN, BK)
        K = tl.exp2(t * scale + tl.load(shifts + c)[None, :] + norm) * 16384.0
        kh = K.to(tl.float16)
        kl = (K - kh.to(tl.float32)).to(tl.float16)
        of = c[:, None] * W + w[None, :]
        total += _pair_product(kh, kl, tl.load(a_high + of), tl.load(a_low + of))
        size += tl.dot(kh, tl.load(a_size + of), out_dtype=tl.float32)
    at = r[:, None] * (tl.num_programs(0) * W) + (group * W + w)[None, :]
    tl.store(sums + at, total, mask=(r < m)[:, None])
    tl.store(sizes + at, size, mask=(r < m)[:, None])
