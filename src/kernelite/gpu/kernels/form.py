"""One pass over rows: a quadratic form of one output and its bound.

A tile of rows is read once, side by side in memory; products run on the tensor cores in doubles
(exact products, sums rounded as always), sums and the exponential in doubles, the bound in singles.
What is stored per row: a score and a bound, 16 bytes. `form_layout` holds the constants and why
the bound is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

from kernelite.gpu.kernels.launching import programs

if TYPE_CHECKING:
    import torch

    from kernelite.gpu.form_layout import KernelLayout

__all__ = ["run_form"]

FULL_TILE, TRUNCATED_TILE = 64, 64  # rows; measured by `python -m benchmarks gpu`


def run_form(
    layout: KernelLayout, rows: torch.Tensor, scores: torch.Tensor, bounds: torch.Tensor
) -> None:
    """Fill scores and bounds, each of shape (m, 1), for contiguous rows of shape (m, d)."""
    m, d = rows.shape
    if m == 0:
        return
    common = (rows, layout.point, layout.matrix)
    constants = (layout.doubles, layout.singles, scores, bounds, m)
    if layout.truncated:
        tiles = triton.cdiv(m, TRUNCATED_TILE)
        _truncated_form[(tiles,)](
            *common,
            layout.weights,
            *constants,
            d=d,
            rank=layout.matrix.shape[1],
            BM=TRUNCATED_TILE,
            BK=layout.chunk,
            num_warps=4,
            num_stages=3,
        )
        return
    tiles = triton.cdiv(m, FULL_TILE)
    grid = (programs(rows.device, tiles, each=8),)
    _full_form[grid](*common, *constants, d=d, D=layout.chunk, BM=FULL_TILE, num_warps=4)


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
def _damped(g, square, doubles):
    E = tl.exp(-tl.load(doubles + 1) * square)
    return tl.where(E == 0.0, 0.0, g * E) + tl.load(doubles)


@triton.jit
def _full_form(
    rows, point, matrix, doubles, singles, scores, bounds, m, d: tl.constexpr, D: tl.constexpr,
    BM: tl.constexpr,
):  # fmt: skip
    k = tl.arange(0, D)
    p = tl.load(point + k)
    B = tl.load(matrix + k[:, None] * D + k[None, :])
    for tile in range(tl.program_id(0), tl.cdiv(m, BM), tl.num_programs(0)):
        r = tile * BM + tl.arange(0, BM).to(tl.int64)
        here = (r < m)[:, None] & (k < d)[None, :]
        z = tl.load(rows + r[:, None] * d + k[None, :], mask=here, other=0.0).to(tl.float64)
        u = tl.where(here, z - p[None, :], 0.0)
        square = tl.sum(u * u, 1)
        w = tl.where(k[None, :] == d, 1.0, u)
        g = tl.sum(tl.dot(w, B, out_dtype=tl.float64) * w, 1)
        score = _damped(g, square, doubles)
        bound = _certificate(square, 0.0 * square, score, doubles, singles)
        tl.store(scores + r, score, mask=r < m)
        tl.store(bounds + r, bound, mask=r < m)


@triton.jit
def _truncated_form(
    rows, point, matrix, weights, doubles, singles, scores, bounds, m, d: tl.constexpr,
    rank: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    c = tl.arange(0, rank)
    y = tl.zeros((BM, rank), tl.float64)
    square = tl.zeros((BM,), tl.float64)
    for start in range(0, d, BK):
        k = start + tl.arange(0, BK)
        here = (r < m)[:, None] & (k < d)[None, :]
        z = tl.load(rows + r[:, None] * d + k[None, :], mask=here, other=0.0).to(tl.float64)
        u = tl.where(here, z - tl.load(point + k)[None, :], 0.0)
        square += tl.sum(u * u, 1)
        y = tl.dot(u, tl.load(matrix + k[:, None] * rank + c[None, :]), y, out_dtype=tl.float64)
    weight = tl.load(weights + c)
    # The columns of weight w hold directions; the one after them holds v.u, the rest are zero.
    kept = tl.sum(tl.where(c[None, :] < tl.load(singles + 8), y * y, 0.0), 1)
    linear = tl.sum(tl.where(c[None, :] < tl.load(singles + 8), 0.0, y), 1)
    g = tl.sum(y * y * weight[None, :], 1) + linear
    g += tl.load(doubles + 6) + tl.load(doubles + 7) * square
    score = _damped(g, square, doubles)
    rest = tl.maximum(square - kept, 0.0)
    bound = _certificate(square, rest, score, doubles, singles)
    tl.store(scores + r, score, mask=r < m)
    tl.store(bounds + r, bound, mask=r < m)
