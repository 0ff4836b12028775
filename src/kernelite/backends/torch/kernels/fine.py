"""Exact sums from digits: products of integers on tensor cores, exp2 as a polynomial, in doubles.

In: rows and centers as digits. Out: scores and bounds of one output. `torch.fine` has the proof.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl

from kernelite.backends.torch.kernels.fused import TileShape, one_end, run_shares

if TYPE_CHECKING:
    from kernelite.backends.torch.fine import FineSums, RowDigits
    from kernelite.backends.torch.kernels.rows import OpenRows

__all__ = ["run_fine"]

# What ran fastest on an H200; of wide rows, what fits beside the tensor cores.
TILES = {
    32: TileShape(128, 128, 8, 3),
    64: TileShape(128, 128, 8, 3),
    128: TileShape(128, 64, 8, 2),
}


def run_fine(
    layout: FineSums,
    digits: RowDigits,
    into: tuple[torch.Tensor, torch.Tensor] | None = None,
    still: OpenRows | None = None,
    *,
    keep: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores and bounds of shape (m, 1); `fused.run_one` says what the arguments are."""

    def launch(grid: Any, lists: Any, parts: Any, ends: Any, each: int, **kind: Any) -> None:
        _fine[grid](
            digits.table, digits.units, digits.norms, *lists, layout.table, layout.shifts,
            layout.weights, layout.powers, parts, *ends, len(digits.units),
            digits.table.stride(0), layout.positive, len(layout.shifts), each, D=layout.width,
            **kind,
        )  # fmt: skip

    return run_shares(launch, layout, digits, TILES[layout.width], into, still, keep=keep)


@triton.jit
def _as_double(x):
    """A 32-bit integer as a double: bits of 2^52 + 2^31 + x, which are put together."""
    bits = (x.to(tl.int64) & 0xFFFFFFFF) ^ 0x4330000080000000
    return bits.to(tl.float64, bitcast=True) - 4503601774854144.0


@triton.jit
def _fine_over(
    z0, z1, z2, z3, z4, Y, shifts, weights, powers, unit, first, last, line,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """sum_i |A_i| 2^(y_i.u - g |s_i|^2) over some centers: shape (BM,)."""
    total = tl.zeros((BM, 8), tl.float64)
    k = tl.arange(0, D)
    for start in range(first, last, BN):
        c = start + tl.arange(0, BN)
        at = Y + c[None, :] * D + k[:, None]
        y0, y1, y2 = tl.load(at), tl.load(at + line), tl.load(at + 2 * line)
        y3, y4 = tl.load(at + 3 * line), tl.load(at + 4 * line)
        a = tl.dot(z0, y4, out_dtype=tl.int32)
        a = tl.dot(z1, y3, a, out_dtype=tl.int32)
        a = tl.dot(z2, y2, a, out_dtype=tl.int32)
        a = tl.dot(z3, y1, a, out_dtype=tl.int32)
        a = tl.dot(z4, y0, a, out_dtype=tl.int32)
        lo = a >> 7
        lo = tl.dot(z0, y3, lo, out_dtype=tl.int32)
        lo = tl.dot(z1, y2, lo, out_dtype=tl.int32)
        lo = tl.dot(z2, y1, lo, out_dtype=tl.int32)
        lo = tl.dot(z3, y0, lo, out_dtype=tl.int32)
        a = tl.dot(z0, y2, out_dtype=tl.int32)
        a = tl.dot(z1, y1, a, out_dtype=tl.int32)
        a = tl.dot(z2, y0, a, out_dtype=tl.int32)
        lo += a * 128
        hi = tl.dot(z0, y0, out_dtype=tl.int32) * 128
        hi = tl.dot(z0, y1, hi, out_dtype=tl.int32)
        hi = tl.dot(z1, y0, hi, out_dtype=tl.int32)
        t = _as_double(hi) * 16384.0 + _as_double(lo)
        t = t * unit + tl.load(shifts + c)[None, :]
        near = t + 6755399441055744.0  # whose last bits are the nearest whole number
        f = t - (near - 6755399441055744.0)
        power = tl.load(powers + 5) + tl.load(powers + 6) * f
        power = tl.load(powers + 4) + power * f
        power = tl.load(powers + 3) + power * f
        power = tl.load(powers + 2) + power * f
        power = tl.load(powers + 1) + power * f
        power = tl.load(powers) + power * f
        K = power.to(tl.int64, bitcast=True) + (near.to(tl.int64, bitcast=True) << 52)
        K = K.to(tl.float64, bitcast=True) * tl.load(weights + c)[None, :]
        # Neighbours in registers are eight columns apart: no thread waits for another.
        total += tl.sum(tl.reshape(K, (BM, BN // 8, 8)), 1)
    return tl.sum(total, 1)


@triton.jit
def _fine(
    Z, units, norms, listed, many, Y, shifts, weights, powers, parts, squares, finish, exact,
    scores, bounds, m, line, positive, n, each, D: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, SHARED: tl.constexpr, LISTED: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    most = m
    if LISTED:
        m = tl.load(many)
    place = tl.program_id(0) * BM + tl.arange(0, BM)
    r = place.to(tl.int64)
    inside = r < m
    first = tl.program_id(1) * each * BN
    last = tl.minimum(first + each * BN, n)
    if tl.program_id(0) * BM >= m:  # no row is here: a list may be short
        last = first
    at = Z + r[:, None] * D + tl.arange(0, D)[None, :]
    z0 = tl.load(at, mask=inside[:, None], other=0)
    z1 = tl.load(at + line, mask=inside[:, None], other=0)
    z2 = tl.load(at + 2 * line, mask=inside[:, None], other=0)
    z3 = tl.load(at + 3 * line, mask=inside[:, None], other=0)
    z4 = tl.load(at + 4 * line, mask=inside[:, None], other=0)
    unit = (tl.load(units + r, mask=inside, other=0.0) * 4.76837158203125e-07)[:, None]
    up = _fine_over(
        z0, z1, z2, z3, z4, Y, shifts, weights, powers, unit, first, tl.minimum(last, positive),
        n * D, D, BM, BN,
    )  # fmt: skip
    down = _fine_over(
        z0, z1, z2, z3, z4, Y, shifts, weights, powers, unit, tl.maximum(first, positive), last,
        n * D, D, BM, BN,
    )  # fmt: skip
    scale = tl.exp(tl.load(norms + r, mask=inside, other=0.0) * 0.6931471805599453)
    up, down = up * scale, down * scale
    if SHARED:
        to = parts + tl.program_id(1).to(tl.int64) * 2 * most + r
        tl.store(to, up, mask=inside)
        tl.store(to + most, down, mask=inside)
    else:
        one_end(
            up, down, units, squares, listed, finish, exact, scores, bounds, place, m, LISTED, KEEP
        )
