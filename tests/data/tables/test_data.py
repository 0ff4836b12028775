"""Formats are found by name and content; rows fit a model's width as LIBSVM's would."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse import csr_array, save_npz

from kernelite.data.rows.inputs import check_rows
from kernelite.data.tables.data import DataSet, defects, iter_data, read_data
from kernelite.store.files import model_kind
from kernelite.support import compression as limits
from kernelite.support.errors import FileFormatError, InputError
from tests.data.tables.test_lines import PACKED
from tests.helpers import shared_path


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.svm", "1\n", "libsvm"),
        ("a.LIBSVM", "1\n", "libsvm"),
        ("a.csv", "1\n", "delimited"),
        ("a.t", "1 1:1\n", "libsvm"),
        ("a", "# x\n\n1:1\n", "libsvm"),
        ("a.txt", "1\n2\n", "libsvm"),
        ("a.txt", "1\t3:1\n", "libsvm"),
        ("a.txt", "1 2 3\n", "delimited"),
        ("a.dat", "x;y\n1;2\n", "delimited"),
        ("a.dat", "1,2\n", "delimited"),
    ],
)
def test_format_of_text(tmp_path: Path, name: str, text: str, expected: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert read_data(path).format == expected


def test_format_of_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(2))
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_array(np.eye(2)))
    for kind in ("npy", "npz"):
        assert read_data(tmp_path / f"a.{kind}").format == kind
        (tmp_path / f"a.{kind}").rename(tmp_path / kind)
        assert read_data(tmp_path / kind).format == kind
        parts = list(iter_data(tmp_path / kind, 1))
        assert [part.first_row for part in parts] == [0, 1]
        assert [part.rows.shape for part in parts] == [(1, 2), (1, 2)]


def test_an_empty_array_is_an_empty_data_set(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.empty((0, 3), np.float32))
    data = read_data(tmp_path / "a.npy")
    assert data.rows.shape == (0, 3)
    assert data.rows.dtype == np.float64


def test_array_rows_are_the_callers_own(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.eye(2))
    rows = read_data(path).rows
    rows[0, 0] = 5.0  # neither read-only nor the file
    assert np.load(path)[0, 0] == 1.0


def test_labels_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("1 1:1\n")
    assert read_data(path, labels="ignore").labels is None
    with pytest.raises(InputError, match="LIBSVM"):
        read_data(path, labels="text")


def test_rows_without_features(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("1\n-1\n")
    data = read_data(path)
    assert data.rows.shape == (2, 0)
    assert data.fit_width(3)[0].toarray().tolist() == [[0, 0, 0]] * 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("text", ["1 1:1\n2 2:2\n", "a,label\n1,1\n2,2\n"])
def test_text_from_a_pipe(tmp_path: Path, text: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    assert read_data(pipe).labels is not None
    writer.join()


def test_iteration_stops_with_the_file_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("1 1:1\n" * 10)
    parts = iter_data(path, 2)
    next(parts)
    parts.close()  # type: ignore[attr-defined]
    assert list(parts) == []
    with pytest.raises(InputError, match="`chunk_rows`"):
        iter_data(path, 0)


def test_good_parts_come_before_the_error(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("1 1:1\n" * 5 + "1 x:1\n")
    parts = iter_data(path, 2)
    assert [next(parts).rows.shape[0] for _ in range(2)] == [2, 2]
    with pytest.raises(FileFormatError, match=r"a\.svm:6: index `x`"):
        next(parts)


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(0, 5),
    d=st.integers(1, 6),
    width=st.integers(1, 8),
)
@settings(deadline=None)
def test_fit_width_against_dense_slices(seed: int, n: int, d: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    data = DataSet(sparse.csr_array(dense), None, "a", "libsvm")
    before = data.rows.copy()
    rows, beyond = data.fit_width(width)
    padded = np.zeros((n, max(width, d)))
    padded[:, :d] = dense
    assert rows.shape == (n, width)
    np.testing.assert_array_equal(rows.toarray(), padded[:, :width])
    check_rows(rows, n_features=width)
    expected = (padded[:, width:] ** 2).sum(axis=1)
    if beyond is None:
        assert not expected.any()
    else:
        np.testing.assert_allclose(beyond, expected, rtol=1e-15)
    assert (before != data.rows).nnz == 0


def test_dense_rows_of_another_width_are_refused() -> None:
    data = DataSet(np.eye(3), None, "a.csv", "delimited")
    assert data.fit_width(3) == (data.rows, None)
    with pytest.raises(InputError, match=r"`a\.csv` has 3 features, but .* takes 5"):
        data.fit_width(5)


@pytest.mark.campaign  # the data are large
def test_real_data_as_scikit_learn_reads_them() -> None:
    from sklearn.datasets import load_svmlight_file

    path = shared_path("data", "a9a.t.bz2")
    theirs: Any
    theirs, labels = load_svmlight_file(str(path), zero_based=False)
    ours = read_data(path)
    assert ours.rows.shape == theirs.shape == (16281, 122)
    np.testing.assert_array_equal(ours.labels, labels)
    assert (ours.rows != sparse.csr_array(theirs)).nnz == 0


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    ("text", "dense"),
    [
        ("1 1:1 3:2\n-1 2:5\n", True),  # as wide as can be
        ("1 2:7\n-1\n", False),  # less than a third filled
        ("1 1:1 4:2\n-1 2:5\n", False),  # wider
        ("1\n-1\n", False),
    ],
)
def test_filled_parts_come_dense_where_they_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, dense: bool, compiled: bool
) -> None:
    monkeypatch.setattr("kernelite.data.tables.libsvm_data.jit_available", lambda: compiled)
    path = tmp_path / "a.svm"
    path.write_text(text)
    (part,) = iter_data(path, dense_width=3)
    assert isinstance(part.rows, np.ndarray) == dense
    (rows, beyond), (expected, more) = part.fit_width(3), read_data(path).fit_width(3)
    np.testing.assert_array_equal(rows if dense else rows.toarray(), expected.toarray())
    np.testing.assert_array_equal(beyond, more)
    np.testing.assert_array_equal(part.labels, [1, -1])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f8", ">f4", "i2", "?"])
def test_array_rows_in_parts(tmp_path: Path, order: Any, dtype: str) -> None:
    table = np.asarray(np.arange(35).reshape(7, 5) % 3, dtype=dtype, order=order)
    np.save(tmp_path / "a.npy", table)
    parts = [part.rows for part in iter_data(tmp_path / "a.npy", 3)]
    assert [len(part) for part in parts] == [3, 3, 1]
    np.testing.assert_array_equal(np.concatenate(parts), table)
    np.testing.assert_array_equal(read_data(os.fsencode(tmp_path / "a.npy")).rows, table)


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_that_is_cut_short_while_it_is_read(tmp_path: Path, order: Any) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((10_000, 10), order=order))
    parts = iter_data(path, 1000)
    next(parts)
    os.truncate(path, 4096)  # a mapped file would end the process here, by SIGBUS
    with pytest.raises(FileFormatError, match="cut short while it was read"):
        list(parts)


def test_small_archives_do_not_become_large_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "zeros.npz"
    n = 3_000_000
    parts = np.zeros(n, np.int8), np.zeros(n, np.int32), np.array([0, n])
    save_npz(path, csr_array(parts, shape=(1, 1)))
    assert path.stat().st_size < 50_000
    with pytest.raises(FileFormatError, match=r"over 200 times the file.*KERNELITE_MAX_EXPANSION"):
        read_data(path)
    monkeypatch.setenv("KERNELITE_MAX_EXPANSION", "2000")
    assert read_data(path).rows.shape == (1, 1)
    monkeypatch.setenv("KERNELITE_MAX_EXPANSION", "lots")
    with pytest.raises(InputError, match="must be a whole number, got lots"):
        read_data(path)


@pytest.mark.parametrize("squeeze", PACKED.values())
def test_small_files_do_not_become_long_ones(
    tmp_path: Path, squeeze: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ALWAYS_GRANTED", 2**17)
    path = tmp_path / "blank"
    path.write_bytes(squeeze(b"\n" * 1_000_000))
    found = list(defects(path))
    assert len(found) == 1
    assert "times as long as the file; if you trust it, set the env" in found[0].problem
    with pytest.raises(FileFormatError, match="KERNELITE_MAX_EXPANSION"):
        read_data(path)
    with pytest.raises(FileFormatError, match="the file is empty"):
        model_kind(path)
