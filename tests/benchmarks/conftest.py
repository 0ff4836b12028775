"""A workload small enough for tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.settings import PRESETS, Settings
from benchmarks.workloads import Workload, generated


@pytest.fixture(scope="session")
def tiny() -> Settings:
    return PRESETS["tiny"]


@pytest.fixture(scope="session")
def toy() -> Workload:
    """120 support vectors in 6 features; nothing in it is real."""
    return generated("generated toy", 120, 6, 0.5, m=500, sample_rows=6_000)


@pytest.fixture(scope="session")
def sparse_toy(toy: Workload) -> Workload:
    """The same model; rows that are mostly zeros."""
    thin = np.random.default_rng(0).random(toy.rows.shape) < 0.1
    return replace(toy, name="generated, sparse", rows=toy.rows * thin)
