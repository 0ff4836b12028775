"""Cubic forms in tiles against their twin on BLAS."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelite.approximation.cubic import packed_size
from kernelite.engines import blas
from kernelite.engines.jit_cubic import cubic_values, prepare_cubic
from kernelite.engines.threads import limit_threads
from kernelite.errors import InputError


def assert_twins(packed: np.ndarray, rows: np.ndarray, point: np.ndarray | None = None) -> None:
    U = rows if point is None else rows - point
    got = cubic_values(prepare_cubic(packed, rows.shape[1], point), rows)
    expected = blas.cubic_values(packed, U)
    size = blas.cubic_values(np.abs(packed), np.abs(U))
    assert (np.abs(got - expected) <= 1e-14 * (rows.shape[1] + 4) * size).all()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rank=st.integers(1, 34),
    k=st.integers(1, 4),
    m=st.integers(0, 200),
    shifted=st.booleans(),
)
def test_random_forms(seed: int, rank: int, k: int, m: int, shifted: bool) -> None:
    rng = np.random.default_rng(seed)
    packed = rng.normal(size=(k, packed_size(rank)))
    rows = rng.normal(size=(m, rank))
    assert_twins(packed, rows, rng.normal(size=rank) if shifted else None)


def test_threads_do_not_change_the_answers() -> None:
    rng = np.random.default_rng(1)
    form = prepare_cubic(rng.normal(size=(2, packed_size(9))), 9)
    rows = rng.normal(size=(20_000, 9))
    assert form.chunk < len(rows) / 2
    with limit_threads(1):
        alone = cubic_values(form, rows)
    with limit_threads(3):
        np.testing.assert_array_equal(cubic_values(form, rows), alone)


def test_count_must_match_the_rank() -> None:
    with pytest.raises(InputError, match="`packed` has 3 coefficients"):
        prepare_cubic(np.zeros((1, 3)), 2)
