"""Shapley values of products, in two passes over players: products, then each player's share.

`torch.shapley` has the definition of both, and their rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from kernelite.backends.torch.shapley import DEVICE_ROUNDED, KeptProducts

if TYPE_CHECKING:
    from kernelite.backends.torch.shapley import Quadrature

__all__ = ["run_players", "run_products"]

# What ran fastest on an H200: of a tile, centers, pairs of nodes and players.
CENTERS, NODES, PLAYERS = 64, 4, 4


def run_products(u: torch.Tensor, v: torch.Tensor, quadrature: Quadrature) -> KeptProducts:
    """As `shapley.products`, with a rule for each row, background row and tile of centers."""
    (m, p, n), B = u.shape, len(v)
    blocks, choosing = triton.cdiv(n, CENTERS), quadrature.side > 0
    kept = torch.empty(m, B, 2 * quadrature.slots, n, dtype=torch.float64, device=u.device)
    middles = torch.zeros(m, B, n, dtype=torch.float64, device=u.device)
    rules = torch.empty(m, B, blocks, dtype=torch.int64, device=u.device)
    if rules.numel():
        _products[(rules.numel(),)](
            u, v, quadrature.nodes, quadrature.starts, quadrature.choice, rules, middles, kept,
            n, p, B, quadrature.side, len(quadrature.starts) - 2, quadrature.slots,
            STEPS=quadrature.steps, CHOOSING=choosing, C=CENTERS, H=NODES, num_warps=4,
        )  # fmt: skip
    return KeptProducts(kept, middles, rules)


def run_players(
    u: torch.Tensor,
    v: torch.Tensor,
    kept: KeptProducts,
    quadrature: Quadrature,
    mine: torch.Tensor,
    others: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `shapley.players`."""
    (m, p, n), B = u.shape, len(v)
    value, size = torch.empty_like(u), torch.empty_like(u)
    grid = (m * triton.cdiv(n, CENTERS), triton.cdiv(p, PLAYERS))
    if u.numel():
        _players[grid](
            u, v, kept.products, kept.rules, quadrature.nodes, quadrature.weights,
            quadrature.starts, mine, others, value, size, n, p, B, quadrature.slots,
            DEVICE_ROUNDED=DEVICE_ROUNDED, C=CENTERS, L=PLAYERS, num_warps=4,
        )  # fmt: skip
    return value, size


@triton.jit
def _products(
    u, v, nodes, starts, choice, rules, middles, kept, n, p, B, side, last, slots,
    STEPS: tl.constexpr, CHOOSING: tl.constexpr, C: tl.constexpr, H: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    blocks = tl.cdiv(n, C)
    pair = program // blocks
    c = (program % blocks) * C + tl.arange(0, C)
    here = c < n
    up = u + (pair // B) * p * n + c
    low = v + (pair % B) * p * n + c
    if CHOOSING:
        first = tl.zeros((C,), tl.float64)
        second = tl.zeros((C,), tl.float64)
        middle = tl.full((C,), 1.0, tl.float64)
        for player in range(p):
            a = tl.load(up + player * n, mask=here, other=1.0)
            b = tl.load(low + player * n, mask=here, other=1.0)
            both = a + b
            r = (a - b) / both
            first += r
            second += r * r
            middle *= both * 0.5
        reach = tl.max(tl.abs(first) + tl.minimum(tl.sqrt(second), 1.0), 0)
        i = (reach * STEPS).to(tl.int64) + 1
        j = (tl.max(second, 0) * STEPS).to(tl.int64) + 1
        rule = tl.load(choice + tl.where((i < side) & (j < side), i * side + j, side * side))
        tl.store(middles + pair * n + c, middle, mask=here)
    else:
        rule = last
    tl.store(rules + program, rule)
    begin = tl.load(starts + rule)
    end = tl.load(starts + rule + 1)
    h = tl.arange(0, H)
    for start in range(begin, end, H):
        t = tl.load(nodes + start + h, mask=start + h < end, other=0.5)
        one = tl.full((C, H), 1.0, tl.float64)
        two = tl.full((C, H), 1.0, tl.float64)
        for player in range(p):
            a = tl.load(up + player * n, mask=here, other=1.0)
            b = tl.load(low + player * n, mask=here, other=1.0)
            moved = (a - b)[:, None] * t[None, :]
            one *= b[:, None] + moved
            two *= a[:, None] - moved
        slot = pair * (2 * slots) + 2 * (start - begin + h)
        at = kept + slot[None, :] * n + c[:, None]
        stored = here[:, None] & (start + h < end)[None, :]
        tl.store(at, one, mask=stored)
        tl.store(at + n, two, mask=stored)


@triton.jit
def _players(
    u, v, kept, rules, nodes, weights, starts, mine, others, value, size, n, p, B, slots,
    DEVICE_ROUNDED: tl.constexpr, C: tl.constexpr, L: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    blocks = tl.cdiv(n, C)
    row = program // blocks
    block = program % blocks
    c = block * C + tl.arange(0, C)
    player = tl.program_id(1) * L + tl.arange(0, L)
    here = (player < p)[:, None] & (c < n)[None, :]
    place = player[:, None].to(tl.int64) * n + c[None, :]
    a = tl.load(u + row * p * n + place, mask=here, other=1.0)
    own = tl.load(mine + row * n + c, mask=c < n, other=1.0)
    given = tl.zeros((L, C), tl.float64)
    reach = tl.zeros((L, C), tl.float64)
    for other in range(B):
        pair = row * B + other
        rule = tl.load(rules + pair * blocks + block)
        begin = tl.load(starts + rule)
        end = tl.load(starts + rule + 1)
        b = tl.load(v + other * p * n + place, mask=here, other=1.0)
        gap = a - b
        total = tl.zeros((L, C), tl.float64)
        for node in range(begin, end):
            moved = tl.load(nodes + node) * gap
            first = b + moved
            second = a - moved
            at = kept + (pair * (2 * slots) + 2 * (node - begin)) * n + c
            one = tl.load(at, mask=c < n, other=1.0)[None, :]
            two = tl.load(at + n, mask=c < n, other=1.0)[None, :]
            share = (one * second + two * first) / (first * second)
            total += tl.load(weights + node) * share
        given += total * gap
        its = tl.load(others + other * n + c, mask=c < n, other=1.0)
        reach += total * (a + b) * (own * its - 1.0 + DEVICE_ROUNDED)[None, :]
    tl.store(value + row * p * n + place, given, mask=here)
    tl.store(size + row * p * n + place, reach, mask=here)
