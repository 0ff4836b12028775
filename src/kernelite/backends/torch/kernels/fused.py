"""The fused kernels: products of pairs on tensor cores, exp2, sums; nothing of size m n is stored.

In: rows and centers in slices of half precision. Out: scores and bounds of one output, or sums of
A K and of |A| K by group. `torch.fused` has the model of the arithmetic and the proof; what stands
in one accumulator matters there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import triton
import triton.language as tl

from kernelite.backends.torch.fused import CHUNK
from kernelite.backends.torch.kernels.doubles import exact_bound
from kernelite.backends.torch.kernels.rows import places_of

if TYPE_CHECKING:
    from kernelite.backends.torch.fine import FineSums, RowDigits
    from kernelite.backends.torch.fused import RowSlices, SliceSums
    from kernelite.backends.torch.kernels.rows import OpenRows

__all__ = ["TileShape", "one_end", "run_one", "run_several", "run_shares"]


class TileShape(NamedTuple):
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


def tiles_for(width: int, several: bool) -> TileShape:
    """What ran fastest on an H200, as `python -m benchmarks gpu` measured it."""
    if several:
        return TileShape(128, 64, 8, 2) if width <= CHUNK else TileShape(64, 64, 4, 2)
    if width <= 16:
        return TileShape(64, 128, 4, 3, 168)  # three programs on a multiprocessor
    if width <= CHUNK:
        return TileShape(64, 64, 4, 3)
    return TileShape(128, 64, 8, 2) if width <= WHOLE else TileShape(128, 128, 8, 4)


def run_one(
    layout: SliceSums,
    slices: RowSlices,
    tiles: TileShape | None = None,
    *,
    into: tuple[torch.Tensor, torch.Tensor] | None = None,
    still: OpenRows | None = None,
    keep: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores and bounds of one output: shapes (m, 1).

    Parameters
    ----------
    into : (scores, bounds), optional
        Where they are written, new tensors by default.
    still : OpenRows, optional
        What the slices are of, and so which rows are written.
    keep : bool
        Leave what `into` holds where its bound is smaller.
    """
    tiles = tiles or tiles_for(layout.width, False)

    def launch(grid: Any, lists: Any, parts: Any, ends: Any, each: int, **kind: Any) -> None:
        _one[grid](
            *slices.table, slices.units, slices.norms, *lists, *layout.table, layout.shifts,
            layout.weights, parts, *ends, len(slices.units), layout.positive, len(layout.shifts),
            each, D=layout.width, BK=chunk_of(layout.width), **kind,
        )  # fmt: skip

    return run_shares(launch, layout, slices, tiles, into, still, keep=keep)


