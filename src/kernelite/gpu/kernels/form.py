"""One pass over rows: a quadratic form of one output and its bound.

A tile of rows is read once, side by side in memory; products run on the tensor cores in doubles
(exact products, sums rounded as always), sums and the exponential in doubles, the bound in singles.
What is stored per row: a score and a bound, 16 bytes. `form_layout` holds the constants and why
the bound is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl

from kernelite.gpu.kernels.launching import programs

if TYPE_CHECKING:
    from kernelite.gpu.form_layout import KernelLayout

__all__ = ["FormTiles", "run_form"]


class FormTiles(NamedTuple):
    """Rows, warps, stages, programs per multiprocessor (0: one per tile), registers per thread."""

    rows: int
    warps: int
    stages: int
    each: int
    registers: int | None = None


NARROW, WIDE = FormTiles(64, 2, 1, 16, 128), FormTiles(64, 4, 3, 0)  # measured by `benchmarks gpu`


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
    narrow = len(layout.matrix) <= 32
    tiles = tiles or (NARROW if narrow else WIDE)
    count = triton.cdiv(m, tiles.rows)
    kernel = _narrow_form if narrow else _wide_form
    kernel[(programs(rows.device, count, tiles.each) if tiles.each else count,)](
        rows,
        layout.point,
        layout.matrix,
        layout.weights,
        layout.ones,
        layout.doubles,
        layout.singles,
        scores,
        bounds,
        torch.empty_like(scores) if narrow and layout.truncated else scores,
        m,
        layout.rank,
        d=d,
        D=min(len(layout.matrix), 32),
        R=layout.matrix.shape[1],
        BM=tiles.rows,
        TRUNCATED=layout.truncated,
        num_warps=tiles.warps,
        num_stages=tiles.stages,
        maxnreg=tiles.registers,
    )


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
def _sums(y, weights, ones, c, rank):
    """sum_i (l_i - mid) y_i^2 + v.u, and |V'u|^2; the columns that pad are zero."""
    kept = tl.sum(tl.where(c[None, :] < rank, y * y, 0.0), 1)
    return tl.sum(y * (y * tl.load(weights + c)[None, :] + tl.load(ones + c)[None, :]), 1), kept


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
def _narrow_form(
    rows, point, matrix, weights, ones, doubles, singles, scores, bounds, rests, m, rank,
    d: tl.constexpr, D: tl.constexpr, R: tl.constexpr, BM: tl.constexpr,
    TRUNCATED: tl.constexpr,
):  # fmt: skip
    k, c = tl.arange(0, D), tl.arange(0, R)
    p = tl.load(point + k)
    V = tl.load(matrix + k[:, None] * R + c[None, :])
    for tile in range(tl.program_id(0), tl.cdiv(m, BM), tl.num_programs(0)):
        r = tile * BM + tl.arange(0, BM).to(tl.int64)
        here = (r < m)[:, None] & (k < d)[None, :]
        z = tl.load(rows + r[:, None] * d + k[None, :], mask=here, other=0.0).to(tl.float64)
        u = tl.where(here, z - p[None, :], 0.0)
        g, kept = _sums(tl.dot(u, V, out_dtype=tl.float64), weights, ones, c, rank)
        # After a product, four threads hold each row's sums, and all four would do what follows.
        # Through memory, which is on its way to be written anyway, each row gets one thread.
        square = kept  # the directions are all there are
        if TRUNCATED:
            square = tl.sum(u * u, 1)
        tl.store(scores + r, g, mask=r < m)
        tl.store(bounds + r, square, mask=r < m)
        if TRUNCATED:
            tl.store(rests + r, tl.maximum(square - kept, 0.0), mask=r < m)
        tl.debug_barrier()
        g = tl.load(scores + r, mask=r < m, other=0.0, cache_modifier=".cg")
        square = tl.load(bounds + r, mask=r < m, other=0.0, cache_modifier=".cg")
        rest = tl.zeros((BM,), tl.float64)
        if TRUNCATED:
            rest = tl.load(rests + r, mask=r < m, other=0.0, cache_modifier=".cg")
        _finish(g, square, rest, doubles, singles, scores, bounds, r, m)


@triton.jit
def _wide_form(
    rows, point, matrix, weights, ones, doubles, singles, scores, bounds, rests, m, rank,
    d: tl.constexpr, D: tl.constexpr, R: tl.constexpr, BM: tl.constexpr,
    TRUNCATED: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    c = tl.arange(0, R)
    y = tl.zeros((BM, R), tl.float64)
    square = tl.zeros((BM,), tl.float64)
    for start in range(0, d, D):
        k = start + tl.arange(0, D)
        here = (r < m)[:, None] & (k < d)[None, :]
        z = tl.load(rows + r[:, None] * d + k[None, :], mask=here, other=0.0).to(tl.float64)
        u = tl.where(here, z - tl.load(point + k)[None, :], 0.0)
        square += tl.sum(u * u, 1)
        y = tl.dot(u, tl.load(matrix + k[:, None] * R + c[None, :]), y, out_dtype=tl.float64)
    g, kept = _sums(y, weights, ones, c, rank)
    rest = tl.maximum(square - kept, 0.0)
    _finish(g, square, rest, doubles, singles, scores, bounds, r, m)
