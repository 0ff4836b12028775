"""Pictures of a report as inline SVG whose colours are the page's own variables.

In: a `Measured`. Out: SVG text. Matplotlib draws with stand-in colours that are then replaced by
CSS variables, so one picture serves light, dark and print.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.model import CompiledModel
from kernelite.model.report.measure import TIERS, Compared, Measured, margins_of
from kernelite.model.report.words import NEEDS, duration, sized
from kernelite.support.errors import optional

__all__ = ["bars", "bound_against_error", "margin_histogram", "radius_histogram", "residuals"]

INK, MUTED, FAINT = "#010203", "#010204", "#010205"
TIER_COLOURS = ("#0a0b01", "#0a0b02", "#0a0b03")
VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    FAINT: "var(--line)",
    TIER_COLOURS[0]: "var(--tier-0)",
    TIER_COLOURS[1]: "var(--tier-1)",
    TIER_COLOURS[2]: "var(--tier-2)",
}
MOST_POINTS = 1200
FIGURE_INCHES = (4.7, 3.3)  # inches of 72 CSS pixels: as wide as a telephone
FIGURE_STYLE: dict[Any, Any] = {
    "axes.edgecolor": FAINT,
    "axes.labelcolor": MUTED,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "font.size": 10.5,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "legend.labelcolor": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "kernelite",
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
}


def residuals(measured: Measured) -> str:
    """The form's errors against exact scores, with the certified band about zero."""
    assert measured.exact is not None
    exact, picked = measured.exact, _picked(measured)
    x, y = exact[picked].ravel(), (measured.form - exact)[picked].ravel()
    tier = np.repeat(measured.tier[picked], exact.shape[1])

    def draw(axes: Any) -> None:
        if measured.bounds is not None:
            _band(axes, exact.ravel(), measured.bounds.ravel())
        axes.axhline(0.0, color=MUTED, linewidth=0.8, zorder=1)
        _scatter(axes, x, y, tier, named=True)
        axes.set_xlabel("exact score")
        axes.set_ylabel("the form's score − exact score")
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + 0.4 * (high - low))  # room for the legend
        axes.legend(loc="upper left", handletextpad=0.3)

    return _drawn(draw, "residuals", "Errors of the form against exact scores.")


def margin_histogram(model: CompiledModel, measured: Measured) -> str:
    """How far rows are from another label, stacked by the tier that decided them."""
    margin = margins_of(model, measured.served)
    assert margin is not None
    top = float(np.quantile(margin, 0.995)) or 1.0
    edges = np.linspace(0.0, top, 41)

    def draw(axes: Any) -> None:
        floor = np.zeros(40)
        for index, colour in enumerate(TIER_COLOURS):
            mine = np.minimum(margin[measured.tier == index], top)
            heights, _ = np.histogram(mine, edges)
            if len(mine):
                label = f"{TIERS[index]}: {len(mine):,} rows"
                options = {"bottom": floor, "align": "edge", "color": colour, "label": label}
                axes.bar(edges[:-1], heights, np.diff(edges), edgecolor="none", **options)
                floor = floor + heights
        axes.set_xlabel("margin: distance of the score from another label")
        axes.set_ylabel("rows")
        axes.set_xlim(0.0, top)
        axes.legend(loc="best", handlelength=1.0)

    return _drawn(draw, "margins", "Histogram of margins by what decided the rows.")


def radius_histogram(radii: FloatArray) -> str:
    """How far rows may move before their label can change."""
    top = float(np.quantile(radii, 0.995)) or 1.0

    def draw(axes: Any) -> None:
        heights, edges = np.histogram(np.minimum(radii, top), np.linspace(0.0, top, 31))
        axes.bar(edges[:-1], heights, np.diff(edges), align="edge", color=TIER_COLOURS[0])
        axes.set_xlabel("proven radius: no nearer point has another label")
        axes.set_ylabel("rows")
        axes.set_xlim(0.0, top)

    return _drawn(draw, "radii", "Histogram of how far labels hold.")


def bound_against_error(measured: Measured) -> str:
    """The certificate against the true error, row by row; nothing may lie above the diagonal."""
    assert measured.exact is not None
    assert measured.bounds is not None
    picked = _picked(measured)
    bound = measured.bounds[picked].ravel()
    error = np.maximum(measured.errors()[picked].ravel(), _floor(measured))
    tier = np.repeat(measured.tier[picked], measured.exact.shape[1])

    def draw(axes: Any) -> None:
        ends = [min(error.min(), bound.min()), bound.max()]
        dashes = (0, (4, 2))
        axes.plot(ends, ends, color=INK, linewidth=0.9, linestyle=dashes, label="error = bound")
        _scatter(axes, bound, error, tier, named=False)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("proven bound")
        axes.set_ylabel("true error of the form")
        axes.legend(loc="upper left")

    return _drawn(draw, "bounds", "True error against proven bound, both logarithmic.")


