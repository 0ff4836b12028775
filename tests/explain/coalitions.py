"""Shapley values by their definition: over all coalitions, and in ball arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb, arb_poly

import kernelite as kl
from kernelite.explain.shapley import Explanation
from kernelite.explain.shapley import shap_values as summed_up
from kernelite.machine.kernels import Laplacian, PolynomialKernel, ProductKernel, Rbf, SumKernel
from kernelite.model.serving import explained_on

__all__ = ["by_coalitions", "check_bounds", "far_twins", "random_expansion", "real_products"]


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


def random_expansion(kind: str, rng: np.random.Generator, d: int) -> kl.KernelExpansion:
    """Of one of the served kinds."""
    n, k = int(rng.integers(1, 20)), int(rng.integers(1, 4))
    gamma = float(10.0 ** rng.uniform(-2, 0.5))
    scales = tuple(rng.uniform(0.5, 3.0, d).tolist())
    kernels: dict[str, Any] = {
        "rbf": "rbf",
        "laplacian": Laplacian(gamma),
        "linear": PolynomialKernel(1, gamma, 0.5),
        "quadratic": "poly2",
        "product": ProductKernel((Rbf(scales), Laplacian(gamma))),
        "sum": SumKernel(
            (2.0, 0.5, 0.25, 0.125),
            (Rbf(scales), Laplacian(gamma), PolynomialKernel(1), PolynomialKernel(2, 0.1, 1.0)),
        ),
    }
    return kl.KernelExpansion(
        rng.normal(size=(n, d)),
        rng.normal(size=(n, k)),
        rng.normal(size=k),
        gamma=gamma,
        kernel=kernels[kind],
        coef0=0.7 if kind == "quadratic" else 0.0,
    )


def far_twins(expansion: kl.KernelExpansion) -> kl.KernelExpansion:
    """Two centers of opposite signs, far from zero, which all but cancel."""
    centers = 1e4 + np.repeat(expansion.centers[:1], 2, axis=0)
    return kl.KernelExpansion(
        centers * [[1.0], [1.0 + 1e-9]],
        [[1e6], [-1e6]],
        [0.0],
        gamma=expansion.gamma,
        kernel=expansion.kernel,
    )


def shap_values(
    model: Any, X: Any, background: Any, device: str | None = None, **options: Any
) -> Explanation:
    """Our own object, where `CompiledModel.shap_values` may answer with shap's."""
    X, background, where = explained_on(X, background, device)
    return summed_up(model, X, background, **options, **where)


def check_bounds(
    kind: str,
    expansion: kl.KernelExpansion,
    rng: np.random.Generator,
    tolerance: float | None,
    device: str | None = None,
) -> None:
    """Values of a row and two background rows are within their bounds of the integral in balls."""
    d = expansion.n_features
    offset = expansion.dense_centers().mean(axis=0)
    x, background = offset + rng.normal(size=(1, d)), offset + rng.normal(size=(2, d))
    fast = kl.compile(expansion, guarantee="exact")
    found = shap_values(fast, x, background, tolerance=tolerance, device=device)

    def exponent(z: Any, s: Any, place: int) -> Any:
        if kind == "rbf":
            return arb(expansion.gamma) * (z - s) ** 2
        if kind == "laplacian":
            return arb(expansion.kernel.gamma) * abs(z - s)
        rbf, city = expansion.kernel.kernels
        scale = arb(rbf.length_scale[place])
        return ((z - s) / scale) ** 2 / 2 + arb(city.gamma) * abs(z - s)

    balls = [[arb(float(value)) for value in row] for row in background]
    centers = [[arb(float(value)) for value in row] for row in expansion.dense_centers()]
    players = [[j] for j in range(d)]
    for output in range(expansion.n_outputs):
        weights = [arb(float(a)) for a in expansion.coefficients[:, output]]
        row = [arb(float(value)) for value in x[0]]
        true = real_products(exponent, row, balls, centers, weights, players)
        values, bounds = (a.reshape(1, d, -1)[0, :, output] for a in (found.values, found.bounds))
        for value, bound, real in zip(values, bounds, true):
            assert abs(arb(float(value)) - real) <= arb(float(bound))
            if tolerance is not None and abs(expansion.coefficients).max() < 100:
                assert bound <= tolerance
