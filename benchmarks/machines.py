"""`python -m benchmarks.machines`: kernel machines other than SVMs against scikit-learn's own.

A Gaussian process's mean, a kernel density, kernel PCA, Nystroem with a linear model, an SVC of
text, and a scaled SVC on a data frame against the bare one. Every answer is compared with the exact
engine's, whose rounding is bounded, before anything is timed. By default one thread each and
processor time, which other work on the machine does not disturb; `--wall` takes all cores and the
clock on the wall.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import kernelite as kl
from benchmarks import results
from benchmarks.settings import PRESETS
from benchmarks.timing import rows_within
from kernelite.cli.console import note, print_table

__all__ = ["machines", "main"]

ROUNDS = 5
SECONDS = 0.5  # a contestant gets as many rows as it answers in this time
FEWEST = 10_000  # rows that scikit-learn gets at least
LONGEST = 4.0  # seconds of turns, after which a slow contestant is excused
CHECKED = 2_000  # rows whose answers are compared


def gaussian_process(rng: np.random.Generator, rows: int) -> Iterator[dict[str, Any]]:
    """The mean of a Gaussian process: n = 5,000, d = 8."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    for length in (6.0, 2.0):
        X, Z = rng.normal(size=(5_000, 8)), rng.normal(size=(rows, 8))
        y = np.sin(X[:, 0]) + 0.5 * np.cos(X[:, 1] + X[:, 2]) + 0.1 * rng.normal(size=5_000)
        kernel = 1.0 * RBF(length) + WhiteKernel(0.1)
        model = GaussianProcessRegressor(kernel, optimizer=None, copy_X_train=False).fit(X, y)
        entry = _entry(f"GPR mean, n 5,000, d 8, length {length:g}", model, "predict", X, Z)
        # As a user calls it: all rows at once, for which scikit-learn makes room anew.
        start = _clock()
        model.predict(Z)
        entry["whole_call_us"] = 1e6 * (_clock() - start) / rows
        yield entry


def density(rng: np.random.Generator, rows: int) -> Iterator[dict[str, Any]]:
    """A kernel density: n = 50,000, d = 3, Silverman's bandwidth, rtol 1e-3."""
    from sklearn.neighbors import KernelDensity

    X, Z = rng.normal(size=(50_000, 3)), rng.normal(size=(rows, 3))
    model = KernelDensity(bandwidth="silverman", rtol=1e-3).fit(X)
    yield _entry("KDE, n 50,000, d 3, Silverman, rtol 1e-3", model, "score_samples", X[:4000], Z)


def kernel_pca(rng: np.random.Generator, rows: int) -> Iterator[dict[str, Any]]:
    """Kernel PCA over landmarks, components, features and gamma."""
    from sklearn.decomposition import KernelPCA

    for n, d, k, width in (
        *((100, 4, 100, 1.0), (1_000, 20, 2, 0.05), (1_000, 20, 2, 1.0), (1_000, 20, 100, 1.0)),
        *((4_000, 4, 2, 0.05), (4_000, 20, 20, 0.05), (4_000, 100, 2, 0.05)),
        *((4_000, 100, 100, 1.0),),
    ):
        X, Z = rng.normal(size=(n, d)), rng.normal(size=(rows, d))
        model = KernelPCA(
            k, kernel="rbf", gamma=width / d, eigen_solver="randomized", random_state=0
        ).fit(X)
        name = f"KernelPCA, n {n:,}, d {d}, {k} components, gamma {width:g}/d"
        yield _entry(name, model, "transform", X, Z)


