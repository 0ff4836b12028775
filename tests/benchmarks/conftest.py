"""A workload small enough for tests, all of which are campaigns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.settings import PRESETS, Settings
from benchmarks.workloads import Workload, generated


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker("campaign")


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
