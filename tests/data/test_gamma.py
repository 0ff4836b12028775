"""gamma_max: against the plain formula in exact arithmetic, and on the paper's data."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from kernelite.data.gamma import gamma_max
from kernelite.support.errors import FileFormatError, InputError
from tests.helpers import shared_path


def exact(rows: Any, point: Any) -> tuple[int, Fraction]:
    """First farthest row and its squared norm, without any rounding."""
    squares = [
        sum((Fraction(float(x)) - Fraction(float(p))) ** 2 for x, p in zip(row, point))
        for row in rows
    ]
    best = max(squares)
    return squares.index(best), Fraction(best)


def agrees(found: Any, rows: Any, point: Any) -> None:
    _, best = exact(rows, point)
    assert abs(Fraction(found.max_sq_norm) - best) <= best * Fraction(2) ** -50
    attained = exact(rows[found.row : found.row + 1], point)[1]
    assert abs(attained - best) <= best * Fraction(2) ** -48
    assert found.value == 0.25 / found.max_sq_norm
    assert float(found) == found.value


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 12),
    d=st.integers(1, 6),
    shift=st.sampled_from([0.0, 1.0, 1e6]),
    tile=st.sampled_from([1, 7, 2**20]),
)
@settings(deadline=None)
def test_against_exact_arithmetic(seed: int, n: int, d: int, shift: float, tile: int) -> None:
    rng = np.random.default_rng(seed)
    # Far from the origin, the short form for sparse rows loses all its digits.
    rows = (rng.normal(size=(n, d)) + shift) * (rng.random((n, d)) < 0.9)
    rows[0, 0] = 1.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kernelite.data.rows.inputs.NUMBERS_PER_BLOCK", tile)
        for X in (rows, sparse.csr_array(rows)):
            agrees(gamma_max(X), rows, np.zeros(d))
            about_mean = gamma_max(X, about="mean")
            assert about_mean.point is not None
            np.testing.assert_allclose(about_mean.point, rows.mean(axis=0), rtol=1e-14, atol=1e-15)
            agrees(about_mean, rows, about_mean.point)
            point = rng.normal(size=d) + shift
            agrees(gamma_max(X, about=point), rows, point)


def test_first_of_equal_rows() -> None:
    rows = np.array([[0.0, 1], [3, 4], [5, 0], [4, 3]])
    for X in (rows, sparse.csr_array(rows), pd.DataFrame(rows), rows.astype(int).tolist()):
        assert gamma_max(X).row == 1
    assert gamma_max(sparse.csr_array(rows), about=[0.0, 0.0]).row == 1


@pytest.mark.parametrize("about", ["origin", "mean", [0.1, 0.2, 0.3]])
def test_files_agree_with_arrays(tmp_path: Path, about: Any) -> None:
    rng = np.random.default_rng(0)
    rows = np.round(rng.normal(size=(5000, 3)), 3) * (rng.random((5000, 3)) < 0.5)
    rows[4500:, 2] = 0.0  # the last part of the file is narrower
    dump_svmlight_file(rows, np.ones(5000), str(tmp_path / "a.svm"), zero_based=False)
    np.savetxt(tmp_path / "a.csv", rows, delimiter=",", fmt="%.17g")
    np.save(tmp_path / "a.npy", rows)
    expected = gamma_max(rows, about=about)
    for name in ("a.svm", "a.csv", "a.npy"):
        found = gamma_max(tmp_path / name, about=about)
        assert found.row == expected.row
        assert found.max_sq_norm == pytest.approx(expected.max_sq_norm, rel=1e-13)


def test_options_for_files(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("100,1,0\n200,0,2\n")
    assert gamma_max(str(path), label_column=0).max_sq_norm == 4.0
    with pytest.raises(InputError, match="`label_column` is an option for files"):
        gamma_max([[1.0]], label_column=0)


def test_zeros_allow_any_gamma() -> None:
    assert gamma_max(np.zeros((3, 2))).value == math.inf
    assert gamma_max(sparse.csr_array((3, 2))).value == math.inf
    assert gamma_max([[1.0, 2.0]], about="mean").value == math.inf


@pytest.mark.parametrize("about", ["origin", "mean", [0.0, 0.0]])
def test_no_rows(tmp_path: Path, about: Any) -> None:
    for X in (np.empty((0, 2)), sparse.csr_array((0, 2))):
        with pytest.raises(InputError, match="`X` has no rows"):
            gamma_max(X, about=about)
    (tmp_path / "a.svm").write_text("")
    with pytest.raises(FileFormatError, match="no rows"):
        gamma_max(tmp_path / "a.svm", about=about)


def test_squares_beyond_doubles() -> None:
    rows = np.array([[1.0, 1.0], [1e200, -1e200]])
    for X in (rows, sparse.csr_array(rows)):
        for about in ("origin", [1e200, 1e200]):
            with pytest.raises(InputError, match="beyond the range of doubles in row"):
                gamma_max(X, about=about)
    with pytest.raises(InputError, match="mean beyond"):
        gamma_max(np.full((4, 1), 1e308), about="mean")


def test_a_huge_width_stays_sparse(tmp_path: Path) -> None:
    path = tmp_path / "wide.svm"
    path.write_text("1 1:3 2147483646:4\n1 1:1\n")
    assert gamma_max(path).value == 0.01
    with pytest.raises(InputError, match="the mean of 2147483646 features"):
        gamma_max(path, about="mean")


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ("median", '`about` must be "origin", "mean" or an array'),
        ([1.0], "`about` has 1 entries, but `X` has 2 features"),
        ([1.0, 2.0, 3.0], "`about` has 3 entries, but `X` has 2 features"),
        ([[1.0, 2.0]], "`about` must be a finite array of one dimension"),
        ([1.0, math.nan], "`about` must be a finite array"),
        (["a", "b"], "`about` must be an array of numbers"),
    ],
)
def test_bad_points(about: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        gamma_max(np.eye(2), about=about)


@pytest.mark.campaign  # the data are large
@pytest.mark.parametrize(
    ("name", "digits", "expected"),
    [("a9a", 5, 0.01786), ("ijcnn1", 4, 0.0635)],
)
def test_papers_data(name: str, digits: int, expected: float) -> None:
    assert round(gamma_max(shared_path("data", f"{name}.bz2")).value, digits) == expected


@pytest.mark.campaign  # the data are large
def test_mnist() -> None:
    assert round(gamma_max(shared_path("data", "mnist.scale.bz2")).value, 5) == 0.00085
