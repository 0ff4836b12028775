"""What the suites share: where optional real data lie, patience, and small random models."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernelite.machine.expansion import KernelExpansion
from kernelite.program.bounded import Bounded, spelled_out

VALUES = (0, -1, 3, 2**31, 2**63, 0.5, -1e308, 1e308, 1e-320, True, None, "x", "+-", [], {})
"""What somebody may have put in the place of a number of a file."""

CHANGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "shorter": lambda array: array[:-1],
    "turned": lambda array: array.T,
    "flat": lambda array: array.ravel(),
    "zeros": np.zeros_like,
    "empty": lambda array: array[:0],
    "twice": lambda array: np.concatenate([array, array]),
    "negative": lambda array: array * -1,
    "huge": lambda array: np.full_like(array, 1e308 if array.dtype.kind == "f" else 127),
}
"""What somebody may have made of an array of a file."""

PATIENCE = 900  # seconds until what hangs is given up; no test comes near it on a busy machine


def scores_and_bounds(found: Bounded) -> tuple[np.ndarray, np.ndarray]:
    """Scores and bounds of shape (m, k) each."""
    assert found.bounds is not None
    return found.scores, spelled_out(found.bounds)


def widened(
    expansion: KernelExpansion, rows: np.ndarray, beyond: np.ndarray
) -> tuple[KernelExpansion, np.ndarray, np.ndarray]:
    """One more feature, in which all centers are zero: the model, its rows, and beta.

    `beyond` of shape (m,) is rounded to few bits, so that beta, its square, is a double.
    """
    mantissa, exponent = np.frexp(beyond)
    short = np.ldexp(np.round(mantissa * 2.0**20) / 2.0**20, exponent)
    centers = np.column_stack([expansion.dense_centers(), np.zeros(expansion.n_centers)])
    return replace(expansion, centers=centers), np.column_stack([rows, short]), short * short


def shared_path(*parts: str) -> Path:
    """A file of the shared data folder, or a skip that says what is absent."""
    root = Path(os.environ.get("KERNELITE_SHARED", Path(__file__).parents[1].parent / "shared"))
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{'/'.join(parts)} is not in the shared data folder")
    return path


def random_expansion(
    rng: np.random.Generator,
    *,
    n: int = 30,
    d: int = 5,
    k: int = 1,
    gamma: float = 0.1,
    kernel: str = "rbf",
) -> KernelExpansion:
    """A small random model with signed coefficients."""
    return KernelExpansion(
        rng.normal(size=(n, d)),
        rng.normal(size=(n, k)),
        rng.normal(size=k),
        gamma=gamma,
        kernel=kernel,  # type: ignore[arg-type]
        coef0=0.5 if kernel == "poly2" else 0.0,
    )
