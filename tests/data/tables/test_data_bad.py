"""The corpus of bad data files: each is refused by one sentence that names file, line and token."""

from __future__ import annotations

import bz2
import gzip
import io
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse

from kernelite.data.tables.data import defects, iter_data, read_data
from kernelite.support.errors import FileFormatError


class Bad(NamedTuple):
    """Content of a file, and what its refusal must say."""

    name: str
    content: bytes
    line: int | None
    says: str
    options: Mapping[str, Any] = MappingProxyType({})


HUGE = "9" * 400

TEXT = [
    # What is no data at all
    Bad(
        "svm.model", b"svm_type c_svc\nkernel_type rbf\n", None, "this is a LIBSVM model, not data"
    ),
    Bad("compiled", b"\x10\0\0\0\0\0\0\0{}", None, "this is a compiled model, not data"),
    Bad("svc.joblib", b"\x80\x04\x95\x00", None, "this is a pickle"),
    Bad(
        "table",
        b"PAR1\x15\x04\x15",
        None,
        "this is a Parquet file: `predict`, `explain`, `report`, `compile",
    ),
    Bad("arrow.dat", b"ARROW1\0\0\xff", None, "this is an Arrow file: `predict`, `explain`, "),
    # LIBSVM: indices
    Bad("index-0.svm", b"1 1:1\n1 0:1\n", 2, "index `0` is out of range"),
    Bad("index-max.svm", b"1 2147483647:1\n", 1, "index `2147483647` is out of range"),
    Bad("index-2e31.svm", b"1 2147483648:1\n", 1, "index `2147483648` is out of range"),
    Bad("index-2e63.svm", b"1 9223372036854775808:1\n", 1, "`9223372036854775808` is out of range"),
    Bad("index-400-digits.svm", f"1 {HUGE}:1 {HUGE}:1\n".encode(), 1, "is out of range"),
    Bad("index-negative.svm", b"1 -3:1\n", 1, "index `-3` is out of range"),
    Bad("index-fraction.svm", b"1 1.5:1\n", 1, "index `1.5` is not an integer"),
    Bad("index-hex.svm", b"1 0x3:1\n", 1, "index `0x3` is not an integer"),
    Bad("index-sign.svm", b"1 +3:1\n", 1, "index `+3` has a sign"),
    Bad("index-missing.svm", b"1 :1\n", 1, "index `` is not an integer"),
    Bad("index-beyond-width.svm", b"1 1:1 4:1\n", 1, "index `4` is", {"n_features": 3}),
    Bad("unsorted.svm", b"1 1:1\n1 3:1 2:1\n", 2, "index `2` comes after `3`"),
    Bad("duplicate.svm", b"1 2:1 2:1\n", 1, "index `2` appears twice"),
    Bad("qid.svm", b"1 qid:3 1:1\n", 1, "index `qid` is not an integer"),
    # LIBSVM: values
    Bad("nan.svm", b"1 1:nan\n", 1, "value `nan` is not finite"),
    Bad("minus-inf.svm", b"1 1:-inf\n", 1, "value `-inf` is not finite"),
    Bad("infinity.svm", b"1 1:Infinity\n", 1, "value `Infinity` is not finite"),
    Bad("overflow.svm", b"1 1:1\n\n1 1:1e999\n", 3, "value `1e999` is too large"),
    Bad("underscore.svm", b"1 1:1_000\n", 1, "value `1_000` is not a decimal"),
    Bad("hex.svm", b"1 1:0x1p3\n", 1, "value `0x1p3` is not a decimal"),
    Bad("no-value.svm", b"1 1:\n", 1, "value `` is empty"),
    Bad("value-apart.svm", b"1 1: 5\n", 1, "value `` is empty"),
    Bad("no-colon.svm", b"1 1:1 7\n", 1, "`7` is not an `index:value` pair"),
    Bad("two-colons.svm", b"1 1:2:3\n", 1, "value `2:3` is not a decimal"),
    Bad("decimal-comma.svm", b"1 1:0,5\n", 1, "value `0,5` has a decimal comma"),
    Bad("arabic-digits.svm", "1 1:٣\n".encode(), 1, "value `٣` is not a decimal"),
    Bad("no-break-space.svm", "1 1:1\u00a02:1\n".encode(), 1, "is not a decimal"),
    Bad("mac-line-ends.svm", b"1 1:1\r1 1:1\r", 1, "value `1\\r1` is not a decimal"),
    # LIBSVM: labels
    Bad("label-missing.svm", b"1 1:1\n1:1\n1 1:1\n", 2, "the label before `1:1` is missing"),
    Bad("label-missing-first.svm", b"1:1\n1 1:1\n1 1:1\n", 1, "label before `1:1` is missing"),
    Bad("label-extra.svm", b"1:1\n1:1\n7 1:1\n", 3, "`7` is not an `index:value` pair"),
    Bad("label-required.svm", b"1:1\n", 1, "label before `1:1`", {"labels": "required"}),
    Bad("label-text.svm", b"cat 1:1\n", 1, "label `cat` is not a decimal"),
    Bad("label-nan.svm", b"nan 1:1\n", 1, "label `nan` is not finite"),
    Bad("label-overflow.svm", b"-1e400 1:1\n", 1, "label `-1e400` is too large"),
    Bad("multi-label.svm", b"1,2 1:1\n", 1, "label `1,2` has a comma"),
    # any text
    Bad("empty", b"", None, "holds no rows"),
    Bad("empty.svm", b"", None, "holds no rows"),
    Bad("comments.svm", b"# a\n\n  \n# b\n", None, "holds no rows"),
    Bad("blank.csv", b"\n\r\n \n", None, "holds no rows"),
    Bad("header-only.csv", b"a,b\n", None, "holds no rows"),
    Bad("junk", bytes(range(1, 256)) * 9, 1, "is neither"),
    Bad("junk-nul", b"\x7fELF\0\0\0\n", 1, "NUL byte"),
    Bad("junk.svm", b"1 1:1\n\x01\x02\x03\n", 2, "label `\\x01\\x02\\x03` is not"),
    Bad("latin-1.svm", b"1 1:1\n1 1:1 # caf\xe9\n", 2, "`:1 # caf\\xe9` is not UTF-8"),
    Bad("utf-16.csv", "1,2\n".encode("utf-16"), 1, "UTF-16"),
    Bad("word", b"hello\n", 1, "`hello` is neither"),
    # delimited
    Bad("ragged-short.csv", b"1,2,3\n4,5\n", 2, "the row `4,5` has 2 cells, expected 3"),
    Bad("ragged-long.csv", b"a,b\n1,2\n\n4,5,6\n", 4, "the row `4,5,6` has 3 cells, expected 2"),
    Bad("wrong-width.csv", b"1,2\n", 1, "have 2 features, expected 3", {"n_features": 3}),
    Bad("cell-empty.csv", b"1,2\n3,\n", 2, "column 2: cell `` is empty"),
    Bad("cell-nan-first.csv", b"nan,2\n3,4\n", 1, "column 1: cell `nan` is not finite"),
    Bad("cell-typo-first.csv", b"1.2x,2\n3,4\n", 1, "column 1: cell `1.2x` is not a decimal"),
    Bad("cell-inf.tsv", b"1\t2\n3\tinf\n", 2, "column 2: cell `inf` is not finite"),
    Bad("cell-overflow.csv", b"1,2\n3,-1e999\n", 2, "column 2: cell `-1e999` is too large"),
    Bad("cell-text.csv", b"a,b\n1,cat\n", 2, "column 2 (`b`): cell `cat` is not a decimal"),
    Bad("cell-of-two.csv", b"1,2\n3,4 5\n", 2, "column 2: cell `4 5` is not a decimal"),
    Bad("decimal-comma.csv", b"1,5;2\n", 1, "column 1: cell `1,5` has a decimal comma"),
    Bad("quote-open.csv", b'1,2\n"3,4\n', 2, "a quoted cell that does not end"),
    Bad("quote-open-first.csv", b'"a,b\n3,4\n', 1, "a quoted cell that does not end"),
    Bad("csv-label-missing.csv", b"label,b\ncat,1\n,1\n", 3, "the label is missing"),
    Bad("csv-label-mixed.csv", b"label,b\n1,1\ncat,1\n", 3, "label `cat` is not a decimal"),
    Bad("csv-label-only.csv", b"label\n1\n", 1, "no column beside the label"),
    Bad("csv-no-label.csv", b"1,2\n", None, "no label column", {"labels": "required"}),
    Bad("csv-labels.csv", b"label,y,b\n1,1,1\n", None, "columns `label` and `y` both"),
    # compressed
    Bad("cut.svm.gz", gzip.compress(b"1 1:1\n" * 99)[:-9], None, "gzip stream is corrupt"),
    Bad("cut.svm.bz2", bz2.compress(b"1 1:1\n" * 99)[:-9], None, "bzip2 stream is corrupt"),
    Bad("sum.svm.gz", gzip.compress(b"1 1:1\n")[:-8] + b"12345678", None, "stream is corrupt"),
    Bad("plain.svm.gz", b"1 1:1\n", None, "the name ends in `.gz`"),
    Bad("plain.csv.bz2", b"1,2\n", None, "the name ends in `.bz2`"),
    Bad("inside.svm.gz", gzip.compress(b"1 1:1\n1 1:x\n"), 2, "value `x` is not a decimal"),
]


