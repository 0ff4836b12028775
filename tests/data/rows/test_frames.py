"""Data frames: names as scikit-learn checks them, values of several libraries."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import kernelite as kl
from kernelite.data.rows import frames
from kernelite.data.rows.columns import read_columns
from kernelite.data.rows.frames import check_names, column_names, frame_values, is_frame
from kernelite.data.rows.inputs import check_rows
from kernelite.support.errors import InputError, InputTypeError, MissingExtraError
from tests.datasets import iris

VALUES = np.array([[1.0, 2.0], [3.0, 4.5], [-1.0, 0.0]])


def made(library: str, values: np.ndarray, names: list[str]) -> Any:
    module = pytest.importorskip(library)
    columns = {name: values[:, i] for i, name in enumerate(names)}
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)


LIBRARIES = ["pandas", "polars", "pyarrow"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_names_and_values(library: str) -> None:
    frame = made(library, VALUES, ["a", "b"])
    assert is_frame(frame)
    assert column_names(frame) == ["a", "b"]
    np.testing.assert_array_equal(frame_values(frame), VALUES)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_pipeline_fitted_on_a_frame_takes_frames_of_any_library(library: str) -> None:
    X, y = iris()
    names = [f"x{i}" for i in range(4)]
    model = make_pipeline(StandardScaler(), SVC(gamma=0.1)).fit(pd.DataFrame(X, columns=names), y)
    fast = kl.compile(model, made(library, X, names))
    assert list(fast.feature_names_in_) == names
    expected = model.predict(pd.DataFrame(X, columns=names))
    np.testing.assert_array_equal(fast.predict(made(library, X, names)), expected)
    reordered = made(library, X[:, ::-1], names[::-1])
    with pytest.raises(InputError, match="must be in the same order as they were in fit"):
        fast.predict(reordered)
    with pytest.raises(InputError, match="yet now missing are 'x3'"):
        fast.predict(made(library, X[:, :3], names[:3]))
    with pytest.raises(InputError, match="unseen at fit time, 'other'"):
        fast.predict(made(library, X, [*names[:3], "other"]))


def test_the_message_begins_like_scikit_learns() -> None:
    frame = pd.DataFrame(VALUES, columns=["a", "b"])
    model = SVC().fit(frame, [0, 1, 0])
    wrong = frame.rename(columns={"a": "c"})
    with pytest.raises(ValueError, match="feature names") as theirs:
        model.predict(wrong)
    with pytest.raises(ValueError, match="feature names") as ours:
        kl.compile(model, guarantee="exact").predict(wrong)
    first = str(theirs.value).splitlines()[0].rstrip(".")
    assert str(ours.value).startswith(first)
    assert "\n" not in str(ours.value)


def test_names_that_are_no_strings_are_no_names() -> None:
    frame = pd.DataFrame(VALUES)
    assert column_names(frame) is None
    check_names(frame, ("a", "b"))
    with pytest.raises(InputError, match="strings and others that are not"):
        column_names(pd.DataFrame(VALUES, columns=["a", 1]))


def test_nullable_columns_are_numbers_unless_one_is_missing() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}).convert_dtypes()
    fast = kl.compile(kl.KernelExpansion([[0.0, 0.0]], [1.0], 0.0, gamma=1.0), guarantee="exact")
    np.testing.assert_array_equal(fast.predict(frame), fast.predict([[1, 0.5], [2, 1.5]]))
    frame.loc[0, "a"] = pd.NA
    with pytest.raises(InputError, match=r"must hold numbers|NaN"):
        fast.predict(frame)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_missing_values_are_found(library: str) -> None:
    module = pytest.importorskip(library)
    columns = {"a": [1.0, None], "b": [1.0, 2.0]}
    frame = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    fast = kl.compile(kl.KernelExpansion([[0.0, 0.0]], [1.0], 0.0, gamma=1.0), guarantee="exact")
    with pytest.raises(InputError, match="NaN"):
        fast.predict(frame)


def test_lazy_frames_are_to_be_collected() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(InputError, match=r"lazy frame.*collect it"):
        column_names(polars.LazyFrame({"a": [1.0]}))


def test_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1.0]})
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(MissingExtraError, match=r"the extra .frames."):
        frame_values(frame)


def test_a_series_is_refused_in_a_sentence() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    for series in (frame.iloc[0], frame["a"]):
        with pytest.raises(InputError, match=r"two dimensions, got a Series; .*iloc\[\[0\]\]"):
            column_names(series)


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
@pytest.mark.parametrize("by_name", [False, True])
def test_names_that_are_there_twice_are_refused(library: str, by_name: bool) -> None:
    frame = pd.DataFrame(VALUES, columns=["age", "b"])
    first = make_column_transformer((StandardScaler(), ["age", "b"])) if by_name else "passthrough"
    model = make_pipeline(first, SVC()).fit(frame, [0, 1, 0])
    fast = kl.compile(model, frame)
    twice: Any = pd.concat([frame, frame[["age"]]], axis=1)
    if library == "pyarrow":
        table = pytest.importorskip("pyarrow")
        twice = table.table([twice.iloc[:, i].to_numpy() for i in range(3)], names=[*twice.columns])
    for use in (fast.predict, lambda rows: kl.compile(model, rows)):
        with pytest.raises(InputError, match=r"^there are 2 columns `age`; rename them\.$"):
            use(twice)
    unnamed = kl.compile(SVC().fit(VALUES, [0, 1, 0]), VALUES)
    with pytest.raises(InputError, match="there are 2 columns `age`"):
        unnamed.predict(twice)


def test_columns_chosen_by_names_come_from_frames_only(tmp_path: Path) -> None:
    frame = pd.DataFrame(VALUES, columns=["age", "b"])
    for chosen, taken in ((["age"], False), ([0], True)):
        first = make_column_transformer((StandardScaler(), chosen), remainder="passthrough")
        model = make_pipeline(first, SVC()).fit(frame, [0, 1, 0])
        kl.compile(model, frame).save(tmp_path / "m.kernelite")
        fast = kl.load(tmp_path / "m.kernelite")
        np.testing.assert_array_equal(fast.predict(frame), model.predict(frame))
        for rows in (VALUES, VALUES.tolist()):
            if taken:
                np.testing.assert_array_equal(fast.predict(rows), model.predict(frame))
                continue
            with pytest.raises(InputError, match="`X` must be a data frame, got a"):
                fast.predict(rows)


def test_a_polars_frame_is_wrapped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    polars = pytest.importorskip("polars")
    wrapped, wrap = [], frames.narwhals_frame

    def counted(X, name):
        wrapped.append(name)
        return wrap(X, name)

    monkeypatch.setattr(frames, "narwhals_frame", counted)
    rows = check_rows(polars.DataFrame({"a": [1.0], "b": [2]}), feature_names=["a", "b"])
    np.testing.assert_array_equal(rows, [[1.0, 2.0]])
    assert wrapped == ["X"]


def _odd_columns() -> dict[str, Any]:
    """Columns that are neither numbers nor texts, in frames beside a column of numbers."""
    arrow, polars = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    lists = arrow.DictionaryArray.from_arrays(arrow.array([0] * 3, "uint8"), arrow.array([["a"]]))
    kinds = arrow.array([0] * 3, arrow.int8())
    return {
        "wide integers": polars.DataFrame({"a": polars.Series([2**100] * 3, dtype=polars.Int128)}),
        "unions": arrow.table({"a": arrow.UnionArray.from_sparse(kinds, [arrow.array([1.0] * 3)])}),
        "lists": arrow.table({"a": arrow.array([["a"]] * 3)}),
        "a dictionary of lists": arrow.table({"a": lists}),
        "integers beyond doubles": pd.DataFrame({"a": np.array([10**400] * 3, dtype=object)}),
        "categories beyond doubles": pd.DataFrame({"a": pd.Categorical([10**400] * 3)}),
    }


@pytest.mark.parametrize("encoded", [False, True], ids=["as numbers", "as categories"])
def test_columns_of_odd_types_are_refused_in_a_sentence(encoded: bool) -> None:
    train = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]})
    steps = (
        [OneHotEncoder(handle_unknown="ignore"), SVC()] if encoded else [StandardScaler(), SVC()]
    )
    fast = kl.compile(make_pipeline(*steps).fit(train, [0, 1, 0, 1]), train)
    for name, frame in _odd_columns().items():
        if encoded and "beyond" in name:
            np.testing.assert_array_equal(
                fast.predict(frame), fast.predict(train.assign(a=9.0))[:3]
            )
            continue
        with pytest.raises(InputError) as caught:
            fast.predict(frame)
        assert "\n" not in str(caught.value), name


@pytest.mark.parametrize("unit", ["ns", "us", "s"])
@pytest.mark.parametrize("kind", ["M8", "m8"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_dates_are_no_numbers(library: str, kind: str, unit: str) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": np.array([1, 2]).astype(f"{kind}[{unit}]")})
    if library == "polars":
        frame = pytest.importorskip("polars").from_pandas(frame)
    elif library == "pyarrow":
        frame = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    with pytest.raises(InputTypeError, match="`X` must hold numbers, got"):
        check_rows(frame)
    with pytest.raises(InputTypeError, match="`X` must hold numbers or texts, got dtype"):
        read_columns(frame, [0, 1], 2, ["a", "b"])


@pytest.mark.parametrize("chosen", [["a", "b"], [0, 1]])
def test_a_frame_without_names_is_not_taken_by_place_where_names_choose(chosen: list[Any]) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    columns = make_column_transformer((StandardScaler(), chosen))
    fast = kl.compile(make_pipeline(columns, SVC()).fit(frame, frame["a"] > 0), frame)
    with pytest.raises(InputError, match="`X` has no column names that are strings, but this"):
        fast.predict(frame.set_axis([0, 1, 2], axis=1))
