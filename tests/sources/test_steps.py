"""Transformers as steps of data: scikit-learn's own numbers, on hostile tables, also from files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, issparse
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC

import kernelite as kl
from kernelite.machine.preparation import Preparation
from kernelite.sources import read
from kernelite.sources.steps import steps_of
from kernelite.store.packing import pack, unpack
from kernelite.support.errors import InputError

M = 200


def table(seed: int = 0, m: int = M, *, more: tuple[Any, ...] = ()) -> pd.DataFrame:
    """Columns of all sorts, with missing values in some of them; `more` categories in texts."""
    rng = np.random.default_rng(seed)
    words = np.array(["red", "green", "blue", "", "Ünï ❤", *more], dtype=object)
    weights = np.r_[6, 5, 3, 2, 1, np.full(len(more), 0.3)]
    frame = pd.DataFrame(
        {
            "x": rng.normal(3, 2, m),
            "y": rng.lognormal(0, 1, m),
            "count": rng.integers(0, 5, m),
            "flag": rng.random(m) < 0.5,
            "word": rng.choice(words, m, p=weights / weights.sum()),
            "object": pd.Series(rng.choice(words, m, p=weights / weights.sum()), dtype=object),
            "category": pd.Categorical(
                rng.choice(words[:3], m), categories=["red", "green", "blue"]
            ),
            "holes": np.where(rng.random(m) < 0.2, np.nan, rng.normal(0, 1, m)),
            "gaps": pd.Series(
                np.where(rng.random(m) < 0.2, np.nan, rng.choice(words, m)), dtype=object
            ),
            "nones": pd.Series(
                np.where(rng.random(m) < 0.2, None, rng.choice(words[:3], m)), dtype=object
            ),
            "masked": pd.array(rng.integers(0, 4, m), dtype="Int64"),
        }
    )
    frame.loc[::7, "masked"] = pd.NA
    return frame


NUMBERS, TEXTS = ["x", "y", "count"], ["word", "object", "category"]


def dense(rows: Any) -> np.ndarray:
    return rows.toarray() if issparse(rows) else np.asarray(rows, dtype=float)


def folded(transformer: Any) -> Preparation:
    """The steps of a fitted transformer, after a stay in a file."""
    steps = tuple(steps_of(transformer))
    front = Preparation(steps, steps[0].n_features)
    again: Preparation = unpack(*pack(front))
    return again


def same(transformer: Any, train: Any, test: Any, rtol: float = 1e-12) -> None:
    transformer.fit(train)
    names = getattr(transformer, "feature_names_in_", None)
    front = folded(transformer)
    for rows in (train, test, test[:1]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            expected = dense(transformer.transform(rows))
            found = front(rows, None if names is None else list(names))
        np.testing.assert_allclose(dense(found), expected, rtol=rtol, atol=rtol)
        assert front.n_out == expected.shape[1]


ENCODERS = [
    OneHotEncoder(handle_unknown="ignore"),
    OneHotEncoder(handle_unknown="ignore", drop="first"),
    OneHotEncoder(handle_unknown="ignore", drop="if_binary", sparse_output=False),
    OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=20),
    OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=3, drop="first"),
    OneHotEncoder(handle_unknown="ignore", min_frequency=0.1, drop="if_binary"),
    OneHotEncoder(handle_unknown="infrequent_if_exist"),
    OneHotEncoder(handle_unknown="warn", min_frequency=30),
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-5),
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, max_categories=3),
    OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2, dtype=int
    ),
    OrdinalEncoder(
        handle_unknown="use_encoded_value",
        unknown_value=77,
        encoded_missing_value=5,
        min_frequency=9,
    ),
]


@pytest.mark.parametrize("encoder", ENCODERS, ids=repr)
def test_encoders(encoder: Any) -> None:
    columns = [*TEXTS, "count", "flag", "gaps", "nones", "holes"]
    if encoder.get_params().get("dtype") is int:
        columns.remove("holes")
    if "holes" in columns and getattr(encoder, "min_frequency", None):
        columns.remove("holes")
    train, test = table(0)[columns], table(1, more=("new", "newer"))[columns]
    test["count"] = test["count"] * 2
    same(encoder, train, test)


def test_encoders_refuse_unknown_categories_by_name() -> None:
    encoder = OneHotEncoder().fit(table()[["word"]])
    said = r"in row 1 \(counted from 0\): unknown categories \['new'\] in column `0`"
    with pytest.raises(InputError, match=said):
        folded(encoder)(pd.DataFrame({"word": ["red", "new"]}))
    with pytest.raises(InputError, match=r"\['new'\] in column `word`"):
        folded(encoder)(pd.DataFrame({"word": ["red", "new"]}), ["word"])
    numbers = OrdinalEncoder().fit(table()[["count"]])
    with pytest.raises(InputError, match=r"unknown categories .9"):
        folded(numbers)(pd.DataFrame({"count": [1, 9]}))
    with pytest.raises(InputError, match=r"unknown categories .nan"):
        folded(numbers)(pd.DataFrame({"count": [1, np.nan]}))


def test_categories_that_pandas_adds_are_unknown_ones() -> None:
    train = table()[["category"]]
    test = train.copy()
    test["category"] = test["category"].cat.add_categories(["black"])
    test.iloc[3, 0] = "black"
    test.iloc[5, 0] = np.nan
    same(OneHotEncoder(handle_unknown="ignore"), train, test)


@pytest.mark.parametrize("kind", ["numbers", "texts", "objects", "list"])
def test_encoders_take_arrays(kind: str) -> None:
    rng = np.random.default_rng(3)
    train: Any = rng.integers(0, 6, (50, 3))
    test: Any = rng.integers(0, 9, (50, 3))
    if kind == "texts":
        train, test = train.astype(str), test.astype("U9")
    if kind in ("objects", "list"):
        mixed = np.array([1, 2.5, True, "1", 7, 0, -1, None, "z"], dtype=object)
        train, test = mixed[[[0, 1], [4, 5], [6, 1]]], mixed[rng.integers(0, 9, (40, 2))]
    if kind == "list":
        train, test = train.tolist(), test.tolist()
    same(OneHotEncoder(handle_unknown="ignore"), train, test)


IMPUTERS = [
    (SimpleImputer(), ["x", "holes", "masked"]),
    (SimpleImputer(strategy="median", add_indicator=True), ["holes", "x"]),
    (SimpleImputer(strategy="most_frequent"), ["masked", "holes", "count"]),
    (SimpleImputer(strategy="constant", fill_value=-3.5, add_indicator=True), ["holes"]),
    (SimpleImputer(missing_values=0, strategy="mean"), ["count", "x"]),
    (MissingIndicator(), ["holes", "x"]),
    (MissingIndicator(features="all"), ["holes", "x"]),
    (SimpleImputer(keep_empty_features=True), ["x", "empty"]),
    (SimpleImputer(), ["x", "empty"]),
]


@pytest.mark.filterwarnings("ignore:Skipping features")
@pytest.mark.parametrize(("imputer", "columns"), IMPUTERS, ids=repr)
def test_imputers(imputer: Any, columns: list[str]) -> None:
    train, test = table(0), table(1)
    train["empty"] = test["empty"] = np.nan
    same(imputer, train[columns], test[columns])


@pytest.mark.parametrize("strategy", ["most_frequent", "constant"])
@pytest.mark.parametrize("missing", [np.nan, None])
def test_texts_are_imputed_before_they_are_encoded(strategy: str, missing: Any) -> None:
    columns = ["gaps", "object"] if missing is not None else ["nones", "object"]
    imputer = SimpleImputer(strategy=strategy, missing_values=missing, add_indicator=True)
    chain = make_pipeline(imputer, OneHotEncoder(handle_unknown="ignore"))
    encoder = make_column_transformer((chain, columns), ("passthrough", ["x"]))
    same(encoder, table(0), table(1))
    steps = [("imputer", imputer), ("encoder", OneHotEncoder(handle_unknown="ignore"))]
    model = make_pipeline(*(step for _, step in steps), SVC(gamma=0.1))
    labels = (table(0)["x"] > 3).astype(int)
    model.fit(table(0)[columns], labels)
    fast = kl.compile(model, table(0)[columns])
    np.testing.assert_array_equal(fast.predict(table(1)[columns]), model.predict(table(1)[columns]))


MATRIX = [
    StandardScaler(),
    MinMaxScaler((-1, 3)),
    RobustScaler(),
    KBinsDiscretizer(4, encode="onehot", quantile_method="averaged_inverted_cdf"),
    KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform"),
    KBinsDiscretizer(5, encode="ordinal", strategy="kmeans"),
    Binarizer(threshold=1.0),
    Normalizer("l1"),
    Normalizer("l2"),
    Normalizer("max"),
    PolynomialFeatures(3),
    PolynomialFeatures(2, interaction_only=True, include_bias=False),
    PowerTransformer(),
    PowerTransformer("box-cox", standardize=False),
    QuantileTransformer(n_quantiles=20),
    QuantileTransformer(n_quantiles=60, output_distribution="normal"),
    VarianceThreshold(0.5),
    PCA(2),
    PCA(3, whiten=True),
    IncrementalPCA(2),
    TruncatedSVD(2, random_state=0),
]


@pytest.mark.parametrize("transformer", MATRIX, ids=repr)
def test_steps_on_numbers(transformer: Any) -> None:
    rng = np.random.default_rng(5)
    train, test = np.abs(rng.normal(2, 1, (80, 4))), np.abs(rng.normal(2, 2, (40, 4))) + 1e-9
    test[3] = train[2]
    test[5] = 1e-3
    same(transformer, train, test, rtol=1e-9)
    frame = pd.DataFrame(train, columns=list("abcd"))
    both = ColumnTransformer([("a", transformer, ["b", "d", "a"]), ("rest", "drop", ["c"])])
    if not isinstance(transformer, PCA) or transformer.n_components < 3:
        same(both, frame, frame[::-1][["d", "c", "b", "a"]], rtol=1e-9)


@pytest.mark.parametrize("method", ["yeo-johnson", "box-cox"])
def test_rows_that_a_power_makes_infinite_are_refused(method: str) -> None:
    rng = np.random.default_rng(0)
    X = np.exp(rng.normal(size=(60, 2)))
    pipeline = make_pipeline(PowerTransformer(method=method), SVC(gamma=0.5))
    pipeline.fit(X, X.sum(axis=1) > 2.5)
    pipeline[0].lambdas_[:] = 2.5  # 1e200 to the power of it is no double
    fast = kl.compile(pipeline, X)
    for rows in (np.array([[1e200, 1.0]]), np.vstack([X, [[1.0, 1e200]]])):
        for method_of in (fast.predict, fast.decided):
            with pytest.raises(InputError, match="so large that a power of them overflows"):
                method_of(rows)
    assert fast.predict(X).shape == (60,)


def test_a_scaler_that_clips_is_kept_as_it_is_and_the_plan_says_so() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    pipeline = make_pipeline(MinMaxScaler(clip=True), SVC(gamma=0.5)).fit(X, X[:, 0] > 0)
    fast = kl.compile(pipeline, X)
    assert "Kept as it is: MinMaxScaler" in str(fast.plan)
    np.testing.assert_array_equal(fast.predict(3 * X), pipeline.predict(3 * X))


CHOICES: dict[str, Any] = {
    "by name": make_column_transformer(
        (StandardScaler(), NUMBERS), (OneHotEncoder(handle_unknown="ignore"), TEXTS)
    ),
    "by place": ColumnTransformer(
        [("a", MinMaxScaler(), [0, 2]), ("b", OneHotEncoder(handle_unknown="ignore"), slice(4, 7))]
    ),
    "by type": make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="float64")),
        (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), ["object", "flag"]),
        remainder="drop",
    ),
    "by mask, the rest through": ColumnTransformer(
        [
            (
                "a",
                OneHotEncoder(handle_unknown="ignore"),
                [j in (4, 5, 6, 8, 9) for j in range(11)],
            ),
            ("b", SimpleImputer(), ["masked"]),
        ],
        remainder="passthrough",
    ),
    "the rest scaled, weighted": ColumnTransformer(
        [("a", OneHotEncoder(handle_unknown="ignore"), [*TEXTS, "gaps", "nones"])],
        remainder=RobustScaler(),
        transformer_weights={"a": 0.3},
    ),
    "nested": make_column_transformer(
        (
            make_pipeline(
                make_column_transformer((SimpleImputer(), ["holes"]), remainder="passthrough"),
                StandardScaler(),
            ),
            ["x", "holes"],
        ),
        (
            make_pipeline(
                StandardScaler(), KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf")
            ),
            ["y"],
        ),
        (make_pipeline(SimpleImputer(), StandardScaler(), PCA(2)), ["x", "holes", "masked"]),
        (FunctionTransformer(), ["count"]),
        (OneHotEncoder(), ["flag"]),
    ),
    "one scalar column": ColumnTransformer(
        [("a", StandardScaler(), ["x"]), ("b", "passthrough", ["flag"])]
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_column_transformers(name: str) -> None:
    transformer, train, test = CHOICES[name], table(0), table(1, more=("new",))
    same(transformer, train, test)
    shuffled = test[list(test.columns[::-1])].assign(extra=1)
    front = folded(transformer)
    names = list(transformer.feature_names_in_)
    expected = transformer.transform(shuffled)
    np.testing.assert_allclose(dense(front(shuffled, names)), dense(expected), rtol=1e-12)
    if name == "by name":
        with pytest.raises(InputError, match="lacks columns that were there in fit: 'word'"):
            front(test.drop(columns="word"), names)
        with pytest.raises(InputError, match="must be a data frame, got a ndarray"):
            front(np.zeros((2, 3)), names)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_frames_of_other_libraries(library: str) -> None:
    module = pytest.importorskip(library)
    columns = ["x", "count", "word", "nones", "flag"]
    train, test = table(0)[columns], table(1, more=("new",))[columns]
    encoder = make_column_transformer(
        (StandardScaler(), ["x", "count"]),
        (OneHotEncoder(handle_unknown="ignore"), ["word", "nones", "flag"]),
    ).fit(train)
    front, names = folded(encoder), list(encoder.feature_names_in_)
    data = {name: test[name].tolist() for name in columns}
    other = module.table(data) if library == "pyarrow" else module.DataFrame(data)
    np.testing.assert_allclose(
        dense(front(other, names)), dense(encoder.transform(test)), rtol=1e-12
    )


def _dictionary_frames() -> Iterator[tuple[str, Any]]:
    """The same three columns, their texts coded as each library and each type of index has it."""
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    words = table(1)["word"].tolist()
    words[3] = None
    values = sorted({word for word in words if word is not None})
    plain = polars.DataFrame({"x": table(1)["x"].tolist(), "word": words})
    for kind in (polars.Categorical, polars.Enum(values)):
        yield str(kind), plain.with_columns(polars.col("word").cast(kind))
    encoded = arrow.array(words).dictionary_encode()
    for index in ("int8", "uint8", "uint16", "uint32", "uint64"):
        for kind in (arrow.string(), arrow.large_string(), arrow.string_view()):
            column = arrow.DictionaryArray.from_arrays(
                encoded.indices.cast(index), encoded.dictionary.cast(kind)
            )
            yield f"{index} {kind}", arrow.table({"x": plain["x"].to_list(), "word": column})


def test_texts_that_come_as_dictionaries() -> None:
    train = table(0)[["x", "word"]]
    test = table(1)[["x", "word"]]
    test.loc[3, "word"] = None
    encoder = make_column_transformer(
        (StandardScaler(), ["x"]), (OneHotEncoder(handle_unknown="ignore"), ["word"])
    ).fit(train)
    front, names = folded(encoder), list(encoder.feature_names_in_)
    expected = dense(encoder.transform(test))
    for name, frame in _dictionary_frames():
        found = dense(front(frame, names))
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=name)


@pytest.mark.filterwarnings("ignore:.*validity bound")
def test_a_compiled_frame_pipeline_is_saved_and_loaded(tmp_path: Any) -> None:
    train, test = table(0, 400), table(1, 300, more=("new",))
    y = np.where(train["x"] + (train["word"] == "red") > 3.5, "yes", "no")
    encoder = make_column_transformer(
        (
            make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
            ["x", "holes", "masked"],
        ),
        (OneHotEncoder(handle_unknown="ignore", min_frequency=5), [*TEXTS, "gaps", "nones"]),
        (QuantileTransformer(n_quantiles=50), ["y"]),
    )
    model = make_pipeline(encoder, SVC(gamma=0.2)).fit(train, y)
    for guarantee in ("certified", "exact", "none"):
        fast = kl.compile(model, train, guarantee=guarantee)
        assert "taken as computed" in str(fast.plan)
        if guarantee != "none":
            np.testing.assert_array_equal(fast.predict(test), model.predict(test))
            np.testing.assert_array_equal(fast.predict(test[:1]), model.predict(test[:1]))
        fast.save(tmp_path / "model.kernelite")
        again = kl.load(tmp_path / "model.kernelite")
        np.testing.assert_array_equal(again.predict(test), fast.predict(test))
        np.testing.assert_array_equal(again.decision_function(test), fast.decision_function(test))


def test_what_cannot_be_folded_is_named_in_the_plan() -> None:
    train = table()[["x", "y"]]
    log = make_column_transformer((FunctionTransformer(np.log1p), ["y"]), remainder="passthrough")
    model = make_pipeline(log, StandardScaler(), SVC()).fit(train, train["x"] > 3)
    fast = kl.compile(model, train)
    assert "Kept as it is: ColumnTransformer; so this model cannot be saved" in str(fast.plan)
    with pytest.raises(InputError, match="keeps a ColumnTransformer in front"):
        fast.save("never.kernelite")


def test_scalers_before_steps_that_jump_keep_their_own_arithmetic() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(1e6, 1.0, (300, 3))
    bins = KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf")
    chain = make_pipeline(StandardScaler(), bins)
    model = make_pipeline(chain, SVC(gamma=0.3)).fit(X, X[:, 0] > 1e6)
    front = read(model).preparation
    assert front is not None
    np.testing.assert_array_equal(dense(front(X)), dense(chain.transform(X)))


def test_selectors_behind_one_hot_features() -> None:
    train, test = table(0), table(1, more=("new",))
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), [*TEXTS, "gaps"]), (StandardScaler(), NUMBERS)
    )
    model = make_pipeline(encoder, SelectKBest(k=6), StandardScaler(with_mean=False), SVC())
    model.fit(train, train["x"] > 3)
    fast = kl.compile(model, train)
    np.testing.assert_array_equal(fast.predict(test), model.predict(test))


def test_quantiles_of_sparse_rows_are_those_of_their_entries() -> None:
    rng = np.random.default_rng(4)
    X = csr_array(np.abs(rng.normal(size=(60, 5))) * (rng.random((60, 5)) < 0.4))
    same(QuantileTransformer(n_quantiles=20), X, X[::2])
    same(Normalizer(), X, X[::2])
    same(TruncatedSVD(2, random_state=0), X, X[::2])


def test_quantiles_of_one_hot_features_are_left_to_scikit_learn() -> None:
    train = table()
    encoder = make_column_transformer((OneHotEncoder(), TEXTS), ("passthrough", ["y"]))
    model = make_pipeline(encoder, QuantileTransformer(n_quantiles=20), SVC())
    model.fit(train, train["x"] > 3)
    front = read(model).preparation
    assert front is not None
    assert front.keeps == ("ColumnTransformer", "QuantileTransformer")


@pytest.mark.parametrize("encoder", [OneHotEncoder(handle_unknown="ignore"), OrdinalEncoder()])
def test_an_encoder_of_dates_is_kept_as_it_is(encoder: Any) -> None:
    """As numbers they would be those of one unit; rows may come in another one."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"day": np.arange(60).astype("M8[D]").astype("M8[ns]")}).sample(
        300, replace=True, random_state=0
    )
    frame["x"] = rng.normal(size=300)
    columns = make_column_transformer((encoder, ["day"]), remainder="passthrough")
    model = make_pipeline(columns, SVC()).fit(frame, rng.random(300) < 0.5)
    fast = kl.compile(model, frame)
    assert "Kept as it is: ColumnTransformer" in str(fast.plan)
    for unit in ("ns", "us", "s"):
        rows = frame.assign(day=frame["day"].astype(f"M8[{unit}]"))
        np.testing.assert_array_equal(fast.predict(rows), model.predict(rows))