def npy(array: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def npy_header(text: str) -> bytes:
    raw = text.encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(raw)) + raw


def npz(**members: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **members)
    return buffer.getvalue()


def sparse_npz(matrix: Any) -> bytes:
    buffer = io.BytesIO()
    sparse.save_npz(buffer, matrix)
    return buffer.getvalue()


def csr_npz(**changes: Any) -> bytes:
    members = {
        "format": b"csr",
        "shape": np.array([2, 3]),
        "data": np.array([1.0, 2.0]),
        "indices": np.array([0, 2]),
        "indptr": np.array([0, 1, 2]),
    }
    return npz(**{k: v for k, v in {**members, **changes}.items() if v is not None})


def bomb() -> bytes:
    """An archive whose entry claims a petabyte."""
    raw = bytearray(csr_npz(data=np.zeros(7)))
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = raw.index(mark, raw.index(b"data.npy") - 60)
        raw[at + offset : at + offset + 4] = struct.pack("<I", 2**32 - 2)
    return bytes(raw)


DICT = "{'descr': '<f8', 'fortran_order': False, 'shape': %s}\n"
ARRAYS = [
    Bad("object.npy", npy(np.array([[None]]), allow_pickle=True), None, "never unpickled"),
    Bad("one.npy", npy(np.arange(3.0)), None, "the shape is (3,)"),
    Bad("zero-d.npy", npy(np.float64(3)), None, "the shape is ()"),
    Bad("three.npy", npy(np.zeros((2, 2, 2))), None, "the shape is (2, 2, 2)"),
    Bad("no-columns.npy", npy(np.zeros((2, 0))), None, "at least one feature"),
    Bad("text.npy", npy(np.array([["a"]])), None, "the dtype is `<U1`"),
    Bad("complex.npy", npy(np.ones((1, 1), complex)), None, "the dtype is `complex128`"),
    Bad("record.npy", npy(np.zeros((1, 1), "i4,f4")), None, "expected real numbers"),
    Bad("cut.npy", npy(np.eye(3))[:-1], None, "72 bytes, but 71 follow"),
    Bad("more.npy", npy(np.eye(3)) + npy(np.eye(3)), None, "72 bytes, but"),
    Bad("huge.npy", npy_header(DICT % "(1000000000000, 1000000)"), None, "but 0 follow"),
    Bad("wraps.npy", npy_header(DICT % f"({2**62}, 4)"), None, "but 0 follow"),
    Bad("negative.npy", npy_header(DICT % "(-1, 4)"), None, "not a whole number"),
    Bad("true.npy", npy_header(DICT % "(True, 4)"), None, "not a whole number"),
    Bad("no-dict.npy", npy_header("print(1)\n"), None, "not an array of `numpy.save`"),
    Bad("deep.npy", npy_header("(" * 9000 + "\n"), None, "not an array of `numpy.save`"),
    Bad("long-header.npy", npy_header(" " * 60000 + DICT % "(1, 1)"), None, "not an array"),
    Bad("version.npy", b"\x93NUMPY\x09\x00", None, "version (9, 0) is not read"),
    Bad("magic.npy", b"1,2\n", None, "not an array of `numpy.save`"),
    Bad("empty.npy", b"", None, "not an array of `numpy.save`"),
    Bad("nan.npy", npy(np.array([[1.0, 2.0], [3.0, np.nan]])), None, "row 1, column 1 (both from"),
    Bad("inf.npy", npy(np.array([[np.inf]], "f2")), None, "holds `inf`"),
    Bad("width.npy", npy(np.eye(3)), None, "have 3 features, expected 4", {"n_features": 4}),
    Bad("labels.npy", npy(np.eye(3)), None, "holds no labels", {"labels": "required"}),
    Bad("dense.npz", npz(X=np.eye(2)), None, "holds no sparse matrix"),
    Bad("empty.npz", b"", None, "not a .npz archive"),
    Bad("text.npz", b"1 1:1\n", None, "not a .npz archive"),
    Bad("cut.npz", csr_npz()[:-30], None, "not a .npz archive"),
    Bad("csc.npz", sparse_npz(sparse.csc_array(np.eye(2))), None, "format is `csc`"),
    Bad("dia.npz", sparse_npz(sparse.dia_array(np.eye(2))), None, "format is `dia`"),
    Bad("no-data.npz", csr_npz(data=None), None, "the array `data` is missing"),
    Bad("pickle.npz", csr_npz(data=np.array([None, 1])), None, "never unpickled"),
    Bad("pickle-format.npz", csr_npz(format=np.array(None)), None, "never unpickled"),
    Bad("shape.npz", csr_npz(shape=np.array([2, -3])), None, "is not (rows, features)"),
    Bad("shape-1.npz", csr_npz(shape=np.array([2])), None, "is not (rows, features)"),
    Bad("shape-wide.npz", csr_npz(shape=np.array([2, 2**40])), None, "features, expected 1 to"),
    Bad("rows.npz", csr_npz(shape=np.array([2**60, 3])), None, "`indptr` has 3 entries"),
    Bad("column.npz", csr_npz(indices=np.array([0, 3])), None, "`indices` must lie in 0 to 2"),
    Bad("column-neg.npz", csr_npz(indices=np.array([0, -1])), None, "`indices` must lie in"),
    Bad("indptr.npz", csr_npz(indptr=np.array([0, 9, 2])), None, "`indptr` must rise"),
    Bad("indptr-end.npz", csr_npz(indptr=np.array([0, 1, 3])), None, "`indptr` must rise"),
    Bad("indptr-float.npz", csr_npz(indptr=np.array([0.0, 1, 2])), None, "must be integers"),
    Bad("data-2d.npz", csr_npz(data=np.eye(2)), None, "one dimension"),
    Bad("data-long.npz", csr_npz(data=np.ones(3)), None, "`data` has 3 entries"),
    Bad("data-nan.npz", csr_npz(data=np.array([1, np.nan])), None, "row 1, column 2"),
    Bad("bomb.npz", bomb(), None, "impossible"),
]
CASES = TEXT + ARRAYS


