"""Plots of the results, as SVG next to the JSON (matplotlib, extra `bench`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import results

__all__ = ["draw", "ratios"]

LABELS = {
    "support_vectors": "support vectors",
    "features": "features",
    "rows": "rows of a call",
    "threads": "threads",
}


def draw(folder: Path = results.FOLDER) -> list[Path]:
    """Draw what there are results of; the paths of the plots."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "kernelite", "svg.fonttype": "none"})
    drawn = []
    if (document := results.load("scaling", folder)) is not None:
        for axis in LABELS:
            drawn.append(_curve(document["content"][axis], axis, folder))
    if (document := results.load("batch", folder)) is not None:
        drawn += [_scatter(workload, folder) for workload in document["content"]]
    return drawn


def _curve(points: list[dict[str, Any]], axis: str, folder: Path) -> Path:
    """Microseconds per row along an axis, both logarithmic."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    names = dict.fromkeys(name for point in points for name in point["microseconds"])
    for name in names:
        known = [point for point in points if name in point["microseconds"]]
        axes.plot(
            [point[axis] for point in known],
            [point["microseconds"][name] for point in known],
            marker="o",
            markersize=3,
            label=name,
        )
    axes.set(xlabel=LABELS[axis], ylabel="microseconds per row", yscale="log")
    if axis != "threads":
        axes.set_xscale("log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    return _saved(figure, folder / f"scaling-{axis.replace('_', '-')}.svg")


def _scatter(workload: dict[str, Any], folder: Path) -> Path:
    """Microseconds per row against the share of labels that differ."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    for one in workload["contestants"]:
        share = one["rows_differ"] / one["rows_checked"]
        marker = "s" if one["kind"] == "kernelite" else "o"
        (point,) = axes.plot(100 * share, one["microseconds"], marker, label=one["name"])
        point.set_alpha(0.8)
    axes.set(xlabel="labels that differ (%)", ylabel="microseconds per row", yscale="log")
    axes.set_xscale("symlog", linthresh=0.01)
    axes.set_title(workload["name"], fontsize=9)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=6)
    name = "".join(c if c.isalnum() else "-" for c in workload["name"])
    return _saved(figure, folder / f"batch-{name}.svg")


def ratios(
    entries: list[tuple[str, dict[str, float | None]]],
    asked: list[dict[str, float | None]],
    path: Path,
) -> Path:
    """Two bars per answer, logarithmic: in batches and for one row; a line where one was asked."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "kernelite", "svg.fonttype": "none"})
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 0.34 * len(entries) + 1), layout="constrained")
    for shift, (which, word, color) in enumerate(
        (("batch", "in batches", "tab:blue"), ("one_row", "one row", "tab:orange"))
    ):
        places = [i + 0.4 * shift - 0.2 for i in range(len(entries))]
        axes.barh(places, [values[which] or 1.0 for _, values in entries], 0.36, color=color)
        wanted = [(one[which], place) for one, place in zip(asked, places) if one[which]]
        axes.plot([w for w, _ in wanted], [p for _, p in wanted], "|", color="black", markersize=8)
        axes.barh([0], [0], color=color, label=word)
    axes.plot([], [], "|", color="black", label="asked")
    axes.set_yticks(range(len(entries)), [name for name, _ in entries], fontsize=7)
    axes.set(xlabel="times faster than scikit-learn", xscale="log", xlim=(0.8, None))
    axes.invert_yaxis()
    axes.grid(alpha=0.3, axis="x")
    axes.legend(fontsize=7)
    return _saved(figure, path)


def _saved(figure: Any, path: Path) -> Path:
    from matplotlib import pyplot as plt

    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path