def nystroem(rng: np.random.Generator, rows: int) -> Iterator[dict[str, Any]]:
    """Nystroem's features alone, and under a linear model."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    for n, d, width in ((100, 8, 0.1), (300, 20, 0.05), (1_000, 20, 0.05), (1_000, 20, 1.0)):
        X, Z = rng.normal(size=(5_000, d)), rng.normal(size=(rows, d))
        y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 4
        features = Nystroem(gamma=width / d, n_components=n, random_state=0)
        name = f"n {n:,}, d {d}, gamma {width:g}/d"
        yield _entry(f"Nystroem, {name}", features.fit(X), "transform", X, Z)
        model = make_pipeline(features, Ridge(0.1)).fit(X, y)
        yield _entry(f"Nystroem + Ridge, {name}", model, "predict", X, Z)


def text(rng: np.random.Generator, rows: int) -> Iterator[dict[str, Any]]:
    """An SVC of sparse rows: about 60 words of a vocabulary, common ones more often."""
    from scipy.sparse import csr_matrix
    from sklearn.preprocessing import normalize
    from sklearn.svm import SVC

    for words in (3_000, 30_000):
        count = 3_000 + rows // 5
        drawn = (words * rng.random((count, 80)) ** 3).astype(np.int32)
        starts = np.arange(0, drawn.size + 1, 80, dtype=np.int32)
        bags = csr_matrix((rng.random(drawn.size), drawn.ravel(), starts), shape=(count, words))
        bags.sum_duplicates()
        documents = normalize(bags)
        X, Z = documents[:3_000], documents[3_000:]
        y = (X @ rng.normal(size=words) > 0).astype(int)
        model = SVC(gamma=1.0, C=10.0).fit(X, y)
        name = f"SVC of text, n {model.n_support_.sum():,}, {words:,} words"
        yield _entry(name, model, "predict", X, Z)


def pipeline(rng: np.random.Generator, rows: int) -> Iterator[dict[str, Any]]:
    """StandardScaler + SVC on a frame, and on an array, against the bare SVC's form."""
    import pandas as pd
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    for d in (8, 30, 120):
        raw = rng.normal(size=(rows, d)) * rng.uniform(0.1, 30.0, d) + rng.normal(size=d)
        train = raw[:2_000]
        y = (train[:, 0] / train[:, 0].std() + np.sin(train[:, 1] / train[:, 1].std()) > 0).astype(
            int
        )
        names = [f"f{i}" for i in range(d)]
        scaled = make_pipeline(StandardScaler(), SVC(gamma=0.1 / d)).fit(
            pd.DataFrame(train, columns=names), y
        )
        standard = np.ascontiguousarray(scaled[0].transform(pd.DataFrame(raw, columns=names)))
        bare = kl.compile(scaled[1], standard[:4000])
        frame = pd.DataFrame(raw, columns=names)
        entry = _entry(f"StandardScaler + SVC on a frame, d {d}", scaled, "predict", train, frame)
        fast = entry.pop("compiled")
        entry["bare_us"] = 1e6 * _best(partial(bare.predict, standard)) / rows
        entry["array_us"] = 1e6 * _best(partial(fast.predict, raw)) / rows
        yield entry


SECTIONS: dict[str, Callable[[np.random.Generator, int], Iterator[dict[str, Any]]]] = {
    "gpr": gaussian_process,
    "kde": density,
    "pca": kernel_pca,
    "nystroem": nystroem,
    "text": text,
    "pipeline": pipeline,
}
_clock: Callable[[], float] = time.process_time


def machines(names: Sequence[str], rows: int) -> list[dict[str, Any]]:
    """Measure the sections asked for.

    Returns
    -------
    list of dict
        A machine each: microseconds per row of both, their ratio, the share that fell back.
    """
    found = []
    for name in names:
        for entry in SECTIONS[name](np.random.default_rng(0), rows):
            entry.pop("compiled", None)
            entry["section"] = name
            note(f"{entry['name']}: {entry['ratio']:.3g}x ({entry['plan']})")
            found.append(entry)
    return found