def write(folder: Path, case: Bad) -> Path:
    path = folder / case.name
    path.write_bytes(case.content)
    return path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refused_in_one_sentence(tmp_path: Path, case: Bad) -> None:
    path = write(tmp_path, case)
    with pytest.raises(FileFormatError) as caught:
        read_data(path, **case.options)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert case.says in message
    if case.line is not None:
        assert message.startswith(f"{path}:{case.line}: ")
    assert message.isprintable()
    assert len(message.removeprefix(str(path))) < 300
    assert path.read_bytes() == case.content


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_streaming_and_checking_refuse_the_same(tmp_path: Path, case: Bad) -> None:
    path = write(tmp_path, case)
    with pytest.raises(FileFormatError) as caught:
        for _ in iter_data(path, chunk_rows=1, **case.options):
            pass
    if case.name != "label-missing-first.svm":  # a part of one row has no majority to go by
        assert case.says in str(caught.value)
    found = list(defects(path, **case.options))
    assert any(case.says in defect.problem for defect in found)
    assert {defect.line for defect in found} >= {case.line} - {None}


GOOD = [
    ("denormal.svm", b"1 1:5e-324 2:1e-400\n", [[5e-324, 0.0]]),
    ("crlf.svm", b"1 1:1\r\n\r\n1 2:2\r\n", [[1, 0], [0, 2]]),
    ("no-last-end.svm", b"1 1:1\n1 2:2", [[1, 0], [0, 2]]),
    ("comment.svm", b"# x\n1 1:1 # y: 7\n", [[1]]),
    ("spaces.svm", b"  +1\t 1:1  2:.5 \t\n", [[1, 0.5]]),
    ("leading-zeros.svm", b"1 01:1 0002:2.\n", [[1, 2]]),
    ("bom.csv", b"\xef\xbb\xbf1,2\n", [[1, 2]]),
    ("crlf.csv", b"a,b\r\n1,2\r\n", [[1, 2]]),
    ("quotes.csv", b'"a","b,c"\n"1"," 2 "\n', [[1, 2]]),
    ("blanks", b" 1   2\n 3\t4 \n", [[1, 2], [3, 4]]),
    ("f.npy", npy(np.asfortranarray([[1, 2], [3, 4]])), [[1, 2], [3, 4]]),
    ("big-endian.npy", npy(np.array([[1, 2]], ">f4")), [[1, 2]]),
    ("bool.npy", npy(np.array([[True, False]])), [[1, 0]]),
    ("csr.npz", csr_npz(), [[1, 0, 0], [0, 0, 2]]),
    ("packed.npz", sparse_npz(sparse.csr_matrix(np.eye(2))), [[1, 0], [0, 1]]),
    (
        "unsorted.npz",
        csr_npz(indptr=np.array([0, 2, 2], "u8"), indices=np.array([2, 0], "i8")),
        [[2, 0, 1], [0, 0, 0]],
    ),
]


