"""The board as text and picture: tables for a terminal, Markdown for the docs, an SVG."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.board.goals import Judgement, geometric_mean, ratio
from benchmarks.board.large import large_part
from benchmarks.report import markdown, micros, times

__all__ = ["busy", "case_table", "cost_table", "draw", "page", "summary_table"]

Table = tuple[list[str], list[list[str]]]
Found = dict[str, Any]
BUSY = 4.0  # processes that want to run; the board itself is about two
KINDS: dict[str, Callable[[Found], bool]] = {
    "SVC, two classes": lambda c: c["group"] == "labels" and c["classes"] == 2,
    "SVC, several classes": lambda c: c["group"] == "labels" and c["classes"] > 2,
    "SVC with defaults": lambda c: c["name"].endswith(" default"),
    "SVC, C and gamma searched": lambda c: c["name"].endswith(" tuned"),
    "all SVCs": lambda c: c["group"] == "labels" and c["classes"] > 1,
    "the paper's models": lambda c: c["group"] == "paper",
    "SVR": lambda c: c["estimator"] == "SVR",
    "OneClassSVM": lambda c: c["estimator"] == "OneClassSVM",
    "KernelRidge": lambda c: c["estimator"] == "KernelRidge",
    "GaussianProcessRegressor": lambda c: c["estimator"] == "GaussianProcessRegressor",
    "KernelDensity": lambda c: c["estimator"] == "KernelDensity",
}


def summary_table(cases: list[Found]) -> Table:
    """Geometric means and worst cases per kind of model."""
    columns = ["models", "cases", "times scikit-learn", "worst", "times intelex", "worst"]
    columns += ["times exact", "worst", "one row", "worst", "compile, slowest"]
    rows = []
    for title, belongs in KINDS.items():
        mine = [case for case in cases if belongs(case)]
        if not mine:
            continue
        cells = [title, str(len(mine))]
        for peer in ("scikit-learn", "scikit-learn-intelex", "exact"):
            cells += _mean_and_worst([ratio(case, peer) for case in mine])
        cells += _mean_and_worst([_one_row_gain(case) for case in mine])
        spent = [case["compile_seconds"].get("certified", math.nan) for case in mine]
        rows.append([*cells, f"{max(spent):.2g} s"])
    return columns, rows


def case_table(cases: list[Found]) -> Table:
    """Speed of a batch: a line per case."""
    columns = ["model", "SVs x features (classes)", "scikit-learn µs", "intelex µs", "exact µs"]
    columns += ["certified µs", "calibrated µs", "times scikit-learn", "times intelex"]
    rows = []
    for case in cases:
        spent = case["microseconds"]
        size = f"{case['support_vectors']:,} x {case['features']}"
        size += f" ({case['classes']})" if case["classes"] > 2 else ""
        names = ("scikit-learn", "scikit-learn-intelex", "exact", "certified", "calibrated")
        cells = [case["name"], size, *(micros(spent.get(name)) for name in names)]
        cells += [times(ratio(case, "scikit-learn")), times(ratio(case, "scikit-learn-intelex"))]
        rows.append(cells)
    return columns, rows


def cost_table(cases: list[Found]) -> Table:
    """What else is to be known of certified: a line per case."""
    columns = ["model", "plan", "rows per stage", "time / exact", "time / runner-up", "compile s"]
    columns += ["one row: scikit-learn µs", "certified µs", "decision_function", "predict_proba"]
    columns += ["bytes", "exact bytes"]
    rows = []
    for case in cases:
        choice, one = case["choice"], case["one_row"]
        stages = ", ".join(f"{k} {100 * v:.3g}%" for k, v in case.get("stages", {}).items() if v)
        cells = [case["name"], case.get("plan", "-"), stages or "-"]
        for rival in ("exact", "runner-up"):
            known = rival in choice and "certified" in choice
            cells.append(f"{choice['certified'] / choice[rival]:.2f}" if known else "-")
        spent = case["compile_seconds"].get("certified")
        cells.append("-" if spent is None else f"{spent:.2f}")
        cells += [micros(one.get("scikit-learn")), micros(one.get("certified"))]
        for method in ("decision_function", "predict_proba"):
            found = case["methods"].get(method)
            timed = found is not None and "certified" in found
            cells.append(times(found["scikit-learn"] / found["certified"]) if timed else "-")
        cells += [_count(case["bytes"].get(name)) for name in ("certified", "exact")]
        rows.append(cells)
    return columns, rows


def busy(cases: list[Found]) -> str:
    """A sentence about the cases that other work on the machine may have disturbed, or nothing."""
    names = [case["name"] for case in cases if (case.get("load") or 0.0) > BUSY]
    if not names:
        return ""
    return f"Measured while the machine was busy with other work: {', '.join(names)}."


def page(
    document: dict[str, Any],
    judgements: list[Judgement],
    picture: str,
    large: dict[str, Any] | None = None,
) -> str:
    """The board as Markdown, with the part of large models where that was measured."""
    cases = document["content"]
    goals = [f"| {one.goal} | {_verdict(one)} | {one.found} |" for one in judgements]
    parts = [
        "# The board: models that people really fit",
        "`SVC()` with its defaults on standardised rows, the same after a small grid search, "
        "regressions, one-class machines and the paper's models, all predicted in batches. "
        "Answers are compared before anything is timed: labels are scikit-learn's, values "
        "within the stated tolerance. Certified is `kernelite.compile(model, X)`.",
        f"![Times faster than scikit-learn]({picture})",
        "How many times faster certified is: the geometric mean, and the worst case beside it.",
        markdown(*summary_table(cases)),
        "## Every model",
        f"Microseconds per row, best of {document['settings']['rounds']} turns, in one process.",
        markdown(*case_table(cases)),
        *filter(None, [busy(cases)]),
        "What certified chose and costs; times of one row are medians.",
        markdown(*cost_table(cases)),
        "## Goals",
        "What was aimed at before anything was measured, and what was found.",
        "\n".join(["| goal | holds | found |", "|---|---|---|", *goals]),
        f"Measured on {machine.in_words(document['machine'])}. Reproduce with "
        "`python -m benchmarks board`; with any other data, label in the last column: "
        "`python -m benchmarks board --csv FILE`.",
        *([] if large is None else large_part(large)),
    ]
    return "\n\n".join(parts) + "\n"


def draw(cases: list[Found], path: Path) -> None:
    """Times faster than scikit-learn, a line of dots per case, as SVG."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "kernelite", "svg.fonttype": "none"})
    from matplotlib import pyplot as plt

    ordered = sorted(cases, key=lambda case: ratio(case, "scikit-learn") or 0.0)
    height = 1.0 + 0.19 * len(ordered)
    figure, axes = plt.subplots(figsize=(7, height), layout="constrained")
    shown = (("scikit-learn-intelex", "#8a8a8a"), ("exact", "#d1602b"), ("certified", "#1f6fb2"))
    for name, colour in shown:
        points = [(ratio(case, "scikit-learn", name), y) for y, case in enumerate(ordered)]
        known = [(x, y) for x, y in points if x is not None]
        label = name if "-" in name else f"kernelite {name}"
        axes.scatter(*zip(*known) if known else ([], []), s=22, color=colour, label=label, zorder=3)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(ordered)), [case["name"] for case in ordered], fontsize=7)
    axes.set(xscale="log", xlabel="times faster than scikit-learn, rows in batches")
    axes.grid(axis="x", which="both", alpha=0.25)
    axes.grid(axis="y", alpha=0.15)
    axes.legend(fontsize=7, loc="lower right")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _mean_and_worst(values: list[float | None]) -> list[str]:
    known = [value for value in values if value is not None]
    return [times(geometric_mean(known)), times(min(known))] if known else ["-", "-"]


def _one_row_gain(case: Found) -> float | None:
    one = case["one_row"]
    if "scikit-learn" not in one or "certified" not in one:
        return None
    return one["scikit-learn"] / one["certified"]


def _verdict(one: Judgement) -> str:
    return {True: "yes", False: "no", None: "-"}[one.holds]


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
