"""A page about a compiled model: what it was, what it promises, how it did on some rows.

`measure` computes what is shown, `words` and `figures` tell it. Here they are put together: one
self-contained HTML page, without scripts or network, light, dark and in print. Jinja2 escapes all
that comes from users.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Any

from kernelite import __version__
from kernelite.model import CompiledModel
from kernelite.model.report import figures, words
from kernelite.model.report.measure import (
    TIERS,
    Compared,
    Held,
    Measured,
    compare,
    held_rows,
    margins_of,
    measure,
    nearest_rows,
)
from kernelite.support.errors import optional
from kernelite.support.files import atomic_write

__all__ = ["page_of", "report", "write"]

MOST_CANDIDATES = 8


@dataclass(frozen=True)
class Picture:
    """An SVG with its title and what one should see in it."""

    title: str
    svg: str
    caption: str


class Page(str):
    """HTML that shows itself: as a frame in notebooks, as one line elsewhere.

    Examples
    --------
    >>> Page("<!doctype html><p>Hello</p>")
    <report: 27 characters of HTML; `print` shows them, `fast.report(X, "report.html")` writes them>
    """

    def __repr__(self) -> str:
        return (
            f"<report: {len(self):,} characters of HTML; `print` shows them, "
            '`fast.report(X, "report.html")` writes them>'
        )

    def _repr_html_(self) -> str:
        # In a frame, so that the page's styles do not reach the notebook.
        style = "width:100%;height:40em;border:1px solid currentColor"
        return (
            f'<iframe title="report" style="{style}" srcdoc="{escape(self, quote=True)}"></iframe>'
        )


def report(
    compiled: CompiledModel,
    X: Any,
    /,
    *,
    model: Any = None,
    exact: CompiledModel | None = None,
    rows_name: str = "",
) -> Page:
    """A page about a model and how it does on some rows.

    Parameters
    ----------
    compiled : CompiledModel
    X : array-like of shape (m, d)
        Rows; no labels needed. At most 5,000 of them are looked at.
    model : estimator, optional
        The model that was compiled: labels or values, and speed, are then compared with its own.
    exact : CompiledModel, optional
        The exact model, where `compiled` (with guarantee "none") holds no support vectors.
    rows_name : str
        What the page calls the rows, e.g. a file's name.

    Returns
    -------
    Page
        HTML, a `str`.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("jinja2"), pytest.importorskip("matplotlib")
    >>> import kernelite
    >>> bump = kernelite.KernelExpansion([[0.0], [1.0]], [2.0, 1.0], 0.5, gamma=0.01)
    >>> page = report(kernelite.compile(bump), [[0.0], [0.5], [2.0]])
    >>> page.startswith("<!doctype html>")
    True
    """
    return Page(page_of(compiled, X, original=model, exact=exact, rows_name=rows_name)[0])


def page_of(
    model: CompiledModel,
    X: Any,
    /,
    *,
    original: Any = None,
    exact: CompiledModel | None = None,
    rows_name: str = "",
) -> tuple[str, Measured, Compared | None]:
    """The page, and the measurements that it shows."""
    environment = _environment()
    measured = measure(model, X, exact=exact)
    compared = None if original is None else compare(model, original, X)
    meaning, near = nearest_rows(model, measured)
    held = held_rows(model, X, measured)
    plan = model.plan
    page = environment.get_template("report.html").render(
        version=__version__,
        description=model.origin.description,
        model=model,
        rows_name=rows_name,
        promise=words.promise(model),
        headline=words.headline(model, measured, compared),
        model_facts=words.model_facts(model),
        plan_words=words.plan_words(model),
        plan_notes=[note.replace("`", "") for note in plan.said],
        plan_rows=plan.rows()[: MOST_CANDIDATES + 1],
        plan_more=max(0, len(plan.others) - MOST_CANDIDATES),
        pictures=_pictures(model, measured, compared, held),
        missing=_missing(model, measured),
        meaning=meaning,
        near=near,
        held=[] if held is None else held.rows,
        labels=model.head.proves_labels,
        facts=words.facts(model, measured, compared),
        tiers=TIERS,
    )
    return str(page), measured, compared


def write(page: str, path: str | os.PathLike[str], /) -> None:
    """Write a page to a file, whole or not at all."""
    with atomic_write(path) as file:
        file.write(page)


def _pictures(
    model: CompiledModel, measured: Measured, compared: Compared | None, held: Held | None
) -> list[Picture]:
    from markupsafe import Markup

    drawn = _drawn(model, measured, compared, held)
    return [Picture(title, Markup(svg), caption) for title, svg, caption in drawn]


def _drawn(
    model: CompiledModel, measured: Measured, compared: Compared | None, held: Held | None
) -> Iterator[tuple[str, str, str]]:
    """Title, picture and caption of each for which there is something to show."""
    formed, compares = model.approximation is not None, measured.exact is not None
    if formed and compares:
        yield "Error of each score", figures.residuals(measured), ABOUT_ERRORS
    if margins_of(model, measured.served) is not None:
        caption = f"{ABOUT_TIERS if formed else ''}The last bar holds all rows with larger margins."
        yield "Margins, by who decided", figures.margin_histogram(model, measured), caption
    if formed and compares and measured.bounds is not None:
        yield "Bound against true error", figures.bound_against_error(measured), ABOUT_BOUNDS
    if formed and (model.expansion is not None or measured.timed.exact is not None):
        yield "Speed and size", figures.bars(model, measured, compared), ABOUT_COSTS
    if held is not None:
        caption = f"For {len(held.radii):,} rows, {ABOUT_RADII}"
        yield "How far labels hold", figures.radius_histogram(held.radii), caption


ABOUT_ERRORS = (
    "Each point is a score of a row: how far the form's is from the exact one. On the line they "
    "agree; the band is the proven bound for rows with about that score."
)
ABOUT_TIERS = "Rows far from a boundary are decided by the form; those near it are handed on. "
ABOUT_BOUNDS = (
    "A proof holds when no point lies above the dashed line. How far below they lie is how "
    "cautious the bound is."
)
ABOUT_COSTS = (
    "Logarithmic: each grid line is a factor of ten. Time was measured on this machine, on these "
    "rows, the models taking turns. Size is all that a model holds, support vectors included."
)
ABOUT_RADII = (
    "a distance, in the units of the columns, within which no point has another label under the "
    "exact model. The last bar holds all rows whose labels hold farther."
)


def _missing(model: CompiledModel, measured: Measured) -> str:
    """Why pictures are missing, if any."""
    if model.approximation is None:
        return "This plan sums all support vectors, so there is no form to compare with that."
    if measured.exact is None:
        return (
            "This model holds no support vectors, so nothing could be compared with the exact "
            "model; name it (`exact=`, on the command line --exact) to see errors."
        )
    if measured.bounds is None:
        return "This model carries no certificate, so no bounds are shown."
    return ""


def _environment() -> Any:
    jinja2 = optional("jinja2", *words.NEEDS)
    folder = resources.files("kernelite.model.report").joinpath("templates")

    def load(name: str) -> str:
        return folder.joinpath(name).read_text("utf-8")

    return jinja2.Environment(
        loader=jinja2.FunctionLoader(load),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
