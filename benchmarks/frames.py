"""Data frames with text columns: a whole pipeline, encoding included, against scikit-learn's.

    python -m benchmarks.frames [--rows 20000] [--pairs 5]

6 numeric and 8 text columns of 10 to 100 categories, StandardScaler and OneHotEncoder in a
ColumnTransformer, then an SVC of some thousand support vectors. Labels are compared first, unknown
categories among them; then both are timed in turn, in one process, and the medians are printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import kernelite as kl

NUMBERS = [f"number_{i}" for i in range(6)]
SIZES = np.linspace(10, 100, 8).astype(int)
TEXTS = [f"text_{i}" for i in range(8)]


def table(m: int, seed: int, *, unknown: bool = False) -> tuple[pd.DataFrame, Any]:
    """Rows and labels; `unknown`: one text in a hundred was not there before."""
    rng = np.random.default_rng(seed)
    effects = np.random.default_rng(0)
    columns: dict[str, Any] = {name: rng.normal(i, 1 + i, m) for i, name in enumerate(NUMBERS)}
    worth = sum((columns[name] - i) / (1 + i) for i, name in enumerate(NUMBERS)) / 3
    for name, size in zip(TEXTS, SIZES, strict=True):
        codes = rng.integers(0, size, m)
        worth = worth + effects.normal(0, 0.5, size)[codes]
        words = np.array([f"{name} is {code}" for code in range(size)], dtype=object)[codes]
        if unknown:
            words[rng.random(m) < 0.01] = "something new"
        columns[name] = words
    noise = rng.normal(0, 0.7, m)
    return pd.DataFrame(columns), np.where(worth + noise > 0, "yes", "no")


def fitted(m: int) -> Any:
    """The pipeline, trained on m rows."""
    frame, labels = table(m, 1)
    encoder = make_column_transformer(
        (StandardScaler(), NUMBERS), (OneHotEncoder(handle_unknown="ignore"), TEXTS)
    )
    return make_pipeline(encoder, SVC()).fit(frame, labels)


def seconds(function: Callable[[], Any]) -> float:
    """How long a call takes."""
    started = perf_counter()
    function()
    return perf_counter() - started


def main() -> None:
    """Compare, time, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--train", type=int, default=20_000)
    chosen = parser.parse_args()
    model = fitted(chosen.train)
    sample, _ = table(2000, 2)
    test, _ = table(chosen.rows, 3, unknown=True)
    few = test[:2000]
    machine = model[-1]
    print(f"{len(machine.support_):,} support vectors, {machine.n_features_in_} features")
    for guarantee in ("certified", "exact"):
        fast = kl.compile(model, sample, guarantee=guarantee)
        assert (fast.predict(few) == model.predict(few)).all(), "labels differ"
        fast.predict(test)
        print(compared(model, fast, few, test, chosen.pairs))


def compared(model: Any, fast: Any, few: pd.DataFrame, test: pd.DataFrame, pairs: int) -> str:
    """One line: both in turn, and the columns alone."""
    ours, theirs, before = [], [], []
    for _ in range(pairs):
        theirs.append(seconds(lambda: model.predict(few)) / len(few))
        ours.append(seconds(lambda: fast.predict(test)) / len(test))
        before.append(
            seconds(lambda: fast.preparation.before_map(test, list(test.columns))) / len(test)
        )
    ratio = median(a / b for a, b in zip(theirs, ours, strict=True))
    return (
        f"{fast.plan.summary}: scikit-learn {1e6 * median(theirs):.1f} us per row, kernelite "
        f"{1e6 * median(ours):.2f} us ({1e6 * median(before):.2f} us of it columns): {ratio:.1f}x"
    )


if __name__ == "__main__":
    main()
