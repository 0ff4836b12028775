"""Shapley values, gradients and radii, against what a user would pick instead.

    python -m benchmarks.explain [--device cuda] [--no-page]

Shapley values of an SVR with 1,000 support vectors, 20 features and 100 background rows, against
shap's KernelExplainer over scikit-learn's predict and over the compiled model; values are compared
first. shapiq's ProductKernelExplainer, where it is installed, is timed beside: it takes players out
instead of replacing them by background rows, which is another question. Then rows of 784 pixels,
gradients against values, and how near radii come to attacks. All in one process; the best of
several turns counts, of explainers that take seconds the only one. `process` is the processor's
time of all threads, which a busy machine leaves alone: half of it is what two quiet cores take.

The figures become docs/measured/explain.md. `--device` times Shapley values on a device of torch's
as well, and compares them with the processors'.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.svm import SVC, SVR

import kernelite as kl
from benchmarks import machine, results

PAGE = Path(__file__).parents[1] / "docs" / "measured" / "explain.md"
PICTURE = PAGE.parents[1] / "img" / "explain.svg"
TURNS = 5
ASKED = 16  # rows to explain
ATTACKED = 10_000  # rows
EXPONENTIAL = 15  # multiply-adds of an exponential in doubles, about

Line = dict[str, Any]


def timed(call: Callable[[], Any], turns: int = TURNS) -> tuple[float, float]:
    """Seconds by the clock and of the processor: the best of some turns; several after one more."""
    if turns > 1:
        call()
    found = []
    for _ in range(turns):
        clock, process = perf_counter(), process_time()
        call()
        found.append((perf_counter() - clock, process_time() - process))
    return min(one for one, _ in found), min(one for _, one in found)


def line(name: str, seconds: tuple[float, float], rows: int, said: str = "", **more: Any) -> Line:
    """One line of a table, in milliseconds per row; it is printed at once."""
    clock, process = (1e3 * one / rows for one in seconds)
    print(f"{name:<48}{clock:12.4f} ms{process:12.4f} ms process  {said}", flush=True)
    return {"name": name, "clock_ms": clock, "process_ms": process, "said": said, **more}


# Shapley values.


def shapley_models() -> dict[str, tuple[Any, Any, Any, Any]]:
    """The two models that are explained: source, compiled, rows, background."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 20))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2]
    source = SVR(gamma=0.05, C=10.0, epsilon=1e-6).fit(X, y)
    table = kl.compile(source, X, guarantee="exact")
    rng = np.random.default_rng(1)
    P = rng.random((2000, 784)) * (rng.random((2000, 784)) < 0.2)
    wide = kl.KernelExpansion(P, rng.normal(size=2000), 0.0, gamma=0.02)
    return {
        "table": (source, table, np.random.default_rng(2).normal(size=(ASKED, 20)), X[:100]),
        "pixels": (None, kl.compile(wide, guarantee="exact"), P[100:104], P[:10]),
    }


def shapley(models: dict[str, tuple[Any, Any, Any, Any]]) -> list[Line]:
    """1,000 centers, 20 features, 100 background rows; then 2,000 centers of 784 features."""
    source, fast, asked, background = models["table"]
    found = fast.shap_values(asked, background)
    gap = np.abs(found.base_values + found.values.sum(axis=1) - source.predict(asked)).max()
    ours = timed(lambda: fast.shap_values(asked, background))
    said = f"bounds up to {found.bounds.max():.1e}; sums agree with predict to {gap:.1e}"
    lines = [line("kernelite", ours, ASKED, said)]
    lines += _explainers(source, fast, asked, background, found.values, ours)
    _, wide, pixels, others = models["pixels"]
    bound = wide.shap_values(pixels, others).bounds.max()
    seconds = timed(lambda: wide.shap_values(pixels, others))
    name = "kernelite, 784 features, 2,000 centers, 10 background"
    lines.append(line(name, seconds, len(pixels), f"bounds up to {bound:.1e}"))
    seconds = timed(lambda: wide.shap_values(pixels, others, tolerance=1e-3))
    lines.append(line("the same within 1e-3", seconds, len(pixels)))
    return lines


