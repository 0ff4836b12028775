"""Sums of slices and of digits in torch operations: the definitions of the kernels.

Each does what its kernel does, step by step, so that the same proof holds for both.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch

from kernelite.backends.torch.fine import (
    BEYOND,
    BITS,
    DIGITS,
    FARTHEST_FINE,
    LARGEST,
    FineSums,
    RowDigits,
)
from kernelite.backends.torch.fine import NEAREST as NEAREST_DIGITS
from kernelite.backends.torch.fused import (
    FARTHEST,
    GROUP_BITS,
    LOG2E,
    NEAREST,
    RowSlices,
    SliceSums,
)
from kernelite.program.bounded import Bounded

__all__ = ["digits_of", "slices_of", "sums_of_digits", "sums_of_slices"]

Tensor = torch.Tensor


def sums_of_slices(fused: SliceSums, rows: Tensor) -> Bounded:
    """As `SliceSums` gives them."""
    slices = slices_of(fused, rows)
    return fused._bounded(slices, *_slice_sums(fused, slices))


def sums_of_digits(fine: FineSums, rows: Tensor) -> Bounded:
    """As `FineSums` gives them."""
    digits = digits_of(fine, rows)
    return _bounded(fine, digits, *_digit_sums(fine, digits))


def slices_of(fused: SliceSums, rows: Tensor) -> RowSlices:
    """Rows in slices, in torch operations."""
    u = rows.double() - fused.point
    squares = (u * u).sum(dim=1)
    exponents = torch.frexp(u.abs().amax(dim=1))[1].clamp(min=NEAREST)
    lost = (exponents > FARTHEST) | ~(squares < math.inf)
    exponents = torch.where(lost, 0, exponents)
    u = torch.where(lost[:, None], 0.0, u)
    scaled = torch.zeros(len(u), fused.width, dtype=torch.float64, device=u.device)
    own = u[:, fused.columns] * torch.exp2((fused.bits - exponents).double())[:, None]
    scaled[:, : len(fused.columns)] = own
    units = torch.exp2((exponents - fused.bits - fused.scale).double()).float()
    squares = torch.where(lost, math.inf, squares)
    norms = torch.where(lost, 0.0, -fused.gamma * LOG2E * squares).float()
    return RowSlices(torch.stack(_cut(scaled, fused.bits)).half(), units, norms, squares)


def _slice_sums(fused: SliceSums, slices: RowSlices) -> tuple[Tensor, Tensor]:
    """Sums of A K and of |A| K, in the kernel's own arithmetic: shapes (m, k), doubles."""
    products = _slice_product(slices.table.float(), fused.table.float().transpose(1, 2))
    K = torch.exp2(products * slices.units[:, None] + fused.shifts + slices.norms[:, None])
    if not fused.several:
        parts = (K * fused.weights).view(len(K), -1, 16).sum(dim=2).double()
        half = fused.positive // 16
        first, second = parts[:, :half].sum(dim=1), parts[:, half:].sum(dim=1)
        factor = 2.0**fused.exponent
        return ((first - second) * factor)[:, None], ((first + second) * factor)[:, None]
    K = (K * 2.0**GROUP_BITS).clamp(max=2.0**GROUP_BITS)
    cut = torch.stack(_cut(K, GROUP_BITS) if fused.fine else _cut_once(K))
    weights, starts = fused.weights.float(), fused.starts.tolist()
    sums, sizes = [], []
    for group in (slice(*ends) for ends in pairwise(starts)):
        sums.append(_slice_product(cut[:, :, group], weights[:, group]))
        sizes.append((K[:, group] * fused.sizes[group]).sum(dim=1))
    return fused.unscaled_several(torch.cat(sums, dim=1), torch.stack(sizes, dim=1))


def _cut(values: Tensor, bits: int) -> tuple[Tensor, Tensor, Tensor]:
    """Whole numbers, multiples of 2^-bits, and the rests."""
    whole = values.round()
    rest = values - whole
    fraction = (rest * 2.0**bits).round() * 2.0**-bits
    return whole, fraction, rest - fraction


