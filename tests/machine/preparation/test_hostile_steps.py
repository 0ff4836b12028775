"""Steps from files that somebody has changed: refused by one sentence, or run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)

from kernelite.machine.preparation import Preparation
from kernelite.sources.steps import steps_of
from kernelite.store.packing import pack, unpack
from kernelite.support.errors import KerneliteError
from tests.helpers import CHANGES, VALUES


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    numbers = {name: np.abs(rng.normal(2, 1, 40)) for name in "abcd"}
    words = rng.choice(["x", "y", "z"], (2, 40))
    return pd.DataFrame({**numbers, "e": words[0], "f": words[1]})


@cache
def stored() -> list[tuple[Any, dict[str, np.ndarray]]]:
    X = frame()
    bins = KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf")
    transformers = [
        make_column_transformer(
            (make_pipeline(SimpleImputer(add_indicator=True), MinMaxScaler(), bins), ["a", "b"]),
            (make_pipeline(StandardScaler(), PCA(1), Normalizer()), ["c", "d"]),
            (OneHotEncoder(handle_unknown="ignore", max_categories=2), ["e"]),
            (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), ["e", "f"]),
            (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["f"]),
            (PolynomialFeatures(2), ["a", "d"]),
        ),
        make_column_transformer(
            (make_pipeline(PowerTransformer(), Binarizer()), ["a", "b"]),
            (QuantileTransformer(n_quantiles=5, output_distribution="normal"), ["c"]),
        ),
    ]
    found = []
    for transformer in transformers:
        steps = tuple(steps_of(transformer.fit(X)))
        found.append(pack(Preparation(steps, 6)))
    steps = tuple(steps_of(PCA(2).fit(X[list("abcd")].to_numpy())))
    found.append(
        pack(Preparation((*steps_of(Normalizer().fit(X[["a", "b", "c", "d"]])), *steps), 4))
    )
    return found


def leaves(tree: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if not isinstance(tree, dict | list):
        yield way
        return
    for key, item in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield from leaves(item, (*way, key))


def copied(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: copied(item) for key, item in tree.items()}
    return [copied(item) for item in tree] if isinstance(tree, list) else tree


def changed(tree: Any, tensors: dict[str, np.ndarray]) -> Iterator[tuple[Any, ...]]:
    """Every leaf by every value, then every tensor by every change, each with its name."""
    for *way, last in leaves(tree):
        for value in VALUES:
            other = copied(tree)
            node = other
            for step in way:
                node = node[step]
            node[last] = value
            yield (*way, last, value), other, tensors
    for key in tensors:
        for name, change in CHANGES.items():
            yield (key, name), tree, {**tensors, key: change(tensors[key])}


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.filterwarnings("ignore")
def test_changed_steps_are_refused_or_run(which: int) -> None:
    X: Any = frame()
    X = X[["a", "b", "c", "d"]] if which == 2 else X
    refused = ran = 0
    for what, tree, tensors in changed(*stored()[which]):
        with np.errstate(all="ignore"):
            try:
                front = unpack(copied(tree), dict(tensors))
                rows = front(X)
            except KerneliteError as error:
                assert "\n" not in str(error), what  # noqa: PT017 - either outcome is right
                refused += 1
            else:
                assert rows.shape == (40, front.n_out), what
                ran += 1
    assert refused > ran > 0
