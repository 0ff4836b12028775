"""Shapley values, gradients and radii, against what a user would pick instead.

    python -m benchmarks.explain [--rows 16] [--no-digits]

Shapley values of an SVR with 1,000 support vectors, 20 features and 100 background rows, against
shap's KernelExplainer over scikit-learn's predict and over the compiled model; values are compared
first. shapiq's ProductKernelExplainer, where it is installed, is timed beside: it takes players out
instead of replacing them by background rows, which is another question. Then digits of 784 pixels,
gradients against values, and how near radii come to attacks. All in one process; the best of
several turns counts. `process` is the processor's time of all threads, which a busy machine leaves
alone: half of it is what two quiet cores take.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from time import perf_counter, process_time
from typing import Any

import numpy as np
from sklearn.svm import SVC, SVR

import kernelite as kl

TURNS = 3


def timed(call: Callable[[], Any], turns: int = TURNS) -> tuple[float, float]:
    """Seconds by the clock and of the processor, the best of some turns after one more."""
    call()
    found = []
    for _ in range(turns):
        clock, process = perf_counter(), process_time()
        call()
        found.append((perf_counter() - clock, process_time() - process))
    return min(one for one, _ in found), min(one for _, one in found)


def say(name: str, seconds: tuple[float, float], per: int, more: str = "") -> None:
    """One line: milliseconds per row."""
    clock, process = (1e3 * one / per for one in seconds)
    print(f"{name:<44}{clock:12.3f} ms per row {process:12.3f} ms process  {more}", flush=True)


def tabular(rows: int) -> None:
    """1,000 centers, 20 features, 100 background rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 20))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2]
    model = SVR(gamma=0.05, C=10.0, epsilon=1e-6).fit(X, y)
    fast = kl.compile(model, X, guarantee="exact")
    background, asked = X[:100], rng.normal(size=(rows, 20))
    print(f"{len(model.support_)} support vectors, 20 features, 100 background rows")
    found = fast.shap_values(asked, background)
    gap = np.abs(found.base_values + found.values.sum(axis=1) - model.predict(asked)).max()
    ours = timed(lambda: fast.shap_values(asked, background))
    say("kernelite", ours, rows, f"bound {found.bounds.max():.1e}, sums agree to {gap:.1e}")
    loose = timed(lambda: fast.shap_values(asked, background, tolerance=1e-3))
    say("kernelite, tolerance 1e-3", loose, rows)
    if find_spec("shap"):
        import shap

        for name, predict in (("compiled", fast.predict), ("scikit-learn's", model.predict)):
            explainer = shap.KernelExplainer(predict, background)
            values = explainer.shap_values(asked[:1], silent=True)
            off = np.abs(values - found.values[:1]).max()
            call = timed(lambda e=explainer: e.shap_values(asked[:1], silent=True), 1)
            times = call[1] * rows / ours[1], call[0] * rows / ours[0]
            words = f"{times[0]:,.0f} times ours by process, {times[1]:,.0f} by clock"
            say(f"KernelExplainer over {name} predict", call, 1, f"{words}; off by {off:.1e}")
    if find_spec("shapiq"):
        from shapiq.explainer.product_kernel import ProductKernelExplainer

        other = ProductKernelExplainer(model)
        call = timed(lambda: other.explain(asked[0]), 1)
        say("shapiq's ProductKernelExplainer", call, 1, "(another value function)")


def digits() -> None:
    """784 pixels, 2,000 centers, 10 background rows."""
    rng = np.random.default_rng(1)
    X = rng.random((2000, 784)) * (rng.random((2000, 784)) < 0.2)
    model = kl.KernelExpansion(X, rng.normal(size=2000), 0.0, gamma=0.02)
    fast = kl.compile(model, guarantee="exact")
    background, asked = X[:10], X[100:104]
    found = fast.shap_values(asked, background)
    seconds = timed(lambda: fast.shap_values(asked, background))
    say("2,000 centers, 784 features, 10 background", seconds, 4, f"bound {found.bounds.max():.1e}")


def slopes() -> None:
    """Gradients with their values, against values."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(1000, 20))
    model = SVR(gamma=0.05, epsilon=1e-6).fit(X, np.sin(X[:, 0]))
    fast = kl.compile(model, X, guarantee="exact")
    asked = rng.normal(size=(4000, 20))
    say("scikit-learn's predict", timed(lambda: model.predict(asked)), 4000)
    say("compiled predict", timed(lambda: fast.predict(asked)), 4000)
    exact = timed(lambda: fast.expansion.scores(asked))
    say("exact values in doubles, by NumPy", exact, 4000)
    say("gradient, with values", timed(lambda: fast.gradient(asked, return_value=True)), 4000)
    both = timed(lambda: fast.gradient(asked, return_value=True, return_bound=True))
    say("gradient, with values and bounds", both, 4000)


def radii() -> None:
    """How far labels hold, as a share of the nearest other label that an attack finds."""
    for d, gamma in ((2, 0.5), (5, 0.1), (20, 0.05), (20, 0.01)):
        rng = np.random.default_rng(d)
        X = rng.normal(size=(600, d))
        y = np.sin(2.0 * X[:, 0]) + X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=600) > 0
        fast = kl.compile(SVC(gamma=gamma, C=5.0).fit(X, y), X)
        asked = rng.normal(size=(400, d))
        for norm in ("l2", "linf"):
            seconds = timed(partial(fast.radius, asked, norm=norm), 1)
            shares = fast.radius(asked, norm=norm) / _attacked(fast, asked, norm)
            shares = shares[np.isfinite(shares)]
            words = f"radius / attack: median {np.median(shares):.2f}, largest {shares.max():.3f}"
            say(f"radius {norm}, {d} features, gamma {gamma}", seconds, 400, words)


def _attacked(fast: Any, X: Any, norm: str) -> Any:
    """Distances to another label, by Newton steps to the boundary and halving on the way back."""
    first, best, Z = fast.gradient(X, return_value=True)[0], np.full(len(X), np.inf), X.copy()
    for _ in range(8):
        value, slope = fast.gradient(Z, return_value=True)
        if norm == "l2":
            step = -slope * (value / np.maximum(np.square(slope).sum(axis=1), 1e-300))[:, None]
        else:
            step = (
                -np.sign(slope) * (value / np.maximum(np.abs(slope).sum(axis=1), 1e-300))[:, None]
            )
        Z = Z + 1.02 * step
        low, high, way = np.zeros(len(X)), np.ones(len(X)), Z - X
        for _ in range(30):
            middle = (low + high) / 2.0
            there = fast.gradient(X + middle[:, None] * way, return_value=True)[0]
            other = np.sign(there) != np.sign(first)
            high, low = np.where(other, middle, high), np.where(other, low, middle)
        length = np.sqrt(np.square(way).sum(axis=1)) if norm == "l2" else np.abs(way).max(axis=1)
        crossed = np.sign(fast.gradient(Z, return_value=True)[0]) != np.sign(first)
        best = np.where(crossed, np.minimum(best, length * high), best)
    return best


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=16, help="rows to explain (default: 16)")
    parser.add_argument("--no-digits", action="store_true", help="leave the wide model out")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    tabular(args.rows)
    if not args.no_digits:
        digits()
    slopes()
    radii()


if __name__ == "__main__":
    main()
