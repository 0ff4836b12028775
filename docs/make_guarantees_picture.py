"""Draws docs/img/guarantees.png: errors and bounds of an SVC on scikit-learn's breast cancer data.

pip install -e '.[docs]' && python docs/make_guarantees_picture.py
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale
from sklearn.svm import SVC

from kernelite.backends.cpu.exact import ExactEngine
from kernelite.machine.expansion import KernelExpansion
from kernelite.series.approximation import certify
from kernelite.series.cubic import cubic_form, cubic_tensor, cubic_values
from kernelite.series.series import quadratic_form
from kernelite.sources import read

OUT = Path(__file__).parent / "img" / "guarantees.png"
GAMMA = 0.006
FORM, CUBIC, TERMS = "#1f6fb2", "#d1602b", "#8a8a8a"


def measured(expansion: KernelExpansion, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Distances, scores, errors and bounds of the rows: each of shape (m,)."""
    point = expansion.dense_centers().mean(axis=0)
    form, certificate = quadratic_form(expansion, point), certify(expansion, point)
    exact = ExactEngine.prepare(expansion).run(rows).scores
    second, squares, _ = form.evaluate(rows)
    tensor = cubic_form([cubic_tensor(expansion, point, 0)], expansion.n_features)
    third = np.exp(-expansion.gamma * squares)[:, None] * cubic_values(tensor.packed, rows - point)
    found = {
        "distance": np.sqrt(squares),
        "form score": second,
        "cubic score": second + third,
        "form error": np.abs(exact - second),
        "form bound": certificate.bound(squares, second, 2),
        "cubic error": np.abs(exact - second - third),
        "cubic bound": certificate.bound(squares, second + third, 3),
        "terms": term_by_term(expansion, point, squares),
    }
    return {name: values.reshape(len(rows)) for name, values in found.items()}


def term_by_term(expansion: KernelExpansion, point: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """sum_i |w_i| r(2 gamma |s_i| |u|) e^(-gamma |u|^2): the bound that knows no cancellation."""
    norms = np.linalg.norm(expansion.dense_centers() - point, axis=1)
    w = np.abs(expansion.coefficients[:, 0]) * np.exp(-expansion.gamma * norms**2)
    t = 2.0 * expansion.gamma * np.outer(np.sqrt(squares), norms)
    remainders = sum(t**j / math.factorial(j) for j in range(3, 60))
    return np.asarray((remainders @ w) * np.exp(-expansion.gamma * squares))


def draw_by_distance(axes: Any, found: dict[str, np.ndarray]) -> None:
    """Errors as points, bounds as lines, against |u|."""
    order = np.argsort(found["distance"])
    x = found["distance"][order]
    axes.plot(x, found["terms"][order], color=TERMS, ls=":", label="term-by-term bound")
    axes.plot(x, found["form bound"][order], color=FORM, label="bound, quadratic form")
    axes.plot(x, found["cubic bound"][order], color=CUBIC, label="bound, cubic form")
    axes.plot(x, found["form error"][order], ".", ms=3, color=FORM, label="error, quadratic form")
    axes.plot(x, found["cubic error"][order], ".", ms=3, color=CUBIC, label="error, cubic form")
    axes.set(yscale="log", ylim=(1e-7, None), xlabel="|u|, distance from the expansion point")
    axes.set_ylabel("error of the score")
    axes.legend(fontsize=7, loc="lower right")


def draw_by_score(axes: Any, found: dict[str, np.ndarray]) -> None:
    """Scores against bounds: rows to the right of the diagonal have proven labels."""
    for name, colour in (("form", FORM), ("cubic", CUBIC)):
        size, bound = np.abs(found[f"{name} score"]), found[f"{name} bound"]
        proven = 100 * np.mean(size > bound)
        label = f"{'quadratic' if name == 'form' else name} form: {proven:.1f}% proven"
        axes.plot(size, bound, ".", ms=3, color=colour, label=label)
    ends = np.array([1e-3, 1e1])
    axes.plot(ends, ends, color="black", lw=1)
    axes.fill_between(ends, ends, 1e2, color="black", alpha=0.06, lw=0)
    axes.text(1.6e-3, 4e0, "left to the exact model", fontsize=8)
    axes.text(1.6e-3, 2e-5, "label proven", fontsize=8)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=(1e-5, 1e1))
    axes.set(xlabel="|score|", ylabel="bound on its error")
    axes.legend(fontsize=7, loc="lower center")


def main() -> None:
    """Fit, measure, draw."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    svc = SVC(gamma=GAMMA, C=10.0).fit(X[::2], y[::2])
    found = measured(read(svc).expansion, X)
    assert (found["form error"] <= found["form bound"]).all()
    assert (found["cubic error"] <= found["cubic bound"]).all()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    draw_by_distance(left, found)
    draw_by_score(right, found)
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=110, metadata={"Software": None})
    for name in ("form", "cubic"):
        ratio = np.median(found[f"{name} bound"] / np.maximum(found[f"{name} error"], 1e-300))
        print(f"{name}: the bound is {ratio:.0f} times the error at the median row")
    print(f"term by term: {np.median(found['terms'] / found['form error']):.0f} times")
    print(f"{OUT} written")


if __name__ == "__main__":
    main()
