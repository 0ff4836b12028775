"""Exact sums in doubles: products on tensor cores, exp, sums; what is open goes here.

Rows are all of a block, or those that a list on the device names. The host does not know how many
these are, so a fixed number of programs share out what there is to do. Few rows share their centers
out too: one sum is of `SUM_TILES` tiles of `CENTERS` at most, then come the sums. So a term is
added fewer than CENTERS + SUM_TILES + n / 4096 + 2 times, which is less than `cpu.exact_rounding`
counts: min(n, 512) + n / 256 + 72. (Zeros that pad do not round.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl

from kernelite.backends.torch.forms import padded
from kernelite.backends.torch.kernels.rows import places_of

if TYPE_CHECKING:
    from kernelite.backends.torch.exact import ExactSums
    from kernelite.backends.torch.kernels.rows import OpenRows

__all__ = ["exact_bound", "run_distances", "run_doubles"]

ROWS, CENTERS, FEATURES = 32, 64, 32
DOUBLE_OUTPUTS = 64  # outputs that are summed at a time
SUM_TILES = 64
PIECES, PROGRAMS = 1024, 528  # of work, and programs that walk over them: so a GPU is busy
INTERPRETED_PIECES = 4  # of both, where there is none


def run_doubles(
    layout: ExactSums,
    rows: torch.Tensor,
    tally: torch.Tensor | None = None,
    *,
    into: tuple[torch.Tensor, torch.Tensor] | None = None,
    still: OpenRows | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores and bounds of shape (m, k) for contiguous rows of shape (m, d).

    Parameters
    ----------
    tally : int32 tensor, optional
        To whose entry 1 the number of rows is added whose |u|^2 is not finite.
    into : (scores, bounds), optional
        Where they are written, new tensors by default.
    still : OpenRows, optional
        Which rows are computed and written; all by default.
    """
    if into is None:
        shape = (2, len(rows), layout.n_outputs)
        into = tuple(torch.empty(shape, dtype=torch.float64, device=rows.device))  # type: ignore[assignment]
    if not len(rows):
        return into
    m, n, k = len(rows), len(layout.table), layout.n_outputs
    W = 1 if k == 1 else min(DOUBLE_OUTPUTS, padded(k))
    chunks, blocks = triton.cdiv(k, W), triton.cdiv(m, ROWS)
    pieces, programs = (
        (PIECES, PROGRAMS) if rows.is_cuda else (INTERPRETED_PIECES, INTERPRETED_PIECES)
    )
    lines = (pieces // chunks + blocks + 1) * ROWS
    device = rows.device
    squares = torch.empty(blocks * ROWS, dtype=torch.float64, device=device)
    sums = torch.empty(lines * chunks * W, dtype=torch.float64, device=device)
    bound = layout.bound
    lists = (squares, squares) if still is None else still
    kind: dict[str, Any] = {"LISTED": still is not None, "BM": ROWS, "BN": CENTERS, "W": W}
    kind |= {"K": k, "CHUNKS": chunks, "PIECES": pieces, "num_warps": 4}
    _sums[(min(programs, max(pieces, blocks)),)](
        rows, *lists, layout.point, layout.columns, layout.table, layout.coefficients,
        bound.finish, squares, sums, m, n, d=rows.shape[1], L=len(layout.columns), BK=FEATURES,
        SUM_TILES=SUM_TILES, **kind,
    )  # fmt: skip
    tall = 128 if k == 1 else max(1, 512 // W)
    _ends[(triton.cdiv(m, tall), chunks)](
        squares, sums, *lists, layout.intercept, bound.finish, bound.weight, bound.constant, *into,
        squares if tally is None else tally, m, n, TALL=tall, TALLIED=tally is not None,
        **kind,
    )  # fmt: skip
    return into


@triton.jit
def _nearest(square, exact):
    """gamma max(0, |u| - R)^2, not above the real value; constants as `ExactRounding.numbers`."""
    gap = tl.maximum(tl.sqrt(square) * tl.load(exact) - tl.load(exact + 1), 0.0)
    gap *= tl.load(exact + 2)
    return gap * gap * tl.load(exact)


@triton.jit
def relative_bound(square, exact):
    """`ExactBound.relative`: what the outputs' weights are multiplied with."""
    nearest = _nearest(square, exact)
    spread = tl.load(exact + 4) + tl.load(exact + 5) * (
        tl.load(exact + 6) + tl.load(exact + 7) * square
    )
    return tl.where(nearest < tl.load(exact + 3), tl.exp(-nearest) * spread, 0.0)


@triton.jit
def exact_bound(square, exact):
    """`ExactBound` of one output, from |u|^2 and its constants."""
    return relative_bound(square, exact) * tl.load(exact + 8) + tl.load(exact + 9)


@triton.jit
def _shared_out(
    count, n, BM: tl.constexpr, BN: tl.constexpr, CHUNKS: tl.constexpr, PIECES: tl.constexpr
):
    """Blocks of rows, and into how many shares of how many tiles the centers are cut."""
    blocks, tiles = tl.cdiv(count, BM), tl.cdiv(n, BN)
    wanted = PIECES // (CHUNKS * tl.maximum(blocks, 1))
    each = tl.cdiv(tiles, tl.maximum(1, tl.minimum(tiles, wanted)))
    return blocks, tl.cdiv(tiles, tl.maximum(each, 1)), each


@triton.jit
def _sums(
    rows, listed, many, point, columns, table, weights, exact, squares, sums, most, n,
    d: tl.constexpr, L: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    W: tl.constexpr, K: tl.constexpr, CHUNKS: tl.constexpr, SUM_TILES: tl.constexpr,
    PIECES: tl.constexpr, LISTED: tl.constexpr,
):  # fmt: skip
    count = most
    if LISTED:
        count = tl.load(many)
    blocks, shares, each = _shared_out(count, n, BM, BN, CHUNKS, PIECES)
    for piece in range(tl.program_id(0), blocks * shares * CHUNKS, tl.num_programs(0)):
        share = piece // (blocks * CHUNKS)
        chunk = piece // blocks % CHUNKS
        place = (piece % blocks) * BM + tl.arange(0, BM)
        inside = place < count
        at = rows + places_of(listed, place, inside, LISTED)[:, None] * d
        square = tl.zeros((BM,), tl.float64)
        for start in range(0, d, BK):
            k = start + tl.arange(0, BK)
            here = inside[:, None] & (k < d)[None, :]
            p = tl.load(point + k, mask=k < d, other=0.0)[None, :]
            z = tl.load(at + k[None, :], mask=here, other=0.0).to(tl.float64)
            u = tl.where(here, z - p, 0.0)
            square += tl.sum(u * u, 1)
        norm = (tl.load(exact + 7) * square)[:, None]
        last = tl.minimum((share + 1) * each * BN, n)
        w = chunk * W + tl.arange(0, W)
        total = tl.zeros((BM, W), tl.float64)
        for first in range(share * each * BN, last, SUM_TILES * BN):
            part = tl.zeros((BM, W), tl.float64)
            for begin in range(first, tl.minimum(first + SUM_TILES * BN, last), BN):
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
                value = tl.exp(tl.minimum(t - norm, 0.0))
                if W == 1:
                    a = tl.load(weights + c, mask=c < n, other=0.0)[None, :]
                    part += tl.sum(value * a, 1)[:, None]
                else:
                    held = (c < n)[:, None] & (w < K)[None, :]
                    a = tl.load(weights + c[:, None] * K + w[None, :], mask=held, other=0.0)
                    part = tl.dot(value, a, part, out_dtype=tl.float64)
            total += part
        line = (share * (blocks * BM) + place).to(tl.int64) * (CHUNKS * W)
        tl.store(sums + line[:, None] + w[None, :], total)
        if piece < blocks:
            tl.store(squares + place, square)


@triton.jit
def _ends(
    squares, sums, listed, many, intercept, exact, weight, constant, scores, bounds, tally, most, n,
    BM: tl.constexpr, BN: tl.constexpr, W: tl.constexpr, K: tl.constexpr, CHUNKS: tl.constexpr,
    TALL: tl.constexpr, PIECES: tl.constexpr, LISTED: tl.constexpr, TALLIED: tl.constexpr,
):  # fmt: skip
    count = most
    if LISTED:
        count = tl.load(many)
    place = tl.program_id(0) * TALL + tl.arange(0, TALL)
    if tl.program_id(0) * TALL < count:
        blocks, shares, _ = _shared_out(count, n, BM, BN, CHUNKS, PIECES)
        inside = place < count
        w = tl.program_id(1) * W + tl.arange(0, W)
        held = inside[:, None] & (w < K)[None, :]
        square = tl.load(squares + place, mask=inside, other=0.0)
        total = tl.zeros((TALL, W), tl.float64)
        for share in range(shares):
            line = (share * (blocks * BM) + place).to(tl.int64) * (CHUNKS * W)
            total += tl.load(sums + line[:, None] + w[None, :], mask=held, other=0.0)
        # Rows so far from all centers that f is b; products may have overflowed there.
        near = _nearest(square, exact) < tl.load(exact + 3)
        score = tl.where(near[:, None], total, 0.0)
        score += tl.load(intercept + w, mask=w < K, other=0.0)[None, :]
        bound = relative_bound(square, exact)[:, None]
        bound = bound * tl.load(weight + w, mask=w < K, other=0.0)[None, :]
        bound += tl.load(constant + w, mask=w < K, other=0.0)[None, :]
        bound = tl.where(bound == bound, bound, float("inf"))
        at = places_of(listed, place, inside, LISTED)[:, None] * K + w[None, :]
        tl.store(scores + at, score, mask=held)
        tl.store(bounds + at, bound, mask=held)
        if TALLIED:
            strange = inside & ~(square < float("inf")) & (tl.program_id(1) == 0)
            tl.atomic_add(tally + 1, tl.sum(strange.to(tl.int32), 0))


# Distances of all pairs, by differences: what kernels other than RBF are functions of. Each pair is
# summed feature by feature in a register; `TorchOps.squared_distances` and `city_distances` are the
# definition.

SIDE = 64  # rows, and centers, of a tile


def run_distances(rows: torch.Tensor, centers: torch.Tensor, *, city: bool) -> torch.Tensor:
    """Squared distances, or city ones: shape (m, n)."""
    (m, d), n = rows.shape, len(centers)
    found = torch.empty(m, n, dtype=torch.float64, device=rows.device)
    if m and n:
        # Features stand apart: a tile's entries of one feature lie side by side.
        _distances[(triton.cdiv(n, SIDE), triton.cdiv(m, SIDE))](
            rows.T.contiguous(), centers.T.contiguous(), found, m, n, d, CITY=city, BM=SIDE,
            BN=SIDE, num_warps=4,
        )  # fmt: skip
    return found


@triton.jit
def _distances(
    rows, centers, found, m, n, d, CITY: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    r = tl.program_id(1).to(tl.int64) * BM + tl.arange(0, BM)
    c = tl.program_id(0).to(tl.int64) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float64)
    z_at, x_at = rows + r, centers + c
    for _ in range(d):
        z = tl.load(z_at, mask=r < m, other=0.0)
        x = tl.load(x_at, mask=c < n, other=0.0)
        gap = z[:, None] - x[None, :]
        if CITY:
            total += tl.abs(gap)
        else:
            total += gap * gap
        z_at += m
        x_at += n
    here = (r < m)[:, None] & (c < n)[None, :]
    tl.store(found + r[:, None] * n + c[None, :], total, mask=here)
