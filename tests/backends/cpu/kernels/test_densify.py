"""Sparse rows made dense against SciPy's own way."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from kernelite.backends.cpu.kernels.densify import dense_rows
from kernelite.backends.cpu.threads import limit_threads
from kernelite.support.errors import InputError


@pytest.mark.parametrize(("m", "d"), [(0, 3), (1, 1), (7, 5), (20_000, 17)])
@pytest.mark.parametrize("threads", [1, 3])
def test_same_as_scipy(m: int, d: int, threads: int) -> None:
    rng = np.random.default_rng(m)
    rows = csr_array(rng.normal(size=(m, d)) * (rng.random((m, d)) < 0.5))
    with limit_threads(threads):
        np.testing.assert_array_equal(dense_rows(rows), rows.toarray())
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    np.testing.assert_array_equal(dense_rows(rows), rows.toarray())


@pytest.mark.parametrize(("indptr", "indices"), [([0, 1, 2], [0, 3]), ([0, 0, 9], [0, 1])])
def test_malformed_matrices_are_refused(indptr: list[int], indices: list[int]) -> None:
    rows = csr_array((2, 3))
    rows.indptr, rows.indices = np.array(indptr, dtype=np.int32), np.array(indices, dtype=np.int32)
    rows.data = np.ones(2)
    with pytest.raises(InputError, match=r"row 1 are not increasing or not below 3"):
        dense_rows(rows)
