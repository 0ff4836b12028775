"""What the suites share: where optional real data lie, and small random models."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from kernelite.machine.expansion import KernelExpansion


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