def bars(model: CompiledModel, measured: Measured, compared: Compared | None = None) -> str:
    """Time per row and bytes of all that is held, compiled against exact and the original."""
    times = {"compiled": measured.timed.compiled}
    if measured.timed.exact is not None:
        times["exact"] = measured.timed.exact
    if compared is not None:
        times = {"compiled": compared.compiled, "original": compared.seconds}
    sizes = {"compiled": float(model.nbytes)}
    if model.expansion is not None:
        sizes["exact"] = float(model.expansion.nbytes)

    def draw(axes: Any) -> None:
        _bar_pair(axes[0], times, "time per row", duration)
        _bar_pair(axes[1], sizes, "size of the arrays", lambda value: sized(int(value)))

    return _drawn(draw, "bars", "Time and size, compiled and exact.", columns=2)


def _bar_pair(
    axes: Any, values: dict[str, float], title: str, shown: Callable[[float], str]
) -> None:
    """Upright bars on a logarithmic axis, each with its number."""
    colours = [TIER_COLOURS[0 if name == "compiled" else 2] for name in values]
    heights = [max(value, 1e-12) for value in values.values()]
    axes.bar(list(values), heights, color=colours, width=0.6)
    axes.set_yscale("log")
    axes.set_ylim(min(heights) / 5.0, max(heights) * 4.0)
    axes.set_xlim(-0.6, max(len(values), 2) - 0.4)
    axes.grid(visible=False, axis="x")
    axes.tick_params(axis="y", labelleft=False, which="both", length=0)
    for place, value in enumerate(heights):
        axes.text(place, value * 1.15, shown(value), ha="center", va="bottom")
    axes.set_xlabel(title)


def _scatter(axes: Any, x: FloatArray, y: FloatArray, tier: Any, *, named: bool) -> None:
    for index, colour in enumerate(TIER_COLOURS):
        mine = tier == index
        if mine.any():
            label = f"decided by the {TIERS[index]}" if named else None
            axes.scatter(x[mine], y[mine], s=7, color=colour, linewidths=0, label=label)


def _band(axes: Any, x: FloatArray, bound: FloatArray) -> None:
    """The median bound of rows with about that score, above and below zero."""
    edges = np.unique(np.quantile(x, np.linspace(0.0, 1.0, 31)))
    if len(edges) < 3:
        return
    cell = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)
    full = np.unique(cell)  # of a few rows, some cells are empty
    middle = np.array([np.median(bound[cell == i]) for i in full])
    # From the first score to the last, each cell's bound at its middle.
    at = np.concatenate([edges[:1], 0.5 * (edges[full] + edges[full + 1]), edges[-1:]])
    width = np.concatenate([middle[:1], middle, middle[-1:]])
    options = {"color": TIER_COLOURS[0], "alpha": 0.18, "linewidth": 0, "zorder": 0}
    axes.fill_between(at, -width, width, label="± proven bound (median)", **options)


def _picked(measured: Measured) -> NDArray[np.intp]:
    """Rows to draw: evenly spread, and all those that did not stop at the form, within reason."""
    k = measured.served.shape[1]
    most = max(50, MOST_POINTS // k)
    spread = np.unique(np.linspace(0, measured.rows - 1, min(most, measured.rows)).astype(np.intp))
    others = np.flatnonzero(measured.tier > 0)[: most // 3]
    return np.union1d(spread, others)


def _floor(measured: Measured) -> float:
    """What stands for an error of zero on a logarithmic axis."""
    errors: FloatArray = measured.errors()
    positive = errors[errors > 0]
    return float(positive.min()) if positive.size else 1e-17


def _drawn(draw: Callable[[Any], None], name: str, label: str, columns: int = 1) -> str:
    """What `draw` puts on axes, as SVG; all of it under our style, none of it global."""
    matplotlib, figures = (optional(f"matplotlib{m}", *NEEDS) for m in ("", ".figure"))
    stream = io.StringIO()
    with matplotlib.rc_context(FIGURE_STYLE):
        figure = figures.Figure(figsize=FIGURE_INCHES, layout="constrained")
        axes = figure.subplots(1, columns)
        for one in np.atleast_1d(axes):
            one.grid(color=FAINT, linewidth=0.5)
        draw(axes)
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return _themed(stream.getvalue(), name, label)


def _themed(text: str, name: str, label: str) -> str:
    """SVG text without size, fonts and colours of its own, and with names used once a page."""
    text = text[text.index("<svg") :]
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, variable)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    text = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", text)
    text = re.sub(r"font-family: [^;\"]*;?", "", text)
    text = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
