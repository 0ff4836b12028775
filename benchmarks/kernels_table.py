"""`python -m benchmarks.kernels_table`: every kernel against its own library, in one process.

`goals` are a few large models (5,000 support vectors, 10,000 points) with the speed that is asked
of each; `pairs` is a table of kernels and estimators, 1,000 rows to train on. Answers are compared
before anything is timed; then both take turns, so that other work on the machine hurts both alike.
With `--processor`, it is one thread each and processor time, which other work hardly disturbs.
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
from benchmarks import kernel_pairs, results
from benchmarks.settings import PRESETS
from benchmarks.timing import race, rows_within
from kernelite.cli.console import note, print_table

__all__ = ["goals", "main", "pairs", "write_page"]

ROUNDS = 5
SECONDS = 0.4  # a contestant gets as many rows as it answers in this time
CHECKED = 1_000
Entry = dict[str, Any]
_clock: Callable[[], float] = time.perf_counter


def goals() -> Iterator[Entry]:
    """Large models; the ratio is of wall time per row, with all cores."""
    rng = np.random.default_rng(0)
    yield from _vectors(rng)
    yield from _processes(rng)
    yield from _interpolant(rng)
    yield from _densities(rng)


def _vectors(rng: np.random.Generator) -> Iterator[Entry]:
    from sklearn.svm import SVC

    X, Z = rng.normal(size=(5_000, 50)), rng.normal(size=(200_000, 50))
    y = rng.integers(0, 2, 5_000)  # noise, so that all rows become support vectors
    for kernel, goal in (("linear", 1_000), ("poly", 100), ("sigmoid", 25)):
        gamma = 0.002 if kernel == "sigmoid" else 0.02
        svc = SVC(kernel=kernel, gamma=gamma, coef0=1.0, C=1e-3).fit(X, y)
        name = f"SVC {kernel}, n {svc.n_support_.sum():,}, d 50"
        yield _entry(name, svc.predict, svc, "predict", X, Z, goal)


def _processes(rng: np.random.Generator) -> Iterator[Entry]:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import Matern, WhiteKernel

    X, Z = rng.normal(size=(5_000, 8)), rng.normal(size=(50_000, 8))
    y = np.sin(X[:, 0]) + 0.5 * np.cos(X[:, 1] + X[:, 2]) + 0.1 * rng.normal(size=5_000)
    for nu, said in ((1.5, "3/2"), (2.5, "5/2")):
        kernel = 1.0 * Matern(3.0, nu=nu) + WhiteKernel(0.1)
        gpr = GaussianProcessRegressor(kernel, optimizer=None, copy_X_train=False).fit(X, y)
        name = f"GPR mean, Matern {said}, n 5,000, d 8"
        yield _entry(name, gpr.predict, gpr, "predict", X, Z, 10)


def _interpolant(rng: np.random.Generator) -> Iterator[Entry]:
    from scipy.interpolate import RBFInterpolator

    X, Z = rng.uniform(size=(5_000, 3)), rng.uniform(size=(50_000, 3))
    f = RBFInterpolator(X, np.sin(5.0 * X).sum(axis=1), smoothing=1e-3)
    yield _entry("RBFInterpolator, thin plate spline, n 5,000, d 3", f, f, "predict", X, Z, 15)


def _densities(rng: np.random.Generator) -> Iterator[Entry]:
    from scipy.stats import gaussian_kde

    for d in (2, 5):
        X, Z = rng.normal(size=(d, 10_000)), rng.normal(size=(50_000, d))
        kde = gaussian_kde(X)
        name = f"gaussian_kde, n 10,000, d {d}"
        yield _entry(name, lambda rows, kde=kde: kde(rows.T), kde, "pdf", X.T, Z, 20)


def _entry(
    name: str,
    theirs: Callable[[Any], Any],
    model: Any,
    method: str,
    sample: Any,
    rows: Any,
    goal: float | None = None,
) -> Entry:
    """Compile, compare, then let both take turns."""
    fast = kl.compile(model, sample[:2_000])
    ours = getattr(fast, method)
    if method == "pdf":
        ours = lambda rows, pdf=ours: pdf(rows.T)  # noqa: E731
    return _raced(name, fast, theirs, ours, rows, goal)


def _raced(
    name: str,
    fast: Any,
    theirs: Callable[[Any], Any],
    ours: Callable[[Any], Any],
    rows: Any,
    goal: float | None = None,
    seconds: float = SECONDS,
) -> Entry:
    """Compare the answers for some rows, then let both take turns."""
    deviation, differ = _compared(ours(rows[:CHECKED]), theirs(rows[:CHECKED]))
    counts = [max(64, rows_within(call, rows, seconds)) for call in (theirs, ours)]
    calls = {
        "theirs": partial(theirs, rows[: counts[0]]),
        "ours": partial(ours, rows[: counts[1]]),
    }
    timings = race(calls, rounds=ROUNDS, seconds=1.0, clock=_clock)
    their_us, our_us = (
        1e6 * timings[who].best / count for who, count in zip(("theirs", "ours"), counts)
    )
    found = {
        "name": name,
        "their_us": their_us,
        "our_us": our_us,
        "ratio": their_us / our_us,
        "goal": goal,
        "deviation": deviation,
        "labels_that_differ": differ,
        "plan": fast.plan.chosen.name,
    }
    asked = "" if goal is None else f", asked for {goal:g}x"
    note(f"{name}: {found['ratio']:.3g}x{asked} ({found['plan']})")
    return found


def _compared(ours: Any, theirs: Any) -> tuple[float | None, int | None]:
    """The largest difference relative to the largest value, or how many labels differ."""
    if np.asarray(theirs).dtype.kind in "iuU":
        return None, int(np.count_nonzero(ours != theirs))
    size = max(float(np.abs(theirs).max()), 1e-300)
    return float(np.abs(ours - theirs).max()) / size, None


def pairs() -> Iterator[Entry]:
    """Every kernel that an estimator takes: 1,000 rows of 8 features to train on."""
    X, y, Z = kernel_pairs.data(1_000, 4_000)
    for pair in kernel_pairs.PAIRS:
        model = kernel_pairs.fitted(pair, X, y)
        fast = kl.compile(model, X, guarantee=pair.guarantee)
        theirs, ours = (kernel_pairs.answers(one, pair) for one in (model, fast))
        entry = _raced(pair.name, fast, theirs, ours, Z, seconds=SECONDS / 8)
        yield entry | {"kernel": pair.kernel, "estimator": pair.estimator}


def write_page(found: Sequence[Entry]) -> None:
    """Put the pairs into docs/machines.md, three digits of each figure."""
    from benchmarks.supported import page
    from benchmarks.supported.__main__ import write

    kept = ("kernel", "estimator", "ratio", "deviation", "labels_that_differ", "plan")
    document = page.read()
    document["kernels"] = [
        {key: float(f"{entry[key]:.3g}") if key == "ratio" else entry[key] for key in kept}
        for entry in found
    ]
    write(document)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    global _clock
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels_table", description=__doc__)
    parser.add_argument("--sections", nargs="+", choices=("goals", "pairs"), default=("goals",))
    parser.add_argument("--processor", action="store_true", help="one thread, processor time")
    parser.add_argument("--page", action="store_true", help="write the pairs to docs/machines.md")
    args = parser.parse_args(argv)
    _clock = time.process_time if args.processor else time.perf_counter
    with kl.limit_threads(1 if args.processor else None):
        found = {
            name: list({"goals": goals, "pairs": pairs}[name]())
            for name in dict.fromkeys(args.sections)
        }
    if "goals" in found:
        print_table(
            ["model", "theirs us", "ours us", "ratio", "asked for", "plan"],
            [
                [
                    entry["name"],
                    f"{entry['their_us']:.3g}",
                    f"{entry['our_us']:.3g}",
                    f"{entry['ratio']:.3g}x",
                    f"{entry['goal']:g}x",
                    entry["plan"],
                ]
                for entry in found["goals"]
            ],
        )
    if "pairs" in found:
        print(kernel_pairs.table(found["pairs"]))
        if args.page:
            write_page(found["pairs"])
    entries = [{"section": name, **entry} for name, part in found.items() for entry in part]
    known = results.load("kernels_table") or {"content": []}
    entries += [entry for entry in known["content"] if entry["section"] not in found]
    results.save("kernels_table", entries, PRESETS["quick"], "quick", results.FOLDER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
