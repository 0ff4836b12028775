"""LIBSVM text is read as scikit-learn and Python's `float` read it, and never more leniently."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from kernelite.data.tables.data import defects, iter_data, read_data
from kernelite.data.tables.libsvm_data import parse_block
from kernelite.data.tables.parsing import Defect

SAME_FOLDER = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)
# scikit-learn writes 16 digits, which takes the largest doubles beyond the range.
DOUBLES = st.floats(-1e308, 1e308)
MATRICES = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.one_of(st.just(0.0), DOUBLES),
)


def assert_same_rows(ours: Any, theirs: Any) -> None:
    assert ours.shape == theirs.shape
    assert ours.dtype == np.float64
    assert ours.has_canonical_format
    np.testing.assert_array_equal(ours.indptr, theirs.indptr)
    np.testing.assert_array_equal(ours.indices, theirs.indices)
    np.testing.assert_array_equal(ours.data, theirs.data)


@given(rows=MATRICES, data=st.data())
@SAME_FOLDER
def test_round_trip_through_scikit_learn(tmp_path: Path, rows: Any, data: Any) -> None:
    n, d = rows.shape
    labels = data.draw(hnp.arrays(np.float64, n, elements=DOUBLES))
    path = tmp_path / "a.svm"
    dump_svmlight_file(sparse.csr_array(rows), labels, str(path), zero_based=False)
    theirs, their_labels = load_svmlight_file(str(path), n_features=d, zero_based=False)
    ours = read_data(path, n_features=d)
    assert_same_rows(ours.rows, theirs)
    np.testing.assert_array_equal(ours.labels, their_labels)
    # scikit-learn writes 16 digits; what we read must be what `float` reads from the same text.
    tokens = path.read_text().split()
    values = [float(token.partition(":")[2]) for token in tokens if ":" in token]
    np.testing.assert_array_equal(ours.rows.data, values)


@given(rows=MATRICES)
@SAME_FOLDER
def test_round_trip_to_the_bit(tmp_path: Path, rows: Any) -> None:
    path = tmp_path / "a.svm"
    with open(path, "w") as file:
        for row in rows:
            pairs = (f"{j}:{float(x)!r}" for j, x in enumerate(row, start=1))
            file.write(f"{' '.join(pairs)}\n")
    data = read_data(path)
    assert data.labels is None
    assert data.rows.shape == rows.shape
    assert data.rows.data.tobytes() == rows.tobytes()  # every entry was written


@given(rows=MATRICES, chunk=st.integers(1, 4))
@SAME_FOLDER
def test_parts_make_the_whole(tmp_path: Path, rows: Any, chunk: int) -> None:
    path = tmp_path / "a.svm"
    dump_svmlight_file(rows, np.arange(len(rows)), str(path), zero_based=False, comment="hello")
    whole = read_data(path)
    done = 0
    for part in iter_data(path, chunk):
        assert part.first_row == done
        assert part.rows.shape[0] <= chunk
        expected = whole.rows[done : done + part.rows.shape[0]]
        assert_same_rows(part.fit_width(whole.n_features)[0], expected)
        done += part.rows.shape[0]
    assert done == len(rows)


NUMBERISH = st.text("0123456789.-+eEnaif_x,:", max_size=5)
TOKENS = st.one_of(
    st.builds("{}:{}".format, st.integers(-1, 9), DOUBLES),
    st.builds("{}:{}".format, st.integers(1, 9), st.integers(0, 9)),
    st.builds("{}:{}".format, NUMBERISH, NUMBERISH),
    st.sampled_from(["1:1e999", "1e999", "2147483647:1", f"{'9' * 400}:1", "1", "1:", ":"]),
    NUMBERISH,
)
ROWS = st.lists(TOKENS, min_size=1, max_size=4).map(" ".join).filter(str.strip)


def slow_row(row: str, labelled: bool) -> tuple[float | None, list[int], list[float]] | None:
    """One row by the plainest code; None if it has a defect."""
    tokens = row.split()
    label = None
    good = set("0123456789.+-eE")
    try:
        if labelled:
            label = float(tokens.pop(0))
        pairs = [token.split(":") for token in tokens]
        indices = [int(index) for index, _ in pairs]
        values = [float(value) for _, value in pairs]
    except ValueError:
        return None
    text_is_plain = set(row) <= good | {":", " "} and not any(i[0] == "+" for i, _ in pairs)
    in_range = all(1 <= index < 2147483647 for index in indices)
    rising = all(a < b for a, b in itertools.pairwise(indices))
    finite = np.isfinite([*values, label or 0.0]).all()
    return (label, indices, values) if text_is_plain and in_range and rising and finite else None


@given(rows=st.lists(ROWS, min_size=1, max_size=5), labelled=st.booleans())
@settings(deadline=None, max_examples=400)
@example(rows=["1 1:1 2:1e999", "1 2:1 1:1", "1 5:1"], labelled=True)
def test_blocks_agree_with_a_slow_twin(rows: list[str], labelled: bool) -> None:
    found: list[Defect] = []
    block = parse_block(list(enumerate(rows, start=1)), labelled, found.append)
    twins = [slow_row(row, labelled) for row in rows]
    bad = {number for number, twin in enumerate(twins, start=1) if twin is None}
    assert {defect.line for defect in found} == bad
    assert [defect.line for defect in found] == sorted(defect.line or 0 for defect in found)
    kept = [twin for twin in twins if twin is not None]
    if labelled:
        assert block.labels is not None
        assert block.labels.tolist() == [label for label, _, _ in kept]
    assert (block.indices + 1).tolist() == [i for _, indices, _ in kept for i in indices]
    assert block.values.tolist() == [x for _, _, values in kept for x in values]
    assert np.diff(block.indptr).tolist() == [len(indices) for _, indices, _ in kept]


@given(junk=st.binary(max_size=200))
@SAME_FOLDER
def test_any_bytes_are_read_or_refused_alike(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "junk"
    path.write_bytes(junk)
    for content in ("libsvm", "delimited", "npy", "npz", None):
        options: dict[str, Any] = {"format": content}
        found = list(defects(path, **options))
        if found:
            with pytest.raises(ValueError):
                read_data(path, **options)
        else:
            read_data(path, **options)


def test_what_scikit_learn_writes_by_default_is_explained() -> None:
    buffer = io.BytesIO()
    dump_svmlight_file(np.ones((1, 2)), [1], buffer)  # zero-based
    found: list[Defect] = []
    parse_block([(1, buffer.getvalue().decode().strip())], True, found.append)
    assert [defect.token for defect in found] == ["0:1"]
    assert "the first feature has index 1" in found[0].problem
