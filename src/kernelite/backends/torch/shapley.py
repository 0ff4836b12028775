"""Shapley values of products of factors on a device, in doubles; `explain.sums` has the contract.

Factors, errors and bounds are those of `explain.shapley`; what differs is how a player is left out
of a product. With M = v + t (u - v), N the same for 1 - t, and their products P and Q over all
players, all of them positive, two nodes t and 1 - t give

    P / M_j + Q / N_j = (P N_j + Q M_j) / (M_j N_j),

five roundings. A factor is not below exp(-230): that changes values by 4096 e^-230 < 1e-96 at most,
and products that underflow, by 2^-1022 a step, do so by 4096 2^-1022 e^460 < 1e-104. So a product
is computed once for all players, and kept between two passes: `kernels.shapley` has both, and here
they are in torch operations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from kernelite.backends.torch.interchange import as_host_array
from kernelite.backends.torch.kernels import has_triton
from kernelite.backends.torch.tensors import Tensor, known_device
from kernelite.machine.exactly import UNIT

__all__ = ["DeviceProducts", "KeptProducts", "Quadrature", "brought", "players", "products"]

DEVICE_EXPONENT = 230.0  # of a factor
LARGEST_ERROR = 690.0  # of an exponent: nothing is known beyond
DEVICE_ROUNDED = 2.0**-50  # more than taking 1 away from a product rounds
HOST_ROOM, MOST_ROOM = 1 << 21, 1 << 25  # numbers held at once: 16 MB of a host, 256 of a GPU
MEMORY_SHARE = 1 << 6  # of a GPU's memory that so many numbers take


def brought(X: Any) -> tuple[Any, torch.device | None]:
    """Rows of a tensor in host memory, and the GPU that they lay on."""
    here = as_host_array(X)
    if here is not None:
        return here, None
    rows = X if isinstance(X, torch.Tensor) else torch.from_dlpack(X)
    return rows.detach().cpu().numpy(), rows.device


class Factors(NamedTuple):
    """Of rows: factors of shape (m, p, n), and what errors of exponents do to products, (m, n)."""

    values: Tensor
    errors: Tensor


class Quadrature(NamedTuple):
    """Rules on the device, as `explain.quadrature.Rules` has them."""

    nodes: Tensor
    weights: Tensor
    starts: Tensor
    choice: Tensor
    side: int
    steps: float
    slots: int  # pairs of nodes of the longest rule


class DeviceProducts:
    """The centers of a term on a device.

    Parameters
    ----------
    term : explain.terms.ProductTerm
    player : ndarray of int, shape (d,)
    count : int
        p.
    center_moves : float
        How far centers may be off, relatively.
    device : str or torch.device
        One without doubles is refused.
    """

    lost = 1e-90

    def __init__(
        self, term: Any, player: Any, count: int, center_moves: float, device: Any
    ) -> None:
        self.device = known_device(device)

        def there(array: Any) -> Tensor:
            return torch.from_numpy(np.array(array, order="C")).to(self.device)

        self.count, self.center_moves = count, center_moves
        self.centers, self.weights = there(term.centers.T), there(term.coefficients)
        self.square, self.city = there(term.square[:, None]), there(term.city[:, None])
        self.player = there(player)
        self.alone = len(player) == count and bool((player == np.arange(count)).all())
        self.relative = float(term.relative)

    @property
    def line(self) -> int:
        """How many numbers the factors of a row take."""
        d, n = self.centers.shape
        return max(1, n) * max(d, self.count)

    @property
    def room(self) -> int:
        """How many numbers are held at once."""
        if self.device.type != "cuda":
            return HOST_ROOM
        memory = torch.cuda.get_device_properties(self.device).total_memory
        return int(min(MOST_ROOM, memory // (8 * MEMORY_SHARE)))

    def factors(self, rows: Any, moves: Any) -> Factors:
        """The factors of rows (m, d) in host memory."""
        z, off = (torch.from_numpy(np.array(a)).to(self.device)[:, :, None] for a in (rows, moves))
        gaps = (z - self.centers).abs_()
        exponents = (self.square * gaps + self.city).mul_(gaps)
        eta = off + self.center_moves * self.centers.abs()
        errors = self.relative * exponents
        errors += (gaps.mul_(2.0).add_(eta).mul_(self.square) + self.city) * eta
        total = torch.expm1(errors.sum(dim=1).clamp_(max=LARGEST_ERROR))
        if not self.alone:
            m, _, n = exponents.shape
            joined = torch.zeros(m, self.count, n, dtype=torch.float64, device=self.device)
            exponents = joined.index_add_(1, self.player, exponents)
        return Factors(torch.exp(-exponents.clamp_(max=DEVICE_EXPONENT)), total)

    def base(self, v: Factors, background: int) -> tuple[Any, Any]:
        """Sums of the background's own products, shape (k,), and how far they are off."""
        found = v.values.prod(dim=1)
        units = UNIT * (6.0 * self.count + len(self.weights) + background + 32.0)
        off = (found * (units + 1.01 * v.errors)) @ self.weights.abs()
        return (found @ self.weights).sum(0).cpu().numpy(), off.sum(0).cpu().numpy()

    def sums(self, u: Factors, v: Factors, rules: Any, background: int) -> tuple[Any, Any, Any]:
        """Values and sizes of shape (m, k, p), and middles (m, k), in host memory."""
        quadrature = self._on_device(rules)
        n = len(self.weights)
        units = UNIT * (8.0 * self.count + rules.most + background + n + 48.0)
        each = 2 * quadrature.slots * max(n, 1)
        others = max(1, min(len(v.values), self.room // each))
        rows = max(1, self.room // (each * others))
        found: list[tuple[Tensor, ...]] = []
        for a in range(0, len(u.values), rows):
            mine = Factors(*(part[a : a + rows] for part in u))
            parts = [
                self._some(mine, Factors(*(part[b : b + others] for part in v)), quadrature, units)
                for b in range(0, len(v.values), others)
            ]
            found.append(tuple(sum(one[1:], one[0]) for one in zip(*parts)))
        values, sizes, middles = (torch.cat(parts).cpu().numpy() for parts in zip(*found))
        return values, sizes, middles

    def _on_device(self, rules: Any) -> Quadrature:
        arrays = (rules.nodes, rules.weights, rules.starts, rules.choice)
        a, b, c, d = (torch.from_numpy(np.array(array)).to(self.device) for array in arrays)
        slots = int(np.diff(rules.starts).max())
        return Quadrature(a, b, c, d, rules.side, rules.steps, slots)

    def _some(
        self, u: Factors, v: Factors, quadrature: Quadrature, units: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same, of a few rows and background rows."""
        errors = (1.0 + (units + u.errors + units * u.errors), 1.0 + v.errors)
        if u.values.is_cuda and has_triton():
            from kernelite.backends.torch.kernels.shapley import run_players, run_products

            kept = run_products(u.values, v.values, quadrature)
            value, size = run_players(u.values, v.values, kept, quadrature, *errors)
        else:
            kept = products(u.values, v.values, quadrature)
            value, size = players(u.values, v.values, kept, quadrature, *errors)
        sizes = self.weights.abs()
        middles = kept.middles.sum(dim=1) @ sizes
        return (value @ self.weights).mT, (size @ sizes).mT, middles


class KeptProducts(NamedTuple):
    """Products of all factors: (m, B, 2 slots, n) at t and 1 - t, prod (u + v) / 2, and the rules.

    `rules` are of shape (m, B, blocks of centers), or one for all.
    """

    products: Tensor
    middles: Tensor
    rules: Tensor


def products(u: Tensor, v: Tensor, quadrature: Quadrature) -> KeptProducts:
    """The first pass: products over players of factors (m, p, n) and (B, p, n).

    One rule serves all, since it is as fine as the worst needs it.
    """
    (m, p, n), B = u.shape, len(v)
    rule = len(quadrature.starts) - 2
    middles = u.new_zeros(m, B, n)
    if quadrature.side and middles.numel():
        rule, middles = _spread(u, v, quadrature)
    begin, end = quadrature.starts[rule : rule + 2].tolist()
    kept = u.new_ones(m, B, 2 * (end - begin), n)
    for player in range(p):
        up, low = u[:, None, player], v[None, :, player]
        for place, node in enumerate(range(begin, end)):
            moved = quadrature.nodes[node] * (up - low)
            kept[:, :, 2 * place] *= low + moved
            kept[:, :, 2 * place + 1] *= up - moved
    return KeptProducts(kept, middles, torch.tensor(rule))


def _spread(u: Tensor, v: Tensor, quadrature: Quadrature) -> tuple[int, Tensor]:
    """The rule that `explain.quadrature` chooses for the largest spreads, and middles."""
    first, second = u.new_zeros(len(u), len(v), u.shape[2]), 0.0
    middles = torch.ones_like(first)
    for player in range(u.shape[1]):
        up, low = u[:, None, player], v[None, :, player]
        both = up + low
        r = (up - low) / both
        first, second, middles = first + r, second + r * r, middles * (0.5 * both)
    squares = torch.as_tensor(second)
    reach = float((first.abs() + squares.sqrt().clamp(max=1.0)).max())
    i, j = (int(value * quadrature.steps) + 1 for value in (reach, float(squares.max())))
    side = quadrature.side
    inside = i < side and j < side
    return int(quadrature.choice[i * side + j if inside else side * side]), middles


def players(
    u: Tensor, v: Tensor, kept: KeptProducts, quadrature: Quadrature, mine: Tensor, others: Tensor
) -> tuple[Tensor, Tensor]:
    """The second pass: sums over background rows, and what their roundings grow with: (m, p, n).

    `mine` and `others` are 1 and the relative errors of products, of shape (m, n) and (B, n).
    """
    begin = int(quadrature.starts[int(kept.rules)])
    value, size = torch.zeros_like(u), torch.zeros_like(u)
    for b in range(len(v)):
        low = v[b]
        gap, total = u - low, torch.zeros_like(u)
        for place in range(kept.products.shape[2] // 2):
            one, two = (kept.products[:, b, 2 * place + side, None] for side in range(2))
            moved = quadrature.nodes[begin + place] * gap
            first, second = low + moved, u - moved
            share = (one * second + two * first) / (first * second)
            total += quadrature.weights[begin + place] * share
        value += total * gap
        size += total * (u + low) * (mine * others[b] - 1.0 + DEVICE_ROUNDED)[:, None]
    return value, size