def _entry(name: str, model: Any, method: str, sample: Any, rows: Any) -> dict[str, Any]:
    """Compile, compare, then time both on as many rows as they answer in half a second."""
    from kernelite.model.predicting import answer
    from kernelite.program.criteria import label_criterion

    started = time.perf_counter()
    fast = kl.compile(model, _like(rows, sample))
    compiled_in = time.perf_counter() - started
    ours, theirs = getattr(fast, method), getattr(model, method)
    _compare(
        fast, ours(rows[:CHECKED]), getattr(kl.compile(model, guarantee="exact"), method), rows
    )
    criterion = label_criterion(fast.head, fast.tolerance)
    stats = answer(fast, rows[:20_000], lambda scores: scores, criterion, None, None)[1]
    # Many rows at a time, as users do: scikit-learn's memory traffic is part of its time.
    count = max(rows_within(theirs, rows, SECONDS), min(FEWEST, rows.shape[0]))
    mine = rows_within(ours, rows, SECONDS)
    their_us = 1e6 * _best(partial(theirs, rows[:count])) / count
    our_us = 1e6 * _best(partial(ours, rows[:mine])) / mine
    one_them, one_us = (1e6 * _best(partial(f, rows[:1])) for f in (theirs, ours))
    return {
        "name": name,
        "scikit_learn_us": their_us,
        "certified_us": our_us,
        "ratio": their_us / our_us,
        "one_row_ratio": one_them / one_us,
        "fell_back": stats.open_share,
        "plan": fast.plan.chosen.name,
        "compile_seconds": compiled_in,
        "compiled": fast,
    }


def _like(rows: Any, sample: Any) -> Any:
    """The sample in the container of the rows."""
    return type(rows)(sample, columns=rows.columns) if hasattr(rows, "columns") else sample


def _compare(fast: Any, answers: Any, exact: Callable[[Any], Any], rows: Any) -> None:
    truth = np.asarray(exact(rows[:CHECKED]))
    if fast.head.kind == "classifier":
        wrong = float(np.mean(answers != truth))
        assert wrong == 0.0, f"{wrong:.2%} of the labels differ"
        return
    slack = 1e-8 * np.abs(truth).max()
    assert (np.abs(answers - truth) <= fast.tolerance + slack).all(), "outside the tolerance"


def _best(call: Callable[[], Any]) -> float:
    """The quickest of some turns, in seconds of the clock chosen."""
    turns: list[float] = []
    while len(turns) <= ROUNDS or (sum(turns) < 0.05 and len(turns) < 500):
        start = _clock()
        call()
        turns.append(_clock() - start)
        if sum(turns) > LONGEST:
            break
    return min(turns)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    global _clock
    parser = argparse.ArgumentParser(prog="python -m benchmarks.machines", description=__doc__)
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=tuple(SECTIONS))
    parser.add_argument("--rows", type=int, default=100_000, help="rows to predict")
    parser.add_argument("--wall", action="store_true", help="all cores, the clock on the wall")
    args = parser.parse_args(argv)
    _clock = time.perf_counter if args.wall else time.process_time
    with kl.limit_threads(None if args.wall else 1):
        found = machines(args.sections, args.rows)
    head = ["machine", "scikit-learn us", "certified us", "ratio", "one row", "fell back", "plan"]
    print_table(
        head,
        [
            [
                entry["name"],
                f"{entry['scikit_learn_us']:.3g}",
                f"{entry['certified_us']:.3g}",
                f"{entry['ratio']:.3g}x",
                f"{entry['one_row_ratio']:.3g}x",
                f"{100 * entry['fell_back']:.3g}%",
                entry["plan"],
            ]
            for entry in found
        ],
    )
    for entry in found:
        if "whole_call_us" in entry:
            ratio = entry["whole_call_us"] / entry["certified_us"]
            print(
                f"{entry['name']}: scikit-learn's single call on {args.rows:,} rows takes "
                f"{entry['whole_call_us']:.3g} us per row, {ratio:.3g} times ours"
            )
        if "bare_us" in entry:
            print(
                f"{entry['name']}: {entry['certified_us']:.3g} us per row of the frame, "
                f"{entry['array_us']:.3g} of an array, {entry['bare_us']:.3g} without the scaler"
            )
    results.save("machines", found, PRESETS["quick"], "quick", results.FOLDER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
