"""A compiled model in a notebook: what it was, what it promises, what the plan chose.

In: a compiled model. Out: a short piece of HTML without scripts; every text in it is escaped, since
feature names, labels and descriptions may come from files.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

from kernelite.planner.html import candidates, table

if TYPE_CHECKING:
    from kernelite.model.fields import ModelFields

__all__ = ["model_html"]


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
    facts = table([(name, str(value)) for name, value in _facts(model)])
    title = escape(f"{type(model).__name__}: {model.origin.description}")
    return (
        f"<div><b>{title}</b>{facts}"
        f"<details><summary>plan: {escape(model.plan.chosen.name)}</summary>"
        f"{candidates(model.plan)}</details></div>"
    )


def _facts(model: ModelFields) -> list[tuple[str, Any]]:
    chosen = model.plan.chosen
    facts: list[tuple[str, Any]] = [
        ("guarantee", model.guarantee),
        ("answers", ", ".join(sorted(model.offers))),
        ("features", getattr(model, "n_features_in_", "text")),
        ("bytes", f"{model.nbytes:,}"),
    ]
    if not math.isnan(model.plan.speed_up):
        gain = f", {model.plan.speed_up:,.3g} times faster than exact"
        cost = f"{chosen.nanoseconds:,.0f} ns per row{'' if model.plan.is_exact else gain}"
        facts.insert(3, ("expected", cost))
    if not model.plan.is_exact:
        facts.insert(-1, ("falls back", f"{100 * chosen.open_share:.2f}% of rows"))
    if model.tolerance is not None:
        shown = ", ".join(f"{value:.3g}" for value in model.tolerance[:4])
        facts.append(("tolerance", shown + (", ..." if len(model.tolerance) > 4 else "")))
    return facts
