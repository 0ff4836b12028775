"""Rows times few columns against NumPy: all shapes of groups, slices and rests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kernelite
from kernelite.backends.cpu.kernels.compiling import (
    Longs,
    Matrix,
    OutMatrix,
    Vector,
    kernel,
)
from kernelite.backends.cpu.kernels.project import (
    PROJECT_LANES,
    PROJECT_ROWS,
    SLICE,
    group_sizes,
    lay_out,
)
from kernelite.backends.cpu.kernels.project import project_rows as compiled_into_others


@kernel()
def project_rows(
    rows: Matrix,
    start: int,
    count: int,
    way: Matrix,
    columns: Vector,
    sizes: Longs,
    buffer: OutMatrix,
    squares: OutMatrix,
    y: OutMatrix,
) -> None:
    compiled_into_others(rows, start, count, way, columns, sizes, buffer, squares, y)


@pytest.mark.parametrize(
    "n_columns",
    [
        1,
        PROJECT_LANES,
        PROJECT_LANES + 1,
        3 * PROJECT_LANES,
        4 * PROJECT_LANES,
        5 * PROJECT_LANES + 2,
    ],
)
@pytest.mark.parametrize(
    "d", [1, PROJECT_LANES - 1, PROJECT_LANES, 37, SLICE, SLICE + 1, 2 * SLICE + PROJECT_LANES]
)
@pytest.mark.parametrize("count", [1, PROJECT_ROWS - 1, PROJECT_ROWS])
def test_equals_the_matrix_product(d: int, n_columns: int, count: int) -> None:
    rng = np.random.default_rng(d + n_columns + count)
    rows, point = rng.normal(size=(PROJECT_ROWS + 3, d)), rng.normal(size=d)
    matrix = rng.normal(size=(d, n_columns))
    sizes = group_sizes(n_columns)
    # What was there before must not matter.
    buffer, squares = (
        np.full((PROJECT_ROWS, SLICE), 7.0),
        np.full((PROJECT_ROWS, PROJECT_LANES), 7.0),
    )
    y = np.full((PROJECT_ROWS, PROJECT_LANES * int(sizes.sum())), 7.0)
    project_rows(rows, 2, count, point[None, :], lay_out(matrix), sizes, buffer, squares, y)
    u = rows[2 : 2 + count] - point
    np.testing.assert_allclose(y[:count, :n_columns], u @ matrix, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(squares[:count].sum(axis=1), (u * u).sum(axis=1), rtol=1e-13)
    assert not y[count:].any()
    assert not y[:, n_columns:].any()


@pytest.mark.parametrize("d", [1, PROJECT_LANES, 37, SLICE + 1])
@pytest.mark.parametrize("count", [1, PROJECT_ROWS])
def test_rows_are_mapped_on_the_way(d: int, count: int) -> None:
    rng = np.random.default_rng(d + count)
    rows, way, matrix = (
        rng.normal(size=(PROJECT_ROWS, d)),
        rng.normal(size=(3, d)),
        rng.normal(size=(d, 5)),
    )
    sizes = group_sizes(5)
    buffer, squares = np.empty((PROJECT_ROWS, SLICE)), np.empty((PROJECT_ROWS, PROJECT_LANES))
    y = np.empty((PROJECT_ROWS, PROJECT_LANES * int(sizes.sum())))
    project_rows(rows, 0, count, way, lay_out(matrix), sizes, buffer, squares, y)
    u = ((rows - way[0]) * way[1] - way[2])[:count]
    np.testing.assert_allclose(y[:count, :5], u @ matrix, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(squares[:count].sum(axis=1), (u * u).sum(axis=1), rtol=1e-12)


def test_groups_hold_every_vector() -> None:
    for n_columns in range(1, 20 * PROJECT_LANES):
        sizes = group_sizes(n_columns)
        assert sizes.sum() == -(-n_columns // PROJECT_LANES)
        assert sizes.max() <= 3


@pytest.mark.parametrize(
    ("features", "lanes"),
    [
        ("", 4),
        ("+avx,+avx2,+fma", 4),
        ("+avx,+avx2,+fma,+avx512f", 4),
        ("+avx,+avx2,+fma,+avx512f,+avx512dq", 8),
    ],
)
def test_vectors_are_those_of_numbas_target(features: str, lanes: int) -> None:
    code = "from kernelite.backends.cpu.kernels.project import PROJECT_LANES; print(PROJECT_LANES)"
    numba = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features}
    source = str(Path(kernelite.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": source, "KERNELITE_KERNELS": "numba", **numba},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == lanes
