"""`python -m benchmarks.own_kernels`: matrices, functions, chi-squared kernels, bumps of densities.

Times faster than scikit-learn, in processor time of one thread, best of three, 2,000 training rows
and 2,000 rows to answer. Answers are compared first.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.neighbors import KernelDensity
from sklearn.svm import SVC

import kernelite as kl
from kernelite.cli.console import print_table

__all__ = ["main", "measured"]

BUMPS = ("tophat", "epanechnikov", "linear", "cosine", "exponential")


def measured(count: int = 2000) -> dict[str, float]:
    """Times faster, by name."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(2, count, 3))
    y = X[:, 0] + 0.5 * rng.normal(size=count) > 0
    found = {}
    for name in BUMPS:
        density = KernelDensity(kernel=name, bandwidth=0.5).fit(X)
        found[f"KernelDensity, {name}"] = _times(density, "score_samples", Z)
    for name in ("chi2", "additive_chi2"):
        ridge = KernelRidge(kernel=name, gamma=0.1).fit(np.abs(X), X[:, 0])
        found[f"KernelRidge, {name}"] = _times(ridge, "predict", np.abs(Z))
    matrix, rows = gaussian(X, X), gaussian(Z, X)
    svc = SVC(kernel="precomputed").fit(matrix, y)
    found["SVC, precomputed"] = _times(svc, "predict", rows)
    few = np.ascontiguousarray(rows[:, svc.support_])
    found["SVC, precomputed, support columns"] = _times(svc, "predict", rows, few)
    found["SVC, a function"] = _times(SVC(kernel=gaussian).fit(X, y), "predict", Z)
    return found


def gaussian(A: Any, B: Any) -> Any:
    """exp(-|a - b|^2) by one product."""
    squares = np.square(A).sum(axis=1)[:, None] + np.square(B).sum(axis=1) - 2.0 * A @ B.T
    return np.exp(-squares)


def _times(model: Any, method: str, rows: Any, ours: Any = None) -> float:
    fast = kl.compile(model, guarantee="exact")
    ours = rows if ours is None else ours
    answers: Any = getattr(fast, method)(ours), getattr(model, method)(rows)
    if method == "score_samples":  # where densities are zero, scikit-learn's trees leave a trace
        answers = map(np.exp, answers)
    np.testing.assert_allclose(*answers, rtol=1e-6, atol=1e-6)
    own = _seconds(lambda: getattr(model, method)(rows))
    return own / _seconds(lambda: getattr(fast, method)(ours))


def _seconds(work: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(3):
        begin = process_time()
        work()
        best = min(best, process_time() - begin)
    return best


def main() -> int:
    """Measure and print."""
    with kl.limit_threads(1):
        found = measured()
    print_table(["", "times faster"], [[name, f"{one:.1f}"] for name, one in found.items()])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
