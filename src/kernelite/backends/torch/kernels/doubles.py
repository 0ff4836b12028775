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
    from kernelite.backends.torch.exact import ExactSums

__all__ = ["LISTED", "exact_bound", "run_doubles", "run_open"]

ROWS, CENTERS, FEATURES = 32, 64, 32
TILES = 64
PROGRAMS = 512  # that keep a GPU busy
LISTED = 2048  # open rows of a block that are answered without asking how many they are


def run_doubles(layout: ExactSums, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores and bounds of shape (m, 1) for contiguous rows of shape (m, d)."""
    m = len(rows)
    scores, bounds = torch.empty(2, m, 1, dtype=torch.float64, device=rows.device)
    if m:
        tiles, blocks = triton.cdiv(len(layout.table), CENTERS), triton.cdiv(m, ROWS)
        each = max(1, min(TILES, tiles * blocks // PROGRAMS))
        stage = torch.empty(0, dtype=torch.int8, device=rows.device)
        _launch(layout, rows, (stage, stage), (scores, bounds, stage), m, each)
    return scores, bounds


def run_open(
    layout: ExactSums,
    rows: torch.Tensor,
    settled: torch.Tensor,
    scores: torch.Tensor,
    bounds: torch.Tensor,
    stage: torch.Tensor,
) -> torch.Tensor:
    """Write scores and bounds of rows that are not settled, the first `LISTED`, and their stage.

    Nothing waits: which rows are open is known on the device alone.

    Returns
    -------
    int32 tensor of shape (2,)
        How many rows were open, and how many of those listed have |u|^2 that is not a number.
    """
    m, device = len(rows), rows.device
    listed = torch.empty(LISTED, dtype=torch.int64, device=device)
    flags = torch.zeros(2, dtype=torch.int32, device=device)
    if m:
        _list_open[(triton.cdiv(m, 1024),)](
            settled, listed, flags, m, MOST=LISTED, BM=1024, num_warps=4
        )
        each = max(1, min(TILES, triton.cdiv(len(layout.table), CENTERS) // 128))
        outputs = (scores, bounds, stage)
        _launch(layout, rows, (listed, flags), outputs, min(m, LISTED), each, listed_only=True)
    return flags


def _launch(
    layout: ExactSums,
    rows: torch.Tensor,
    lists: tuple[torch.Tensor, torch.Tensor],
    outputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    m: int,
    each: int,
    *,
    listed_only: bool = False,
) -> None:
    """Sums of m rows, `each` tiles of centers at a time, then scores and bounds."""
    shares = triton.cdiv(triton.cdiv(len(layout.table), CENTERS), each)
    sums = torch.empty(shares + 1, m, dtype=torch.float64, device=rows.device)
    exact, kind = layout.bound.finish, {"LISTED": listed_only, "num_warps": 4}
    _sums[(triton.cdiv(m, ROWS), shares)](
        rows, *lists, layout.point, layout.columns, layout.table, layout.coefficients, exact, sums,
        m, len(layout.table), each, d=rows.shape[1], L=len(layout.columns), BM=ROWS, BN=CENTERS,
        BK=FEATURES, **kind,
    )  # fmt: skip
    _ends[(triton.cdiv(m, 128),)](
        sums, *lists, layout.intercept, exact, *outputs, m, shares, BM=128, **kind
    )


@triton.jit
def _list_open(settled, listed, flags, m, MOST: tl.constexpr, BM: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    is_open = (tl.load(settled + r, mask=r < m, other=1) == 0).to(tl.int32)
    count = tl.sum(is_open, 0)
    if count > 0:
        place = tl.atomic_add(flags, count) + tl.cumsum(is_open, 0) - 1
        tl.store(listed + place, r, mask=(is_open == 1) & (place < MOST))


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
def _places(listed, flags, m, LISTED: tl.constexpr, BM: tl.constexpr):
    """Places in the list, how many there are, and the rows there; or rows themselves."""
    place = tl.program_id(0) * BM + tl.arange(0, BM)
    r = place.to(tl.int64)
    if LISTED:
        m = tl.minimum(m, tl.load(flags))
        r = tl.load(listed + place, mask=place < m, other=0)
    return place, m, r


@triton.jit
def _sums(
    rows, listed, flags, point, columns, table, weights, exact, sums, most, n, each,
    d: tl.constexpr, L: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    LISTED: tl.constexpr,
):  # fmt: skip
    place, m, r = _places(listed, flags, most, LISTED, BM)
    inside = place < m
    at = rows + r[:, None] * d
    first = tl.program_id(1) * each * BN
    last = tl.minimum(first + each * BN, n)
    if tl.program_id(0) * BM >= m:  # no row is here
        last = first
    square = tl.zeros((BM,), tl.float64)
    for start in range(0, d, BK):
        k = start + tl.arange(0, BK)
        here = inside[:, None] & (k < d)[None, :]
        p = tl.load(point + k, mask=k < d, other=0.0)[None, :]
        u = tl.where(here, tl.load(at + k[None, :], mask=here, other=0.0).to(tl.float64) - p, 0.0)
        square += tl.sum(u * u, 1)
    norm = (tl.load(exact) * square)[:, None]
    total = tl.zeros((BM,), tl.float64)
    for begin in range(first, last, BN):
        c = begin + tl.arange(0, BN)
        t = tl.zeros((BM, BN), tl.float64)
        for start in range(0, L, BK):
            k = start + tl.arange(0, BK)
            column = tl.load(columns + k, mask=k < L, other=0)
            here = inside[:, None] & (k < L)[None, :]
            z = tl.load(at + column[None, :], mask=here, other=0.0).to(tl.float64)
            u = tl.where(here, z - tl.load(point + column)[None, :], 0.0)
            of = c[None, :] * (L + 2) + k[:, None]
            y = tl.load(table + of, mask=(c < n)[None, :] & (k < L)[:, None], other=0.0)
            t = tl.dot(u, y, t, out_dtype=tl.float64)
        t += tl.load(table + c * (L + 2) + L, mask=c < n, other=0.0)[None, :]
        K = tl.exp(tl.minimum(t - norm, 0.0))
        total += tl.sum(K * tl.load(weights + c, mask=c < n, other=0.0)[None, :], 1)
    # The first line holds |u|^2, the others the sums.
    tl.store(sums + (tl.program_id(1) + 1).to(tl.int64) * most + place, total, mask=inside)
    if tl.program_id(1) == 0:
        tl.store(sums + place, square, mask=inside)


@triton.jit
def _ends(
    sums, listed, flags, intercept, exact, scores, bounds, stage, most, shares,
    BM: tl.constexpr, LISTED: tl.constexpr,
):  # fmt: skip
    place, m, r = _places(listed, flags, most, LISTED, BM)
    inside = place < m
    square = tl.load(sums + place, mask=inside, other=0.0)
    total = tl.zeros((BM,), tl.float64)
    at = sums + place
    for _ in range(shares):
        at += most
        total += tl.load(at, mask=inside, other=0.0)
    # Rows so far from all centers that f is b; products may have overflowed there.
    near = _nearest(square, exact) < tl.load(exact + 7)
    score = tl.where(near, total, 0.0) + tl.load(intercept)
    tl.store(scores + r, score, mask=inside)
    tl.store(bounds + r, exact_bound(square, exact), mask=inside)
    if LISTED:
        tl.store(stage + r, 2, mask=inside)
        strange = tl.sum((inside & ~(square < float("inf"))).to(tl.int32), 0)
        tl.atomic_add(flags + 1, strange)
