"""Rows in slices of half precision, or in digits: shifted, scaled, rounded, with their norms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from kernelite.backends.torch.forms import padded
from kernelite.backends.torch.kernels.lists import places_of

if TYPE_CHECKING:
    from kernelite.backends.torch.fine import FineSums, RowDigits
    from kernelite.backends.torch.fused import RowSlices, SliceSums
    from kernelite.backends.torch.kernels.lists import OpenRows

__all__ = ["run_digits", "run_split"]

ELEMENTS, FEATURES = 4096, 1024  # of a tile: so that rows are read once if they are not wider


def run_split(layout: SliceSums, rows: torch.Tensor, still: OpenRows | None = None) -> RowSlices:
    """As `SliceSums.split`, for contiguous rows of shape (m, d), or those that a list names."""
    from kernelite.backends.torch.fused import FARTHEST, NEAREST, RowSlices

    (m, d), device = rows.shape, rows.device
    table = torch.empty(3, m, layout.width, dtype=torch.float16, device=device)
    singles = torch.empty(2, m, dtype=torch.float32, device=device)
    squares = torch.empty(m, dtype=torch.float64, device=device)
    wide = min(FEATURES, padded(max(d, layout.width)))
    tall = ELEMENTS // wide
    if m:
        lists = (squares, squares) if still is None else still
        _split[(triton.cdiv(m, tall),)](
            rows, *lists, layout.point, layout.columns, layout.rate, *table, *singles, squares, m,
            layout.scale, bits=layout.bits, far=FARTHEST, near=NEAREST, d=d,
            varying=len(layout.columns), D=layout.width, BM=tall, BK=wide,
            LISTED=still is not None, num_warps=4,
        )  # fmt: skip
    return RowSlices(table, singles[0], singles[1], squares)


def run_digits(layout: FineSums, rows: torch.Tensor, still: OpenRows | None = None) -> RowDigits:
    """As `FineSums.split`, for contiguous rows of shape (m, d), or those that a list names."""
    from kernelite.backends.torch.fine import BEYOND, FARTHEST_FINE, NEAREST, RowDigits

    (m, d), device = rows.shape, rows.device
    table = torch.empty(5, m, layout.width, dtype=torch.int8, device=device)
    doubles = torch.empty(3, m, dtype=torch.float64, device=device)
    wide = min(FEATURES, padded(max(d, layout.width)))
    tall = ELEMENTS // wide
    if m:
        lists = (doubles, doubles) if still is None else still
        _digits[(triton.cdiv(m, tall),)](
            rows, *lists, layout.point, layout.columns, layout.rate, table, *doubles, m,
            table.stride(0), layout.scale, far=BEYOND, near=NEAREST, reach=FARTHEST_FINE, d=d,
            varying=len(layout.columns), D=layout.width, BM=tall, BK=wide,
            LISTED=still is not None, num_warps=4,
        )  # fmt: skip
    return RowDigits(table, *doubles)


@triton.jit
def _power_of_two(exponent):
    """2^exponent as a double, for exponents within +-1000."""
    return ((exponent + 1023).to(tl.int64) << 52).to(tl.float64, bitcast=True)


@triton.jit
def _looked_over(rows, row, inside, point, d: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    """|u|^2 of some rows, and e of their largest entry: 2^(e - 1) <= it < 2^e. Shapes (BM,)."""
    square = tl.zeros((BM,), tl.float64)
    largest = tl.zeros((BM,), tl.float64)
    for start in range(0, d, BK):
        k = start + tl.arange(0, BK)
        here = inside[:, None] & (k < d)[None, :]
        z = tl.load(rows + row[:, None] * d + k[None, :], mask=here, other=0.0).to(tl.float64)
        u = tl.where(here, z - tl.load(point + k, mask=k < d, other=0.0)[None, :], 0.0)
        square += tl.sum(u * u, 1)
        largest = tl.maximum(largest, tl.max(tl.abs(u), 1))
    # A double is 1.f 2^(b - 1023), b its exponent's bits.
    return square, ((largest.to(tl.int64, bitcast=True) >> 52) & 2047).to(tl.int32) - 1022


@triton.jit
def _scaled(rows, row, inside, point, columns, k, factor, d: tl.constexpr, varying: tl.constexpr):
    """Some features of u, times a factor for each row; zero beyond the last feature."""
    column = tl.load(columns + k, mask=k < varying, other=0)
    here = inside[:, None] & (k < varying)[None, :]
    z = tl.load(rows + row[:, None] * d + column[None, :], mask=here, other=0.0).to(tl.float64)
    p = tl.load(point + column, mask=k < varying, other=0.0)
    return tl.where(here, (z - p[None, :]) * factor[:, None], 0.0)


@triton.jit
def _split(
    rows, listed, many, point, columns, rate, whole, fraction, rest, units, norms, squares, m,
    scale,
    bits: tl.constexpr, far: tl.constexpr, near: tl.constexpr, d: tl.constexpr,
    varying: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
    LISTED: tl.constexpr,
):  # fmt: skip
    if LISTED:
        m = tl.load(many)
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    row = places_of(listed, r, r < m, LISTED)
    square, exponent = _looked_over(rows, row, r < m, point, d, BM, BK)
    lost = (exponent > far) | ~(square < float("inf"))
    exponent = tl.where(lost, 0, tl.maximum(exponent, near))
    factor = _power_of_two(bits - exponent)
    # x + c - c rounds x to the last place of c.
    ones: tl.constexpr = 6755399441055744.0
    fractions: tl.constexpr = ones / (1 << bits)
    for start in range(0, D, BK):
        k = start + tl.arange(0, BK)
        u = _scaled(rows, row, (r < m) & ~lost, point, columns, k, factor, d, varying)
        u1 = (u + ones) - ones
        u -= u1
        u2 = (u + fractions) - fractions
        at = r[:, None] * D + k[None, :]
        inside = (r < m)[:, None] & (k < D)[None, :]
        tl.store(whole + at, u1.to(tl.float16), mask=inside)
        tl.store(fraction + at, u2.to(tl.float16), mask=inside)
        tl.store(rest + at, (u - u2).to(tl.float16), mask=inside)
    unit = _power_of_two(exponent - bits - scale).to(tl.float32)
    norm = tl.where(lost, 0.0, -square * tl.load(rate))
    tl.store(units + r, unit, mask=r < m)
    tl.store(norms + r, norm.to(tl.float32), mask=r < m)
    tl.store(squares + r, tl.where(lost, float("inf"), square), mask=r < m)


@triton.jit
def _digits(
    rows, listed, many, point, columns, rate, table, units, norms, squares, m, line, scale,
    far: tl.constexpr, near: tl.constexpr, reach: tl.constexpr, d: tl.constexpr,
    varying: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
    LISTED: tl.constexpr,
):  # fmt: skip
    if LISTED:
        m = tl.load(many)
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    row = places_of(listed, r, r < m, LISTED)
    square, exponent = _looked_over(rows, row, r < m, point, d, BM, BK)
    away = tl.sqrt(square * tl.load(rate)) + tl.load(rate + 1)
    lost = (exponent > far) | ~(away * away < reach)
    exponent = tl.where(lost, 0, tl.maximum(exponent, near))
    ones: tl.constexpr = 6755399441055744.0  # x + ones - ones rounds x to a whole number
    k, factor = tl.arange(0, D), _power_of_two(6 - exponent)
    left = _scaled(rows, row, (r < m) & ~lost, point, columns, k, factor, d, varying)
    at = table + r[:, None] * D + k[None, :]
    for digit in tl.static_range(5):
        whole = (left + ones) - ones
        tl.store(at + digit * line, whole.to(tl.int8), mask=(r < m)[:, None])
        left = (left - whole) * 128.0
    tl.store(units + r, _power_of_two(exponent - 6 - scale), mask=r < m)
    tl.store(norms + r, tl.where(lost, 0.0, -square * tl.load(rate)), mask=r < m)
    tl.store(squares + r, tl.where(lost, float("inf"), square), mask=r < m)
