"""Random models and rows that are hard on a certificate: for hypothesis.

`KERNELITE_BOUND_MODELS` sets how many models the property tests of bounds try (default 60).
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from kernelite.machine.expansion import KernelExpansion

__all__ = ["HOW_MANY", "KINDS", "POINTS", "Case", "cases", "hard_rows", "made_hard", "point_of"]

HOW_MANY = int(os.environ.get("KERNELITE_BOUND_MODELS", "60"))
KINDS = ("plain", "twins", "offset", "far center", "few values", "zeros")
POINTS = ("origin", "mean", "center", "elsewhere")


@dataclass(frozen=True, eq=False)
class Case:
    """A model, a point to expand about, and rows."""

    expansion: KernelExpansion
    point: np.ndarray
    rows: np.ndarray


@st.composite
def cases(draw, kernel: str = "rbf", max_features: int = 40, max_centers: int = 200) -> Case:
    """d 1 to 40, n 1 to 200, gamma 1e-6 to 10, k 1 to 6, coefficients 1e-6 to 1e6."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d = draw(st.integers(1, max_features))
    n = draw(st.integers(1, max_centers))
    k = draw(st.integers(1, 6))
    gamma = 10.0 ** draw(st.floats(-6.0, 1.0))
    # gamma |s|^2 from far inside the proof's reach to far outside.
    spread = 10.0 ** draw(st.floats(-2.0, 1.5)) / np.sqrt(gamma * d)
    kind = draw(st.sampled_from(KINDS))
    centers = rng.normal(size=(n, d)) * spread
    size = 10.0 ** draw(st.floats(-6.0, 6.0))
    coefficients = rng.choice([-1.0, 1.0], (n, k)) * size * 10.0 ** rng.uniform(-2, 0, (n, k))
    intercept = rng.normal(size=k) * draw(st.sampled_from([0.0, 1e-3, 1.0])) * size
    centers, coefficients = made_hard(kind, rng, centers, coefficients, spread, kernel)
    expansion = KernelExpansion(
        centers,
        coefficients,
        intercept,
        gamma=gamma,
        kernel=kernel,  # type: ignore[arg-type]
        coef0=draw(st.sampled_from([0.0, 1.0, -0.5])) if kernel == "poly2" else 0.0,
    )
    point = point_of(draw(st.sampled_from(POINTS)) if kernel == "rbf" else "origin", rng, centers)
    return Case(expansion, point, hard_rows(rng, expansion, point))


def made_hard(
    kind: str,
    rng: np.random.Generator,
    centers: np.ndarray,
    A: np.ndarray,
    spread: float,
    kernel: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Centers and coefficients of a kind that is hard on bounds; the arrays given are changed."""
    n, d = centers.shape
    if kind == "twins" and n > 1:
        # Near-duplicates of opposite sign and 1e6: all but the last digits of f cancel.
        half = n // 2
        nudge = 10.0 ** rng.uniform(-16, -3)
        centers[half : 2 * half] = centers[:half] * (1.0 + nudge * rng.normal(size=(half, d)))
        A[:half] *= 1e6 / np.abs(A[:half]).max()
        A[half : 2 * half] = -A[:half]
    elif kind == "offset":
        centers += 10.0 ** rng.uniform(0, 6) * spread
    elif kind == "far center":
        # A polynomial has no exponential that would take it back.
        centers[rng.integers(n)] *= 10.0 ** rng.uniform(1, 100 if kernel == "poly2" else 200)
    elif kind == "few values":
        centers = np.round(centers / spread) * spread
    elif kind == "zeros":
        A[rng.random(A.shape) < 0.7] = 0.0
        centers[rng.random(centers.shape) < 0.5] = 0.0
    return centers, A


def point_of(where: str, rng: np.random.Generator, centers: np.ndarray) -> np.ndarray:
    """A point to expand about, of one of `POINTS`."""
    if where == "origin":
        return np.zeros(centers.shape[1])
    if where == "mean":
        near = centers[np.abs(centers).max(axis=1) < 1e9]
        return near.mean(axis=0) if len(near) else np.zeros(centers.shape[1])
    one = centers[rng.integers(len(centers))]
    return (
        one.copy() if where == "center" else one + rng.normal(size=one.shape) * np.abs(one).mean()
    )


def hard_rows(
    rng: np.random.Generator, expansion: KernelExpansion, point: np.ndarray
) -> np.ndarray:
    """Rows among the centers, equal to one, at the point, far, huge, zero, denormal: (10, d)."""
    centers = expansion.dense_centers()
    d = centers.shape[1]
    some = centers[rng.integers(len(centers), size=4)]
    width = 1.0 / np.sqrt(expansion.gamma * d)
    rows = [
        some[0],
        0.5 * (some[1] + some[2]),
        some[3] + rng.normal(size=d) * width,
        point + rng.normal(size=d) * width * 10.0 ** rng.uniform(-9, 1),
        some[0] * (1.0 + 1e-13 * rng.normal(size=d)),
        rng.normal(size=d) * 20.0 * width,
        rng.choice([-1.0, 1.0], d) * 1e200,
        np.zeros(d),
        rng.normal(size=d) * 1e-310,
        point,
    ]
    return np.array(rows)
