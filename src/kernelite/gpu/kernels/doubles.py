"""Exact sums of one output in doubles: products on tensor cores, exp, sums; what is open goes here.

Centers are shared out, so that few rows keep a whole GPU busy: `TILES` tiles of `CENTERS` at most
in one sum, then the sums. So a term is added fewer than CENTERS + TILES + n / 4096 + 2 times, which
is less than `cpu.exact_rounding` counts: min(n, 512) + n / 256 + 72. (Zeros that pad do not round.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from kernelite.gpu.exact import ExactSums

__all__ = ["exact_bound", "run_doubles"]

ROWS, CENTERS, FEATURES = 32, 64, 32
TILES = 64
PROGRAMS = 512  # that keep a GPU busy


def run_doubles(layout: ExactSums, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores and bounds of shape (m, 1) for contiguous rows of shape (m, d)."""
    (m, d), n = rows.shape, len(layout.table)
    scores, bounds = torch.empty(2, m, 1, dtype=torch.float64, device=rows.device)
    if not m:
        return scores, bounds
    tiles, blocks = triton.cdiv(n, CENTERS), triton.cdiv(m, ROWS)
    each = max(1, min(TILES, tiles * blocks // PROGRAMS))
    shares = triton.cdiv(tiles, each)
    sums = torch.empty(shares, m, dtype=torch.float64, device=rows.device)
    squares = torch.empty(m, dtype=torch.float64, device=rows.device)
    width = len(layout.columns)
    _sums[(blocks, shares)](
        rows, layout.point, layout.columns, layout.table, layout.coefficients, layout.bound.finish,
        sums, squares, m, n, each, d=d, L=width, BM=ROWS, BN=CENTERS, BK=FEATURES, num_warps=4,
    )  # fmt: skip
    _ends[(triton.cdiv(m, 128),)](
        sums, squares, layout.intercept, layout.bound.finish, scores, bounds, m, shares,
        BM=128, num_warps=4,
    )  # fmt: skip
    return scores, bounds


@triton.jit
def _nearest(square, exact):
    """gamma max(0, |u| - R)^2, not above the real value."""
    gap = tl.maximum(tl.sqrt(square) * tl.load(exact + 1) - tl.load(exact + 2), 0.0)
    gap *= tl.load(exact + 3)
    return gap * gap * tl.load(exact + 1)


@triton.jit
def exact_bound(square, exact):
    """`ExactBound` of one output, from |u|^2 and its constants."""
    nearest = _nearest(square, exact)
    spread = tl.load(exact + 4) + tl.load(exact + 5) * (
        tl.load(exact + 6) + tl.load(exact) * square
    )
    relative = tl.where(nearest < tl.load(exact + 7), tl.exp(-nearest) * spread, 0.0)
    return relative * tl.load(exact + 8) + tl.load(exact + 9)


@triton.jit
def _sums(
    rows, point, columns, table, weights, exact, sums, squares, m, n, each,
    d: tl.constexpr, L: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    at = rows + r[:, None] * d
    square = tl.zeros((BM,), tl.float64)
    for start in range(0, d, BK):
        k = start + tl.arange(0, BK)
        here = (r < m)[:, None] & (k < d)[None, :]
        p = tl.load(point + k, mask=k < d, other=0.0)[None, :]
        u = tl.where(here, tl.load(at + k[None, :], mask=here, other=0.0).to(tl.float64) - p, 0.0)
        square += tl.sum(u * u, 1)
    norm = (tl.load(exact) * square)[:, None]
    total = tl.zeros((BM,), tl.float64)
    first = tl.program_id(1) * each * BN
    for begin in range(first, tl.minimum(first + each * BN, n), BN):
        c = begin + tl.arange(0, BN)
        t = tl.zeros((BM, BN), tl.float64)
        for start in range(0, L, BK):
            k = start + tl.arange(0, BK)
            column = tl.load(columns + k, mask=k < L, other=0)
            here = (r < m)[:, None] & (k < L)[None, :]
            z = tl.load(at + column[None, :], mask=here, other=0.0).to(tl.float64)
            u = tl.where(here, z - tl.load(point + column)[None, :], 0.0)
            of = c[None, :] * (L + 2) + k[:, None]
            y = tl.load(table + of, mask=(c < n)[None, :] & (k < L)[:, None], other=0.0)
            t = tl.dot(u, y, t, out_dtype=tl.float64)
        t += tl.load(table + c * (L + 2) + L, mask=c < n, other=0.0)[None, :]
        K = tl.exp(tl.minimum(t - norm, 0.0))
        total += tl.sum(K * tl.load(weights + c, mask=c < n, other=0.0)[None, :], 1)
    tl.store(sums + tl.program_id(1).to(tl.int64) * m + r, total, mask=r < m)
    if tl.program_id(1) == 0:
        tl.store(squares + r, square, mask=r < m)


@triton.jit
def _ends(sums, squares, intercept, exact, scores, bounds, m, shares, BM: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    square = tl.load(squares + r, mask=r < m, other=0.0)
    total = tl.zeros((BM,), tl.float64)
    at = sums + r
    for _ in range(shares):
        total += tl.load(at, mask=r < m, other=0.0)
        at += m
    # Rows so far from all centers that f is b; products may have overflowed there.
    near = _nearest(square, exact) < tl.load(exact + 7)
    score = tl.where(near, total, 0.0) + tl.load(intercept)
    tl.store(scores + r, score, mask=r < m)
    tl.store(bounds + r, exact_bound(square, exact), mask=r < m)
