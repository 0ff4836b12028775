"""Gauss-Legendre rules on [0, 1], to the last digit, and how few nodes are enough.

Two terms of a rule stand together: nodes t < 1/2 and 1 - t have the same weight. Nodes near 0 are
small, and their digits count (`kernelite.explain.shapley`); so they are found as y = 2t = 1 - x, by
a recurrence of differences of Legendre polynomials, in integers of 160 bits behind the point:

    D_k = P_k - P_(k-1),    (k + 1) D_(k+1) = k D_k - (2k + 1) y P_k,
    P_q'(x) = q P_(q-1) / (y (2 - y)) at a root,    weight = 1 / (y (2 - y) P_q'^2) on [0, 1].

How far a rule of q nodes is off. Let g be a product of factors mid_l + half_l z for z in [-1, 1]
(t = (1 + z) / 2), and r_l = half_l / mid_l. On the ellipse with foci -1 and 1 whose half axes add
up to R, |z| and |Re z| are at most c = (R + 1/R) / 2; and |1 + r z|^2 <= exp(2 r Re z + r^2 |z|^2).
So

    |g| <= prod mid_l exp(c |sum r_l| + c^2 sum r_l^2 / 2) =: M.

Chebyshev coefficients of g are then at most 2 M R^-k. A rule of q >= 2 nodes is exact up to degree
2q - 1; odd degrees integrate to 0 either way; and for even k >= 4, |integral T_k| <= 2 / 15 while
the weights add up to 2. So on [0, 1] a rule is off by at most

    (1/2) sum over k = 2q, 2q + 2, ... of (2 + 2/15) 2 M R^-k = (32 / 15) M R^-2q / (1 - R^-2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray

__all__ = ["Rules", "rule", "rules"]

BITS = 160  # behind the point
FEWER = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32, 48, 64, 96, 128)
"""Numbers of nodes to choose from, besides that of the exact rule."""
SIDE, STEPS = 65, 2.0  # of the table of spreads, in each of its two directions, up to 32
AXES = np.geomspace(1.05, 1e4, 80)  # R


@lru_cache(maxsize=64)
def rule(q: int) -> tuple[FloatArray, FloatArray]:
    """Nodes t <= 1/2 of the rule of q nodes on [0, 1], and weights of t and of 1 - t each.

    A middle node, t = 1/2, has half of its weight: it counts twice.

    Examples
    --------
    >>> rule(1), rule(2)[0].round(4)
    ((array([0.5]), array([0.5])), array([0.2113]))
    """
    half = q // 2
    angles = np.pi * (4.0 * np.arange(1, half + 1) - 1.0) / (4.0 * q + 2.0)
    y: FloatArray = 2.0 * np.sin(angles / 2.0) ** 2
    for _ in range(4):
        value, slope = _legendre(y, q)
        y = y + value / slope
    fixed: Any = np.array([int(number * 2.0**100) << (BITS - 100) for number in y], dtype=object)
    for _ in range(2):
        found, steep = _legendre_in_integers(fixed, q)
        fixed = fixed + (found << BITS) // steep
    _, steep = _legendre_in_integers(fixed, q)
    one, width = 1 << BITS, (fixed * ((2 << BITS) - fixed)) >> BITS
    nodes = [int(number) / (2 << BITS) for number in fixed]
    weights = [
        (one << (3 * BITS)) // (int(a) * int(b) * int(b)) / one for a, b in zip(width, steep)
    ]
    if q % 2:
        nodes.append(0.5)
        weights.append(_middle_weight(q) / 2.0)
    return np.array(nodes), np.array(weights)


def _legendre(y: FloatArray, q: int) -> tuple[FloatArray, FloatArray]:
    """P_q(1 - y) and its derivative by x."""
    value, gap = np.ones_like(y), np.zeros_like(y)
    before = value
    for k in range(q):
        gap = (k * gap - (2 * k + 1) * y * value) / (k + 1)
        before, value = value, value + gap
    return value, q * (before - (1.0 - y) * value) / (y * (2.0 - y))


def _legendre_in_integers(y: Any, q: int) -> tuple[Any, Any]:
    """The same, of integers."""
    one = 1 << BITS
    value, gap = y * 0 + one, y * 0
    before = value
    for k in range(q):
        gap = (k * gap - (2 * k + 1) * ((y * value) >> BITS)) // (k + 1)
        before, value = value, value + gap
    width = (y * (2 * one - y)) >> BITS
    rest = before - (((one - y) * value) >> BITS)
    return value, (q * (rest << BITS)) // width


def _middle_weight(q: int) -> float:
    """Of x = 0, for odd q: 1 / P_q'(0)^2 with P_q'(0) = q P_(q-1)(0), by integers."""
    above, below = 1, 1  # of |P_(q-1)(0)| = 1 3 5 ... / (2 4 6 ...)
    for k in range(1, q, 2):
        above, below = above * k, below * (k + 1)
    return (below * below) / (q * q * above * above)


@dataclass(frozen=True, eq=False)
class Rules:
    """Rules of more and more nodes, the last of which is exact, and which of them to take.

    Parameters
    ----------
    nodes, weights : ndarray of shape (t,)
        Of all rules, one after the other.
    starts : ndarray of int, shape (r + 1,)
        Where each begins.
    choice : ndarray of int, shape (side * side + 1,)
        A rule for each |sum r| below i / steps and sum r^2 below j / steps; the last for others.
    side, steps : int, float
        The side is 0 where the last rule is always taken.
    most : int
        Nodes of the exact rule.
    """

    nodes: FloatArray
    weights: FloatArray
    starts: NDArray[np.int64]
    choice: NDArray[np.int64]
    side: int
    most: int
    steps: float = STEPS


@lru_cache(maxsize=16)
def rules(players: int, share: float, choosing: bool) -> Rules:
    """Rules for products of `players` factors, one of which is left out.

    Parameters
    ----------
    players : int
    share : float
        What a rule may leave out, as a share of prod mid_l.
    choosing : bool
        Whether rules with fewer nodes than the exact one are looked for.
    """
    exact = max(1, -(-players // 2))
    fewer = [q for q in FEWER if q < exact] if choosing else []
    counts = [*fewer, exact]
    made = [rule(q) for q in counts]
    starts = np.append(0, np.cumsum([len(nodes) for nodes, _ in made]))
    side = SIDE if fewer else 0
    choice = _choices(fewer, share) if fewer else np.zeros(1, dtype=np.int64)
    return Rules(
        np.concatenate([nodes for nodes, _ in made]),
        np.concatenate([weights for _, weights in made]),
        starts.astype(np.int64),
        choice,
        side,
        exact,
    )


def _choices(counts: list[int], share: float) -> NDArray[np.int64]:
    """The first of `counts` that leaves out no more than a share, for each pair of spreads."""
    spreads = np.arange(SIDE) / STEPS
    c = (AXES + 1.0 / AXES) / 2.0
    grown = c * spreads[:, None, None] + c * c * spreads[None, :, None] / 2.0
    grown = grown - np.log1p(-(AXES**-2.0))
    found = np.full((SIDE, SIDE), len(counts), dtype=np.int64)
    for index, q in reversed(list(enumerate(counts))):
        left = (grown - 2.0 * q * np.log(AXES)).min(axis=2)
        found[left <= np.log(share)] = index
    return np.append(found.reshape(-1), len(counts))
