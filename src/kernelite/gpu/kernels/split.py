"""Rows as pairs of half precision: one pass that shifts, scales, rounds and takes norms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from kernelite.gpu.fused import FusedSums, RowPairs

__all__ = ["run_split"]

ROWS, FEATURES = 32, 64


def run_split(layout: FusedSums, rows: torch.Tensor) -> RowPairs:
    """As `FusedSums.split`, for contiguous rows of shape (m, d)."""
    from kernelite.gpu.fused import RowPairs

    (m, d), device = rows.shape, rows.device
    pair = torch.empty(2, m, layout.width, dtype=torch.float16, device=device)
    singles = torch.empty(2, m, dtype=torch.float32, device=device)
    squares = torch.empty(m, dtype=torch.float64, device=device)
    if m:
        _split[(triton.cdiv(m, ROWS),)](
            rows,
            layout.point,
            layout.columns,
            layout.rate,
            pair[0],
            pair[1],
            singles[0],
            singles[1],
            squares,
            m,
            scale=layout.scale,
            d=d,
            varying=len(layout.columns),
            D=layout.width,
            BM=ROWS,
            BK=min(FEATURES, layout.width),
            num_warps=4,
        )
    return RowPairs(pair[0], pair[1], singles[0], singles[1], squares)


@triton.jit
def _power_of_two(exponent):
    """2^exponent as a double, for exponents within +-1000."""
    return ((exponent + 1023).to(tl.int64) << 52).to(tl.float64, bitcast=True)


@triton.jit
def _split(
    rows, point, columns, rate, high, low, scales, norms, squares, m, scale: tl.constexpr,
    d: tl.constexpr, varying: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    square = tl.zeros((BM,), tl.float64)
    largest = tl.zeros((BM,), tl.float64)
    for start in range(0, d, BK):
        k = start + tl.arange(0, BK)
        here = (r < m)[:, None] & (k < d)[None, :]
        z = tl.load(rows + r[:, None] * d + k[None, :], mask=here, other=0.0).to(tl.float64)
        u = tl.where(here, z - tl.load(point + k, mask=k < d, other=0.0)[None, :], 0.0)
        square += tl.sum(u * u, 1)
        largest = tl.maximum(largest, tl.max(tl.abs(u), 1))
    # The exponent's bits: a double is 1.f 2^(e - 1023), and 0.5 <= mantissa < 1 for frexp.
    exponent = ((largest.to(tl.int64, bitcast=True) >> 52) & 2047).to(tl.int32) - 1022
    lost = (exponent > 60) | ~(square < float("inf"))
    exponent = tl.where(lost, 0, tl.maximum(exponent, -60))
    factor = _power_of_two(14 - exponent)
    for start in range(0, D, BK):
        k = start + tl.arange(0, BK)
        column = tl.load(columns + k, mask=k < varying, other=0)
        here = (r < m)[:, None] & (k < varying)[None, :] & ~lost[:, None]
        z = tl.load(rows + r[:, None] * d + column[None, :], mask=here, other=0.0).to(tl.float64)
        p = tl.load(point + column, mask=k < varying, other=0.0)
        u = tl.where(here, (z - p[None, :]) * factor[:, None], 0.0)
        h = u.to(tl.float16)
        at = r[:, None] * D + k[None, :]
        inside = (r < m)[:, None] & (k < D)[None, :]
        tl.store(high + at, h, mask=inside)
        tl.store(low + at, (u - h.to(tl.float64)).to(tl.float16), mask=inside)
    back = _power_of_two(exponent - 14 - scale).to(tl.float32)
    norm = tl.where(lost, 0.0, -square * tl.load(rate))
    tl.store(scales + r, back, mask=r < m)
    tl.store(norms + r, norm.to(tl.float32), mask=r < m)
    tl.store(squares + r, tl.where(lost, float("inf"), square), mask=r < m)