@pytest.mark.parametrize(("name", "content", "expected"), GOOD, ids=[case[0] for case in GOOD])
def test_odd_but_good(tmp_path: Path, name: str, content: bytes, expected: Any) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    rows = read_data(path).rows
    dense = rows.toarray() if sparse.issparse(rows) else rows
    assert dense.dtype == np.float64
    np.testing.assert_array_equal(dense, expected)
    assert list(defects(path)) == []


def test_directory_and_missing_file(tmp_path: Path) -> None:
    for name in ("", "a.svm", "a.csv", "a.npy", "a.npz"):
        missing, folder = tmp_path / f"no{name}", tmp_path / f"folder{name}"
        folder.mkdir()
        for path, says in ((missing, "there is no such file"), (folder, "this is a directory")):
            with pytest.raises(FileFormatError, match=says) as caught:
                read_data(path)
            assert str(caught.value).startswith(str(path))
            assert len(list(defects(path))) == 1


def test_a_line_of_100_megabytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELITE_MAX_EXPANSION", "2000")
    path = tmp_path / "long.svm.gz"
    ones = gzip.compress(b"1" * 10**6)  # streams one after the other are one stream
    path.write_bytes(gzip.compress(b"1 1:1\n1 2:") + 100 * ones + gzip.compress(b"\n1 0:1\n"))
    with pytest.raises(FileFormatError, match=r":2: the line is longer than the limit of 16777216"):
        read_data(path)
    assert [defect.line for defect in defects(path)] == [2, 3]


