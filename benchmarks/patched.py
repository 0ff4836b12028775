"""`python -m benchmarks.patched`: what `kernelite.patch()` saves in code that nobody changed.

A grid search over SVC, with and without the patch, in turns in one process: processor seconds of
all, of training and of predicting, best of three. Then predictions of large batches. Scores of the
search and labels are compared before anything is printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity
from sklearn.svm import SVC, SVR

import kernelite as kl
from benchmarks import results
from benchmarks.settings import PRESETS
from kernelite.cli.console import print_table

__all__ = ["main", "measured"]

GRID = {"C": [1.0, 10.0], "gamma": [0.01, 0.05, 0.2]}
REPEATS = 3


def measured(rows: int = 20_000) -> dict[str, Any]:
    """Processor seconds without and with the patch."""
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    rng = np.random.default_rng(0)
    noisy = np.concatenate([X + 0.1 * rng.normal(size=X.shape) for _ in range(3)])
    searches = {
        "grid search, 1,797 digits": (X, y),
        "grid search, 5,391 noisy digits": (noisy, np.tile(y, 3)),
    }
    found = {name: _search(*data) for name, data in searches.items()}
    many = X[rng.integers(0, len(X), rows)] + 0.1 * rng.normal(size=(rows, X.shape[1]))
    two = y % 2
    batches: dict[str, tuple[Any, str]] = {
        "SVC, ten digits": (SVC().fit(X, y), "predict"),
        "SVC, two classes": (SVC().fit(X, two), "predict"),
        "SVC, decision values": (SVC().fit(X, two), "decision_function"),
        "SVR": (SVR().fit(X, y), "predict"),
        "KernelRidge": (KernelRidge(kernel="rbf", gamma=0.05).fit(X, y), "predict"),
        "GaussianProcessRegressor": (
            GaussianProcessRegressor(RBF(2.0) + WhiteKernel(0.1), optimizer=None).fit(X, y),
            "predict",
        ),
        "KernelDensity": (KernelDensity(bandwidth=0.5).fit(X), "score_samples"),
    }
    found |= {
        f"{name}, {rows:,} rows": _batch(model, method, many)
        for name, (model, method) in batches.items()
    }
    return found


def _search(X: Any, y: Any) -> dict[str, float]:
    """Of a search by cross-validation on three folds."""

    def searched() -> GridSearchCV:
        return GridSearchCV(SVC(), GRID, cv=3).fit(X, y)

    without = searched()
    with kl.patched():
        same = searched()
    for key in ("mean_test_score", "std_test_score"):
        np.testing.assert_array_equal(without.cv_results_[key], same.cv_results_[key])
    predicting = float(np.sum(without.cv_results_["mean_score_time"]) * without.n_splits_)
    training = float(np.sum(without.cv_results_["mean_fit_time"]) * without.n_splits_)
    share = predicting / (predicting + training)
    return _both(searched) | {"share_of_predicting": share}


def _batch(model: Any, method: str, rows: Any) -> dict[str, float]:
    def asked() -> Any:
        return getattr(model, method)(rows)

    own = asked()
    with kl.patched():
        ours = asked()
        if own.dtype.kind == "f":
            np.testing.assert_allclose(ours, own, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(ours, own)
    return _both(asked)


def _both(work: Callable[[], Any]) -> dict[str, float]:
    """Without and with the patch, in turns; compiling is part of each turn with it."""
    without, patched = [], []
    for _ in range(REPEATS):
        without.append(_seconds(work))
        with kl.patched():
            patched.append(_seconds(work))
    return {"without": min(without), "patched": min(patched)}


def _seconds(work: Callable[[], Any]) -> float:
    begin = process_time()
    work()
    return process_time() - begin


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.patched")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=results.FOLDER)
    args = parser.parse_args(argv)
    with kl.limit_threads(1):
        found = measured(args.rows)
    table = [
        [
            name,
            f"{one['without']:.2f}",
            f"{one['patched']:.2f}",
            f"{one['without'] / one['patched']:.1f}",
            f"{one['share_of_predicting']:.0%}" if "share_of_predicting" in one else "-",
        ]
        for name, one in found.items()
    ]
    print_table(["", "without, s", "patched, s", "times", "share of predicting"], table)
    print(results.save("patched", found, PRESETS["quick"], "quick", args.out))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