def _cut_once(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Whole numbers, the rests rounded to 11 bits, and nothing."""
    whole = values.round()
    rest = (values - whole).half().float()
    return whole, rest, torch.zeros_like(rest)


def _slice_product(z: Tensor, y: Tensor) -> Tensor:
    """z.y of slices (3, m, D) and (3, D, n): the three accumulators, added smallest first."""
    a3 = z[1] @ y[1] + z[0] @ y[2] + z[2] @ y[0]
    a2 = z[0] @ y[1] + z[1] @ y[0]
    return z[0] @ y[0] + (a2 + a3)


def digits_of(fine: FineSums, rows: Tensor) -> RowDigits:
    """Rows in digits, in torch operations."""
    u = rows.double() - fine.point
    squares = (u * u).sum(dim=1)
    rate, radius = fine.rate.tolist()
    largest = u.abs().amax(dim=1)
    exponents = torch.where(largest > 0, torch.frexp(largest)[1], NEAREST_DIGITS).clamp(
        min=NEAREST_DIGITS
    )
    reach = (rate * squares).sqrt() + radius
    lost = (exponents > BEYOND) | ~(reach * reach < FARTHEST_FINE)
    exponents = torch.where(lost, 0, exponents)
    u = torch.where(lost[:, None], 0.0, u)
    left = torch.zeros(len(u), fine.width, dtype=torch.float64, device=u.device)
    own = u[:, fine.columns] * torch.exp2((LARGEST - exponents).double())[:, None]
    left[:, : fine.n_features] = own
    digits = []
    for _ in range(DIGITS):
        digits.append(left.round())
        left = (left - digits[-1]) * 2.0**BITS
    units = torch.exp2((exponents - LARGEST - fine.scale).double())
    squares = torch.where(lost, math.inf, squares)
    norms = torch.where(lost, 0.0, -rate * squares)
    return RowDigits(torch.stack(digits).to(torch.int8), units, norms, squares)


def _digit_sums(fine: FineSums, digits: RowDigits) -> tuple[Tensor, Tensor]:
    """Sums of A K over positive and over negative coefficients, each of shape (m,)."""
    z, y = digits.table.double(), fine.table.double().transpose(1, 2)
    levels = [
        sum((z[one] @ y[level - one] for one in range(level + 1)), start=torch.zeros(()))
        for level in range(DIGITS)
    ]
    hi = 128.0 * levels[0] + levels[1]
    lo = 128.0 * levels[2] + levels[3] + (levels[4] / 128.0).floor()
    t = (hi * 2.0**14 + lo) * (digits.units * 2.0**-21)[:, None] + fine.shifts
    whole = t.round()
    f, power = t - whole, torch.zeros_like(t)
    for coefficient in reversed(fine.powers.tolist()):
        power = power * f + coefficient
    K = torch.ldexp(power, whole) * fine.weights
    scale = torch.exp(digits.norms * math.log(2.0))
    up, down = K[:, : fine.positive].sum(dim=1), K[:, fine.positive :].sum(dim=1)
    return up * scale, down * scale


def _bounded(fine: FineSums, digits: RowDigits, up: Tensor, down: Tensor) -> Bounded:
    """As `kernels.fused.one_end` does."""
    per_norm, per_square, fixed, per_unit, most, factor, relative, scale, b, floor = (
        fine.finish.tolist()
    )
    squares = digits.squares
    eps = per_norm * squares.sqrt() + per_square * squares + fixed + per_unit * digits.units
    known = (eps <= most)[:, None]
    size = (factor * eps + relative) * ((up + down) * scale) + floor
    bounds = size[:, None] + fine.bound(squares)
    scores = torch.where(known, ((up - down) * scale)[:, None], 0.0) + b
    return Bounded(scores, torch.where(known, bounds, math.inf))
