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
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import kernelite as kl
from benchmarks import results
from benchmarks.settings import PRESETS
from benchmarks.timing import race, rows_within
from kernelite.cli.console import note, print_table

__all__ = ["goals", "main", "pairs", "pairs_table"]

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
    seconds: float = SECONDS,
) -> Entry:
    """Compile, compare, then let both take turns."""
    fast = kl.compile(model, sample[:2_000])
    ours = getattr(fast, method)
    if method == "pdf":
        ours = lambda rows, pdf=ours: pdf(rows.T)  # noqa: E731
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
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(1_000, 8)), rng.normal(size=(4_000, 8))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 4 + 0.1 * rng.normal(size=1_000)
    for kernel, estimator, model, method, target in _pairs(y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = model(X, y) if estimator == "RBFInterpolator" else model.fit(X, target)
        theirs = fitted if estimator == "RBFInterpolator" else getattr(fitted, method)
        name = f"{estimator}, {kernel}"
        entry = _entry(name, theirs, fitted, method, X, Z, seconds=SECONDS / 8)
        yield entry | {"kernel": kernel, "estimator": estimator}


def _pairs(y: Any) -> Iterator[tuple[str, str, Any, str, Any]]:
    from scipy.interpolate import RBFInterpolator
    from sklearn import svm
    from sklearn.decomposition import KernelPCA
    from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
    from sklearn.gaussian_process import kernels as gp
    from sklearn.kernel_approximation import Nystroem
    from sklearn.kernel_ridge import KernelRidge

    labels = (y > 0).astype(int)
    named = {
        "linear": {"kernel": "linear"},
        "polynomial 2": {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.1},
        "polynomial 3": {"kernel": "poly", "degree": 3, "coef0": 1.0, "gamma": 0.1},
        "polynomial 4": {"kernel": "poly", "degree": 4, "coef0": 1.0, "gamma": 0.1},
        "RBF": {"kernel": "rbf", "gamma": 0.1},
        "sigmoid": {"kernel": "sigmoid", "gamma": 0.01, "coef0": 0.5},
        "Laplacian": {"kernel": "laplacian", "gamma": 0.1},
        "cosine": {"kernel": "cosine"},
    }
    for kernel, options in named.items():
        if kernel not in ("Laplacian", "cosine"):
            yield kernel, "SVC", svm.SVC(**options), "predict", labels
            yield kernel, "SVR", svm.SVR(**options), "predict", y
            yield kernel, "OneClassSVM", svm.OneClassSVM(nu=0.2, **options), "predict", y
        yield kernel, "KernelRidge", KernelRidge(**options), "predict", y
        if kernel != "Laplacian":
            yield kernel, "KernelPCA", KernelPCA(3, **options), "transform", y
        yield (
            kernel,
            "Nystroem",
            Nystroem(n_components=200, random_state=0, **options),
            *(
                "transform",
                y,
            ),
        )
    covariances = {
        "RBF": gp.RBF(3.0),
        "Matern 1/2": gp.Matern(3.0, nu=0.5),
        "Matern 3/2": gp.Matern(3.0, nu=1.5),
        "Matern 5/2": gp.Matern(3.0, nu=2.5),
        "RationalQuadratic": gp.RationalQuadratic(3.0, 1.0),
        "DotProduct": gp.DotProduct(1.0),
        "ExpSineSquared": gp.ExpSineSquared(9.0, 60.0),
        "Matern + DotProduct": gp.Matern(3.0) + gp.DotProduct(1.0),
        "Matern x RBF": gp.Matern(3.0) * gp.RBF(9.0),
    }
    for kernel, covariance in covariances.items():
        regressor = GaussianProcessRegressor(covariance, alpha=0.1, optimizer=None)
        yield kernel, "GaussianProcessRegressor", regressor, "predict", y
        classifier = GaussianProcessClassifier(covariance, optimizer=None)
        yield kernel, "GaussianProcessClassifier", classifier, "predict", labels
    for shape in (
        *("thin_plate_spline", "linear", "cubic", "quintic", "multiquadric"),
        *("inverse_multiquadric", "inverse_quadratic", "gaussian"),
    ):
        make = partial(RBFInterpolator, kernel=shape, epsilon=0.5, smoothing=0.1)
        yield shape.replace("_", " "), "RBFInterpolator", make, "predict", y


def pairs_table(found: Sequence[Entry]) -> str:
    """Kernels by estimators in Markdown: how many times faster than the original."""
    kernels = list(dict.fromkeys(entry["kernel"] for entry in found))
    estimators = list(dict.fromkeys(entry["estimator"] for entry in found))
    cells = {(entry["kernel"], entry["estimator"]): entry for entry in found}
    lines = ["| kernel | " + " | ".join(estimators) + " |", "|---|" + "--:|" * len(estimators)]
    for kernel in kernels:
        row = [cells.get((kernel, estimator)) for estimator in estimators]
        shown = ["" if entry is None else f"{entry['ratio']:.3g}x" for entry in row]
        lines.append(f"| {kernel} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    global _clock
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels_table", description=__doc__)
    parser.add_argument("--sections", nargs="+", choices=("goals", "pairs"), default=("goals",))
    parser.add_argument("--processor", action="store_true", help="one thread, processor time")
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
        print(pairs_table(found["pairs"]))
    entries = [{"section": name, **entry} for name, part in found.items() for entry in part]
    results.save("kernels_table", entries, PRESETS["quick"], "quick", results.FOLDER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