def run_shares(
    launch: Callable[..., None],
    layout: SliceSums | FineSums,
    rows: RowSlices | RowDigits,
    tiles: TileShape,
    into: tuple[torch.Tensor, torch.Tensor] | None,
    still: OpenRows | None,
    *,
    keep: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch a kernel of one output's sums; of few rows the centers are shared out.

    Parameters
    ----------
    launch : callable of (grid, lists, parts, ends, each, **kind)
        `parts` are for sums of positive and of negative terms by share, where there are several;
        `each` is how many tiles of centers a program sums.
    layout, rows, tiles, into, still, keep
        As `run_one` takes them.
    """
    m, device = len(rows.units), rows.units.device
    if into is None:
        into = tuple(torch.empty(2, m, 1, dtype=torch.float64, device=device))  # type: ignore[assignment]
    if not m:
        return into
    blocks, all_tiles = triton.cdiv(m, tiles.rows), triton.cdiv(len(layout.shifts), tiles.centers)
    each = tiles_each(blocks, all_tiles, programs_for(tiles.warps, rows.units))
    shares = triton.cdiv(all_tiles, each)
    parts = torch.empty(2 * shares if shares > 1 else 0, m, dtype=torch.float64, device=device)
    lists = (rows.units, rows.units) if still is None else still
    ends = (rows.squares, layout.finish, layout.bound.finish, *into)
    kind = {"LISTED": still is not None, "KEEP": keep}
    launch(
        (blocks, shares), lists, parts, ends, each, BM=tiles.rows, BN=tiles.centers,
        SHARED=shares > 1, num_warps=tiles.warps, num_stages=tiles.stages,
        maxnreg=tiles.registers, **kind,
    )  # fmt: skip
    if shares > 1:
        _one_ends[(triton.cdiv(m, 32),)](
            parts, rows.units, *lists, *ends, m, shares, BM=32,
            BS=min(128, triton.next_power_of_2(shares)), num_warps=4, **kind,
        )  # fmt: skip
    return into


INTERPRETED = 4  # programs, where there is no GPU


def programs_for(warps: int, rows: torch.Tensor) -> int:
    """Programs that keep a GPU busy: of four warps three on each of an H200's 132 multiprocessors.

    Examples
    --------
    >>> programs_for(4, torch.zeros(1))
    4
    """
    return 132 * (3 if warps <= 4 else 2) if rows.is_cuda else INTERPRETED


def tiles_each(blocks: int, tiles: int, programs: int) -> int:
    """How many tiles of centers a program sums: all, or fewer where rows are few.

    Examples
    --------
    >>> tiles_each(1000, 75, 264), tiles_each(1, 75, 264), tiles_each(64, 75, 264)
    (75, 1, 19)
    """
    shares = max(1, min(tiles, programs // max(blocks, 1)))
    return -(-tiles // shares)


def run_several(
    layout: SliceSums, slices: RowSlices, tiles: TileShape | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums of A K by group, and of |A| K, for `unscaled_several`, share by share.

    Shapes are (shares, m, groups * W) and (shares, m, groups).
    """
    m, W, groups = len(slices.units), layout.table_width, layout.n_groups
    tiles = tiles or tiles_for(layout.width, True)
    device = slices.units.device
    blocks = triton.cdiv(m, tiles.rows)
    # Of few rows the centers of a group are shared out: sums of sums have no more terms in a row.
    each = tiles_each(blocks * groups, layout.most_tiles, programs_for(tiles.warps, slices.units))
    shares = triton.cdiv(layout.most_tiles, each)
    sums = torch.empty(shares, m, groups * W, dtype=torch.float32, device=device)
    sizes = torch.empty(shares, m, groups, dtype=torch.float32, device=device)
    if m:
        _several[(groups, blocks, shares)](
            *slices.table, slices.units, slices.norms, *layout.table, layout.shifts,
            *layout.weights, layout.sizes, layout.starts, sums, sizes, m, each, D=layout.width,
            W=W, FINE=layout.fine, BM=tiles.rows, BN=tiles.centers, BK=chunk_of(layout.width),
            num_warps=tiles.warps, num_stages=tiles.stages, maxnreg=tiles.registers,
        )  # fmt: skip
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
    Z1, Z2, Z3, units, norms, listed, many, Y1, Y2, Y3, shifts, weights, parts, squares, finish,
    exact, scores, bounds, m, positive, n, each, D: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, SHARED: tl.constexpr, LISTED: tl.constexpr,
    KEEP: tl.constexpr,
):  # fmt: skip
    most = m
    if LISTED:
        m = tl.load(many)
    place = tl.program_id(0) * BM + tl.arange(0, BM)
    r = place.to(tl.int64)
    unit = tl.load(units + r, mask=r < m, other=0.0)[:, None]
    norm = tl.load(norms + r, mask=r < m, other=0.0)[:, None]
    first = tl.program_id(1) * each * BN
    last = tl.minimum(first + each * BN, n)
    if tl.program_id(0) * BM >= m:  # no row is here: a list may be short
        last = first
    up = _sums_over(
        Z1, Z2, Z3, Y1, Y2, Y3, unit, norm, shifts, weights, r, m, first,
        tl.minimum(last, positive), D, BM, BN, BK,
    )  # fmt: skip
    down = _sums_over(
        Z1, Z2, Z3, Y1, Y2, Y3, unit, norm, shifts, weights, r, m, tl.maximum(first, positive),
        last, D, BM, BN, BK,
    )  # fmt: skip
    if SHARED:
        at = parts + tl.program_id(1).to(tl.int64) * 2 * most + r
        tl.store(at, up, mask=r < m)
        tl.store(at + most, down, mask=r < m)
    else:
        one_end(
            up, down, units, squares, listed, finish, exact, scores, bounds, place, m, LISTED, KEEP
        )