@pytest.mark.parametrize(
    ("step", "changed"),
    [
        (StandardScaler(), {"with_std": False}),
        (StandardScaler(), {"with_mean": False}),
        (RobustScaler(), {"with_centering": False}),
        (RobustScaler(), {"with_scaling": False}),
        (MinMaxScaler(), {"clip": True}),
        (Normalizer(), {"norm": "l1"}),
        (PCA(2), {"whiten": True}),
    ],
)
def test_what_was_set_since_the_fit_counts_as_it_does_in_transform(
    step: Any, changed: dict[str, Any]
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(3.0, 2.0, (60, 3))
    model = make_pipeline(step, SVC(gamma=0.05)).fit(X, X[:, 0] * X[:, 1] > 9.0)
    model[0].set_params(**changed)
    fast = kl.compile(model, X, tolerance=1e-6)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        true = model.decision_function(X)
    np.testing.assert_allclose(fast.decision_function(X), true, rtol=0, atol=2e-6)


@pytest.mark.parametrize("step", [StandardScaler(), PCA(2)])
def test_a_transform_that_was_set_on_an_instance_is_called(step: Any) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = make_pipeline(step, SVC()).fit(X, X[:, 0] > 0)
    width = model[1].n_features_in_
    model[0].transform = lambda rows: 5.0 * rows[:, :width]
    fast = kl.compile(model, X)
    np.testing.assert_array_equal(fast.predict(X), model.predict(X))
    assert "Kept as it is" in str(fast.plan)
