"""Distances of all pairs in doubles, by differences: what kernels other than RBF are functions of.

In: rows (m, d) and centers (n, d). Out: |x - z|^2 or |x - z|_1, shape (m, n), each pair summed
feature by feature in a register. `TorchOps.squared_distances` and `city_distances` are the
definition.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

__all__ = ["run_distances"]

ROWS, CENTERS = 64, 64


def run_distances(rows: torch.Tensor, centers: torch.Tensor, *, city: bool) -> torch.Tensor:
    """Squared distances, or city ones: shape (m, n)."""
    (m, d), n = rows.shape, len(centers)
    found = torch.empty(m, n, dtype=torch.float64, device=rows.device)
    if m and n:
        # Features stand apart: a tile's entries of one feature lie side by side.
        _distances[(triton.cdiv(n, CENTERS), triton.cdiv(m, ROWS))](
            rows.T.contiguous(), centers.T.contiguous(), found, m, n, d, CITY=city, BM=ROWS,
            BN=CENTERS, num_warps=4,
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
