"""The corpus of odd arrays: what is accepted gives the plain rows, what is not says why.

Whatever happens, the caller's array is left as it was.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import kernelite as kl
from kernelite.data.rows.inputs import check_rows, dense_block, is_sparse, row_blocks, row_part
from kernelite.machine.expansion import KernelExpansion
from kernelite.support.errors import InputError

PLAIN = np.array([[1.0, 0.0, 2.0], [0.0, -3.0, 4.0]])


def read_only() -> np.ndarray:
    array = PLAIN.copy()
    array.flags.writeable = False
    return array


def unsorted_csr() -> sparse.csr_array:
    # Row 0 as columns 2, 0; row 1 as columns 2, 1.
    return sparse.csr_array(([2.0, 1.0, 4.0, -3.0], [2, 0, 2, 1], [0, 2, 4]), shape=(2, 3))


def duplicate_csr() -> sparse.csr_array:
    values, columns = [1.5, -0.5, 2.0, -3.0, 4.0], [0, 0, 2, 1, 2]
    return sparse.csr_array((values, columns, [0, 3, 5]), shape=(2, 3))


def wide_index_csr() -> sparse.csr_array:
    array = sparse.csr_array(PLAIN)
    array.indices = array.indices.astype(np.int64)
    array.indptr = array.indptr.astype(np.int64)
    return array


def read_only_csr() -> sparse.csr_array:
    array = unsorted_csr()
    for part in (array.data, array.indices, array.indptr):
        part.flags.writeable = False
    return array


ACCEPTED: dict[str, Any] = {
    "list": lambda: PLAIN.tolist(),
    "plain": PLAIN.copy,
    "float16": lambda: PLAIN.astype(np.float16),
    "float32": lambda: PLAIN.astype(np.float32),
    "longdouble": lambda: PLAIN.astype(np.longdouble),
    "int8": lambda: PLAIN.astype(np.int8),
    "int64": lambda: PLAIN.astype(np.int64),
    "object": lambda: PLAIN.astype(object),
    "numeric strings": lambda: PLAIN.astype(str),
    "big endian": lambda: PLAIN.astype(">f8"),
    "fortran order": lambda: np.asfortranarray(PLAIN),
    "read-only": read_only,
    "negative strides": lambda: PLAIN[::-1, ::-1].copy()[::-1, ::-1],
    "strided": lambda: np.repeat(np.repeat(PLAIN, 2, axis=0), 3, axis=1)[::2, ::3],
    "matrix": lambda: PLAIN.copy().view(np.matrix),
    "masked, nothing masked": lambda: np.ma.masked_array(PLAIN.copy()),
    "csr": lambda: sparse.csr_array(PLAIN),
    "csr matrix": lambda: sparse.csr_matrix(PLAIN),
    "csc": lambda: sparse.csc_array(PLAIN),
    "coo": lambda: sparse.coo_array(PLAIN),
    "csr float32": lambda: sparse.csr_array(PLAIN.astype(np.float32)),
    "csr int": lambda: sparse.csr_array(PLAIN.astype(np.int32)),
    "csr unsorted": unsorted_csr,
    "csr duplicates": duplicate_csr,
    "csr int64 indices": wide_index_csr,
    "csr read-only, unsorted": read_only_csr,
    "data frame": lambda: pd.DataFrame(PLAIN, columns=["a", "b", "c"]),
    "data frame of mixed types": lambda: pd.DataFrame(
        {"a": [1, 0], "b": np.array([0, -3], dtype=np.float32), "c": [2.0, 4.0]}
    ),
    "data frame of integers that may be absent": lambda: pd.DataFrame(PLAIN).astype("Int64"),
}


def snapshot(X: Any) -> Any:
    """Everything of an input that could be changed in place."""
    if is_sparse(X):
        raw = X.tocoo() if X.format == "coo" else X
        names = ("data", "row", "col") if X.format == "coo" else ("data", "indices", "indptr")
        return [getattr(raw, name).tolist() for name in names], X.shape
    if isinstance(X, pd.DataFrame):
        return X.to_dict(), list(X.columns)
    return np.array(X).tolist()


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_inputs_become_plain_rows_and_stay_as_they_were(name):
    X = ACCEPTED[name]()
    before = snapshot(X)
    rows = check_rows(
        X, n_features=3, feature_names=["a", "b", "c"] if name == "data frame" else None
    )
    assert snapshot(X) == before
    assert rows.dtype == np.float64
    assert is_sparse(rows) == is_sparse(X)
    if is_sparse(rows):
        assert rows.has_canonical_format
        np.testing.assert_array_equal(rows.toarray(), PLAIN)
    else:
        assert type(rows) is np.ndarray
        assert rows.flags.c_contiguous
        np.testing.assert_array_equal(rows, PLAIN)


def test_booleans_are_zero_and_one():
    np.testing.assert_array_equal(check_rows(PLAIN > 0), (PLAIN > 0).astype(float))
    np.testing.assert_array_equal(
        check_rows(sparse.csr_array(PLAIN > 0)).toarray(), (PLAIN > 0).astype(float)
    )


@pytest.mark.parametrize("empty", [np.empty((0, 3)), sparse.csr_array((0, 3)), pd.DataFrame()])
def test_no_rows_are_rows_too(empty):
    assert check_rows(empty).shape[0] == 0
    assert check_rows(empty).dtype == np.float64


def with_value(value: float) -> np.ndarray:
    array = PLAIN.copy()
    array[1, 1] = value
    return array


REFUSED: dict[str, tuple[Any, str]] = {
    "1-D": (PLAIN[0], r"`X` must have two dimensions, got shape \(3,\); one row is `X.reshape"),
    "0-D": (3.0, r"`X` must have two dimensions, got shape \(\)"),
    "3-D": (PLAIN[None], r"`X` must have two dimensions, got shape \(1, 2, 3\)"),
    "empty list": ([], r"`X` must have two dimensions, got shape \(0,\)"),
    "None": (None, "`X` must be rows, got None"),
    "ragged": ([[1.0, 2.0, 3.0], [1.0]], "`X` must be a rectangular table of numbers"),
    "wrong width": (PLAIN[:, :2], "`X` has 2 features, but this model takes 3"),
    "wrong width, no rows": (np.empty((0, 2)), "`X` has 2 features"),
    "wrong width, sparse": (sparse.csr_array((2, 9)), "`X` has 9 features"),
    "NaN": (with_value(np.nan), r"`X` contains NaN or infinity \(first in row 1\)"),
    "infinity": (with_value(-np.inf), r"`X` contains NaN or infinity \(first in row 1\)"),
    "both infinities": (np.array([[np.inf, -np.inf, 0.0]]), "first in row 0"),
    "NaN, sparse": (sparse.csr_array(with_value(np.nan)), "first in row 1"),
    "infinity, float16": (with_value(np.inf).astype(np.float16), "NaN or infinity"),
    "longdouble beyond a double": (
        np.full((1, 3), np.finfo(np.float64).max, dtype=np.longdouble) * 4,
        "NaN or infinity",
    ),
    "absent values": (pd.DataFrame(PLAIN).astype("Int64").replace(4, pd.NA), "NaN|numbers"),
    "masked": (np.ma.masked_equal(PLAIN, 4.0), "`X` has masked entries"),
    "complex": (PLAIN.astype(complex), "Complex data not supported"),
    "complex, sparse": (sparse.csr_array(PLAIN.astype(complex)), "must hold real numbers"),
    "strings": (np.array([["a", "b", "c"]]), r"must hold numbers, got text \(.*: 'a'\)\.$"),
    "objects": (np.array([[{}, None, 1]], dtype=object), "`X` must hold numbers, got dtype obj"),
    "an integer beyond a double": ([[10**400, 1, 2]], "too large to convert to float"),
    "dates": (np.array([["2020-01-01"] * 3], dtype="M8[D]"), "`X` must hold numbers, got dtype"),
    "records": (np.zeros((2, 3), dtype=[("a", float)]), "`X` must hold numbers, got dtype"),
    "1-D sparse": (sparse.coo_array(PLAIN[0]), "`X` must have two dimensions"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_inputs_say_why(name):
    X, says = REFUSED[name]
    with pytest.raises(InputError, match=says) as caught:
        check_rows(X, n_features=3)
    assert "\n" not in str(caught.value)


def test_huge_values_are_finite():
    """Their sum is not, which only makes the check look twice."""
    X = np.full((2, 3), np.finfo(np.float64).max)
    np.testing.assert_array_equal(check_rows(X), X)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (["b", "a", "c"], "must be in the same order as they were in fit"),
        (["a", "b", "d"], "unseen at fit time, 'd'; seen at fit time, yet now missing are 'c'"),
        (["a", "b"], "yet now missing are 'c'"),
        (["a", "b", "c", "d"], "has feature names unseen at fit time, 'd'"),
        ([f"x{i}" for i in range(9)], "yet now missing are 'a', 'b', 'c'"),
    ],
)
def test_columns_by_other_names_are_refused(columns, says):
    frame = pd.DataFrame(np.zeros((2, len(columns))), columns=columns)
    with pytest.raises(InputError, match=says):
        check_rows(frame, n_features=3, feature_names=("a", "b", "c"))


def test_names_matter_only_where_both_sides_have_them():
    frame = pd.DataFrame(PLAIN, columns=["b", "a", "c"])
    np.testing.assert_array_equal(check_rows(frame), PLAIN)
    np.testing.assert_array_equal(check_rows(PLAIN, feature_names=("a", "b", "c")), PLAIN)


def test_the_argument_is_called_by_its_name():
    with pytest.raises(InputError, match="`sample` must have two dimensions"):
        check_rows([1.0], name="sample")


@given(st.integers(0, 50), st.integers(1, 12))
def test_blocks_cover_all_rows_once(n_rows, block):
    rows = np.arange(n_rows)
    parts = [rows[part] for part in row_blocks(n_rows, block)]
    assert all(0 < len(part) <= block for part in parts)
    np.testing.assert_array_equal(np.concatenate([rows[:0], *parts]), rows)


@pytest.mark.parametrize("rows", [PLAIN, sparse.csr_array(PLAIN)])
def test_dense_blocks(rows):
    np.testing.assert_array_equal(dense_block(rows, slice(1, 2)), PLAIN[1:2])
    np.testing.assert_array_equal(dense_block(rows, np.array([1, 0])), PLAIN[::-1])


@pytest.mark.parametrize("block", [slice(0, 4), slice(1, 3), slice(2, 9), slice(3, 3)])
def test_parts_of_sparse_rows_share_memory(block: slice) -> None:
    rows = check_rows(sparse.csr_array(np.diag([1.0, 2.0, 3.0, 4.0])))
    part = row_part(rows, block)
    np.testing.assert_array_equal(part.toarray(), rows.toarray()[block])
    assert part.has_canonical_format
    if part.nnz:
        assert np.shares_memory(part.data, rows.data)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("what", ["short", "beyond", "first", "falls", "few values"])
def test_rows_that_are_not_within_their_entries_are_refused(what: str, known: bool) -> None:
    """Compiled code would read past the arrays, SciPy's as well as ours."""
    rows = sparse.csr_array(np.eye(6, 4) + 1.0)
    indptr = rows.indptr.copy()
    match what:
        case "short":
            indptr = indptr[:-2]
        case "beyond":
            indptr[-1] = 10**8
        case "first":
            indptr[0] = 3
        case "falls":
            indptr[3] = -5
        case "few values":
            rows.data = rows.data[:-9]
    rows.indptr = indptr
    rows.__dict__.pop("_has_canonical_format", None)
    if known:
        rows.has_canonical_format = True
    bump = KernelExpansion(sparse.csr_array(np.eye(2, 4)), [2.0, 1.0], 0.5, gamma=1.0)
    options = {"on_invalid": "ignore", "plan": "estimate"}
    for guarantee in ("none", "exact", "certified"):
        with pytest.raises(InputError, match=r"not a (canonical )?CSR matrix"):
            kl.compile(bump, guarantee=guarantee, **options).predict(rows)


@pytest.mark.parametrize("m", [1, 7])
def test_rows_that_are_not_aligned_are_taken(m):
    model = kl.compile(kl.KernelExpansion([[0.0, 1.0]], [1.0], 0.0, gamma=0.5), guarantee="exact")
    rows = np.random.default_rng(0).normal(size=(m, 2))
    askew = np.frombuffer(b"abc" + rows.tobytes(), float, offset=3).reshape(rows.shape)
    assert not askew.flags.aligned
    np.testing.assert_array_equal(model.predict(askew), model.predict(rows))
