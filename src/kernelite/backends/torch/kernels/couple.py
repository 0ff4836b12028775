"""Class probabilities from pairwise ones: LIBSVM's iteration, some rows per program.

`machine.heads.coupling.couple` is the definition. Q is never stored: an entry of its row t is
-r (1 - r) of one pairwise probability r, which is read where it is needed.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

__all__ = ["run_couple"]

ENTRIES_PER_PROGRAM = 256  # of p that a program holds


def run_couple(first: torch.Tensor, n_classes: int) -> torch.Tensor:
    """Probabilities of shape (m, K), from those of the first class of each pair, (m, pairs)."""
    m, first = len(first), first.contiguous()
    found = torch.empty(m, n_classes, dtype=torch.float64, device=first.device)
    size = triton.next_power_of_2(max(n_classes, 2))
    tall = max(1, ENTRIES_PER_PROGRAM // size)
    if m:
        _couple[(triton.cdiv(m, tall),)](
            first, found, m, K=n_classes, ROUNDS=max(100, n_classes), S=size, BM=tall, num_warps=4
        )
    return found


@triton.jit
def _chances(first, r, j, t, inside, K: tl.constexpr):
    """r_tj, the probability of class t given that the class is t or j: shape (BM, S)."""
    low, high = tl.minimum(j, t), tl.maximum(j, t)
    pair = low * K - low * (low + 1) // 2 + high - low - 1
    here = inside[:, None] & ((j < K) & (j != t))[None, :]
    at = first + r[:, None] * (K * (K - 1) // 2) + pair[None, :]
    found = tl.load(at, mask=here, other=0.0)
    return tl.where(here & (j < t)[None, :], 1.0 - found, found)


@triton.jit
def _entry(x, j, t):
    """Column t of x: shape (BM, 1)."""
    return tl.sum(tl.where((j == t)[None, :], x, 0.0), 1)[:, None]


@triton.jit
def _line(first, diagonal, r, j, t, inside, K: tl.constexpr):
    """Row t of Q: shape (BM, S)."""
    chance = _chances(first, r, j, t, inside, K)
    return tl.where((j == t)[None, :], diagonal, -chance * (1.0 - chance))


@triton.jit
def _couple(
    first, found, m, K: tl.constexpr, ROUNDS: tl.constexpr, S: tl.constexpr, BM: tl.constexpr
):
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    j, inside = tl.arange(0, S), r < m
    diagonal = tl.zeros((BM, S), tl.float64)
    for t in range(K):
        chance = _chances(first, r, j, t, inside, K)
        diagonal += chance * chance
    p = tl.where((j < K)[None, :], tl.full((BM, S), 1.0, tl.float64) / K, 0.0)
    left, turn = BM, 0
    while (left > 0) & (turn < ROUNDS):
        Qp = tl.zeros((BM, S), tl.float64)
        for t in range(K):
            Qp += _entry(p, j, t) * _line(first, diagonal, r, j, t, inside, K)
        pQp = tl.sum(p * Qp, 1)[:, None]
        apart = tl.max(tl.where((j < K)[None, :], tl.abs(Qp - pQp), 0.0), 1)
        running = inside & ~(apart < 0.005 / K)
        left, turn = tl.sum(running.to(tl.int32), 0), turn + 1
        if left > 0:
            moved = p
            for t in range(K):
                line = _line(first, diagonal, r, j, t, inside, K)
                own, here = _entry(diagonal, j, t), _entry(Qp, j, t)
                # Rows that pad have no chances: their Q is zero, and a quotient no number.
                delta = tl.where(inside[:, None], (pQp - here) / own, 0.0)
                scale = 1.0 + delta
                pQp = (pQp + delta * (delta * own + 2.0 * here)) / scale / scale
                Qp = (Qp + delta * line) / scale
                moved = (moved + tl.where((j == t)[None, :], delta, 0.0)) / scale
            p = tl.where(running[:, None], moved, p)
    at = found + r[:, None] * K + j[None, :]
    tl.store(at, p, mask=inside[:, None] & (j < K)[None, :])