def _explainers(
    source: Any, fast: Any, asked: Any, background: Any, values: Any, ours: tuple[float, float]
) -> list[Line]:
    """shap's and shapiq's, of one row."""
    lines = []
    for name, predict in (("compiled", fast.predict), ("scikit-learn's", source.predict)):
        if not find_spec("shap"):
            break
        import shap

        explainer = shap.KernelExplainer(predict, background)
        kept: list[Any] = []
        call = timed(lambda e=explainer, k=kept: k.append(e.shap_values(asked[:1], silent=True)), 1)
        off = np.abs(kept[0] - values[:1]).max()
        times, by_clock = (one * len(asked) / own for one, own in zip(call[::-1], ours[::-1]))
        said = f"{times:,.0f} times ours ({by_clock:,.0f} by the clock); off by {off:.1e}"
        lines.append(line(f"KernelExplainer over {name} predict", call, 1, said, times=times))
    if find_spec("shapiq"):
        from shapiq.explainer.product_kernel import ProductKernelExplainer

        other = ProductKernelExplainer(source)
        call = timed(lambda: other.explain(asked[0]), 2)
        said = f"{call[1] * len(asked) / ours[1]:.1f} times ours; without background: another game"
        lines.append(line("shapiq's ProductKernelExplainer", call, 1, said))
    return lines


def on_device(models: dict[str, tuple[Any, Any, Any, Any]], device: str) -> list[Line]:
    """The same two models on a device of torch's, compared with processors first."""
    lines = []
    for name, (_, fast, asked, background) in models.items():
        here = fast.shap_values(asked, background)
        there = fast.shap_values(asked, background, device=device)
        off = np.abs(here.values - there.values)
        assert (off <= here.bounds + there.bounds).all(), "values on the device are off"
        many = np.tile(asked, (32 if name == "table" else 8, 1))
        seconds = timed(partial(fast.shap_values, many, background, device=device))
        said = f"agrees to {off.max():.1e}, bounds up to {there.bounds.max():.1e}"
        lines.append(line(f"{name} on {device}, {len(many)} rows", seconds, len(many), said))
    return lines


# Gradients.


def slopes() -> list[Line]:
    """Gradients with their values, against values."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(1000, 20))
    source = SVR(gamma=0.05, epsilon=1e-6).fit(X, np.sin(X[:, 0]))
    fast = kl.compile(source, X, guarantee="exact")
    asked, m = rng.normal(size=(4000, 20)), 4000
    lines = [line("scikit-learn's predict", timed(lambda: source.predict(asked)), m)]
    base = timed(lambda: fast.predict(asked))
    lines.append(line("values (predict, doubles)", base, m))
    calls = {
        "gradient and value": partial(fast.gradient, asked, return_value=True),
        "gradient, value and bounds": partial(
            fast.gradient, asked, return_value=True, return_bound=True
        ),
    }
    for name, call in calls.items():
        seconds = timed(call)
        said = f"{seconds[1] / base[1]:.2f} times values"
        lines.append(line(name, seconds, m, said, times=seconds[1] / base[1]))
    one = asked[:1]
    alone = timed(lambda: [fast.predict(one) for _ in range(100)])
    lines.append(line("values, one row at a time", alone, 100))
    seconds = timed(lambda: [fast.gradient(one, return_value=True) for _ in range(100)])
    lines.append(line("gradient and value, one row at a time", seconds, 100))
    return lines + _deviations()


def _deviations() -> list[Line]:
    """Of a Gaussian process."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 5))
    source = GaussianProcessRegressor(RBF(1.5), alpha=0.01, optimizer=None)
    fast = kl.compile(source.fit(X, np.sin(X[:, 0])), X, guarantee="exact")
    asked, m = rng.normal(size=(1000, 5)), 1000
    lines = [line("deviations (predict, return_std)", timed(lambda: fast.predict(asked, True)), m)]
    seconds = timed(lambda: fast.gradient(asked, of="std", return_value=True))
    lines.append(line("gradient and value of deviations", seconds, m))
    _, bounds = fast.gradient(asked, of="std", return_bound=True)
    seconds = timed(lambda: fast.gradient(asked, of="std", return_value=True, return_bound=True))
    said = f"bounds up to {bounds.max():.1e}"
    return [*lines, line("gradient, value and bounds of deviations", seconds, m, said)]


# Radii.


