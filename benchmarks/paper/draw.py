"""Figures as SVG whose colours are CSS variables: one drawing suits light and dark pages."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["PALETTE", "Figure", "figures", "standalone", "variables"]

INK, LINE = "#010203", "#040506"
SERIES = ("#0a0b01", "#0a0b02", "#0a0b03", "#0a0b04", "#0a0b05", "#0a0b06", "#0a0b07")
VARIABLES = {INK: "--ink", LINE: "--line"} | {c: f"--c{i}" for i, c in enumerate(SERIES)}


SWEEP_TICKS, DIFFER_TICKS = (0.1, 0.5, 1, 5, 10, 50), (0, 0.1, 1, 10, 100)


def _colours(words: str) -> tuple[str, ...]:
    return tuple(f"#{word}" for word in words.split())


PALETTE = {
    "light": _colours("1d2127 c9ced6 1f5fbf c2410c 15803d 7e22ce 0e7490 b91c1c 6b7280"),
    "dark": _colours("e6e8eb 3f4650 7ab0ff ff9a62 6cd58b c79bff 5fd0e6 ff8a8a a3abb7"),
}
"""Ink, lines, then the series, by scheme."""


@dataclass(frozen=True)
class Figure:
    """A drawing: `name` for files, `caption` for people, `svg` whose colours are variables."""

    name: str
    caption: str
    svg: str


def figures(document: dict[str, Any]) -> list[Figure]:
    """All figures that there are results of."""
    import matplotlib

    matplotlib.use("Agg")
    curves = document.get("curves", {})
    drawn = []
    for key, draw in (
        ("series", _series),
        ("bound", _bound),
        ("sweep", _sweep),
        ("vectors", _vectors),
    ):
        if curves.get(key):
            drawn.append(draw(curves[key]))
    return drawn


def standalone(figure: Figure) -> str:
    """The figure as a file of its own, dark on white: it cannot know the colours of its page."""
    light = variables(PALETTE["light"])
    style = f'<style>svg{{{light}}}</style><rect width="100%" height="100%" fill="#fff"/>'
    return re.sub(r"(<svg[^>]*>)", lambda match: match.group(1) + style, figure.svg, count=1)


def variables(colours: tuple[str, ...]) -> str:
    """CSS declarations of a palette.

    Examples
    --------
    >>> variables(("#000", "#111", "#222"))
    '--ink:#000;--line:#111;--c0:#222;'
    """
    return "".join(f"{name}:{value};" for name, value in zip(VARIABLES.values(), colours))


def _series(found: dict[str, Any]) -> Figure:
    figure, axes = _axes("x", "relative error (%)")
    error = [100 * value for value in found["error"]]
    axes.plot(found["x"], error, color=SERIES[0])
    axes.axvspan(-found["valid"], found["valid"], color=SERIES[6], alpha=0.15, linewidth=0)
    axes.axhline(3.05, color=SERIES[1], linewidth=1, linestyle="--")
    axes.text(0.0, 3.6, "3.05%", color=SERIES[1], ha="center")
    caption = (
        "The paper's figure (its appendix): relative error of 1 + x + x²/2 against eˣ. Inside the "
        "validity bound, |x| < 1/2 (shaded), it stays below 3.05%."
    )
    return _done("series", caption, figure)


def _bound(found: list[dict[str, Any]]) -> Figure:
    figure, axes = _axes("true error of the score", "proven bound")
    lowest = min(min(filter(None, one["error"]), default=1e-12) for one in found)
    highest = max(max(one["bound"]) for one in found)
    for colour, one in zip(SERIES, found):
        errors = [max(value, lowest) for value in one["error"]]
        axes.plot(errors, one["bound"], ".", color=colour, markersize=2.5, label=one["name"])
    axes.plot([lowest, highest], [lowest, highest], color=INK, linewidth=0.8)
    axes.set(xscale="log", yscale="log")
    _legend(axes)
    worst = sum(one["violations"] for one in found)
    caption = (
        f"Certified bound against true error, {len(found[0]['error']):,} test rows per set, about "
        f"the default point. The line is bound = error; rows below it: {worst}."
    )
    return _done("bound", caption, figure)


def _sweep(found: list[dict[str, Any]]) -> Figure:
    from matplotlib import pyplot as plt

    with plt.rc_context(_style()):
        figure, (top, bottom) = plt.subplots(
            2, 1, figsize=(4.6, 5.2), layout="constrained", sharex=True
        )
    for colour, one in zip(SERIES, found):
        ratios = [point["ratio"] for point in one["points"]]
        shares = [100 * point["certified_by_bound"] for point in one["points"]]
        plans = [100 * point["certified_by_plan"] for point in one["points"]]
        differ = [100 * point["differ"] for point in one["points"]]
        top.plot(ratios, shares, "--", color=colour, linewidth=1)
        top.plot(ratios, plans, "-o", color=colour, markersize=3, label=one["name"])
        bottom.plot(ratios, differ, "-o", color=colour, markersize=3, label=one["name"])
    for axes, title in ((top, "certified (%)"), (bottom, "labels that differ (%)")):
        _dress(axes, "", title)
        axes.set_xscale("log")
        axes.set_xticks(SWEEP_TICKS, [f"{tick:g}" for tick in SWEEP_TICKS])
        axes.minorticks_off()
    bottom.set_xlabel("γ / γ max")
    bottom.set_yscale("symlog", linthresh=0.1)
    bottom.set_yticks(DIFFER_TICKS, [f"{tick:g}" for tick in DIFFER_TICKS])
    bottom.set_ylim(-0.02, 100)
    _legend(top)
    wrong = sum(point["certified_differ"] for one in found for point in one["points"])
    caption = (
        f"Models trained on {found[0]['train_rows']:,} rows at each γ, {found[0]['rows']:,} test "
        "rows, both drawn at random. Above, the share of test rows decided without the exact "
        "model: by the O(1) bound alone (dashed), by a certified plan with one cell (solid; "
        "0 where the plan is the exact engine). Below, the labels of the form alone "
        f"that differ from the exact model's. Certified labels that differ: {wrong:g}."
    )
    return _done("sweep", caption, figure)


def _vectors(found: list[dict[str, Any]]) -> Figure:
    figure, axes = _axes("support vectors", "microseconds per row")
    names = dict.fromkeys(name for point in found for name in point["microseconds"])
    for colour, name in zip(SERIES, names):
        known = [point for point in found if name in point["microseconds"]]
        axes.plot(
            [point["support_vectors"] for point in known],
            [point["microseconds"][name] for point in known],
            "-o",
            color=colour,
            markersize=3,
            label={"kernelite none": "paper's form (kernelite none)"}.get(name, name),
        )
    axes.set(xscale="log", yscale="log")
    axes.set_xticks([point["support_vectors"] for point in found])
    axes.set_xticklabels([f"{point['support_vectors']:,}" for point in found])
    axes.minorticks_off()
    _legend(axes, 2)
    caption = (
        "Time per row against the number of support vectors: exact evaluation grows with it, the "
        "paper's form does not, and a certified model hardly. Generated models of 22 features at "
        "γ = γ max / 2, 20,000 rows, best of the repeats."
    )
    return _done("vectors", caption, figure)


def _style() -> dict[str, Any]:
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "kernelite",
        "font.size": 9,
        "text.color": INK,
        "axes.edgecolor": LINE,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
    }


def _axes(x: str, y: str) -> tuple[Any, Any]:
    from matplotlib import pyplot as plt

    with plt.rc_context(_style()):
        figure, axes = plt.subplots(figsize=(4.6, 3.2), layout="constrained")
    _dress(axes, x, y)
    return figure, axes


def _dress(axes: Any, x: str, y: str) -> None:
    axes.set(xlabel=x, ylabel=y)
    axes.grid(color=LINE, linewidth=0.5)
    axes.tick_params(colors=INK, which="both")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _legend(axes: Any, columns: int = 3) -> None:
    axes.legend(
        frameon=False,
        fontsize=8,
        labelcolor=INK,
        markerscale=1.5,
        ncols=columns,
        columnspacing=1.2,
        handletextpad=0.5,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
    )


def _done(name: str, caption: str, figure: Any) -> Figure:
    from matplotlib import pyplot as plt

    with plt.rc_context(_style()), io.StringIO() as text:
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        svg = text.getvalue()
    plt.close(figure)
    return Figure(name, caption, _as_variables(svg, name))


def _as_variables(svg: str, name: str) -> str:
    """Colours become variables, ids unique in a page, sizes those of the container."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    svg = re.sub(r'xlink:href="#([^"]+)"', rf'xlink:href="#{name}-\1"', svg)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    # Text inherits the page's font; a size of its own would not fit a phone.
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font: \1px system-ui, sans-serif", svg)
    return re.sub(
        r'<svg([^>]*?) width="[^"]*"', r"<svg\1", re.sub(r' height="[^"]*pt"', "", svg, count=1)
    )
