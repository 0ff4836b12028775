"""A plan in a notebook: the choice, what it is expected to cost, and why the others lost.

In: a plan. Out: a short piece of HTML without scripts, in the notebook's own colours; every text in
it is escaped, since notes may name features and labels that came from files.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelite.planner.plan import Plan

__all__ = ["candidates", "cost", "plan_html", "table"]

MOST_CANDIDATES = 6
HEADER = ("candidate", "ns per row", "falls back", "bytes", "verdict")
STYLE = "border-collapse:collapse;font-size:90%;margin:4px 0"
CELL = "padding:2px 14px 2px 0;text-align:left;vertical-align:top;border:none"
HEAD = f"{CELL};border-bottom:1px solid currentColor"
CHOSEN = f"{CELL};font-weight:600"


def plan_html(plan: Plan, /) -> str:
    """The plan's representation in notebooks.

    Parameters
    ----------
    plan : Plan

    Returns
    -------
    str

    Examples
    --------
    >>> from kernelite.planner.plan import Candidate, Plan
    >>> exact = Candidate("exact", 900.0, 1.0, 80_000, "no form is cheaper")
    >>> plan_html(Plan("certified", exact, (), 900.0)).startswith("<div><b>certified: exact</b>")
    True
    """
    return f"<div><b>{escape(plan.summary)}</b><p>{escape(cost(plan))}</p>{candidates(plan)}</div>"


def cost(plan: Plan) -> str:
    """What the choice is expected to cost, in a sentence."""
    chosen = plan.chosen
    if plan.is_exact:
        return f"Expected: {chosen.nanoseconds:,.0f} ns per row, on the exact engine."
    gain = "" if math.isnan(plan.speed_up) else f", {plan.speed_up:,.3g} times faster than exact"
    return (
        f"Expected: {chosen.nanoseconds:,.0f} ns per row{gain}; "
        f"{100 * chosen.open_share:.2f}% of rows fall back to the exact model."
    )


def candidates(plan: Plan) -> str:
    """The table of candidates, the chosen one first, and the notes."""
    rows = plan.rows()
    more = len(rows) - MOST_CANDIDATES - 1
    left = f"<p>and {more} more</p>" if more > 0 else ""
    notes = "".join(f"<p>{escape(note)}</p>" for note in plan.notes)
    shown = [tuple(row) for row in rows[: MOST_CANDIDATES + 1]]
    return table(shown, HEADER, first=CHOSEN) + left + notes


def table(
    rows: list[tuple[str, ...]], header: tuple[str, ...] | None = None, first: str = CELL
) -> str:
    """Rows of text as a table; `first` is the style of the first row's cells."""
    lines = []
    if header is not None:
        cells = "".join(f'<th style="{HEAD}">{escape(name)}</th>' for name in header)
        lines.append(f"<tr>{cells}</tr>")
    for i, row in enumerate(rows):
        style = CELL if i else first
        cells = "".join(f'<td style="{style}">{escape(cell)}</td>' for cell in row)
        lines.append(f"<tr>{cells}</tr>")
    return f'<div style="overflow-x:auto"><table style="{STYLE}">{"".join(lines)}</table></div>'
