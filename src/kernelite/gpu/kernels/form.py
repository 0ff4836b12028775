"""One pass over rows: a quadratic form of one output and its bound.

A tile of rows is read once, side by side in memory. Of up to 32 features, a thread then keeps its
rows in registers: 22 features take 253 + 66 multiply-adds, where tiles of tensor cores would take
1,024. Of more, products run on the tensor cores in doubles (exact products, sums rounded as
always). The exponential is a double, the bound a single. What is stored per row: a score and a
bound, 16 bytes. `form_layout` holds the constants and why the bound is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl

from kernelite.gpu.form_layout import CHUNK

if TYPE_CHECKING:
    from kernelite.gpu.form_layout import KernelLayout

__all__ = ["FormTiles", "run_form"]


class FormTiles(NamedTuple):
    """Rows, warps and stages of a kernel."""

    rows: int
    warps: int
    stages: int


NARROW, WIDE = FormTiles(128, 2, 1), FormTiles(64, 4, 3)  # measured by `benchmarks gpu`


def run_form(
    layout: KernelLayout,
    rows: torch.Tensor,
    scores: torch.Tensor,
    bounds: torch.Tensor,
    tiles: FormTiles | None = None,
) -> None:
    """Fill scores and bounds, each of shape (m, 1), for contiguous rows of shape (m, d)."""
    m, d = rows.shape
    if m == 0:
        return
    tiles = tiles or (NARROW if layout.narrow else WIDE)
    arrays = (layout.doubles, layout.singles, scores, bounds, m, layout.rank)
    options = {"BM": tiles.rows, "num_warps": tiles.warps, "num_stages": tiles.stages}
    grid = (triton.cdiv(m, tiles.rows),)
    constants = (rows, layout.point, layout.matrix, layout.weights)
    if layout.narrow:
        truncated = layout.truncated
        _narrow_form[grid](*constants, layout.linear, *arrays, d=d, TRUNCATED=truncated, **options)
    else:
        R = layout.matrix.shape[1]
        _wide_form[grid](*constants, *arrays, d=d, D=CHUNK, R=R, **options)


@triton.jit
def _certificate(square, rest, score, doubles, singles):
    """The bound of a form's score; `square` is |u|^2 and `rest` |u|^2 - |V'u|^2, or zero."""
    x = tl.minimum(tl.load(doubles + 2) * square, 1e30).to(tl.float32) * 1.000001
    E = tl.exp(-0.5 * x)
    t = tl.minimum(x, 1.0)
    series = tl.full(t.shape, 1.0, tl.float32)
    for j in tl.static_range(12):
        series = 1.0 + series * t * (1.0 / (15 - j))
    small = t * tl.sqrt(t * series * tl.exp(-t) * (1.0 / 6.0))
    T = tl.minimum(tl.maximum(x, 1.0), 100.0)
    large = tl.sqrt(1.0 - tl.exp(-T) * (1.0 + T * (1.0 + 0.5 * T)))
    root = tl.where(x < 1.0, small, large)
    far = tl.minimum(x, 1e4)
    size = tl.load(singles + 1) + tl.load(singles + 2) * tl.sqrt(far) + tl.load(singles + 3) * far
    size *= E * (tl.load(singles + 6) + tl.load(singles + 7) * far)
    left = tl.minimum(tl.load(doubles + 2) * rest, 1e30).to(tl.float32)
    size += E * (tl.load(singles + 4) * tl.minimum(left, 1e4) + tl.load(singles + 5) * far)
    total = (size + tl.load(singles) * root) * 1.0009765625
    bound = total.to(tl.float64) * tl.load(doubles + 3)
    bound += tl.load(doubles + 4) * tl.abs(score) + tl.load(doubles + 5)
    return tl.where(square < float("inf"), bound, float("inf"))


@triton.jit
def _finish(g, square, rest, doubles, singles, scores, bounds, r, m):
    """Score and bound from sums and norms, stored."""
    g += tl.load(doubles + 6) + tl.load(doubles + 7) * square
    E = tl.exp(-tl.load(doubles + 1) * square)
    score = tl.where(E == 0.0, 0.0, g * E) + tl.load(doubles)
    bound = _certificate(square, rest, score, doubles, singles)
    tl.store(scores + r, score, mask=r < m)
    tl.store(bounds + r, bound, mask=r < m)


@triton.jit
def _eight(rows, r, m, first: tl.constexpr, d: tl.constexpr):
    """Eight columns of rows, read side by side: shape (BM, 8)."""
    k = first + tl.arange(0, 8)
    here = (r < m)[:, None] & (k < d)[None, :]
    return tl.load(rows + r[:, None] * d + k[None, :], mask=here, other=0.0)


@triton.jit
def _apart(z, BM: tl.constexpr):
    """The columns of (BM, 8), each of shape (BM,): from here on a thread has rows of its own."""
    even, odd = tl.split(tl.reshape(z, (BM, 2, 2, 2)))
    even0, even1 = tl.split(even)
    odd0, odd1 = tl.split(odd)
    z0, z4 = tl.split(even0)
    z2, z6 = tl.split(even1)
    z1, z5 = tl.split(odd0)
    z3, z7 = tl.split(odd1)
    return (z0, z1, z2, z3, z4, z5, z6, z7)


@triton.jit
def _narrow_form(
    rows, point, matrix, weights, linear, doubles, singles, scores, bounds, m, rank,
    d: tl.constexpr, BM: tl.constexpr, TRUNCATED: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    eights = ()
    for first in tl.static_range(0, d, 8):  # all reads are under way before the first is needed
        eights = eights + (_eight(rows, r, m, first, d),)
    z = ()
    for number in tl.static_range((d + 7) // 8):
        z = z + _apart(eights[number], BM)
    u = ()
    for i in tl.static_range(d):
        u = u + (z[i].to(tl.float64) - tl.load(point + i),)
    g = tl.zeros((BM,), tl.float64)
    square = tl.zeros((BM,), tl.float64)
    rest = tl.zeros((BM,), tl.float64)
    for i in tl.static_range(d):
        square += u[i] * u[i]
        if m > i - 32:  # always: a block of its own, or all numbers of M would be read before use
            t = tl.load(linear + i)
            if not TRUNCATED:  # the upper triangle of M, what is off its diagonal twice
                for j in tl.static_range(i, d):
                    t += tl.load(matrix + i * d + j) * u[j]
            g += t * u[i]
    if TRUNCATED:
        kept = tl.zeros((BM,), tl.float64)
        for i in range(rank):
            y = tl.zeros((BM,), tl.float64)
            for j in tl.static_range(d):
                y += tl.load(matrix + i * d + j) * u[j]
            g += tl.load(weights + i) * y * y
            kept += y * y
        rest = tl.maximum(square - kept, 0.0)
    _finish(g, square, rest, doubles, singles, scores, bounds, r, m)


@triton.jit
def _wide_form(
    rows, point, matrix, weights, doubles, singles, scores, bounds, m, rank,
    d: tl.constexpr, D: tl.constexpr, R: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    c = tl.arange(0, R)[None, :]
    y = tl.zeros((BM, R), tl.float64)
    square = tl.zeros((BM,), tl.float64)
    for start in range(0, d, D):
        k = start + tl.arange(0, D)
        here = (r < m)[:, None] & (k < d)[None, :]
        z = tl.load(rows + r[:, None] * d + k[None, :], mask=here, other=0.0).to(tl.float64)
        u = tl.where(here, z - tl.load(point + k)[None, :], 0.0)
        square += tl.sum(u * u, 1)
        y = tl.dot(u, tl.load(matrix + k[:, None] * R + c), y, out_dtype=tl.float64)
    # The column after the directions is v.u; those that pad are zero.
    kept = tl.sum(tl.where(c < rank, y * y, 0.0), 1)
    g = tl.sum(y * (y * tl.load(weights + c) + (c == rank).to(tl.float64)), 1)
    _finish(g, square, tl.maximum(square - kept, 0.0), doubles, singles, scores, bounds, r, m)