@triton.jit
def one_end(
    up, down, units, squares, listed, finish, exact, scores, bounds, place, m,
    LISTED: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """The bound, as `SliceSums._bounded` spells it out; unscaled, sums are multiplied by 2^e."""
    inside = place < m
    square = tl.load(squares + place, mask=inside, other=0.0)
    eps = tl.load(finish) * tl.sqrt(square) + tl.load(finish + 1) * square + tl.load(finish + 2)
    eps += tl.load(finish + 3) * tl.load(units + place, mask=inside, other=0.0).to(tl.float64)
    known = eps <= tl.load(finish + 4)
    relative = tl.load(finish + 5) * eps + tl.load(finish + 6)
    scale, b = tl.load(finish + 7), tl.load(finish + 8)
    bound = relative * ((up + down) * scale) + tl.load(finish + 9) + exact_bound(square, exact)
    bound = tl.where(known, bound, float("inf"))
    # Where nothing is known sums may be NaN, of which heads would make a label.
    score = tl.where(known, (up - down) * scale, 0.0) + b
    r = places_of(listed, place, inside, LISTED)
    if KEEP:
        inside = inside & (bound <= tl.load(bounds + r, mask=inside, other=0.0))
    tl.store(scores + r, score, mask=inside)
    tl.store(bounds + r, bound, mask=inside)


@triton.jit
def _one_ends(
    parts, units, listed, many, squares, finish, exact, scores, bounds, m, shares,
    BM: tl.constexpr, BS: tl.constexpr, LISTED: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """Shares added up, in doubles."""
    most = m
    if LISTED:
        m = tl.load(many)
    place = tl.program_id(0) * BM + tl.arange(0, BM)
    up = tl.zeros((BM,), tl.float64)
    down = tl.zeros((BM,), tl.float64)
    for start in range(0, shares, BS):
        share = start + tl.arange(0, BS)
        here = (share < shares)[:, None] & (place < m)[None, :]
        at = parts + (share * 2 * most)[:, None] + place[None, :]
        up += tl.sum(tl.load(at, mask=here, other=0.0), 0)
        down += tl.sum(tl.load(at + most, mask=here, other=0.0), 0)
    one_end(up, down, units, squares, listed, finish, exact, scores, bounds, place, m, LISTED, KEEP)


@triton.jit
def _several(
    Z1, Z2, Z3, units, norms, Y1, Y2, Y3, shifts, A1, A2, A3, weights, starts, sums, sizes, m,
    each, D: tl.constexpr, W: tl.constexpr, FINE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0)
    r = tl.program_id(1).to(tl.int64) * BM + tl.arange(0, BM)
    w = tl.arange(0, W)
    unit = tl.load(units + r, mask=r < m, other=0.0)[:, None]
    norm = tl.load(norms + r, mask=r < m, other=0.0)[:, None]
    total = tl.zeros((BM, W), tl.float32)
    size = tl.zeros((BM, 8), tl.float32)
    first = tl.load(starts + group) + tl.program_id(2) * each * BN
    for start in range(first, tl.minimum(first + each * BN, tl.load(starts + group + 1)), BN):
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
    line = tl.program_id(2).to(tl.int64) * m + r
    at = line[:, None] * (tl.num_programs(0) * W) + (group * W + w)[None, :]
    tl.store(sums + at, total, mask=(r < m)[:, None])
    tl.store(sizes + line * tl.num_programs(0) + group, tl.sum(size, 1), mask=r < m)
