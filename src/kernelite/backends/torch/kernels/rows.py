"""Rows as kernels take them: lists of those that are open, and rows in slices or digits.

A list holds the numbers of rows and how many they are; kernels that are given one ask it on the
device. So the host learns what was open once, at the end of a call: from a `Tally`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import triton
import triton.language as tl

from kernelite.backends.torch.forms import padded

if TYPE_CHECKING:
    from kernelite.backends.torch.fine import FineSums, RowDigits
    from kernelite.backends.torch.fused import RowSlices, SliceSums
    from kernelite.backends.torch.heads import TorchHead
    from kernelite.backends.torch.stages import Found

__all__ = [
    "OpenRows",
    "enter",
    "list_open",
    "places_of",
    "run_begin",
    "run_digits",
    "run_end",
    "run_judge",
    "run_labels",
    "run_split",
]

LISTED_ROWS = 256
COPIED = 1024  # numbers of rows that a program copies


class OpenRows(NamedTuple):
    """Numbers of rows, int64 of shape (m,), of which the first `count`, int32 of shape (1,)."""

    places: torch.Tensor
    count: torch.Tensor


def list_open(
    settled: torch.Tensor, count: torch.Tensor, within: OpenRows | None = None
) -> OpenRows:
    """The rows that are not settled, of those `within` a list if one is given.

    Parameters
    ----------
    settled : bool tensor of shape (m,)
    count : int32 tensor of shape (1,)
        Zero; how many there are is added to it.
    within : OpenRows, optional
    """
    m = len(settled)
    found = OpenRows(torch.empty(m, dtype=torch.int64, device=settled.device), count)
    if m:
        given = found if within is None else within
        _list_open[(triton.cdiv(m, LISTED_ROWS),)](
            settled, *given, *found, m, LISTED=within is not None, BM=LISTED_ROWS, num_warps=4
        )
    return found


def run_begin(
    here: torch.Tensor, rows: torch.Tensor, count: torch.Tensor, tally: torch.Tensor
) -> None:
    """Copy rows into their buffer, note how many they are, and clear the tally.

    Parameters
    ----------
    here : int64 tensor of shape (2,), in pinned memory of the host
        How many rows there are, and the address of the first.
    rows : tensor of shape (size, d)
        The buffer.
    count, tally : int32 tensors of shape (1,) and (entries,)
    """
    grid = (triton.cdiv(max(rows.numel(), 1), COPIED),)
    _begin[grid](
        here, rows, count, tally, rows.shape[1], len(tally), BM=COPIED, ENTRIES=16, num_warps=4
    )


def run_end(tally: torch.Tensor, there: torch.Tensor) -> None:
    """Bring the tally to pinned memory of the host."""
    _end[(1,)](tally, there, len(tally), BM=16, num_warps=1)


@triton.jit
def _begin(here, rows, count, tally, d, entries, BM: tl.constexpr, ENTRIES: tl.constexpr):
    m = tl.load(here)
    given = tl.load(here + 1).to(tl.pointer_type(rows.dtype.element_ty))
    at = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    inside = at < m * d
    tl.store(rows + at, tl.load(given + at, mask=inside), mask=inside)
    if tl.program_id(0) == 0:
        place = tl.arange(0, ENTRIES)
        tl.store(count, m.to(tl.int32))
        tl.store(tally + place, tl.zeros((ENTRIES,), tl.int32), mask=place < entries)


@triton.jit
def _end(tally, there, entries, BM: tl.constexpr):
    place = tl.arange(0, BM)
    found = tl.load(tally + place, mask=place < entries, other=0)
    tl.store(there + place, found, mask=place < entries)


@triton.jit
def places_of(listed, place, inside, LISTED: tl.constexpr):
    """The rows at some places of a list; or rows themselves."""
    r = place.to(tl.int64)
    if LISTED:
        r = tl.load(listed + place, mask=inside, other=0)
    return r


@triton.jit
def enter(r, is_open, listed, count):
    """Add the open ones of some rows to a list."""
    places = is_open.to(tl.int32)
    many = tl.sum(places, 0)
    if many > 0:
        at = tl.atomic_add(count, many) + tl.cumsum(places, 0) - 1
        tl.store(listed + at, r, mask=is_open)


@triton.jit
def _list_open(
    settled, given, given_count, listed, count, m, LISTED: tl.constexpr, BM: tl.constexpr
):
    place = tl.program_id(0) * BM + tl.arange(0, BM)
    if LISTED:
        m = tl.load(given_count)
    inside = place < m
    r = places_of(given, place, inside, LISTED)
    enter(r, inside & (tl.load(settled + r, mask=inside, other=1) == 0), listed, count)


# Two classes: settled is what lies farther from the threshold than its bound. One kernel lists what
# is open, one gives labels; the head's own torch operations are their definition.


def run_judge(
    head: TorchHead,
    found: Found,
    stages: tuple[int, int],
    count: torch.Tensor,
    within: OpenRows | None = None,
    rows: torch.Tensor | None = None,
) -> OpenRows:
    """List the rows that a stage left open, and note who settled the others.

    Parameters
    ----------
    head : TorchHead
        Of two labels.
    found : Found
        Whose `stage` is written.
    stages : (int, int)
        This stage, and the one that answers what is open.
    count : int32 tensor of shape (1,)
        Zero; how many are open is added to it.
    within : OpenRows, optional
        The rows that the stage was for; all by default.
    rows : int32 tensor of shape (1,), optional
        How many rows there are, where others pad.
    """
    m = len(found.scores)
    listed = OpenRows(torch.empty(m, dtype=torch.int64, device=found.scores.device), count)
    if m:
        given = listed if within is None else within
        _judge[(triton.cdiv(m, LISTED_ROWS),)](
            found.scores, found.bounds, head.limit, *given, *listed, found.stage,
            count if rows is None else rows, m, STAGE=stages[0], NEXT=stages[1],
            LISTED=within is not None, PADDED=rows is not None, BM=LISTED_ROWS, num_warps=4,
        )  # fmt: skip
    return listed


@triton.jit
def _judge(
    scores, bounds, limit, given, given_count, listed, count, stage, rows, m, STAGE: tl.constexpr,
    NEXT: tl.constexpr, LISTED: tl.constexpr, PADDED: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0) * BM + tl.arange(0, BM)
    if LISTED:
        m = tl.load(given_count)
    if PADDED:
        m = tl.minimum(m, tl.load(rows))
    inside = place < m
    r = places_of(given, place, inside, LISTED)
    gap = tl.load(scores + r, mask=inside, other=0.0) - tl.load(limit)
    is_open = inside & ~(tl.abs(gap) > tl.load(bounds + r, mask=inside, other=0.0))
    tl.store(stage + r, tl.where(is_open, NEXT, STAGE).to(tl.int8), mask=inside)
    enter(r, is_open, listed, count)


def run_labels(
    head: TorchHead, found: Found, tally: torch.Tensor, rows: torch.Tensor | None = None
) -> None:
    """Labels, or positions of them, and undecidable rows; counts of both to the tally.

    Parameters
    ----------
    head : TorchHead
        Of two labels.
    found : Found
        Whose labels and undecidable rows are written.
    tally : int32 tensor
        Rows by stage are added to its entries 2 to 5, undecidable ones to entry 6.
    rows : int32 tensor of shape (1,), optional
        How many rows there are, where others pad.
    """
    m, sign = len(found.scores), head.sign
    if m:
        _labels[(triton.cdiv(m, LISTED_ROWS),)](
            found.scores, found.bounds, head.limit, head.kinds, found.labels, found.stage,
            found.undecidable, tally, tally if rows is None else rows, m, FIRST=sign.above,
            ZERO=sign.closed, PADDED=rows is not None, BM=LISTED_ROWS, num_warps=4,
        )  # fmt: skip


@triton.jit
def _labels(
    scores, bounds, limit, kinds, labels, stage, undecidable, tally, rows, m, FIRST: tl.constexpr,
    ZERO: tl.constexpr, PADDED: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    if PADDED:
        m = tl.minimum(m, tl.load(rows))
    inside = r < m
    score, at = tl.load(scores + r, mask=inside, other=0.0), tl.load(limit)
    gap = score - at
    if FIRST:
        first = gap > 0.0
    else:
        first = gap < 0.0
    if ZERO:
        first = first | (score == at)
    tl.store(labels + r, tl.where(first, tl.load(kinds), tl.load(kinds + 1)), mask=inside)
    by = tl.load(stage + r, mask=inside, other=0).to(tl.int32)
    lost = inside & (by == 2) & ~(tl.abs(gap) > tl.load(bounds + r, mask=inside, other=0.0))
    tl.store(undecidable + r, lost, mask=inside)
    for one in tl.static_range(4):
        tl.atomic_add(tally + 2 + one, tl.sum((inside & (by == one)).to(tl.int32), 0))
    tl.atomic_add(tally + 6, tl.sum(lost.to(tl.int32), 0))


# Rows in slices of half precision, or in digits: shifted, scaled, rounded, with their norms.

ELEMENTS, FEATURES = 4096, 1024  # of a tile: so that rows are read once if they are not wider


def run_split(layout: SliceSums, rows: torch.Tensor, still: OpenRows | None = None) -> RowSlices:
    """As `SliceSums.split`, for contiguous rows of shape (m, d), or those that a list names."""
    from kernelite.backends.torch.fused import FARTHEST, NEAREST, RowSlices

    m, device = len(rows), rows.device
    table = torch.empty(3, m, layout.width, dtype=torch.float16, device=device)
    singles = torch.empty(2, m, dtype=torch.float32, device=device)
    squares = torch.empty(m, dtype=torch.float64, device=device)
    grid, given, kind = _over_rows(layout, rows, still)
    if m:
        _split[grid](
            *given, *table, *singles, squares, m, layout.scale, bits=layout.bits, far=FARTHEST,
            near=NEAREST, **kind,
        )  # fmt: skip
    return RowSlices(table, singles[0], singles[1], squares)


def run_digits(layout: FineSums, rows: torch.Tensor, still: OpenRows | None = None) -> RowDigits:
    """As `FineSums.split`, for contiguous rows of shape (m, d), or those that a list names."""
    from kernelite.backends.torch.fine import BEYOND, FARTHEST_FINE, NEAREST, RowDigits

    m, device = len(rows), rows.device
    table = torch.empty(5, m, layout.width, dtype=torch.int8, device=device)
    doubles = torch.empty(3, m, dtype=torch.float64, device=device)
    grid, given, kind = _over_rows(layout, rows, still)
    if m:
        _digits[grid](
            *given, table, *doubles, m, table.stride(0), layout.scale, far=BEYOND, near=NEAREST,
            reach=FARTHEST_FINE, **kind,
        )  # fmt: skip
    return RowDigits(table, *doubles)


def _over_rows(
    layout: SliceSums | FineSums, rows: torch.Tensor, still: OpenRows | None
) -> tuple[tuple[int], tuple[Any, ...], dict[str, Any]]:
    """Of a kernel that looks over rows: its grid, its first arguments, its tiles."""
    d = rows.shape[1]
    wide = min(FEATURES, padded(max(d, layout.width)))
    tall = ELEMENTS // wide
    lists = (rows, rows) if still is None else still
    kind = {"d": d, "varying": len(layout.columns), "D": layout.width, "BM": tall, "BK": wide}
    kind |= {"LISTED": still is not None, "num_warps": 4}
    given = (rows, *lists, layout.point, layout.columns, layout.rate)
    return (triton.cdiv(len(rows), tall),), given, kind


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
