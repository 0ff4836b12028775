"""A compiled model in a notebook: what it was, what it promises, what the plan chose.

In: a compiled model. Out: a short piece of HTML without scripts; every text in it is escaped, since
feature names, labels and descriptions may come from files.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelite.model.fields import ModelFields
    from kernelite.planning.plan import Plan

__all__ = ["model_html"]

MOST_CANDIDATES = 6
STYLE = "border-collapse:collapse;font-size:90%"
CELL = "padding:2px 10px 2px 0;text-align:left;vertical-align:top"


def model_html(model: ModelFields, /) -> str:
    """The model's representation in notebooks.

    Parameters
    ----------
    model : CompiledModel

    Returns
    -------
    str

    Examples
    --------
    >>> import kernelite
    >>> bump = kernelite.KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0)
    >>> page = model_html(kernelite.compile(bump, guarantee="exact"))
    >>> page.startswith("<div") and "gamma 1" in page
    True
    """
    facts = _table([(name, str(value)) for name, value in _facts(model)], header=None)
    title = escape(f"{type(model).__name__}: {model.origin.description}")
    return (
        f"<div><b>{title}</b>{facts}"
        f"<details><summary>plan: {escape(model.plan.chosen.name)}</summary>"
        f"{_plan(model.plan)}</details></div>"
    )


def _facts(model: ModelFields) -> list[tuple[str, Any]]:
    chosen = model.plan.chosen
    facts: list[tuple[str, Any]] = [
        ("guarantee", model.guarantee),
        ("answers", ", ".join(sorted(model.offers))),
        ("features", getattr(model, "n_features_in_", "text")),
        ("falls back", f"{100 * chosen.open_share:.2f}% of rows"),
        ("bytes", f"{model.nbytes:,}"),
    ]
    if model.plan.speed_up == model.plan.speed_up:  # not NaN
        gain = f"{model.plan.speed_up:,.3g} times faster than exact"
        facts.insert(3, ("expected", f"{chosen.nanoseconds:,.0f} ns per row, {gain}"))
    if model.tolerance is not None:
        shown = ", ".join(f"{value:.3g}" for value in model.tolerance[:4])
        facts.append(("tolerance", shown + (", ..." if len(model.tolerance) > 4 else "")))
    return facts


def _plan(plan: Plan) -> str:
    rows = plan.rows()
    notes = "".join(f"<p>{escape(note)}</p>" for note in plan.notes)
    more = len(rows) - MOST_CANDIDATES - 1
    left = f"<p>and {more} more</p>" if more > 0 else ""
    header = ("candidate", "ns per row", "falls back", "bytes", "verdict")
    return _table([tuple(row) for row in rows[: MOST_CANDIDATES + 1]], header) + left + notes


def _table(rows: list[tuple[str, ...]], header: tuple[str, ...] | None) -> str:
    lines = []
    if header is not None:
        cells = "".join(f'<th style="{CELL}">{escape(name)}</th>' for name in header)
        lines.append(f"<tr>{cells}</tr>")
    for row in rows:
        cells = "".join(f'<td style="{CELL}">{escape(cell)}</td>' for cell in row)
        lines.append(f"<tr>{cells}</tr>")
    return f'<table style="{STYLE}">{"".join(lines)}</table>'