@pytest.mark.parametrize("end", [b"", b"1\n", b"\n1 2:1\n"])
@pytest.mark.parametrize("start", [b"", b"1 1:1\n1 2:"])
def test_a_long_line_of_zeros_is_not_several_rows(tmp_path: Path, start: bytes, end: bytes) -> None:
    # Zeros are a number however many there are, so that no part of the line is wrong by itself.
    path = tmp_path / "zeros.svm"
    path.write_bytes(start + b"0" * 45_000_000 + end)
    line = 1 + start.count(b"\n")
    with pytest.raises(FileFormatError, match=rf":{line}: the line is longer than the limit"):
        read_data(path)
    assert [defect.line for defect in defects(path)] == [line]


def test_a_sparse_file_of_100_megabytes_without_line_end(tmp_path: Path) -> None:
    path = tmp_path / "zeros"
    with open(path, "wb") as file:
        file.truncate(100 * 10**6)  # a hole: no byte is written
    with pytest.raises(FileFormatError, match="the line is longer"):
        read_data(path)


def test_many_digits_are_read_exactly(tmp_path: Path) -> None:
    path = tmp_path / "digits.svm"
    path.write_text(f"1 1:0.{'3' * 10**6} 2:{'0' * 10**5}7\n")
    np.testing.assert_array_equal(read_data(path).rows.toarray(), [[1 / 3, 7.0]])


def test_a_huge_index_allocates_nothing_dense(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "wide.svm"
    path.write_text("1 1:3 2147483646:2\n")
    read_data(path)  # SciPy is loaded
    tracemalloc.start()
    data = read_data(path)
    rows, beyond = data.fit_width(5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert data.rows.shape == (1, 2147483646)
    assert rows.toarray().tolist() == [[3, 0, 0, 0, 0]]
    assert beyond is not None
    assert beyond.tolist() == [4]
    assert peak < 2**23  # files are read in pieces of some megabytes; such a row takes 16 GB


def test_a_zip_that_is_cut_inside(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((50, 50))
    raw = bytearray(sparse_npz(sparse.csr_array(np.where(values < 0.5, values, 0.0))))
    middle = raw.index(b"data.npy") + 300
    raw[middle : middle + 50] = bytes(50)
    path = tmp_path / "damaged.npz"
    path.write_bytes(raw)
    with pytest.raises(FileFormatError, match="the array `data` is corrupt"):
        read_data(path)
    assert zipfile.is_zipfile(path)
