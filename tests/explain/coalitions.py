"""Shapley values by their definition: over all coalitions, and in ball arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb, arb_poly

__all__ = ["by_coalitions", "real_products"]


def by_coalitions(
    score: Callable[[Any], np.ndarray], mix: Callable[[np.ndarray], Any], p: int
) -> np.ndarray:
    """phi of shape (p, k): `mix` gives the rows of a coalition, `score` their scores, (B, k)."""
    worth = []
    for number in range(1 << p):
        inside = np.array([bool(number >> j & 1) for j in range(p)])
        found = np.asarray(score(mix(inside)), dtype=np.float64)
        worth.append(found.reshape(len(found), -1).mean(axis=0))
    values = np.zeros((p, worth[0].size))
    for j in range(p):
        for number in range(1 << p):
            if not number >> j & 1:
                size = number.bit_count()
                weight = 1.0 / (p * math.comb(p - 1, size))
                values[j] += weight * (worth[number | 1 << j] - worth[number])
    return values


def real_products(
    exponent: Callable[[Any, Any, int], Any],
    x: list[Any],
    background: list[list[Any]],
    centers: list[list[Any]],
    coefficients: list[Any],
    players: list[list[int]],
) -> list[Any]:
    """phi of each player as balls, for sum_i A_i prod_l exp(-exponent(z_l, s_l, l)).

    Polynomials in t are multiplied out and integrated term by term.
    """
    total = [arb(0) for _ in players]
    for s, weight in zip(centers, coefficients):
        u = [_factor(exponent, x, s, own) for own in players]
        for b in background:
            v = [_factor(exponent, b, s, own) for own in players]
            lines = [arb_poly([low, high - low]) for low, high in zip(v, u)]
            for j in range(len(players)):
                product = arb_poly([1])
                for place, line in enumerate(lines):
                    if place != j:
                        product = product * line
                integral = sum((c / (k + 1) for k, c in enumerate(product.coeffs())), arb(0))
                total[j] += weight * (u[j] - v[j]) * integral / len(background)
    return total


def _factor(exponent: Any, z: list[Any], s: list[Any], own: list[int]) -> Any:
    return (-sum((exponent(z[place], s[place], place) for place in own), arb(0))).exp()