def radii() -> list[Line]:
    """How far labels hold, as a share of the nearest other label that an attack finds."""
    lines = []
    for d, gamma in ((2, 0.5), (5, 0.1), (20, 0.05), (20, 0.01)):
        rng = np.random.default_rng(d)
        X = rng.normal(size=(600, d))
        y = np.sin(2.0 * X[:, 0]) + X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=600) > 0
        fast = kl.compile(SVC(gamma=gamma, C=5.0).fit(X, y), X)
        asked = rng.normal(size=(ATTACKED, d))
        for norm in ("l2", "linf"):
            seconds = timed(partial(fast.radius, asked, norm=norm), 1)
            shares = fast.radius(asked, norm=norm) / _attacked(fast, asked, norm)
            shares = shares[np.isfinite(shares)]
            median, most = float(np.median(shares)), float(shares.max())
            said = f"radius / attack: median {median:.2f}, largest {most:.3f}"
            name = f"{norm}, {d} features, gamma {gamma}"
            lines.append(line(name, seconds, ATTACKED, said, median=median, most=most))
    return lines


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
        for _ in range(20):
            middle = (low + high) / 2.0
            other = np.sign(fast.decision_function(X + middle[:, None] * way)) != np.sign(first)
            high, low = np.where(other, middle, high), np.where(other, low, middle)
        length = np.sqrt(np.square(way).sum(axis=1)) if norm == "l2" else np.abs(way).max(axis=1)
        crossed = np.sign(fast.decision_function(Z)) != np.sign(first)
        best = np.where(crossed, np.minimum(best, length * high), best)
    return best


# The page.


def page(found: dict[str, Any]) -> str:
    """The figures as a page of the documentation."""
    values, both = 20 + EXPONENTIAL, 2 * 20 + 1 + EXPONENTIAL
    device = [
        "## On a GPU",
        "",
        *_table(found["device"]),
        "",
    ]
    lines = [
        "# Explanations",
        "",
        "Milliseconds per row by the clock and of the processor, all threads together; "
        "everything ran in one process, one after the other. `python -m benchmarks.explain` "
        "measures it again. [Why this answer?](../guide/explain.md) says what the numbers mean.",
        "",
        "## Shapley values",
        "",
        "Of an SVR with 1,000 support vectors, 20 features and 100 background rows, where nothing "
        "else is said. What KernelExplainer is off by is its sampling (2,088 coalitions).",
        "",
        "![Milliseconds per explained row](../img/explain.svg)",
        "",
        *_table(found["shapley"]),
        "",
        *(device if found["device"] else []),
        "## Gradients",
        "",
        "Of an SVR with 1,000 support vectors and 20 features, batches of 4,000 rows; deviations "
        "of a Gaussian process with 400 training rows and 5 features, batches of 1,000. Counted "
        f"per row and support vector, a value takes 20 multiply-adds and an exponential of about "
        f"{EXPONENTIAL}, {values} in all; with its gradient it takes 21 more, {both}: "
        f"{both / values:.1f} times a value is the least that one pass can reach.",
        "",
        *_table(found["slopes"]),
        "",
        "## How far labels hold",
        "",
        "Of an SVC fitted on 600 rows. The attack looks for the nearest point with another label "
        f"by Newton steps and halving, on {ATTACKED:,} rows: a radius above it would be wrong, "
        "and one near to it is tight.",
        "",
        *_table(found["radii"]),
        "",
        f"Measured on {machine.in_words(found['machine'])}.",
        "",
    ]
    return "\n".join(lines)


def _table(lines: list[Line]) -> list[str]:
    made = ["| | clock, ms | processor, ms | |", "|---|--:|--:|---|"]
    for one in lines:
        clock, process = (f"{one[key]:,.4g}" for key in ("clock_ms", "process_ms"))
        made.append(f"| {one['name']} | {clock} | {process} | {one['said']} |")
    return made


def draw(lines: list[Line]) -> None:
    """Milliseconds per explained row, as bars."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "kernelite", "svg.fonttype": "none"})
    from matplotlib import pyplot

    shown = [one for one in lines if "784" not in one["name"] and "same" not in one["name"]]
    figure, axes = pyplot.subplots(figsize=(7, 1.0 + 0.4 * len(shown)), layout="constrained")
    axes.barh([one["name"] for one in shown], [one["clock_ms"] for one in shown], height=0.6)
    axes.set(xscale="log", xlabel="milliseconds per explained row")
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", help="time Shapley values on a device of torch's as well")
    parser.add_argument("--no-page", action="store_true", help="print the figures, write nothing")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    models = shapley_models()
    found: dict[str, Any] = {
        "machine": machine.describe(),
        "shapley": shapley(models),
        "device": on_device(models, args.device) if args.device else [],
        "slopes": slopes(),
        "radii": radii(),
    }
    if not args.no_page:
        text = json.dumps(found, indent=1) + "\n"
        (results.FOLDER / "explain.json").write_text(text, encoding="utf-8")
        PAGE.write_text(page(found), encoding="utf-8")
        draw(found["shapley"])


if __name__ == "__main__":
    main()
