"""Random column transformers on random tables: scikit-learn's numbers, or errors as it has them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import issparse
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)

from kernelite.data.rows.inputs import check_rows
from kernelite.machine.preparation import Kept, Preparation
from kernelite.sources.steps import NotFolded, steps_of
from kernelite.store.packing import pack, unpack
from kernelite.support.errors import InputError

WORDS = ["", "a", "A", "nan", "None", "1", "1.0", "ß", "長", "a b"]
ODD = [None, np.nan, "new", 1, 1.0, True, "NaN", 10**30, -0.0, float("inf")]


def numbers(rng: np.random.Generator, m: int, *, hostile: bool) -> Any:
    kind = rng.choice(["float", "int", "small", "bool", "holes", "masked", "large", "object"])
    values = rng.normal(2, 3, m)
    if kind in ("int", "masked"):
        values = rng.integers(-3, 4, m)
    if kind in ("small", "object"):
        values = rng.choice([0.0, -0.0, 0.5, 1e-300, 7.0], m)
    if kind == "bool":
        values = rng.random(m) < 0.5
    if kind == "masked":
        found = pd.array(values, dtype="Int64")
        found[rng.random(m) < 0.1] = pd.NA
        return found
    if kind == "holes" or (hostile and kind == "float"):
        values = np.where(rng.random(m) < 0.2, np.nan, values)
    if hostile and kind == "large" and rng.random() < 0.3:
        values[0] = np.inf
    if kind == "object":
        return pd.Series(values, dtype=object)
    return 1e9 + values if kind == "large" else values


def texts(rng: np.random.Generator, m: int, *, hostile: bool) -> Any:
    few = list(rng.permutation(WORDS)[: rng.integers(2, 8)])
    values = np.array(rng.choice(few, m), dtype=object)
    kind = rng.choice(["object", "str", "category", "gaps"])
    if kind == "gaps":
        values[rng.random(m) < 0.2] = rng.choice([None, np.nan])
    if hostile:
        values[rng.random(m) < 0.1] = ODD[rng.integers(3 if kind != "object" else len(ODD))]
    if kind == "category":
        return pd.Categorical(values)
    return pd.Series(values, dtype="str" if kind == "str" else object)


def encoder(rng: np.random.Generator) -> Any:
    unknown = rng.choice(["error", "ignore", "infrequent_if_exist"])
    limits = [{}, {"min_frequency": 4}, {"max_categories": 3}][rng.integers(3)]
    if rng.random() < 0.6:
        drop = rng.choice([None, None, "first", "if_binary"])
        return OneHotEncoder(handle_unknown=unknown, drop=drop, **limits)
    if unknown == "error":
        return OrdinalEncoder(**limits)
    missing = rng.choice([np.nan, -7])
    return OrdinalEncoder(
        handle_unknown="use_encoded_value",
        unknown_value=-9,
        encoded_missing_value=missing,
        **limits,
    )


def chain(rng: np.random.Generator, *, text: bool) -> Any:
    if text:
        before = [SimpleImputer(strategy="most_frequent", add_indicator=bool(rng.random() < 0.3))]
        return make_pipeline(*before[: rng.integers(2)], encoder(rng))
    strategy = rng.choice(["mean", "median", "most_frequent", "constant"])
    steps = [SimpleImputer(strategy=strategy, add_indicator=bool(rng.random() < 0.3))]
    scalers = [StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler()]
    steps = [*steps[: rng.integers(4)], *rng.choice(scalers, rng.integers(3))]
    bins = KBinsDiscretizer(3, strategy="uniform", encode=rng.choice(["onehot", "ordinal"]))
    others = [PCA(1), PolynomialFeatures(2), PowerTransformer(), Normalizer(), Binarizer(), bins]
    others += [MissingIndicator(features="all"), encoder(rng), StandardScaler()]
    return make_pipeline(*steps, others[rng.integers(len(others))], *scalers[: rng.integers(2)])


def table(rng: np.random.Generator, seed: int, *, hostile: bool) -> pd.DataFrame:
    """Columns whose kinds depend on `seed`, and whose values do not."""
    kinds, m = np.random.default_rng(seed), 60
    columns = {}
    for j in range(8):
        own = np.random.default_rng(kinds.integers(2**31))
        make = texts if j >= 4 else numbers
        fixed = make(own, m, hostile=hostile)
        columns[f"c{j}"] = fixed
    frame = pd.DataFrame(columns)
    return frame.sample(frac=1.0, random_state=int(rng.integers(2**31)), ignore_index=True)


def outcome(call: Any) -> np.ndarray | None:
    """Rows as a machine would take them; None where they are refused."""
    try:
        rows = call()
        rows = rows.toarray() if issparse(rows) else np.asarray(rows)
        return np.asarray(check_rows(rows))
    except (ValueError, TypeError):
        return None


@pytest.mark.parametrize("seed", range(100))
@pytest.mark.filterwarnings("ignore")
def test_random_column_transformers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    train = table(rng, seed, hostile=False)
    branches = []
    for i in range(int(rng.integers(1, 4))):
        text = bool(rng.random() < 0.6)
        places = rng.permutation(4)[: rng.integers(1, 4)] + (4 if text else 0)
        chosen = [f"c{j}" for j in places] if rng.random() < 0.5 else places
        branches.append((f"b{i}", chain(rng, text=text), chosen))
    remainder = rng.choice(["drop", "drop", "passthrough"])
    transformer = ColumnTransformer(branches, remainder=remainder)
    try:
        transformer.fit(train)
        steps = steps_of(transformer)
    except (ValueError, TypeError, NotFolded):
        return  # what cannot be fitted, or is kept as it is, has nothing to compare
    front: Preparation = unpack(*pack(Preparation(tuple(steps), steps[0].n_features)))
    names = list(transformer.feature_names_in_)
    for hostile in (False, True):
        test = table(rng, seed, hostile=hostile)
        for rows in (test, test[:1]):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = outcome(lambda rows=rows: transformer.transform(rows))
            if expected is None:
                with pytest.raises(InputError, match=r"\A[^\n]+\Z"):
                    check_rows(front(rows, names))
                continue
            found = check_rows(front(rows, names))
            found = found.toarray() if issparse(found) else found
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    check_origins(rng, front, train, names)


def check_origins(
    rng: np.random.Generator, front: Preparation, rows: pd.DataFrame, names: list[str]
) -> None:
    """Where a column changes, no feature does that is not made of it; each is in its place."""
    made = [frozenset((column,)) for column in range(front.n_features or 0)]
    for step in front.steps:
        assert not isinstance(step, Kept)
        made = step.made_of(made)
    before = outcome(lambda: front(rows, names))
    for column in rng.permutation(len(names))[:3]:
        other = rows.copy()
        other[names[column]] = rows[names[column]].to_numpy()[::-1]
        other = other.astype(rows.dtypes)
        after = outcome(lambda other=other: front(other, names))
        if before is None or after is None:
            continue
        assert after.shape == before.shape == (len(rows), len(made))
        changed = np.flatnonzero(~np.isclose(before, after, rtol=1e-9, atol=0.0).all(axis=0))
        assert all(column in made[feature] for feature in changed)
